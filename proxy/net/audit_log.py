"""Audit events in, a gapless sequence on disk and in the audit topic out (SPEC D2, D3).

`append` is called for each event by whoever carries effects out; it stamps, spools, and gives the event to
the listeners (log line, metrics), so that one fact has three readers. `run` ships what is spooled and belongs
in the process's TaskGroup. How a record looks is proxy.audit's, where it lies until shipped the spool's.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import structlog

from proxy.audit.chain import Chain, link, sealed
from proxy.audit.record import AuditEvent, Author, Encoder
from proxy.net.audit_sink import AuditSink
from proxy.net.spool import Spool, SpoolError

BATCH_LINES = 2_000
HIGH_WATER_INTERVAL_MS = 60_000

log = structlog.get_logger(__name__)

Reader = Callable[[AuditEvent], None]


class AuditLog:
    """The audit trail of one process."""

    def __init__(
        self,
        author: Author,
        spool: Spool,
        sink: AuditSink,
        now_ms: Callable[[], int],
        fsync_interval_ms: int = 100,
        readers: Sequence[Reader] = (),
        chain_key: bytes | None = None,
    ) -> None:
        """`chain_key`: what audit.chain.key.file holds; see proxy.audit.chain."""
        self.author = author
        self._encoder = Encoder(author)
        self._chain = Chain(author.key, chain_key)
        self.sequence = 0
        """The number of the next record."""
        self.dropped_count = 0
        """Events that could not be spooled; once one can again, a record tells how many were lost."""
        self.shipped_count = 0
        self._spool = spool
        self._sink = sink
        self._now_ms = now_ms
        self._fsync_interval_ms = fsync_interval_ms
        self._readers = tuple(readers)
        self._written = asyncio.Event()
        self._dirty = False
        self._refusing = False
        self._untold_drops = 0
        self._last_high_water_ms = now_ms()

    @property
    def spool_bytes(self) -> int:
        return self._spool.size_bytes

    @property
    def damaged_count(self) -> int:
        """Lines of the spool that could not be read back."""
        return self._spool.damaged_count

    @property
    def full(self) -> bool:
        """The last event could not be kept: admin writes are to be refused until one can."""
        return self._refusing

    def start(self, settings: Mapping[str, str]) -> None:
        """The first record of a boot: what it decides by, how its chain is made, which boot came before."""
        told = dict(settings) | {"audit.chain": self._chain.algorithm}
        if self._spool.last_value is not None:
            told["audit.previous"] = link(self._spool.last_value)
        self.append(AuditEvent(event="started", settings=told))

    def append(self, event: AuditEvent) -> None:
        """Keep one event. It is in the spool when this returns, unless `dropped_count` has grown."""
        body = self._encoder.body(event, self.sequence, self._now_ms())
        chain = self._chain.after(body)
        try:
            self._spool.append(self.author.key, sealed(body, chain))
        except SpoolError as error:
            self.dropped_count += 1
            self._untold_drops += 1
            if not self._refusing:
                log.error("audit record dropped", audit_event=event.event, error=str(error))
            self._refusing = True
        else:
            self.sequence += 1
            self._chain.last = chain
            self._refusing = False
            self._dirty = True
            self._written.set()
        for reader in self._readers:
            reader(event)
        if self._untold_drops and not self._refusing:
            dropped, self._untold_drops = self._untold_drops, 0
            self.append(AuditEvent(event="records_dropped", count=dropped, message="the spool was full"))

    async def run(self) -> None:
        """Ship and sync until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._ship())
            tasks.create_task(self._sync())

    async def close(self, timeout_ms: int) -> None:
        """Ship what is left, as far as the time allows; what is not stays in the spool for the next start."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                while await self._ship_some():
                    pass
        await self._sink.close()
        self._spool.close()

    async def _ship(self) -> None:
        while True:
            if not await self._ship_some():
                self._written.clear()
                if not self._spool.unshipped(1):
                    await self._written.wait()

    async def _ship_some(self) -> bool:
        lines = self._spool.unshipped(BATCH_LINES)
        if not lines:
            return False
        await self._sink.send([(line.key, line.value) for line in lines])
        self.shipped_count += len(lines)
        try:
            self._spool.shipped(lines[-1].end)
        except SpoolError as error:
            log.error("audit checkpoint not written", error=str(error))
        return True

    async def _sync(self) -> None:
        while True:
            await asyncio.sleep(max(self._fsync_interval_ms, 10) / 1000)
            if self._now_ms() - self._last_high_water_ms >= HIGH_WATER_INTERVAL_MS:
                self._last_high_water_ms = self._now_ms()
                self.append(AuditEvent(event="high_water", count=self.sequence))
            if self._dirty:
                self._dirty = False
                try:
                    # In a thread: a slow disk must not hold the clients up.
                    await asyncio.to_thread(self._spool.sync)
                except SpoolError as error:
                    log.error("audit spool not synced", error=str(error))
