"""The audit topic as it stands, read from the broker: what the proxy and the controller have recorded."""

import json
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from tests.lab.cluster.settings import AUDIT_TOPIC

Fact = dict[str, object]
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
