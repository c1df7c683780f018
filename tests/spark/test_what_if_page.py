"""The page of what-if in a real browser, and what its rankings and plots add up. Needs no Spark."""

from pathlib import Path
from typing import Any

import pytest

from spark_audit.what_if import page
from spark_audit.what_if.access import OUTCOMES
from spark_audit.what_if.answers import NOTHING_SEEN
from spark_audit.what_if.result import EFFECTS, WhatIfDocument
from tests.spark.test_browser import ODD_NAMES
from tests.support.browser import Browser

pytestmark = [pytest.mark.slow, pytest.mark.spec("D10")]

PICTURES = Path(__file__).resolve().parents[2] / "build" / "what-if"
NOON_MS, HOUR_MS = 1_795_435_200_000, 3_600_000
PROPOSAL = (
    "kafka-acls --remove --allow-principal User:alice --operation Read --topic '*'\n# <script>x</script>"
)


def nothing() -> WhatIfDocument:
    return {
        "offset": 41,
        "days": ["2026-11-01", None],
        "span_ms": [NOON_MS, NOON_MS + 24 * HOUR_MS],
        "bucket_ms": HOUR_MS,
        "warnings": [],
        "requests": dict.fromkeys(OUTCOMES, 0),
        "effects": dict.fromkeys(EFFECTS, 0),
        "access": [],
        "throttling": [],
        "sessions": [],
        "logic": None,
        "shadow": NOTHING_SEEN,
        "over_time": [],
    }


def a_row(number: int) -> dict[str, Any]:
    outcome = ("newly_denied", "newly_allowed", "cannot_be_said")[number % 3]
    decision = {"granted": outcome == "newly_denied", "rule": "acl", "acls": ["AAAAAAAAAAAAAAAAAAAAAQ"]}
    return {
        "outcome": outcome,
        "reason": "the record has no resource or no outcome" if outcome == "cannot_be_said" else None,
        "principal": ODD_NAMES[number % len(ODD_NAMES)],
        "host": f"10.0.0.{number % 7}",
        "client_id": "client-" + "y" * 150 if number % 5 == 0 else "app",
        "method": "Fetch",
        "resource_type": "TOPIC",
        "resource_name": "topic." + "very-long-name." * 12 if number % 4 == 0 else f"orders-{number}",
        "operation": "READ",
        "now": decision,
        "proposed": {"granted": not decision["granted"], "rule": "default.deny", "acls": None},
        "requests": 1_000 * number + 1,
        "bytes": 1_000_003 * number,
        "first_ms": NOON_MS,
        "last_ms": NOON_MS + number * HOUR_MS,
        "other_outcome_then": number % 2,
    }


def a_difference(number: int) -> dict[str, object]:
    outcome = ("newly_denied", "newly_allowed", None)[number % 3]
    return {
        **{"outcome": outcome, "granted": number % 2 == 0, "rule": "acl", "last_ms": NOON_MS},
        **{"candidate": "0123456789abcdef", "candidates": f"denied (DENY {ODD_NAMES[number % 4]} from *)"},
        **{"principal": ODD_NAMES[number % len(ODD_NAMES)], "host": "10.0.0.1", "operation": "READ"},
        **{"resource_type": "TOPIC", "resource_name": "orders", "decisions": 1_000 * number},
    }


