"""The metrics that alerts and dashboard name are those that the code exports, and none is left unseen.

Exported names are read from the syntax trees of the folders that make metrics: the first argument wherever
one of prometheus_client's metrics or families is made, also through a function of such a name.
"""

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "proxy" / "examples" / "grafana" / "penstock.json"
RULES = ROOT / "proxy" / "examples" / "prometheus" / "rules.yaml"
FOLDERS = ("proxy/net", "proxy/workers", "forwarding/net", "spark_audit/service")
BESIDE = ("proxy/app/quota_shares.py",)
"""A module that is in none of them."""
NAMED = re.compile(r"\b(?:penstock|process)_\w+")

# What Prometheus calls the series of each kind of metric, after the name without its `_total`.
SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
    "info": ("_info",),
}
MAKERS = re.compile(r"(?P<kind>counter|Counter|Gauge|Histogram|Info)(MetricFamily)?")


@cache
def families() -> dict[str, tuple[str, ...]]:
    """Name of each metric of ours -> the names of its series."""
    sources = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    sources += [ROOT / path for path in BESIDE]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sources]
    calls = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    found: dict[str, tuple[str, ...]] = {}
    for call in calls:
        maker = MAKERS.fullmatch(ast.unparse(call.func).rpartition(".")[2])
        if maker and isinstance(name := call.args[0], ast.Constant):
            stem = str(name.value).removesuffix("_total")
            found[str(name.value)] = tuple(stem + suffix for suffix in SUFFIXES[maker["kind"].lower()])
    return found


def series() -> set[str]:
    return {name for names in families().values() for name in names}


def gauges() -> set[str]:
    """The names of those that go up and down."""
    return {name for name, of_it in families().items() if of_it == (name,) and not name.endswith("_total")}


def named_in(path: Path) -> set[str]:
    return set(NAMED.findall(path.read_text(encoding="utf-8")))


@pytest.mark.spec("O2")
@pytest.mark.parametrize("path", [DASHBOARD, RULES], ids=lambda path: path.name)
def test_only_metrics_that_are_exported_are_named(path: Path) -> None:
    assert sorted(named_in(path) - series()) == []


@pytest.mark.spec("O2")
def test_the_dashboard_leaves_no_metric_unseen() -> None:
    shown = named_in(DASHBOARD)

    assert sorted(name for name, of_it in families().items() if shown.isdisjoint(of_it)) == []


@pytest.mark.spec("O2")
def test_every_metric_has_the_prefix_of_the_project() -> None:
    of_ours = {name for name in families() if not name.startswith("process_")}

    assert sorted(name for name in of_ours if not name.startswith("penstock_")) == []


@pytest.mark.spec("O2")
def test_the_dashboard_asks_the_data_source_that_its_reader_chooses() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    sources = {panel["datasource"]["uid"] for panel in dashboard["panels"] if panel["type"] != "row"}

    assert sources == {"${datasource}"}


@pytest.mark.spec("O12")
def test_the_links_of_a_panel_lead_to_alerts_on_what_it_shows() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    alerts = {
        rule["alert"]: set(NAMED.findall(rule["expr"]))
        for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    panels = [panel for panel in dashboard["panels"] if panel.get("links")]

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
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))

    for panel in (panel for panel in dashboard["panels"] if panel["type"] != "row"):
        unit = panel["fieldConfig"]["defaults"]["unit"]
        named = NAMED.findall(json.dumps(panel["targets"]))
        wanted = [units[ending] for name in named for ending in units if name.endswith(ending)]
        assert all(unit in each for each in wanted), panel["title"]
