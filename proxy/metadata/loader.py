"""Batches of the metadata log in, images out.

Fed by whoever follows the log (proxy.net.metadata.topic_feed, the controller, `penstock shell`), one call
per batch, in log order. Nothing is shown before the high-water mark read at start is reached: an
authorizer that answers from half a log would let pass what a later DENY forbids (KIP-801). From
then on each batch appears at once and whole, and a re-read appears only when it has caught up.
Knows nothing of topics, fetches or snapshot files.

However large a batch is, it can be applied in steps of a few milliseconds (`batch_steps`, `snapshot_steps`);
the old image serves until the last of them.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import chain

from proxy.metadata.delta import IGNORED_API_KEYS, TOPIC_API_KEYS, MetadataDelta
from proxy.metadata.errors import MetadataError
from proxy.metadata.image import MetadataImage
from proxy.metadata.quota_entity import QuotaEntity
from proxy.wire import metadata_records
from proxy.wire.errors import WireError
from proxy.wire.message import Message

__all__ = ["Loader", "MetadataError"]

STEP_RECORDS = 25
"""Records applied in one step."""
STEP_ENTITIES = 2_000
"""Quota entities compared in one step."""

Values = Sequence[bytes | memoryview | None]

OnImage = Callable[[MetadataImage, tuple[str, ...]], None]
"""Called with each new image and the paths of the quota entities that changed since the last one."""


class Loader:
    """Follows one log. After a MetadataError it stays stopped: every later call raises it again."""

    def __init__(
        self,
        on_image: OnImage,
        *,
        compacted: bool = True,
        every_offset: bool = True,
        topics: bool | None = None,
    ) -> None:
        """`compacted`: as for MetadataDelta, False on KRaft's own log.

        `every_offset`: False where most of the log is none of our business. An image is then shown only
        when something in it has changed, and records without meaning to us are not even decoded: those of
        topics among them, unless `topics`.
        """
        self._on_image = on_image
        self._compacted = compacted
        self._every_offset = every_offset
        self._skipped: frozenset[int] = frozenset()
        if not every_offset:
            self._skipped = IGNORED_API_KEYS if topics else IGNORED_API_KEYS | TOPIC_API_KEYS
        self._image = MetadataImage.EMPTY
        self._high_water_offset: int | None = None
        self._caught_up = False
        self._ready = False
        self._fault: str | None = None
        self._applied_offset: int | None = None
        self._next_offset = 0
        self._start_over()

    @property
    def ready(self) -> bool:
        """The log has been read up to the high-water mark once; it stays true during a re-read."""
        return self._ready

    @property
    def image(self) -> MetadataImage:
        """The image shown last; EMPTY until ready."""
        return self._image

    @property
    def applied_offset(self) -> int | None:
        """Everything up to here is in the image shown; None until ready."""
        return self._applied_offset

    @property
    def next_offset(self) -> int:
        """The offset of the log to read next."""
        return self._next_offset

    def load_until(self, high_water_offset: int) -> None:
        """Be ready once everything before `high_water_offset` (exclusive, as ListOffsets gives it) is in."""
        self._high_water_offset = high_water_offset
        _exhaust(self._show())

    def reload_until(self, high_water_offset: int) -> None:
        """Read the log again from offset 0; the old image serves until the new one has caught up."""
        self._start_over()
        self._caught_up = False
        self.load_until(high_water_offset)

    def batch(self, last_offset: int, values: Values) -> MetadataImage:
        """Apply one batch whose last offset is `last_offset`, and return the image shown after it.

        A batch of control records, or one that compaction emptied, has no values and still moves
        the offset on. A batch already applied changes nothing. A null value is a tombstone: it only
        finishes what a Remove record did. MetadataError names offset and record.
        """
        _exhaust(self.batch_steps(last_offset, values))
        return self._image

    def batch_steps(self, last_offset: int, values: Values) -> Iterator[None]:
        """As `batch`, in steps that are all to be taken before anything else is asked of the loader."""
        self._refuse_after_fault()
        if last_offset >= self._next_offset:
            yield from self._whole(self._apply(last_offset, values), last_offset)

    def snapshot(self, last_offset: int, values: Iterable[bytes | memoryview]) -> MetadataImage:
        """Replace everything by a snapshot that covers the log up to `last_offset`, all at once."""
        _exhaust(self.snapshot_steps(last_offset, values))
        return self._image

    def snapshot_steps(self, last_offset: int, values: Iterable[bytes | memoryview]) -> Iterator[None]:
        """As `snapshot`, in steps that are all to be taken before anything else is asked of the loader."""
        self._refuse_after_fault()
        if last_offset < self._next_offset - 1:
            self._stop(
                f"a snapshot that ends at offset {last_offset}, before the image's {self._next_offset - 1}"
            )
        self._start_over()
        self._caught_up = False
        yield from self._whole(self._apply(last_offset, list(values)), last_offset)

    def _start_over(self) -> None:
        self._next_offset = 0
        self._in_transaction = False
        self._touched: dict[QuotaEntity, None] = {}
        """Quota entities that records were about since the image shown last."""
        self._settled = MetadataImage.EMPTY
        """Of a transaction that is open: the state before it."""
        self._build_on(MetadataImage.EMPTY)

    def _build_on(self, base: MetadataImage) -> None:
        self._delta = MetadataDelta(base, compacted=self._compacted)

    def _built(self, offset: int) -> MetadataImage:
        """Everything so far as an image, and what follows is built on it."""
        self._touched.update(dict.fromkeys(self._delta.touched_quotas))
        image = self._delta.apply(offset)
        self._build_on(image)
        return image

    def _whole(self, steps: Iterator[None], last_offset: int) -> Iterator[None]:
        """The steps; a batch that is not applied to its end is a fault as one that cannot be."""
        try:
            yield from steps
        except MetadataError as error:
            self._stop(f"in the batch that ends at offset {last_offset}: {error}", error)
        except GeneratorExit:
            self._fault = f"the batch that ends at offset {last_offset} was applied in part only"
            raise

    def _apply(self, last_offset: int, values: Values) -> Iterator[None]:
        first_offset = last_offset - len(values) + 1
        for index, value in enumerate(values):
            try:
                if value is not None and not metadata_records.is_one_of(value, self._skipped):
                    record = metadata_records.decode_record(value)
                    self._replay(record, first_offset + index)
            except (MetadataError, WireError) as error:
                raise MetadataError(f"record {index + 1} of {len(values)}: {error}") from error
            if (index + 1) % STEP_RECORDS == 0:
                self._built(first_offset + index)
                yield
        self._next_offset = last_offset + 1
        yield from self._show()

    def _replay(self, record: Message, offset: int) -> None:
        kind = type(record).__name__
        if kind == "BeginTransactionRecord":
            self._begin_transaction(offset)
        elif kind == "EndTransactionRecord":
            self._in_transaction = False
        elif kind == "AbortTransactionRecord":
            self._in_transaction = False
            self._build_on(self._settled)
        else:
            self._delta.replay(record)

    def _begin_transaction(self, offset: int) -> None:
        # KIP-868: what follows becomes visible at its end, or never. So what came before is settled.
        self._settled = self._built(offset - 1)
        self._in_transaction = True

    def _show(self) -> Iterator[None]:
        if self._high_water_offset is None:
            return
        if not self._caught_up and self._next_offset < self._high_water_offset:
            return
        image = self._settled if self._in_transaction else self._built(self._next_offset - 1)
        self._applied_offset = image.offset
        if self._caught_up and self._is_shown(image):
            return
        changed = yield from self._changed_since_shown(image)
        if not self._in_transaction:
            self._touched = {}
        self._image, self._caught_up, self._ready = image, True, True
        self._on_image(image, changed)

    def _is_shown(self, image: MetadataImage) -> bool:
        if self._every_offset:
            return image.offset == self._image.offset
        return image.same_content(self._image)

    def _changed_since_shown(self, image: MetadataImage) -> Generator[None, None, tuple[str, ...]]:
        """The paths of the quota entities that differ; those of an open transaction do not yet."""
        if not self._ready:
            return ()
        before, after = self._image.quotas.limits, image.quotas.limits
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

    def _refuse_after_fault(self) -> None:
        if self._fault is not None:
            raise MetadataError(f"the metadata log could not be applied and is not read on: {self._fault}")


def _exhaust(steps: Iterator[None]) -> None:
    for _ in steps:
        pass
