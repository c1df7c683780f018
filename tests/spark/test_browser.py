"""The audit report in a real browser: what it looks like, and what its few scripts do.

Needs a Chromium (tests/support/browser.py says how one is found); pictures are left in build/report.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.report import page
from spark_audit.tables.delta import empty_frame
from tests.spark.audit_trail import DAY, Record, Trail
from tests.spark.busy_day import busy_day
from tests.spark.frames import audit_frame, log_frame
from tests.support import browser
from tests.support.browser import Browser, Tab

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D6")]

PICTURES = Path(__file__).resolve().parents[2] / "build" / "report"
WIDE, NARROW = 1440, 390
ODD_NAMES = (
    "User:<script>document.title='taken'</script>",
    "User:" + "x" * 195,
    "User:CN=Zoë Müller,OU=データ基盤,O=Ünïcode GmbH,C=DE",
    "User:\u202eecila",
)


def with_odd_names(trail: Trail) -> list[Record]:
    """Names as clients may choose them, in every kind of record; requests by the million."""
    for number, record in enumerate(trail.audit):
        if record["principal"] and number % 3 == 0:
            record["principal"] = ODD_NAMES[number // 3 % len(ODD_NAMES)]
        if record["client_id"] and number % 5 == 0:
            record["client_id"] = "client-" + "y" * 150
        if record["resource_name"] and number % 4 == 0:
            record["resource_name"] = "topic." + "very-long-name." * 12
        if record["count"]:
            record["count"] *= 1_000_003
    return trail.audit


def a_document(findings: Sequence[dict[str, Any]], records: int) -> Any:
    counts = {severity: sum(f["severity"] == severity for f in findings) for severity in S.SEVERITIES}
    summary = {
        "schema_version": S.SCHEMA_VERSION,
        "records": records,
        "metadata_records": 45,
        "decisions": {"evaluated": 9_876, "the record has no outcome": 12},
        "findings": counts,
        "days": [],
        "tables": "s3a://audit/penstock",
        "versions": {"audit": 12, "quarantine": 0, "metadata_log": 7},
    }
    return {"summary": summary, "findings": findings}


def many_findings(number: int) -> list[dict[str, Any]]:
    """Worst first, as reconcile writes them; one in three of each severity."""
    each = -(-number // len(S.SEVERITIES))
    return [
        {
            "id": f"{n:016x}",
            "check": ("gaps.hole", "chain.altered", "decisions.wrongly_granted")[n % 3],
            "severity": S.SEVERITIES[n // each],
            "date": f"2026-11-{20 + n % 4}",
            "explanation": f"number {n}: {ODD_NAMES[n % len(ODD_NAMES)]} did what it may not",
            "evidence": {"principal": ODD_NAMES[n % len(ODD_NAMES)], "sequences": list(range(n, n + 20))},
        }
        for n in range(number)
    ]


def rendered(
    spark: SparkSession, records: Sequence[Record], log: Sequence[Record], findings: list[Any]
) -> str:
    tables = audit_frame(spark, records), empty_frame(spark, S.QUARANTINE), log_frame(spark, log)
    return page.render(*tables, a_document(findings, len(records)), versions={"audit": 12})


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.running(browser.require()) as running:
        yield running


@pytest.fixture(scope="module")
def pages(
    chromium: Browser, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """`findings`: many, with odd names. `clean`: none. `empty`: of tables without a record."""
    directory = tmp_path_factory.mktemp("pages")
    odd, true = busy_day(600), busy_day(200)
    texts = {
        "findings": rendered(spark, with_odd_names(odd), odd.log, many_findings(600)),
        "clean": rendered(spark, true.audit, true.log, []),
        "empty": rendered(spark, [], [], []),
    }
    for name, text in texts.items():
        (directory / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: directory / f"{name}.html" for name in texts}


@pytest.fixture
def tab(chromium: Browser) -> Tab:
    return chromium.tab()


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["findings", "clean", "empty"])
def test_nothing_is_fetched_complained_of_too_wide_or_hard_to_read(
    tab: Tab, pages: dict[str, Path], name: str, scheme: str, width: int
) -> None:
    tab.look(width=width, scheme=scheme)
    tab.open(pages[name])
    tab.picture(PICTURES / f"{name}-{scheme}-{width}.png")

    assert tab.requests == [pages[name].as_uri()]
    assert tab.complaints == []
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.evaluate("document.title").startswith("Penstock audit: ")
    assert len(tab.contrasts()) > 50
    assert [found for found in tab.contrasts() if found[0] < 4.5] == []


def test_the_dark_scheme_is_dark(tab: Tab, pages: dict[str, Path]) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    tab.look(scheme="light")
    tab.open(pages["clean"])

    light = tab.evaluate(background)
    tab.look(scheme="dark")

    assert (light, tab.evaluate(background)) == ("rgb(244, 246, 249)", "rgb(15, 20, 27)")


def test_paper_is_white_and_shows_the_evidence(tab: Tab, pages: dict[str, Path]) -> None:
    tab.look(scheme="dark")
    tab.open(pages["findings"])
    closed = tab.evaluate("document.querySelectorAll('details:not([open])').length")

    printed = tab.call("Page.printToPDF", printBackground=True)
    (PICTURES / "findings.pdf").write_bytes(browser.decoded(printed["data"]))

    assert closed == page.FINDINGS
    assert tab.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    tab.look(scheme="dark", media="print")
    assert tab.evaluate(
        "getComputedStyle(document.querySelector('section:not(.verdict)')).backgroundColor"
    ) == ("rgb(255, 255, 255)")
    assert tab.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"


def column(tab: Tab, section: str, number: int) -> list[str]:
    cells = f"document.querySelectorAll('#{section} tbody tr td:nth-child({number})')"
    cell = "(cell) => cell.dataset.v ?? cell.textContent.trim()"
    return list(json.loads(tab.evaluate(f"JSON.stringify([...{cells}].map({cell}))")))


def focus(tab: Tab, section: str, number: int) -> str:
    """Puts the focus on the button of a heading; gives its column's aria-sort."""
    heading = f"document.querySelector('#{section} thead th:nth-child({number})')"
    tab.evaluate(f"{heading}.querySelector('button').focus()")
    return str(tab.evaluate(f"{heading}.getAttribute('aria-sort')"))


