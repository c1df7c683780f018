"""Metrics of this process: CPU time, memory, open files, and the lag of its event loop (SPEC O12).

Collected at each scrape in proxies, workers and controllers, under the names of all Prometheus clients.
prometheus_client's own collector lists /proc/self/fd to count open files: with 18,000 connections that holds
the event loop for 60 ms. `LoopLag` sets a timer ten times a second and measures its delay: everything else in
the loop, clients included, is delayed as much.
"""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.net.runtime import descriptors
from proxy.net.runtime.merged_metrics import GaugeMetricFamily

_UTIME, _STIME, _START, _VIRTUAL, _RESIDENT = 11, 12, 19, 20, 21
"""Positions in /proc/self/stat, after the name of the command (proc(5))."""

INTERVAL_S = 0.1
BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""A loop is held for at most 20 ms (decision 0045); a timer itself is late by up to 1 ms."""


class ProcessSeries(Collector):
    """CPU time, memory, start time and open files on Linux; elsewhere only the limit of open files."""

    def __init__(self, directory: Path = Path("/proc")) -> None:
        self._stat = directory / "self" / "stat"
        self._boot_s = _boot_s(directory / "stat")
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def collect(self) -> Iterable[Metric]:
        yield from self._used()
        count = descriptors.open_count()
        if count:
            yield GaugeMetricFamily(
                "process_open_fds",
                "Open files and sockets; kernels before 6.2 do not count them",
                count,
                merge="sum",
            )
        yield GaugeMetricFamily("process_max_fds", "Limit of open files", descriptors.limit(), merge="sum")

    def _used(self) -> Iterable[Metric]:
        try:
            # The command's name is in parentheses and may contain anything.
            fields = self._stat.read_bytes().rpartition(b")")[2].split()
        except OSError:
            return
        seconds = (int(fields[_UTIME]) + int(fields[_STIME])) / self._ticks
        yield CounterMetricFamily("process_cpu_seconds_total", "User and system CPU time", seconds)
        yield GaugeMetricFamily(
            "process_virtual_memory_bytes", "Virtual memory", int(fields[_VIRTUAL]), merge="sum"
        )
        resident_bytes = int(fields[_RESIDENT]) * self._page_bytes
        yield GaugeMetricFamily(
            "process_resident_memory_bytes", "Resident memory", resident_bytes, merge="sum"
        )
        if self._boot_s is not None:
            started_s = self._boot_s + int(fields[_START]) / self._ticks
            yield GaugeMetricFamily(
                "process_start_time_seconds", "Start time, since the epoch", started_s, merge="min"
            )


def _boot_s(stat: Path) -> int | None:
    """Return the boot time of the machine, in seconds since the epoch."""
    try:
        lines = stat.read_bytes().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(b"btime ")), None)


class LoopLag:
    """Measures the lag of one event loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lag = Histogram(
            "penstock_event_loop_lag_seconds",
            "Delay of an event loop timer that is set ten times a second",
            registry=registry,
            buckets=BUCKETS,
        )

    async def run(self) -> None:
        """Measure until cancelled."""
        time_s = asyncio.get_running_loop().time
        while True:
            due_s = time_s() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            self._lag.observe(max(0.0, time_s() - due_s))
