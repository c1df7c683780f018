"""The audit report in a real browser: what it looks like, and what its few scripts do.

Needs a Chromium (tests/support/browser.py says how one is found); pictures are left in build/report.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.report import page
from spark_audit.tables.delta import empty_frame
from tests.spark.audit_trail import DAY, Record, Trail
from tests.spark.busy_day import DAY_MS, MIDNIGHT_MS, busy_day
from tests.spark.busy_week import HOSTILE, LOADED, busy_week
from tests.spark.frames import audit_frame, log_frame
from tests.support import browser
from tests.support.browser import Browser, Tab

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D6", "D12", "D15")]

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


def a_document(findings: Sequence[dict[str, Any]], records: int, *days: str) -> Any:
    counts = {severity: sum(f["severity"] == severity for f in findings) for severity in S.SEVERITIES}
    summary = {
        "schema_version": S.SCHEMA_VERSION,
        "records": records,
        "metadata_records": 45,
        "decisions": {"evaluated": 9_876, "the record has no outcome": 12},
        "findings": counts,
        "days": list(days),
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


def hostile_finding() -> dict[str, Any]:
    told = "; ".join(HOSTILE)
    finding = many_findings(1)[0] | {"date": DAY, "explanation": told, "what": told, "next": told}
    return finding | {"evidence": {"names": HOSTILE}, "acknowledged": {"by": told, "why": told}}


def a_summary(day: int) -> Any:
    """Of days with all verdicts."""
    findings = {severity: int(day % 4 == place) for place, severity in enumerate(S.SEVERITIES)}
    return a_document([], 1_000 * (day % 8))["summary"] | {"findings": findings}


def rendered(
    spark: SparkSession, records: Sequence[Record], log: Sequence[Record], findings: list[Any], *days: str
) -> str:
    tables = audit_frame(spark, records), empty_frame(spark, S.QUARANTINE), log_frame(spark, log)
    document = a_document(findings, len(records), *days)
    return page.render(*tables, document, versions={"audit": 12}, home="../index.html" if days else "")


@pytest.fixture(scope="module")
def pages(
    chromium: Browser, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """`findings`: many, with odd names. `clean`: none. `empty`: of tables without a record.

    `day`: of a day with days before it. `index`: of many days.
    """
    directory = tmp_path_factory.mktemp("pages")
    odd, true = busy_day(600), busy_day(200)
    week, log = busy_week(600)
    texts = {
        "findings": rendered(spark, with_odd_names(odd), odd.log, many_findings(600)),
        "clean": rendered(spark, true.audit, true.log, []),
        "empty": rendered(spark, [], [], []),
        "day": rendered(spark, week, log, [hostile_finding()], DAY),
        "index": page.overview({f"2026-11-{day:02}": a_summary(day) for day in range(1, 24)}),
    }
    for name, text in texts.items():
        (directory / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: directory / f"{name}.html" for name in texts}


@pytest.fixture
def tab(chromium: Browser) -> Tab:
    return chromium.tab()


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["findings", "clean", "empty", "day", "index"])
def test_nothing_is_fetched_complained_of_too_wide_or_hard_to_read(
    tab: Tab, pages: dict[str, Path], name: str, scheme: str, width: int
) -> None:
    picture = PICTURES / f"{name}-{scheme}-{width}.png"

    tab.reads_well(pages[name], picture, width=width, scheme=scheme, texts=50)

    if width == NARROW:
        wide = (
            "[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth)"
        )
        assert tab.evaluate(f"{wide}.map((each) => each.ariaLabel)") == []
    assert tab.evaluate("document.title").startswith("Penstock audit: ")


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
    closed = tab.evaluate("document.querySelectorAll('#findings td details:not([open])').length")

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
    """Put the focus on the button of a heading; give its column's aria-sort."""
    heading = f"document.querySelector('#{section} thead th:nth-child({number})')"
    tab.evaluate(f"{heading}.querySelector('button').focus()")
    return str(tab.evaluate(f"{heading}.getAttribute('aria-sort')"))


