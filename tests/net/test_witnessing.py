"""Proxies with Kafka's own controller exchange the ends of their audit trails, over a real broker."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import pytest

from proxy.app import witnessing
from proxy.app.witnessing import Witnessing
from proxy.audit.record import AuditEvent
from proxy.audit.witnesses import Witness
from proxy.net.kafka.channel import EndpointSettings
from tests.lab.cluster.broker import Broker
from tests.support.controllers import plaintext
from tests.support.waiting import turns_until

pytestmark = pytest.mark.spec("D8")

LINK = "ab" * 32
TIMEOUT_S = 30


class Process:
    """What one proxy has of it."""

    def __init__(self, name: str, broker: EndpointSettings, topic: str, boot: str = "b007") -> None:
        self.end = f"{name}/{boot}/41/{LINK}"
        self.recorded: list[AuditEvent] = []
        witness = Witness(f"{name}/{boot}", lambda: self.end, b"s" * 32)
        self.others: list[str | None] = []
        self.witnessing = Witnessing(witness, broker, topic, self.recorded.append, self.others.append)

    @property
    def ends(self) -> list[str | None]:
        return [event.message for event in self.recorded]


@pytest.mark.kafka
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


@pytest.mark.kafka
@pytest.mark.spec("O5", "D15")
async def test_two_proxies_of_one_id_learn_of_each_other(
    kafka: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witnessing, "NEWCOMER_S", 0.1)
    monkeypatch.setattr(witnessing, "INTERVAL_S", 0.5)
    one, twin = (Process("proxy-1", plaintext(kafka), topic_name, boot) for boot in ("b001", "b002"))
    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(each.witnessing.run()) for each in (one, twin)]
        await turns_until(lambda: any(one.others) and any(twin.others))
        for task in running:
            task.cancel()

    assert set(one.others) - {None} == {"boot b002"}
    assert set(twin.others) - {None} == {"boot b001"}


class TopicOfTwo:
    """One process's side of a topic. Another process writes to it for the first time while this one sends."""

    topic = "witnesses"

    def __init__(self, other: Witness) -> None:
        self._other = other
        self._receive: Callable[[bytes], None] | None = None
        self.sent: list[bytes] = []

    async def locate(self) -> None: ...

    async def close(self) -> None: ...

    async def follow(
        self,
        _partition: int,
        receive: Callable[[bytes], None],
        _reachability: object,
        begun: Callable[[], None],
    ) -> None:
        await asyncio.sleep(0.01)
        self._receive = receive
        begun()

    async def send(self, values: Mapping[int, Sequence[bytes]]) -> None:
        assert self._receive is not None, "sent before anything is read: the response would be missed"
        if not self.sent:
            self._receive(self._other.message())
        self.sent += values[0]


async def test_a_process_that_begins_while_another_one_sends_gets_a_message_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(witnessing, "NEWCOMER_S", 0.01)
    one = Process("proxy-1", EndpointSettings(host="in memory", port=0), "witnesses")
    topic = TopicOfTwo(Witness("proxy-2/b007", lambda: f"proxy-2/b007/7/{LINK}", b"s" * 32))
    monkeypatch.setattr(one.witnessing, "_topic", topic)

    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(one.witnessing.run())
        await turns_until(lambda: len(topic.sent) == 2)
        running.cancel()

    assert one.ends == [f"proxy-2/b007/7/{LINK}"]
