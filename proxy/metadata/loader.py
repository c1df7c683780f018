"""Batches of the metadata log in, images out.

Fed by whoever follows the log (proxy.net.metadata_feed, the controller, `penstock shell`), one call
per batch, in log order. Nothing is shown before the high-water mark read at start is reached: an
authorizer that answers from half a log would let pass what a later DENY forbids (KIP-801). From
then on each batch appears at once and whole, and a re-read appears only when it has caught up.
Knows nothing of topics, fetches or snapshot files.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from proxy.metadata.delta import IGNORED_API_KEYS, TOPIC_API_KEYS, MetadataDelta
from proxy.metadata.errors import MetadataError
from proxy.metadata.image import MetadataImage, QuotasImage
from proxy.wire import metadata_records
from proxy.wire.errors import WireError

__all__ = ["Loader", "MetadataError"]

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
        self._start_over(MetadataImage.EMPTY)

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
        self._show()

    def reload_until(self, high_water_offset: int) -> None:
        """Read the log again from offset 0; the old image serves until the new one has caught up."""
        self._start_over(MetadataImage.EMPTY)
        self._caught_up = False
        self.load_until(high_water_offset)

    def batch(self, last_offset: int, values: Sequence[bytes | memoryview | None]) -> MetadataImage:
        """Apply one batch whose last offset is `last_offset`, and return the image shown after it.

        A batch of control records, or one that compaction emptied, has no values and still moves
        the offset on. A batch already applied changes nothing. A null value is a tombstone: it only
        finishes what a Remove record did. MetadataError names offset and record.
        """
        self._refuse_after_fault()
        if last_offset < self._next_offset:
            return self._image
        self._stop_on_fault(self._replay_batch, last_offset, values)
        self._next_offset = last_offset + 1
        self._show()
        return self._image

    def snapshot(self, last_offset: int, values: Iterable[bytes | memoryview]) -> MetadataImage:
        """Replace everything by a snapshot that covers the log up to `last_offset`, all at once."""
        self._refuse_after_fault()
        if last_offset < self._next_offset - 1:
            self._stop(
                f"a snapshot that ends at offset {last_offset}, before the image's {self._next_offset - 1}"
            )
        self._start_over(MetadataImage.EMPTY)
        self._caught_up = False
        self._stop_on_fault(self._replay_batch, last_offset, list(values))
        self._next_offset = last_offset + 1
        self._show()
        return self._image

    def _start_over(self, base: MetadataImage) -> None:
        self._next_offset = base.offset + 1
        self._in_transaction = False
        self._build_on(base)

    def _build_on(self, base: MetadataImage) -> None:
        self._base = base
        self._delta = MetadataDelta(base, compacted=self._compacted)
        self._changed_quota_paths: dict[str, None] = {}

    def _replay_batch(self, last_offset: int, values: Sequence[bytes | memoryview | None]) -> None:
        for index, value in enumerate(values):
            try:
                if value is not None and not metadata_records.is_one_of(value, self._skipped):
                    record = metadata_records.decode_record(value)
                    self._replay(record, last_offset - len(values) + 1 + index)
            except (MetadataError, WireError) as error:
                raise MetadataError(f"record {index + 1} of {len(values)}: {error}") from error

    def _replay(self, record: Any, offset: int) -> None:
        kind = type(record).__name__
        if kind == "BeginTransactionRecord":
            self._begin_transaction(offset)
        elif kind == "EndTransactionRecord":
            self._in_transaction = False
        elif kind == "AbortTransactionRecord":
            self._in_transaction = False
            self._delta = MetadataDelta(self._base, compacted=self._compacted)
        else:
            self._delta.replay(record)

    def _begin_transaction(self, offset: int) -> None:
        # KIP-868: what follows becomes visible at its end, or never. So what came before is settled.
        changed = {**self._changed_quota_paths, **dict.fromkeys(self._delta.changed_quota_paths)}
        self._build_on(self._delta.apply(offset - 1))
        self._changed_quota_paths = changed
        self._in_transaction = True

    def _show(self) -> None:
        if self._high_water_offset is None:
            return
        if not self._caught_up and self._next_offset < self._high_water_offset:
            return
        image = self._base if self._in_transaction else self._delta.apply(self._next_offset - 1)
        self._applied_offset = image.offset
        if self._caught_up and self._is_shown(image):
            return
        changed = self._changed_since_shown(image)
        if not self._in_transaction:
            self._build_on(image)
        self._changed_quota_paths = {}
        self._image, self._caught_up, self._ready = image, True, True
        self._on_image(image, changed)

    def _is_shown(self, image: MetadataImage) -> bool:
        if self._every_offset:
            return image.offset == self._image.offset
        return image.same_content(self._image)

    def _changed_since_shown(self, image: MetadataImage) -> tuple[str, ...]:
        if not self._ready:
            return ()
        if not self._caught_up:
            return _differing_paths(self._image.quotas, image.quotas)
        shown = () if self._in_transaction else self._delta.changed_quota_paths
        return tuple({**self._changed_quota_paths, **dict.fromkeys(shown)})

    def _stop_on_fault(
        self,
        replay: Callable[[int, Sequence[bytes | memoryview | None]], None],
        last_offset: int,
        values: Sequence[bytes | memoryview | None],
    ) -> None:
        try:
            replay(last_offset, values)
        except MetadataError as error:
            self._stop(f"in the batch that ends at offset {last_offset}: {error}", error)

    def _stop(self, fault: str, cause: Exception | None = None) -> None:
        self._fault = fault
        raise MetadataError(f"the metadata log cannot be applied: {fault}") from cause

    def _refuse_after_fault(self) -> None:
        if self._fault is not None:
            raise MetadataError(f"the metadata log could not be applied and is not read on: {self._fault}")


def _differing_paths(before: QuotasImage, after: QuotasImage) -> tuple[str, ...]:
    entities = {**before.limits, **after.limits}
    return tuple(e.path for e in entities if before.limits.get(e) != after.limits.get(e))
