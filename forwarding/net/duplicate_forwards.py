"""The last forwards, for proxies that retry: what the log has of them, and this controller's responses.

After a lost connection a proxy does not know whether its request was carried out; it retries with the same
forward id. The metadata feed calls `note` of CommittedForwards with each transaction before it is applied, so
that a controller knows what an earlier one has committed. Both are bounded, the oldest forwards are dropped
first; a proxy retries only within its client's request timeout.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from forwarding.envelope import ForwardedRequest, Sender
from forwarding.net.log import FORWARD_ID_HEADER
from proxy.metadata.acl import Acl, uuid_text
from proxy.metadata.delta import acl_from_record
from proxy.metadata.image import MetadataImage
from proxy.metadata.signatures import LogVerifier
from proxy.net.metadata.transactions import Committed
from proxy.wire import metadata_records, types
from proxy.wire.message import Message

MAX_FORWARDS = 500


@dataclass(frozen=True, slots=True)
class Transaction:
    """The records that one forward has committed."""

    records: tuple[Message, ...]
    offsets: tuple[int, int]
    removed: dict[str, Acl]
    """The ACLs that it removed, by id, as far as they are known."""


@dataclass(frozen=True, slots=True)
class _Entry:
    step: Committed
    before: MetadataImage
    """The image when the transaction was read; it is older while the feed catches up."""


class CommittedForwards:
    """Forward id -> its transaction."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        verifier: LogVerifier | None = None,
        max_forwards: int = MAX_FORWARDS,
    ) -> None:
        """`verifier`: a transaction that is not signed is none of a controller's; None: all are."""
        self._verifier = verifier
        self._image = image
        self._max_forwards = max_forwards
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def note(self, step: Committed) -> None:
        """Remember a transaction of the log that is not yet applied."""
        forward_id = next((value for key, value in step.headers if key == FORWARD_ID_HEADER), None)
        if forward_id is None:
            return
        verifier = self._verifier
        if verifier is not None and verifier.rejects and not verifier.signs(step.values, step.proofs):
            return
        self._entries[forward_id.decode("utf-8", "replace")] = _Entry(step, self._image())
        while len(self._entries) > self._max_forwards:
            self._entries.popitem(last=False)

    def find(self, forward_id: str | None) -> Transaction | None:
        """Return the transaction of a forward, or None if the log has none as far back as is remembered."""
        entry = None if forward_id is None else self._entries.get(forward_id)
        if entry is None or entry.step.offsets is None:
            return None
        records = _records(entry.step)
        removed_ids = [
            uuid_text(bytes(r.id)) for r in records if isinstance(r, types.RemoveAccessControlEntryRecord)
        ]
        return Transaction(records, entry.step.offsets, self._acls(removed_ids, entry.before))

    def _acls(self, ids: list[str], before: MetadataImage) -> dict[str, Acl]:
        known = {acl_id: before.acls.by_id[acl_id] for acl_id in ids if acl_id in before.acls.by_id}
        if len(known) < len(ids):
            # Created after that image, by another of these forwards.
            known |= {acl.id: acl for acl in self._created() if acl.id in ids}
        return known

    def _created(self) -> Iterator[Acl]:
        for record in chain.from_iterable(_records(entry.step) for entry in self._entries.values()):
            if isinstance(record, types.AccessControlEntryRecord):
                yield acl_from_record(record)


def _records(step: Committed) -> tuple[Message, ...]:
    return tuple(metadata_records.decode_record(value) for value in step.values)


MAX_RESPONSES = 2_000
MAX_RESPONSE_BYTES = 64 * 1024 * 1024

ForwardKey = tuple[str, str]
"""The sender and its forward id: a proxy cannot get the responses to another's forwards."""


def forward_key(sender: Sender, forwarded: ForwardedRequest) -> ForwardKey | None:
    """Return the key of a forward; None from senders without ids (Kafka's brokers): they are not cached."""
    if forwarded.forward_id is None:
        return None
    return str(sender.principal), forwarded.forward_id


class ResponseCache:
    """Forward -> its EnvelopeResponse; the oldest are dropped first, by number and by bytes."""

    def __init__(self, max_responses: int = MAX_RESPONSES, max_bytes: int = MAX_RESPONSE_BYTES) -> None:
        self._responses: OrderedDict[ForwardKey, types.EnvelopeResponse] = OrderedDict()
        self._max_responses, self._max_bytes = max_responses, max_bytes
        self._bytes = 0

    def get(self, key: ForwardKey | None) -> types.EnvelopeResponse | None:
        """Return the response to an earlier attempt, or None."""
        return None if key is None else self._responses.get(key)

    def put(self, key: ForwardKey | None, response: types.EnvelopeResponse) -> None:
        """Remember a final response."""
        if key is None:
            return
        self._forget(self._responses.pop(key, None))
        self._responses[key] = response
        self._bytes += len(response.response_data or b"")
        while len(self._responses) > self._max_responses or self._bytes > self._max_bytes:
            self._forget(self._responses.popitem(last=False)[1])

    def _forget(self, response: types.EnvelopeResponse | None) -> None:
        if response is not None:
            self._bytes -= len(response.response_data or b"")
