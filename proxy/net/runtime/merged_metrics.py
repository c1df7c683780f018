"""Metrics with the rule by which the values of several workers become one value of the proxy.

proxy.workers.exposition merges them. All gauges of a proxy are of these classes and name a key of RULES; a
test looks for others. Counters and histograms are summed, and an info is the same at each worker.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import prometheus_client
from prometheus_client import core
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

RULES: dict[str, Callable[[Iterable[float]], float]] = {"sum": sum, "min": min, "max": max}
UNTIL_IDLE = "until idle"


class GaugeMetricFamily(core.GaugeMetricFamily):
    """A gauge that a collector makes at each scrape."""

    def __init__(
        self,
        name: str,
        documentation: str,
        value: float | None = None,
        labels: Sequence[str] | None = None,
        *,
        merge: str,
    ) -> None:
        super().__init__(name, documentation, value, labels)
        self.merge = merge


class Gauge(prometheus_client.Gauge):
    """A gauge that is set where its value changes; `multiprocess_mode` is the rule."""

    def collect(self) -> Iterable[Metric]:
        for metric in super().collect():
            family = GaugeMetricFamily(metric.name, metric.documentation, merge=self._multiprocess_mode)
            family.samples = metric.samples
            yield family


class Series(Collector):
    """What a function returns at each scrape."""

    def __init__(self, collected: Callable[[], Iterable[Metric]]) -> None:
        self._collected = collected

    def collect(self) -> Iterable[Metric]:
        return self._collected()


class EndingCounterMetricFamily(core.CounterMetricFamily):
    """A counter whose series end when their quota-id is idle, so that their number is bounded."""


Family = TypeVar("Family", core.CounterMetricFamily, GaugeMetricFamily)


def with_series(family: Family, values: Mapping[str, float]) -> Family:
    """Return a family of one label with a series for each of its values."""
    for label, value in values.items():
        family.add_metric([label], value)
    return family


def rule_of(metric: Metric) -> str:
    """Return a key of RULES, or UNTIL_IDLE for a sum that ends."""
    if isinstance(metric, GaugeMetricFamily):
        return metric.merge
    if isinstance(metric, EndingCounterMetricFamily):
        return UNTIL_IDLE
    return "max" if metric.type == "info" else "sum"
