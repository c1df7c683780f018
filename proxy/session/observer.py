"""The interface of an observer, which watches the requests of one session: tracing (proxy.net) is one."""

from collections import deque
from typing import Protocol

from proxy.audit.record import AuditEvent
from proxy.quota.throttle import Bucket
from proxy.session.call import Call
from proxy.session.client_state import ClientState
from proxy.session.in_flight import InFlight


class Observer(Protocol):
    """A session calls these as things happen. Every request in flight also enters and leaves `queue`."""

    @property
    def queue(self) -> deque[InFlight]:
        """The queue of requests in flight; a class of its own may note what enters and leaves it."""

    @property
    def traceparent(self) -> str | None:
        """Names the trace span of the request that the controller gets next (W3C Trace Context)."""

    def frame_taken(self, frame: memoryview, *, logged_in: bool) -> None:
        """A whole frame is about to be decoded."""

    def response_made(self, data: bytes, client: ClientState) -> None:
        """The proxy's own response is sent, or has entered the queue."""

    def denied(self, call: Call) -> None:
        """Something in the request is denied."""

    def forwarded(self, event: AuditEvent) -> None:
        """The controller has responded; this is the record of it."""

    def throttled(self, bucket: Bucket, throttle_time_ms: int) -> None:
        """The response that leaves next makes its client wait."""

    def received(self, data: memoryview) -> None:
        """The broker has sent this; not called for responses that `passing` announces."""

    def passing(self, response_bytes: int) -> None:
        """A whole response is about to pass; 0: it has passed, or it does not. Only while
        `watches_responses`."""

    def closed(self) -> None:
        """The connection is over."""