def test_numbers_sort_as_numbers_by_the_keyboard_alone(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["findings"])
    before = column(tab, "traffic", 3)

    focus(tab, "traffic", 3)
    tab.press("Enter", 13)
    largest_first = column(tab, "traffic", 3)
    told = focus(tab, "traffic", 3)
    tab.press(" ", 32)
    smallest_first = column(tab, "traffic", 3)

    assert sorted(before, key=int) == smallest_first == largest_first[::-1]
    assert largest_first != before
    assert sorted(before) != smallest_first, "the numbers here sort as words as well"
    assert (told, focus(tab, "traffic", 3)) == ("descending", "ascending")


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


FOUND = "document.querySelector('#records output').textContent"
SHOWN = "document.querySelectorAll('#records tbody tr')"


def texts(tab: Tab, cells: str) -> list[str]:
    return list(tab.evaluate(f"[...{cells}].map((cell) => cell.textContent)"))


def test_records_are_searched_by_words(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["day"])
    everything = tab.evaluate(FOUND)

    tab.evaluate("document.querySelector('#records input').focus()")
    tab.type("PAYROLL mallory")
    tab.press("Enter", 13)

    today = [record for record in busy_week(600)[0] if 0 <= record["time_ms"] - MIDNIGHT_MS < DAY_MS]
    assert everything == f"{len(today)} found"
    assert tab.evaluate(FOUND) == "1 found"
    (row,) = [tab.evaluate(f"[...{SHOWN}].map((row) => row.textContent).join()")]
    assert ("DELETE TOPIC payroll" in row, "error 29" in row, "kafka-topics" in row) == (True, True, True)


def test_more_records_are_shown_by_a_button(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["day"])
    before = tab.evaluate(f"{SHOWN}.length")

    tab.evaluate("document.querySelector('#records .more').click()")

    assert (before, tab.evaluate(f"{SHOWN}.length")) == (100, 200)


@pytest.mark.parametrize("row", range(6))
def test_a_number_leads_to_its_records_whatever_the_names(tab: Tab, pages: dict[str, Path], row: int) -> None:
    tab.open(pages["day"])
    link = f"document.querySelectorAll('#denials tbody tr')[{row}]"
    principal, number = tab.evaluate(f"[{link}.cells[0].textContent, {link}.cells[5].dataset.v]")

    tab.evaluate(f"{link}.querySelector('a').focus()")
    tab.press("Enter", 13)
    tab.evaluate("new Promise(requestAnimationFrame)")

    assert tab.evaluate(FOUND) == f"{number} found"
    assert set(texts(tab, "document.querySelectorAll('#records tbody td:nth-child(3)')")) == {principal}
    # The focus is at the heading: who reads with the keyboard or by ear goes on from there.
    assert tab.evaluate("document.activeElement.textContent") == "Records"


def test_a_column_of_a_plot_leads_to_its_records(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["day"])
    column = "document.querySelectorAll('#denials svg a')[5]"
    title = tab.evaluate(f"{column}.textContent").strip()
    listed = tab.evaluate("document.querySelectorAll('#denials .columns li a')[5].getAttribute('href')")
    assert tab.evaluate(f"{column}.getAttribute('href')") == listed

    tab.evaluate(f"{column}.dispatchEvent(new MouseEvent('click', {{ bubbles: true }}))")
    tab.evaluate("new Promise(requestAnimationFrame)")

    moments = texts(tab, "document.querySelectorAll('#records tbody td:first-child')")
    assert title.startswith(f"from {min(moments)[:14]}")
    assert f"{len(moments)}" == title.rpartition(": ")[2] == tab.evaluate(FOUND).partition(" ")[0]
    assert {moment[:13] for moment in moments} == {title[5:18]}


def test_a_filter_of_a_link_is_removed_by_the_keyboard(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["day"])
    tab.evaluate("location.hash = '#records?kind=denied&principal=User:alice&q=orders'")
    tab.evaluate("new Promise(requestAnimationFrame)")
    chips = "document.querySelectorAll('#records .chips button')"
    before, words = texts(tab, chips), tab.evaluate("document.querySelector('#records input').value")

    tab.evaluate(f"{chips}[1].focus()")
    tab.press(" ", 32)

    assert (before, words) == (["kind: denied ✕", "principal: User:alice ✕"], "orders")
    assert texts(tab, chips) == ["kind: denied ✕"]
    principals = set(texts(tab, "document.querySelectorAll('#records tbody td:nth-child(3)')"))
    assert {"User:alice", "User:bob"} <= principals


