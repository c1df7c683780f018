"""A process of ours under watch: its counters are read, and it is stopped, killed or frozen, and goes on.

All that is done to one is done under its lock, so that each reading is of a known boot. Readings and starts
feed tests.lab.chaos.measured.
"""

import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from proxy.net.runtime.clock import now_ms
from tests.lab.chaos.measured import Reading
from tests.lab.cluster import probe
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.process import ChildProcess

STOP_MS = 60_000
LATE_MS = 300_000
TRIES = 6
RECORDS = "penstock_audit_records_total{"
DROPPED = "penstock_audit_dropped_total{"
FORWARDING = "penstock_forwarding_in_flight{"
"""A controller has none."""


def patiently(process: ChildProcess, start: Callable[[], None], ready: Callable[[], bool]) -> None:
    """Start it; on a machine that is busy with everything else it may be ready late, but not end."""
    try:
        start()
    except SetupError:
        process.wait_until(ready, LATE_MS)


class Watched:
    """One process, by the id it has in the table."""

    def __init__(self, name: str, http: str, process: ChildProcess, start: Callable[[], None]) -> None:
        self.name = name
        self.starts = 1
        self.readings: list[Reading] = []
        self.dropped = 0
        self.killed_at_ms: dict[int, int] = {}
        """By boot."""
        self._http = http
        self.process = process
        self._start = start
        self._alone = threading.Lock()

    def read(self) -> Reading:
        with self._alone:
            return self._read()

    def restart(self) -> None:
        """As an operator does it; SetupError when it does not stop by itself."""
        with self._alone:
            self._read()
            self._stop()
            self._begin()

    def kill(self, killed: Callable[[], None] = lambda: None) -> None:
        """SIGKILL, right after a last look; `killed` is called before it is started again."""
        with self._alone:
            self._read()
            self.process.kill()
            self.killed_at_ms[self.starts - 1] = now_ms()
            killed()
            self._begin()

    def freeze(self, seconds: float) -> None:
        """As a machine that swaps, or a virtual one that is moved: everything stands still, then goes on."""
        with self._alone:
            self.process.signal(signal.SIGSTOP)
            threading.Event().wait(seconds)
            self.process.signal(signal.SIGCONT)

    def stop(self) -> None:
        with self._alone:
            self._stop()

    def _series(self) -> dict[str, float]:
        """On a machine that is busy with everything else an answer takes longer than a probe waits."""
        for _ in range(TRIES - 1):
            with suppress(OSError):
                return probe.series(self._http)
        return probe.series(self._http)

    def _begin(self) -> None:
        patiently(self.process, self._start, lambda: probe.is_ready(self._http))
        self.starts += 1

    def _stop(self) -> None:
        if not self.process.stop(STOP_MS):
            raise SetupError(f"{self.name} did not stop by itself")

    def _read(self) -> Reading:
        series = self._series()
        self.dropped = max(self.dropped, sum(_values(series, DROPPED).values()))
        reading = Reading(
            self.name,
            self.starts - 1,
            {name.split('"')[1]: value for name, value in _values(series, RECORDS).items()},
            int(series["penstock_audit_queue_bytes"]),
            int(series["penstock_audit_unshipped_records"]),
            sum(_values(series, FORWARDING).values()),
        )
        self.readings.append(reading)
        return reading


def _values(series: dict[str, float], prefix: str) -> dict[str, int]:
    return {name: int(value) for name, value in series.items() if name.startswith(prefix) and value}


class Watch:
    """Reads all of them every so often, until `settle`. `faults` are those that did not answer."""

    def __init__(self, all_of_them: Iterable[Watched], every_s: float) -> None:
        self.all = tuple(all_of_them)
        self.faults: list[str] = []
        self._every_s = every_s
        self._over = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)

    @property
    def readings(self) -> list[Reading]:
        return [reading for each in self.all for reading in each.readings]

    @property
    def starts(self) -> dict[str, int]:
        return {each.name: each.starts for each in self.all}

    @property
    def dropped(self) -> list[str]:
        return [f"{each.name} dropped {each.dropped} records" for each in self.all if each.dropped]

    def start(self) -> None:
        self._watching.start()

    def settle(self, seconds: int) -> None:
        """Until all have shipped what they have, and their last readings."""
        self._over.set()
        self._watching.join()
        for _ in range(seconds * 2):
            last = [each.read() for each in self.all]
            if not any(reading.unshipped for reading in last):
                return
            threading.Event().wait(0.5)  # What other processes do has no event.
        left = {reading.process: reading.unshipped for reading in last}
        raise SetupError(f"not everything was shipped in {seconds} s: {left}")

    def stop(self) -> None:
        for each in self.all:
            each.stop()

    def _watch(self) -> None:
        while not self._over.wait(self._every_s):
            for each in self.all:
                try:
                    each.read()
                except OSError as error:
                    self.faults.append(f"{each.name} told no metrics: {error}")
