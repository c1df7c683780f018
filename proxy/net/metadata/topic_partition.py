"""The metadata topic's one partition, over a Channel: where it is, where it ends, what is in it.

Used by topic_feed to follow it, by the controller to learn where it ends once no one else can write.
What the fetched bytes mean is proxy.net.metadata.transactions'.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from proxy.net.kafka.channel import Channel, EndpointSettings
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

PARTITION = 0
READ_COMMITTED = 1
LATEST, EARLIEST = -1, -2
"""Timestamps of ListOffsets; the latest offset under read_committed is the last stable one."""

FETCH_VERSIONS = (4, 12)
"""Up to 12 a Fetch names topics, not their ids."""
LIST_OFFSETS_VERSIONS = (2, 6)
METADATA_VERSIONS = (5, 12)
TOPIC_ID_SINCE_METADATA_VERSION = 10

MAX_WAIT_MS = 500
FETCH_BYTES = 4 * 1024 * 1024


class PartitionError(Exception):
    """The partition cannot be read on over this channel: look for it again. The text says why."""


class NotHere(PartitionError):
    """Another broker leads the partition."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where Metadata says that the partition is."""

    topic_id: bytes
    host: str
    port: int


class Partition:
    """Partition 0 of a topic, as one broker knows it."""

    def __init__(self, channel: Channel, topic: str) -> None:
        self._channel = channel
        self._topic = topic

    async def locate(self) -> Place:
        """The leader; PartitionError while there is no such topic, or it is not of one partition."""
        version = self._channel.version(ApiKey.METADATA, METADATA_VERSIONS)
        wanted = types.MetadataRequest.MetadataRequestTopic(name=self._topic)
        request = types.MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
        response = await self._channel.request(ApiKey.METADATA, version, request)
        topic = response.topics[0]
        if topic.error_code != ErrorCode.NONE:
            raise PartitionError(f"topic {self._topic}: {_name(topic.error_code)}")
        if len(topic.partitions) != 1:
            raise PartitionError(f"topic {self._topic} has {len(topic.partitions)} partitions, not 1")
        leader = next((b for b in response.brokers if b.node_id == topic.partitions[0].leader_id), None)
        if leader is None:
            raise PartitionError(f"topic {self._topic} has no leader")
        topic_id = bytes(topic.topic_id) if version >= TOPIC_ID_SINCE_METADATA_VERSION else b""
        return Place(topic_id, leader.host, leader.port)

    async def start_offset(self) -> int:
        """The offset of the first record that is left."""
        return await self._list_offset(EARLIEST)

    async def stable_offset(self) -> int:
        """The last stable offset: everything before it is decided, committed or aborted."""
        return await self._list_offset(LATEST)

    async def fetch(self, offset: int) -> bytes:
        """Record batches from `offset` on, read_committed; empty when none came within a long poll."""
        request = types.FetchRequest
        partition = request.FetchPartition(
            partition=PARTITION, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
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
        _refuse(response.error_code, "Fetch")
        answer = response.responses[0].partitions[0]
        _refuse(answer.error_code, "Fetch")
        return bytes(answer.records or b"")

    async def _list_offset(self, timestamp: int) -> int:
        request = types.ListOffsetsRequest
        partition = request.ListOffsetsPartition(partition_index=PARTITION, timestamp=timestamp)
        response = await self._channel.request(
            ApiKey.LIST_OFFSETS,
            self._channel.version(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSIONS),
            request(
                replica_id=-1,
                isolation_level=READ_COMMITTED,
                topics=[request.ListOffsetsTopic(name=self._topic, partitions=[partition])],
            ),
        )
        answer = response.topics[0].partitions[0]
        _refuse(answer.error_code, "ListOffsets")
        return int(answer.offset)


@asynccontextmanager
async def at_leader(endpoint: EndpointSettings, topic: str) -> AsyncIterator[tuple[Partition, Place]]:
    """The partition, over a channel to its leader.

    The endpoint itself is tried first: where brokers advertise the proxies in front of them, Metadata's
    addresses would lead back into a proxy.
    """
    async with await Channel.open(endpoint) as channel:
        partition = Partition(channel, topic)
        place = await partition.locate()
        if await _leads(partition):
            yield partition, place
            return
    async with await Channel.open(endpoint.at(place.host, place.port)) as channel:
        yield Partition(channel, topic), place


async def _leads(partition: Partition) -> bool:
    try:
        await partition.stable_offset()
    except NotHere:
        return False
    return True


def _refuse(error_code: int, api: str) -> None:
    if error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        raise NotHere(f"{api}: {_name(error_code)}")
    if error_code != ErrorCode.NONE:
        raise PartitionError(f"{api}: {_name(error_code)}")


def _name(error_code: int) -> str:
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error {error_code}"
