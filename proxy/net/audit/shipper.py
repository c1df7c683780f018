"""From the spool into the audit topic, in order, for as long as it takes (SPEC D3).

Run by proxy.net.audit.audit_log; the disk is read and the checkpoint written in a thread, for a slow disk
must not hold the clients up. What was shipped when a process ends without having written so down is shipped
again.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

import structlog

from proxy.net.audit.delivery import AuditSink, Trouble
from proxy.net.audit.disk_thread import DiskThread
from proxy.net.audit.spool import Line, Spool
from proxy.net.audit.spool_files import SpoolError
from proxy.net.runtime.cause import Cause
from proxy.net.runtime.reachability import StateLine

BATCH_LINES = 2_000
READ_AGAIN_S = 1.0
READ, CHECKPOINT, SEND = "read", "checkpoint", "send"
_TIME_MS = re.compile(rb'"time_ms":(\d+)')

Read = TypeVar("Read")

log = structlog.get_logger(__name__)


class Shipping:
    """Of one spool."""

    def __init__(self, spool: Spool, sink: AuditSink, now_ms: Callable[[], int]) -> None:
        self.shipped_count = 0
        self.left_count = 0
        """What earlier processes had left to ship."""
        self.more = asyncio.Event()
        """To be set when lines have been written."""
        self._spool = spool
        self._sink = sink
        self._disk = DiskThread("audit-shipping")
        self._reading = StateLine("audit spool is read again", "audit spool cannot be read, trying again")
        self._now_ms = now_ms
        self._oldest_ms: int | None = None
        self._faults = {READ: 0, CHECKPOINT: 0}

    @property
    def spool_bytes(self) -> int:
        return self._spool.size_bytes

    @property
    def spool_max_bytes(self) -> int:
        return self._spool.max_bytes

    @property
    def trouble(self) -> Trouble | None:
        """Why the topic takes nothing at this moment."""
        return self._sink.trouble

    @property
    def ship_failures(self) -> Mapping[str, int]:
        """How often the topic took nothing, by reason."""
        return self._sink.failures

    @property
    def ship_throttled_ms(self) -> int:
        """For how long a quota on our own login has kept records back."""
        return self._sink.throttled_ms

    @property
    def damaged_count(self) -> int:
        """Lines of the spool that could not be read back."""
        return self._spool.damaged_count

    @property
    def faults(self) -> dict[str, int]:
        """How often something kept records from getting on, by what it was."""
        return self._faults | {SEND: self._sink.failed_count}

    @property
    def oldest_age_ms(self) -> int:
        """For how long the record that is to be shipped next has waited; 0 when there is none."""
        return 0 if self._oldest_ms is None else max(0, self._now_ms() - self._oldest_ms)

    async def run(self) -> None:
        """Until cancelled."""
        self.left_count = await self._patiently(self._spool.left_count)
        while True:
            self.more.clear()
            if not await self._ship_some():
                await self.more.wait()

    async def close(self, timeout_ms: int) -> None:
        """Ship what is left, as far as the time allows."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                while await self._ship_some():
                    pass
        await self._sink.close()

    async def _ship_some(self) -> bool:
        lines = await self._patiently(self._spool.unshipped, BATCH_LINES)
        self._oldest_ms = _time_ms(lines[0]) if lines else None
        if not lines:
            return False
        await self._sink.send([(line.key, line.value) for line in lines])
        self.shipped_count += len(lines)
        self._oldest_ms = None
        try:
            await self._disk.run(self._spool.shipped, lines[-1].end)
        except SpoolError as error:
            self._faults[CHECKPOINT] += 1
            log.error("audit checkpoint not written", error=str(error))
        return True

    async def _patiently(self, read: Callable[..., Read], *arguments: int) -> Read:
        """What the spool gives, however often it fails: the trail must go on, and so must the process."""
        while True:
            try:
                found = await self._disk.run(read, *arguments)
            except Exception as error:  # noqa: BLE001 - of a fault in ours, too, only trying again can help
                self._faults[READ] += 1
                self._reading.is_down(Cause(type(error).__name__, repr(error)), level="error")
                await asyncio.sleep(READ_AGAIN_S)
            else:
                if self._reading.cause is not None:
                    self._reading.is_up()
                return found


def _time_ms(line: Line) -> int | None:
    found = _TIME_MS.search(line.value)
    return None if found is None else int(found[1])
