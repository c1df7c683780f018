"""Requests for Kafka's own metadata log to a controller: Fetch, FetchSnapshot (KIP-595, KIP-630).

proxy.net.metadata.quorum_feed sends them, over a Channel to a controller listener, which needs
CLUSTER_ACTION. They have no replica id, like those of a consumer: the leader has no state of them, and cannot
count their sender as a voter (docs/decisions/0024). proxy.net.metadata.transactions knows what the bytes
mean. `QuorumLeader` remembers which controller leads; the forwarder reads it, since only the leader accepts
Envelopes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from proxy.net.kafka.channel import Channel, EndpointSettings, first_of
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

CLUSTER_METADATA = "__cluster_metadata"
CLUSTER_METADATA_ID = (1).to_bytes(16, "big")
PARTITION = 0

Leader: TypeAlias = "types.FetchResponse.LeaderIdAndEpoch | types.FetchSnapshotResponse.LeaderIdAndEpoch"
Endpoint: TypeAlias = "types.FetchResponse.NodeEndpoint | types.FetchSnapshotResponse.NodeEndpoint"

FETCH_VERSIONS = (12, 18)
"""From version 12 on, Fetch has the epoch of the last fetched record."""
FETCH_SNAPSHOT_VERSIONS = (0, 1)
REPORTS_HIGH_WATERMARK_SINCE = 18
"""KIP-1166: the leader responds when its high watermark is past the follower's."""

MAX_WAIT_MS = 500
SHORT_WAIT_MS = 50
"""Used with uncommitted records, if the leader does not respond when they become committed."""
FETCH_BYTES = 4 * 1024 * 1024
SNAPSHOT_BYTES = 1024 * 1024
"""Size of a chunk; decoding one must not delay clients."""
UNKNOWN_OFFSET = -1

_NOT_LEADER = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.BROKER_NOT_AVAILABLE,
)


class QuorumError(Exception):
    """The controller returned an error instead of its log."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """The leader of the quorum, as reported by a controller."""

    epoch: int
    node_id: int = -1
    address: tuple[str, int] | None = None
    """Host and port of its controller listener, if they were reported."""


class NotQuorumLeader(QuorumError):
    """This controller is not the leader in this epoch."""

    def __init__(self, error_code: int, leadership: Leadership) -> None:
        super().__init__(
            f"{ErrorCode.name_of(error_code)}, the leader of epoch {leadership.epoch} is {leadership.node_id}"
        )
        self.leadership = leadership


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """A follower's position: the next offset, the epoch before it, and the expected leader epoch."""

    offset: int
    last_epoch: int
    leader_epoch: int
    high_watermark: int = UNKNOWN_OFFSET


@dataclass(frozen=True, slots=True)
class SnapshotId:
    end_offset: int
    """The first offset after the snapshot."""
    epoch: int


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """A leader's response: records, a diverging log, or the id of a snapshot to fetch first."""

    high_watermark: int
    """-1: a new leader that has committed nothing yet."""
    records: bytes = b""
    diverging: bool = False
    snapshot: SnapshotId | None = None


