"""The short form of `make hostile`: clients that have not logged in."""

import pytest

from tests.lab.hostile.attack import Attack, Size, attacks
from tests.lab.hostile.report import details
from tests.lab.hostile.running import Stands, confirmed

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ATTACKS = [each for each in attacks(("strangers", "logins", "http")) if not each.only_long]


@pytest.mark.spec("O8", "O6")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_no_stranger_holds_up_the_others(stands: Stands, attack: Attack) -> None:
    outcome = confirmed(stands, attack, Size(long=False))

    assert outcome.faults == [], details(outcome)
