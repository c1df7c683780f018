"""Guessing passwords gets slower, and nobody is locked out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.metadata.quota_entity import short_name
from proxy.security.backoff import MAX_ENTRIES, BackoffSettings, LoginBackoff

pytestmark = pytest.mark.spec("R6")

NOW = 1_700_000_000_000
HOME, AWAY, ATTACKER = "10.0.0.1", "10.0.0.2", "10.6.6.6"
SETTINGS = BackoffSettings(failures=3, window_ms=10_000, initial_ms=100, max_ms=1_000)


def after(failures: int, settings: BackoffSettings = SETTINGS) -> LoginBackoff:
    backoff = LoginBackoff(settings)
    for _ in range(failures):
        backoff.failed(ATTACKER, "alice", NOW)
    return backoff


@pytest.mark.parametrize(
    ("failures", "delay_ms"),
    [(0, 0), (2, 0), (3, 100), (4, 200), (5, 400), (6, 800), (7, 1_000), (10_000, 1_000)],
)
def test_each_failure_beyond_the_first_doubles_the_delay_up_to_its_bound(
    failures: int, delay_ms: int
) -> None:
    assert after(failures).delay_ms(ATTACKER, None, NOW) == delay_ms


def test_failures_count_for_the_user_wherever_they_come_from() -> None:
    backoff = LoginBackoff(SETTINGS)
    for number in range(4):
        backoff.failed(f"10.1.0.{number}", "alice", NOW)

    assert backoff.delay_ms("10.1.0.9", "alice", NOW) == 200
    assert backoff.delay_ms("10.1.0.9", "bob", NOW) == 0


def test_a_user_is_not_delayed_for_the_failures_of_others_where_it_has_logged_in_before() -> None:
    backoff = LoginBackoff(SETTINGS)
    backoff.succeeded(HOME, "alice")
    for _ in range(20):
        backoff.failed(ATTACKER, "alice", NOW)
        backoff.failed(HOME, "carol", NOW)

    assert backoff.delay_ms(HOME, "alice", NOW) == 0
    assert backoff.delay_ms(AWAY, "alice", NOW) == SETTINGS.max_ms
    backoff.failed(HOME, "alice", NOW)
    assert backoff.delay_ms(HOME, "alice", NOW) == SETTINGS.max_ms


def test_a_success_does_not_pay_for_guessing_at_others() -> None:
    backoff = after(5)

    backoff.succeeded(ATTACKER, "mallory")

    assert backoff.delay_ms(ATTACKER, "mallory", NOW) == 0
    assert backoff.delay_ms(ATTACKER, "bob", NOW) == 400


@pytest.mark.parametrize(("passed_ms", "delay_ms"), [(10_000, 100), (10_001, 0), (-20_000, 0)])
def test_after_a_window_without_failures_they_are_forgotten(passed_ms: int, delay_ms: int) -> None:
    backoff = after(3)

    assert backoff.delay_ms(ATTACKER, "alice", NOW + passed_ms) == delay_ms
    if not delay_ms:
        backoff.failed(ATTACKER, "alice", NOW + passed_ms)
        assert backoff.delay_ms(ATTACKER, "alice", NOW + passed_ms) == 0


def test_with_no_number_of_failures_nothing_is_held_or_kept() -> None:
    settings = BackoffSettings(failures=0)
    backoff = after(100, settings)
    backoff.succeeded(HOME, "alice")

    assert backoff.delay_ms(ATTACKER, "alice", NOW) == 0
    assert backoff == LoginBackoff(settings)


@pytest.mark.spec("O6")
def test_what_is_kept_is_bounded_and_the_newest_stay() -> None:
    backoff = LoginBackoff(BackoffSettings(failures=1))
    for number in range(MAX_ENTRIES + 10):
        backoff.failed(f"host-{number}", f"user-{number}", NOW)
        backoff.succeeded(f"host-{number}", f"good-{number}")

    kept = [len(backoff._by_host), len(backoff._by_user), len(backoff._last_success)]
    assert kept == [MAX_ENTRIES] * 3
    assert backoff.delay_ms("elsewhere", "user-0", NOW) == 0
    assert backoff.delay_ms("elsewhere", f"user-{MAX_ENTRIES}", NOW) == 100


@pytest.mark.spec("O6")
def test_of_a_long_user_name_little_is_kept() -> None:
    backoff, user = LoginBackoff(BackoffSettings(failures=1)), "u" * 500_000
    backoff.failed("here", user, NOW)
    backoff.succeeded("there", user)

    assert [*backoff._by_user, *backoff._last_success] == [short_name(user), (short_name(user), "there")]
    assert (backoff.delay_ms("elsewhere", user, NOW), backoff.delay_ms("there", user, NOW)) == (100, 0)
    assert backoff.delay_ms("elsewhere", "v" + user, NOW) == 0


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 20_000)),
        max_size=60,
    )
)
def test_whatever_happens_the_delay_keeps_its_bounds(said: list[tuple[bool, str, str, int]]) -> None:
    backoff = LoginBackoff(SETTINGS)
    now_ms = NOW
    for good, host, user, passed_ms in said:
        now_ms += passed_ms
        delay_ms = backoff.delay_ms(host, user, now_ms)
        assert delay_ms == 0 or SETTINGS.initial_ms <= delay_ms <= SETTINGS.max_ms
        if good:
            backoff.succeeded(host, user)
        else:
            backoff.failed(host, user, now_ms)


@pytest.mark.spec("O8")
def test_all_addresses_of_one_ipv6_network_are_one() -> None:
    """Whoever has one of them has 2^64: a guess from each would not be delayed otherwise."""
    backoff = LoginBackoff(SETTINGS)
    for number in range(4):
        backoff.failed(f"2001:db8:0:0:0:0:0:{number:x}", f"user-{number}", NOW)

    assert backoff.delay_ms("2001:db8:0:0:1:2:3:4", "alice", NOW) == 200
    assert backoff.delay_ms("2001:db8:0:1:0:0:0:1", "alice", NOW) == 0
