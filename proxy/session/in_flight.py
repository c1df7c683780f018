"""Requests in flight on one connection, in the order in which the client sent them.

One class for each way in which the response to a request is treated. The broker responds in order; a response
of the proxy's own waits in the queue until those before it have left, so that a client gets its responses in
the order of its requests. Held by proxy.session.machine. `PlainResponse` is a Produce response that needs no
change: proxy.session.data.fast_lane builds it for a request, and compares the response with its bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from typing import Any, ClassVar

from proxy.quota.throttle import Bucket
from proxy.session.accounting.request_counts import Durations, RequestCounts, add
from proxy.session.accounting.summaries import Summary
from proxy.session.call import Call, ResponseHandler
from proxy.session.client_state import FIRST_PRODUCE_WITH_TOPIC_ID, ClientState

FIRST_WITH_ENDPOINTS = 10
"""From here on a Produce response may name the address of the leader (KIP-951), which has to be a proxy's."""
_ONE = b"\x02"  # The count of a compact array of one element.
_NO_TAGS = b"\x00"

Fields = Callable[[memoryview, int], tuple[int, int, bytes, bytes]]

MAX_IN_FLIGHT = 8
"""Requests of one connection; beyond this no further one is taken. A broker handles one at a time: so many
keep it busy, and no more are ahead of a login, a drain or a revocation."""
_GOES_ON_AT = MAX_IN_FLIGHT // 2
MAX_READY_BYTES = 1 << 20
"""Bytes of the proxy's own responses behind the broker's; beyond this no further request is taken."""
ENTRY_BYTES = 1024
"""Approximate memory of a request in flight; with its decoded request and its handler it may be twice
that."""
_HELD_FACTOR, _AWAITED_FACTOR = 6, 18
_MAX_DECODED_BYTES = 10_000_000
"""Of a decoded request for each of its bytes, and at most: elements take more than on the wire."""
_READY_BYTES = 256
"""Approximate memory of a response that waits, besides its bytes: many small ones count too."""


@dataclass(slots=True, eq=False)
class PlainResponse:
    """A response for one partition without an error: a broker adds no addresses to it (KIP-951)."""

    fields: Fields
    """Reads its length, its correlation id, what has to equal `head`, and what has to equal `no_error`."""
    min_bytes: int
    """Without its length prefix it has at least this many."""
    head: bytes
    """From the header's tags to the count of partitions; empty in versions without addresses."""
    no_error: bytes

    @classmethod
    def of(cls, version: int, topic: bytes) -> "PlainResponse":
        """The response to a request for this topic: its name or its id, as on the wire."""
        if version < FIRST_WITH_ENDPOINTS:
            return _WITHOUT_ENDPOINTS
        return _with_endpoints(
            topic if version >= FIRST_PRODUCE_WITH_TOPIC_ID else bytes([len(topic) + 1]) + topic
        )


_WITHOUT_ENDPOINTS = PlainResponse(Struct(">ii0s0s").unpack_from, 4, b"", b"")


@lru_cache(maxsize=1_024)
def _with_endpoints(topic: bytes) -> PlainResponse:
    """One for all connections; names in these versions have at most 254 bytes."""
    head, no_error = _NO_TAGS + _ONE + topic + _ONE, b"\x00\x00"
    # Length, correlation id, the head, the partition's index, its error.
    layout = Struct(f">ii{len(head)}s4x{len(no_error)}s")
    return PlainResponse(layout.unpack_from, layout.size - 4, head, no_error)


