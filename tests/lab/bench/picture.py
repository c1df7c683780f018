"""The picture of docs/performance.md: `python -m tests.lab.bench.picture` draws build/bench.json.

It writes build/bench.svg, and with `--publish` docs/pictures/bench.svg, which is a part of the page.

Each figure of each workload has three bars: the broker alone (`direct`), the relay and the proxy. Peers have
none. A bar is the median of the rounds, and the line across its end goes from the smallest to the largest.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
RESULTS, PICTURE = ROOT / "build" / "bench.json", ROOT / "build" / "bench.svg"
PUBLISHED = ROOT / "docs" / "pictures" / "bench.svg"
COLOURS = {"direct": "#9aa0a6", "relay": "#8ab8ff", "proxy": "#3274d9"}
_COLUMNS, _WIDTH, _LABELS, _NUMBERS = 2, 600, 230, 110
_BAR, _GAP, _MARGIN = 12, 16, 40
_STYLE = "text{font:11px sans-serif;fill:#333}.t{font-weight:600}.w{stroke:#333}"
Row = Mapping[str, Any]


def draw(rows: Sequence[Row]) -> str:
    """Return an SVG. `rows` are those of build/bench.json, in its order."""
    groups = [list(group) for _, group in groupby(rows, lambda row: (row["workload"], row["figure"]))]
    in_column = -(-len(groups) // _COLUMNS)
    of_group = len(COLOURS) * _BAR + _GAP
    parts = [_legend()]
    for number, group in enumerate(groups):
        column, line = divmod(number, in_column)
        parts += _group(group, column * _WIDTH, _MARGIN + line * of_group)
    size = f'width="{_COLUMNS * _WIDTH}" height="{_MARGIN + in_column * of_group}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>'
    background = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, background, *parts, "</svg>"]) + "\n"


def _legend() -> str:
    texts = {"direct": "the broker alone: its own CPU", "relay": "relay without policy", "proxy": "proxy"}
    return "\n".join(
        f'<rect x="{10 + n * 200}" y="8" width="12" height="12" fill="{COLOURS[name]}"/>'
        f'<text x="{28 + n * 200}" y="18">{text}</text>'
        for n, (name, text) in enumerate(texts.items())
    )


def _group(group: Sequence[Row], left: int, top: int) -> list[str]:
    first = group[0]
    title = escape(f"{first['workload']}, {_NAMES[first['figure']]}")
    parts = [f'<text class="t" x="{left + 10}" y="{top + 10}">{title}</text>']
    measured = [row for row in group if row["median"] is not None and row["target"] in COLOURS]
    longest = max((row["max"] for row in measured), default=0) or 1
    scale = (_WIDTH - _LABELS - _NUMBERS) / longest
    for row in measured:
        y = top + list(COLOURS).index(row["target"]) * _BAR
        x, middle = left + _LABELS, y + _BAR / 2
        colour, label = COLOURS[row["target"]], escape(f"{_number(row['median'])} {row['unit']}")
        ends = [x + row[name] * scale for name in ("min", "median", "max")]
        parts += [
            f'<rect x="{x}" y="{y}" width="{ends[1] - x:.1f}" height="{_BAR - 2}" fill="{colour}"/>',
            f'<line class="w" x1="{ends[0]:.1f}" y1="{middle - 1}" x2="{ends[2]:.1f}" y2="{middle - 1}"/>',
            f'<text x="{ends[2] + 6:.1f}" y="{y + _BAR - 3}">{label}</text>',
        ]
    return parts


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


_NAMES = {
    "cpu_us_per_request": "a request",
    "cpu_s_per_gib": "a GiB",
    "kib_per_connection": "a connection",
    "cpu_us_per_connection": "a connection",
    "cpu_us_per_member_second": "a member and second",
    "p50_ms": "p50",
    "p99_ms": "p99",
    "p999_ms": "p99.9",
    "last_ms": "until the last",
}


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.bench.picture", description=__doc__)
    parser.add_argument("--publish", action="store_true", help="write the picture of docs/performance.md")
    picture = PUBLISHED if parser.parse_args(argv).publish else PICTURE
    picture.write_text(draw(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
