"""How late the event loop gets round to its work, as a histogram (SPEC O12).

A timer is set ten times a second; how late it comes is how long whatever happened at that moment had to wait,
clients included. Belongs in the TaskGroup of each process that has a loop: proxy, worker, controller.
"""

import asyncio

from prometheus_client import CollectorRegistry, Histogram

INTERVAL_S = 0.1
BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""A loop is held for 20 ms at most (decision 0045); a timer itself is late by up to 1 ms."""


class LoopLag:
    """Of one event loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lag = Histogram(
            "penstock_event_loop_lag_seconds",
            "How late a timer of the event loop was, of ten each second; with workers, of each of them",
            registry=registry,
            buckets=BUCKETS,
        )

    async def run(self) -> None:
        """Until cancelled."""
        time_s = asyncio.get_running_loop().time
        while True:
            due_s = time_s() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            self._lag.observe(max(0.0, time_s() - due_s))
