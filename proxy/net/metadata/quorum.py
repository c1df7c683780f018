"""Kafka's own metadata log as a controller of its quorum serves it: Fetch, FetchSnapshot (KIP-595, KIP-630).

Used by proxy.net.metadata.quorum_feed, over a Channel to a controller listener (which needs CLUSTER_ACTION).
We fetch as a consumer does, with no replica id: the leader keeps no state of us, so that we can neither be
counted for a voter nor become one (docs/decisions/0024). proxy.net.metadata.quorum_log knows what the bytes
mean. `QuorumLeader` remembers which controller leads; the forwarder reads it, since only the leader accepts
Envelopes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from proxy.net.kafka.channel import Channel, EndpointSettings
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

CLUSTER_METADATA = "__cluster_metadata"
CLUSTER_METADATA_ID = (1).to_bytes(16, "big")
PARTITION = 0

Leader: TypeAlias = "types.FetchResponse.LeaderIdAndEpoch | types.FetchSnapshotResponse.LeaderIdAndEpoch"
Endpoint: TypeAlias = "types.FetchResponse.NodeEndpoint | types.FetchSnapshotResponse.NodeEndpoint"

FETCH_VERSIONS = (12, 18)
"""From 12 on a Fetch tells the epoch it stands at."""
FETCH_SNAPSHOT_VERSIONS = (0, 1)
TELLS_HIGH_WATERMARK_SINCE = 18
"""KIP-1166: the leader answers when its high watermark has passed the one the follower knows."""

MAX_WAIT_MS = 500
HASTY_WAIT_MS = 50
"""The same towards a leader that says nothing when records become committed, while there are such records."""
FETCH_BYTES = 4 * 1024 * 1024
SNAPSHOT_BYTES = 1024 * 1024
"""A chunk; decoding one may not hold up the clients."""
UNKNOWN_OFFSET = -1

ELSEWHERE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.BROKER_NOT_AVAILABLE,
)


class QuorumError(Exception):
    """The controller does not give out its log; the text says why."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who leads the quorum, as a controller has told."""

    epoch: int
    node_id: int = -1
    address: tuple[str, int] | None = None
    """Host and port of its controller listener, if that was told too."""


class NotLeader(QuorumError):
    """The log has to be asked for elsewhere, or in another epoch."""

    def __init__(self, error_code: int, leadership: Leadership) -> None:
        super().__init__(
            f"{_name(error_code)}, the leader of epoch {leadership.epoch} is {leadership.node_id}"
        )
        self.leadership = leadership


@dataclass(frozen=True, slots=True)
class Place:
    """Where a follower stands: the next offset, the epoch of the record before it, and who should lead."""

    offset: int
    last_epoch: int
    leader_epoch: int
    high_watermark: int = UNKNOWN_OFFSET


@dataclass(frozen=True, slots=True)
class SnapshotId:
    end_offset: int
    """The first offset that is not in it."""
    epoch: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a leader answered: records, or that its log is another than the follower's, or a snapshot's id."""

    high_watermark: int
    """-1: a new leader that has not committed anything yet."""
    records: bytes = b""
    diverging: bool = False
    snapshot: SnapshotId | None = None


class ControllerNode:
    """One controller, over an open channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def address(self) -> str:
        return self._channel.endpoint.address

    async def fetch(self, place: Place, *, wait: bool = True, uncommitted: bool = False) -> Fetched:
        """The log from a place on; NotLeader when the node does not lead in that epoch.

        `wait`: until there is something new, MAX_WAIT_MS at most. `uncommitted`: the follower holds
        records of which it wants to know soon that they are committed.
        """
        version = self._channel.version(ApiKey.FETCH, FETCH_VERSIONS)
        hasty = uncommitted and version < TELLS_HIGH_WATERMARK_SINCE
        max_wait_ms = (HASTY_WAIT_MS if hasty else MAX_WAIT_MS) if wait else 0
        response = await self._channel.request(
            ApiKey.FETCH,
            version,
            _fetch_request(place, max_wait_ms),
            timeout_ms=max_wait_ms + self._channel.endpoint.request_timeout_ms,
        )
        _refuse(response.error_code, "Fetch")
        answer = response.responses[0].partitions[0]
        _refuse(answer.error_code, "Fetch", answer.current_leader, response.node_endpoints)
        snapshot = answer.snapshot_id
        return Fetched(
            answer.high_watermark,
            bytes(answer.records or b""),
            answer.diverging_epoch.end_offset >= 0 or answer.diverging_epoch.epoch >= 0,
            SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
        )

    async def snapshot_chunk(self, wanted: SnapshotId, position: int, leader_epoch: int) -> tuple[bytes, int]:
        """Bytes of a snapshot from a position on, cut anywhere, and how many it has in all."""
        request = types.FetchSnapshotRequest
        partition = request.PartitionSnapshot(
            partition=PARTITION,
            current_leader_epoch=leader_epoch,
            snapshot_id=request.SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
            position=position,
        )
        response = await self._channel.request(
            ApiKey.FETCH_SNAPSHOT,
            self._channel.version(ApiKey.FETCH_SNAPSHOT, FETCH_SNAPSHOT_VERSIONS),
            request(
                max_bytes=SNAPSHOT_BYTES,
                topics=[request.TopicSnapshot(name=CLUSTER_METADATA, partitions=[partition])],
            ),
        )
        _refuse(response.error_code, "FetchSnapshot")
        answer = response.topics[0].partitions[0]
        _refuse(answer.error_code, "FetchSnapshot", answer.current_leader, response.node_endpoints)
        if not answer.unaligned_records:
            raise QuorumError(f"FetchSnapshot: nothing at position {position} of {answer.size}")
        return bytes(answer.unaligned_records), answer.size


