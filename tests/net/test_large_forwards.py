"""A large request at a controller: its event loop serves others meanwhile, since a thread decides."""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Generator, Iterator
from itertools import count
from time import thread_time_ns
from typing import Any

import pytest

from forwarding.net.broker import Broker
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.runtime.chunked import SLICE_MS
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.decisions import enveloped_response
from tests.support.fake_log import FakeTopic
from tests.support.model_controllers import SENDER, Node
from tests.support.topic_requests import create_topics, delete_topics
from tests.support.two_sides import limit_request

NAMES = [f"topic-{number}" for number in range(4_000)]
TRIES = 4
FEW_SLICES_NS = 3 * SLICE_MS * 1_000_000
"""Of the event loop's own CPU time for one step of a request. Deciding takes many times as long."""
PLENTY = 1e9


def existing(names: list[str]) -> Any:
    topic, partition = t.MetadataResponse.MetadataResponseTopic, t.MetadataResponse.MetadataResponsePartition
    return t.MetadataResponse(
        topics=[
            topic(name=name, topic_id=name.encode().ljust(16), partitions=[partition()]) for name in names
        ]
    )


def created(names: list[str]) -> Any:
    result = t.CreateTopicsResponse.CreatableTopicResult
    return t.CreateTopicsResponse(topics=[result(name=name, num_partitions=1) for name in names])


def deleted(names: list[str]) -> Any:
    result = t.DeleteTopicsResponse.DeletableTopicResult
    return t.DeleteTopicsResponse(responses=[result(name=name) for name in names])


RESPONSES: dict[int, Callable[[list[str]], Any]] = {
    ApiKey.METADATA: existing,
    ApiKey.CREATE_TOPICS: created,
    ApiKey.DELETE_TOPICS: deleted,
}


class ChannelInMemory:
    """To a broker that carries everything out. The time that it takes is known."""

    def __init__(self) -> None:
        self.api_versions = dict.fromkeys(RESPONSES, (0, 12))
        self.own_ns = 0
        self.asked: list[tuple[int, int]] = []
        """The API of each request, and the number of its topics."""

    async def send(self, message: Any, versions: tuple[int, int], *, timeout_ms: int | None = None) -> Any:
        return await self.request(message.api_key, versions[1], message, timeout_ms=timeout_ms)

    async def request(
        self, api_key: int, _version: int, message: Any, *, timeout_ms: int | None = None
    ) -> Any:
        await asyncio.sleep(0)  # As long as for a response of a broker, at least.
        since_ns = thread_time_ns()
        names = [topic.name for topic in message.topics]
        self.asked.append((api_key, len(names)))
        response = RESPONSES[api_key](names)
        self.own_ns += thread_time_ns() - since_ns
        return response


class BrokerInMemory(Broker):
    def __init__(self, channel: ChannelInMemory) -> None:
        super().__init__(EndpointSettings(host="in memory", port=0))
        self.channel = channel

    async def _open(self) -> Any:
        return self.channel


class Measured:
    """Awaits something, and knows how much CPU time each step of it takes, without the broker's."""

    def __init__(self, work: Coroutine[Any, Any, Any], channel: ChannelInMemory) -> None:
        self._work = work
        self._channel = channel
        self.steps_ns: list[int] = []

    def __await__(self) -> Generator[Any, Any, Any]:
        while True:
            before_ns = thread_time_ns() - self._channel.own_ns
            try:
                waits_for = self._work.send(None)
            except StopIteration as end:
                return end.value
            finally:
                self.steps_ns.append(thread_time_ns() - self._channel.own_ns - before_ns)
            yield waits_for


class Controller:
    """One that is active."""

    def __init__(self) -> None:
        self.channel = ChannelInMemory()
        ids = count(1)
        broker = BrokerInMemory(self.channel)
        self.node = Node(FakeTopic(), lambda: next(ids).to_bytes(16, "big"), lambda: 1_000, broker)

    async def asked(self, request: Any) -> tuple[Any, list[int]]:
        """The response, and the CPU time of each step."""
        envelope = self.node.envelope(request)
        self.channel.asked.clear()
        measured = Measured(self.node.processor.serve(envelope, 1, SENDER), self.channel)
        return enveloped_response(request.api_key, await measured), measured.steps_ns


async def active(rate: float | None) -> Controller:
    controller = Controller()
    await controller.node.processor.activate()
    if rate is not None:
        limit = limit_request("admin", rate, "controller_mutation_rate")
        await controller.asked(limit)
    return controller


@pytest.fixture
def few_objects() -> Iterator[None]:
    """A collection of all that pytest has loaded would be the longest step."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.spec("O8", "E5")
@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("rate", [None, PLENTY], ids=["no-quota", "quota"])
@pytest.mark.parametrize("api_key", [ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS])
async def test_no_step_of_a_large_request_about_topics_takes_long(api_key: int, rate: float | None) -> None:
    controller = await active(rate)
    longest_ns = []
    for _ in range(TRIES):
        request = create_topics(*NAMES) if api_key == ApiKey.CREATE_TOPICS else delete_topics(*NAMES)

        response, steps_ns = await controller.asked(request)

        results = response.topics if api_key == ApiKey.CREATE_TOPICS else response.responses
        assert [(each.name, each.error_code) for each in results] == [(name, 0) for name in NAMES]
        longest_ns.append(max(steps_ns))
    # The least of some: garbage is collected within a step now and then.
    assert min(longest_ns) <= FEW_SLICES_NS, longest_ns


@pytest.mark.spec("O8", "Q11")
@pytest.mark.usefixtures("few_objects")
async def test_no_step_of_a_request_about_many_quotas_takes_long() -> None:
    controller = await active(None)
    longest_ns = []
    for _ in range(TRIES):
        request = limit_request("user-0", PLENTY, "producer_byte_rate")
        request.entries = [limit_request(name, PLENTY, "no_quota").entries[0] for name in NAMES]

        response, steps_ns = await controller.asked(request)

        assert [each.error_code for each in response.entries] == [ErrorCode.INVALID_REQUEST] * len(NAMES)
        longest_ns.append(max(steps_ns))
    assert min(longest_ns) <= FEW_SLICES_NS, longest_ns


@pytest.mark.spec("O8")
async def test_a_broker_is_asked_for_many_topics_in_several_requests() -> None:
    controller = await active(None)

    await controller.asked(delete_topics(*NAMES))

    assert controller.channel.asked == [(ApiKey.METADATA, 500)] * 8 + [(ApiKey.DELETE_TOPICS, 4_000)]
