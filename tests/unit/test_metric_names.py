"""The metrics that alerts and dashboard name are those that the code exports, and none is left unseen."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.net.runtime import merged_metrics
from tests.lab.pictures.drawing import rows
from tests.support import metrics_page
from tests.support.metrics_page import FOLDERS, metrics

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "proxy" / "examples" / "grafana" / "penstock.json"
RULES = ROOT / "proxy" / "examples" / "prometheus" / "rules.yaml"
COMPAT = RULES.with_name("kafka-compat.yaml")
NAMED = re.compile(r"\b(?:penstock|process)_\w+")


def families() -> dict[str, tuple[str, ...]]:
    """Name of each metric of ours -> the names of its series."""
    return {row.name: row.series for folder in FOLDERS.values() for row in metrics(folder)}


def series() -> set[str]:
    return {name for names in families().values() for name in names}


def named_in(path: Path) -> set[str]:
    return set(NAMED.findall(path.read_text(encoding="utf-8")))


@pytest.mark.spec("O2")
@pytest.mark.parametrize("path", [DASHBOARD, RULES, COMPAT], ids=lambda path: path.name)
def test_only_metrics_that_are_exported_are_named(path: Path) -> None:
    assert sorted(named_in(path) - series()) == []


@pytest.mark.spec("O2")
def test_the_dashboard_leaves_no_metric_unseen() -> None:
    shown = named_in(DASHBOARD)

    assert sorted(name for name, of_it in families().items() if shown.isdisjoint(of_it)) == []


@pytest.mark.spec("O2")
def test_the_page_has_every_metric_as_the_code_defines_it() -> None:
    page = metrics_page.PAGE.read_text(encoding="utf-8")

    assert metrics_page.with_tables(page) == page, "python -m tests.support.metrics_page"
    assert sum(line.startswith("| `") for line in page.splitlines()) > 120, "the metrics are no longer found"


@pytest.mark.spec("O2")
def test_each_gauge_of_the_proxy_says_how_those_of_workers_are_merged() -> None:
    rules = {row.name: row.merge for row in metrics("proxy") if row.kind == "gauge"}

    assert {name: rule for name, rule in rules.items() if rule not in merged_metrics.RULES} == {}


@pytest.mark.spec("O2")
def test_every_metric_has_the_prefix_of_the_project() -> None:
    of_ours = {name for name in families() if not name.startswith("process_")}

    assert sorted(name for name in of_ours if not name.startswith("penstock_")) == []


def all_panels() -> list[Mapping[str, Any]]:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [panel for _, panels in rows(dashboard) for panel in panels]


@pytest.mark.spec("O2")
def test_the_dashboard_asks_the_data_source_that_its_reader_chooses() -> None:
    sources = {panel["datasource"]["uid"] for panel in all_panels()}

    assert sources == {"${datasource}"}


@pytest.mark.spec("O12")
def test_the_links_of_a_panel_lead_to_alerts_on_what_it_shows() -> None:
    alerts = {
        rule["alert"]: set(NAMED.findall(rule["expr"]))
        for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    panels = [panel for panel in all_panels() if panel.get("links")]

    assert len(panels) > 20
    for panel in panels:
        shown = set(NAMED.findall(json.dumps(panel["targets"])))
        for link in panel["links"]:
            alert = link["title"]
            assert shown & alerts[alert], panel["title"]
            assert link["url"] == f"${{docs}}/alerts.md#{alert.lower()}"


@pytest.mark.spec("O12")
def test_a_panel_shows_what_has_one_unit() -> None:
    """As far as names tell it: those with a unit are in panels of that unit."""
    units = {"_bytes": {"bytes"}, "_ratio": {"percentunit", "short"}, "_seconds_bucket": {"s"}}
    for panel in all_panels():
        unit = panel["fieldConfig"]["defaults"]["unit"]
        named = NAMED.findall(json.dumps(panel["targets"]))
        wanted = [units[ending] for name in named for ending in units if name.endswith(ending)]
        assert all(unit in each for each in wanted), panel["title"]
