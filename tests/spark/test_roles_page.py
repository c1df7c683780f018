"""docs/threat-model.md: what each role would want, and what finds it. Its names and letters exist."""

import re
from pathlib import Path

import pytest

from spark_audit.kraft import log_import, quorum
from spark_audit.reconcile import reconciliation, topics
from spark_audit.reconcile.finding import KINDS

pytestmark = pytest.mark.spec("D8")

PAGE, MATRIX = Path("docs/threat-model.md"), Path("docs/tampering.md")
NAMED, LETTER = re.compile(r"`([a-z]+\.[a-z_]+)`"), re.compile(r"\[([A-Z])\]\(#bounds\)")
NOTHING, COLUMNS = "\u2013", 9
REGISTERING = reconciliation, topics, log_import, quorum
"""Modules by which each kind of finding is registered."""


def section() -> str:
    page = PAGE.read_text(encoding="utf-8")
    return page.split("### What each role would want, and what finds it\n")[1].split("\n## ")[0]


def cells() -> list[str]:
    rows = [line.strip("| ").split(" | ") for line in section().splitlines() if line.startswith("| ")]
    assert {len(row) for row in rows} == {COLUMNS}
    return [cell for row in rows[1:] for cell in row[1:]]


def test_each_aim_of_each_role_is_found_or_has_a_bound() -> None:
    as_before = "as above", "as for a request"
    faulty = [
        cell
        for cell in cells()
        if not (NAMED.search(cell) or LETTER.search(cell) or cell == NOTHING or cell in as_before)
    ]

    assert (len(cells()), faulty) == (14 * (COLUMNS - 1), [])


def test_each_name_is_that_of_a_finding_and_each_letter_that_of_a_bound() -> None:
    names = {name for cell in cells() for name in NAMED.findall(cell)}
    letters = {letter for cell in cells() for letter in LETTER.findall(cell)}

    assert names - KINDS.keys() == set()
    assert letters == set(re.findall(r"^\* \*\*([A-Z])\.\*\* ", section(), re.MULTILINE))


def test_each_critical_finding_shows_something_that_a_role_wants() -> None:
    pages = section() + MATRIX.read_text(encoding="utf-8")
    severe = {name for name, kind in KINDS.items() if kind.severity in ("critical", "high")}

    assert severe - set(NAMED.findall(pages)) == set()
