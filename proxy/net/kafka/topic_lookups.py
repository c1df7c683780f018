"""Names of topic ids that the proxy does not know, asked of the broker for all clients that wait (KIP-516).

Fed by proxy.net.clients.listener with the ids that requests name. The names go into Gate.topic_names, then
the waiting connections continue. There is one question at a time, on a connection of the proxy's own, with
the ids of all who wait by then, each once. Principals take turns in it, however many ids they want, so one
with a million of them holds nobody else up. Memory is bounded by the connections: each has one request
waiting, and its ids take no more bytes here than in that request.
"""

import asyncio
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from typing import Protocol, TypeAlias

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.net.runtime.chunked import done_in_pieces, in_pieces, in_slices
from proxy.net.runtime.clock import now_ms
from proxy.session.topic_names import TopicNames
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError

MAX_IDS = 200
"""In one question: its response has all partitions of these topics."""

IDS_PER_TURN = 20
"""Of one principal, before it is the next one's turn."""

TIMEOUT_MS = 5_000
"""For a question, a new connection included. When it fails the ids are unknown for all who wait."""

RETRY_S = 1.0
"""Between a question that failed and the next one. Requests that name unknown ids wait meanwhile."""

_METADATA_VERSIONS = 12, codecs.request_versions(ApiKey.METADATA)[-1]
_ID_BYTES = 16

log = structlog.get_logger(__name__)

Topic: TypeAlias = "types.MetadataResponse.MetadataResponseTopic"


class Waiter(Protocol):
    """A connection."""

    def topics_looked_up(self) -> None:
        """The names are known, as far as the broker knows them."""


class _Wanted:
    """The ids that one waiter waits for."""

    __slots__ = ("_position", "_topic_ids", "waiter")

    def __init__(self, waiter: Waiter, topic_ids: bytes) -> None:
        self.waiter: Waiter | None = waiter
        self._topic_ids = topic_ids
        self._position = 0

    def next_id(self) -> bytes | None:
        """None behind the last one."""
        start = self._position
        self._position += _ID_BYTES
        return self._topic_ids[start : self._position] or None

    def drop(self) -> None:
        """Nobody waits for them any more."""
        self.waiter, self._topic_ids = None, b""


