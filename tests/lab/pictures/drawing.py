"""Panels of the dashboard and the lines of their queries in, one SVG for each row of the dashboard out.

Laid out as Grafana lays them out, by `gridPos`. What has no line says "no data", as Grafana does.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

COLUMN, UNIT = 50, 30
"""Pixels of one of the 24 columns of the dashboard, and of one unit of height."""
GAP, MARGIN_LEFT, TITLE, TICKS, LEGEND = 8, 64, 26, 18, 15
MAX_LEGEND = 6
COLOURS = ("#3274d9", "#e0752d", "#56a64b", "#a352cc", "#e02f44", "#f2cc0c", "#37872d", "#8ab8ff", "#ff9830")
STYLE = (
    "text{font:11px sans-serif;fill:#333}.t{font-weight:600;font-size:12px}.v{font-size:30px}"
    ".s{fill:#777}.p{fill:#fff;stroke:#d5d8dc}.g{stroke:#e8eaed}.m{stroke:#999;stroke-dasharray:2 3}"
    "polyline{fill:none;stroke-width:1.4}.n{font-size:13px;fill:#888}"
)
_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_OF_UNIT = {"reqps": " req/s", "cps": "/s", "Bps": " B/s", "bytes": " B", "s": " s", "d": " d"}


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]
    """Milliseconds and value."""


@dataclass(frozen=True, slots=True)
class Span:
    """What is shown, and what happened meanwhile."""

    start_ms: int
    end_ms: int
    marks: Sequence[tuple[int, str]]


def rows(dashboard: Mapping[str, Any]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Each row's title with its panels, folded or not; those above the first row are the overview."""
    title = "Overview"
    panels: list[Mapping[str, Any]] = []
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield title, panels
            title, panels = panel["title"], list(panel["panels"])
        else:
            panels.append(panel)
    yield title, panels


