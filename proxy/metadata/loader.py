"""Follows the metadata log: batches in, images out.

The reader of the log (proxy.net.metadata.topic_feed, the controller, `penstock shell`) passes each batch, in
log order. No image is shown before the high-water mark read at start is reached: an authorizer with half a
log would allow what a later DENY forbids (KIP-801). After that each batch is shown at once and whole, and a
re-read only when it has caught up.

A batch of any size can be applied in steps of a few milliseconds (`batch_steps`, `snapshot_steps`); the old
image is shown until the last of them.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import chain

from proxy.metadata.delta import (
    IGNORED_API_KEYS,
    TOPIC_API_KEYS,
    MetadataDelta,
    MetadataError,
    without_ended,
)
from proxy.metadata.image import MetadataImage
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.signatures import LogVerifier, Proof, Values
from proxy.wire import metadata_records
from proxy.wire.errors import WireError
from proxy.wire.message import Message

STEP_RECORDS = 25
"""The number of records applied in one step."""
STEP_ENTITIES = 2_000
"""The number of quota entities compared in one step."""
_TRANSACTIONS = {"BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"}
_KAFKAS_OWN = {*_TRANSACTIONS, "FeatureLevelRecord"}
"""Kinds that Penstock's controllers do not write, and that the digest of the state does not show."""

OnImage = Callable[[MetadataImage, tuple[str, ...]], None]
"""Called with each new image and the paths of the quota entities that changed since the last one."""


