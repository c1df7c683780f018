"""Requests the names of unknown topic ids from the broker, for all clients that wait (KIP-516).

proxy.net.clients.listener passes the ids that requests contain. The names go into Gate.topic_names, then the
waiting connections continue. One question is in flight at a time, on a connection of the proxy's own, with
the ids of all that wait by then, each once. Principals take turns, so that one with a million ids delays no
other. Memory is bounded by the connections: each has one waiting request, and its ids take no more bytes here
than there.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from functools import partial
from typing import Protocol, TypeAlias

import structlog
from prometheus_client.core import CounterMetricFamily, Metric

from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.net.runtime.chunked import call_in_slices, iterate_in_slices, run_in_slices
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.merged_metrics import GaugeMetricFamily
from proxy.session.gate import TopicNames
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError

MAX_IDS = 200
"""Of one question. Its response has all partitions of these topics."""

IDS_PER_TURN = 20
"""Of one principal, before the next one's turn."""

TIMEOUT_MS = 5_000
"""Of a question, including a new connection. If it fails, its ids are unknown to all that wait."""

RETRY_S = 1.0
"""Pause after a failed question. Requests with unknown ids wait meanwhile."""

_METADATA_VERSIONS = 12, codecs.request_versions(ApiKey.METADATA)[-1]
_ID_BYTES = 16

log = structlog.get_logger(__name__)

Topic: TypeAlias = "types.MetadataResponse.MetadataResponseTopic"


class Waiter(Protocol):
    """A connection that waits."""

    def topics_looked_up(self) -> None:
        """Called when the names are known, as far as the broker knows them."""


class _Request:
    """The ids that one connection waits for."""

    __slots__ = ("_position", "_topic_ids", "waiter")

    def __init__(self, waiter: Waiter, topic_ids: bytes) -> None:
        self.waiter: Waiter | None = waiter
        self._topic_ids = topic_ids
        self._position = 0

    def next_id(self) -> bytes | None:
        """Return the next id; None after the last one."""
        start = self._position
        self._position += _ID_BYTES
        return self._topic_ids[start : self._position] or None

    def drop(self) -> None:
        """Cancel the request."""
        self.waiter, self._topic_ids = None, b""


