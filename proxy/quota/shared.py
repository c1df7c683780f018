"""A rate that several workers record at once, with one limit for all of them.

The rate is in shared memory; throttle times are those of Kafka's Rate on the records of all workers. A worker
writes only its own column and reads the others', so there is nothing to lock, and a killed worker leaves
nothing inconsistent for them. A new sample starts where another worker has started one already: so all
workers have the same sample boundaries, and samples with the same start are one sample of the group.
proxy.workers supplies the cells.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from proxy.quota.rate import Rate

Cells: TypeAlias = "memoryview[float]"
"""Format "d": eight bytes, aligned, so that each cell is read and written as a whole."""

TOTAL: Final = 0
"""All values of the column: at least those that count."""
CURRENT: Final = 1
"""1 + the index of the current sample; 0: nothing was ever recorded."""
OLDEST_START: Final = 2
PURGE_AT: Final = 3
"""Until then all samples of the column count. Later records can only postpone it."""
LATEST_START: Final = 4
SAMPLES: Final = 5
START, LAST_EVENT, VALUE, SAMPLE_CELLS = 0, 1, 2, 3


def column_cells(samples: int) -> int:
    """Return the number of cells (8 bytes each) of a worker's column of a rate."""
    return SAMPLES + SAMPLE_CELLS * (samples + 1)


@dataclass(frozen=True, slots=True)
class Place:
    """The location of the columns of one rate."""

    cells: Cells
    first: int
    """The index of the first worker's column; the others follow it."""
    columns: int
    own: int
    """The number of this worker's column."""
    generation_at: int = 0
    generation: float = 0
    """While the cell has this value the place belongs to this rate; otherwise it was reassigned."""
    divided_by: int = 1
    """The other columns are not available: this worker enforces this part of the limit by itself."""


class SharedRate(Rate):
    """Events per second of all workers. Of two simultaneous records, the next one sees both."""

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
        """`find` returns the location of the columns; it is called again if the place was reassigned."""
        super().__init__(window_ms, samples)
        self._column_cells = column_cells(samples)
        self._find = find
        self._relocate()

    def record(self, value: float, now_ms: int) -> None:
        cells = self._cells
        if cells[self._generation_at] != self._generation:
            self._relocate()
            cells = self._cells
        if not 0 <= now_ms - self._start_ms < self._window_ms or now_ms >= self._purge_at_ms:
            live = self._live_samples(now_ms)
            start_ms = max(live, default=0.0)
            if now_ms - start_ms >= self._window_ms:
                start_ms = float(now_ms)
            if start_ms != self._start_ms:
                self._begin(start_ms, now_ms)
            self._clean(live, now_ms)
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

    def room(self, bound: float, now_ms: int) -> float:
        total, oldest_start_ms = self._counted(now_ms)
        return bound / self.divided_by * self._measured_ms(now_ms - int(oldest_start_ms)) / 1000.0 - total

    def _counted(self, now_ms: int) -> tuple[float, float]:
        """Return the sum of all records that still count, and the start of the oldest sample."""
        cells, total, oldest_start_ms = self._cells, 0.0, float(now_ms)
        size, first = self._column_cells, self._first
        for at in range(first, first + self._columns * size, size):
            if not cells[at + CURRENT]:
                continue
            if now_ms >= cells[at + PURGE_AT] or cells[at + OLDEST_START] > now_ms:
                if now_ms >= cells[at + LATEST_START] + self._window_ms + self._expire_ms:
                    continue  # No record within the windows.
                live = self._live_samples(now_ms)
                return sum(value for value, _ in live.values()), min(live, default=float(now_ms))
            total += cells[at + TOTAL]
            oldest_start_ms = min(oldest_start_ms, cells[at + OLDEST_START])
        return total, oldest_start_ms

    def _live_samples(self, now_ms: int) -> dict[float, tuple[float, float]]:
        """Return the samples of the group that still count: start -> value, last event."""
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

    def _begin(self, start_ms: float, now_ms: int) -> None:
        cells, own = self._cells, self._own
        index = int(cells[own + CURRENT]) % (self.samples + 1)
        at = own + SAMPLES + SAMPLE_CELLS * index
        # A concurrent reader sees an empty sample, or one that does not count.
        cells[at + VALUE] = 0.0
        cells[at + LAST_EVENT] = now_ms
        cells[at + START] = start_ms
        cells[own + LATEST_START] = start_ms
        cells[own + CURRENT] = index + 1
        self._sample_at, self._start_ms = at, int(start_ms)

    def _clean(self, live: dict[float, tuple[float, float]], now_ms: int) -> None:
        """Drop samples that no longer count, and publish the sums of the others."""
        cells, own = self._cells, self._own
        total, oldest_start_ms, last_event_ms = 0.0, float(now_ms), float(now_ms)
        for at in range(own + SAMPLES, own + self._column_cells, SAMPLE_CELLS):
            start_ms = cells[at + START]
            if start_ms not in live and at != self._sample_at:
                cells[at + VALUE] = cells[at + START] = 0.0
                continue
            total += cells[at + VALUE]
            oldest_start_ms = min(oldest_start_ms, start_ms)
            last_event_ms = min(last_event_ms, live.get(start_ms, (0.0, float(now_ms)))[1])
        self._purge_at_ms = int(last_event_ms) + self._expire_ms
        cells[own + OLDEST_START] = oldest_start_ms
        cells[own + PURGE_AT] = self._purge_at_ms
        cells[own + TOTAL] = total

    def _relocate(self) -> None:
        """Take over the column of the place, with what its previous owner has used."""
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
            # The column may be half written: the next record of this worker corrects the sums.
            self._sample_at = self._own + SAMPLES + SAMPLE_CELLS * (index - 1)
            self._start_ms = int(self._cells[self._sample_at + START])
        else:
            self._sample_at = self._own + SAMPLES
