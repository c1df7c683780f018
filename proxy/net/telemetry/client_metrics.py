"""Metrics of what clients connect with: their software, and the versions of APIs that they use (SPEC O13).

Clients choose the name of their software, so only some have their own series, and the others are summed as
`other`. A name has its place as long as a client of it is connected, and an hour longer: names that are
invented one after the other make no more series than names that stay. Counted by
proxy.session.client_state, collected at each scrape.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.net.runtime.merged_metrics import GaugeMetricFamily
from proxy.net.telemetry.quota_metrics import OTHER
from proxy.session.accounting.request_counts import name_of_api
from proxy.session.gate import ListenerPolicy

MAX_SOFTWARE = 50
"""Names with a version that have their own series."""
IDLE_MS = 3_600_000
_AT_LEAST_TIMES = 2
"""A name needs so many times the connections of the least shown one to replace it."""


class ClientSeries(Collector):
    """Open connections by software and by version of each API, of all listeners."""

    def __init__(self, policies: Sequence[ListenerPolicy], clock: Callable[[], int]) -> None:
        self._policies = policies
        self._clock = clock
        self._seen_ms: dict[str, int] = {}  # Of the names that have their own series.

    def collect(self) -> Iterable[Metric]:
        connections = GaugeMetricFamily(
            "penstock_connections_by_software",
            "Open connections of clients that have used an API, by the software that they name (KIP-511)",
            labels=["client_software_name", "client_software_version"],
            merge="sum",
        )
        by_software: Counter[str] = Counter()
        by_version: Counter[tuple[int, int]] = Counter()
        for policy in self._policies:
            by_software.update(policy.counts.connections_by_software)
            by_version.update(policy.counts.connections_by_version)
        self._choose(by_software, self._clock())
        for software in self._seen_ms.keys() & by_software.keys():
            connections.add_metric(software.split(" "), by_software.pop(software))
        if by_software:
            connections.add_metric([OTHER, OTHER], by_software.total())
        versions = GaugeMetricFamily(
            "penstock_connections_by_api_version",
            "Open connections of clients that have used an API in this version",
            labels=["api", "version"],
            merge="sum",
        )
        for (api_key, version), count in sorted(by_version.items()):
            versions.add_metric([name_of_api(api_key), str(version)], count)
        return connections, versions

    def _choose(self, by_software: Mapping[str, int], now_ms: int) -> None:
        """Choose the names that have their own series now."""
        for name, seen_ms in list(self._seen_ms.items()):
            if name in by_software:
                self._seen_ms[name] = now_ms
            elif now_ms - seen_ms >= IDLE_MS:
                del self._seen_ms[name]
        most = nlargest(MAX_SOFTWARE, by_software.items(), key=lambda each: each[1])
        least = sorted(self._seen_ms, key=lambda name: by_software.get(name, 0), reverse=True)
        for name, count in most:
            if name in self._seen_ms:
                continue
            if len(self._seen_ms) >= MAX_SOFTWARE:
                # An idle name keeps its place against a single connection of another.
                if not least or count < _AT_LEAST_TIMES * max(by_software.get(least[-1], 0), 1):
                    return
                del self._seen_ms[least.pop()]
            self._seen_ms[name] = now_ms