def draw(panels: Sequence[Mapping[str, Any]], lines: Mapping[int, Sequence[Line]], span: Span) -> str:
    """`lines` by the panel's id."""
    top = min(panel["gridPos"]["y"] for panel in panels)
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    width, panels_height = 24 * COLUMN + GAP, (bottom - top) * UNIT + GAP
    notes = [f"{chr(ord('a') + place)}  {text}" for place, (_, text) in enumerate(span.marks)]
    height = panels_height + LEGEND * math.ceil(len(notes) / 3) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f'<style>{STYLE}</style><rect width="{width}" height="{height}" fill="#f4f5f5"/>',
    ]
    for panel in panels:
        at = panel["gridPos"]
        x, y = at["x"] * COLUMN + GAP, (at["y"] - top) * UNIT + GAP
        box = x, y, at["w"] * COLUMN - GAP, at["h"] * UNIT - GAP
        parts += _panel(panel, lines.get(panel["id"], ()), span, box)
    for place, note in enumerate(notes):
        x, y = GAP + place % 3 * width / 3, panels_height + LEGEND * (place // 3 + 1)
        parts.append(f'<text class="s" x="{x:.0f}" y="{y:.0f}">{escape(note)}</text>')
    return "\n".join([*parts, "</svg>", ""])


Box = tuple[float, float, float, float]


def _panel(panel: Mapping[str, Any], lines: Sequence[Line], span: Span, box: Box) -> Iterator[str]:
    x, y, width, height = box
    unit = panel["fieldConfig"]["defaults"].get("unit", "none")
    yield f'<rect class="p" x="{x}" y="{y}" width="{width}" height="{height}" rx="2"/>'
    yield f'<text class="t" x="{x + 8}" y="{y + 17}">{escape(panel["title"])}</text>'
    lines = [line for line in lines if line.points]
    if not lines:
        yield f'<text class="n" text-anchor="middle" x="{x + width / 2}" y="{y + height / 2}">no data</text>'
    elif panel["type"] == "stat":
        # A count that is shown by its name, such as that of a version, shows the name.
        value = lines[0].name or written(lines[0].points[-1][1], unit)
        at = f'x="{x + width / 2}" y="{y + height / 2 + 22}"'
        yield f'<text class="v" text-anchor="middle" {at}>{escape(value)}</text>'
    else:
        yield from _graph(lines, unit, span, box)


def _graph(lines: Sequence[Line], unit: str, span: Span, box: Box) -> Iterator[str]:
    x, y, width, height = box
    shown = sorted(lines, key=lambda line: -max(value for _, value in line.points))[:MAX_LEGEND]
    rows_of_legend = math.ceil((len(shown) + (len(lines) > len(shown))) / 2)
    left, right = x + MARGIN_LEFT, x + width - 24
    top, bottom = y + TITLE + 4, y + height - TICKS - rows_of_legend * LEGEND - 4
    low, high, step = _axis([value for line in lines for _, value in line.points])

    def place(at_ms: float, value: float) -> str:
        across = left + (at_ms - span.start_ms) / (span.end_ms - span.start_ms) * (right - left)
        return f"{across:.1f},{bottom - (value - low) / (high - low) * (bottom - top):.1f}"

    value = low
    while value <= high + step / 2:
        level = place(span.start_ms, value).partition(",")[2]
        yield f'<line class="g" x1="{left}" x2="{right}" y1="{level}" y2="{level}"/>'
        text = escape(written(value, unit))
        yield f'<text class="s" text-anchor="end" x="{left - 5}" y="{float(level) + 4:.1f}">{text}</text>'
        value += step
    for minute in range(int((span.end_ms - span.start_ms) / 60_000) + 1):
        across = place(span.start_ms + minute * 60_000, low).partition(",")[0]
        yield f'<text class="s" text-anchor="middle" x="{across}" y="{bottom + 14}">{minute} min</text>'
    for number, (at_ms, _) in enumerate(span.marks):
        across = place(at_ms, low).partition(",")[0]
        yield f'<line class="m" x1="{across}" x2="{across}" y1="{top}" y2="{bottom}"/>'
        yield f'<text class="s" x="{float(across) + 2:.1f}" y="{top + 6}">{chr(ord("a") + number)}</text>'
    ordered = [*shown, *(line for line in lines if line not in shown)]
    for colour, line in enumerate(ordered):
        yield from _polylines(line, COLOURS[colour % len(COLOURS)], place)
    yield from _legend(shown, len(lines) - len(shown), (left, bottom + TICKS, width))


def _polylines(line: Line, colour: str, place: Any) -> Iterator[str]:
    """One for each stretch without a gap."""
    step_ms = min((b[0] - a[0] for a, b in zip(line.points, line.points[1:], strict=False)), default=0)
    stretches: list[list[str]] = []
    before_ms = -math.inf
    for at_ms, value in line.points:
        if at_ms - before_ms > step_ms * 1.5:
            stretches.append([])
        stretches[-1].append(place(at_ms, value))
        before_ms = at_ms
    for points in stretches:
        # A single point would not be seen.
        joined = " ".join(points if len(points) > 1 else points * 2)
        yield f'<polyline stroke="{colour}" stroke-linecap="round" points="{joined}"/>'


def _legend(shown: Sequence[Line], hidden: int, at: tuple[float, float, float]) -> Iterator[str]:
    left, top, width = at
    names = [line.name for line in shown] + ([f"and {hidden} more"] if hidden else [])
    room = int(width / 2 / 6.6)
    for number, name in enumerate(names):
        x, y = left - MARGIN_LEFT + 12 + number % 2 * width / 2, top + LEGEND * (number // 2 + 1)
        if number < len(shown):
            yield f'<rect x="{x}" y="{y - 6}" width="10" height="3" fill="{COLOURS[number % len(COLOURS)]}"/>'
        cut = name if len(name) <= room else f"{name[: room - 1]}…"
        yield f'<text x="{x + 14}" y="{y}">{escape(cut)}</text>'


def _axis(values: Sequence[float]) -> tuple[float, float, float]:
    """Lowest and highest value of the axis, and the step of its lines."""
    low, high = min(0.0, *values), max(values)
    if high <= low:
        high = low + 1
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    return math.floor(low / step) * step, math.ceil(high / step) * step, step


def written(value: float, unit: str) -> str:
    """As Grafana writes a value of that unit, about."""
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s" and 0 < abs(value) < 1:
        return f"{value * 1000:.3g} ms"
    text, size = f"{value:.4g}", abs(value)
    for scale, letter in _SCALES:
        if size >= scale and unit not in ("s", "d", "none", "bool"):
            return f"{value / scale:.3g} {letter}{_OF_UNIT.get(unit, '').lstrip()}".rstrip()
    if unit == "none" and size >= 10_000:
        text = f"{value:.0f}"
    return text + _OF_UNIT.get(unit, "")
