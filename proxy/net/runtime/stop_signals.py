"""SIGTERM and SIGINT as events: the first begins the drain, a later one ends the process at once.

Made by each process that drains: proxy, supervisor, controller.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog
from prometheus_client import CollectorRegistry, Gauge

SAME_S = 1.0
"""A signal that comes so soon after the first does not count. Ctrl-C and systemd signal a whole group,
and the supervisor passes its own on; Kubernetes signals right after a preStop hook that did so already."""

log = structlog.get_logger(__name__)


class StopSignals:
    """`draining` is set first, `at_once` when nobody wants to wait for the drain."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """`registry`: where the drain is to be seen; None for a process that others speak for."""
        self.draining = asyncio.Event()
        self.at_once = asyncio.Event()
        self._first_s: float | None = None
        self._limit: asyncio.Timeout | None = None
        if registry is not None:
            gauge = Gauge("penstock_draining", "1 from SIGTERM to the end of the process", registry=registry)
            gauge.set_function(lambda: int(self.draining.is_set()))

    def install(self) -> None:
        """Handle the signals of this process; to be called on its running loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.received)

    def received(self) -> None:
        """A signal has come."""
        now_s = asyncio.get_running_loop().time()
        if self._first_s is None:
            self._first_s = now_s
            self.draining.set()
        elif now_s - self._first_s >= SAME_S and not self.at_once.is_set():
            log.warning("second signal: ending at once")
            self.at_once.set()
            if self._limit is not None:
                self._limit.reschedule(now_s)

    @asynccontextmanager
    async def unless_at_once(self, least_s: float) -> AsyncIterator[None]:
        """Cut the block short when the process is to end at once.

        If that was known before, it still has so many seconds.
        """
        now_s = asyncio.get_running_loop().time()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(now_s + least_s if self.at_once.is_set() else None) as self._limit:
                yield
        self._limit = None
