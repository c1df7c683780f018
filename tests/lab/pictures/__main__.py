"""`python -m tests.lab.pictures`: draws the rows of the Grafana dashboard over a live run into docs/pictures.

Each panel's queries are evaluated by Prometheus' engine over the metrics of that run and drawn by
`drawing`: Grafana has no part in it. `--again` draws the last run, of build/pictures, once more.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proxy.commands.init import example
from tests.lab.cluster import kafka
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.saying import say_when
from tests.lab.pictures.drawing import Line, Span, draw, rows
from tests.lab.pictures.live import run
from tests.support import promql

ROOT = Path(__file__).resolve().parents[3]
PICTURES, RECORDED = ROOT / "docs" / "pictures", ROOT / "build" / "pictures"
VARIABLES = {"$instance": ".*", "$listener": ".*", "$__rate_interval": "10s"}
"""What Grafana would put in their places, at this interval of scrapes."""
POINTS = 120
_LABEL = re.compile(r"\{\{(\w+)\}\}")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.pictures", description=__doc__)
    parser.add_argument("--again", action="store_true", help="draw the last run once more")
    samples, told = RECORDED / "samples.json", RECORDED / "span.json"
    try:
        if parser.parse_args(argv).again:
            span = Span(**json.loads(told.read_text(encoding="utf-8")))
        else:
            with tempfile.TemporaryDirectory() as directory:
                span = run(Path(directory), kafka.libs(), samples, say_when)
            told.write_text(
                json.dumps({"start_ms": span.start_ms, "end_ms": span.end_ms, "marks": span.marks}),
                encoding="utf-8",
            )
        for file, picture in pictures(samples, span).items():
            PICTURES.mkdir(exist_ok=True)
            (PICTURES / file).write_text(picture, encoding="utf-8")
            say_when(f"docs/pictures/{file}")
    except SetupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def file_of(row: str) -> str:
    """The picture of a row of the dashboard."""
    return f"{row.lower().replace(' ', '-')}.svg"


def pictures(samples: Path, span: Span) -> dict[str, str]:
    """By the names of their files."""
    dashboard = json.loads(example("grafana/penstock.json"))
    found = promql.ranges(
        promql.ENGINE.built(),
        samples,
        {f"{panel} {target}": expression for panel, target, expression, _ in _targets(dashboard)},
        start_ms=span.start_ms,
        end_ms=span.end_ms,
        step_ms=(span.end_ms - span.start_ms) // POINTS,
    )
    lines: dict[int, list[Line]] = {}
    for panel, target, _, legend in _targets(dashboard):
        for line in found[f"{panel} {target}"]:
            lines.setdefault(panel, []).append(Line(_name(legend, line["labels"]), line["points"]))
    return {file_of(title): draw(panels, lines, span) for title, panels in rows(dashboard)}


def _targets(dashboard: Mapping[str, Any]) -> list[tuple[int, int, str, str]]:
    """Panel, number, expression and legend of each query."""
    found = []
    for panel in (panel for _, panels in rows(dashboard) for panel in panels):
        for number, target in enumerate(panel.get("targets", ())):
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            found.append((panel["id"], number, expression, target.get("legendFormat", "")))
    return found


def _name(legend: str, labels: Mapping[str, str]) -> str:
    return _LABEL.sub(lambda match: labels.get(match[1], ""), legend)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
