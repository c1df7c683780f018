"""Batches of a KRaft node's log, in order -> how far they are committed, and where that part lies.

Fed by kraft_log with heads, by kraft_quorum with what other nodes and snapshots prove. No node writes its
high watermark down. What the log itself tells: a leader's controller is told of its leadership only once the
leader change is committed, so the first data record of an epoch proves all that is before it. Behind that
stands time: a leader that no majority fetches from for one and a half times
controller.quorum.fetch.timeout.ms resigns. Why, and what that leaves open: docs/decisions/0039. Pure Python
without imports of Spark: slices travel to executors.
"""

from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from spark_audit.kraft.record_batches import Head

SETTLE_MS = 5_000
STEADY_MS = 1_000
"""So much of a gap between two batches counts as time at most: clocks are set, machines and processes stand
still. The active controller writes every metadata.max.idle.interval.ms (500)."""
SLICE_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Slice:
    """Whole batches of a file. Only records of offsets in [first, end) are wanted.

    `snapshot_offset`: of a snapshot, the last offset it covers; its records stand for all up to there.
    """

    path: str
    start_byte: int
    end_byte: int
    first: int
    end: int
    snapshot_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Where it lies, and its offsets: [begin, end)."""

    path: str
    start_byte: int
    end_byte: int
    begin: int
    end: int


class Batches:
    """Those that wait, first in first out. A week's log has a million: they are kept as numbers."""

    COLUMNS = 5

    def __init__(self) -> None:
        self._numbers = array("q")
        self._paths: list[str] = []
        self._taken = 0

    def put(self, batch: Batch) -> None:
        if not self._paths or self._paths[-1] != batch.path:
            self._paths.append(batch.path)
        place = len(self._paths) - 1
        self._numbers.extend((place, batch.start_byte, batch.end_byte, batch.begin, batch.end))

    def take_until(self, end: int) -> Iterator[Batch]:
        """Those that end there or before."""
        while self._taken < len(self._numbers) and self._numbers[self._taken + 4] <= end:
            place, *rest = self._numbers[self._taken : self._taken + self.COLUMNS]
            self._taken += self.COLUMNS
            yield Batch(self._paths[place], *rest)
        if 2 * self._taken >= len(self._numbers):
            del self._numbers[: self._taken]
            self._taken = 0


@dataclass(slots=True)
class Scan:
    """What is read of one directory: from offset `first` on, `slices` of what is committed.

    `end` and `committed_end`: behind the last whole batch, and behind the last one that is committed.
    """

    first: int
    settle_ms: int
    voters: frozenset[int] | None
    """The ids of the quorum as it was told last; None when that was never seen."""
    slices: list[Slice] = field(default_factory=list)
    end: int = 0
    committed_end: int = 0
    unfinished_bytes: int = 0
    """Of a batch that is still being written, or was torn."""
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """Each leader epoch that was seen, with its first offset."""
    settled_end: int = 0
    """How far time alone says that it is committed."""
    _waiting: Batches = field(default_factory=Batches)
    _steady: deque[tuple[int, int]] = field(default_factory=deque)
    """For each batch of the epoch that is not settled yet: the leader's time, and the batch's end."""
    _clock_ms: int = 0
    _last_ms: int = 0
    _proven: int = 0
    """Behind the leader change that this epoch began with, until its first data record."""

    def __post_init__(self) -> None:
        self.end = self.committed_end = self.settled_end = self.first

    def add(self, head: Head, path: str, at: int) -> None:
        """The next one: the batch with that head, which begins at that byte."""
        batch = Batch(path, at, at + head.size_bytes, head.base_offset, head.last_offset + 1)
        if not self.epochs or head.epoch != self.epochs[-1][0]:
            self._begin(head)
        self._clock_ms += min(max(head.max_time_ms - self._last_ms, 0), STEADY_MS)
        self._last_ms = head.max_time_ms
        self.end = max(self.first, batch.end)
        self._waiting.put(batch)
        if not head.is_control:
            self.commit(self._proven)
        self._steady.append((self._clock_ms, batch.end))
        while self._steady and self._steady[0][0] <= self._clock_ms - self.settle_ms:
            self.settled_end = max(self.settled_end, self._steady.popleft()[1])

    def commit(self, end: int) -> None:
        """All that lies before that offset."""
        for batch in self._waiting.take_until(end):
            self._note(batch)

    def commit_with(self, offset: int, epoch: int) -> None:
        """All that lies here before a record that is known to be committed, if it is the log of that record.

        Two logs that have a record of one epoch are the same up to the last that both have of it.
        """
        told = [number for number, begin in self.epochs if begin <= offset]
        if told and told[-1] == epoch:
            self.commit(offset + 1)

    def _begin(self, head: Head) -> None:
        self.epochs.append((head.epoch, head.base_offset))
        self._proven = head.last_offset + 1 if head.is_control else 0
        # What another leader left is committed with the first record of this one, by its own clock.
        self._last_ms = head.max_time_ms
        self._steady = deque((self._clock_ms, end) for _, end in self._steady)

    def _note(self, batch: Batch) -> None:
        """Put the batch to the slice before it, unless that is another file's or long enough."""
        if batch.end <= self.first:
            return
        self.committed_end = batch.end
        last = self.slices[-1] if self.slices else None
        if last is not None and last.path == batch.path and batch.end_byte - last.start_byte <= SLICE_BYTES:
            self.slices[-1] = Slice(batch.path, last.start_byte, batch.end_byte, last.first, batch.end)
            return
        begin = max(self.first, batch.begin)
        self.slices.append(Slice(batch.path, batch.start_byte, batch.end_byte, begin, batch.end))
