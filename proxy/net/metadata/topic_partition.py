"""A partition of one of Penstock's topics, over a Channel: its leader, its offsets, its records.

topic_feed follows the metadata topic's only one, and the controller reads its end when no other process can
write; proxy.net.kafka.share_exchange follows those of the quota shares. proxy.net.metadata.transactions knows
what the fetched bytes mean.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from proxy.net.kafka.channel import Channel, EndpointSettings
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

ONLY = 0
"""The number of the partition of a topic that must have no other."""
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
        self._index = index or ONLY

    async def locate(self) -> PartitionLeader:
        """Return the leader. PartitionError if there is none, or if another partition must not exist."""
        version = self._channel.version(ApiKey.METADATA, METADATA_VERSIONS)
        wanted = types.MetadataRequest.MetadataRequestTopic(name=self._topic)
        request = types.MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
        response = await self._channel.request(ApiKey.METADATA, version, request)
        topic = response.topics[0]
        if topic.error_code != ErrorCode.NONE:
            raise PartitionError(f"topic {self._topic}: {_name(topic.error_code)}")
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
        response = await self._channel.request(
            ApiKey.FETCH,
            self._channel.version(ApiKey.FETCH, FETCH_VERSIONS),
            request(
                max_wait_ms=MAX_WAIT_MS,
                min_bytes=1,
                max_bytes=FETCH_BYTES,
                isolation_level=READ_COMMITTED,
                topics=[request.FetchTopic(topic=self._topic, partitions=[partition])],
            ),
        )
        _check(response.error_code, "Fetch")
        fetched = response.responses[0].partitions[0]
        _check(fetched.error_code, "Fetch")
        return bytes(fetched.records or b"")

    async def _list_offset(self, timestamp: int) -> int:
        request = types.ListOffsetsRequest
        partition = request.ListOffsetsPartition(partition_index=self._index, timestamp=timestamp)
        response = await self._channel.request(
            ApiKey.LIST_OFFSETS,
            self._channel.version(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSIONS),
            request(
                replica_id=-1,
                isolation_level=READ_COMMITTED,
                topics=[request.ListOffsetsTopic(name=self._topic, partitions=[partition])],
            ),
        )
        listed = response.topics[0].partitions[0]
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
        raise NotLeader(f"{api}: {_name(error_code)}")
    if error_code != ErrorCode.NONE:
        raise PartitionError(f"{api}: {_name(error_code)}")


def _name(error_code: int) -> str:
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error {error_code}"
