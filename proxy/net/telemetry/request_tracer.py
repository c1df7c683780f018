"""Traces the requests of one session: each that is forwarded to the controller, and a sample of the others.

The listener gives a session a `RequestTracer` as its observer where tracing is configured; where it is not,
no request pays for it. It is the queue of requests in flight, which every request with a response goes
through, and is called for what the queue does not show. A request without a response (acks=0), those of
clients that have not logged in, and logins have no span. The attributes of a span are bounded, and contain no
records and no secrets.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import SupportsIndex

from proxy.audit.record import AuditEvent
from proxy.metadata.quota_entity import short_name
from proxy.net.telemetry.spans import OpenSpan, Tracing
from proxy.quota.throttle import Bucket
from proxy.session.accounting.request_counts import name_of_api, name_of_error
from proxy.session.accounting.response_errors import error_of
from proxy.session.authentication import Authentication
from proxy.session.call import Call
from proxy.session.client_state import ClientState
from proxy.session.gate import Gate, ListenerPolicy, Peer
from proxy.session.in_flight import (
    Awaited,
    BrokerQuery,
    ControllerQuery,
    InFlight,
    Produced,
    Ready,
    Rewritten,
)
from proxy.session.session import Session
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError
from proxy.wire.header import response_body_offset

MAX_READ_BYTES = 4_096
"""The proxy's own response is decoded once more for its error code, unless it is larger."""

CONNECTION_CLOSED = "connection_closed"
"""In place of an error code: there was no response."""

_HEAD = Struct(">ihhi").unpack_from  # length, api key, version, correlation id
_HEAD_BYTES = 12
_LOGINS = frozenset((int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)))
_append, _pop = list.append, list.pop


@dataclass(slots=True)
class _Request:
    """One request that has a span, or may get one."""

    api_key: int
    version: int
    correlation_id: int
    request_bytes: int
    start_ns: int
    is_sampled: bool
    client: ClientState | None = None
    """Whose it is, where its place in the queue does not say."""
    span: OpenSpan | None = None
    """Begun already: the controller gets its name."""
    place: int = 0
    """The so many-th that leaves the queue is this one; 0: it has not entered it."""
    is_denied: bool = False
    error_code: int | None = None
    throttle_time_ms: int = 0
    forward_id: str | None = None
    metadata_offset: int | None = None

    def is_in(self, entry: InFlight) -> bool:
        return entry.correlation_id == self.correlation_id and entry.api_key == self.api_key


class _ResponseSizes:
    """The sizes of the broker's responses, in their order, found in its bytes, cut anywhere.

    Begun between two responses.
    """

    __slots__ = ("_left_bytes", "_prefix", "known")

    def __init__(self) -> None:
        self.known: deque[int] = deque()
        """Of those that have begun and are not handed over yet, length prefixes included."""
        self._left_bytes = 0
        self._prefix = b""

    def take(self, data: memoryview) -> None:
        position, end = 0, len(data)
        while position < end:
            if self._left_bytes:
                passed = min(self._left_bytes, end - position)
                self._left_bytes -= passed
                position += passed
                continue
            needed = 4 - len(self._prefix)
            self._prefix += bytes(data[position : position + needed])
            position += needed
            if len(self._prefix) == 4:
                self._left_bytes = max(0, int.from_bytes(self._prefix, "big", signed=True))
                self.known.append(4 + self._left_bytes)
                self._prefix = b""