class TopicLookups:
    """Of one proxy, or of one of its workers."""

    def __init__(self, names: TopicNames, endpoint: EndpointSettings) -> None:
        self._names = names
        self._endpoint = endpoint
        self._channel: Channel | None = None
        self._lines: dict[Hashable, deque[_Wanted]] = {}  # By owner, in the order of their turns.
        self._waiting: dict[Waiter, _Wanted] = {}
        self._running = self._closed = False
        self._is_failing = self._is_denied = False
        self.questions = 0
        """That the broker was asked."""
        self.failures = 0
        """Of these, without a response."""
        self.unknown = 0
        """Ids that the broker had no name for."""

    @property
    def waiting(self) -> int:
        """Connections that wait."""
        return len(self._waiting)

    def want(self, owner: Hashable, waiter: Waiter, topic_ids: bytes, tasks: asyncio.TaskGroup) -> None:
        """Have the broker name these ids, of 16 bytes each; then `waiter` is told, unless it leaves before.

        `owner`: whose turn it takes; `tasks`: where the question is asked.
        """
        wanted = self._waiting[waiter] = _Wanted(waiter, topic_ids)
        self._lines.setdefault(owner, deque()).append(wanted)
        if not self._running:
            self._running = True
            tasks.create_task(self._run())

    def leave(self, waiter: Waiter) -> None:
        """It is gone, and waits no longer."""
        wanted = self._waiting.pop(waiter, None)
        if wanted is not None:
            wanted.drop()

    async def close(self) -> None:
        """Ask no more; a question on its way ends without a response."""
        self._closed = True
        await self._hang_up()

    async def _run(self) -> None:
        """Ask until nobody waits."""
        try:
            while self._lines and not self._closed:
                if not await self._ask_once():
                    self._lines.clear()
                    await self._release(list(self._waiting.values()))
                    await asyncio.sleep(RETRY_S)
        finally:
            self._running = False
            if self._closed:
                await self._hang_up()

    async def _ask_once(self) -> bool:
        """Whether that went well; otherwise nobody is to wait any longer."""
        question: dict[bytes, None] = {}
        complete: list[_Wanted] = []
        try:
            await done_in_pieces(self._gathered(question, complete))
            if question and not await self._ask(list(question)):
                return False
        except Exception:  # The task boundary: a fault ends no proxy and leaves nobody waiting.
            log.exception("fault while topic ids were looked up")
            return False
        await self._release(complete)
        return True

    async def _release(self, complete: list[_Wanted]) -> None:
        async for wanted in in_pieces(complete):
            if wanted.waiter is not None:
                del self._waiting[wanted.waiter]
                wanted.waiter.topics_looked_up()

    def _gathered(self, question: dict[bytes, None], complete: list[_Wanted]) -> Iterator[None]:
        """Fill a question, and list those who are done with it; a step for each id that is looked at."""
        while self._lines and len(question) < MAX_IDS:
            owner = next(iter(self._lines))
            line = self._lines.pop(owner)
            for _ in range(IDS_PER_TURN):
                if not line or len(question) >= MAX_IDS:
                    break
                topic_id = line[0].next_id()
                if topic_id is None:
                    complete.append(line.popleft())
                elif not self._is_settled(topic_id):
                    question[topic_id] = None
                yield
            line.extend(self._lines.pop(owner, ()))  # That came meanwhile.
            if line:
                self._lines[owner] = line

    def _is_settled(self, topic_id: bytes) -> bool:
        """Whether the broker need not be asked, for somebody else's request has asked already."""
        return self._names.name(topic_id) is not None or self._names.is_missing(topic_id, now_ms())

    async def _ask(self, topic_ids: list[bytes]) -> bool:
        """Learn the names of these; False when the broker did not respond."""
        self.questions += 1
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                topics = await self._described(topic_ids)
        except (ChannelError, WireError, TimeoutError) as error:
            self.failures += 1
            self._tell(str(error) or f"no response within {TIMEOUT_MS} ms")
            await self._hang_up()
            return False
        self._tell(None)
        for topic in topics:
            if topic.name:
                self._names.learn(bytes(topic.topic_id), topic.name)
            elif topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self._tell_denial()
        moment_ms = now_ms()
        for topic_id in topic_ids:
            if self._names.name(topic_id) is None:
                self.unknown += 1
                self._names.note_missing(topic_id, moment_ms)
        return True

    async def _described(self, topic_ids: Iterable[bytes]) -> list[Topic]:
        """The broker's topics of these ids. A connection that has been idle may be closed: then a new one."""
        if self._channel is not None and not self._channel.closed:
            try:
                return await self._exchange(self._channel, topic_ids)
            except ChannelError:
                if self._closed:
                    raise
                await self._hang_up()
        self._channel = await Channel.open(self._endpoint)
        return await self._exchange(self._channel, topic_ids)

    async def _exchange(self, channel: Channel, topic_ids: Iterable[bytes]) -> list[Topic]:
        version = channel.version(ApiKey.METADATA, _METADATA_VERSIONS)
        asked = types.MetadataRequest.MetadataRequestTopic
        message = types.MetadataRequest(
            topics=[asked(name=None, topic_id=topic_id) for topic_id in topic_ids],
            allow_auto_topic_creation=False,
        )
        body = codecs.of(types.MetadataRequest, version).encode(message)
        response = await channel.send_body(ApiKey.METADATA, version, self._endpoint.client_id, body)
        # Partitions may be very many, and are stepped over.
        codec = codecs.response(ApiKey.METADATA, version, ("topics.partitions",))
        decoded, _ = await in_slices(partial(codec.decode, response))
        topics: list[Topic] = decoded.topics
        return topics

    async def _hang_up(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    def _tell(self, trouble: str | None) -> None:
        """One line for each change of state."""
        if (trouble is not None) == self._is_failing or self._closed:
            return
        self._is_failing = trouble is not None
        if trouble is not None:
            log.warning("topic ids cannot be looked up", broker=self._endpoint.address, error=trouble)
        else:
            log.info("topic ids can be looked up again", broker=self._endpoint.address)

    def _tell_denial(self) -> None:
        """Once: how often it happens is up to clients."""
        if not self._is_denied:
            self._is_denied = True
            hint = "grant it DESCRIBE on all topics, or requests by topic id fail with UNKNOWN_TOPIC_ID"
            log.warning("the broker denies the proxy a topic", broker=self._endpoint.address, hint=hint)


class TopicLookupSeries(Collector):
    """What lookups cost, at each scrape."""

    def __init__(self, lookups: TopicLookups) -> None:
        self._lookups = lookups

    def collect(self) -> Iterable[Metric]:
        lookups = self._lookups
        yield CounterMetricFamily(
            "penstock_topic_lookups_total",
            "Questions to the broker for the names of topic ids",
            lookups.questions,
        )
        yield CounterMetricFamily(
            "penstock_topic_lookups_failed_total",
            "Questions that the broker did not answer",
            lookups.failures,
        )
        yield CounterMetricFamily(
            "penstock_topic_ids_unknown_total",
            "Topic ids that the broker had no name for",
            lookups.unknown,
        )
        yield GaugeMetricFamily(
            "penstock_topic_lookups_waiting",
            "Connections whose request waits for the name of a topic",
            lookups.waiting,
        )
