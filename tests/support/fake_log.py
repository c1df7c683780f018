"""The metadata topic in memory: real record batches behind claims, fencing, lost answers and compaction.

    topic = FakeTopic()
    log, reader = FakeLog(topic), TransactionReader(0)

FakeLog stands where forwarding.net.log's MetadataLog stands and does as a transactional producer does: a
claim fences whoever wrote before and ends its open transaction. What is read is bytes, as Fetch answers have
them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from forwarding.net.log import FORWARD_ID_HEADER, CommittedOffsets, CommitUnknown, Fenced, WrittenRecord

ABORT, COMMIT = 0, 1
_PRODUCER_ID = 7
_ATTRIBUTES_AT, _CRC_AT, _CRC_END = 21, 17, 21
_CONTROL_BIT = 0x20

Header = tuple[str, bytes]


class Fault(Enum):
    """What goes wrong with the next append."""

    LOST_REQUEST = auto()
    """It never arrives; whether it did is not known."""
    LOST_ANSWER = auto()
    """It is committed, and nobody is told."""
    CRASH_BEFORE = auto()
    """The process dies before it writes."""
    CRASH_WITHIN = auto()
    """It dies with its records written and not committed."""
    CRASH_AFTER = auto()
    """It dies once they are committed."""


class Crashed(Exception):
    """The controller is no more."""


@dataclass(slots=True)
class _Batch:
    base_offset: int
    epoch: int
    entries: dict[int, WrittenRecord]
    """Offset -> record; compaction takes some out."""
    headers: list[Header] = field(default_factory=list)
    marker: int | None = None

    def raw(self) -> bytes:
        records = [(at, entry.key, entry.value) for at, entry in self.entries.items()]
        if self.marker is not None:
            records = [(self.base_offset, b"\0\0" + self.marker.to_bytes(2, "big"), bytes(6))]
        builder = DefaultRecordBatchBuilder(2, 0, True, _PRODUCER_ID, self.epoch, 0, 1 << 20)
        for at, key, value in records:
            builder.append(at - self.base_offset, 1_000, key, value, self.headers)
        raw = builder.build()
        raw[0:8] = self.base_offset.to_bytes(8, "big")
        if self.marker is not None:
            raw[_ATTRIBUTES_AT + 1] |= _CONTROL_BIT
            raw[_CRC_AT:_CRC_END] = calc_crc32c(bytes(raw[_CRC_END:])).to_bytes(4, "big")
        return bytes(raw)


class FakeTopic:
    """One partition and its transactional id."""

    def __init__(self) -> None:
        self._batches: list[_Batch] = []
        self.end = 0
        self.epoch = 0
        self.forwards: list[str] = []
        """The ids of all forwards that were committed, in order."""
        self._open: list[str] | None = None

    def claim(self) -> int:
        """The new epoch; a transaction that was left open is aborted."""
        self.epoch += 1
        if self._open is not None:
            self._end_with(ABORT)
        return self.epoch

    def write(self, entries: Sequence[WrittenRecord], forward_id: str | None) -> int:
        """Records of an open transaction; the offset of the first."""
        first = self.end
        headers = [(FORWARD_ID_HEADER, forward_id.encode())] if forward_id else []
        numbered = dict(enumerate(entries, start=first))
        self._batches.append(_Batch(first, self.epoch, numbered, headers))
        self.end += len(entries)
        self._open = [forward_id] if forward_id else []
        return first

    def commit(self) -> None:
        self.forwards += self._open or []
        self._end_with(COMMIT)

    def _end_with(self, marker: int) -> None:
        self._batches.append(_Batch(self.end, self.epoch, {}, marker=marker))
        self.end += 1
        self._open = None

    @property
    def stable_offset(self) -> int:
        """Where the first open transaction begins."""
        return self.end if self._open is None else self._batches[-1].base_offset

    def read(self, position: int) -> list[bytes]:
        """One batch each, from the one that holds `position` on, up to the last stable offset."""
        end = self.stable_offset
        left = (batch for batch in self._batches if batch.entries or batch.marker is not None)
        return [batch.raw() for batch in left if batch.base_offset >= position and batch.base_offset < end]

    def compact(self) -> None:
        """Of each key only the newest record stays, of what is decided."""
        newest: dict[bytes, int] = {}
        decided = [batch for batch in self._batches if batch.base_offset < self.stable_offset]
        for batch in decided:
            newest |= {entry.key: at for at, entry in batch.entries.items()}
        for batch in decided:
            batch.entries = {at: entry for at, entry in batch.entries.items() if newest[entry.key] == at}


class FakeLog:
    """One controller's hand on the topic."""

    def __init__(self, topic: FakeTopic) -> None:
        self._topic = topic
        self._epoch: int | None = None
        self.fault: Fault | None = None
        """Of the next append; then all is well again."""

    async def claim(self) -> None:
        self._epoch = self._topic.claim()

    async def append(self, entries: Sequence[WrittenRecord], forward_id: str | None) -> CommittedOffsets:
        """As MetadataLog's; Crashed where the process would be gone."""
        fault, self.fault = self.fault, None
        if self._epoch != self._topic.epoch:
            self._epoch = None
            raise Fenced("fenced")
        if fault is Fault.CRASH_BEFORE:
            raise Crashed
        if fault is Fault.LOST_REQUEST:
            self._epoch = None
            raise CommitUnknown("lost")
        first = self._topic.write(entries, forward_id)
        if fault is Fault.CRASH_WITHIN:
            raise Crashed
        self._topic.commit()
        if fault is Fault.CRASH_AFTER:
            raise Crashed
        if fault is Fault.LOST_ANSWER:
            self._epoch = None
            raise CommitUnknown("lost")
        return CommittedOffsets(first, first + len(entries) - 1)

    async def resign(self) -> None:
        self._epoch = None
