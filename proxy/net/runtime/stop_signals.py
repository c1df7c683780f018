"""SIGTERM and SIGINT as events: the first begins the drain, a later one ends the process at once.

A restart sets `draining` itself (proxy.app.handover); then the first signal does not end the process at once.

Each process that drains has one StopSignals: proxy, supervisor, controller.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog
from prometheus_client import CollectorRegistry

from proxy.net.runtime.merged_metrics import Gauge

SAME_S = 1.0
"""A second signal within so many seconds does not count: Ctrl-C and systemd signal a whole process group, the
supervisor also forwards its own signal, and Kubernetes sends one right after a preStop hook."""

log = structlog.get_logger(__name__)


class StopSignals:
    """Sets `signalled` and `draining` at the first signal, and `at_once` at the second."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """`registry`: for the metric of the drain; None if another process reports it."""
        self.signalled = asyncio.Event()
        self.draining = asyncio.Event()
        self.at_once = asyncio.Event()
        self._first_s: float | None = None
        self._limit: asyncio.Timeout | None = None
        if registry is not None:
            gauge = Gauge(
                "penstock_draining",
                "Whether the process is draining: 1 from SIGTERM to its end",
                registry=registry,
                multiprocess_mode="max",
            )
            gauge.set_function(lambda: int(self.draining.is_set()))

    def install(self) -> None:
        """Install the handlers. Call it on the running loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.received)

    def received(self) -> None:
        """Handle one signal."""
        now_s = asyncio.get_running_loop().time()
        if self._first_s is None:
            self._first_s = now_s
            self.signalled.set()
            self.draining.set()
        elif now_s - self._first_s >= SAME_S and not self.at_once.is_set():
            log.warning("second signal: stopping at once")
            self.at_once.set()
            if self._limit is not None:
                self._limit.reschedule(now_s)

    @asynccontextmanager
    async def unless_at_once(self, least_s: float) -> AsyncIterator[None]:
        """Cancel the block when the process is to end at once.

        If that was known before, the block still has `least_s` seconds.
        """
        now_s = asyncio.get_running_loop().time()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(now_s + least_s if self.at_once.is_set() else None) as self._limit:
                yield
        self._limit = None