@dataclass(slots=True, eq=False)
class InFlight:
    """One request whose response has not left yet."""

    api_key: int
    version: int
    correlation_id: int
    client: ClientState | None = None
    """Whose request it is; None: the proxy's own, or a request between brokers, to which no quota applies."""
    since_ms: int = 0
    """When it was sent to the broker, or taken if it is not sent there."""
    queued_ms: int = 0
    """From being taken to `since_ms`: the broker was queried first."""
    durations: Durations | None = None
    """The durations in which it is counted if its response is sent on at once; None: it is not counted."""
    holds_back: bool = field(default=False, kw_only=True)
    """No further request is taken before its response has left: it may mute the client, or wait at the broker
    for as long as the client likes (`Api.held`). What comes behind it is decided when its turn has come."""

    is_whole: ClassVar[bool] = False
    """Whether its response is received whole before any of it is sent to the client."""

    @property
    def taken_bytes(self) -> int:
        """Approximate memory of what is held of a decoded request until its response is here."""
        return 0

    def count(self, counts: RequestCounts, responded_ms: int, now_ms: int) -> None:
        """Count the duration of the broker's response, which came at `responded_ms` and is sent on now."""
        if self.durations is None:
            return
        broker_ms = responded_ms - self.since_ms
        if not self.queued_ms and responded_ms == now_ms:
            add(self.durations, broker_ms)
        else:
            add(counts.at_broker[self.api_key], broker_ms)
            add(counts.through[self.api_key], now_ms - self.since_ms + self.queued_ms)


@dataclass(slots=True, eq=False)
class Passing(InFlight):
    """Its response passes in pieces, as it comes."""


@dataclass(slots=True, eq=False)
class Timed(Passing):
    """Its response passes too, with the throttle time of a request quota in its head (KIP-124)."""


@dataclass(slots=True, eq=False)
class Fetched(InFlight):
    """A Fetch: the head of its response is read, and the records stream."""

    bucket: Bucket | None = None
    """The bucket for its response; None: no quota limits it."""
    summary: Summary | None = None
    reserved_bytes: int = 0
    """The room that it takes in the bucket until its response is here."""
    holds_back: bool = field(default=True, kw_only=True)
    opens_at: str | None = None
    """It may open a fetch session (KIP-227): the topic at which the traffic of the session is counted."""


@dataclass(slots=True, eq=False)
class EndingFetch(Fetched):
    """A Fetch that an ACL with an end allows: a response that comes past it does not reach the client."""


@dataclass(slots=True, eq=False)
class Produced(InFlight):
    """A Produce: its response is small; the throttle time and, with an error, addresses change in it."""

    request_bytes: int = 0
    bucket: Bucket | None = None
    """The bucket for the request; None: no quota limits it."""
    summary: Summary | None = None
    plain: PlainResponse | None = None
    """A response that looks like this passes as it is, unless there is a throttle time."""
    throttle_time_ms: int = 0
    """For its bytes, which were charged when the last of them came."""

    is_whole = True


@dataclass(slots=True, eq=False)
class ProducedToSeveral(Produced):
    """A Produce to several partitions, none of them denied: a response without an error passes as it is."""


@dataclass(slots=True, eq=False)
class Rewritten(InFlight):
    """Its response is decoded, changed by a handler, and encoded again."""

    call: Call | None = None
    """Its decisions are recorded after the handler has run, which may decide too."""
    handler: ResponseHandler | None = None
    raw: tuple[str, ...] = ()
    """The fields of the response that the handler leaves as bytes."""
    in_place: Callable[[bytes], bytes | None] | None = None
    """See Forward."""
    request_bytes: int = 0
    bucket: Bucket | None = None
    """The bucket for the request (Produce) or the response (Fetch, ShareFetch)."""
    summary: Summary | None = None
    throttle_time_ms: int = 0
    """For the bytes of a Produce request."""
    reserved_bytes: int = 0
    """Of a Fetch, as in Fetched."""

    is_whole = True

    @property
    def taken_bytes(self) -> int:
        taken_bytes = 0 if self.call is None else _taken(self.call.size_bytes, _HELD_FACTOR)
        # The records of a Produce are not held, but what its denied partitions get.
        return min(taken_bytes, _MAX_DECODED_BYTES) if self.request_bytes else taken_bytes


def charge_on_arrival(entry: Produced | Rewritten, now_ms: int) -> None:
    """Charge a Produce request all of whose bytes are here, whatever becomes of it and of its client.

    A broker handles one request of a connection at a time. So once the client is over its limit, nothing more
    of its connection is taken before the response with the throttle time has left, and the pause is over.
    """
    bucket = entry.bucket
    if bucket is not None:
        entry.throttle_time_ms = bucket.record(entry.request_bytes, now_ms)
        entry.holds_back |= entry.throttle_time_ms > 0 and bucket.enforced


