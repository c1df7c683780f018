"""The share of the loop in Kafka's own numbers: the scenario of ClientRequestQuotaManagerTest as data."""

import pytest

from proxy.metadata.quota_entity import QuotaEntity
from proxy.quota.keys import REQUEST_PERCENTAGE
from proxy.quota.throttle import Bucket, ClientQuotas, percent
from tests.support.metadata_log import quotas_image
from tests.unit.quota.test_throttle import NOW, Settings

ONE_PERCENT = 1.0


def ms(milliseconds: float) -> float:
    return percent(round(milliseconds * 1_000_000))


def bucket(limit: float = ONE_PERCENT, **settings: int) -> Bucket:
    image = quotas_image(
        {QuotaEntity(user="ANONYMOUS", client_id="test-client"): {REQUEST_PERCENTAGE: limit}}
    )
    return ClientQuotas(Settings(**settings)).bucket(REQUEST_PERCENTAGE, image, None, "test-client")


# At so many ms, so many ms of the loop's time; how long the client is to wait.
STEADY = [(1_000 * second, 4, 0) for second in range(10)]
# (4 * 10 + 67.1) ms in 10.5 s are 10.2 ms a second: (10.2 - 10) / 10 * 10.5 s.
SPIKE = [(10_500, 67.1, 210)]
AFTER = [(10_710 + 1_000 * second, 4, None) for second in range(11)]
FORGOTTEN = [(21_710, 0, 0)]
# Far more than one window can bring back within the quota: a window is told, again and again.
FLOOD = [(21_710, 500, 1_000), *((21_710 + 1_000 * second, 0, 1_000) for second in range(1, 11))]
FLOOD_FORGOTTEN = [(32_710, 0, 0)]


@pytest.mark.spec("Q6", "Q12")
def test_the_spikes_of_kafkas_own_test_are_throttled_for_as_long_as_there() -> None:
    shared = bucket()

    for at_ms, spent_ms, throttle_ms in [*STEADY, *SPIKE, *AFTER, *FORGOTTEN, *FLOOD, *FLOOD_FORGOTTEN]:
        told = shared.record(ms(spent_ms), NOW + at_ms)
        assert throttle_ms in (None, told), f"{told} ms after {at_ms} ms"


@pytest.mark.spec("Q6", "Q12")
@pytest.mark.parametrize("seconds", [1, 2, 5])
def test_nobody_is_told_to_wait_for_more_than_one_window(seconds: int) -> None:
    shared = bucket(0.001, quota_window_size_seconds=seconds)

    assert shared.record(ms(60_000), NOW) == 1_000 * seconds
    assert shared.throttled_until_ms == NOW + 1_000 * seconds


@pytest.mark.spec("Q12")
def test_a_whole_loop_is_a_hundred_percent() -> None:
    shared = bucket()
    for second in range(11):
        shared.count(percent(1_000_000_000), NOW + 1_000 * second)

    assert shared.byte_rate(NOW + 10_999) == pytest.approx(100.0, rel=1e-3)


@pytest.mark.spec("Q12")
def test_what_is_only_counted_throttles_nobody_until_it_is_asked_for() -> None:
    shared = bucket()
    shared.count(ms(200), NOW)

    assert shared.throttled_until_ms == 0
    assert (shared.record(0, NOW), shared.last_record_ms) == (1_000, NOW)
