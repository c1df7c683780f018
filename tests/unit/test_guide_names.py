"""What docs/guide.md, second-day.md and threat-model.md name is there; tests/interop runs the commands."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / f"{name}.md" for name in ("guide", "second-day", "threat-model")]
SOURCES = "".join(
    path.read_text(encoding="utf-8")
    for part in ("proxy", "forwarding", "spark_audit")
    for path in sorted((ROOT / part).rglob("*.py"))
)
ALERTS = {
    rule["alert"]
    for group in yaml.safe_load((ROOT / "proxy/examples/prometheus/rules.yaml").read_text(encoding="utf-8"))[
        "groups"
    ]
    for rule in group["rules"]
}


@pytest.mark.spec("O2")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_metrics_alerts_findings_and_log_lines_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"log(?: line)?: `([^`]+)`", text)
    metrics = re.findall(r"`(penstock_\w+)`", text)
    alerts = re.findall(r"`(Penstock[A-Z]\w+)`", text)
    findings = re.findall(r"`(?:forwarded|chain|gaps|changes)\.(\w+)`", text)

    absent = [
        name for name in (*lines, *metrics, *findings) if re.sub("_(total|info)$", "", name) not in SOURCES
    ]
    assert absent == []
    assert [alert for alert in alerts if alert not in ALERTS] == []


@pytest.mark.spec("O2")
def test_the_guide_names_log_lines_to_look_for() -> None:
    text = PAGES[0].read_text(encoding="utf-8")

    assert len(re.findall(r"log(?: line)?: `([^`]+)`", text)) > 5, "the pattern no longer finds them"


@pytest.mark.spec("O5")
def test_keys_that_the_pages_name_are_explained() -> None:
    """Whatever looks like a key with a word of its own in front of the dot."""
    # reconciliation.md explains the checks.
    explained = "".join(
        (ROOT / "docs" / page).read_text("utf-8") for page in ("configuration.md", "reconciliation.md")
    )
    named = {
        key
        for page in PAGES
        for key in re.findall(
            r"`((?:audit|upstream|controller|quota|sessions|login|connections|max)\.[a-z.]+)`",
            page.read_text(encoding="utf-8"),
        )
        if not key.endswith((".password", ".yaml", ".properties", ".log", ".md"))
    }

    assert [key for key in sorted(named) if not re.search(rf"[`.]{re.escape(key)}`", explained)] == []
    assert len(named) > 8, "the pattern no longer finds them"
