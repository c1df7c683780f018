"""Audit events in, a gapless sequence of records on disk and in the audit topic out (SPEC D2, D3).

`append` numbers and seals an event, passes it to the writer, and to the readers (log line, metrics): each
fact has three readers. `run` ships what is spooled and belongs in the process's TaskGroup. proxy.audit
defines the format of a record, and proxy.net.audit.capacity what happens without room for it.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from socket import gethostname

import structlog

from proxy.audit import events
from proxy.audit.chain import Chain, link, sealed
from proxy.audit.checkpoints import Checkpoint, Signer, StateInEffect
from proxy.audit.classes import ADMIN, DENIAL, PROCESS, SUMMARY
from proxy.audit.noise import Noise
from proxy.audit.record import AuditEvent, Author, Encoder
from proxy.metadata.quota_entity import short_name
from proxy.net.audit.capacity import DROP_ALL_BUT_ADMIN, REFUSE, AuditCapacity, AuditPolicy, Drops
from proxy.net.audit.delivery import AuditDelivery
from proxy.net.audit.outside_witness import OutsideWitness
from proxy.net.audit.shipper import AuditShipper
from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import SpoolError, encode_line
from proxy.net.audit.writer import AuditWriter
from proxy.net.runtime.chunked import iterate_in_slices

HIGH_WATER_INTERVAL_MS = 60_000
COLLAPSED_BYTES = 64 * 1024
"""With less room than this for denials, collapsed events continue to be counted."""
FEW_EVENTS = 50
"""Of `append_all`, appended at once: some 2 ms."""
WATCH_INTERVAL_MS = 1_000
"""Interval of the check that the spool's segments are still there."""
DURABLE_TIMEOUT_MS = 5_000
"""How long an administrative request waits for the disk before it is rejected."""

log = structlog.get_logger(__name__)

Reader = Callable[[AuditEvent], None]


