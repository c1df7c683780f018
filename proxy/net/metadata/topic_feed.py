"""Follows the metadata topic by Fetch (read_committed), into a Loader.

Proxies and controllers have one feed each; `run` belongs in the process's TaskGroup. While the feed catches
up, at start and after a lost connection, everything up to the log's end is applied at once: compaction may
have removed records in between, and no request may be decided on such a state. `Partition` is the
topic's only partition over a Channel: its leader, its offsets, its records. The controller reads its end when
no other process can write. proxy.net.metadata.transactions knows what the fetched bytes mean.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog

from proxy.metadata.delta import MetadataError
from proxy.metadata.loader import Loader
from proxy.metadata.signatures import Proof, Values
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings, first_of
from proxy.net.metadata.feed import MetadataFeed
from proxy.net.metadata.transactions import BrokenBatch, Committed, TransactionReader, UnreadableRecords
from proxy.net.runtime.garbage_collector import apply_image
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

READ_COMMITTED = 1
LATEST, EARLIEST = -1, -2
"""Timestamps of ListOffsets. Under read_committed the latest offset is the last stable offset."""

FETCH_VERSIONS = (4, 12)
"""Up to version 12, Fetch has topic names instead of ids."""
LIST_OFFSETS_VERSIONS = (2, 6)
METADATA_VERSIONS = (5, 12)
TOPIC_ID_SINCE_METADATA_VERSION = 10

MAX_WAIT_MS = 500
FETCH_BYTES = 4 * 1024 * 1024

log = structlog.get_logger(__name__)


class PartitionError(Exception):
    """The partition cannot be read over this channel; locate it again."""


class NotLeader(PartitionError):
    """Another broker leads the partition."""


@dataclass(frozen=True, slots=True)
class PartitionLeader:
    """The leader's address, as Metadata reports it."""

    topic_id: bytes
    host: str
    port: int


class Partition:
    """A partition of a topic, at one broker."""

    def __init__(self, channel: Channel, topic: str, index: int | None = None) -> None:
        """`index`: None: the partition must be the only one of its topic."""
        self._channel = channel
        self._topic = topic
        self._is_only = index is None
        self._index = index or 0

    async def locate(self) -> PartitionLeader:
        """Return the leader. PartitionError if there is none, or if another partition must not exist."""
        version = self._channel.version(ApiKey.METADATA, METADATA_VERSIONS)
        wanted = types.MetadataRequest.MetadataRequestTopic(name=self._topic)
        request = types.MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
        response = await self._channel.request(ApiKey.METADATA, version, request)
        topic = first_of(response.topics)
        if topic.error_code != ErrorCode.NONE:
            raise PartitionError(f"topic {self._topic}: {ErrorCode.name_of(topic.error_code)}")
        if self._is_only and len(topic.partitions) != 1:
            raise PartitionError(f"topic {self._topic} has {len(topic.partitions)} partitions, not 1")
        leaders = {each.partition_index: each.leader_id for each in topic.partitions}
        leader = next((b for b in response.brokers if b.node_id == leaders.get(self._index)), None)
        if leader is None:
            raise PartitionError(f"topic {self._topic}: partition {self._index} has no leader")
        topic_id = bytes(topic.topic_id) if version >= TOPIC_ID_SINCE_METADATA_VERSION else b""
        return PartitionLeader(topic_id, leader.host, leader.port)

    async def start_offset(self) -> int:
        """Return the log start offset."""
        return await self._list_offset(EARLIEST)

    async def stable_offset(self) -> int:
        """Return the last stable offset: everything before it is committed or aborted."""
        return await self._list_offset(LATEST)

    async def fetch(self, offset: int) -> bytes:
        """Return record batches from `offset` on, read_committed; empty if none came within MAX_WAIT_MS."""
        request = types.FetchRequest
        partition = request.FetchPartition(
            partition=self._index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
        )
        response = await self._channel.send(
            request(
                max_wait_ms=MAX_WAIT_MS,
                min_bytes=1,
                max_bytes=FETCH_BYTES,
                isolation_level=READ_COMMITTED,
                topics=[request.FetchTopic(topic=self._topic, partitions=[partition])],
            ),
            FETCH_VERSIONS,
        )
        _check(response.error_code, "Fetch")
        if not response.responses:
            # The proxy's own quota is used up: the broker responds so, and reads on later (KIP-219).
            return b""
        fetched = first_of(response.responses[0].partitions)
        _check(fetched.error_code, "Fetch")
        return bytes(fetched.records or b"")

    async def _list_offset(self, timestamp: int) -> int:
        request = types.ListOffsetsRequest
        partition = request.ListOffsetsPartition(partition_index=self._index, timestamp=timestamp)
        response = await self._channel.send(
            request(
                replica_id=-1,
                isolation_level=READ_COMMITTED,
                topics=[request.ListOffsetsTopic(name=self._topic, partitions=[partition])],
            ),
            LIST_OFFSETS_VERSIONS,
        )
        listed = first_of(first_of(response.topics).partitions)
        _check(listed.error_code, "ListOffsets")
        return int(listed.offset)


