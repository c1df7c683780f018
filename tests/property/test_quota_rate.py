"""Rate against a plain model of the metrics of KIP-13: samples kept as objects, summed anew each time."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.quota.rate import Rate


@dataclass
class Sample:
    start_ms: int
    last_event_ms: int
    value: float = 0


class NaiveRate:
    """A ring of samples + 1; old ones are emptied when somebody measures; time is never skipped."""

    def __init__(self, window_ms: int, samples: int) -> None:
        self.window_ms, self.samples = window_ms, samples
        self.ring: list[Sample] = []
        self.current = 0

    def record(self, value: float, now_ms: int) -> None:
        if not self.ring:
            self.ring.append(Sample(now_ms, now_ms))
        elif now_ms - self.ring[self.current].start_ms >= self.window_ms:
            self.current = (self.current + 1) % (self.samples + 1)
            if self.current == len(self.ring):
                self.ring.append(Sample(now_ms, now_ms))
            self.ring[self.current] = Sample(now_ms, now_ms)
        self.ring[self.current].value += value
        self.ring[self.current].last_event_ms = now_ms

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        for index, sample in enumerate(self.ring):
            if now_ms - sample.last_event_ms >= self.samples * self.window_ms:
                self.ring[index] = Sample(now_ms, now_ms)
        elapsed_ms = now_ms - min(sample.start_ms for sample in self.ring)
        missing = max(self.samples - 1 - elapsed_ms // self.window_ms, 0)
        window_ms = max(elapsed_ms + missing * self.window_ms, 1)
        rate = sum(sample.value for sample in self.ring) / (window_ms / 1000)
        return 0 if rate <= bound else int((rate - bound) / bound * window_ms + 0.5)


pauses = st.one_of(
    st.integers(0, 50),
    st.sampled_from([499, 500, 501, 999, 1000, 1001, 5000, 9999, 10_000, 10_999, 11_000, 11_001, 60_000]),
)


@pytest.mark.spec("Q6")
@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(pauses, st.integers(0, 100_000)), min_size=1, max_size=80),
    st.sampled_from([1, 100, 1000, 33_333]),
    st.sampled_from([(1000, 11), (500, 3), (2000, 2)]),
    st.sampled_from([0, 1_700_000_000_123]),
)
def test_the_throttle_time_is_that_of_the_model_for_any_traffic(
    traffic: list[tuple[int, int]], bound: int, windows: tuple[int, int], now_ms: int
) -> None:
    rate, model = Rate(*windows), NaiveRate(*windows)
    for pause_ms, value in traffic:
        now_ms += pause_ms
        rate.record(value, now_ms)
        model.record(value, now_ms)
        assert rate.throttle_ms(bound, now_ms) == model.throttle_ms(bound, now_ms)


@pytest.mark.spec("Q6", "Q7")
@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(1, 50_000), min_size=1, max_size=60), st.integers(500, 20_000))
def test_a_client_that_waits_as_long_as_it_is_told_stays_below_twice_its_quota(
    requests: list[int], bound: int
) -> None:
    rate, now_ms = Rate(), 1_700_000_000_000
    start_ms = now_ms
    for size in requests:
        rate.record(size, now_ms)
        now_ms += rate.throttle_ms(bound, now_ms)

    # Ten windows of credit at first, and again after a wait that empties all eleven: (10 + 11) / 11 < 2.
    # Each throttle time is rounded to a ms.
    allowed_ms = 10_000 + 2 * (now_ms - start_ms) + len(requests)
    assert sum(requests) <= bound * allowed_ms / 1000