class Loader:
    """Follows one log. After a MetadataError it is stopped: every later call raises the error again."""

    def __init__(
        self,
        on_image: OnImage,
        *,
        compacted: bool = True,
        every_offset: bool = True,
        topics: bool | None = None,
        transactions: bool | None = None,
        verifier: LogVerifier | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """`compacted`: as for MetadataDelta, False for KRaft's own log.

        `every_offset`: False if most records of the log are irrelevant. An image is then shown only when its
        content has changed, and irrelevant records are not decoded: among them those of topics, unless
        `topics`. `transactions`: whether the log may have those of KIP-868, and levels of features; None: if
        it is KRaft's own.
        `verifier`: only records that a controller has signed count; None: all of them do.
        `now_ms`: the wall clock, by which ACLs end; None: none ends, for those who read what the log has.
        """
        self._now_ms = now_ms
        self._ended_ms = 0
        """The latest time that `now_ms` has returned: no ACL has effect again if the clock is set back."""
        self.verifier = verifier
        """What decides which records count; None: all of them do."""
        self._on_image = on_image
        self._compacted = compacted
        self._may_have_transactions = not compacted if transactions is None else transactions
        self._every_offset = every_offset
        self._skipped: frozenset[int] = frozenset()
        if not every_offset:
            self._skipped = IGNORED_API_KEYS if topics else IGNORED_API_KEYS | TOPIC_API_KEYS
        self.image = MetadataImage.EMPTY
        """The image shown last; EMPTY until ready."""
        self._high_water_offset: int | None = None
        self._caught_up = False
        self.ready = False
        """Whether the log was read up to the high-water mark once; it stays true during a re-read."""
        self._fault: str | None = None
        self.applied_offset: int | None = None
        """The last offset that the shown image includes; None until ready."""
        self.next_offset = 0
        """The next offset to read."""
        self._start_over()

    @property
    def next_end_ms(self) -> int | None:
        """When the next ACL ends, in ms since the epoch; None: none does."""
        return None if self._fault is not None else self.image.acls.next_end_ms

    def end_acls(self) -> bool:
        """Show an image with fewer ACLs that have ended by now; return whether there may be more of them."""
        if self._fault is not None:
            return False
        image = self._at_present(self.image)
        if image is self.image:
            return False
        self.image = image
        self._on_image(image, ())
        return True

    def _at_present(self, image: MetadataImage) -> MetadataImage:
        if self._now_ms is None:
            return image
        self._ended_ms = max(self._ended_ms, self._now_ms())
        return without_ended(image, self._ended_ms)

    def load_until(self, high_water_offset: int) -> None:
        """Become ready once everything before `high_water_offset` (exclusive) is applied."""
        self._high_water_offset = high_water_offset
        _exhaust(self._show())

    def reload_until(self, high_water_offset: int) -> None:
        """Read the log again from offset 0; the old image is shown until the new one has caught up."""
        self._start_over()
        self._caught_up = False
        if self.verifier is not None:
            self.verifier.start_over()
        self.load_until(high_water_offset)

    def batch(self, last_offset: int, values: Values) -> MetadataImage:
        """Apply one batch whose last offset is `last_offset`, and return the image shown after it.

        A batch of control records, or one that compaction has emptied, has no values and still advances the
        offset. A batch that was applied before changes nothing. A null value is a tombstone: the Remove
        record before it has already made the change. MetadataError names offset and record.
        """
        _exhaust(self.batch_steps(last_offset, values))
        return self.image

    def batch_steps(
        self,
        last_offset: int,
        values: Values,
        offsets: Sequence[int] | None = None,
        proofs: Sequence[Proof] | None = None,
    ) -> Iterator[None]:
        """Like `batch`, in steps. All steps have to be taken before any other call.

        `offsets`: of the values, for reports about them; None: they are the last ones up to `last_offset`.
        `proofs`: what the verifier needs of each value.
        """
        self._raise_after_fault()
        if last_offset >= self.next_offset:
            known = range(last_offset - len(values) + 1, last_offset + 1) if offsets is None else offsets
            steps = self._apply(values, known)
            if self.verifier is not None:
                steps = self._verified(self.verifier, values, known, proofs or ())
            yield from self._whole(chain(steps, self._applied(last_offset)), last_offset)

    def snapshot(self, last_offset: int, values: Iterable[bytes | memoryview]) -> MetadataImage:
        """Replace the whole state by a snapshot that covers the log up to `last_offset`."""
        _exhaust(self.snapshot_steps(last_offset, values))
        return self.image

    def snapshot_steps(self, last_offset: int, values: Iterable[bytes | memoryview]) -> Iterator[None]:
        """Like `snapshot`, in steps. All steps have to be taken before any other call."""
        self._raise_after_fault()
        if last_offset < self.next_offset - 1:
            self._stop(
                f"a snapshot that ends at offset {last_offset}, before the image's {self.next_offset - 1}"
            )
        self._start_over()
        self._caught_up = False
        found = list(values)
        # The records of a snapshot have no offsets of their own.
        steps = self._apply(found, [last_offset] * len(found))
        yield from self._whole(chain(steps, self._applied(last_offset)), last_offset)

    def _start_over(self) -> None:
        self.next_offset = 0
        self._in_transaction = False
        self._touched: dict[QuotaEntity, None] = {}
        """The quota entities of records since the image shown last."""
        self._settled = MetadataImage.EMPTY
        """The state before the open transaction."""
        self._build_on(MetadataImage.EMPTY)

    def _build_on(self, base: MetadataImage) -> None:
        self._delta = MetadataDelta(base, compacted=self._compacted)

    def _built(self, offset: int) -> MetadataImage:
        """Return everything so far as an image, and continue from it."""
        self._touched.update(dict.fromkeys(self._delta.touched_quotas))
        image = self._at_present(self._delta.apply(offset))
        self._build_on(image)
        return image

    def _whole(self, steps: Iterator[None], last_offset: int) -> Iterator[None]:
        """Take the steps; a batch that is applied in part is a fault like one that cannot be applied."""
        try:
            yield from steps
        except MetadataError as error:
            self._stop(f"in the batch that ends at offset {last_offset}: {error}", error)
        except GeneratorExit:
            self._fault = f"the batch that ends at offset {last_offset} was applied in part only"
            raise

    def _verified(
        self, verifier: LogVerifier, values: Values, offsets: Sequence[int], proofs: Sequence[Proof]
    ) -> Iterator[None]:
        """Apply the records that count.

        All of them do if the state is the signed one then. Otherwise each is looked at. What is not signed
        may not even be a record.
        """
        if not values:
            return
        base = self._built(self.next_offset - 1)
        try:
            yield from self._apply(values, offsets)
            if verifier.is_whole(values, proofs, self._built(offsets[-1]).digest):
                return
        except MetadataError:
            if not verifier.rejects:
                raise
        faults = yield from verifier.signed_steps(values, proofs, offsets)
        signed = [index for index in range(len(values)) if index not in faults]
        if verifier.rejects:
            self._build_on(base)
            yield from self._apply([values[i] for i in signed], [offsets[i] for i in signed])
        if signed:
            verifier.confirm(offsets[-1], self._built(offsets[-1]).digest)

    def _apply(self, values: Values, offsets: Sequence[int]) -> Iterator[None]:
        for index, (value, offset) in enumerate(zip(values, offsets, strict=True)):
            try:
                if value is not None and not metadata_records.is_one_of(value, self._skipped):
                    record = metadata_records.decode_record(value)
                    self._replay(record, offset)
            except (MetadataError, WireError) as error:
                where = f"record {index + 1} of {len(values)}"
                raise MetadataError(f"{where}, at offset {offset}: {error}") from error
            if (index + 1) % STEP_RECORDS == 0:
                self._built(offset)
                yield

    def _applied(self, last_offset: int) -> Iterator[None]:
        self.next_offset = last_offset + 1
        yield from self._show()

    def _replay(self, record: Message, offset: int) -> None:
        kind = type(record).__name__
        # Who adds one to the log of Penstock's controllers could hold back what follows, take back what was
        # before, or take their effect from the ACLs for networks.
        if kind in _KAFKAS_OWN and not self._may_have_transactions:
            raise MetadataError(f"{kind}: only Kafka's own log has such records")
        if kind not in _TRANSACTIONS:
            self._delta.replay(record, offset)
            return
        begins = kind == "BeginTransactionRecord"
        if begins == self._in_transaction:
            raise MetadataError(f"{kind}: transactions follow one after the other")
        if begins:
            # KIP-868: what follows becomes visible at the end of the transaction, or never.
            self._settled = self._built(offset - 1)
        elif kind == "AbortTransactionRecord":
            self._build_on(self._settled)
        self._in_transaction = begins

    def _show(self) -> Iterator[None]:
        if self._high_water_offset is None:
            return
        if not self._caught_up and self.next_offset < self._high_water_offset:
            return
        if self.verifier is not None and self.verifier.is_waiting:
            return
        image = self._settled if self._in_transaction else self._built(self.next_offset - 1)
        is_shown = image.offset == self.image.offset if self._every_offset else image.same_content(self.image)
        if self._caught_up and is_shown:
            self.applied_offset = image.offset
            return
        changed = yield from self._changed_since_shown(image)
        if not self._in_transaction:
            self._touched = {}
        # What the image shown before has ended must not have effect again.
        while (current := self._at_present(image)) is not image:
            image = current
            yield
        if self._in_transaction:
            self._settled = image
        else:
            self._build_on(image)
        self.image, self.applied_offset, self._caught_up, self.ready = image, image.offset, True, True
        self._on_image(image, changed)

    def _changed_since_shown(self, image: MetadataImage) -> Generator[None, None, tuple[str, ...]]:
        """Return the paths of the quota entities that differ, without those of an open transaction."""
        if not self.ready:
            return ()
        before, after = self.image.quotas.limits, image.quotas.limits
        entities: Iterable[QuotaEntity] = self._touched if self._caught_up else chain(before, after)
        changed: dict[str, None] = {}
        for index, entity in enumerate(entities, 1):
            if before.get(entity) != after.get(entity):
                changed[entity.path] = None
            if index % STEP_ENTITIES == 0:
                yield
        return tuple(changed)

    def _stop(self, fault: str, cause: Exception | None = None) -> None:
        self._fault = fault
        raise MetadataError(f"the metadata log cannot be applied: {fault}") from cause

    def _raise_after_fault(self) -> None:
        if self._fault is not None:
            raise MetadataError(f"the metadata log could not be applied and is no longer read: {self._fault}")


def _exhaust(steps: Iterator[None]) -> None:
    for _ in steps:
        pass
