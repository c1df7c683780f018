"""A rate that several workers record against one Rate that is fed all of it: the same throttle times."""

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.quota.rate import Rate
from proxy.quota.shared import Cells, Place, SharedRate, column_cells

pytestmark = pytest.mark.spec("Q6")

pauses = st.one_of(
    st.integers(0, 50),
    st.sampled_from([499, 500, 501, 999, 1000, 1001, 5000, 9999, 10_000, 10_999, 11_000, 11_001, 60_000]),
)
WORKERS = 4
traffic = st.lists(
    st.tuples(st.integers(0, WORKERS - 1), pauses, st.integers(0, 100_000)), min_size=1, max_size=100
)
windows = st.sampled_from([(1000, 11), (500, 3), (2000, 2)])
NOW_MS = 1_700_000_000_123


def columns(samples: int) -> Cells:
    return memoryview(array("d", bytes(8 * (1 + WORKERS * column_cells(samples)))))


def worker(cells: Cells, number: int, window_ms: int, samples: int) -> SharedRate:
    return SharedRate(window_ms, samples, lambda: Place(cells, 1, WORKERS, number))


@settings(max_examples=400, deadline=None)
@given(traffic, st.sampled_from([1, 100, 1000, 33_333]), windows)
def test_workers_throttle_as_one_process_does_that_has_all_the_traffic(
    traffic: list[tuple[int, int, int]], bound: int, windows: tuple[int, int]
) -> None:
    cells, now_ms = columns(windows[1]), NOW_MS
    workers = [worker(cells, number, *windows) for number in range(WORKERS)]
    alone = Rate(*windows)
    for number, pause_ms, value in traffic:
        now_ms += pause_ms
        alone.record(value, now_ms)
        expected_ms = alone.throttle_ms(bound, now_ms)
        if workers[number].record_within(value, bound, now_ms):
            assert expected_ms == 0
        else:
            workers[number].record(value, now_ms)
            assert workers[number].throttle_ms(bound, now_ms) == expected_ms
        assert [each.measure(now_ms) for each in workers] == [alone.measure(now_ms)] * WORKERS


@settings(max_examples=200, deadline=None)
@given(traffic, st.sampled_from([100, 33_333]), windows, st.sets(st.integers(0, 99)))
def test_what_takes_the_column_of_a_killed_worker_over_goes_on_where_that_was(
    traffic: list[tuple[int, int, int]], bound: int, windows: tuple[int, int], killed_before: set[int]
) -> None:
    cells, now_ms = columns(windows[1]), NOW_MS
    workers = [worker(cells, number, *windows) for number in range(WORKERS)]
    alone = Rate(*windows)
    for turn, (number, pause_ms, value) in enumerate(traffic):
        now_ms += pause_ms
        if turn in killed_before:
            workers[number] = worker(cells, number, *windows)
        alone.record(value, now_ms)
        workers[number].record(value, now_ms)
        assert workers[number].throttle_ms(bound, now_ms) == alone.throttle_ms(bound, now_ms)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1500), st.integers(1, 999)), min_size=1, max_size=60)
)
def test_samples_cut_at_the_same_instant_by_two_workers_differ_by_one_window_at_most(
    traffic: list[tuple[int, int, int]],
) -> None:
    """The race: neither sees that the other has begun. What counts then is between two horizons."""
    now_ms, window_ms, samples = NOW_MS, 1000, 11
    apart = [columns(samples), columns(samples)]  # Each starts blind, in memory of its own,
    workers = [worker(cells, number, window_ms, samples) for number, cells in enumerate(apart)]
    events: list[tuple[int, int]] = []
    for number, pause_ms, value in traffic:
        now_ms += pause_ms
        workers[number].record(value, now_ms)
        events.append((now_ms, value))
    size = column_cells(samples)
    apart[0][1 + size : 1 + 2 * size] = apart[1][1 + size : 1 + 2 * size]  # and now they see each other.
    later_ms = now_ms + 700
    workers[0].record(0, later_ms)
    counted, _ = workers[0]._counted(later_ms)

    def since(horizon_ms: int) -> int:
        return sum(value for at_ms, value in events if at_ms > horizon_ms)

    expire_ms = window_ms * samples
    assert since(later_ms - expire_ms) <= counted <= since(later_ms - expire_ms - window_ms)


def test_a_place_that_has_become_anothers_is_looked_for_again() -> None:
    cells = columns(11)
    places = [Place(cells, 1, 1, 0, 0, 0.0), Place(columns(11), 1, 1, 0, 0, 0.0, divided_by=2)]
    rate = SharedRate(1000, 11, lambda: places.pop(0))
    rate.record(5_000, NOW_MS)

    cells[0] = 1.0

    assert not rate.record_within(1, 1e9, NOW_MS + 1)
    rate.record(6_000, NOW_MS + 2)
    # Kafka: 600 a second, measured as over ten seconds; half of a limit of 1000 is ours.
    assert rate.throttle_ms(1000, NOW_MS + 2) == 2_000
    assert cells[1] == 5_000
