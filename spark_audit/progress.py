"""Progress of a job in steps: at intervals, a line that names the step that is running and counts those done.

The job reports each step when it is done. The thread that prints knows neither tables nor Spark.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter

INTERVAL_MS = 10_000


class Steps:
    """The steps of one job in order. A job may leave out steps."""

    def __init__(self, job: str, names: Sequence[str], now_s: Callable[[], float] = perf_counter) -> None:
        self._job, self._names, self._now_s = job, names, now_s
        self._done, self._since_s = 0, self._now_s()

    def done(self, name: str) -> None:
        """Record that this step has ended, and that the next one begins."""
        if name in self._names:
            self._done, self._since_s = self._names.index(name) + 1, self._now_s()

    def line(self) -> str:
        """Return for example `reconcile: chain for 35 s; 4 of 13 steps done`."""
        running = self._names[self._done] if self._done < len(self._names) else "results"
        seconds = self._now_s() - self._since_s
        return f"{self._job}: {running} for {seconds:.0f} s; {self._done} of {len(self._names)} steps done"


@contextmanager
def reported(
    steps: Steps, report: Callable[[str], None], interval_ms: int
) -> Iterator[Callable[[str], None]]:
    """Report the line of the steps every `interval_ms` while the block runs. Yield `steps.done`."""
    ended = Event()

    def run() -> None:
        while not ended.wait(interval_ms / 1000):
            report(steps.line())

    thread = Thread(target=run, name="progress", daemon=True)
    thread.start()
    try:
        yield steps.done
    finally:
        ended.set()
        thread.join()