@asynccontextmanager
async def at_leader(
    endpoint: EndpointSettings, topic: str, index: int | None = None
) -> AsyncIterator[tuple[Partition, PartitionLeader]]:
    """Open a channel to the leader of the partition; `index`: None: the only one of the topic.

    The endpoint itself is tried first: if brokers advertise their proxies, the addresses in Metadata lead
    into a proxy.
    """
    async with await Channel.open(endpoint) as channel:
        partition = Partition(channel, topic, index)
        leader = await partition.locate()
        if await _leads(partition):
            yield partition, leader
            return
    async with await Channel.open(endpoint.at(leader.host, leader.port)) as channel:
        yield Partition(channel, topic, index), leader


async def _leads(partition: Partition) -> bool:
    try:
        await partition.stable_offset()
    except NotLeader:
        return False
    return True


def _check(error_code: int, api: str) -> None:
    if error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        raise NotLeader(f"{api}: {ErrorCode.name_of(error_code)}")
    if error_code != ErrorCode.NONE:
        raise PartitionError(f"{api}: {ErrorCode.name_of(error_code)}")


class TopicFeed(MetadataFeed):
    """Applies the records of the topic's only partition to `loader`."""

    def __init__(
        self,
        endpoint: EndpointSettings,
        topic: str,
        loader: Loader,
        on_read: Callable[[Committed], None] = lambda _step: None,
    ) -> None:
        """`on_read` is called with each step before it is applied."""
        super().__init__(loader)
        self._endpoint = endpoint
        self._on_read = on_read
        self._topic = topic
        self._reader = TransactionReader(loader.next_offset)
        self._unapplied = _Steps()
        """What was read while catching up; it survives a lost connection."""
        self._topic_id: bytes | None = None

    async def run(self) -> None:
        """Follow the topic until cancelled. MetadataError when a record of the log cannot be applied."""
        while True:
            try:
                async with at_leader(self._endpoint, self._topic) as (partition, leader):
                    await self._catch_up(partition, leader)
                    while True:
                        read = _Steps()
                        await self._read(partition, read)
                        for step in read.steps:
                            await self._apply(step.last_offset, step.values, step.record_offsets, step.proofs)
            except UnreadableRecords as error:
                raise MetadataError(str(error)) from error
            except (ChannelError, BrokenBatch, PartitionError) as error:
                self.reachability.failed(error, topic=self._topic)
                await self.reachability.pause()
            finally:
                self.connected = False

    async def stable_offset(self) -> int:
        """Request the last stable offset from the leader: everything before it is committed or aborted."""
        try:
            async with at_leader(self._endpoint, self._topic) as (partition, _):
                return await partition.stable_offset()
        except PartitionError as error:
            raise ChannelError(f"{self._endpoint.address}: {error}") from error

    async def _catch_up(self, partition: Partition, leader: PartitionLeader) -> None:
        """Continue at our position, or at the beginning if this is another log."""
        start, end = await partition.start_offset(), await partition.stable_offset()
        self._begin(leader, start, end)
        while self._reader.position < end:
            await self._read(partition, self._unapplied)
        read = self._unapplied
        last_offset = max([self._reader.settled_offset, *(step.last_offset for step in read.steps)])
        try:
            await self._apply(last_offset, read.values, read.offsets, read.proofs)
        except MetadataError:
            if self.loader.verifier is None:
                _find_fault(read.steps)
            raise
        self._unapplied = _Steps()
        self.connected = True
        self.reachability.reached(topic=self._topic, offset=self.loader.image.offset)

    async def _read(self, partition: Partition, into: "_Steps") -> None:
        before = len(into.steps)
        try:
            async for step in self._reader.read(await partition.fetch(self._reader.position)):
                self._on_read(step)
                into.add(step)
        except BrokenBatch:
            # The steps before the broken batch count. The batch is fetched again, and then is the first one.
            if len(into.steps) == before:
                raise

    def _begin(self, leader: PartitionLeader, start: int, end: int) -> None:
        recreated = self._topic_id not in (None, leader.topic_id)
        self._topic_id = leader.topic_id
        if not recreated and start <= self._reader.position <= end:
            self.loader.load_until(end)
            return
        if self._reader.position > 0:
            log.warning(
                "reading the metadata log from its beginning",
                topic=self._topic,
                position=self._reader.position,
                log_start_offset=start,
                last_stable_offset=end,
                recreated=recreated,
            )
        verifier = self.loader.verifier
        if start > 0 and not (verifier is not None and verifier.rejects):
            # Compaction leaves the beginning where it is. Of a signed log, the digest says what is missing.
            raise MetadataError(
                f"topic {self._topic} begins at offset {start}: the records before it were deleted, and what"
                " they restricted is not known"
            )
        self._reader, self._unapplied = TransactionReader(start), _Steps()
        self.loader.reload_until(end)

    async def _apply(
        self, last_offset: int, values: Values, offsets: Sequence[int], proofs: Sequence[Proof]
    ) -> None:
        await apply_image(self.loader.batch_steps(last_offset, values, offsets, proofs))
        self.applied()


@dataclass(slots=True)
class _Steps:
    """Steps of the log, and what they contain together."""

    steps: list[Committed] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    proofs: list[Proof] = field(default_factory=list)

    def add(self, step: Committed) -> None:
        self.steps.append(step)
        self.values += step.values
        self.offsets += step.record_offsets
        self.proofs += step.proofs


def _find_fault(steps: list[Committed]) -> None:
    """Raise MetadataError for the first of these steps that cannot be applied; they were applied as one."""
    loader = Loader(lambda _image, _changed: None)
    for step in steps:
        for _ in loader.batch_steps(step.last_offset, step.values, step.record_offsets):
            pass