def a_lot() -> WhatIfDocument:
    rows = [a_row(number) for number in range(60)]
    quota = {
        **{"reason": None, "proxy": "*", "quota_key": "producer_byte_rate", "quota_limit": 1_048_576.0},
        **{"limit_now": None, "unsure_ms": 10_000, "behind_ms": 90_000, "used": 10**9, "clients": []},
        **{"first_ms": NOON_MS, "last_ms": NOON_MS + HOUR_MS, "outcome": "newly_throttled"},
    }
    throttled = [
        quota | {"quota_id": f"user-{n}:", "throttled_ms": 600_000, "hours": hours}
        for n, hours in enumerate(([{"hour": 3, "throttled_ms": 600_000}], [{"hour": 23, "throttled_ms": 1}]))
    ]
    session = {"principal": "User:a", "client_id": "app", "mechanism": "PLAIN", "connections": 3}
    over_time: list[dict[str, Any]] = [
        {"plot": outcome, "bucket_ms": NOON_MS + hour * HOUR_MS, "series": name, "amount": 7 * hour + 1}
        for outcome in ("newly_denied", "newly_allowed")
        for hour in range(24)
        for name in (ODD_NAMES[1], "others")
    ]
    return {
        **nothing(),
        "warnings": ["p:1: User:dave is in no ACL, quota or login yet"],
        "requests": {"newly_denied": 12_345, "newly_allowed": 678, "unchanged": 10**9, "cannot_be_said": 90},
        "effects": {"newly-denied": 20, "newly-allowed": 20, "newly-throttled": 2, "cannot-be-said": 20},
        "access": list(rows),
        "throttling": list(throttled),
        "sessions": [session | {"outcome": "cannot_be_said", "longest_ms": HOUR_MS}],
        "logic": {
            "newly_denied": 2,
            "newly_allowed": 1,
            "regions": [
                {
                    "effect": effect,
                    "text": f"X: {ODD_NAMES[number]} from *: READ TOPIC payroll-*",
                    "witness": "w",
                }
                for number, effect in enumerate(("newly_denied", "newly_denied", "newly_allowed"))
            ],
        },
        "shadow": {
            "compared": {"0123456789abcdef": 10**7, "fedcba9876543210": 3},
            "newly_denied": 20,
            "newly_allowed": 20,
            "rows": [a_difference(number) for number in range(40)],
        },
        "over_time": list(over_time),
    }


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("found", [a_lot(), nothing()], ids=["a_lot", "nothing"])
def test_nothing_is_fetched_complained_of_too_wide_or_hard_to_read(
    chromium: Browser, tmp_path: Path, found: WhatIfDocument, scheme: str, width: int
) -> None:
    (tmp_path / "page.html").write_text(page.render(found, PROPOSAL), encoding="utf-8")
    tab = chromium.tab()

    name = "a-lot" if found["access"] else "nothing"
    picture = PICTURES / f"{name}-{scheme}-{width}.png"
    tab.reads_well(tmp_path / "page.html", picture, width=width, scheme=scheme, texts=30)

    # Without the headings, each of the three answers has to say whose it is.
    label = "getComputedStyle(document.querySelector('#answers td:nth-child(3)'), '::before').content"
    assert tab.evaluate(label) == ('"The logic "' if width == 390 else "none")


def test_rows_are_filtered_by_outcome_and_by_words(chromium: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page.render(a_lot(), PROPOSAL), encoding="utf-8")
    tab = chromium.tab()
    tab.open(tmp_path / "page.html")
    shown = "document.querySelectorAll('#rows tbody tr:not([hidden])').length"

    tab.evaluate("document.querySelector('#rows button[value=newly_denied]').click()")
    without_denied = tab.evaluate(shown)
    tab.evaluate("document.querySelector('#rows input').focus()")
    tab.type("orders-7 ")

    assert (without_denied, tab.evaluate(shown)) == (40, 1)


def test_a_ranking_adds_up_what_would_change_by_subject() -> None:
    rows = [
        a_row(0) | {"principal": "User:a", "requests": 5, "bytes": 1, "first_ms": 30, "last_ms": 40},
        a_row(3) | {"principal": "User:a", "requests": 2, "bytes": 2, "first_ms": 10, "last_ms": 20},
        a_row(1) | {"principal": "User:b", "requests": 9, "bytes": 0, "first_ms": None, "last_ms": None},
    ]

    first, second = page.ranking(rows, "principal")

    counted = ("value", "newly_denied", "newly_allowed", "cannot_be_said", "bytes", "first_ms", "last_ms")
    assert tuple(getattr(first, name) for name in counted) == ("User:a", 7, 0, 0, 3, 10, 40)
    assert tuple(getattr(second, name) for name in counted) == ("User:b", 0, 9, 0, 0, None, None)


def test_throttled_time_is_plotted_by_hour_of_the_day() -> None:
    text = page.render(a_lot(), PROPOSAL)

    assert page.by_hour(a_lot()["throttling"]) == {
        3 * HOUR_MS: {"user-0:": 600_000},
        23 * HOUR_MS: {"user-1:": 1},
    }
    assert "from 03:00\nuser-0:: 10 min" in text
    assert '<span class="x" style="left: 0.0%">00:00</span>' in text


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ({"newly-denied": 1, "newly-throttled": 1}, "critical"),
        ({"newly-throttled": 1, "cannot-be-said": 1}, "high"),
        ({"cannot-be-said": 1}, "medium"),
        ({"newly-allowed": 1}, "medium"),
        ({}, "empty"),
    ],
)
def test_the_head_of_the_page_has_the_colour_of_the_worst_effect(
    effects: dict[str, int], expected: str
) -> None:
    found = nothing()

    assert page.verdict({**found, "effects": found["effects"] | effects}) == expected
    assert page.verdict({**found, "requests": found["requests"] | {"unchanged": 1}}) == "clean"
