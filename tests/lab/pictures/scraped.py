"""The metrics of running processes, asked for again and again: what a Prometheus would have stored.

Targets in, a file of series out, for tests.support.promql. A series that a scrape did not find any more ends
there, with a stale marker, as at Prometheus.
"""

import http.client
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from proxy.net.runtime.clock import now_ms
from tests.lab.cluster import probe

INTERVAL_S = 2.0

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Target:
    """One process, by the names that the scrape configuration in deploy/prometheus gives it."""

    job: str
    instance: str
    http: str


@dataclass
class Scraper:
    """Every series of all targets, from the first scrape on."""

    targets: Sequence[Target]
    began_ms: int = field(default_factory=now_ms)
    _series: dict[Labels, tuple[list[int], list[str]]] = field(default_factory=dict)
    _there: dict[Target, set[Labels]] = field(default_factory=dict)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        over = threading.Event()

        def work() -> None:
            while not over.wait(INTERVAL_S):
                for target in self.targets:
                    self._scrape(target)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def write(self, file: Path) -> None:
        series = [
            {"labels": dict(labels), "at": at, "values": values}
            for labels, (at, values) in sorted(self._series.items())
        ]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(series), encoding="utf-8")

    def _scrape(self, target: Target) -> None:
        at_ms = now_ms()
        try:
            found = dict(_samples(target))
        except (OSError, http.client.HTTPException):
            found = {}
        up = ("__name__", "up"), ("instance", target.instance), ("job", target.job)
        self._append(up, at_ms, "1" if found else "0")
        for labels, value in found.items():
            self._append(labels, at_ms, value)
        for labels in self._there.get(target, set()).difference(found):
            self._append(labels, at_ms, "")
        self._there[target] = set(found)

    def _append(self, labels: Labels, at_ms: int, value: str) -> None:
        times, values = self._series.setdefault(labels, ([], []))
        times.append(at_ms)
        values.append(value)


def _samples(target: Target) -> Iterator[tuple[Labels, str]]:
    own = {"job": target.job, "instance": target.instance}
    for family in text_string_to_metric_families(probe.get(target.http, "/metrics")[1]):
        for sample in family.samples:
            labels = sample.labels | own | {"__name__": sample.name}
            yield tuple(sorted(labels.items())), repr(float(sample.value))
