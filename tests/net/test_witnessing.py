"""Proxies with Kafka's own controller exchange the ends of their audit trails, over a real broker."""

import asyncio

import pytest

from proxy.audit.record import AuditEvent
from proxy.audit.witnesses import Witness
from proxy.net.kafka.channel import EndpointSettings
from proxy.witnessing import Witnessing
from tests.lab.cluster.broker import Broker
from tests.support.controllers import plaintext
from tests.support.waiting import turns_until

pytestmark = [pytest.mark.kafka, pytest.mark.spec("D8")]

LINK = "ab" * 32
TIMEOUT_S = 30


class Process:
    """What one proxy has of it."""

    def __init__(self, name: str, broker: EndpointSettings, topic: str) -> None:
        self.end = f"{name}/b007/41/{LINK}"
        self.recorded: list[AuditEvent] = []
        witness = Witness(f"{name}/b007", lambda: self.end, b"s" * 32)
        self.witnessing = Witnessing(witness, broker, topic, self.recorded.append)

    @property
    def ends(self) -> list[str | None]:
        return [event.message for event in self.recorded]


async def test_two_proxies_record_each_other_soon_after_they_start(kafka: Broker, topic_name: str) -> None:
    one, other = (Process(name, plaintext(kafka), topic_name) for name in ("proxy-1", "proxy-2"))
    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(each.witnessing.run()) for each in (one, other)]
        await turns_until(lambda: bool(one.recorded and other.recorded))
        for task in running:
            task.cancel()

    assert one.ends == [other.end]
    assert other.ends == [one.end]
    assert {event.event for event in one.recorded} == {"witnessed"}
