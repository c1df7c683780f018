"""Turns counts over time into the geometry of a bar chart, which the template draws as SVG.

Does not use Spark. The SVG is stretched to the width of the page, so it holds only the bars: x and widths are
relative to WIDTH, y and heights to HEIGHT, y downwards. Labels are HTML and placed in per cent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from spark_audit.report.formatting import number, short

WIDTH, HEIGHT = 1000, 200
BARS = 72
MOST_SERIES = 6
OTHERS = "others"
LEAST_HEIGHT = 2.0
"""Of a piece: one of a thousand requests is as visible as the other 999."""
LABELS = 8
"""The largest number of labels on the time axis."""

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
STEPS_MS = (
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 364, 3_640, 36_400, 364_000)),
)
"""Widths of a column that a reader can name."""
_DATE_AND_TIME = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a column that belongs to one series."""

    y: float
    height: float
    series: int


@dataclass(frozen=True, slots=True)
class Column:
    """One interval. `title` is its tooltip: the amount of each series and their sum."""

    from_ms: int
    x: float
    width: float
    title: str
    pieces: Sequence[Piece]


@dataclass(frozen=True, slots=True)
class Tick:
    """A label on an axis, `at` per cent from the left or from the bottom."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Plot:
    """Everything that the template needs to draw one chart. `names` are the series by number."""

    bucket_ms: int
    names: Sequence[str]
    columns: Sequence[Column]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]


Counts = Mapping[int, Mapping[str, float]]
"""bucket_ms -> series -> amount."""


def bucket_for(first_ms: int, last_ms: int) -> int:
    """Return the smallest width from STEPS_MS with which the whole time needs at most BARS columns."""
    return next((step for step in STEPS_MS if last_ms // step - first_ms // step < BARS), STEPS_MS[-1])


def stacked(
    counts: Counts,
    bucket_ms: int,
    first_ms: int,
    last_ms: int,
    *,
    order: Sequence[str] = (),
    shown: Callable[[float], str] = number,
    of_day: bool = False,
) -> Plot:
    """Return the columns from the first to the last moment.

    The series are those in `order`, or the largest ones; all others are OTHERS. `shown` formats an amount.
    With `of_day` the moments are times of any day, since midnight.
    """
    names = order or _names(counts)
    begin = first_ms // bucket_ms
    columns = last_ms // bucket_ms - begin + 1
    top = _round_up(max((sum(series.values()) for series in counts.values()), default=0))
    step = WIDTH / columns
    drawn = [
        Column(
            moment_ms,
            round((moment_ms // bucket_ms - begin) * step + step * 0.1, 2),
            round(step * 0.8, 2),
            _title(_moment(moment_ms, "%H:%M" if of_day else _DATE_AND_TIME), series, names, shown),
            _pieces(_fold(series, names), names, top),
        )
        for moment_ms, series in sorted(counts.items())
    ]
    ticks = _x_ticks(begin, columns, bucket_ms, of_day)
    return Plot(bucket_ms, names if drawn else (), drawn, ticks, _y_ticks(top))


def _names(counts: Counts) -> list[str]:
    sums: dict[str, float] = {}
    for series in counts.values():
        for name, count in series.items():
            sums[name] = sums.get(name, 0) + count
    folded = OTHERS in sums or len(sums) > MOST_SERIES
    ranked = sorted(sums.keys() - {OTHERS}, key=lambda name: (-sums[name], name))
    return [*ranked[: MOST_SERIES - 1], OTHERS] if folded else ranked


def _fold(series: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    folded: dict[str, float] = {}
    for name, count in series.items():
        drawn_as = name if name in names else OTHERS
        folded[drawn_as] = folded.get(drawn_as, 0) + count
    return folded


def _pieces(series: Mapping[str, float], names: Sequence[str], top: int) -> list[Piece]:
    pieces, below = [], 0.0
    for place, name in enumerate(names):
        if count := series.get(name, 0):
            # A small piece is drawn over the one below it.
            y, floor = _y(below + count, top), max(_y(below, top), LEAST_HEIGHT)
            height = round(max(floor - y, LEAST_HEIGHT), 2)
            pieces.append(Piece(round(floor - height, 2), height, place))
            below += count
    return pieces


def _title(
    moment: str, series: Mapping[str, float], names: Sequence[str], shown: Callable[[float], str]
) -> str:
    folded = _fold(series, names)
    lines = [f"{name}: {shown(folded[name])}" for name in names if folded.get(name)]
    if len(lines) > 1:
        lines.append(f"total: {shown(sum(folded.values()))}")
    return "\n".join([f"from {moment}", *lines])


def _y(count: float, top: int) -> float:
    return round(HEIGHT - HEIGHT * count / top, 2)


def _round_up(count: float) -> int:
    """Round up to 1, 2, 4 or 5 times a power of ten, so that a quarter of it is round too."""
    power = 1
    while True:
        for factor in (1, 2, 4, 5):
            if count <= factor * power:
                return factor * power
        power *= 10


def _y_ticks(top: int) -> list[Tick]:
    steps = 4 if top % 4 == 0 else min(top, 5)
    return [Tick(100 * n / steps, short(top * n / steps)) for n in range(steps + 1)]


def _x_ticks(begin: int, columns: int, bucket_ms: int, of_day: bool) -> list[Tick]:
    """Return labels at round moments: every third hour, every Monday. Midnight is labelled with its day."""
    first_ms, span_ms = begin * bucket_ms, columns * bucket_ms
    fitting = (s for s in STEPS_MS if s % bucket_ms == 0 and span_ms // s <= LABELS)
    step_ms = next(fitting, STEPS_MS[-1])
    # The epoch was a Thursday, and weeks begin on Mondays.
    offset_ms = 4 * _DAY if step_ms % (7 * _DAY) == 0 else 0
    at_ms = -(-(first_ms - offset_ms) // step_ms) * step_ms + offset_ms
    ticks = []
    while at_ms < first_ms + span_ms:
        label = _moment(at_ms, "%H:%M") if of_day else _label(at_ms, step_ms)
        ticks.append(Tick(round(100 * (at_ms - first_ms) / span_ms, 3), label))
        at_ms += step_ms
    return ticks


def _label(at_ms: int, step_ms: int) -> str:
    if at_ms % _DAY == 0:
        return _moment(at_ms, "%d %b %Y" if step_ms > 91 * _DAY else "%d %b")
    return _moment(at_ms, "%H:%M" if step_ms >= _MINUTE else "%H:%M:%S")


def _moment(moment_ms: int, pattern: str) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime(pattern)
