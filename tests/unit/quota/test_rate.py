"""The windowed rate in Kafka's own numbers."""

import pytest

from proxy.quota.rate import Rate

START = 1_700_000_000_000


@pytest.mark.spec("Q6")
@pytest.mark.parametrize(
    ("bound", "throttle_ms"),
    [(1000, 190_111), (5000, 30_022), (10_000, 10_011), (19_000, 532), (20_100, 0)],
)
def test_a_burst_is_throttled_for_as_long_as_a_real_broker_throttled_it(bound: int, throttle_ms: int) -> None:
    # 200,072 bytes of records, and 39 of the request around them, on a broker of version 4.2.1.
    rate = Rate()

    rate.record(200_111, START)

    assert rate.throttle_ms(bound, START) == throttle_ms


@pytest.mark.spec("Q6")
def test_the_spike_of_kafkas_own_test_is_throttled_for_2100_ms() -> None:
    rate = Rate()
    for second in range(10):
        rate.record(400, START + 1000 * second)
        assert rate.throttle_ms(500, START + 1000 * second) == 0

    # 400 * 10 + 2300 = 6300 bytes in 10.5 s are 600 a second: (600 - 500) / 500 * 10.5 s.
    rate.record(2300, START + 10_500)

    assert rate.measure(START + 10_500) == 600.0
    assert rate.throttle_ms(500, START + 10_500) == 2100


@pytest.mark.spec("Q6")
def test_a_spike_is_forgotten_when_its_sample_has_rolled_over() -> None:
    rate = Rate()
    rate.record(400 * 10 + 2300, START)
    for second in range(1, 11):
        rate.record(400, START + 1000 * second)
        assert rate.throttle_ms(500, START + 1000 * second) > 0

    rate.record(400, START + 11_000)

    assert rate.throttle_ms(500, START + 11_000) == 0


@pytest.mark.spec("Q6")
@pytest.mark.parametrize(
    ("elapsed_ms", "window_ms"),
    [
        (0, 10_000),
        (1, 10_001),
        (999, 10_999),
        (1000, 10_000),
        (5500, 10_500),
        (9999, 10_999),
        (10_500, 10_500),
    ],
)
def test_a_young_rate_counts_at_least_one_window_less_than_it_has_samples(
    elapsed_ms: int, window_ms: int
) -> None:
    rate = Rate()
    rate.record(1_000_000, START)

    assert rate.measure(START + elapsed_ms) == 1_000_000 / (window_ms / 1000)


@pytest.mark.spec("Q6")
@pytest.mark.parametrize(("idle_ms", "total"), [(10_999, 1100), (11_000, 100), (3_600_000, 100)])
def test_a_sample_without_an_event_in_all_windows_is_forgotten(idle_ms: int, total: int) -> None:
    rate = Rate()
    rate.record(1000, START)

    rate.record(100, START + idle_ms)

    window_s = 10.999 if total == 1100 else 10.0
    assert rate.measure(START + idle_ms) == total / window_s


@pytest.mark.spec("Q6")
def test_windows_of_another_number_and_size_are_counted_alike() -> None:
    rate = Rate(window_ms=2000, samples=4)
    rate.record(12_000, START)

    assert rate.measure(START) == 2000.0
    assert rate.throttle_ms(1000, START) == 6000


@pytest.mark.spec("Q6", "Q10")
@pytest.mark.parametrize(("idle_ms", "forgotten"), [(10_999, False), (11_000, True), (11_001, True)])
def test_measuring_sees_what_a_record_at_that_moment_would_still_count(idle_ms: int, forgotten: bool) -> None:
    rate = Rate()
    rate.record(1000, START)

    assert (rate.measure(START + idle_ms) == 0) is forgotten


@pytest.mark.spec("Q6")
def test_measuring_changes_nothing() -> None:
    measured, untouched = Rate(), Rate()
    for at_ms in (START, START + 700, START + 5000):
        measured.record(5000, at_ms)
        untouched.record(5000, at_ms)

    for at_ms in range(START, START + 30_000, 500):
        measured.measure(at_ms)
    measured.record(5000, START + 12_345)
    untouched.record(5000, START + 12_345)

    assert measured.throttle_ms(100, START + 12_345) == untouched.throttle_ms(100, START + 12_345)


@pytest.mark.spec("Q6")
def test_a_rate_without_a_record_is_zero() -> None:
    assert Rate().measure(START) == 0.0


@pytest.mark.spec("Q7")
def test_what_is_taken_back_does_not_count() -> None:
    rate = Rate()
    rate.record(200_000, START)
    rate.record(-200_000, START + 5)

    assert rate.throttle_ms(1, START + 5) == 0


@pytest.mark.spec("Q6")
@pytest.mark.parametrize("bound", [5e-324, 0, -1])
def test_a_bound_that_can_never_be_kept_throttles_as_long_as_the_wire_can_say(bound: float) -> None:
    rate = Rate()
    rate.record(1, START)

    assert rate.throttle_ms(bound, START) == 2**31 - 1


@pytest.mark.spec("Q6")
def test_a_throttle_time_fits_the_wire() -> None:
    rate = Rate()
    rate.record(2**50, START)

    assert rate.throttle_ms(0.001, START) == 2**31 - 1


@pytest.mark.spec("Q6")
def test_a_clock_set_back_by_little_goes_on_in_the_same_sample() -> None:
    rate = Rate()
    rate.record(5000, START)

    rate.record(5000, START - 100)

    assert rate.measure(START) == 1000.0


@pytest.mark.spec("Q6")
def test_a_clock_set_back_by_an_hour_does_not_throttle_for_an_hour() -> None:
    rate = Rate()
    rate.record(1_000_000, START)
    back = START - 3_600_000

    for second in range(60):
        rate.record(900, back + second * 1000)

    assert rate.throttle_ms(1000, back + 59_000) == 0


@pytest.mark.spec("Q6")
@pytest.mark.parametrize(("window_ms", "samples"), [(0, 11), (1000, 1), (-1, 11)])
def test_windows_that_measure_nothing_are_refused(window_ms: int, samples: int) -> None:
    with pytest.raises(ValueError, match=f"not {window_ms}, {samples}"):
        Rate(window_ms, samples)
