"""The table of docs/tested-with.md: a run replaces its own cells, and leaves the others."""

import pytest

from tests.lab.cluster.release import Release
from tests.lab.upstreams import suite, table
from tests.lab.upstreams.__main__ import PAGE
from tests.lab.upstreams.suite import Outcome

pytestmark = pytest.mark.tooling

PAGE_BEFORE = f"before\n{table.BEGIN}{table.END}after\n"
ROWS = ["tools", "clients"]


def lines(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith(("| tests", "| tools", "| clients"))]


def test_outcomes_are_counted_by_row() -> None:
    outcomes = [
        Outcome("tools", "one", "passed", ""),
        Outcome("tools", "two", "failed", ""),
        Outcome("clients", "three", "passed", ""),
        Outcome("clients", "four", "skipped", "no such API"),
    ]

    assert table.cells(outcomes) == {"tools": "1 passed, **1 failed**", "clients": "1 passed, 1 not offered"}


def test_a_run_replaces_its_own_cells_and_the_releases_are_in_order() -> None:
    old = {
        "4.2.1": {"tools": "1 passed", "clients": "2 passed"},
        "3.9.2": {"tools": "3 passed", "clients": ""},
    }
    page = table.written(PAGE_BEFORE, ROWS, old)

    page = table.written(page, ROWS, {"4.2.1": {"tools": "7 passed"}, "3.9.2-zookeeper": {}})

    assert lines(page) == [
        "| tests | 3.9.2 ZooKeeper | 3.9.2 KRaft | 4.2.1 KRaft |",
        "| tools |  | 3 passed | 7 passed |",
        "| clients |  |  | 2 passed |",
    ]
    assert page.startswith("before\n")
    assert page.endswith("after\n")


@pytest.mark.spec("O10")
def test_the_page_has_the_results_of_every_release_and_no_failure() -> None:
    text = PAGE.read_text(encoding="utf-8")
    written = text.partition(table.BEGIN)[2].partition(table.END)[0]

    assert set(table.columns_in(written)) == set(map(str, suite.RELEASES))
    assert "failed" not in written
    assert all(all(column.values()) for column in table.columns_in(written).values())


def test_releases_are_named_as_they_are_written() -> None:
    assert [str(Release.of(name)) for name in ("3.9.2", "2.8.2-zookeeper")] == ["3.9.2", "2.8.2-zookeeper"]
