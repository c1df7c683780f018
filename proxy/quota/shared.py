"""A rate that several workers record at once, each in a column of its own: one limit for all of them.

Cells of shared memory in, the throttle time of Kafka's Rate over everybody's records out. A worker writes its
own column and reads the others', so there is nothing to lock and nothing that a killed worker could leave
half done for them. A new sample begins where another worker has begun one already; so all are cut at the same
moments, and samples with one start are one sample of the group. Made by proxy.workers, which has the cells.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from proxy.quota.rate import Rate

Cells: TypeAlias = "memoryview[float]"
"""Of format "d": eight bytes, aligned, so that each is read and written whole."""

TOTAL: Final = 0
"""All values of the column: never less than what counts."""
CURRENT: Final = 1
"""1 + the index of the sample that is recorded in; 0: nothing was ever recorded."""
OLDEST_START: Final = 2
PURGE_AT: Final = 3
"""Until then all samples of the column count. What is added to it later only makes it later."""
LATEST_START: Final = 4
SAMPLES: Final = 5
START, LAST_EVENT, VALUE, SAMPLE_CELLS = 0, 1, 2, 3


def column_cells(samples: int) -> int:
    """How many cells (8 bytes each) a worker's column of a rate takes."""
    return SAMPLES + SAMPLE_CELLS * (samples + 1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the columns of one rate are."""

    cells: Cells
    first: int
    """The index of the first worker's column; the others follow it."""
    columns: int
    own: int
    """Whose column is ours."""
    generation_at: int = 0
    generation: float = 0
    """While this stands there the place is this rate's; otherwise it has become another's."""
    divided_by: int = 1
    """Nobody else's columns are to be had: we keep to this part of the limit by ourselves."""


class SharedRate(Rate):
    """Events per second of all workers; what two record at one instant the next record sees."""

    __slots__ = (
        "_cells",
        "_column_cells",
        "_columns",
        "_find",
        "_first",
        "_foreign_totals",
        "_generation",
        "_generation_at",
        "_own",
        "_sample_at",
        "divided_by",
    )

    def __init__(self, window_ms: int, samples: int, find: Callable[[], Place]) -> None:
        """`find`: where the columns are, asked again when the place has become another's."""
        super().__init__(window_ms, samples)
        self._column_cells = column_cells(samples)
        self._find = find
        self._move()

    def record(self, value: float, now_ms: int) -> None:
        cells = self._cells
        if cells[self._generation_at] != self._generation:
            self._move()
            cells = self._cells
        if not 0 <= now_ms - self._start_ms < self._window_ms or now_ms >= self._purge_at_ms:
            self._advance(now_ms)
        at = self._sample_at
        cells[at + VALUE] += value
        cells[at + LAST_EVENT] = now_ms
        cells[self._own] += value

    def record_within(self, value: float, bound: float, now_ms: int) -> bool:
        if not 0 <= now_ms - self._start_ms < self._window_ms or now_ms >= self._purge_at_ms:
            return False
        cells, own = self._cells, self._own
        total = cells[own] + value
        for at in self._foreign_totals:
            total += cells[at]
        if total * 1000.0 * self.divided_by > bound * self._full_ms:
            return False
        if cells[self._generation_at] != self._generation:
            return False
        at = self._sample_at
        cells[at + VALUE] += value
        cells[at + LAST_EVENT] = now_ms
        cells[own] += value
        return True

    def measure(self, now_ms: int) -> float:
        total, oldest_start_ms = self._counted(now_ms)
        return total / (self._measured_ms(now_ms - int(oldest_start_ms)) / 1000.0)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        total, oldest_start_ms = self._counted(now_ms)
        window_ms = self._measured_ms(now_ms - int(oldest_start_ms))
        return self._until_within(total, window_ms, bound / self.divided_by)

    def _counted(self, now_ms: int) -> tuple[float, float]:
        """What all have recorded that still counts, and the start of its oldest sample."""
        cells, total, oldest_start_ms = self._cells, 0.0, float(now_ms)
        size, first = self._column_cells, self._first
        for at in range(first, first + self._columns * size, size):
            if not cells[at + CURRENT]:
                continue
            if now_ms >= cells[at + PURGE_AT] or cells[at + OLDEST_START] > now_ms:
                if now_ms >= cells[at + LATEST_START] + self._window_ms + self._expire_ms:
                    continue  # Nobody has recorded there for as long as we look back.
                return self._looked_at(now_ms)
            total += cells[at + TOTAL]
            oldest_start_ms = min(oldest_start_ms, cells[at + OLDEST_START])
        return total, oldest_start_ms

    def _looked_at(self, now_ms: int) -> tuple[float, float]:
        """The same from every sample."""
        kept = self._kept(now_ms)
        return sum(value for value, _ in kept.values()), min(kept, default=float(now_ms))

    def _kept(self, now_ms: int) -> dict[float, tuple[float, float]]:
        """Start of each sample of the group that still counts -> its value, its last event."""
        size, first = self._column_cells, self._first
        block = self._cells[first : first + self._columns * size].tolist()
        found: dict[float, tuple[float, float]] = {}
        for column in range(0, len(block), size):
            if not block[column + CURRENT]:
                continue
            for at in range(column + SAMPLES, column + size, SAMPLE_CELLS):
                start_ms, last_event_ms, value = block[at : at + SAMPLE_CELLS]
                if start_ms:
                    before, before_ms = found.get(start_ms, (0.0, last_event_ms))
                    found[start_ms] = before + value, max(last_event_ms, before_ms)
        horizon_ms, future_ms = now_ms - self._expire_ms, now_ms + self._full_ms
        return {s: sample for s, sample in found.items() if sample[1] > horizon_ms and s < future_ms}

    def _advance(self, now_ms: int) -> None:
        """The sample for `now_ms`: the one that we are in, the one that others are in, or a new one."""
        kept = self._kept(now_ms)
        start_ms = max(kept, default=0.0)
        if now_ms - start_ms >= self._window_ms:
            start_ms = float(now_ms)
        if start_ms != self._start_ms:
            self._begin(start_ms, now_ms)
        self._clean(kept, now_ms)

    def _begin(self, start_ms: float, now_ms: int) -> None:
        cells, own = self._cells, self._own
        index = int(cells[own + CURRENT]) % (self.samples + 1)
        at = own + SAMPLES + SAMPLE_CELLS * index
        # Whoever reads in between finds a sample that is empty, or one that counts for nothing.
        cells[at + VALUE] = 0.0
        cells[at + LAST_EVENT] = now_ms
        cells[at + START] = start_ms
        cells[own + LATEST_START] = start_ms
        cells[own + CURRENT] = index + 1
        self._sample_at, self._start_ms = at, int(start_ms)

    def _clean(self, kept: dict[float, tuple[float, float]], now_ms: int) -> None:
        """Forget what does not count any more, and tell the others what does."""
        cells, own = self._cells, self._own
        total, oldest_start_ms, last_event_ms = 0.0, float(now_ms), float(now_ms)
        for at in range(own + SAMPLES, own + self._column_cells, SAMPLE_CELLS):
            start_ms = cells[at + START]
            if start_ms not in kept and at != self._sample_at:
                cells[at + VALUE] = cells[at + START] = 0.0
                continue
            total += cells[at + VALUE]
            oldest_start_ms = min(oldest_start_ms, start_ms)
            last_event_ms = min(last_event_ms, kept.get(start_ms, (0.0, float(now_ms)))[1])
        self._purge_at_ms = int(last_event_ms) + self._expire_ms
        cells[own + OLDEST_START] = oldest_start_ms
        cells[own + PURGE_AT] = self._purge_at_ms
        cells[own + TOTAL] = total

    def _move(self) -> None:
        """Take the column of our place over, with what whoever had it before us has used."""
        place = self._find()
        size = self._column_cells
        self._cells, self._first, self._columns = place.cells, place.first, place.columns
        self._own = place.first + place.own * size
        self._generation_at, self._generation = place.generation_at, place.generation
        self.divided_by = place.divided_by
        self._foreign_totals = tuple(
            place.first + number * size + TOTAL for number in range(place.columns) if number != place.own
        )
        self._start_ms = self._purge_at_ms = 0
        index = int(self._cells[self._own + CURRENT])
        if index:
            # It may have been left half written: our own first record puts the sums right.
            self._sample_at = self._own + SAMPLES + SAMPLE_CELLS * (index - 1)
            self._start_ms = int(self._cells[self._sample_at + START])
        else:
            self._sample_at = self._own + SAMPLES
