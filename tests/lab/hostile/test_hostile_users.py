"""The short form of `make hostile`: clients that have logged in."""

import pytest

from tests.lab.hostile.attack import Attack, Size, attacks
from tests.lab.hostile.report import details
from tests.lab.hostile.running import Stands, confirmed

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COSTLY = {
    *(
        "responses-of-ours-that-nobody-reads",
        "many-small-requests",
        "many-long-client-ids",
        "changing-client-ids",
        "large-metadata-responses",
    ),
    *("descriptions-of-tokens", "a-large-request-of-one-million-names", "requests-with-a-tiny-timeout"),
    *("large-denied-requests", "more-elements-than-the-limit", "large-requests-of-an-administrator"),
    *("a-flood-of-denials", "a-forged-claim-of-the-highest-epoch", "produces-that-never-end"),
    "unknown-topic-ids",
}
"""Run by `make test-all`; others of their kind guard a landing."""
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
CASES = [
    pytest.param(each, marks=pytest.mark.long if each.name in COSTLY else (), id=each.name)
    for each in ATTACKS
]


@pytest.mark.spec("O8", "D3", "S8", "R10", "E5")
@pytest.mark.parametrize("attack", CASES)
def test_no_user_holds_up_the_others(stands: Stands, attack: Attack) -> None:
    outcome = confirmed(stands, attack, Size(long=False))

    assert outcome.faults == [], details(outcome)
