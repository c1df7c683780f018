"""What is still to be counted under a client id, a principal or an image that a session has left behind.

A fetch is asked under one image, and its answer may come under the next: its bytes belong to the summary of
the first, which was written out by then. Fed by proxy.session.session when it takes a new client state; gives
back the summaries that were added to since.
"""

from collections.abc import Callable

from proxy.audit.record import AuditEvent
from proxy.security.authorizer import RequestContext
from proxy.session.client_state import ClientState
from proxy.session.pipeline import InFlight, Pipeline


class FormerClients:
    """Those of whose requests some may not be answered yet; never more than requests are in flight."""

    __slots__ = ("_known", "_pipeline")

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._known: list[tuple[ClientState, InFlight]] = []  # With the last request that can be theirs.

    def add(self, client: ClientState) -> None:
        """One that was drained just now; what is in flight is its own, or that of one before it."""
        last = self._pipeline.last()
        if last is not None and not (self._known and self._known[-1][1] is last):
            self._known.append((client, last))

    def drain(
        self, now_ms: int, complete: Callable[[AuditEvent, RequestContext], AuditEvent]
    ) -> list[AuditEvent]:
        """What was counted since the last time; those with nothing in flight any more are forgotten."""
        if not self._known:
            return []
        events = [
            complete(event, client.context)
            for client, _ in self._known
            for event in client.drain(now_ms, lambda event: event)
        ]
        self._known = [(client, last) for client, last in self._known if self._pipeline.holds(last)]
        return events
