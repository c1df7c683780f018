"""The pictures of the dashboard: each row has one, and a line breaks where there is nothing to show."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from proxy.commands.init import example
from tests.lab.pictures.__main__ import file_of
from tests.lab.pictures.drawing import Line, Span, draw, rows, written

pytestmark = pytest.mark.tooling

DOCS = Path(__file__).resolve().parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def test_each_row_of_the_dashboard_has_its_picture_in_the_docs() -> None:
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^!\[(.*)\]\(pictures/(.*)\)$", page, re.MULTILINE))
    dashboard = json.loads(example("grafana/penstock.json"))

    assert shown == {title: file_of(title) for title, _ in rows(dashboard)}
    for title, panels in rows(dashboard):
        picture = ElementTree.parse(DOCS / "pictures" / shown[title])
        texts = {each.text for each in picture.iter(f"{SVG}text")}
        assert {panel["title"] for panel in panels} <= texts, "run `make pictures`"


def test_a_line_breaks_where_there_is_nothing_and_a_panel_without_lines_says_so() -> None:
    def panel(number: int, title: str) -> dict[str, object]:
        at = {"x": 12 * number, "y": 0, "w": 12, "h": 8}
        unit = {"defaults": {"unit": "reqps"}}
        return {"id": number, "type": "timeseries", "title": title, "gridPos": at, "fieldConfig": unit}

    points = [(0, 1.0), (1_000, 2.0), (5_000, 4.0), (6_000, 3.0)]
    picture = draw(
        [panel(0, "A < B"), panel(1, "Empty")],
        {0: [Line("x & y", points)]},
        Span(0, 60_000, [(3_000, "cut")]),
    )
    parsed = ElementTree.fromstring(picture)
    texts = [each.text for each in parsed.iter(f"{SVG}text")]

    assert len(list(parsed.iter(f"{SVG}polyline"))) == 2
    assert {"A < B", "x & y", "4 req/s", "no data", "a  cut"} <= set(texts)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.25, "percentunit", "25 %"),
        (0.0042, "s", "4.2 ms"),
        (2_500_000, "bytes", "2.5 MB"),
        (1, "bool", "1"),
    ],
)
def test_values_have_their_unit(value: float, unit: str, text: str) -> None:
    assert written(value, unit) == text