class AuditLog:
    """The audit trail of one process."""

    def __init__(
        self,
        author: Author,
        spool: Spool,
        delivery: AuditDelivery,
        now_ms: Callable[[], int],
        policy: AuditPolicy = DROP_ALL_BUT_ADMIN,
        readers: Sequence[Reader] = (),
    ) -> None:
        self.author = author
        self.sequence = 0
        """The sequence number of the next record."""
        self.drops = Drops()
        """Events without a record. When there is room again, a record has their number."""
        self.spool = spool
        self.delivery = delivery
        self.shipper = AuditShipper(spool, delivery, now_ms)
        self.on_rejected_classes: Callable[[frozenset[str]], None] = lambda _classes: None
        """Called when the classes change whose requests are to be rejected."""
        self._policy = policy
        self._encoder = Encoder(author)
        self._chain = Chain(author.key, policy.chain_key)
        self._signer = self._signer_of(policy)
        self.state: Callable[[], StateInEffect | None] = lambda: None
        """What the process has in effect of the metadata log; None: nothing yet."""
        self._written_end = self._next_end = 0, self._chain.last
        self.witness = OutsideWitness(policy.witness, f"{author.proxy_id}.{author.boot_id}", lambda: self.end)
        self._reported_losses = 0
        self._last_watch_ms = 0
        self._previous = spool.last_value
        self.writer = AuditWriter(spool, policy.fsync, policy.fsync_interval_ms)
        self.writer.on_written = self._written
        self.capacity = AuditCapacity(spool, self.writer, policy)
        self.noise = Noise(policy.rate_per_principal)
        self._rejected: frozenset[str] = frozenset()
        self._settings_generation = 0
        self._now_ms = now_ms
        self._readers = tuple(readers)
        self._last_high_water_ms = now_ms()

    def reconfigure(self, policy: AuditPolicy) -> None:
        """Apply another policy from the next record on, except for the fsync settings, the chain's key and
        the witness. A new signing key signs from now on.
        """
        before, self._policy = self._policy, policy
        self.capacity.reconfigure(policy)
        if policy.rate_per_principal != before.rate_per_principal:
            self.noise.limit(policy.rate_per_principal)
        if policy.signing_key != before.signing_key:
            self._signer = self._signer_of(policy)
            self.sign_checkpoint()
        self._report_rejected_classes()

    def _signer_of(self, policy: AuditPolicy) -> Signer | None:
        return None if policy.signing_key is None else Signer(self.author.proxy_id, policy.signing_key)

    @property
    def end(self) -> str:
        """A recent record that is written, and so is not lost with the process, for others to witness it.

        A signed checkpoint; without a key `<proxy_id>/<boot_id>/<sequence>/<chain>`, where the sequence is -1
        before the first record.
        """
        size, link = self._written_end
        if self._signer is None:
            return f"{self.author.key.decode()}/{size - 1}/{link}"
        return self._signer.signed(self._checkpoint(size, link).text())

    def _checkpoint(self, size: int, link: str, *, stops: bool = False) -> Checkpoint:
        author, state = self.author, self.state()
        if state is not None and state.offset < 0:  # The log is empty.
            state = None
        return Checkpoint(author.proxy_id, author.boot_id, size, link, self._now_ms(), state, stops)

    def sign_checkpoint(self, *, stops: bool = False) -> None:
        """Append a checkpoint of all records so far, if there is a key."""
        if self._signer is not None:
            checkpoint = self._checkpoint(self.sequence, self._chain.last, stops=stops)
            offset = None if checkpoint.state is None else checkpoint.state.offset
            note = self._signer.signed(checkpoint.text())
            self._put(events.checkpoint(metadata_offset=offset, message=note), PROCESS)

    @property
    def unshipped_count(self) -> int:
        """Records that the audit topic does not have yet, including those of earlier boots of this spool."""
        lost = sum(loss.count for loss in self.spool.losses)
        return max(0, self.shipper.left_count + self.sequence - self.shipper.shipped_count - lost)

    @property
    def faults(self) -> dict[str, int]:
        """Failed operations, by operation."""
        return self.writer.faults | self.shipper.faults | {"witness": self.witness.failures}

    def rejects(self, event_class: str) -> bool:
        """Return whether requests that would make a record of this class are to be rejected now."""
        return event_class in self.capacity.rejected_classes()

    async def allows_change(self) -> bool:
        """Return whether the cluster may be changed now: earlier records are durable (D3), or need not be."""
        if self._policy.by_class.get(ADMIN) != REFUSE:
            return True
        return not self.rejects(ADMIN) and await self.wait_until_durable()

    def held_class(self, event: AuditEvent) -> str | None:
        """Return the record's class if all effects after it wait until it is durable; else None.

        Changes through the controller are checked by `allows_change` instead.
        """
        event_class = events.class_of(event)
        if event_class != ADMIN:
            return event_class if event_class in self._policy.synced else None
        waits = ADMIN in self._policy.synced or self._policy.by_class.get(ADMIN) == REFUSE
        is_change = event.event == "admin_request" and event.objects is not None
        return ADMIN if waits and is_change else None

    async def may_proceed(self, classes: Collection[str]) -> bool:
        """Return whether effects after these records may be carried out: they are durable, or need not be."""
        return await self.wait_until_durable(classes) or all(
            self._policy.by_class.get(name) != REFUSE for name in classes
        )

    def start(self, settings: Mapping[str, str]) -> None:
        """Append the first record of a boot: settings, chain's algorithm, host, and the boot before it."""
        recorded = dict(settings) | {"audit.chain": self._chain.algorithm, "audit.host": gethostname()}
        if self._previous is not None:
            recorded["audit.previous"] = link(self._previous)
        self.append(events.started(settings=recorded))
        self.sign_checkpoint()

    def change_settings(self, settings: Mapping[str, str]) -> int:
        """Record new settings, and return their generation, which later records have.

        Call it before the first decision by these settings. `settings`: all of them, as for `start`.
        """
        self._settings_generation += 1
        generation = self._settings_generation
        # It always has room: without this record none after it could be verified.
        self.append(events.settings_changed(settings=settings, settings_generation=generation))
        return generation

    def append(self, event: AuditEvent) -> None:
        """Number an event and pass it to the writer. Without room for it, `drops` has grown instead.

        The record is in the kernel when `wait_until_durable` has returned.
        """
        # Before a record, a count or a label is made of it: a client may choose 32 kB.
        event.client_id = event.client_id and short_name(event.client_id)
        event_class = events.class_of(event)
        if event_class == PROCESS:
            self._record_collapsed(at_end=True)
            self._record_drops()  # The record that ends the boot is the last one.
            if event.event == "stopped":
                self.sign_checkpoint(stops=True)
        elif event_class == SUMMARY and event.event == "witnessed":
            self._cosign(event)
        if not self.noise.collapses(event, self._now_ms()) and self._put(event, event_class):
            self._record_drops()
        for reader in self._readers:
            reader(event)

    async def append_all(self, events: Iterable[AuditEvent]) -> None:
        """Append events of which there may be very many: beyond a few, the event loop gets turns between
        them."""
        waiting = iter(events)
        for number, event in enumerate(waiting, 1):
            self.append(event)
            if number == FEW_EVENTS:
                break
        else:
            return
        async for event in iterate_in_slices(waiting):
            self.append(event)

    async def wait_until_durable(self, classes: Collection[str] = (ADMIN,)) -> bool:
        """Wait until all records are written, or synced if audit.fsync of a class says so. False: failed."""
        try:
            async with asyncio.timeout(DURABLE_TIMEOUT_MS / 1000):
                await self.writer.wait_until_written(synced=not self._policy.synced.isdisjoint(classes))
        except (SpoolError, TimeoutError) as error:
            log.error("audit records not durable in time", error=str(error) or f"{DURABLE_TIMEOUT_MS} ms")
            return False
        return True

    async def run(self) -> None:
        """Ship records, and record the sequence at an interval, until cancelled."""
        self.writer.notify_running_loop()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.shipper.run())
            tasks.create_task(self._maintain())
            tasks.create_task(self.witness.run())

    async def close(self, timeout_ms: int, ship_ms: int | None = None) -> None:
        """Write all records and ship them, as far as the time allows. The others stay in the spool.

        `ship_ms`: the time to ship them; None: `timeout_ms`.
        """
        # Nothing follows `stopped`, not even that a segment was damaged: what is lost is a gap.
        self.writer.on_written = self._note_end
        await self.writer.close(timeout_ms / 1000)
        self._note_end()
        await self.witness.close(timeout_ms if ship_ms is None else ship_ms)
        await self.shipper.close(timeout_ms if ship_ms is None else ship_ms)

    def _record_collapsed(self, *, at_end: bool = False) -> None:
        if not at_end and self.capacity.shortage(DENIAL, COLLAPSED_BYTES) is not None:
            return  # The counts grow until there is room.
        for event in self.noise.due(self._now_ms(), at_end=at_end):
            log.warning(
                "audit records collapsed",
                event_name=event.event,
                principal=event.principal,
                host=event.host,
                method=event.method,
                count=event.count,
            )
            self._put(event, events.class_of(event))

    def _record_drops(self) -> None:
        if self.drops.unreported:
            count, message = self.drops.report()
            self._put(events.records_dropped(count=count, message=message), PROCESS)

    def _put(self, event: AuditEvent, event_class: str) -> bool:
        body = self._encoder.body(event, self.sequence, self._now_ms())
        chain = self._chain.after(body)
        line = encode_line(self.author.key, sealed(body, chain))
        shortage = self.capacity.shortage(event_class, len(line))
        if shortage is not None:
            self.drops.count(shortage, event_class)
            return False
        self.writer.put(line)
        self.capacity.add(event_class, len(line))
        self.sequence += 1
        self._chain.last = chain
        return True

    def _cosign(self, event: AuditEvent) -> None:
        if self._signer is not None and Checkpoint.parse(event.message or "") is not None:
            event.message = self._signer.cosigned(event.message or "", self._now_ms())

    def _written(self) -> None:
        self._note_end()
        self.shipper.more.set()
        for loss in self.spool.losses[self._reported_losses :]:
            self._reported_losses += 1
            log.error("audit spool damaged by another process or by hand", message=loss.description())
            self._put(events.records_dropped(count=loss.count, message=loss.description()), PROCESS)
        self._report_rejected_classes()

    def _note_end(self) -> None:
        # Under load the latest record is never written yet, but that of the last look is.
        for end in (self._next_end, (self.sequence, self._chain.last)):
            if self.writer.written_count >= end[0]:
                self._written_end = end
        self._next_end = self.sequence, self._chain.last

    def _report_rejected_classes(self) -> None:
        rejected = self.capacity.rejected_classes()
        if rejected != self._rejected:
            self._rejected = rejected
            if rejected:
                log.error("Audit records cannot be written; rejecting requests", classes=sorted(rejected))
            else:
                log.info("Audit records can be written again")
            self.on_rejected_classes(rejected)

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(max(self._policy.fsync_interval_ms, 10) / 1000)
            self._report_rejected_classes()
            if abs(self._now_ms() - self._last_watch_ms) >= WATCH_INTERVAL_MS:
                self._last_watch_ms = self._now_ms()
                self.writer.watch()
                self._record_collapsed()
            if abs(self._now_ms() - self._last_high_water_ms) >= HIGH_WATER_INTERVAL_MS:
                self._last_high_water_ms = self._now_ms()
                self.append(events.high_water(count=self.sequence))
                self.sign_checkpoint()
