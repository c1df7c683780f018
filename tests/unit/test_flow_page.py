"""docs/flow.md shows the states of a session as the code has them."""

from pathlib import Path

import pytest

from proxy.session.state import TABLE, State

PAGE = Path(__file__).parents[2] / "docs" / "flow.md"


def states() -> str:
    rows = [f"| {state.name} | {row.set_by} | {row.cleared_by} |" for state, row in TABLE.items()]
    return "\n".join(["| state | set by | cleared by |", "|---|---|---|", *rows])


@pytest.mark.tooling
def test_the_page_shows_every_state_and_what_sets_and_clears_it() -> None:
    assert TABLE.keys() == set(State)
    assert states() in PAGE.read_text(encoding="utf-8")
