"""Fetched record batches -> complete committed transactions, in the order of their commit markers.

proxy.net.metadata.topic_feed passes the records of Fetch responses, which may end within a batch. A
transaction counts from its commit marker on, and is returned as a whole even if it spans several batches: one
request of the controller is one transaction, and no reader may see a part of it. This module does not know
what the values mean. aiokafka parses the batches; it has no types, so `LogBatch` and `LogRecord` describe
them.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from aiokafka.errors import CorruptRecordException
from aiokafka.record.control_record import COMMIT_MARKER, ControlRecord
from aiokafka.record.memory_records import MemoryRecords

SLICE_RECORDS = 500
"""Records that take about a millisecond."""


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


@dataclass(frozen=True, slots=True)
class Committed:
    """A step of the log: these values became visible at this offset. Without values only the offset moves."""

    last_offset: int
    values: tuple[bytes, ...]
    offsets: tuple[int, int] | None = None
    """Offsets of the first and the last value."""
    headers: tuple[tuple[str, bytes], ...] = ()
    """Headers of the first value's record."""


@dataclass(slots=True)
class _Values:
    """The records of one transaction that were read so far."""

    values: list[bytes] = field(default_factory=list)
    offsets: tuple[int, int] | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    def add(self, record: LogRecord, value: bytes) -> None:
        if self.offsets is None:
            self.headers = tuple(record.headers)
        self.offsets = (record.offset if self.offsets is None else self.offsets[0], record.offset)
        self.values.append(bytes(value))

    def committed(self, last_offset: int) -> Committed:
        return Committed(last_offset, tuple(self.values), self.offsets, self.headers)


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
        return [step for step in self.steps(records) if step is not None]

    def steps(self, records: bytes) -> Iterator[Committed | None]:
        """Like `feed`, but yield the steps one by one, and None after each SLICE_RECORDS."""
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
            return self._decide(batch, last_offset)
        if not batch.is_transactional:
            values = _Values()
            yield from self._read(batch, values)
            return values.committed(last_offset)
        self._open_since.setdefault(batch.producer_id, batch.base_offset)
        yield from self._read(batch, self._open.setdefault(batch.producer_id, _Values()))
        return None

    def _decide(self, batch: LogBatch, last_offset: int) -> Committed:
        waiting = self._open.pop(batch.producer_id, _Values())
        self._open_since.pop(batch.producer_id, None)
        markers = [ControlRecord.parse(record.key) for record in batch]
        committed = COMMIT_MARKER in markers
        return waiting.committed(last_offset) if committed else Committed(last_offset, ())

    def _read(self, batch: LogBatch, into: _Values) -> Iterator[None]:
        # A null value is a tombstone. Penstock writes none to this log, and ignores those of others.
        for number, record in enumerate(batch, 1):
            if record.offset >= self.position and record.value is not None:
                into.add(record, record.value)
            if number % SLICE_RECORDS == 0:
                yield


def _checked(batches: MemoryRecords) -> LogBatch:
    try:
        batch: LogBatch = batches.next_batch()
    except CorruptRecordException as error:
        raise BrokenBatch(str(error)) from error
    if not hasattr(batch, "is_control_batch"):
        raise BrokenBatch("a batch of message format 0 or 1, which no Kafka since 4.0 writes")
    if not batch.validate_crc():
        raise BrokenBatch(f"the batch at offset {batch.base_offset} does not match its CRC")
    return batch
