"""Fetched record batches -> committed ones: transactions of the metadata topic, batches of a quorum.

proxy.net.metadata.topic_feed passes the records of Fetch responses, which may end within a batch. A
transaction counts from its commit marker on, in the order of the markers, and is returned as a whole even if
it spans several batches: one request of the controller is one transaction, and no reader may see a part of
it. aiokafka parses the batches; it has no types, so `LogBatch` and `LogRecord` describe them.

proxy.net.metadata.quorum_feed passes the bytes of Fetch and FetchSnapshot of KRaft's leader. A follower gets
more than is committed: records from the high watermark on may still be truncated, so they wait here. Control
batches (leader changes, voters, a snapshot's header and footer) only move the offset.

This module does not know what the values and signatures mean.
"""

from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from aiokafka.errors import CorruptRecordException
from aiokafka.record.control_record import COMMIT_MARKER, ControlRecord
from aiokafka.record.memory_records import MemoryRecords

from proxy.error_text import text_of
from proxy.metadata.signatures import HEADER, Proof
from proxy.net.runtime.chunked import iterate_in_slices, run_in_slices

SLICE_RECORDS = 500
"""Records that take about a millisecond."""

LENGTH_AT, LENGTH_END, EPOCH_END = 8, 12, 16
"""Positions in a batch: its length ends at LENGTH_END and counts from there; the leader's epoch follows."""
SNAPSHOT_HEADER, SNAPSHOT_FOOTER = 3, 4
"""Types of control records (KIP-630)."""


class LogRecord(Protocol):
    """A record of a batch."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


class LogBatch(Protocol):
    """A batch of message format 2."""

    base_offset: int
    next_offset: int
    producer_id: int
    is_control_batch: bool
    is_transactional: bool

    def validate_crc(self) -> bool: ...
    def __iter__(self) -> Iterator[LogRecord]: ...


class BrokenBatch(Exception):
    """A record batch does not match its checksum or its header."""


class UnreadableRecords(BrokenBatch):
    """A record of a batch whose checksum is right cannot be read, and never will be."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A step of the log: these values became visible at this offset. Without values only the offset moves."""

    last_offset: int
    values: tuple[bytes, ...]
    offsets: tuple[int, int] | None = None
    """Offsets of the first and the last value."""
    headers: tuple[tuple[str, bytes], ...] = ()
    """Headers of the first value's record."""
    proofs: tuple[Proof, ...] = ()
    """Key and signature of each value's record."""

    @property
    def record_offsets(self) -> Sequence[int]:
        """The offset of each value. They follow each other, unless others write to the log as well."""
        first = self.last_offset if self.offsets is None else self.offsets[0]
        return range(first, first + len(self.values))


@dataclass(slots=True)
class _Values:
    """The records of one transaction that were read so far."""

    values: list[bytes] = field(default_factory=list)
    offsets: tuple[int, int] | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    proofs: list[Proof] = field(default_factory=list)

    def add(self, record: LogRecord, value: bytes) -> None:
        if self.offsets is None:
            self.headers = tuple(record.headers)
        self.offsets = (record.offset if self.offsets is None else self.offsets[0], record.offset)
        self.values.append(bytes(value))
        signature = next((value for name, value in record.headers if name == HEADER), None)
        self.proofs.append(Proof(bytes(record.key or b""), signature))

    def committed(self, last_offset: int) -> Committed:
        return Committed(last_offset, tuple(self.values), self.offsets, self.headers, tuple(self.proofs))


class TransactionReader:
    """Reads one partition from `position` on. Records of an open transaction wait for its marker."""

    def __init__(self, position: int) -> None:
        self.position = position
        """The offset to fetch next."""
        self._open: dict[int, _Values] = {}
        self._open_since: dict[int, int] = {}

    @property
    def settled_offset(self) -> int:
        """The last offset before the first open transaction: all steps up to here are returned."""
        return min([self.position, *self._open_since.values()]) - 1

    def feed(self, records: bytes) -> list[Committed]:
        """Read one or more batches, the last of which may be cut off; return the steps that they complete."""
        return [step for step in self._steps(records) if step is not None]

    async def read(self, records: bytes) -> AsyncIterator[Committed]:
        """Like `feed`, but yield the steps one by one; the event loop gets turns in between."""
        async for step in iterate_in_slices(self._steps(records)):
            if step is not None:
                yield step

    def _steps(self, records: bytes) -> Iterator[Committed | None]:
        """Yield the steps, and None after each SLICE_RECORDS."""
        batches = MemoryRecords(records)
        while batches.has_next():
            batch = _checked(batches)
            # The first batch of a Fetch response may begin before the requested offset.
            if batch.next_offset <= self.position:
                continue
            step = yield from self._step(batch, batch.next_offset - 1)
            self.position = batch.next_offset
            if step is not None:
                yield step

    def _step(self, batch: LogBatch, last_offset: int) -> Generator[None, None, Committed | None]:
        if batch.is_control_batch:
            waiting = self._open.pop(batch.producer_id, _Values())
            self._open_since.pop(batch.producer_id, None)
            markers = [ControlRecord.parse(record.key) for record in _records(batch)]
            committed = COMMIT_MARKER in markers
            return waiting.committed(last_offset) if committed else Committed(last_offset, ())
        if not batch.is_transactional:
            values = _Values()
            yield from self._read(batch, values)
            return values.committed(last_offset)
        self._open_since.setdefault(batch.producer_id, batch.base_offset)
        yield from self._read(batch, self._open.setdefault(batch.producer_id, _Values()))
        return None

    def _read(self, batch: LogBatch, into: _Values) -> Iterator[None]:
        # A null value is a tombstone. Penstock writes none to this log, and ignores those of others.
        for number, record in enumerate(_records(batch), 1):
            if record.offset >= self.position and record.value is not None:
                into.add(record, record.value)
            if number % SLICE_RECORDS == 0:
                yield


