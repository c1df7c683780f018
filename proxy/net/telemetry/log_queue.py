"""Log lines on their way to standard error: text in, written by a thread. Logging never waits or fails.

Made by proxy.net.telemetry.log_lines for proxies and controllers. A line that finds the queue full, or that
cannot be written, is lost: it is counted, and a line says so once writing works again.
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
    """In place of sys.stderr. Each text that is written is a line, or several whole ones."""

    def __init__(self, descriptor: int, report: Callable[[int], str], max_bytes: int = MAX_BYTES) -> None:
        """`report`: the line that says how many were lost."""
        self.lost: Counter[str] = Counter()
        """By reason."""
        self._descriptor = descriptor
        self._report = report
        self._max_bytes = max_bytes
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._bytes = 0
        # Of a kind that a signal handler or a finalizer may take again while it is held.
        self._lock = RLock()
        self._reported = 0
        self._reported_ms = now_ms()
        self._torn = False  # Half a line was written.
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
        """Lines leave by themselves."""

    def finish(self, timeout_s: float) -> None:
        """Wait until all is written, but no longer than that. What is written later is lost."""
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
        """Whether the whole line was written."""
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
        # Somebody has made standard error non-blocking: it may be shared with other processes.
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        poll.poll()