@dataclass(slots=True, eq=False)
class BrokerQuery(InFlight):
    """A request of the proxy's own. While the broker has it, no further request of the client is taken, so
    it is the last in flight; its response never reaches the client."""

    then: Callable[[Any], Any] = field(kw_only=True)
    """From the decoded response to the plan (proxy.session.plan) of what waited for it."""
    raw: tuple[str, ...] = field(kw_only=True, default=())
    """The fields that it does not read."""
    size_bytes: int = field(kw_only=True, default=0)
    """Of what waits."""

    is_whole = True

    @property
    def taken_bytes(self) -> int:
        return _taken(self.size_bytes, _HELD_FACTOR)


@dataclass(slots=True, eq=False)
class Ready(InFlight):
    """The proxy responds itself: `data` waits for the responses before it. Empty: it is still to come."""

    data: bytes = b""


@dataclass(slots=True, eq=False)
class Awaited(Ready):
    """The controller has it. Until it responds, no further request of the client is taken."""

    call: Call = field(kw_only=True)
    request: Any = None
    """The decoded request: an error response may have to be made from it."""
    handler: ResponseHandler | None = None
    request_bytes: int = 0

    @property
    def taken_bytes(self) -> int:
        return _taken(self.call.size_bytes, _AWAITED_FACTOR)


@dataclass(slots=True, eq=False)
class ControllerQuery(Awaited):
    """A request of the proxy's own, on behalf of the client; its response never reaches the client."""

    then: Callable[[Any, int], Any] = field(kw_only=True)
    """From the decoded response or None, and the error if there is none, to the plan of what waited for
    it."""


def _taken(size_bytes: int, factor: int) -> int:
    return min(factor * size_bytes, 2 * size_bytes + _MAX_DECODED_BYTES)


class Pipeline:
    """The queue of requests in flight: first in, first out.

    It is a list, since it is short: an empty deque takes 700 bytes, which each idle connection would hold.
    """

    __slots__ = ("queue", "ready_bytes")

    def __init__(self) -> None:
        self.queue: list[InFlight] = []
        """For the fast lane, which every request passes; all others use the methods."""
        self.ready_bytes = 0
        """Bytes of the proxy's own responses that wait."""

    @property
    def held_bytes(self) -> int:
        """Memory of requests in flight, and of responses that wait."""
        return self.ready_bytes + ENTRY_BYTES * len(self.queue)

    @property
    def taken_bytes(self) -> int:
        """Memory of what is held of decoded requests."""
        return sum([entry.taken_bytes for entry in self.queue])

    def is_full(self, *, was_full: bool) -> bool:
        """Whether no further request is taken; a queue that `was_full` has to be half empty first."""
        queue, limit = self.queue, _GOES_ON_AT if was_full else MAX_IN_FLIGHT
        if queue and (len(queue) >= limit or queue[-1].holds_back):
            return True
        return self.ready_bytes > MAX_READY_BYTES

    def __len__(self) -> int:
        return len(self.queue)

    def push_ready(self, data: bytes, durations: Durations | None, since_ms: int) -> None:
        """Add an own response, behind those in flight, to a request taken at `since_ms`."""
        self.queue.append(Ready(-1, -1, -1, since_ms=since_ms, durations=durations, data=data))
        self.ready_bytes += _READY_BYTES + len(data)

    def complete(self, entry: Awaited, data: bytes) -> None:
        """Add the response of the controller to `entry`."""
        entry.data = data
        self.ready_bytes += _READY_BYTES + len(data)

    def head(self) -> InFlight | None:
        return self.queue[0] if self.queue else None

    def last(self) -> InFlight | None:
        """Return the newest request."""
        return self.queue[-1] if self.queue else None

    def pop_ready(self, now_ms: int) -> list[bytes]:
        """Remove and return the proxy's own responses at the head of the queue."""
        ready: list[bytes] = []
        queue = self.queue
        while queue and isinstance(entry := queue[0], Ready) and entry.data:
            queue.pop(0)
            if entry.durations is not None:
                add(entry.durations, now_ms - entry.since_ms)
            self.ready_bytes -= _READY_BYTES + len(entry.data)
            ready.append(entry.data)
        return ready
