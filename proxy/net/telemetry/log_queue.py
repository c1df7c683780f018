"""A queue of log lines and a thread that writes them to standard error. Logging never blocks or fails.

proxy.net.telemetry.log_lines makes it for proxies and controllers. A line is lost if the queue is full or if
it cannot be written; lost lines are counted, and a line reports them when writing works again.
"""

import io
import os
import select
from collections import Counter
from collections.abc import Callable
from queue import SimpleQueue
from threading import RLock, Thread

from proxy.net.runtime.clock import now_ms

MAX_BYTES = 4 << 20
REPORT_INTERVAL_MS = 1_000
FULL, FAILED = "queue_full", "write_failed"


class LogQueue(io.TextIOBase):
    """Replaces sys.stderr. Each written text consists of whole lines."""

    def __init__(self, descriptor: int, report: Callable[[int], str], max_bytes: int = MAX_BYTES) -> None:
        """`report` returns the line that reports so many lost lines."""
        self.lost: Counter[str] = Counter()
        """Lost lines by reason."""
        self._descriptor = descriptor
        self._report = report
        self._max_bytes = max_bytes
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._bytes = 0
        # Reentrant: a signal handler or a finalizer may log while the lock is held.
        self._lock = RLock()
        self._reported = 0
        self._reported_ms = now_ms()
        self._torn = False  # The last line was written in part.
        self._thread = Thread(target=self._run, name="log lines", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        line = text.encode(errors="backslashreplace")
        with self._lock:
            if self._bytes + len(line) > self._max_bytes:
                self.lost[FULL] += 1
                return len(text)
            self._bytes += len(line)
        self._lines.put(line)
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def flush(self) -> None:
        """Do nothing: the thread writes all lines."""

    def finish(self, timeout_s: float) -> None:
        """Wait until all lines are written, at most for the timeout. Later lines are lost."""
        self._lines.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            if self._put(line):
                self._report_losses()
            with self._lock:
                self._bytes -= len(line)

    def _report_losses(self) -> None:
        lost = self.lost.total()
        due = self._lines.empty() or now_ms() - self._reported_ms >= REPORT_INTERVAL_MS
        if lost > self._reported and due and self._put(self._report(lost - self._reported).encode()):
            self._reported, self._reported_ms = lost, now_ms()

    def _put(self, line: bytes) -> bool:
        """Write a line; return whether all of it was written."""
        left = b"\n" + line if self._torn else line
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                self._wait()
            except OSError:
                self._torn = self._torn or 0 < len(left) < len(line)
                with self._lock:
                    self.lost[FAILED] += 1
                return False
        self._torn = False
        return True

    def _wait(self) -> None:
        # Standard error may be shared with a process that has made it non-blocking.
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        poll.poll()
