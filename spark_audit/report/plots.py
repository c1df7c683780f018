"""Counts over time into the geometry of a bar chart; the template draws it as SVG.

Pure Python without Spark. Coordinates are those of the SVG's viewBox, y downwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

WIDTH, HEIGHT = 1160, 210
LEFT, RIGHT, TOP, BOTTOM = 56, 8, 10, 24
BARS = 72
SERIES = 6
OTHERS = "others"

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
BUCKETS_MS = (
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 364)),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One coloured piece of a column; `title` is what the reader sees on pointing at it."""

    x: float
    y: float
    width: float
    height: float
    series: int
    title: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A label on an axis; `at` is x or y."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Plot:
    """Everything the template needs to draw one chart. `names` are the series by their number."""

    names: Sequence[str]
    bars: Sequence[Bar]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]


Counts = Mapping[int, Mapping[str, int]]
"""bucket_ms -> series -> count."""


def bucket_for(first_ms: int, last_ms: int) -> int:
    """The smallest round stretch of time that needs at most BARS columns for the span."""
    for bucket_ms in BUCKETS_MS:
        if last_ms // bucket_ms - first_ms // bucket_ms < BARS:
            return bucket_ms
    return BUCKETS_MS[-1]


def stacked(counts: Counts, bucket_ms: int, first_ms: int, last_ms: int) -> Plot:
    """Columns from the first to the last moment; the largest series keep their names."""
    names = _names(counts)
    begin = first_ms // bucket_ms
    columns = last_ms // bucket_ms - begin + 1
    step = (WIDTH - LEFT - RIGHT) / columns
    top = _round_up(max((sum(series.values()) for series in counts.values()), default=0))
    bars = [
        bar
        for moment_ms, series in sorted(counts.items())
        for bar in _column(
            _fold(series, names), names, moment_ms, (moment_ms // bucket_ms - begin) * step, step, top
        )
    ]
    return Plot(names, bars, _x_ticks(begin, columns, step, bucket_ms), _y_ticks(top))


def _names(counts: Counts) -> list[str]:
    sums: dict[str, int] = {}
    for series in counts.values():
        for name, count in series.items():
            sums[name] = sums.get(name, 0) + count
    ranked = sorted(sums, key=lambda name: (-sums[name], name))
    return ranked if len(ranked) <= SERIES else [*ranked[: SERIES - 1], OTHERS]


def _fold(series: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    folded: dict[str, int] = {}
    for name, count in series.items():
        kept = name if name in names else OTHERS
        folded[kept] = folded.get(kept, 0) + count
    return folded


def _column(
    series: Mapping[str, int], names: Sequence[str], moment_ms: int, x: float, step: float, top: int
) -> list[Bar]:
    bars, below = [], 0
    for number, name in enumerate(names):
        count = series.get(name, 0)
        if count:
            y, floor = _y(below + count, top), _y(below, top)
            title = f"{_moment(moment_ms)}  {name}: {count:,}"
            width = max(step - min(2.0, step / 4), 0.5)
            bars.append(Bar(round(LEFT + x, 2), y, round(width, 2), round(floor - y, 2), number, title))
            below += count
    return bars


def _y(count: int, top: int) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / top, 2)


def _round_up(count: int) -> int:
    """To 1, 2, 4 or 5 times a power of ten, so that a quarter of it is round too."""
    power = 1
    while True:
        for factor in (1, 2, 4, 5):
            if count <= factor * power:
                return factor * power
        power *= 10


def _y_ticks(top: int) -> list[Tick]:
    steps = 4 if top % 4 == 0 else min(top, 5)
    return [Tick(_y(top * n // steps, top), f"{top * n // steps:,}") for n in range(steps + 1)]


def _x_ticks(begin: int, columns: int, step: float, bucket_ms: int) -> list[Tick]:
    every = max(1, round(columns / 8))
    labelled = range(0, columns, every)
    pattern = "%d %b" if bucket_ms >= _DAY else "%d %b %H:%M" if columns * bucket_ms > _DAY else "%H:%M"
    if bucket_ms < _MINUTE:
        pattern = "%H:%M:%S"
    return [Tick(round(LEFT + n * step, 2), _moment((begin + n) * bucket_ms, pattern)) for n in labelled]


def _moment(moment_ms: int, pattern: str = "%Y-%m-%d %H:%M:%S") -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime(pattern)
