"""The audit topic as a broker holds it: whole trails, and what must hold of each of them."""

import json
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.lab.cluster.settings import AUDIT_TOPIC

Fact = dict[str, Any]
_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Boot:
    """Records of one process between its start and its end, in order, each once."""

    key: str
    """`<proxy_id>/<boot_id>`."""
    facts: list[Fact]

    @property
    def missing(self) -> list[int]:
        """Sequence numbers before the last one that are not there."""
        have = {fact["sequence"] for fact in self.facts}
        return sorted(set(range(max(have) + 1)) - have)

    @property
    def previous(self) -> str | None:
        """What `started` says of the boot before: `<boot_id>/<sequence>/<chain>`."""
        link: str | None = self.facts[0]["settings"].get("audit.previous")
        return link

    def of(self, event: str) -> list[Fact]:
        return [fact for fact in self.facts if fact["event"] == event]


def lines(bootstrap: str, topic: str = AUDIT_TOPIC) -> list[bytes]:
    """All of them, up to the end that the topic has now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "t", "enable.auto.commit": False})
    found: list[bytes] = []
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_TIMEOUT_S)
        consumer.assign([TopicPartition(topic, 0, 0)])
        position = 0
        while position < end:
            for message in consumer.consume(min(10_000, end - position), timeout=_TIMEOUT_S):
                assert message.error() is None, message.error()
                position = (message.offset() or 0) + 1
                found.append(message.value() or b"")
        return found
    finally:
        consumer.close()


def boots(bootstrap: str, topic: str = AUDIT_TOPIC) -> list[Boot]:
    """In the order of their first records. A number that came twice must have come with the same line."""
    by_boot: dict[str, dict[int, bytes]] = {}
    last: dict[str, int] = {}
    for line in lines(bootstrap, topic):
        data = json.loads(line)["data"]
        key, number = f"{data['proxy_id']}/{data['boot_id']}", data["sequence"]
        have = by_boot.setdefault(key, {})
        assert number in have or last.get(key, -1) < number, f"{key}: {number} behind {last[key]}"
        assert have.setdefault(number, line) == line
        last[key] = max(number, last.get(key, -1))
    return [
        Boot(key, [json.loads(have[number])["data"] for number in sorted(have)])
        for key, have in by_boot.items()
    ]
