"""The metrics of several workers as those of one proxy."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from proxy.quota.throttle import IDLE_MS
from proxy.workers.exposition import GAUGES, Exposition
from tests.unit.test_metric_names import gauges

pytestmark = pytest.mark.spec("O2")

NOW_MS = 1_700_000_000_000
SUMMED = {
    "penstock_audit_spool_bytes",
    "penstock_connections",
    "penstock_quota_exempt_request_time",
    "penstock_request_memory_bytes",
    "penstock_requests_without_room",
    "penstock_workers",
}
"""Gauges of the proxy of which the proxy has what its workers have together."""


def counter(name: str, labels: str, value: float) -> str:
    return f"# HELP {name} A counter.\n# TYPE {name} counter\n{name}{{{labels}}} {value}\n"


def gauge(name: str, value: float) -> str:
    return f"# HELP {name} A gauge.\n# TYPE {name} gauge\n{name} {value}\n"


def told(exposition: Exposition) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(exposition)
    lines = generate_latest(registry).decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def test_counters_are_summed_by_their_labels_and_gauges_by_their_rule() -> None:
    both = Exposition()
    for worker, (requests, connections, offset) in enumerate(((10, 3, 41), (5, 4, 40))):
        text = counter("penstock_requests_total", 'api="Produce"', requests)
        text += gauge("penstock_connections", connections) + gauge("penstock_metadata_offset", offset)
        both.update(worker, text, NOW_MS)

    assert told(both) == {
        'penstock_requests_total{api="Produce"}': 15.0,
        "penstock_connections": 7.0,
        "penstock_metadata_offset": 40.0,
    }


def test_what_a_dead_worker_has_counted_stays_counted_and_what_it_held_is_gone() -> None:
    both = Exposition()
    both.update(0, counter("x_total", "", 10) + gauge("penstock_connections", 2), NOW_MS)
    both.update(1, counter("x_total", "", 7) + gauge("penstock_connections", 5), NOW_MS)

    both.died(1, NOW_MS)
    without = told(both)
    both.update(1, counter("x_total", "", 1), NOW_MS)

    assert without == {"x_total": 17.0, "penstock_connections": 2.0}
    assert told(both) == {"x_total": 18.0, "penstock_connections": 2.0}


def test_buckets_of_histograms_are_summed() -> None:
    both = Exposition()
    text = '# TYPE h histogram\nh_bucket{le="1.0"} 2.0\nh_bucket{le="+Inf"} 3.0\nh_count 3.0\nh_sum 4.5\n'
    both.update(0, text, NOW_MS)
    both.update(1, text, NOW_MS)

    assert told(both) == {
        'h_bucket{le="1.0"}': 4.0,
        'h_bucket{le="+Inf"}': 6.0,
        "h_count": 6.0,
        "h_sum": 9.0,
    }


def test_a_series_that_ends_at_one_worker_does_not_make_the_sum_fall() -> None:
    both, throttled = Exposition(), "penstock_quota_throttled_total"
    both.update(0, counter(throttled, 'user="alice"', 10), NOW_MS)
    both.update(1, counter(throttled, 'user="alice"', 7), NOW_MS)

    both.update(1, "", NOW_MS + 1)

    assert told(both) == {f'{throttled}{{user="alice"}}': 17.0}


def test_a_quota_ids_series_ends_when_no_worker_has_it_and_others_do_not() -> None:
    both, throttled = Exposition(), "penstock_quota_throttled_total"
    both.update(0, counter(throttled, 'user="alice"', 10) + counter("x_total", "", 1), NOW_MS)
    both.died(0, NOW_MS)

    both.update(0, "", NOW_MS + IDLE_MS - 1)
    before = told(both)
    both.update(0, "", NOW_MS + IDLE_MS)

    assert before == {f'{throttled}{{user="alice"}}': 10.0, "x_total": 1.0}
    assert told(both) == {"x_total": 1.0}


def test_each_gauge_of_the_proxy_has_a_rule() -> None:
    of_controllers = {name for name in gauges() if name.startswith("penstock_controller_")}
    known = {*GAUGES, *SUMMED, *of_controllers, "penstock_forwarding_in_flight"}

    assert gauges() - known == set()
