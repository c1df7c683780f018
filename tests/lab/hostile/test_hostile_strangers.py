"""The short form of `make hostile`: clients that have not logged in."""

import pytest

from tests.lab.hostile.attack import Attack, Size, attacks
from tests.lab.hostile.report import details
from tests.lab.hostile.running import Stands, confirmed

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COSTLY = {
    *("malformed-strangers", "strangers-that-take-every-descriptor"),
    *("strangers-with-large-frames", "strangers-with-large-frames-and-little-memory"),
    *(
        "strangers-that-come-and-go",
        "wrong-passwords-of-clients-that-left",
        "balancers-without-headers",
        "a-flood-of-scrapes",
        "tokens-with-anything-in-them",
        "certificates-with-anything-in-them",
    ),
}
"""Run by `make test-all`; others of their kind guard a landing."""
ATTACKS = [each for each in attacks(("strangers", "logins", "http", "identity")) if not each.only_long]
CASES = [
    pytest.param(each, marks=pytest.mark.long if each.name in COSTLY else (), id=each.name)
    for each in ATTACKS
]


@pytest.mark.spec("O8", "O6")
@pytest.mark.parametrize("attack", CASES)
def test_no_stranger_holds_up_the_others(stands: Stands, attack: Attack) -> None:
    outcome = confirmed(stands, attack, Size(long=False))

    assert outcome.faults == [], details(outcome)