def _fetch_request(place: Place, max_wait_ms: int) -> types.FetchRequest:
    request = types.FetchRequest
    partition = request.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=place.leader_epoch,
        fetch_offset=place.offset,
        last_fetched_epoch=place.last_epoch,
        partition_max_bytes=FETCH_BYTES,
        high_watermark=place.high_watermark,
    )
    topic = request.FetchTopic(topic=CLUSTER_METADATA, topic_id=CLUSTER_METADATA_ID, partitions=[partition])
    return request(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=FETCH_BYTES, topics=[topic])


def _refuse(
    error_code: int, api: str, leader: Leader | None = None, endpoints: Iterable[Endpoint] = ()
) -> None:
    if error_code in ELSEWHERE and leader is not None:
        addresses = {node.node_id: (node.host, node.port) for node in endpoints}
        raise NotLeader(
            error_code, Leadership(leader.leader_epoch, leader.leader_id, addresses.get(leader.leader_id))
        )
    if error_code != ErrorCode.NONE:
        raise QuorumError(f"{api}: {_name(error_code)}")


def _name(error_code: int) -> str:
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error {error_code}"


class QuorumLeader:
    """The leader among `endpoints`, or at an address that one of them told."""

    def __init__(self, endpoints: Sequence[EndpointSettings]) -> None:
        if not endpoints:
            raise ValueError("no controller endpoint")
        self._endpoints = tuple(endpoints)
        self._tried = 0
        self.epoch = 0
        """The latest epoch that was heard of."""
        self.endpoint: EndpointSettings | None = None
        """Where the leader is; None while it is looked for."""

    def follow(self, endpoints: Sequence[EndpointSettings]) -> None:
        """These are tried from now on while the leader is not known."""
        self._endpoints = tuple(endpoints)

    def candidate(self) -> EndpointSettings:
        """The leader, or while it is not known one configured endpoint after the other."""
        if self.endpoint is not None:
            return self.endpoint
        candidate = self._endpoints[self._tried % len(self._endpoints)]
        self._tried += 1
        return candidate

    def learn(self, told: Leadership) -> bool:
        """Take in what a controller said; True when it says where the leader is."""
        if told.epoch < self.epoch:
            # It is behind the others, so it is not where to stay.
            self.endpoint = None
            return False
        self.epoch = told.epoch
        self.endpoint = self._at(told.address)
        return self.endpoint is not None

    def found(self, endpoint: EndpointSettings) -> None:
        """This one answers as the leader."""
        self.endpoint = endpoint

    def lost(self) -> None:
        """It does not answer, or not as a leader should."""
        self.endpoint = None

    def _at(self, address: tuple[str, int] | None) -> EndpointSettings | None:
        if address is None:
            return None
        host, port = address
        return self._endpoints[0].at(host, port)
