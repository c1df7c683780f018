"""The client states that a session has left behind, and what is still counted in them.

A connection has one client id, as a rule. Where it changes from request to request the states of the latest
ids are kept, so that none has to be written out because another one came; what was counted under older ones
is added up as that of many (docs/decisions/0043). A fetch is asked under one image, and its answer may come
under the next: its bytes belong to the state of the first. Fed by proxy.session.session when it takes another
client state; gives back summaries of those that were left.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from proxy.audit.record import AuditEvent
from proxy.security.authorizer import RequestContext
from proxy.session.client_state import MAX_TOPICS, ClientState
from proxy.session.in_flight import InFlight, Pipeline

MAX_KEPT = 16
"""Client ids of one connection whose states are kept at a time, beside the one in use."""
MANY = "several client ids of one connection"
"""`message` of a summary that counts what no single client id is told for."""

Complete = Callable[[AuditEvent, RequestContext], AuditEvent]


@dataclass(slots=True, eq=False)
class _Left:
    """A state that was left, with the last request that can be its own: None when all are answered."""

    client: ClientState
    last: InFlight | None
    many: ClientState | None = None
    """Where its counts go; None: it is told by itself."""


class FormerClients:
    """No more than MAX_KEPT, and those of whose requests some may not be answered yet."""

    __slots__ = ("_answering", "_kept", "_last", "_many", "_pipeline")

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._kept: dict[
            bytes | None, _Left
        ] = {}  # Of the image and principal of now, by raw id; oldest first.
        self._answering: list[_Left] = []
        self._many: ClientState | None = None
        self._last: InFlight | None = None  # The newest request when the state in use was taken.

    def add(self, client: ClientState) -> None:
        """One that was drained just now, with all others: its image or its principal has gone."""
        in_flight = self._in_flight()
        left = [*self._kept.values(), self._left(client)]
        self._answering += [each for each in left if id(each.last) in in_flight]
        self._kept.clear()
        self._many = None
        self._last = self._pipeline.last()

    def switch(self, client: ClientState, raw_id: bytes, now_ms: int) -> ClientState | None:
        """Another client id at the same image: keep the state in use; the one of that id, if it is kept."""
        taken = self._kept.pop(raw_id, None)
        self._kept[client.raw_id] = self._left(client)
        size = sum(left.client.size for left in self._kept.values())
        while len(self._kept) > MAX_KEPT or (size > MAX_TOPICS and len(self._kept) > 1):
            oldest = self._kept.pop(next(iter(self._kept)))
            size -= oldest.client.size
            self._add_to_many(oldest, now_ms)
        # One with requests on their way may still have them when it is left again.
        self._last = None if taken is not None and taken.last is not None else self._pipeline.last()
        return None if taken is None else taken.client

    @property
    def is_full(self) -> bool:
        """What was added up is as much as one client may have: it has to be written out."""
        return self._many is not None and self._many.is_full()

    def drain(self, now_ms: int, complete: Complete) -> list[AuditEvent]:
        """What was counted since the last time; those with nothing in flight any more are forgotten."""
        if not (self._kept or self._answering or self._many):
            return []
        alone = [left.client for left in (*self._answering, *self._kept.values()) if left.many is None]
        many = self._added_up(now_ms)
        self._forget_answered()
        in_flight = self._in_flight()
        self._kept = {raw_id: left for raw_id, left in self._kept.items() if id(left.last) in in_flight}
        events = [complete(e, client.context) for client in alone for e in client.drain(now_ms, _unchanged)]
        return events + [
            complete(e, client.context) for client in many for e in client.drain(now_ms, _of_many)
        ]

    def _left(self, client: ClientState) -> _Left:
        last = self._pipeline.last()
        # Without a request since it was taken, it waits for nothing.
        return _Left(client, None if last is self._last else last)

    def _add_to_many(self, left: _Left, now_ms: int) -> None:
        if self._many is None:
            of_all = replace(left.client.context, client_id=None)
            self._many = ClientState(None, of_all, left.client.basis, None)
        self._many.absorb(left.client, now_ms)
        if left.last is not None:
            left.many = self._many
            self._answering.append(left)
            if len(self._answering) > 2 * len(self._pipeline) + MAX_KEPT:
                self._added_up(now_ms)
                self._forget_answered()

    def _added_up(self, now_ms: int) -> list[ClientState]:
        """Each state that counts for many, with what has come to those it counts for."""
        many = {} if self._many is None else {id(self._many): self._many}
        for left in self._answering:
            if left.many is not None:
                left.many.absorb(left.client, now_ms)
                many[id(left.many)] = left.many
        return list(many.values())

    def _forget_answered(self) -> None:
        in_flight = self._in_flight()
        self._answering = [left for left in self._answering if id(left.last) in in_flight]

    def _in_flight(self) -> set[int]:
        return {id(entry) for entry in self._pipeline.queue}


def _unchanged(event: AuditEvent) -> AuditEvent:
    return event


def _of_many(event: AuditEvent) -> AuditEvent:
    """A quota-id may have a client id in it: what several ones used is no one quota's."""
    event.message = MANY
    event.quota_id = event.quota_limit = None
    return event
