"""Who of several controllers is the active one."""

import pytest

from forwarding.net.election import elected


@pytest.mark.spec("E12")
@pytest.mark.parametrize(
    ("members", "winner"),
    [
        ({"b": 0, "a": 0}, "a"),
        ({"b": 0}, "b"),
        ({"a": 0, "b": 1_000}, "b"),
        ({"a": 1_000, "b": 2_000}, "b"),
        ({"a": 2_000, "b": 1_000, "c": 0}, "a"),
    ],
    ids=["nobody yet", "alone", "a newcomer", "one that was away", "one that was away and a newcomer"],
)
def test_who_won_last_keeps_the_log(members: dict[str, int], winner: str) -> None:
    assert elected(members) == winner
