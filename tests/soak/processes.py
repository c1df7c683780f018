"""The proxies and the controller of a soak: read every few seconds, started anew now and then, by SIGTERM.

Readings and starts feed tests.chaos.measured.
"""

import threading
from collections.abc import Callable
from typing import Any

from proxy.demo import probe
from proxy.demo.errors import SetupError
from proxy.demo.process import ChildProcess
from tests.chaos.measured import Reading
from tests.soak.place import Place

READ_EVERY_S = 5
SETTLE_S = 90
RECORDS = "penstock_audit_records_total{"
DROPPED = "penstock_audit_dropped_total{"


class Watched:
    """One process, by the id it has in the table."""

    def __init__(self, name: str, http: str, process: ChildProcess, start: Callable[[], None]) -> None:
        self.name = name
        self.starts = 1
        self.readings: list[Reading] = []
        self.dropped = 0
        self._http = http
        self._process = process
        self._start = start
        self._alone = threading.Lock()

    def read(self) -> Reading:
        with self._alone:
            return self._read()

    def restart(self) -> None:
        """As an operator does it; SetupError when it does not stop by itself."""
        with self._alone:
            self._read()
            if not self._process.stop(60_000):
                raise SetupError(f"{self.name} did not stop by itself")
            self._start()
            self.starts += 1

    def stop(self) -> None:
        with self._alone:
            if not self._process.stop(60_000):
                raise SetupError(f"{self.name} did not stop by itself")

    def _read(self) -> Reading:
        series = probe.series(self._http)
        self.dropped = max(self.dropped, int(sum(v for n, v in series.items() if n.startswith(DROPPED))))
        reading = Reading(self.name, self.starts - 1, by_event(series), unshipped=_unshipped(series))
        self.readings.append(reading)
        return reading


def by_event(series: dict[str, float]) -> dict[str, int]:
    return {
        name.split('"')[1]: int(value) for name, value in series.items() if name.startswith(RECORDS) and value
    }


def _unshipped(series: dict[str, Any]) -> int:
    return int(series["penstock_audit_unshipped_records"])


class Processes:
    def __init__(self, place: Place) -> None:
        stack = place.stack
        self.controller = Watched(
            "controller-1", stack.wiring.controller_http, stack.controller, stack.start_controller
        )
        self.proxies = [
            Watched(
                f"proxy-{side.node.number}",
                side.node.wiring.proxy_http,
                side.node.proxy,
                side.node.start_proxy,
            )
            for side in place.sides
        ]
        self.all = [*self.proxies, self.controller]
        self._over = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self.faults: list[str] = []

    def start_watching(self) -> None:
        self._watching.start()

    def settle(self) -> None:
        """Until all have shipped what they have."""
        self._over.set()
        self._watching.join()
        for _ in range(SETTLE_S * 2):
            if not any(each.read().unshipped for each in self.all):
                return
            threading.Event().wait(0.5)  # What other processes do has no event.
        raise SetupError("the audit topic does not have everything yet")

    def stop(self) -> None:
        for each in self.all:
            each.stop()

    def _watch(self) -> None:
        while not self._over.wait(READ_EVERY_S):
            for each in self.all:
                try:
                    each.read()
                except OSError as error:
                    self.faults.append(f"{each.name} told no metrics: {error}")