class ControllerNode:
    """A controller, over an open channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def address(self) -> str:
        return self._channel.endpoint.address

    async def fetch(
        self, position: FetchPosition, *, wait: bool = True, uncommitted: bool = False
    ) -> FetchedRecords:
        """Fetch the log from a position on. NotLeader when the controller does not lead in that epoch.

        `wait`: for new records, up to MAX_WAIT_MS. `uncommitted`: the follower has records that it wants to
        know committed soon.
        """
        version = self._channel.version(ApiKey.FETCH, FETCH_VERSIONS)
        short = uncommitted and version < REPORTS_HIGH_WATERMARK_SINCE
        max_wait_ms = (SHORT_WAIT_MS if short else MAX_WAIT_MS) if wait else 0
        response = await self._channel.request(
            ApiKey.FETCH,
            version,
            _fetch_request(position, max_wait_ms),
            timeout_ms=max_wait_ms + self._channel.endpoint.request_timeout_ms,
        )
        _check(response.error_code, "Fetch")
        partition = first_of(first_of(response.responses).partitions)
        _check(partition.error_code, "Fetch", partition.current_leader, response.node_endpoints)
        snapshot = partition.snapshot_id
        return FetchedRecords(
            partition.high_watermark,
            bytes(partition.records or b""),
            partition.diverging_epoch.end_offset >= 0 or partition.diverging_epoch.epoch >= 0,
            SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
        )

    async def snapshot_chunk(self, wanted: SnapshotId, position: int, leader_epoch: int) -> tuple[bytes, int]:
        """Return the bytes of a snapshot from a position on, cut anywhere, and its size in bytes."""
        request = types.FetchSnapshotRequest
        partition = request.PartitionSnapshot(
            partition=PARTITION,
            current_leader_epoch=leader_epoch,
            snapshot_id=request.SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
            position=position,
        )
        response = await self._channel.send(
            request(
                max_bytes=SNAPSHOT_BYTES,
                topics=[request.TopicSnapshot(name=CLUSTER_METADATA, partitions=[partition])],
            ),
            FETCH_SNAPSHOT_VERSIONS,
        )
        _check(response.error_code, "FetchSnapshot")
        fetched = first_of(first_of(response.topics).partitions)
        _check(fetched.error_code, "FetchSnapshot", fetched.current_leader, response.node_endpoints)
        if not fetched.unaligned_records:
            raise QuorumError(f"FetchSnapshot: nothing at position {position} of {fetched.size}")
        return bytes(fetched.unaligned_records), fetched.size


def _fetch_request(position: FetchPosition, max_wait_ms: int) -> types.FetchRequest:
    request = types.FetchRequest
    partition = request.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=position.leader_epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=position.last_epoch,
        partition_max_bytes=FETCH_BYTES,
        high_watermark=position.high_watermark,
    )
    topic = request.FetchTopic(topic=CLUSTER_METADATA, topic_id=CLUSTER_METADATA_ID, partitions=[partition])
    return request(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=FETCH_BYTES, topics=[topic])


def _check(
    error_code: int, api: str, leader: Leader | None = None, endpoints: Iterable[Endpoint] = ()
) -> None:
    if error_code in _NOT_LEADER and leader is not None:
        addresses = {node.node_id: (node.host, node.port) for node in endpoints}
        raise NotQuorumLeader(
            error_code, Leadership(leader.leader_epoch, leader.leader_id, addresses.get(leader.leader_id))
        )
    if error_code != ErrorCode.NONE:
        raise QuorumError(f"{api}: {ErrorCode.name_of(error_code)}")


class QuorumLeader:
    """Remembers the leader: one of `endpoints`, or an address that one of them reported."""

    def __init__(self, endpoints: Sequence[EndpointSettings]) -> None:
        if not endpoints:
            raise ValueError("no controller endpoint")
        self._endpoints = tuple(endpoints)
        self._tried = 0
        self.epoch = 0
        """The latest known epoch."""
        self.endpoint: EndpointSettings | None = None
        """The leader's endpoint; None while it is unknown."""

    def reconfigure(self, endpoints: Sequence[EndpointSettings]) -> None:
        """Replace the endpoints that are tried while the leader is unknown."""
        self._endpoints = tuple(endpoints)

    def candidate(self) -> EndpointSettings:
        """Return the leader, or if it is unknown one configured endpoint after the other."""
        if self.endpoint is not None:
            return self.endpoint
        candidate = self._endpoints[self._tried % len(self._endpoints)]
        self._tried += 1
        return candidate

    def update(self, reported: Leadership) -> bool:
        """Apply a controller's report; return whether the leader's address is known now."""
        if reported.epoch < self.epoch:
            # The controller is behind the others, so its report is outdated.
            self.endpoint = None
            return False
        self.epoch = reported.epoch
        self.endpoint = self._at(reported.address)
        return self.endpoint is not None

    def found(self, endpoint: EndpointSettings) -> None:
        """Remember an endpoint that responded as the leader."""
        self.endpoint = endpoint

    def lost(self) -> None:
        """Forget the leader, which did not respond as one."""
        self.endpoint = None

    def _at(self, address: tuple[str, int] | None) -> EndpointSettings | None:
        if address is None:
            return None
        host, port = address
        return self._endpoints[0].at(host, port)
