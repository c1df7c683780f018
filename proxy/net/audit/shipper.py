"""Ships records from the spool to the audit topic, in order, with retries for as long as it takes (SPEC D3).

proxy.net.audit.audit_log runs it. A `DiskThread` reads the disk and writes the checkpoint, one after the
other, because a slow disk must not delay clients. asyncio.to_thread would not do: its threads are joined at
the end of the process, and a disk that hangs would keep it from ending. A caller can be cancelled; the thread
is left behind. Records that were shipped before their checkpoint was written are shipped again by the next
process.
"""

import asyncio
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

import structlog

from proxy.net.audit.delivery import AuditDelivery
from proxy.net.audit.spool import Line, Spool
from proxy.net.audit.spool_files import SpoolError
from proxy.net.runtime.reachability import Cause, StateLine

Result = TypeVar("Result")
Outcome = TypeVar("Outcome")

BATCH_LINES = 2_000
RETRY_READ_S = 1.0
READ, CHECKPOINT, SEND = "read", "checkpoint", "send"
_TIME_MS = re.compile(rb'"time_ms":(\d+)')

log = structlog.get_logger(__name__)


class DiskThread:
    """Runs calls in a daemon thread, which starts with the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Return or raise what `work` does."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()

        def call() -> None:
            try:
                result = work(*arguments)
            except Exception as error:  # noqa: BLE001 - the caller of `run` gets it
                _settle(loop, done, done.set_exception, error)
            else:
                _settle(loop, done, done.set_result, result)

        self._calls.put(call)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        return await done

    def _run(self) -> None:
        while True:
            self._calls.get()()


def _settle(
    loop: asyncio.AbstractEventLoop,
    done: asyncio.Future[Result],
    settle: Callable[[Outcome], None],
    outcome: Outcome,
) -> None:
    def settle_now() -> None:
        if not done.done():
            settle(outcome)

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle_now)


class AuditShipper:
    """Ships the records of one spool."""

    def __init__(self, spool: Spool, delivery: AuditDelivery, now_ms: Callable[[], int]) -> None:
        self.shipped_count = 0
        self.left_count = 0
        """Unshipped records of earlier processes."""
        self.more = asyncio.Event()
        """Set when lines have been written to the spool."""
        self._spool = spool
        self._delivery = delivery
        self._disk = DiskThread("audit-shipping")
        self._reading = StateLine("reading audit spool again", "Failed to read audit spool; retrying")
        self._now_ms = now_ms
        self._oldest_ms: int | None = None
        self._faults = {READ: 0, CHECKPOINT: 0}

    @property
    def faults(self) -> dict[str, int]:
        """Failed operations, by operation."""
        return self._faults | {SEND: self._delivery.failures.total()}

    @property
    def oldest_age_ms(self) -> int:
        """Age in ms of the next record to ship; 0 if there is none."""
        return 0 if self._oldest_ms is None else max(0, self._now_ms() - self._oldest_ms)

    async def run(self) -> None:
        """Ship records until cancelled."""
        self.left_count = await self._read(self._spool.left_count)
        while True:
            self.more.clear()
            if await self._ship_some() < BATCH_LINES:
                await self.more.wait()

    async def close(self, timeout_ms: int) -> None:
        """Ship the remaining records, as far as the time allows."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                while await self._ship_some():
                    pass
        await self._delivery.close()

    async def _ship_some(self) -> int:
        """Return how many records were shipped; fewer than BATCH_LINES: no more had been written."""
        lines = await self._read(self._spool.unshipped, BATCH_LINES)
        self._oldest_ms = _time_ms(lines[0]) if lines else None
        if not lines:
            return 0
        await self._delivery.send([(line.key, line.value) for line in lines])
        self.shipped_count += len(lines)
        self._oldest_ms = None
        try:
            await self._disk.run(self._spool.shipped, lines[-1].end)
        except SpoolError as error:
            self._faults[CHECKPOINT] += 1
            log.error("Failed to write audit checkpoint", error=str(error))
        return len(lines)

    async def _read(self, read: Callable[..., Result], *arguments: int) -> Result:
        """Return what `read` returns, with retries after any error: the process must not end for it."""
        while True:
            try:
                found = await self._disk.run(read, *arguments)
            except Exception as error:  # noqa: BLE001 - even after a defect of Penstock a retry is all that can help
                self._faults[READ] += 1
                self._reading.is_down(Cause(type(error).__name__, repr(error)), level="error")
                await asyncio.sleep(RETRY_READ_S)
            else:
                if self._reading.cause is not None:
                    self._reading.is_up()
                return found


def _time_ms(line: Line) -> int | None:
    found = _TIME_MS.search(line.value)
    return None if found is None else int(found[1])
