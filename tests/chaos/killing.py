"""Kills at random: the proxy, the controller, the broker and the ingest, each started again at once.

What is killed when follows from the seed. Before and after, the proxy's own counters are read.
"""

import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from proxy.demo.errors import SetupError
from proxy.demo.process import ChildProcess
from proxy.demo.stack import Stack
from proxy.net.clock import now_ms
from tests.chaos.load import Ledger

RECORDS = "penstock_audit_records_total{"
PAUSE_S = (2.0, 6.0)


@dataclass(slots=True)
class Counters:
    """What one boot of the proxy said of itself the last time it was asked."""

    records: dict[str, int] = field(default_factory=dict)
    """By event."""
    unshipped: int = 0
    queued_bytes: int = 0
    """Of records that were counted and not written yet: a kill loses them."""


class Killing:
    """Of one stack."""

    def __init__(self, stack: Stack, ledger: Ledger, tables: Path, seed: int) -> None:
        self.boots = [Counters()]
        """Of the proxy, in order; the last one is alive."""
        self.done: list[str] = []
        self._stack = stack
        self._ledger = ledger
        self._random = random.Random(seed)
        command = ["ingest", "--bootstrap", stack.broker.plaintext, "--tables", str(tables)]
        self._ingest = ChildProcess(
            "ingest",
            [sys.executable, "-m", "spark_audit", *command, "--master", "local[1]"],
            stack.logs / "ingest.log",
            {"PYTHONPATH": str(stack.checkout)},
        )
        self._kills: dict[str, Callable[[], None]] = {
            "proxy": self._kill_proxy,
            "controller": self._kill_controller,
            "broker": self._kill_broker,
            "ingest": self._kill_ingest,
        }

    def each_once(self, order: tuple[str, ...]) -> None:
        """These, one after the other."""
        self._ingest.start()
        for name in order:
            self._kill(name)
        self.end_ingest()

    def for_a_time(self, seconds: float) -> None:
        """At random until the time is over; an ingest that has come to its end is started anew."""
        over_ms = now_ms() + seconds * 1000
        self._ingest.start()
        while now_ms() < over_ms:
            self._kill(self._random.choice(("proxy", "proxy", "controller", "broker", "ingest")))
            if self._ingest.returncode is not None:
                self._ingest.start()
        self.end_ingest()

    def read_counters(self) -> Counters:
        """The living proxy's."""
        series = self._stack.metrics()
        counters = self.boots[-1] = Counters(
            {
                name.split('"')[1]: int(value)
                for name, value in series.items()
                if name.startswith(RECORDS) and value
            },
            int(series["penstock_audit_unshipped_records"]),
            int(series["penstock_audit_queue_bytes"]),
        )
        return counters

    def end_ingest(self) -> None:
        """With all of its processes: its JVM must not go on writing when we begin to read."""
        with suppress(ProcessLookupError, SetupError):
            os.killpg(self._ingest.pid, signal.SIGKILL)
            self._ingest.wait(10_000)

    def _kill(self, name: str) -> None:
        threading.Event().wait(self._random.uniform(*PAUSE_S))  # A moment that nobody expects.
        self._kills[name]()
        self.done.append(name)

    def _kill_proxy(self) -> None:
        self.read_counters()
        self._stack.proxy.kill()
        self._ledger.denied_before_kill.append(len(self._ledger.denied))
        self.boots.append(Counters())
        self._stack.start_proxy()

    def _kill_controller(self) -> None:
        self._stack.controller.kill()
        self._stack.start_controller()

    def _kill_broker(self) -> None:
        self._stack.broker.process.kill()
        self._stack.broker.start()

    def _kill_ingest(self) -> None:
        self.end_ingest()
        self._ingest.start()
