"""The client states that a session no longer uses, and what is still counted in them.

A connection has one client id, as a rule. If it changes from request to request, the states of the latest ids
are stored, so that a state is not recorded each time another one comes into use; the counts of older ids are
added up (docs/decisions/0043). A fetch may be requested at one image, and its response may come at the next:
its bytes belong to the state of the first. proxy.session.machine adds a state when another comes into use,
and gets summaries.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from proxy.audit.record import AuditEvent
from proxy.metadata.quota_entity import MAX_NAME_CHARACTERS
from proxy.session.accounting.summaries import SummaryRoom
from proxy.session.client_state import MAX_TOPICS, ClientState
from proxy.session.in_flight import InFlight, Pipeline

MAX_REMEMBERED = 16
"""Client ids of one connection whose states are stored, besides the one in use."""
_LONG_BYTES = 4 * MAX_NAME_CHARACTERS
"""The state of a longer id is not stored: there may be very many connections."""
MANY = "several client ids of one connection"
"""`message` of a summary for several client ids."""

Complete = Callable[[AuditEvent, ClientState], AuditEvent]


@dataclass(slots=True, eq=False)
class _Former:
    """A state that is not in use, with its last request in flight; None: none is."""

    client: ClientState
    last: InFlight | None
    many: ClientState | None = None
    """The state that its counts are added to; None: it has summaries of its own."""


class FormerClients:
    """Stores at most MAX_REMEMBERED states, and those with requests that may still be in flight."""

    __slots__ = ("_last", "_many", "_pending", "_pipeline", "_stored")

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._stored: dict[
            bytes | None, _Former
        ] = {}  # Of the present image and principal, by raw id; oldest first.
        self._pending: Sequence[_Former] = ()
        self._many: ClientState | None = None
        self._last: InFlight | None = None  # The newest request when the state in use came into use.

    def add(self, client: ClientState) -> None:
        """Add a state that was just drained, with all others: another image or principal is in use."""
        in_flight = self._in_flight()
        former = [*self._stored.values(), self._former(client)]
        self._pending = [*self._pending, *(each for each in former if id(each.last) in in_flight)]
        self._stored.clear()
        self._many = None
        self._last = self._pipeline.last()

    def switch(self, client: ClientState, raw_id: bytes, now_ms: int) -> ClientState | None:
        """Store the state in use and return the stored one of another client id, at the same image."""
        stored = self._stored.pop(raw_id, None)
        if len(client.raw_id or b"") > _LONG_BYTES:
            self._add_to_many(self._former(client), now_ms)
        else:
            self._stored[client.raw_id] = self._former(client)
        size = sum(former.client.size for former in self._stored.values())
        while len(self._stored) > MAX_REMEMBERED or (size > MAX_TOPICS and len(self._stored) > 1):
            oldest = self._stored.pop(next(iter(self._stored)))
            size -= oldest.client.size
            self._add_to_many(oldest, now_ms)
        # A state with requests in flight may still have them when it goes out of use again.
        self._last = None if stored is not None and stored.last is not None else self._pipeline.last()
        return None if stored is None else stored.client

    @property
    def is_full(self) -> bool:
        """Whether the sum of older ids has as many entries as one client may have, and has to be recorded."""
        return self._many is not None and self._many.is_full()

    @property
    def has_any(self) -> bool:
        """Whether a state is stored, or has requests that may still be in flight."""
        return bool(self._stored or self._pending or self._many)

    @property
    def weight(self) -> int:
        """See ClientState."""
        return sum(client.weight for client in self.clients()) if self.has_any else 0

    def clients(self) -> Iterator[ClientState]:
        for former in (*self._pending, *self._stored.values()):
            yield former.client
        if self._many is not None:
            yield self._many

    def drain(self, now_ms: int, complete: Complete, room: SummaryRoom) -> list[AuditEvent]:
        """Return summaries of what was counted since the last time; forget states with nothing in flight."""
        if not self.has_any:
            return []
        alone = [former.client for former in (*self._pending, *self._stored.values()) if former.many is None]
        many = self._added_up(now_ms)
        self._forget_completed()
        in_flight = self._in_flight()
        self._stored = {
            raw_id: former for raw_id, former in self._stored.items() if id(former.last) in in_flight
        }
        events = [
            complete(e, client) for client in alone for e in client.drain(now_ms, lambda event: event, room)
        ]
        return events + [complete(e, client) for client in many for e in client.drain(now_ms, _of_many, room)]

    def _former(self, client: ClientState) -> _Former:
        last = self._pipeline.last()
        # Without a request since it came into use, nothing is in flight.
        return _Former(client, None if last is self._last else last)

    def _add_to_many(self, former: _Former, now_ms: int) -> None:
        if self._many is None:
            of_all = replace(former.client.context, client_id=None)
            self._many = ClientState(None, of_all, former.client.basis, None)
        self._many.absorb(former.client, now_ms)
        if former.last is not None:
            former.many = self._many
            self._pending = [*self._pending, former]
            if len(self._pending) > 2 * len(self._pipeline) + MAX_REMEMBERED:
                self._added_up(now_ms)
                self._forget_completed()

    def _added_up(self, now_ms: int) -> list[ClientState]:
        """Return the states that count for several ids, with what those have counted since."""
        many = {} if self._many is None else {id(self._many): self._many}
        for former in self._pending:
            if former.many is not None:
                former.many.absorb(former.client, now_ms)
                many[id(former.many)] = former.many
        return list(many.values())

    def _forget_completed(self) -> None:
        in_flight = self._in_flight()
        self._pending = [former for former in self._pending if id(former.last) in in_flight]

    def _in_flight(self) -> set[int]:
        return {id(entry) for entry in self._pipeline.queue}


def _of_many(event: AuditEvent) -> AuditEvent:
    """A quota-id may contain a client id: what several ids have used belongs to no single quota."""
    event.message = MANY
    event.quota_id = event.quota_limit = None
    return event
