"""How far the log of one KRaft node is committed, and where that part is in its files.

log_directory.py adds the heads of batches, quorum.py what other nodes and snapshots prove. No node stores its
high watermark. The log itself proves this much: a controller learns that it leads only when the leader change
is committed, so the first data record of an epoch proves that everything before it is committed. The rest is
a matter of time: a leader from which no majority fetches for 1.5 times controller.quorum.fetch.timeout.ms
resigns. docs/decisions/0039 says why, and what remains open. Does not import Spark, because slices are
pickled to executors.
"""

from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from spark_audit.kraft.record_batches import Head

SETTLE_MS = 5_000
STEADY_MS = 1_000
"""A gap between two batches counts as at most this much time, because clocks are set and machines
stand still. The active controller writes every metadata.max.idle.interval.ms (500)."""
SLICE_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Slice:
    """Whole batches of a file. Only records with offsets in [first, end) are read.

    `snapshot_offset` is the last offset that a snapshot covers, None for a segment.
    """

    path: str
    start_byte: int
    end_byte: int
    first: int
    end: int
    snapshot_offset: int | None = None


@dataclass(frozen=True, slots=True)
class QuorumBatch:
    """The place of a batch in its file, and its offsets: [begin, end)."""

    path: str
    start_byte: int
    end_byte: int
    begin: int
    end: int


class Batches:
    """A queue of uncommitted batches. A week's log has a million of them, so it stores them as numbers."""

    COLUMNS = 5

    def __init__(self) -> None:
        self._numbers = array("q")
        self._paths: list[str] = []
        self._taken = 0

    def put(self, batch: QuorumBatch) -> None:
        if not self._paths or self._paths[-1] != batch.path:
            self._paths.append(batch.path)
        place = len(self._paths) - 1
        self._numbers.extend((place, batch.start_byte, batch.end_byte, batch.begin, batch.end))

    def take_until(self, end: int) -> Iterator[QuorumBatch]:
        """Remove and yield the batches that end at `end` or before."""
        while self._taken < len(self._numbers) and self._numbers[self._taken + 4] <= end:
            place, *rest = self._numbers[self._taken : self._taken + self.COLUMNS]
            self._taken += self.COLUMNS
            yield QuorumBatch(self._paths[place], *rest)
        if 2 * self._taken >= len(self._numbers):
            del self._numbers[: self._taken]
            self._taken = 0


@dataclass(slots=True)
class Scan:
    """The result of reading one directory from offset `first` on: `slices` of what is committed.

    `end` is the offset after the last whole batch, `committed_end` the one after the last committed batch.
    """

    first: int
    settle_ms: int
    voters: frozenset[int] | None
    """The ids of the voters, as last seen in the log; None if never."""
    slices: list[Slice] = field(default_factory=list)
    end: int = 0
    committed_end: int = 0
    unfinished_bytes: int = 0
    """The bytes of a last batch that is still being written, or was cut off."""
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """Each leader epoch with its first offset."""
    settled_end: int = 0
    """How far the log is committed by time alone."""
    _waiting: Batches = field(default_factory=Batches)
    _steady: deque[tuple[int, int]] = field(default_factory=deque)
    """The leader's time and the end offset of each batch that is not settled yet."""
    _clock_ms: int = 0
    _last_ms: int = 0
    _proven: int = 0
    """The offset after the leader change of this epoch, which its first data record proves."""

    def __post_init__(self) -> None:
        self.end = self.committed_end = self.settled_end = self.first

    def add(self, head: Head, path: str, at: int) -> None:
        """Add the next batch, which begins at byte `at`."""
        batch = QuorumBatch(path, at, at + head.size_bytes, head.base_offset, head.last_offset + 1)
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
        """Mark all batches before that offset as committed."""
        for batch in self._waiting.take_until(end):
            self._add_to_slices(batch)

    def commit_with(self, offset: int, epoch: int) -> None:
        """Mark all up to a record that is known to be committed, if this log has that record.

        Two logs with records of the same epoch are equal up to the last of them that both have.
        """
        begun = [number for number, begin in self.epochs if begin <= offset]
        if begun and begun[-1] == epoch:
            self.commit(offset + 1)

    def _begin(self, head: Head) -> None:
        self.epochs.append((head.epoch, head.base_offset))
        self._proven = head.last_offset + 1 if head.is_control else 0
        # The records of the previous leader are committed with the first record of this one, by its clock.
        self._last_ms = head.max_time_ms
        self._steady = deque((self._clock_ms, end) for _, end in self._steady)

    def _add_to_slices(self, batch: QuorumBatch) -> None:
        """Extend the last slice by the batch, unless it is of another file or long enough."""
        if batch.end <= self.first:
            return
        self.committed_end = batch.end
        last = self.slices[-1] if self.slices else None
        if last is not None and last.path == batch.path and batch.end_byte - last.start_byte <= SLICE_BYTES:
            self.slices[-1] = Slice(batch.path, last.start_byte, batch.end_byte, last.first, batch.end)
            return
        begin = max(self.first, batch.begin)
        self.slices.append(Slice(batch.path, batch.start_byte, batch.end_byte, begin, batch.end))
