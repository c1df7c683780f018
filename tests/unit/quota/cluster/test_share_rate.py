"""A token bucket whose limit is a share: throttle times, credit that moves with a share, clocks that jump."""

import pytest

from proxy.quota.cluster.share_rate import ShareRate
from proxy.quota.precedence import Governing
from proxy.quota.throttle import Bucket

pytestmark = pytest.mark.spec("Q13")

NAME = ("consumer_byte_rate", "alice", "")
LIMIT = 1000.0


class Terms:
    """Stands for the member: allows a share at the first record of each tick."""

    def __init__(self, share: float, credit: float = 0.0) -> None:
        self.rate = ShareRate(NAME, b"d" * 16, 1000, 2, self.touch)
        self.touches = 0
        self.rate.allow(share, 0, 60_000, credit)

    def touch(self, rate: ShareRate) -> None:
        self.touches += 1
        assert rate is self.rate


def recorded(rate: ShareRate, value: float, now_ms: int) -> int:
    rate.record(value, now_ms)
    return rate.throttle_ms(LIMIT, now_ms)


def test_a_debt_is_paid_by_the_share_of_the_limit() -> None:
    rate = Terms(0.5).rate

    assert recorded(rate, 250, 1000) == 500
    assert recorded(rate, 0, 1400) == 100
    assert recorded(rate, 0, 1500) == 0


@pytest.mark.spec("Q12")
def test_what_was_used_in_time_is_owed_for_no_longer_than_a_broker_counts_it() -> None:
    timed = ShareRate(("request_percentage", "alice", ""), b"d" * 16, 1000, 11, lambda _: None)
    timed.allow(1.0, 0, 60_000)

    assert recorded(timed, 500 * LIMIT, 3_000) == 250
    for second in range(4, 14):
        assert recorded(timed, 0, 1_000 * second) > 0
    assert recorded(timed, 0, 14_000) == 0


def test_unused_time_brings_one_window_of_the_share_and_no_more() -> None:
    rate = Terms(0.5).rate
    recorded(rate, 0, 1000)

    assert recorded(rate, 500, 60_000) == 0
    assert recorded(rate, 1, 60_000) == 2


def test_a_share_that_shrinks_takes_its_unused_credit_along_and_a_larger_one_brings_it() -> None:
    losing, gaining = Terms(0.8).rate, Terms(0.0).rate
    recorded(losing, 0, 1000)
    recorded(losing, 0, 3000)
    recorded(gaining, 0, 3000)

    surrendered = losing.allow(0.3, 2000, 60_000)
    gaining.allow(0.5, 2000, 60_000, surrendered)

    assert surrendered == pytest.approx(0.5)
    assert recorded(losing, 300, 3000) == 0
    assert recorded(losing, 30, 3000) == 100
    assert recorded(gaining, 500, 3000) == 0
    assert recorded(gaining, 50, 3000) == 100


def test_credit_that_does_not_fit_the_window_of_the_share_is_given_up_once() -> None:
    rate = Terms(0.5).rate
    recorded(rate, 0, 1000)
    recorded(rate, 0, 4000)

    assert (rate.credit, rate.take_overflow(), rate.take_overflow()) == (0.5, 1.0, 0.0)
    assert recorded(rate, 600, 4000) == 200
    assert (rate.credit, rate.take_overflow()) == (0.0, 0.0)


def test_time_before_a_change_counts_with_the_former_share() -> None:
    rate = Terms(0.1).rate
    recorded(rate, 1000, 5000)

    rate.allow(0.9, 1000, 60_000)

    # A second at 0.1 has paid 100 of the debt of 1000: what is left takes a second at 0.9.
    assert recorded(rate, 0, 6000) == 1000


def test_time_after_the_end_of_the_lease_does_not_count() -> None:
    rate = Terms(0.5).rate
    recorded(rate, 600, 5000)
    rate.allow(0.5, 0, 400)

    assert recorded(rate, 0, 6200) == 800
    assert recorded(rate, 0, 8000) == 800


