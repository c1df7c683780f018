"""A KRaft controller in memory: real record batches, served by Fetch and FetchSnapshot as a leader does.

What a real quorum cannot be made to show at will: records that are not committed, a leader whose log differs,
a snapshot that is gone while it is read. Several nodes that know of each other are a quorum.

    node = FakeNode(epoch=1)
    node.append(acl_record(acl("a")))
    node.commit()
    async with node.listening():
        async with following(endpoint_of(node.address)) as follower: ...
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from proxy.net.metadata.quorum import CLUSTER_METADATA, CLUSTER_METADATA_ID
from proxy.net.metadata.transactions import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.fake_broker import FakeBroker, Request
from tests.support.metadata_log import values

LEADER_CHANGE = 2
CONTROL_BIT = 0x20
ATTRIBUTES_AT, CRC_AT, CRC_END = 21, 17, 21
FETCH_RESPONSE = types.FetchResponse


@dataclass(frozen=True, slots=True)
class Written:
    """A batch of the log."""

    base_offset: int
    next_offset: int
    epoch: int
    raw: bytes


def batch(base_offset: int, epoch: int, payload: Sequence[bytes], control: int | None = None) -> Written:
    """`control`: the type of the one control record, in place of values."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 24)
    keys_and_values = [(None, value) for value in payload] if control is None else [_marker(control)]
    for number, (key, value) in enumerate(keys_and_values):
        builder.append(number, 1_000, key, value, [])
    raw = builder.build()
    raw[0:8] = base_offset.to_bytes(8, "big")
    raw[12:16] = epoch.to_bytes(4, "big")
    if control is not None:
        raw[ATTRIBUTES_AT + 1] |= CONTROL_BIT
        raw[CRC_AT:CRC_END] = calc_crc32c(bytes(raw[CRC_END:])).to_bytes(4, "big")
    return Written(base_offset, base_offset + len(keys_and_values), epoch, bytes(raw))


def _marker(kind: int) -> tuple[bytes, bytes]:
    return b"\x00\x00" + kind.to_bytes(2, "big"), b"\x00\x00"


def snapshot(*records: Any) -> bytes:
    """The bytes of a whole snapshot: header, records, footer."""
    parts = [
        batch(0, 0, (), SNAPSHOT_HEADER),
        batch(1, 0, values(*records)),
        batch(1 + len(records), 0, (), SNAPSHOT_FOOTER),
    ]
    return b"".join(part.raw for part in parts)