def _checked(batches: MemoryRecords) -> LogBatch:
    """Return the next batch. BrokenBatch when it does not match its checksum or its header."""
    try:
        batch: LogBatch = batches.next_batch()
    except CorruptRecordException as error:
        raise BrokenBatch(text_of(error)) from error
    if not hasattr(batch, "is_control_batch"):
        raise BrokenBatch("a batch of message format 0 or 1, which no Kafka since 4.0 writes")
    if not batch.validate_crc():
        raise BrokenBatch(f"the batch at offset {batch.base_offset} does not match its CRC")
    return batch


@dataclass(frozen=True, slots=True)
class ReplayedBatch:
    last_offset: int
    epoch: int
    values: tuple[bytes, ...]
    """Empty for a control batch."""


class QuorumLog:
    """The part of a follower's log that is fetched and not committed."""

    def __init__(self) -> None:
        self._uncommitted: list[ReplayedBatch] = []
        self._committed = (0, 0)

    @property
    def position(self) -> int:
        """The offset to fetch next."""
        return self._uncommitted[-1].last_offset + 1 if self._uncommitted else self._committed[0]

    @property
    def last_epoch(self) -> int:
        """The epoch of the last fetched record; 0 before the first one."""
        return self._uncommitted[-1].epoch if self._uncommitted else self._committed[1]

    @property
    def has_uncommitted(self) -> bool:
        return bool(self._uncommitted)

    def start_at(self, offset: int, epoch: int) -> None:
        """Continue at `offset`: everything before it is known from a snapshot, or 0: nothing is."""
        self._uncommitted = []
        self._committed = (offset, epoch)

    def truncate(self) -> None:
        """Drop what is not committed, because the leader's log differs from it."""
        self._uncommitted = []

    async def read(self, records: bytes) -> None:
        """Add whole batches, the last of which may be cut off. BrokenBatch if one cannot be read."""
        await run_in_slices(self._steps(records))

    def _steps(self, records: bytes) -> Generator[None, None, None]:
        whole, _ = split(records)
        for raw in whole:
            batch = _checked(MemoryRecords(raw))
            if batch.next_offset <= self.position:
                continue
            if batch.base_offset > self.position:
                raise BrokenBatch(f"the log goes on at offset {batch.base_offset}, not {self.position}")
            values: list[bytes] = []
            if not batch.is_control_batch:
                yield from _values(batch, self.position, values)
            epoch = int.from_bytes(raw[LENGTH_END:EPOCH_END], "big", signed=True)
            self._uncommitted.append(ReplayedBatch(batch.next_offset - 1, epoch, tuple(values)))
            yield

    def committed(self, high_watermark: int) -> list[ReplayedBatch]:
        """Return the batches before the high watermark; each is returned once."""
        count = sum(batch.last_offset < high_watermark for batch in self._uncommitted)
        ready, self._uncommitted = self._uncommitted[:count], self._uncommitted[count:]
        if ready:
            self._committed = (ready[-1].last_offset + 1, ready[-1].epoch)
        return ready


class SnapshotReader:
    """Reads the values of a snapshot from chunks that may be cut anywhere."""

    def __init__(self) -> None:
        self._rest = b""
        self._values: list[bytes] = []
        self._control_types: list[int] = []

    def feed(self, chunk: bytes) -> None:
        for _ in self._steps(chunk):
            pass

    async def read(self, chunk: bytes) -> None:
        """Like `feed`; the event loop gets turns in between."""
        await run_in_slices(self._steps(chunk))

    def _steps(self, chunk: bytes) -> Generator[None, None, None]:
        whole, self._rest = split(self._rest + chunk)
        for raw in whole:
            batch = _checked(MemoryRecords(raw))
            if batch.is_control_batch:
                self._control_types += [int.from_bytes(each.key[2:4], "big") for each in _records(batch)]
            else:
                yield from _values(batch, batch.base_offset, self._values)
            yield

    def values(self) -> list[bytes]:
        """Return all values. BrokenBatch if the snapshot has no header or no footer."""
        if self._rest:
            raise BrokenBatch(f"the snapshot ends within a batch, {len(self._rest)} bytes behind the last")
        if not {SNAPSHOT_HEADER, SNAPSHOT_FOOTER} <= set(self._control_types):
            raise BrokenBatch("the snapshot has no header or no footer")
        return self._values


def split(records: bytes) -> tuple[list[bytes], bytes]:
    """Return the whole batches, and the bytes of one that is cut off."""
    batches = []
    start = 0
    while len(records) - start >= EPOCH_END:
        length = int.from_bytes(records[start + LENGTH_AT : start + LENGTH_END], "big", signed=True)
        if length <= 0:
            raise BrokenBatch(f"a batch of {length} bytes")
        end = start + LENGTH_END + length
        if end > len(records):
            break
        batches.append(records[start:end])
        start = end
    return batches, records[start:]


def _values(batch: LogBatch, position: int, into: list[bytes]) -> Iterator[None]:
    for number, record in enumerate(_records(batch), 1):
        if record.offset >= position:
            into.append(_value(record))
        if number % SLICE_RECORDS == 0:
            yield


def _records(batch: LogBatch) -> Iterator[LogRecord]:
    try:
        yield from batch
    except Exception as error:
        # A broker accepts what aiokafka has many errors for, such as the name of a header that is not UTF-8.
        raise UnreadableRecords(f"the batch at offset {batch.base_offset}: {text_of(error)}") from error


def _value(record: LogRecord) -> bytes:
    if record.value is None:
        raise BrokenBatch(f"the record at offset {record.offset} has no value")
    return bytes(record.value)