def test_a_clock_that_is_set_far_ahead_or_back_brings_no_more_than_the_lease() -> None:
    rate = Terms(0.5).rate
    recorded(rate, 900, 5000)
    rate.allow(0.5, 0, 1000)

    assert recorded(rate, 0, 3_600_000) == 250
    assert rate.throttle_ms(LIMIT, 3_601_000) == 800
    assert recorded(rate, 0, 5000) == 250
    assert rate.throttle_ms(LIMIT, 6000) == 800


def test_a_throttle_time_is_at_most_a_window_and_the_debt_is_paid_by_the_share_that_grows() -> None:
    rate = Terms(0.01).rate

    recorded(rate, 0, 1000)
    assert recorded(rate, 1000, 2000) == 1000
    rate.allow(0.9, 1000, 60_000)
    assert recorded(rate, 0, 2900) == 200
    assert recorded(rate, 0, 3100) == 0


def test_in_the_first_window_after_a_pause_a_throttle_time_is_at_most_a_quarter_of_a_window() -> None:
    rate = Terms(0.01).rate

    assert recorded(rate, 1000, 11_000) == 250
    assert recorded(rate, 0, 11_999) == 250
    assert recorded(rate, 0, 12_000) == 1000
    assert recorded(rate, 1000, 14_000) == 1000
    assert recorded(rate, 0, 16_001) == 250


def test_a_debt_that_nobody_waits_for_does_not_grow() -> None:
    bucket, rate = consuming(0.5)
    bucket.enforced = False

    assert [bucket.record(500, now_ms) for now_ms in (1000, 1000, 2000)] == [1000, 1000, 0]
    assert not rate.in_debt


def test_the_fast_path_counts_within_the_credit_and_calls_the_member_once_a_tick() -> None:
    terms = Terms(1.0, credit=1.0)
    rate = terms.rate

    assert not rate.record_within(10, LIMIT, 1000)
    assert recorded(rate, 10, 1000) == 0
    assert rate.record_within(900, LIMIT, 1000)
    assert not rate.record_within(91, LIMIT, 1000)
    assert not rate.record_within(1, 2 * LIMIT, 1000)
    assert terms.touches == 1
    assert rate.take_tick(1000) == (910, 0, 0)
    assert not rate.record_within(1, LIMIT, 1000)
    assert rate.measure(1000) == 910 * 0.25


def test_a_changed_limit_applies_at_once_and_what_was_used_stays_used() -> None:
    rate = Terms(1.0).rate
    assert recorded(rate, 800, 1000) == 800

    assert rate.throttle_ms(2 * LIMIT, 1000) == 400


def test_the_time_in_which_clients_were_muted_is_counted_once() -> None:
    rate = Terms(1.0).rate
    assert recorded(rate, 100, 1000) == 100
    assert recorded(rate, 50, 1000) == 150

    assert rate.take_tick(250) == (150, 0, 150 / 250)
    assert rate.take_tick(250) == (0, 0, 0)


def consuming(share: float) -> tuple[Bucket, ShareRate]:
    terms = Terms(share)
    governing = Governing(LIMIT, None, "alice", "")
    return Bucket(NAME[0], governing, 1000, 2, rates=lambda *_: terms.rate), terms.rate


def test_a_response_that_was_not_admitted_counts_as_demand_and_not_as_use() -> None:
    bucket, rate = consuming(0.5)
    assert bucket.admit(100, 1000) == (False, 200)

    assert rate.take_tick(1000) == (0, 100, 0.2)


def test_a_response_larger_than_the_window_of_the_share_is_admitted_when_nothing_is_owed() -> None:
    bucket, _ = consuming(0.5)
    assert bucket.max_in_window_bytes == 500
    assert bucket.admit(600, 1000) == (True, 1000)
    assert bucket.admit(600, 1300) == (False, 900)

    assert bucket.admit(600, 2200) == (True, 1000)
