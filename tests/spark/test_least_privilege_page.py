"""The page of least privilege in a real browser. Needs no Spark."""

from pathlib import Path
from typing import Any

import pytest

from spark_audit.least_privilege import page
from spark_audit.least_privilege.result import KINDS, LeastPrivilegeDocument, proposal_text
from spark_audit.proposal import parse_proposal
from tests.spark.test_browser import ODD_NAMES
from tests.support.browser import Browser

pytestmark = [pytest.mark.slow, pytest.mark.spec("D11")]

PICTURES = Path(__file__).resolve().parents[2] / "build" / "least-privilege"
NOON_MS = 1_795_435_200_000


def a_row(kind: str, number: int) -> dict[str, Any]:
    name = ODD_NAMES[number % len(ODD_NAMES)]
    effect = {"newly_denied": number % 2, "newly_throttled": 0, "cannot_be_said": number, "reasons": ["why"]}
    command = "kafka-acls --remove --allow-principal User:a --operation All --topic " + "very-long-name." * 9
    measures = {"requests": 1_000_003 * number, "first_ms": NOON_MS, "last_ms": NOON_MS}
    quota = {"peak": None if number % 3 else 0.0123, "limit": 1e6}
    return {
        "kind": kind,
        "subject": f"ALLOW {name} from * ALL TOPIC LITERAL {'very-long-name.' * (number % 3 * 5)}x{number}",
        "principal": name,
        **({} if kind in ("no-login", "unreached-quota") else measures),
        "used_for": [f"READ orders-{n}" for n in range(number % 4)],
        "commands": [] if kind == "no-grant" else [command, f"{command}2"],
        "held_back": "it would newly deny 1 requests" if number % 2 else None,
        "what_if": effect if kind in ("wide-grant", "unused-grant") else None,
        "unseen": ["bypass", "gap", "less than a year"],
        **(quota if kind == "unreached-quota" else {}),
    }


def a_document(rows_of_a_kind: int) -> LeastPrivilegeDocument:
    rows = [a_row(kind, number) for kind in KINDS for number in range(rows_of_a_kind)]
    requests = {"newly_denied": 0, "newly_allowed": 0, "cannot_be_said": 12, "unchanged": 10**9}
    return {
        "offset": 41,
        "days": ["2026-08-26", "2026-11-23"],
        "counts": dict.fromkeys(KINDS, rows_of_a_kind),
        "unseen": {"bypass": "a client that connects to a broker directly is in no record"},
        "what_if": {"requests": requests, "effects": {}} if rows else None,
        "rows": list(rows),
    }


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("rows", [8, 0])
def test_nothing_is_fetched_complained_of_too_wide_or_hard_to_read(
    chromium: Browser, tmp_path: Path, rows: int, scheme: str, width: int
) -> None:
    path = tmp_path / "page.html"
    path.write_text(page.render(a_document(rows)), encoding="utf-8")
    picture = PICTURES / f"{rows}-{scheme}-{width}.png"

    chromium.tab().reads_well(path, picture, width=width, scheme=scheme, texts=20)


def test_rows_are_filtered_by_words(chromium: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page.render(a_document(8)), encoding="utf-8")
    tab = chromium.tab()
    tab.open(tmp_path / "page.html")

    tab.evaluate("document.querySelector('#wide-grant input').focus()")
    tab.type("x5")

    shown = "document.querySelectorAll('#{} tbody tr:not([hidden])').length"
    assert tab.evaluate(shown.format("wide-grant")) == 1
    assert tab.evaluate(shown.format("unused-grant")) == 8


def test_what_is_held_back_or_cannot_be_tried_is_a_comment_of_the_proposal() -> None:
    found = a_document(2)
    found["rows"] = [row for row in found["rows"] if row["kind"] in ("wide-grant", "no-login")]

    text = proposal_text(found)

    assert text.count("\nkafka-acls") == 2
    assert text.count("\n# kafka-acls") == 6
    assert len(parse_proposal(text, "p").removed) == 2
