"""build/conformance.md and its summary: read from the markers rightly, and not out of date."""

from pathlib import Path

import pytest

from tests.support.conformance import (
    SPEC,
    MarkedTest,
    Requirement,
    marked_tests,
    page,
    requirements,
    requirements_and_tests,
    summary,
    with_summary,
)

pytestmark = pytest.mark.tooling

MARKED_FILE = """
import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.spec("Q1")]


@pytest.mark.spec("Q2", "Q3")
def test_one(): ...


@pytest.mark.parametrize("n", [1])
async def test_two(n): ...


def not_a_test(): ...
"""


def test_the_summary_is_up_to_date() -> None:
    page = SPEC.read_text(encoding="utf-8")

    assert with_summary(page, *requirements_and_tests()) == page, "run `make conformance`"


def test_rows_of_a_table_become_requirements_of_their_section() -> None:
    spec = "## Q: quotas\n\n| id | requirement | decision |\n|---|---|---|\n| Q1 | one | as Kafka |\n"

    assert requirements(spec) == [Requirement("Q1", "Q: quotas", "one")]


def test_markers_of_a_function_and_of_its_module_both_count(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_marked.py").write_text(MARKED_FILE, encoding="utf-8")

    found = marked_tests(tests)

    path = "tests/test_marked.py"
    assert found == [
        MarkedTest(path, 8, "test_one", ("Q1", "Q2", "Q3"), frozenset({"kafka", "spec"})),
        MarkedTest(path, 12, "test_two", ("Q1",), frozenset({"kafka", "spec", "parametrize"})),
    ]


def test_a_requirement_without_a_test_is_told_as_not_yet() -> None:
    rows = [Requirement("Q1", "Q: quotas", "one"), Requirement("Q2", "Q: quotas", "two")]
    tests = [MarkedTest("tests/test_a.py", 1, "test_a", ("Q1",), frozenset({"spec", "kafka"}))]

    text = page(rows, tests)

    assert "1 of 2 requirements" in text
    assert "- [tests/test_a.py](../tests/test_a.py)\n  - `test_a` (*Kafka*)\n" in text
    assert "### Q2\n\ntwo\n\n*not yet*\n" in text


def test_the_summary_names_what_only_long_tests_and_what_no_tests_name() -> None:
    rows = [Requirement(f"Q{number}", "Q: quotas", "text") for number in (1, 2, 3)]
    tests = [
        MarkedTest("tests/test_a.py", 1, "test_a", ("Q1", "Q2"), frozenset({"spec", "long"})),
        MarkedTest("tests/test_a.py", 9, "test_b", ("Q1",), frozenset({"spec"})),
    ]

    assert summary(rows, tests).endswith("|\n| Q: quotas | 3 | 2 | Q2 | Q3 |\n")
