"""Lines of the audit trail from the event loop to the spool: a bounded queue, and the thread that empties it.

write(2) on a slow disk waits, for seconds if it comes to the worst, and no client may wait with it; so the
loop only ever puts lines down here (docs/decisions/0019). What was put is written in that order, however
often the disk refuses: whoever puts asks for room first. Made by proxy.net.audit.audit_log; knows no records.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import TypeVar

import structlog

from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import SpoolError
from proxy.net.runtime.clock import now_ms

RETRY_S = 0.2
"""How soon a disk that takes nothing is asked again."""
MAX_BATCH_LINES = 1_000
HANGS_AFTER_MS = 5_000
"""A disk that has not come back for so long does not take records."""
WRITE, SYNC, WATCH = "write", "sync", "watch"

Done = TypeVar("Done")

log = structlog.get_logger(__name__)


class Fsync(StrEnum):
    """audit.spool.fsync."""

    INTERVAL = "interval"
    ALWAYS = "always"
    NEVER = "never"


class AuditWriter:
    """`put` and `kept` belong to the loop; what they look at is written by the thread, one word at a time."""

    def __init__(self, spool: Spool, fsync: Fsync = Fsync.INTERVAL, fsync_interval_ms: int = 100) -> None:
        self._spool = spool
        self._fsync = fsync
        self._fsync_interval_s = max(fsync_interval_ms, 10) / 1000
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._put_count = 0
        self.put_bytes = 0
        """Of all lines that were ever put."""
        self._waiting: list[tuple[int, bool, asyncio.Future[None]]] = []
        self._stop = threading.Event()
        self._watch_due = False
        self._flush = False  # Somebody waits for the disk, not only for the kernel.
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_written: Callable[[], None] = lambda: None
        """Called on the loop after each batch, once `tell` has been called there."""
        # The thread's:
        self.written_count = 0
        """Lines that the kernel has: they survive the end of the process."""
        self.faults = {WRITE: 0, SYNC: 0, WATCH: 0}
        """How often the disk took nothing, did not say that it has it, or had no segment for a lost one."""
        self._errors: dict[str, str] = {}  # What does not work at this moment, and why.
        self._busy_since_ms: int | None = None
        self._written_bytes = 0
        self._synced_count = 0
        self._synced_at_ms = 0

    @property
    def queued_bytes(self) -> int:
        """Put and not written yet."""
        return self.put_bytes - self._written_bytes

    @property
    def waits_ms(self) -> int:
        """For how long the disk has not come back from what it was last asked; 0: it has."""
        since_ms = self._busy_since_ms
        return 0 if since_ms is None else max(0, now_ms() - since_ms)

    @property
    def error(self) -> str | None:
        """Why the disk takes nothing at this moment."""
        for error in tuple(self._errors.values()):
            return error
        waits_ms = self.waits_ms
        return f"the disk has hung for {waits_ms} ms" if waits_ms >= HANGS_AFTER_MS else None

    def put(self, line: bytes) -> None:
        """Have an encoded line written after those before it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
            self._thread.start()
        self._put_count += 1
        self.put_bytes += len(line)
        self._queue.put(line)

    def watch(self) -> None:
        """Have the thread look whether the segments are still there."""
        if self._thread is not None:
            self._watch_due = True
            self._queue.put(b"")

    def tell(self) -> None:
        """From now on the running loop is told of what was written."""
        self._loop = asyncio.get_running_loop()

    async def kept(self, *, synced: bool = False) -> None:
        """Until all that was put is written, with `synced` on the disk; SpoolError when the disk fails."""
        self.tell()
        self._flush = self._flush or synced
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((self._put_count, synced, done))
        self._settle()
        if not done.done() and synced:
            self._queue.put(b"")  # There may be nothing left to write, and all of it to sync.
        await done

    async def close(self, timeout_s: float) -> None:
        """Write and sync what was put, as far as the time allows; nothing may be put any more."""
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

    def _batch_written(self) -> None:
        self._settle()
        self.on_written()

    def _settle(self) -> None:
        """On the loop: whose records are kept, or cannot be?"""
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
            self._tell()
        self._close_spool()

    def _close_spool(self) -> None:
        try:
            self._spool.close()
        except SpoolError as error:
            log.error("audit spool not synced", error=str(error))

    def _next(self) -> list[bytes | None]:
        """What is there, or has come before the disk has to be asked to keep what it has."""
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
            kept = self._asked(WRITE, self._spool.write, lines)
            if kept is None:
                if self._stop.wait(RETRY_S):
                    return
                continue
            self._written_bytes += sum(map(len, lines[:kept]))
            self.written_count += kept
            lines = lines[kept:]

    def _sync(self, *, wanted: bool) -> None:
        count = self.written_count
        due = abs(now_ms() - self._synced_at_ms) >= self._fsync_interval_s * 1000
        due = SYNC in self._errors or (due and self._fsync == Fsync.INTERVAL)
        if count == self._synced_count or not (wanted or due):
            return
        self._flush = False
        if self._asked(SYNC, self._synced) is None:
            self._stop.wait(RETRY_S)
            return
        self._synced_count, self._synced_at_ms = count, now_ms()

    def _watch(self) -> None:
        if self._watch_due:
            self._watch_due = False
            self._asked(WATCH, self._watched)

    def _watched(self) -> bool:
        self._spool.watch()
        return True

    def _synced(self) -> bool:
        self._spool.sync()
        return True

    def _asked(self, what: str, work: Callable[..., Done], *arguments: object) -> Done | None:
        """What the disk says to it; None when it failed, which is told."""
        self._busy_since_ms = now_ms()
        try:
            done = work(*arguments)
        # A fault of ours, too: without this thread no record would ever get to the disk again.
        except Exception as error:  # noqa: BLE001 - see above
            if what not in self._errors:
                told = log.error if isinstance(error, SpoolError) else log.exception
                told("audit spool takes no records", at=what, error=str(error) or repr(error))
            self.faults[what] += 1
            self._errors[what] = str(error) or repr(error)
            self._busy_since_ms = None
            self._tell()
            return None
        self._busy_since_ms = None
        self._errors.pop(what, None)
        return done

    def _tell(self) -> None:
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._batch_written)
        except RuntimeError:
            # The loop has ended, and with it all who could have waited.
            self._loop = None
