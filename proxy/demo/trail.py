"""The audit topic as it stands, read from the broker: what the proxy and the controller have recorded."""

import json
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from proxy.demo.errors import SetupError
from proxy.demo.settings import AUDIT_TOPIC

Fact = dict[str, Any]
_POLL_S = 0.5


def find(broker: str, wanted: Callable[[Fact], bool], timeout_ms: int = 20_000) -> Fact | None:
    """The first fact (`data` of an audit record) that is wanted; None when it has not come by then."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "demo", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(AUDIT_TOPIC, 0, 0)])
        for _ in range(int(timeout_ms / 1000 / _POLL_S)):
            for message in consumer.consume(1000, timeout=_POLL_S):
                value = message.value()
                if (
                    value is not None
                    and message.error() is None
                    and wanted(fact := json.loads(value)["data"])
                ):
                    return dict(fact)
        return None
    finally:
        consumer.close()


def everything(broker: str, timeout_ms: int = 60_000) -> list[Fact]:
    """All facts that the topic holds when this is called, in their order there."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "demo", "enable.auto.commit": False})
    facts: list[Fact] = []
    try:
        place = TopicPartition(AUDIT_TOPIC, 0, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=timeout_ms / 1000)
        consumer.assign([place])
        for _ in range(int(timeout_ms / 1000 / _POLL_S)):
            read = [m for m in consumer.consume(1000, timeout=_POLL_S) if m.error() is None]
            facts += [json.loads(m.value() or b"{}")["data"] for m in read if (m.offset() or 0) < end]
            if (position := consumer.position([place])[0].offset) >= end:
                break
        else:
            raise SetupError(f"{AUDIT_TOPIC} was read up to {position} of {end} in {timeout_ms} ms")
    finally:
        consumer.close()
    return facts
