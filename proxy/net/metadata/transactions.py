"""Fetched record batches -> whole committed transactions, in the order of their commit markers.

Fed by proxy.net.metadata.topic_feed with the records of Fetch responses, at whatever byte a response ended. A
transaction counts from its commit marker on and is returned whole, even if it spans several batches: one
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

PIECE_RECORDS = 500
"""About a millisecond's work."""


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
    """A record batch is not what its checksum or its header says."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A step of the log: these values became visible at this offset (none: only the offset moves)."""

    last_offset: int
    values: tuple[bytes, ...]
    offsets: tuple[int, int] | None = None
    """Of the first and the last value."""
    headers: tuple[tuple[str, bytes], ...] = ()
    """Of the first value's record."""


@dataclass(slots=True)
class _Values:
    """Records that belong together, as far as they were read."""

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
    """Follows one partition from `position` on; what is undecided waits for its marker."""

    def __init__(self, position: int) -> None:
        self.position = position
        """The offset to fetch next."""
        self._undecided: dict[int, _Values] = {}
        self._undecided_since: dict[int, int] = {}

    @property
    def settled_offset(self) -> int:
        """Everything up to here has been given out: the offset before the first undecided record."""
        return min([self.position, *self._undecided_since.values()]) - 1

    def feed(self, records: bytes) -> list[Committed]:
        """What the records (one or more batches, the last perhaps cut off) bring to an end."""
        return [step for step in self.steps(records) if step is not None]

    def steps(self, records: bytes) -> Iterator[Committed | None]:
        """As `feed`, one by one; None after each PIECE_RECORDS, for who lets others go on in between."""
        batches = MemoryRecords(records)
        while batches.has_next():
            batch = _checked(batches)
            # The first batch of a Fetch may begin before the offset that was asked for.
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
        self._undecided_since.setdefault(batch.producer_id, batch.base_offset)
        yield from self._read(batch, self._undecided.setdefault(batch.producer_id, _Values()))
        return None

    def _decide(self, batch: LogBatch, last_offset: int) -> Committed:
        waiting = self._undecided.pop(batch.producer_id, _Values())
        self._undecided_since.pop(batch.producer_id, None)
        markers = [ControlRecord.parse(record.key) for record in batch]
        committed = COMMIT_MARKER in markers
        return waiting.committed(last_offset) if committed else Committed(last_offset, ())

    def _read(self, batch: LogBatch, into: _Values) -> Iterator[None]:
        # A null value is a tombstone: the log has none of ours, and says nothing if another put it there.
        for number, record in enumerate(batch, 1):
            if record.offset >= self.position and record.value is not None:
                into.add(record, record.value)
            if number % PIECE_RECORDS == 0:
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