def test_numbers_sort_as_numbers_by_the_keyboard_alone(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["findings"])
    before = column(tab, "access", 3)

    focus(tab, "access", 3)
    tab.press("Enter", 13)
    largest_first = column(tab, "access", 3)
    told = focus(tab, "access", 3)
    tab.press(" ", 32)
    smallest_first = column(tab, "access", 3)

    assert sorted(before, key=int) == smallest_first == largest_first[::-1]
    assert largest_first != before
    assert sorted(before) != smallest_first, "the numbers here sort as words as well"
    assert (told, focus(tab, "access", 3)) == ("descending", "ascending")


def test_moments_sort_the_latest_first_and_words_from_a(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["findings"])

    tab.evaluate("document.querySelector('#findings thead th:nth-child(3) button').click()")
    days = column(tab, "findings", 3)
    tab.evaluate("document.querySelector('#findings thead th:nth-child(2) button').click()")
    names = column(tab, "findings", 2)

    assert days == sorted(days, reverse=True)
    assert (days[0], days[-1], DAY in days) == ("2026-11-23", "2026-11-20", True)
    assert names == sorted(names)


def test_severities_sort_by_weight(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["findings"])
    severity = "[...document.querySelectorAll('#findings tbody tr')].map((row) => row.dataset.kind)"

    tab.evaluate("document.querySelector('#findings thead th:nth-child(2) button').click()")
    mixed = tab.evaluate(severity)
    tab.evaluate("document.querySelector('#findings thead th:nth-child(1) button').click()")

    by_weight = sorted(mixed, key=S.SEVERITIES.index)
    assert (tab.evaluate(severity), mixed == by_weight) == (by_weight, False)


def test_findings_are_filtered_by_words_and_by_severity(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["findings"])
    shown = "document.querySelectorAll('#findings tbody tr:not([hidden])').length"
    told = "document.querySelector('#findings output').textContent"
    everything = tab.evaluate(shown)

    tab.evaluate("document.querySelector('#findings input').focus()")
    tab.type("CHAIN zoë")
    some, of_all = tab.evaluate(shown), tab.evaluate(told)
    tab.evaluate("document.querySelector('#findings button[value=critical]').click()")
    fewer = tab.evaluate(shown)

    texts = [f"{f['check']} {f['explanation']}".lower() for f in many_findings(600)[: page.FINDINGS]]
    expected = [number for number, text in enumerate(texts) if "chain" in text and "zoë" in text]
    assert (everything, some) == (page.FINDINGS, len(expected))
    assert of_all == f"{len(expected)} of {page.FINDINGS} shown"
    assert fewer == len([number for number in expected if number >= 200])


def test_the_page_of_many_findings_and_long_names_is_small(pages: dict[str, Path]) -> None:
    sizes = {name: path.stat().st_size for name, path in pages.items()}

    assert sizes["findings"] < 1_500_000
    assert sizes["clean"] < 300_000
