"""The picture of docs/quotas.md: use against the limit while load moves."""

from collections.abc import Sequence

from tests.lab.pictures.drawing import Line, Span, draw
from tests.lab.quota_cluster.figures import Use


def plot(uses: Sequence[Use]) -> str:
    """Return an SVG with one line for each use, over 30 s; 1 is the limit."""
    panel = {
        "id": 1,
        "type": "timeseries",
        "title": "Use of the whole cluster, as a part of the limit (simulation, load 3 x the limit)",
        "gridPos": {"x": 0, "y": 0, "w": 24, "h": 10},
        "fieldConfig": {"defaults": {"unit": "none"}},
    }
    lines = [
        Line(f"{use.proxies} proxies, {use.pattern}", [(at * 1000, part) for at, part in use.points])
        for use in uses
    ]
    marks = [(0, "load begins at one proxy"), (10_000, "it moves"), (20_000, "it moves again")]
    return draw([panel], {1: lines}, Span(0, 30_000, marks))
