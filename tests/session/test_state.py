"""The table of a session's states: what it allows, and that nothing goes around it."""

from itertools import product

import pytest

from proxy.session.in_flight import BrokerQuery
from proxy.session.plan import LookUp
from proxy.session.state import TABLE, WAITING, IllegalTransition, State, Transition, after
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import Conversation

ALL = 2 * max(State) - 1


def rows_that(attribute: str, flag: State) -> list[str]:
    return [row.event for row in TABLE if getattr(row, attribute) & flag]


@pytest.mark.spec("O8")
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.event)
def test_an_event_is_possible_in_exactly_the_states_that_its_row_names(row: Transition) -> None:
    for flags in range(ALL + 1):
        is_possible = flags & row.needs == row.needs and not flags & row.excludes
        if is_possible:
            assert after(flags, row) == (flags & ~row.clears) | row.sets
        else:
            with pytest.raises(IllegalTransition):
                after(flags, row)


@pytest.mark.spec("O8")
def test_every_flag_is_set_and_cleared_by_an_event_except_that_a_closing_session_stays_so() -> None:
    never_set = [flag for flag in State if not rows_that("sets", flag)]
    never_cleared = [flag for flag in State if not rows_that("clears", flag)]

    assert (never_set, never_cleared) == ([], [State.CLOSING])


@pytest.mark.spec("O8")
def test_a_session_never_waits_for_two_things_at_once() -> None:
    waits = [row for row in TABLE if row.sets & WAITING]

    for first, second in product(waits, waits):
        with pytest.raises(IllegalTransition):
            after(after(0, first), second)
    assert len(waits) == WAITING.bit_count()


@pytest.mark.spec("O8")
def test_a_step_that_is_not_possible_now_raises_and_changes_no_flag() -> None:
    machine = Conversation().session.machine
    machine.apply([LookUp([bytes(16)])])
    before = machine.flags

    with pytest.raises(IllegalTransition, match=r"BrokerQuery.*LOOKING_UP_TOPICS"):
        machine.apply([BrokerQuery(ApiKey.METADATA, 12, 0, then=lambda _response: [])])

    assert machine.flags == before
