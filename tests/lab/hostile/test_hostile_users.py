"""The short form of `make hostile`: clients that have logged in."""

import pytest

from tests.lab.hostile.attack import Attack, Size, attacks
from tests.lab.hostile.report import details
from tests.lab.hostile.running import Stands, confirmed

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ATTACKS = [
    each
    for each in attacks(
        (
            "requests",
            "readers",
            "records",
            "produces",
            "administration",
            "quotas",
            "own_topics",
            "pipelines",
        )
    )
    if not each.only_long
]


@pytest.mark.spec("O8", "D3", "S8", "R10", "E5")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_no_user_holds_up_the_others(stands: Stands, attack: Attack) -> None:
    outcome = confirmed(stands, attack, Size(long=False))

    assert outcome.faults == [], details(outcome)
