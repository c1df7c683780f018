"""Audit events in, a gapless sequence on disk and in the audit topic out (SPEC D2, D3).

`append` is called for each event by whoever carries effects out; it stamps and seals the event, puts it
down for the spool, and gives it to the listeners (log line, metrics), so that one fact has three readers.
`run` ships what is spooled and belongs in the process's TaskGroup. How a record looks is proxy.audit's,
where it lies until shipped the spool's, what becomes of it where there is no room proxy.net.audit.capacity's.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

import structlog

from proxy.audit import events
from proxy.audit.chain import Chain, link, sealed
from proxy.audit.classes import ADMIN, DENIAL, PROCESS
from proxy.audit.noise import Noise
from proxy.audit.record import AuditEvent, Author, Encoder
from proxy.net.audit.capacity import DROP_ALL_BUT_ADMIN, REFUSE, AuditPolicy, Drops, Room
from proxy.net.audit.delivery import AuditSink
from proxy.net.audit.shipper import Shipping
from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import SpoolError, encode_line
from proxy.net.audit.spool_loss import Loss
from proxy.net.audit.writer import AuditWriter

HIGH_WATER_INTERVAL_MS = 60_000
COLLAPSED_BYTES = 64 * 1024
"""With less room than this for denials, what is counted goes on being counted."""
WATCH_INTERVAL_MS = 1_000
"""How often it is looked whether the segments of the spool are still there."""
KEPT_TIMEOUT_MS = 5_000
"""How long an administrative request waits for the disk before it is refused."""

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
        policy: AuditPolicy = DROP_ALL_BUT_ADMIN,
        readers: Sequence[Reader] = (),
    ) -> None:
        self.author = author
        self.sequence = 0
        """The number of the next record."""
        self.drops = Drops()
        """Events that could not be kept; once one can again, a record tells how many were lost."""
        self.shipping = Shipping(spool, sink, now_ms)
        self.on_refusals: Callable[[frozenset[str]], None] = lambda _classes: None
        """Told when other classes than before are to be refused."""
        self.changes_at_broker: Collection[str] = ()
        """Methods of changes that the broker makes; it gets them once who asked for them is kept."""
        self._policy = policy
        self._encoder = Encoder(author)
        self._chain = Chain(author.key, policy.chain_key)
        self._spool = spool
        self._told_losses = 0
        self._last_watch_ms = 0
        self._previous = spool.last_value
        self._writer = AuditWriter(spool, policy.fsync, policy.fsync_interval_ms)
        self._writer.on_written = self._written
        self._room = Room(spool, self._writer, policy)
        self._noise = Noise(policy.rate_per_principal)
        self._refused: frozenset[str] = frozenset()
        self._settings_generation = 0
        self._now_ms = now_ms
        self._readers = tuple(readers)
        self._last_high_water_ms = now_ms()

    def follow(self, policy: AuditPolicy) -> None:
        """Another policy, from the next record on; how the spool is written and sealed stays as it is."""
        before, self._policy = self._policy, policy
        self._room.follow(policy)
        if policy.rate_per_principal != before.rate_per_principal:
            self._noise.limit(policy.rate_per_principal)
        self._tell_refusals()

    @property
    def unshipped_count(self) -> int:
        """Records that the audit topic does not have yet, those of earlier boots of this spool included."""
        lost = sum(loss.count for loss in self.losses)
        return max(0, self.shipping.left_count + self.sequence - self.shipping.shipped_count - lost)

    @property
    def losses(self) -> Sequence[Loss]:
        """Segments that others have removed, replaced or cut short while this process used them."""
        return self._spool.losses

    @property
    def faults(self) -> dict[str, int]:
        """How often something kept records from getting on, by what it was."""
        return self._writer.faults | self.shipping.faults

    @property
    def disk_waits_ms(self) -> int:
        """For how long the disk has not come back from what it was last asked."""
        return self._writer.waits_ms

    @property
    def collapsed_counts(self) -> Mapping[str, int]:
        """Events that were counted because their principal caused too many, by class."""
        return self._noise.collapsed_counts

    @property
    def loud(self) -> Sequence[str]:
        """Principals and addresses whose events are being counted now."""
        return self._noise.loud

    @property
    def refused(self) -> frozenset[str]:
        """The classes whose requests are refused now, as their policy says."""
        return self._room.refused()

    @property
    def disk_error(self) -> str | None:
        """Why the disk takes nothing at this moment."""
        return self._writer.error

    @property
    def spool_ratio(self) -> float:
        """How full the spool is for the class of records that has the least room; 1: it has none."""
        return self._room.spool_ratio

    @property
    def queued_bytes(self) -> int:
        """Of records that the disk has not taken yet."""
        return self._writer.queued_bytes

    def refuses(self, event_class: str) -> bool:
        """Whether what would make a record of this class is to be refused now."""
        return event_class in self._room.refused()

    async def admits_change(self) -> bool:
        """Whether the cluster may be changed now: what was appended before is kept (D3), or need not be."""
        if self._policy.by_class.get(ADMIN) != REFUSE:
            return True
        return not self.refuses(ADMIN) and await self.kept()

    def held_class(self, event: AuditEvent) -> str | None:
        """The record's class, where nothing that follows it may leave before it is kept.

        What the controller is asked for has `admits_change`.
        """
        event_class = events.class_of(event)
        if event_class != ADMIN:
            return event_class if event_class in self._policy.synced else None
        waits = ADMIN in self._policy.synced or self._policy.by_class.get(ADMIN) == REFUSE
        is_change = (
            event.event in ("authorization", "admin_request") and event.method in self.changes_at_broker
        )
        return ADMIN if waits and is_change else None

    async def lets_go_on(self, classes: Collection[str]) -> bool:
        """Whether what follows their records may leave: they are kept, or need not be (audit.policy)."""
        return await self.kept(classes) or all(self._policy.by_class.get(name) != REFUSE for name in classes)

    def start(self, settings: Mapping[str, str]) -> None:
        """The first record of a boot: what it decides by, how its chain is made, which boot came before."""
        told = dict(settings) | {"audit.chain": self._chain.algorithm}
        if self._previous is not None:
            told["audit.previous"] = link(self._previous)
        self.append(events.started(settings=told))

    def change_settings(self, settings: Mapping[str, str]) -> int:
        """Record what will be decided by from now on; the generation that later records name it by.

        To be called before the first decision by them. `settings`: all of them, as for `start`.
        """
        self._settings_generation += 1
        generation = self._settings_generation
        # There is always room for it: without it nothing after it could be checked.
        self.append(events.settings_changed(settings=settings, settings_generation=generation))
        return generation

    def append(self, event: AuditEvent) -> None:
        """Number an event and put it down, unless there is no room: then `drops` has grown.

        It is in the kernel's hands once `kept` has come back.
        """
        event_class = events.class_of(event)
        if event_class == PROCESS:
            self._tell_collapsed(at_end=True)
            self._tell_drops()  # Nothing may come after the record that ends the boot.
        if not self._noise.collapses(event, self._now_ms()) and self._put(event, event_class):
            self._tell_drops()
        for reader in self._readers:
            reader(event)

    async def kept(self, classes: Collection[str] = (ADMIN,)) -> bool:
        """Whether all that was appended survives this process; with audit.fsync of a class, the machine."""
        try:
            async with asyncio.timeout(KEPT_TIMEOUT_MS / 1000):
                await self._writer.kept(synced=not self._policy.synced.isdisjoint(classes))
        except (SpoolError, TimeoutError) as error:
            log.error("audit records not kept in time", error=str(error) or f"{KEPT_TIMEOUT_MS} ms")
            return False
        return True

    async def run(self) -> None:
        """Ship, and tell how far the sequence is, until cancelled."""
        self._writer.tell()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.shipping.run())
            tasks.create_task(self._look_after())

    async def close(self, timeout_ms: int) -> None:
        """Ship what is left, as far as the time allows; what is not stays in the spool for the next start."""
        await self._writer.close(timeout_ms / 1000)
        await self.shipping.close(timeout_ms)

    def _tell_collapsed(self, *, at_end: bool = False) -> None:
        if not at_end and self._room.lacking(DENIAL, COLLAPSED_BYTES) is not None:
            return  # What is counted stays so until there is room.
        for event in self._noise.due(self._now_ms(), at_end=at_end):
            log.warning(
                "audit records collapsed",
                event_name=event.event,
                principal=event.principal,
                host=event.host,
                method=event.method,
                count=event.count,
            )
            self._put(event, events.class_of(event))

    def _tell_drops(self) -> None:
        if self.drops.untold:
            count, message = self.drops.tell()
            self._put(events.records_dropped(count=count, message=message), PROCESS)

    def _put(self, event: AuditEvent, event_class: str) -> bool:
        body = self._encoder.body(event, self.sequence, self._now_ms())
        chain = self._chain.after(body)
        line = encode_line(self.author.key, sealed(body, chain))
        lacking = self._room.lacking(event_class, len(line))
        if lacking is not None:
            self.drops.count(lacking, event_class)
            return False
        self._writer.put(line)
        self._room.put(event_class, len(line))
        self.sequence += 1
        self._chain.last = chain
        return True

    def _written(self) -> None:
        self.shipping.more.set()
        self._tell_losses()
        self._tell_refusals()

    def _tell_losses(self) -> None:
        for loss in self.losses[self._told_losses :]:
            self._told_losses += 1
            log.error("audit spool damaged by another process or by hand", message=loss.in_words())
            self._put(events.records_dropped(count=loss.count, message=loss.in_words()), PROCESS)

    def _tell_refusals(self) -> None:
        refused = self._room.refused()
        if refused != self._refused:
            self._refused = refused
            if refused:
                log.error("the audit trail takes no records: requests are refused", classes=sorted(refused))
            else:
                log.info("the audit trail takes records again")
            self.on_refusals(refused)

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(max(self._policy.fsync_interval_ms, 10) / 1000)
            self._tell_refusals()
            if abs(self._now_ms() - self._last_watch_ms) >= WATCH_INTERVAL_MS:
                self._last_watch_ms = self._now_ms()
                self._writer.watch()
                self._tell_collapsed()
            if abs(self._now_ms() - self._last_high_water_ms) >= HIGH_WATER_INTERVAL_MS:
                self._last_high_water_ms = self._now_ms()
                self.append(events.high_water(count=self.sequence))
