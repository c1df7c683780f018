"""The metrics of several workers as those of one proxy."""

import json

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, Info
from prometheus_client.exposition import generate_latest

from proxy.net.runtime.merged_metrics import (
    UNTIL_IDLE,
    EndingCounterMetricFamily,
    Gauge,
    GaugeMetricFamily,
    rule_of,
)
from proxy.quota.bucket_table import IDLE_MS
from proxy.workers.exposition import Exposition, snapshot

pytestmark = pytest.mark.spec("O2")

NOW_MS = 1_700_000_000_000

Family = tuple[str, str, str, str, list[tuple[str, list[tuple[str, str]], float]]]


def counter(name: str, user: str, value: float, rule: str = "sum") -> Family:
    return name.removesuffix("_total"), "A counter.", "counter", rule, [(name, [("user", user)], value)]


def gauge(name: str, value: float, rule: str = "sum") -> Family:
    return name, "A gauge.", "gauge", rule, [(name, [], value)]


def page(*families: Family) -> bytes:
    return json.dumps(families).encode()


def told(exposition: Exposition) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(exposition)
    lines = generate_latest(registry).decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def test_counters_are_summed_by_their_labels_and_gauges_by_their_rule() -> None:
    both = Exposition()
    for worker, (requests, connections, offset) in enumerate(((10, 3, 41), (5, 4, 40))):
        held = gauge("penstock_connections", connections), gauge("penstock_metadata_offset", offset, "min")
        both.update(worker, page(counter("penstock_requests_total", "alice", requests), *held), NOW_MS)

    assert told(both) == {
        'penstock_requests_total{user="alice"}': 15.0,
        "penstock_connections": 7.0,
        "penstock_metadata_offset": 40.0,
    }


def test_what_a_dead_worker_has_counted_stays_counted_and_what_it_held_is_gone() -> None:
    both = Exposition()
    both.update(0, page(counter("x_total", "a", 10), gauge("penstock_connections", 2)), NOW_MS)
    both.update(1, page(counter("x_total", "a", 7), gauge("penstock_connections", 5)), NOW_MS)

    both.died(1, NOW_MS)
    without = told(both)
    both.update(1, page(counter("x_total", "a", 1)), NOW_MS)

    assert without == {'x_total{user="a"}': 17.0, "penstock_connections": 2.0}
    assert told(both) == {'x_total{user="a"}': 18.0, "penstock_connections": 2.0}


async def test_what_a_process_has_is_summed_whatever_kind_it_is() -> None:
    registry = CollectorRegistry()
    histogram = Histogram("h", "A histogram.", registry=registry, buckets=(1.0,))
    for value in (0.5, 0.5, 3.5):
        histogram.observe(value)
    Info("penstock_build", "An info.", registry=registry).info({"version": "1"})
    Counter("x", "A counter.", ["user"], registry=registry).labels('a"b').inc(2)
    told_by_one = await snapshot(registry)

    both = Exposition()
    both.update(0, told_by_one, NOW_MS)
    both.update(1, told_by_one, NOW_MS)

    lasting = {name: value for name, value in told(both).items() if "_created" not in name}
    assert lasting == {
        'h_bucket{le="1.0"}': 4.0,
        'h_bucket{le="+Inf"}': 6.0,
        "h_count": 6.0,
        "h_sum": 9.0,
        'penstock_build_info{version="1"}': 1.0,
        'x_total{user="a\\"b"}': 4.0,
    }


def test_a_series_that_ends_at_one_worker_does_not_make_the_sum_fall() -> None:
    both, throttled = Exposition(), "penstock_quota_throttled_total"
    both.update(0, page(counter(throttled, "alice", 10)), NOW_MS)
    both.update(1, page(counter(throttled, "alice", 7)), NOW_MS)

    both.update(1, page(), NOW_MS + 1)

    assert told(both) == {f'{throttled}{{user="alice"}}': 17.0}


def test_a_quota_ids_series_ends_when_no_worker_has_it_and_others_do_not() -> None:
    both, throttled = Exposition(), "penstock_quota_throttled_total"
    ending = counter(throttled, "alice", 10, UNTIL_IDLE)
    both.update(0, page(ending, counter("x_total", "a", 1)), NOW_MS)
    both.died(0, NOW_MS)

    both.update(0, page(), NOW_MS + IDLE_MS - 1)
    before = told(both)
    both.update(0, page(), NOW_MS + IDLE_MS)

    assert before == {f'{throttled}{{user="alice"}}': 10.0, 'x_total{user="a"}': 1.0}
    assert told(both) == {'x_total{user="a"}': 1.0}


async def test_the_rule_comes_with_each_metric() -> None:
    registry = CollectorRegistry()
    Gauge("sum_of", "A gauge.", ("url",), registry=registry, multiprocess_mode="sum").labels("a").set(1)
    Gauge("max_of", "A gauge.", registry=registry, multiprocess_mode="max")
    Info("penstock_build", "An info.", registry=registry).info({"version": "1"})

    rules = {name: rule for name, _, _, rule, _ in json.loads(await snapshot(registry))}
    assert rules == {"sum_of": "sum", "max_of": "max", "penstock_build": "max"}
    assert rule_of(GaugeMetricFamily("g", "A gauge.", 1, merge="min")) == "min"
    assert rule_of(EndingCounterMetricFamily("c", "A counter.")) == UNTIL_IDLE