class TopicLookups:
    """The lookups of one proxy or worker."""

    def __init__(self, names: TopicNames, broker: Callable[[], EndpointSettings]) -> None:
        self._names = names
        self._broker = broker
        self._channel: Channel | None = None
        self._lines: dict[Hashable, deque[_Request]] = {}  # By owner, in the order of their turns.
        self._waiting: dict[Waiter, _Request] = {}
        self._running = self._closed = False
        self._is_failing = self._is_denied = False
        self.questions = 0
        """Questions sent to the broker."""
        self.failures = 0
        """Questions without a response."""
        self.unknown = 0
        """Ids for which the broker had no name."""

    @property
    def waiting(self) -> int:
        """Connections that wait."""
        return len(self._waiting)

    def request(self, owner: Hashable, waiter: Waiter, topic_ids: bytes, tasks: asyncio.TaskGroup) -> None:
        """Request the names of these ids, of 16 bytes each; then call the waiter, unless it has cancelled.

        `owner`: the principal whose turn it is; `tasks`: the group of the task that sends questions.
        """
        wanted = self._waiting[waiter] = _Request(waiter, topic_ids)
        self._lines.setdefault(owner, deque()).append(wanted)
        if not self._running:
            self._running = True
            tasks.create_task(self._run())

    def cancel(self, waiter: Waiter) -> None:
        """Forget a waiter, which is closed."""
        wanted = self._waiting.pop(waiter, None)
        if wanted is not None:
            wanted.drop()

    async def close(self) -> None:
        """Stop; a question in flight ends without a response."""
        self._closed = True
        await self._disconnect()

    async def _run(self) -> None:
        """Send questions until no connection waits."""
        try:
            while self._lines and not self._closed:
                if not await self._next_question():
                    self._lines.clear()
                    await self._release(list(self._waiting.values()))
                    await asyncio.sleep(RETRY_S)
        finally:
            self._running = False
            if self._closed:
                await self._disconnect()

    async def _next_question(self) -> bool:
        """Send one question. False if it failed: then all waiters are to be released."""
        question: dict[bytes, None] = {}
        complete: list[_Request] = []
        try:
            await run_in_slices(self._gathered(question, complete))
            if question and not await self._send(list(question)):
                return False
        except Exception:  # The task boundary: a fault must not end the proxy or leave waiters behind.
            log.exception("Failed to look up topic ids")
            return False
        await self._release(complete)
        return True

    async def _release(self, complete: list[_Request]) -> None:
        async for wanted in iterate_in_slices(complete):
            if wanted.waiter is not None:
                del self._waiting[wanted.waiter]
                wanted.waiter.topics_looked_up()

    def _gathered(self, question: dict[bytes, None], complete: list[_Request]) -> Generator[None, None, None]:
        """Fill a question, and list the requests that end with it; one step for each id."""
        while self._lines and len(question) < MAX_IDS:
            owner = next(iter(self._lines))
            line = self._lines.pop(owner)
            for _ in range(IDS_PER_TURN):
                if not line or len(question) >= MAX_IDS:
                    break
                topic_id = line[0].next_id()
                if topic_id is None:
                    complete.append(line.popleft())
                elif self._names.name(topic_id) is None and not self._names.is_missing(topic_id, now_ms()):
                    question[topic_id] = None
                yield
            line.extend(self._lines.pop(owner, ()))  # Requests that came meanwhile.
            if line:
                self._lines[owner] = line

    async def _send(self, topic_ids: list[bytes]) -> bool:
        """Request the names and store them. False when the broker did not respond."""
        self.questions += 1
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                topics = await self._described(topic_ids)
        except (ChannelError, WireError, TimeoutError) as error:
            self.failures += 1
            self._log(str(error) or f"no response within {TIMEOUT_MS} ms")
            await self._disconnect()
            return False
        self._log(None)
        for topic in topics:
            if topic.name:
                self._names.learn(bytes(topic.topic_id), topic.name)
            elif topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and not self._is_denied:
                self._is_denied = True  # Logged once: clients determine how often it happens.
                hint = "grant it DESCRIBE on all topics, or requests by topic id fail with UNKNOWN_TOPIC_ID"
                log.warning(
                    "Broker denied DESCRIBE on a topic to the proxy", broker=self._broker().address, hint=hint
                )
        moment_ms = now_ms()
        for topic_id in topic_ids:
            if self._names.name(topic_id) is None:
                self.unknown += 1
                self._names.note_missing(topic_id, moment_ms)
        return True

    async def _described(self, topic_ids: Iterable[bytes]) -> list[Topic]:
        """Request the topics with these ids. If the old connection was closed while idle, open a new one."""
        if self._channel is not None and not self._channel.closed:
            try:
                return await self._exchange(self._channel, topic_ids)
            except ChannelError:
                if self._closed:
                    raise
                await self._disconnect()
        self._channel = await Channel.open(self._broker())
        return await self._exchange(self._channel, topic_ids)

    async def _exchange(self, channel: Channel, topic_ids: Iterable[bytes]) -> list[Topic]:
        version = channel.version(ApiKey.METADATA, _METADATA_VERSIONS)
        topic = types.MetadataRequest.MetadataRequestTopic
        message = types.MetadataRequest(
            topics=[topic(name=None, topic_id=topic_id) for topic_id in topic_ids],
            allow_auto_topic_creation=False,
        )
        body = codecs.of(types.MetadataRequest, version).encode(message)
        response = await channel.send_body(ApiKey.METADATA, version, channel.endpoint.client_id, body)
        # There may be very many partitions: skip them.
        codec = codecs.response(ApiKey.METADATA, version, ("topics.partitions",))
        decoded, _ = await call_in_slices(partial(codec.decode, response))
        topics: list[Topic] = decoded.topics
        return topics

    async def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    def _log(self, error: str | None) -> None:
        """Log each change of state."""
        if (error is not None) == self._is_failing or self._closed:
            return
        self._is_failing = error is not None
        if error is not None:
            log.warning("Failed to look up topic ids", broker=self._broker().address, error=error)
        else:
            log.info("topic ids can be looked up again", broker=self._broker().address)


def topic_lookup_series(lookups: TopicLookups) -> Iterator[Metric]:
    """Yield the counts of lookups."""
    yield CounterMetricFamily(
        "penstock_topic_lookups_total",
        "Questions to the broker for the names of topic ids",
        lookups.questions,
    )
    yield CounterMetricFamily(
        "penstock_topic_lookups_failed_total",
        "Questions without a response of the broker",
        lookups.failures,
    )
    yield CounterMetricFamily(
        "penstock_topic_ids_unknown_total",
        "Topic ids for which the broker had no name",
        lookups.unknown,
    )
    yield GaugeMetricFamily(
        "penstock_topic_lookups_waiting",
        "Connections with a request that waits for the name of a topic",
        lookups.waiting,
        merge="sum",
    )
