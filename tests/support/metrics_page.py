"""The metrics that the code exports, read from its syntax trees, and their tables in docs/metrics.md.

    .venv/bin/python -m tests.support.metrics_page

writes the tables anew: after a metric was added or changed, or after a merge. A metric is where one of
prometheus_client's metrics or families is made, also through a function of such a name.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "metrics.md"
FOLDERS = {"Proxies": "proxy", "Forwarding": "forwarding", "The audit service": "spark_audit"}
"""Heading of each table -> the folder whose metrics it has."""
MAKERS = re.compile(r"(?:Ending)?(?P<kind>counter|gauge|Counter|Gauge|Histogram|Info)(MetricFamily)?")
NAMES = re.compile(r"(?:penstock|process)_\w+")
SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
    "info": ("_info",),
}
"""What Prometheus calls the series of each kind of metric, after the name without its `_total`."""


@dataclass(frozen=True)
class MetricRow:
    """A metric as the code defines it."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...]
    merge: str | None
    """How the values of several workers become one; None if the code does not say it."""

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series."""
        return tuple(self.name.removesuffix("_total") + suffix for suffix in SUFFIXES[self.kind])


@cache
def metrics(folder: str) -> tuple[MetricRow, ...]:
    """The metrics of a folder, by name."""
    rows = [row for path in (ROOT / folder).rglob("*.py") for row in _rows(path.read_text(encoding="utf-8"))]
    return tuple(sorted(rows, key=lambda row: row.name))


def with_tables(text: str) -> str:
    """The page, with the tables as they have to be."""
    lines, heading = [], ""
    for line in text.splitlines():
        heading = line.removeprefix("## ") if line.startswith("## ") else heading
        if not line.startswith("|") or heading not in FOLDERS:
            lines.append(line)
        elif line.startswith("| metric"):
            lines += ["| metric | kind | labels | meaning | workers |", "|---|---|---|---|---|"]
            lines += [_cells(row) for row in metrics(FOLDERS[heading])]
    return "\n".join([*lines, ""])


def _cells(row: MetricRow) -> str:
    name = row.series[0] if row.kind in ("counter", "info") else row.name
    labels = ", ".join(f"`{label}`" for label in row.labels)
    cells = f"| `{name}` | {row.kind} | {labels} | {row.text} | {row.merge or ''} |"
    return re.sub(r" +(?=\|)", " ", cells)


def _rows(source: str) -> Iterator[MetricRow]:
    tree = ast.parse(source)
    constants = {
        ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)
    }
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not call.args or not isinstance(call.args[0], ast.Constant):
            continue
        maker, name = MAKERS.fullmatch(ast.unparse(call.func).rpartition(".")[2]), call.args[0].value
        if maker and isinstance(name, str) and NAMES.fullmatch(name):
            named = {keyword.arg: keyword.value for keyword in call.keywords}
            text = ast.literal_eval(call.args[1])
            merge = named.get("merge") or named.get("multiprocess_mode")
            rule = None if merge is None else ast.literal_eval(merge)
            yield MetricRow(name, maker["kind"].lower(), text, _labels(call, named, constants), rule)


def _labels(
    call: ast.Call, named: dict[str | None, ast.expr], constants: dict[str, ast.expr]
) -> tuple[str, ...]:
    found = named.get("labels")
    if found is not None:
        return tuple(ast.literal_eval(constants.get(ast.unparse(found), found)))
    others = [ast.literal_eval(argument) for argument in call.args[2:] if _is_text(argument)]
    return tuple(others[0]) if others and isinstance(others[0], tuple | list) else tuple(others)


def _is_text(argument: ast.expr) -> bool:
    """Whether it is a label or a tuple of labels; other third arguments are values."""
    items = argument.elts if isinstance(argument, ast.Tuple | ast.List) else [argument]
    return all(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in items)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
