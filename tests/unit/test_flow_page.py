"""docs/dev/flow.md shows the states of a session as the code has them."""

from pathlib import Path

import pytest

from proxy.session.state import TABLE, State

PAGE = Path(__file__).parents[2] / "docs" / "dev" / "flow.md"


def transitions() -> str:
    rows = []
    for row in TABLE:
        flags = map(State, (row.sets, row.clears, row.needs, row.excludes))
        cells = [", ".join(str(flag.name) for flag in each) for each in flags]
        rows.append(f"| {row.event} | {' | '.join(cells)} |")
    return "\n".join(["| event | sets | clears | needs | excludes |", "|---|---|---|---|---|", *rows])


@pytest.mark.tooling
def test_the_page_shows_every_transition_of_a_session() -> None:
    assert transitions() in PAGE.read_text(encoding="utf-8"), f"it has to be:\n{transitions()}"
