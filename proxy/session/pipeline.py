"""Requests in flight on one connection, in the order the client sent them.

Kept by proxy.session.session. The broker answers in order; an answer we make ourselves waits here until
those before it have left, so that a client sees its answers in the order of its requests.
"""

from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from proxy.quota.throttle import Bucket
from proxy.session.call import Call, ReplyHandler
from proxy.session.client_state import ClientState
from proxy.session.request_counts import Durations, add
from proxy.session.streamed import PlainAnswer
from proxy.session.summaries import Summary

MAX_IN_FLIGHT = 1_000
"""Requests of one connection; beyond it no further one is taken. A broker handles one at a time."""
_GOES_ON_AT = MAX_IN_FLIGHT // 2
MAX_READY_BYTES = 1 << 20
"""Of our own responses that wait behind the broker's; beyond it no further request is taken."""
ENTRY_BYTES = 1024
"""What a request in flight costs, roughly; with its decoded request and its handler it may be twice that."""


class Reply(IntEnum):
    """How the answer to a request in flight is treated."""

    PASS = 0  # As it comes, in chunks.
    PRODUCE = 1  # Whole (it is small): throttle time and, on an error, addresses.
    FETCH = 2  # Only its head is looked at; the records stream through.
    HELD = 3  # Whole: decoded, changed by a handler, encoded.
    READY = 4  # Ours: the bytes are there already.
    AWAITED = 5  # Ours to come: the controller has the request.
    OWN = 6  # To a question of ours: whole, for its handler alone.
    TIMED = 7  # As PASS, but for the throttle time of a request quota in its head.
    TIMED_PRODUCE = 8  # As PRODUCE, and the same.


@dataclass(slots=True)
class InFlight:
    """One request whose answer has not left yet."""

    reply: Reply
    api_key: int
    version: int
    correlation_id: int
    request_bytes: int = 0
    bucket: Bucket | None = None
    """What the request (produce) or its answer (fetch) is paid from; None: nothing limits it."""
    summary: Summary | None = None
    client: ClientState | None = None
    """Whose request it is; None: a question of ours, or a request that no quota is for."""
    handler: ReplyHandler | None = None
    raw: tuple[str, ...] = ()
    """The fields that the handler leaves as bytes."""
    fetch_topic: str | None = None
    """Of a fetch that may open a session: the topic its traffic is counted at."""
    data: bytes = b""
    request: Any = None
    """The decoded request, where an error answer may have to be made from it."""
    call: Call | None = None
    """Where the handler decides too: what it decided is noted after it."""
    plain: PlainAnswer | None = None
    """An answer like this passes as it is, if nothing is to be told in it."""
    since_ms: int = 0
    """When it was sent on, or taken where it is not sent to the broker."""
    took: Durations | None = None
    """Where it is counted how long it took, if its response passes; None: it is not counted."""
    held_ms: int = 0
    """From its being taken to `since_ms`: something was asked first."""
    broker_ms: int = -1
    """From `since_ms` to the broker's response, where that does not leave at once; -1: it does."""


_READY_BYTES = 256
"""What an entry costs beside its bytes, roughly: many small answers count too."""


class Pipeline:
    """First in, first out."""

    __slots__ = ("queue", "ready_bytes")

    def __init__(self) -> None:
        self.queue: deque[InFlight] = deque()
        """For the ways that every request goes; all others ask the methods."""
        self.ready_bytes = 0
        """Of our own answers that wait."""

    @property
    def held_bytes(self) -> int:
        """Of requests in flight, and of our own responses that wait."""
        return self.ready_bytes + ENTRY_BYTES * len(self.queue)

    def is_full(self, *, was_full: bool) -> bool:
        """Whether no further request is taken; one that `was_full` has to be half empty first."""
        limit = _GOES_ON_AT if was_full else MAX_IN_FLIGHT
        return len(self.queue) >= limit or self.ready_bytes > MAX_READY_BYTES

    @property
    def traceparent(self) -> str | None:
        """Names the trace span of what the controller gets next, if requests here are traced."""
        # A queue that traces is another class (proxy.net.traced_session).
        return getattr(self.queue, "traceparent", None)

    def __len__(self) -> int:
        return len(self.queue)

    def push(self, entry: InFlight) -> None:
        self.queue.append(entry)

    def push_ready(self, data: bytes, took: Durations | None, since_ms: int) -> None:
        """An answer of ours, behind those that are on their way, to a request taken at `since_ms`."""
        self.queue.append(InFlight(Reply.READY, -1, -1, -1, data=data, since_ms=since_ms, took=took))
        self.ready_bytes += _READY_BYTES + len(data)

    def make_ready(self, entry: InFlight, data: bytes) -> None:
        """The controller's answer to `entry` is there."""
        entry.reply, entry.data = Reply.READY, data
        self.ready_bytes += _READY_BYTES + len(data)

    def forget_last(self) -> None:
        """The newest request will get no answer: the connection is to end."""
        self.queue.pop()

    def head(self) -> InFlight | None:
        return self.queue[0] if self.queue else None

    def last(self) -> InFlight | None:
        """The newest request."""
        return self.queue[-1] if self.queue else None

    def holds(self, entry: InFlight) -> bool:
        """Whether its answer has not left yet."""
        return any(each is entry for each in self.queue)

    def pop(self) -> InFlight:
        return self.queue.popleft()

    def pop_ready(self, now_ms: int) -> list[bytes]:
        """Our own answers that now stand first, and leave."""
        ready: list[bytes] = []
        queue = self.queue
        while queue and queue[0].reply is Reply.READY:
            entry = queue.popleft()
            if entry.took is not None:
                add(entry.took, now_ms - entry.since_ms)
            data = entry.data
            self.ready_bytes -= _READY_BYTES + len(data)
            ready.append(data)
        return ready
