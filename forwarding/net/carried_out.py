"""The last forwards that the log has, by their ids: how a new controller knows what an earlier one has done.

Fed by the metadata feed with each transaction before it is applied, asked by forwarding.net.writer when a
forward comes. Bounded: the oldest go first; a proxy asks again within its client's own time-out.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from forwarding.net.log import FORWARD_ID_HEADER
from proxy.metadata.acl import Acl, uuid_text
from proxy.metadata.acls_delta import acl_from_record
from proxy.metadata.image import MetadataImage
from proxy.net.metadata.transactions import Committed
from proxy.wire import metadata_records, types
from proxy.wire.message import Message

MAX_FORWARDS = 500


@dataclass(frozen=True, slots=True)
class Transaction:
    """What one forward has put into the log."""

    records: tuple[Message, ...]
    offsets: tuple[int, int]
    removed: dict[str, Acl]
    """The ACLs that it removed, by id, as far as they are known."""


@dataclass(frozen=True, slots=True)
class _Kept:
    step: Committed
    before: MetadataImage
    """The image in force when it was read; behind while the feed is catching up."""


class CarriedOut:
    """Forward id -> its transaction."""

    def __init__(self, image: Callable[[], MetadataImage], max_forwards: int = MAX_FORWARDS) -> None:
        self._image = image
        self._max_forwards = max_forwards
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def note(self, step: Committed) -> None:
        """A transaction of the log, not yet applied."""
        forward_id = next((value for key, value in step.headers if key == FORWARD_ID_HEADER), None)
        if forward_id is None:
            return
        self._kept[forward_id.decode("utf-8", "replace")] = _Kept(step, self._image())
        while len(self._kept) > self._max_forwards:
            self._kept.popitem(last=False)

    def find(self, forward_id: str | None) -> Transaction | None:
        """None: the log has nothing of it, as far back as is known."""
        kept = None if forward_id is None else self._kept.get(forward_id)
        if kept is None or kept.step.offsets is None:
            return None
        records = _records(kept.step)
        gone = [
            uuid_text(bytes(r.id)) for r in records if isinstance(r, types.RemoveAccessControlEntryRecord)
        ]
        return Transaction(records, kept.step.offsets, self._acls(gone, kept.before))

    def _acls(self, ids: list[str], before: MetadataImage) -> dict[str, Acl]:
        known = {acl_id: before.acls.by_id[acl_id] for acl_id in ids if acl_id in before.acls.by_id}
        if len(known) < len(ids):
            # Made after that image: by one of the forwards that are kept too.
            known |= {acl.id: acl for acl in self._created() if acl.id in ids}
        return known

    def _created(self) -> Iterator[Acl]:
        for record in chain.from_iterable(_records(kept.step) for kept in self._kept.values()):
            if isinstance(record, types.AccessControlEntryRecord):
                yield acl_from_record(record)


def _records(step: Committed) -> tuple[Message, ...]:
    return tuple(metadata_records.decode_record(value) for value in step.values)
