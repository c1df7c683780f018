"""max.connection.creation.rate: how long a listener waits, for its own rate and for that of all (KIP-612)."""

import pytest

from proxy.quota.connections import AcceptRates

pytestmark = pytest.mark.spec("Q12")

NOW = 1_700_000_000_000


def waits(rates: AcceptRates, listener: str, *at_ms: int) -> list[int]:
    return [rates.wait_ms(listener, NOW + ms) for ms in at_ms]


def test_a_burst_of_what_the_windows_have_room_for_waits_for_nothing() -> None:
    rates = AcceptRates(5)

    told = waits(rates, "EXTERNAL", *[0] * 51)

    # Ten whole windows of five a second, and one more: (5.1 - 5) / 5 * 10 s.
    assert (told[:50], told[50]) == ([0] * 50, 200)


def test_nobody_waits_for_longer_than_a_window() -> None:
    rates = AcceptRates(1, window_size_seconds=2)

    assert max(waits(rates, "EXTERNAL", *[0] * 1_000)) == 2_000


def test_a_rate_that_is_kept_to_is_never_waited_for() -> None:
    rates = AcceptRates(10, {"EXTERNAL": 10})

    assert waits(rates, "EXTERNAL", *range(0, 60_000, 125)) == [0] * 480


def test_a_listener_waits_for_the_longer_of_its_own_rate_and_that_of_all() -> None:
    rates = AcceptRates(100, {"SLOW": 1}, window_num=2)

    slow = waits(rates, "SLOW", 0, 0)
    others = waits(rates, "OTHER", *[0] * 99)

    assert slow == [0, 1_000]
    # A hundred in all are let in at once, those of the slow one among them.
    assert (others[:98], others[98]) == ([0] * 98, 10)


def test_a_rate_of_none_lets_each_wait_a_window() -> None:
    assert waits(AcceptRates(0), "EXTERNAL", 0, 0) == [1_000, 1_000]


@pytest.mark.parametrize(
    ("rates", "limited"),
    [
        (AcceptRates(), []),
        (AcceptRates(1), ["A", "B"]),
        (AcceptRates(None, {"A": 1}), ["A"]),
    ],
)
def test_only_listeners_with_a_limit_are_paced(rates: AcceptRates, limited: list[str]) -> None:
    assert [name for name in ("A", "B") if rates.limits(name)] == limited
    assert rates.wait_ms("C", NOW) == 0