class FakeNode:
    def __init__(self, *, epoch: int = 1, versions: tuple[int, int] = (4, 18)) -> None:
        self.epoch = epoch
        self.leads = True
        self.leader: tuple[int, str | None] = (1, None)
        """Id of the leader, and its address if this node tells that."""
        self.log: list[Written] = []
        self.log_start = 0
        self.high_watermark = -1
        self.snapshots: dict[tuple[int, int], bytes] = {}
        self.chunk_bytes = 1 << 20
        self.frozen = False
        """It takes requests and never answers."""
        self._news = asyncio.Event()
        self.broker = FakeBroker(
            {ApiKey.FETCH: self._fetch, ApiKey.FETCH_SNAPSHOT: self._fetch_snapshot},
            {ApiKey.API_VERSIONS: (0, 4), ApiKey.FETCH: versions, ApiKey.FETCH_SNAPSHOT: (0, 1)},
        )

    @property
    def address(self) -> str:
        return self.broker.address

    @property
    def end(self) -> int:
        return self.log[-1].next_offset if self.log else self.log_start

    def append(self, *records: Any, control: int | None = None, raw: Sequence[bytes] = ()) -> Written:
        """One batch, not yet committed; `raw`: values as they are."""
        written = batch(self.end, self.epoch, [*values(*records), *raw], control)
        self.log.append(written)
        self._tell()
        return written

    def commit(self) -> None:
        """Everything so far."""
        self.high_watermark = self.end
        self._tell()

    def compact(self, *records: Any) -> None:
        """Everything so far becomes a snapshot that holds these records."""
        self.snapshots = {(self.end, self.epoch): snapshot(*records)}
        self.log_start, self.log = self.end, []
        self._tell()

    def resign(self, epoch: int, leader: int, address: str | None) -> None:
        """Another one leads from now on."""
        self.leads, self.epoch, self.leader = False, epoch, (leader, address)
        self._tell()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["FakeNode"]:
        async with self.broker:
            try:
                yield self
            finally:
                # Whoever still waits is answered, so that no task is left behind.
                self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _fetch(self, request: Request) -> Any:
        if self.frozen:
            return None
        wanted = request.message.topics[0].partitions[0]
        answer = self._answer(wanted)
        knows = wanted.high_watermark if request.header.api_version >= 18 else self.high_watermark
        if not self._is_news(answer, knows):
            news = self._news
            try:
                async with asyncio.timeout(request.message.max_wait_ms / 1000):
                    await news.wait()
            except TimeoutError:
                pass
            if self.frozen:
                return None
            answer = self._answer(wanted)
        endpoints = self._endpoints(FETCH_RESPONSE.NodeEndpoint)
        topic = FETCH_RESPONSE.FetchableTopicResponse(
            topic=CLUSTER_METADATA, topic_id=CLUSTER_METADATA_ID, partitions=[answer]
        )
        return FETCH_RESPONSE(responses=[topic], node_endpoints=endpoints)

    def _is_news(self, answer: Any, high_watermark: int) -> bool:
        return bool(
            answer.error_code
            or answer.records
            or answer.snapshot_id.end_offset >= 0
            or answer.diverging_epoch.end_offset >= 0
            or answer.high_watermark != high_watermark
        )

    def _answer(self, wanted: Any) -> Any:
        answer = FETCH_RESPONSE.PartitionData(
            error_code=self._refusal(wanted.current_leader_epoch),
            high_watermark=self.high_watermark,
            log_start_offset=self.log_start,
            current_leader=FETCH_RESPONSE.LeaderIdAndEpoch(leader_id=self.leader[0], leader_epoch=self.epoch),
            aborted_transactions=[],
        )
        if answer.error_code:
            return answer
        offset, epoch = wanted.fetch_offset, wanted.last_fetched_epoch
        if offset < self.log_start or (offset == 0 and self.snapshots):
            end_offset, of_epoch = max(self.snapshots)
            answer.snapshot_id = FETCH_RESPONSE.SnapshotId(end_offset=end_offset, epoch=of_epoch)
        elif offset > self.end or (offset > self.log_start and self._epoch_before(offset) != epoch):
            common = [written for written in self.log if written.epoch <= epoch]
            answer.diverging_epoch = FETCH_RESPONSE.EpochEndOffset(
                epoch=common[-1].epoch if common else 0,
                end_offset=common[-1].next_offset if common else self.log_start,
            )
        else:
            answer.records = b"".join(w.raw for w in self.log if w.next_offset > offset)
        return answer

    def _epoch_before(self, offset: int) -> int:
        return next(w.epoch for w in self.log if w.base_offset < offset <= w.next_offset)

    async def _fetch_snapshot(self, request: Request) -> Any:
        wanted = request.message.topics[0].partitions[0]
        response = types.FetchSnapshotResponse
        whole = self.snapshots.get((wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch))
        answer = response.PartitionSnapshot(
            snapshot_id=response.SnapshotId(
                end_offset=wanted.snapshot_id.end_offset, epoch=wanted.snapshot_id.epoch
            ),
            current_leader=response.LeaderIdAndEpoch(leader_id=self.leader[0], leader_epoch=self.epoch),
            unaligned_records=b"",
        )
        answer.error_code = self._refusal(wanted.current_leader_epoch)
        if whole is None and not answer.error_code:
            answer.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        if not answer.error_code and whole is not None:
            answer.size, answer.position = len(whole), wanted.position
            answer.unaligned_records = whole[wanted.position : wanted.position + self.chunk_bytes]
        topic = response.TopicSnapshot(name=CLUSTER_METADATA, partitions=[answer])
        return response(topics=[topic], node_endpoints=self._endpoints(response.NodeEndpoint))

    def _refusal(self, epoch: int) -> int:
        if epoch != self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.leads else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _endpoints(self, endpoint: Any) -> list[Any]:
        node_id, address = self.leader
        if address is None:
            return []
        host, _, port = address.rpartition(":")
        return [endpoint(node_id=node_id, host=host, port=int(port))]