def test_hostile_names_are_text_and_short(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["day"])

    text = tab.evaluate("document.body.textContent")
    cells = texts(tab, "document.querySelectorAll('#logins td:first-child')")
    assert tab.evaluate("document.querySelectorAll('img, main script:not(.data)').length") == 0
    assert tab.evaluate("document.scripts.length") == 2
    assert tab.evaluate("document.title").startswith("Penstock audit: ")
    assert {HOSTILE[0], HOSTILE[1], HOSTILE[3], "User:\\u202eecila\\u2066"} <= set(cells)
    assert [mark for mark in "\u202e\u2066" if mark in text] == []
    # The digest tells two long names apart of which the page shows the same beginning.
    (long,) = [cell for cell in cells if cell.startswith("User:long")]
    assert (len(long) < 160, "(32005 characters, SHA-256 " in long) == (True, True)
    assert max(map(len, texts(tab, "document.querySelectorAll('td:not(.wide), li, p, pre')"))) < 4_100
    assert max(map(len, texts(tab, "document.querySelectorAll('#changes td')"))) < 600


def test_the_page_says_who_did_what_and_what_is_new_and_different(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["day"])

    rows = texts(tab, "document.querySelectorAll('#changes tbody tr')")
    told = [row for row in rows if "user=alice" in row]
    assert ["producer_byte_rate: 1048576.0 → 4194304.0" in row for row in told] == [True]
    assert len([row for row in rows if "TOPIC load-" in row]) == 5
    assert len([row for row in rows if f"… and {LOADED - 5} more of this request" in row]) == 1
    refused = [row for row in rows if "payroll" in row]
    assert ["TOPIC_AUTHORIZATION_FAILED" in row and "User:mallory" in row for row in refused] == [True]
    new = texts(tab, "document.querySelectorAll('#new tbody td:nth-child(2)')")
    assert ("kafka-topics" in new, "User:deploy" in new, "10.0.7.7" in new) == (True, True, True)
    assert ("User:alice" in new, len(new) >= 3 + 3 * len(HOSTILE)) == (False, True)
    small = texts(tab, "document.querySelectorAll('.tiles li:first-child small')")
    assert [each.rpartition(" vs ")[2] for each in small] == ["22 Nov", "16 Nov"]
    assert tab.evaluate("document.querySelector('nav a').getAttribute('href')") == "../index.html"


@pytest.mark.parametrize("name", ["day", "index", "findings"])
def test_headings_tables_and_fields_are_named_for_a_screen_reader(
    tab: Tab, pages: dict[str, Path], name: str
) -> None:
    tab.open(pages[name])

    levels = texts(tab, "document.querySelectorAll('h1, h2')")
    assert (levels[0], len(levels) > 1, "" in levels) == ("Penstock audit", True, False)
    assert tab.evaluate("document.querySelectorAll('h3, h4').length") == 0
    assert tab.evaluate("document.querySelectorAll('th:not([scope])').length") == 0
    unnamed = "document.querySelectorAll('input:not([aria-label]), [role=region]:not([aria-label])').length"
    assert tab.evaluate(unnamed) == 0
    assert (
        tab.evaluate("[...document.querySelectorAll('a')].filter((a) => !a.textContent.trim()).length") == 0
    )
    anchors = "[...document.querySelectorAll('nav a, .cards a')].map((a) => a.getAttribute('href'))"
    broken = f"{anchors}.filter((to) => to[0] === '#' && !document.getElementById(to.slice(1)))"
    assert tab.evaluate(broken) == []


def test_the_overview_leads_to_the_parts_of_each_day(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["index"])
    links = tab.evaluate("[...document.querySelectorAll('td a')].map((a) => a.getAttribute('href'))")

    tab.open(pages["day"])
    parts = {link.partition("#")[2] for link in links} - {""}
    there = {part for part in parts if tab.evaluate(f"!!document.getElementById('{part}')")}
    assert len([link for link in links if link == f"{DAY}/report.html"]) == 1
    assert (there, len(parts) > 5) == (parts, True)


def test_the_page_of_many_findings_and_long_names_is_small(pages: dict[str, Path]) -> None:
    sizes = {name: path.stat().st_size for name, path in pages.items()}

    assert sizes["findings"] < 1_800_000
    assert sizes["day"] < 800_000
    assert sizes["clean"] < 300_000