class RequestTracer(list[InFlight]):
    """The queue of requests in flight; it notes when one that is traced enters it, and when it leaves.

    All requests go through `append` and `pop`: what only traced ones need is done only while there is
    one.
    """

    def __init__(self, tracing: Tracing, listener: ListenerPolicy, peer: Peer) -> None:
        super().__init__()
        self._tracing = tracing
        self._sampler = tracing.sampler
        self._listener = listener
        self._peer = peer
        self.watch_responses: Callable[[bool], bool] = _unwatched
        """`Session.watch_responses`. None of the session's own references lead here from it: see `closed`."""
        self._watches = False
        self._left = 0  # How many have left the queue while there were traced ones.
        self._traced: deque[_Request] = deque()
        self._taken: _Request | None = None  # Decoded last, until it has its place here or its response.
        self._awaited: _Request | None = None  # The controller has it, or a query of the proxy about it.
        self._passing_bytes = 0  # Of the response that passes now, whole; 0: `_sizes` has it.
        self._throttle_time_ms = 0  # In the response that leaves next.
        # None: not known, since a response was under way when the request came.
        self._sizes: _ResponseSizes | None = None

    # Called by the session.

    @property
    def queue(self) -> list[InFlight]:
        return self

    @property
    def traceparent(self) -> str | None:
        request = self._awaited
        return None if request is None or request.span is None else request.span.traceparent

    def frame_taken(self, frame: memoryview, *, logged_in: bool) -> None:
        request, self._taken = self._taken, None
        if not logged_in:
            return
        if request is not None:
            self._cut_off(request)
        if len(frame) < _HEAD_BYTES:
            return
        _, api_key, version, correlation_id = _HEAD(frame)
        if api_key not in _LOGINS:
            is_sampled = self._sampler.chooses()
            now_ns = self._tracing.now_ns()
            self._taken = _Request(api_key, version, correlation_id, len(frame), now_ns, is_sampled)

    def response_made(self, data: bytes, client: ClientState) -> None:
        request = self._taken
        if request is None:
            if self._traced and self._traced[-1].client is None:
                self._traced[-1].client = client
            return
        # It is not in the queue: nothing is in flight before it.
        self._taken = None
        request.client = client
        if request.is_sampled or request.span is not None:
            _read_error(request, data)
            self._finish(request, len(data))

    def denied(self, call: Call) -> None:
        if self._taken is not None and self._taken.correlation_id == call.correlation_id:
            self._taken.is_denied = True

    def forwarded(self, event: AuditEvent) -> None:
        request = self._awaited
        if request is None:
            return
        request.forward_id, request.metadata_offset = event.forward_id, event.last_offset
        if request is not self._taken:  # Otherwise it was a query of the proxy, and the request continues.
            request.error_code = event.error_code
            request.throttle_time_ms = event.throttle_time_ms or 0

    def throttled(self, bucket: Bucket, throttle_time_ms: int) -> None:
        if bucket.enforced and self._traced:
            self._throttle_time_ms = throttle_time_ms

    def received(self, data: memoryview) -> None:
        if self._sizes is not None:
            self._sizes.take(data)

    def passing(self, response_bytes: int) -> None:
        self._passing_bytes = response_bytes

    def closed(self) -> None:
        request, self._taken = self._taken, None
        if request is not None:
            self._cut_off(request)
        while self._traced:
            self._cut_off(self._traced.popleft())
        self._watch()
        self.watch_responses = _unwatched  # Or the session would be freed by the garbage collector alone.

    # As a queue.

    def append(self, entry: InFlight, /) -> None:
        _append(self, entry)
        if self._taken is None:
            # As Sampler.chooses, without a call.
            sampler = self._sampler
            sampler.left -= 1
            if sampler.left > 0:
                return
            sampler.renew()
            self._sampled(entry)
        else:
            self._decoded(entry, self._taken)

    def pop(self, index: SupportsIndex = -1, /) -> InFlight:
        """The oldest, with 0; otherwise the newest, which gets no response."""
        if index == 0:
            entry = _pop(self, 0)
            if self._traced:
                self._has_left(entry)
            return entry
        if self._traced and self._traced[-1].place == self._left + len(self):
            self._cut_off(self._traced.pop())
            self._watch()
        return _pop(self)

    def _has_left(self, entry: InFlight) -> None:
        self._left += 1
        known = None if self._sizes is None else self._sizes.known
        size_bytes = known.popleft() if known and not isinstance(entry, Ready) else self._passing_bytes
        if self._traced[0].place == self._left:
            self._end(self._traced.popleft(), entry, size_bytes)
            self._watch()
        self._throttle_time_ms = 0

    def _sampled(self, entry: InFlight) -> None:
        """A request that was not decoded."""
        if type(entry) is Ready or isinstance(entry, BrokerQuery):
            self._sampler.left = 1  # It is none: the next one is chosen in its place.
            return
        request_bytes = getattr(entry, "request_bytes", 0)
        size_bytes = request_bytes + 4 if request_bytes else 0
        now_ns = self._tracing.now_ns()
        request = _Request(entry.api_key, entry.version, entry.correlation_id, size_bytes, now_ns, True)
        self._place(request)

    def _decoded(self, entry: InFlight, request: _Request) -> None:
        if isinstance(entry, BrokerQuery):
            return  # Something is queried first.
        if isinstance(entry, Awaited):
            request.span = request.span or self._begin(request)
            self._awaited = request
            if isinstance(entry, ControllerQuery):
                return
        elif type(entry) is not Ready and not request.is_in(entry):
            # The one that was decoded has no response: acks=0.
            self._taken = None
            if self._sampler.chooses():
                self._sampled(entry)
            return
        self._taken = None
        if request.is_sampled or request.span is not None:
            self._place(request)

    def _place(self, request: _Request) -> None:
        request.place = self._left + len(self)
        self._traced.append(request)
        self._watch()

    def _watch(self) -> None:
        """While there are traced requests, the sizes of responses are looked at."""
        watches = bool(self._traced)
        if not watches:
            self._sizes = None
        if watches != self._watches or (watches and self._sizes is None):
            self._watches = watches
            is_under_way = self.watch_responses(watches)
            self._sizes = _ResponseSizes() if watches and not is_under_way else None

    def _begin(self, request: _Request) -> OpenSpan:
        return self._tracing.spans.begin(name_of_api(request.api_key), "server", None, request.start_ns)

    def _end(self, request: _Request, entry: InFlight, size_bytes: int) -> None:
        if isinstance(entry, Ready):
            size_bytes = len(entry.data)
            if request.error_code is None:
                _read_error(request, entry.data)
        elif isinstance(entry, Produced) and entry.passes_without_error and self._passing_bytes:
            request.error_code = 0
        call = entry.call if isinstance(entry, Rewritten | Awaited) else None
        if call is not None and call.denials is not None:
            request.is_denied = True
        request.throttle_time_ms = request.throttle_time_ms or self._throttle_time_ms
        request.client = entry.client or request.client
        self._finish(request, size_bytes, entry)

    def _finish(self, request: _Request, response_bytes: int, entry: InFlight | None = None) -> None:
        span, end_ns = request.span or self._begin(request), self._tracing.now_ns()
        error = name_of_error(request.error_code) if request.error_code else None
        attributes = dict(self._attributes(request, response_bytes, entry))
        span.end(attributes, error, max(request.start_ns, end_ns))

    def _cut_off(self, request: _Request) -> None:
        """There is no response to it; of one that was merely sampled there is nothing to say."""
        if request.span is not None:
            end_ns = self._tracing.now_ns()
            attributes = dict(self._attributes(request, 0, None))
            request.span.end(attributes, CONNECTION_CLOSED, max(request.start_ns, end_ns))
            request.span = None

    def _attributes(
        self, request: _Request, response_bytes: int, entry: InFlight | None
    ) -> Iterator[tuple[str, str | int | bool]]:
        """The attributes; docs/tracing.md has their table."""
        name, client = name_of_api(request.api_key), request.client
        yield "messaging.system", "kafka"
        yield "messaging.operation.name", name
        yield "kafka.api.key", request.api_key
        yield "kafka.api.name", name
        yield "kafka.api.version", request.version
        yield "kafka.correlation_id", request.correlation_id
        yield "penstock.connection.id", self._peer.connection_id
        yield "penstock.listener", self._listener.name
        yield "network.peer.address", self._peer.host
        if client is not None:
            yield "penstock.principal", str(client.context.principal)
            if client.context.client_id is not None:
                yield "messaging.client.id", short_name(client.context.client_id)
        yield "penstock.denied", request.is_denied
        if request.error_code is not None:
            yield "kafka.error_code", request.error_code
        if request.request_bytes:
            yield "kafka.request.bytes", request.request_bytes
        if response_bytes:
            yield "kafka.response.bytes", response_bytes
        yield "kafka.throttle_time_ms", request.throttle_time_ms
        if request.forward_id is not None:
            yield "penstock.forward.id", request.forward_id
        if request.metadata_offset is not None:
            yield "penstock.metadata.offset", request.metadata_offset
        if entry is not None and entry.queued_ms:
            yield "penstock.held_ms", entry.queued_ms
        if isinstance(entry, Produced) and entry.summary is not None:
            yield "messaging.destination.name", entry.summary.action.resource_name


def traced_session(
    gate: Gate, listener: ListenerPolicy, peer: Peer, authentication: Authentication, tracing: Tracing
) -> Session:
    """A session whose requests are traced."""
    tracer = RequestTracer(tracing, listener, peer)
    session = Session(gate, listener, peer, authentication, tracer)
    tracer.watch_responses = session.machine.watch_responses
    return session


def _unwatched(_watches: bool) -> bool:
    return False


def _read_error(request: _Request, data: bytes) -> None:
    """Set the error code and the throttle time of the proxy's own response."""
    api_key, version = request.api_key, request.version
    if len(data) > MAX_READ_BYTES or version not in codecs.request_versions(api_key):
        return
    try:
        response, _ = codecs.response(api_key, version).decode(
            memoryview(data), 4 + response_body_offset(api_key, version)
        )
    except WireError:
        return
    request.error_code = error_of(response)
    request.throttle_time_ms = getattr(response, "throttle_time_ms", 0)
