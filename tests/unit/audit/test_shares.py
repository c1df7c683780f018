"""How much of a bounded space the records of a class may take, whatever the others have put there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.audit.classes import (
    ADMIN,
    AUTHENTICATION,
    CLASSES,
    DENIAL,
    PROCESS,
    RESERVED,
    SUMMARY,
    SpoolShares,
)

pytestmark = pytest.mark.spec("D3")

WHOLE = 16_000


def filled(shares: SpoolShares, name: str, size_bytes: int = 10) -> int:
    """Put records of one class until it has no room; how many bytes."""
    put = 0
    while shares.room_bytes(name) >= size_bytes:
        shares.put(name, size_bytes)
        put += size_bytes
    return put


@pytest.mark.parametrize("flooding", CLASSES)
def test_a_flood_of_one_class_leaves_the_others_their_reserves(flooding: str) -> None:
    shares = SpoolShares(WHOLE)
    reserved = {name: int(WHOLE * part) for name, part in RESERVED.items()}

    taken = filled(shares, flooding)

    others = {name: size for name, size in reserved.items() if name != flooding}
    assert taken == WHOLE - sum(others.values())
    assert {name: filled(shares, name) for name in others} == others
    assert filled(shares, SUMMARY) == 0
    assert shares.ratio == 1.0


def test_what_leaves_makes_room_and_what_was_there_before_leaves_first() -> None:
    shares = SpoolShares(WHOLE, unknown_bytes=8_000)
    first = filled(shares, SUMMARY)
    assert first == WHOLE - 8_000 - 5_000

    shares.release(8_000)
    assert shares.room_bytes(SUMMARY) == 8_000
    shares.release(8_000 + first)
    assert shares.room_bytes(SUMMARY) == WHOLE - 5_000
    assert shares.ratio == 0.0


def test_what_an_earlier_process_left_takes_no_reserve_from_a_full_spool() -> None:
    shares = SpoolShares(WHOLE, unknown_bytes=WHOLE - 5_000)

    assert shares.room_bytes(SUMMARY) == 0
    assert shares.room_bytes(DENIAL) == 2_000
    assert shares.room_bytes(ADMIN) == 2_000
    assert shares.room_bytes(AUTHENTICATION) == 1_000


puts = st.lists(
    st.tuples(st.sampled_from((*CLASSES, PROCESS)), st.integers(1, 900), st.booleans()), max_size=80
)


@given(puts)
def test_it_never_holds_more_than_the_whole_and_is_empty_when_all_has_left(
    run: list[tuple[str, int, bool]],
) -> None:
    shares, put, left, held = SpoolShares(WHOLE), 0, 0, []
    for name, size_bytes, leaves in run:
        if name != PROCESS and shares.room_bytes(name) >= size_bytes:
            shares.put(name, size_bytes)
            put += size_bytes
            held.append(size_bytes)
        if leaves and held:
            left += held.pop(0)
            shares.release(left)
        assert put - left <= WHOLE
    shares.release(put)
    assert shares.room_bytes(ADMIN) == WHOLE - 3_000
