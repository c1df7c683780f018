"""Writes lines of the audit trail to the spool: a bounded queue, and a thread that empties it.

write(2) on a slow disk may block for seconds, and must not delay clients; so the loop only puts lines in the
queue (docs/decisions/0019). Lines are written in order, with retries while the disk fails. The caller checks
the room first. Made by proxy.net.audit.audit_log; knows nothing of records.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import TypeVar

import structlog

from proxy.error_text import text_of
from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import SpoolError
from proxy.net.runtime.clock import monotonic_ms

RETRY_S = 0.2
"""Pause before a failed disk operation is retried."""
MAX_BATCH_LINES = 1_000
LOOK_S = 0.05
"""How long the loop waits before it looks what is written, unless somebody waits for that: to look costs more
than a line, and so does shipping, which begins then."""
HANGS_AFTER_MS = 5_000
"""A disk operation that takes longer counts as failed."""
WRITE, SYNC, WATCH = "write", "sync", "watch"

Done = TypeVar("Done")

log = structlog.get_logger(__name__)


class Fsync(StrEnum):
    """Values of audit.spool.fsync."""

    INTERVAL = "interval"
    ALWAYS = "always"
    NEVER = "never"


class AuditWriter:
    """Writes lines in a thread. The loop calls the methods; the thread changes the counters."""

    def __init__(self, spool: Spool, fsync: Fsync = Fsync.INTERVAL, fsync_interval_ms: int = 100) -> None:
        self._spool = spool
        self._fsync = fsync
        self._fsync_interval_s = max(fsync_interval_ms, 10) / 1000
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lines: list[bytes] = []  # Put in this turn of the loop.
        self._put_count = 0
        self.put_bytes = 0
        """Bytes of all lines that were ever put."""
        self._waiting: list[tuple[int, bool, asyncio.Future[None]]] = []
        self._look_due = False
        self._stop = threading.Event()
        self._watch_due = False
        self._flush = False  # A caller waits for a sync, not only for a write.
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_written: Callable[[], None] = lambda: None
        """Called on the loop within LOOK_S after a write, once `notify_running_loop` was called there."""
        # Written by the thread:
        self.written_count = 0
        """Lines in the kernel: they survive the end of the process."""
        self.faults = {WRITE: 0, SYNC: 0, WATCH: 0}
        """Failed writes, failed syncs, and failures to replace a lost segment."""
        self._errors: dict[str, str] = {}  # Operations that fail now, and why.
        self._failed = False  # Some failed at the last report.
        self._busy_since_ms: int | None = None
        self._written_bytes = 0
        self._synced_count = 0
        self._synced_at_ms = 0

    @property
    def queued_bytes(self) -> int:
        """Bytes that are put and not written yet."""
        return self.put_bytes - self._written_bytes

    @property
    def waits_ms(self) -> int:
        """Duration of the disk operation in progress, in ms; 0 if there is none."""
        since_ms = self._busy_since_ms
        return 0 if since_ms is None else monotonic_ms() - since_ms

    @property
    def error(self) -> str | None:
        """Why the disk fails now; None if it works."""
        for error in tuple(self._errors.values()):
            return error
        waits_ms = self.waits_ms
        return f"the disk has hung for {waits_ms} ms" if waits_ms >= HANGS_AFTER_MS else None

    def put(self, line: bytes) -> None:
        """Queue an encoded line.

        The thread gets it at the end of this turn of the loop: it wakes once for all lines of a turn.
        """
        self._put_count += 1
        self.put_bytes += len(line)
        self._lines.append(line)
        if len(self._lines) == 1:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self._hand_over()  # No loop is running.
            else:
                loop.call_soon(self._hand_over)
                self._look_later()

    def _hand_over(self) -> None:
        lines, self._lines = self._lines, []
        if lines and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
            self._thread.start()
        for line in lines:
            self._queue.put(line)

    def watch(self) -> None:
        """Let the thread check that the segments are still there."""
        if self._thread is not None:
            self._watch_due = True
            self._queue.put(b"")
            self._look_later()

    def notify_running_loop(self) -> None:
        """From now on, call `on_written` on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._look_later()

    async def wait_until_written(self, *, synced: bool = False) -> None:
        """Wait until all queued lines are written, with `synced` durable. SpoolError if the disk fails."""
        self.notify_running_loop()
        self._hand_over()
        self._flush = self._flush or synced
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((self._put_count, synced, done))
        self._settle()
        if not done.done() and synced:
            self._queue.put(b"")  # All lines may be written, and not synced yet.
        await done

    async def close(self, timeout_s: float) -> None:
        """Write and sync all queued lines, as far as the time allows. No more lines may be put."""
        self._hand_over()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(thread.join, timeout_s)
            self._stop.set()
        else:
            self._close_spool()
        lost = self._put_count - self.written_count
        if lost:
            log.error("audit records lost with the process", count=lost, error=self.error)

    def _look_later(self) -> None:
        if self._loop is not None and not self._look_due:
            self._look_due = True
            self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._look_due = False
        if self._thread is not None and self.written_count < self._put_count:
            self._look_later()
        self._report()

    def _report(self) -> None:
        self._settle()
        self.on_written()

    def _settle(self) -> None:
        # On the loop: complete the waits whose lines are written, or fail them.
        error, still = self.error, []
        for count, synced, done in self._waiting:
            if done.done():
                continue
            if count <= (self._synced_count if synced else self.written_count):
                done.set_result(None)
            elif error is not None:
                done.set_exception(SpoolError(error))
            else:
                still.append((count, synced, done))
        self._waiting = still

    def _run(self) -> None:
        lines: list[bytes | None] = []
        while None not in lines:
            lines = self._next()
            self._write([line for line in lines if line])
            self._sync(wanted=self._fsync == Fsync.ALWAYS or self._flush)
            self._watch()
            self._notify()
        self._close_spool()

    def _close_spool(self) -> None:
        try:
            self._spool.close()
        except SpoolError as error:
            log.error("Failed to sync audit spool", error=str(error))

    def _next(self) -> list[bytes | None]:
        """Return the queued lines. Wait for some, but not longer than until the next sync is due."""
        lines: list[bytes | None] = []
        unsynced = self._synced_count < self.written_count
        dirty = unsynced and (self._fsync == Fsync.INTERVAL or SYNC in self._errors)
        with suppress(Empty):
            lines.append(self._queue.get(timeout=self._fsync_interval_s if dirty else None))
            while lines[-1] is not None and len(lines) < MAX_BATCH_LINES:
                lines.append(self._queue.get_nowait())
        return lines

    def _write(self, lines: list[bytes]) -> None:
        while lines:
            count = self._attempt(WRITE, self._spool.write, lines)
            if count is None:
                if self._stop.wait(RETRY_S):
                    return
                continue
            self._written_bytes += sum(map(len, lines[:count]))
            self.written_count += count
            lines = lines[count:]

    def _sync(self, *, wanted: bool) -> None:
        count = self.written_count
        due = monotonic_ms() - self._synced_at_ms >= self._fsync_interval_s * 1000
        due = SYNC in self._errors or (due and self._fsync == Fsync.INTERVAL)
        if count == self._synced_count or not (wanted or due):
            return
        self._flush = False
        self._attempt(SYNC, self._spool.sync)
        if SYNC in self._errors:
            self._stop.wait(RETRY_S)
            return
        self._synced_count, self._synced_at_ms = count, monotonic_ms()

    def _watch(self) -> None:
        if self._watch_due:
            self._watch_due = False
            self._attempt(WATCH, self._spool.watch)

    def _attempt(self, what: str, work: Callable[..., Done], *arguments: object) -> Done | None:
        """Return the result of a disk operation; None, with a log line, when it failed."""
        self._busy_since_ms = monotonic_ms()
        try:
            done = work(*arguments)
        # A defect of Penstock too: without this thread no record would reach the disk.
        except Exception as error:  # noqa: BLE001 - see above
            if what not in self._errors:
                write = log.error if isinstance(error, SpoolError) else log.exception
                write("Failed to write to the audit spool", at=what, error=text_of(error))
            self.faults[what] += 1
            self._errors[what] = text_of(error)
            self._busy_since_ms = None
            self._notify()
            return None
        self._busy_since_ms = None
        self._errors.pop(what, None)
        return done

    def _notify(self) -> None:
        failed, self._failed = self._failed, bool(self._errors)
        if self._loop is None or not (self._waiting or failed or self._failed):
            return
        try:
            self._loop.call_soon_threadsafe(self._report)
        except RuntimeError:
            # The loop has ended, and its tasks with it.
            self._loop = None
