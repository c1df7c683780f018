"""Merges the metrics of all workers, each by its rule (proxy.net.runtime.merged_metrics).

The supervisor updates it with the metrics of each worker, at each scrape and every few seconds in between.
When a worker dies, the last values of its counters stay in the sum. Otherwise Prometheus would take the
smaller sum for a counter reset, and count all of it again.

Workers encode metrics as JSON, because parsing Prometheus' text takes seconds with thousands of quota-ids.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from proxy.net.pages.http_server import collected
from proxy.net.runtime.merged_metrics import RULES, UNTIL_IDLE, rule_of
from proxy.quota.bucket_table import IDLE_MS

Key = tuple[str, str, tuple[tuple[str, str], ...]]
"""Name of the metric, name of the series, its labels."""


async def snapshot(registry: Collector) -> bytes:
    """Encode the metrics of one process for `Exposition.update`, in slices, so that clients do not wait."""
    families: list[str] = []
    async for metric in collected(registry):
        samples = [(each.name, list(each.labels.items()), each.value) for each in metric.samples]
        families.append(
            json.dumps((metric.name, metric.documentation, metric.type, rule_of(metric), samples))
        )
    return f"[{','.join(families)}]".encode()


@dataclass(slots=True)
class _Base:
    value: float = 0
    since_ms: int = 0


@dataclass(slots=True)
class _Seen:
    counted: dict[Key, float] = field(default_factory=dict)
    gauges: dict[Key, float] = field(default_factory=dict)


class Exposition(Collector):
    """The last metrics of each worker, and the counters of dead ones."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[str, str]] = {}
        self._rules: dict[str, str] = {}
        self._seen: dict[int, _Seen] = {}
        self._base: dict[Key, _Base] = {}

    def update(self, worker: int, encoded: bytes, now_ms: int) -> None:
        """Replace the metrics of a worker; `encoded` is from `snapshot`."""
        seen = self._read(encoded)
        before = self._seen.get(worker, _Seen()).counted
        gone = {key: value for key, value in before.items() if seen.counted.get(key, -1) < value}
        self._seen[worker] = seen
        self._keep(gone, now_ms)
        self._drop_ended(now_ms)

    def died(self, worker: int, now_ms: int) -> None:
        """Add the counters of a dead worker to the sum, and drop its gauges."""
        seen = self._seen.pop(worker, None)
        if seen is not None:
            self._keep(seen.counted, now_ms)

    def collect(self) -> Iterable[Metric]:
        totals = {key: base.value for key, base in self._base.items()}
        for seen in self._seen.values():
            for key, value in seen.counted.items():
                totals[key] = totals.get(key, 0.0) + value
        return self._metrics(totals | self._gauges())

    def _read(self, encoded: bytes) -> _Seen:
        seen = _Seen()
        for family, text, kind, rule, samples in json.loads(encoded):
            self._kinds[family], self._rules[family] = (kind, text), rule
            into = seen.counted if kind in ("counter", "histogram") else seen.gauges
            for series, labels, value in samples:
                into[family, series, tuple(map(tuple, labels))] = value
        return seen

    def _keep(self, counted: Mapping[Key, float], now_ms: int) -> None:
        for key, value in counted.items():
            base = self._base.setdefault(key, _Base())
            base.value += value
            base.since_ms = now_ms

    def _drop_ended(self, now_ms: int) -> None:
        for key, base in list(self._base.items()):
            ends = self._rules[key[0]] == UNTIL_IDLE
            idle = ends and now_ms - base.since_ms >= IDLE_MS
            if idle and not any(key in seen.counted for seen in self._seen.values()):
                del self._base[key]

    def _gauges(self) -> dict[Key, float]:
        found: dict[Key, list[float]] = {}
        for seen in self._seen.values():
            for key, value in seen.gauges.items():
                found.setdefault(key, []).append(value)
        return {key: RULES[self._rules[key[0]]](values) for key, values in found.items()}

    def _metrics(self, values: Mapping[Key, float]) -> Iterable[Metric]:
        metrics: dict[str, Metric] = {}
        for (family, series, labels), value in values.items():
            if family not in metrics:
                kind, text = self._kinds[family]
                metrics[family] = Metric(family, text, kind)
            metrics[family].samples.append(Sample(series, dict(labels), value))
        return metrics.values()
