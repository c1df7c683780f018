"""A session whose requests are traced: each that is forwarded to the controller, and a sample of the others.

Made by proxy.net.clients.listener in place of a Session where tracing is configured; where it is not, no
request pays for it. It watches the queue of requests in flight, which every request with a response goes
through, and the few methods that tell what happened to a request. A request without a response (acks=0),
those of clients that have not logged in, and logins have no span. What a span says is bounded, and holds no
records and no secrets.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from weakref import ref

from proxy.audit.record import AuditEvent
from proxy.net.telemetry.spans import OpenSpan, Tracing
from proxy.quota.throttle import Bucket
from proxy.session.authentication import Authentication
from proxy.session.call import Call
from proxy.session.client_state import ClientState
from proxy.session.effects import Effect
from proxy.session.forwarding import ControllerQuestion
from proxy.session.gate import Gate, ListenerPolicy, Peer
from proxy.session.outcome import error_of
from proxy.session.pipeline import InFlight, Reply
from proxy.session.request_counts import name_of_api, name_of_error
from proxy.session.session import Session
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError
from proxy.wire.header import response_body_offset

MAX_READ_BYTES = 4_096
"""A response of our own is decoded once more for its error code, unless it is larger."""

CONNECTION_CLOSED = "connection_closed"
"""In place of an error code: there was no response."""

_HEAD = Struct(">ihhi").unpack_from  # length, api key, version, correlation id
_HEAD_BYTES = 12
_LOGINS = frozenset((int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)))
_PRODUCE = int(ApiKey.PRODUCE)
_READY, _OWN, _AWAITED = Reply.READY, Reply.OWN, Reply.AWAITED
_append, _popleft = deque.append, deque.popleft


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
    """Begun already: the controller is told of it."""
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


class _Watched(deque[InFlight]):
    """The queue of requests in flight; it notes when one that is traced enters it, and when it leaves.

    All requests go through `append` and `popleft`: what only those that are traced need is done only while
    there is one.
    """

    def __init__(
        self, tracing: Tracing, listener: ListenerPolicy, peer: Peer, session: "TracedSession"
    ) -> None:
        super().__init__()
        self._tracing = tracing
        self._sampler = tracing.sampler
        self._listener = listener
        self._peer = peer
        # Referred to, it would not be free without the garbage collector.
        self._session = ref(session)
        self._left = 0  # How many have left it while there were traced ones.
        self._traced: deque[_Request] = deque()
        self.taken: _Request | None = None
        """The request that was decoded last, until it has its place in the queue or its response."""
        self.awaited: _Request | None = None
        """The request that the controller has, or has a question about."""
        self.passing_bytes = 0
        """Of the response that passes now, whole; 0: `sizes` has it."""
        self.throttle_time_ms = 0
        """What the response that leaves next tells."""
        self.sizes: _ResponseSizes | None = None
        """None: they are not known, for a response was under way when the request came."""

    @property
    def traceparent(self) -> str | None:
        """See Pipeline."""
        request = self.awaited
        return None if request is None or request.span is None else request.span.traceparent

    @property
    def has_traced(self) -> bool:
        return bool(self._traced)

    def append(self, entry: InFlight, /) -> None:
        _append(self, entry)
        if self.taken is None:
            # As Sampler.chooses, without a call.
            sampler = self._sampler
            sampler.left -= 1
            if sampler.left > 0:
                return
            sampler.renew()
            self._sampled(entry)
        else:
            self._decoded(entry, self.taken)

    def popleft(self) -> InFlight:
        entry = _popleft(self)
        if self._traced:
            self._has_left(entry)
        return entry

    def pop(self) -> InFlight:  # type: ignore[override] # as a deque has it
        """The newest, which gets no response."""
        if self._traced and self._traced[-1].place == self._left + len(self):
            self._cut_off(self._traced.pop())
            self._watch()
        return super().pop()

    def take(self, data: memoryview, position: int, size_bytes: int) -> None:
        """A frame is decoded now."""
        request, self.taken = self.taken, None
        if request is not None:
            self._cut_off(request)
        if size_bytes < _HEAD_BYTES:
            return
        _, api_key, version, correlation_id = _HEAD(data, position)
        if api_key not in _LOGINS:
            is_sampled = self._sampler.chooses()
            now_ns = self._tracing.now_ns()
            self.taken = _Request(api_key, version, correlation_id, size_bytes, now_ns, is_sampled)

    def answered(self, request: _Request, data: bytes) -> None:
        """A response of our own leaves at once."""
        if request.is_sampled or request.span is not None:
            _read_error(request, data)
            self._finish(request, len(data))

    def denied(self, correlation_id: int) -> None:
        if self.taken is not None and self.taken.correlation_id == correlation_id:
            self.taken.is_denied = True

    def forwarded(self, event: AuditEvent) -> None:
        """The controller has answered."""
        request = self.awaited
        if request is None:
            return
        request.forward_id, request.metadata_offset = event.forward_id, event.last_offset
        if request is not self.taken:  # Else it was a question of ours, and the request goes on.
            request.error_code = event.error_code
            request.throttle_time_ms = event.throttle_time_ms or 0

    def end_all(self) -> None:
        """The connection is over."""
        request, self.taken = self.taken, None
        if request is not None:
            self._cut_off(request)
        while self._traced:
            self._cut_off(self._traced.popleft())
        self._watch()

    def _has_left(self, entry: InFlight) -> None:
        self._left += 1
        known = None if self.sizes is None else self.sizes.known
        size_bytes = known.popleft() if known and entry.reply is not _READY else self.passing_bytes
        if self._traced[0].place == self._left:
            self._end(self._traced.popleft(), entry, size_bytes)
            self._watch()
        self.throttle_time_ms = 0

    def _sampled(self, entry: InFlight) -> None:
        """A request that was not decoded."""
        if entry.reply is _READY or entry.reply is _OWN:
            self._sampler.left = 1  # It is none: the next one is chosen in its place.
            return
        size_bytes = entry.request_bytes + 4 if entry.request_bytes else 0
        now_ns = self._tracing.now_ns()
        request = _Request(entry.api_key, entry.version, entry.correlation_id, size_bytes, now_ns, True)
        self._place(request)

    def _decoded(self, entry: InFlight, request: _Request) -> None:
        if entry.reply is _OWN:
            return  # Something is asked first.
        if entry.reply is _AWAITED:
            request.span = request.span or self._begin(request)
            self.awaited = request
            if isinstance(entry, ControllerQuestion):
                return
        elif entry.reply is not _READY and not request.is_in(entry):
            # The one that was decoded has no response: acks=0.
            self.taken = None
            if self._sampler.chooses():
                self._sampled(entry)
            return
        self.taken = None
        if request.is_sampled or request.span is not None:
            self._place(request)

    def _place(self, request: _Request) -> None:
        request.place = self._left + len(self)
        self._traced.append(request)
        self._watch()

    def _watch(self) -> None:
        """One that is traced has come, or has left."""
        session = self._session()
        if session is not None:
            session.watch()

    def _begin(self, request: _Request) -> OpenSpan:
        return self._tracing.spans.begin(name_of_api(request.api_key), "server", None, request.start_ns)

    def _end(self, request: _Request, entry: InFlight, size_bytes: int) -> None:
        if entry.reply is _READY:
            size_bytes = len(entry.data)
            if request.error_code is None:
                _read_error(request, entry.data)
        elif entry.plain is not None and entry.plain.head and self.passing_bytes:
            request.error_code = 0  # Else it would not have passed.
        call = entry.call
        if call is not None and call.denials is not None:
            request.is_denied = True
        request.throttle_time_ms = request.throttle_time_ms or self.throttle_time_ms
        request.client = entry.client or request.client
        self._finish(request, size_bytes, entry)

    def _finish(self, request: _Request, response_bytes: int, entry: InFlight | None = None) -> None:
        span, end_ns = request.span or self._begin(request), self._tracing.now_ns()
        error = name_of_error(request.error_code) if request.error_code else None
        attributes = dict(self._told(request, response_bytes, entry))
        span.end(attributes, error, max(request.start_ns, end_ns))

    def _cut_off(self, request: _Request) -> None:
        """There is no response to it; of one that was merely sampled there is nothing to say."""
        if request.span is not None:
            end_ns = self._tracing.now_ns()
            attributes = dict(self._told(request, 0, None))
            request.span.end(attributes, CONNECTION_CLOSED, max(request.start_ns, end_ns))
            request.span = None

    def _told(
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
                yield "messaging.client.id", client.context.client_id
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
        if entry is not None and entry.held_ms:
            yield "penstock.held_ms", entry.held_ms
        if entry is not None and entry.summary is not None and request.api_key == _PRODUCE:
            yield "messaging.destination.name", entry.summary.action.resource_name


class TracedSession(Session):
    """See the module."""

    def __init__(
        self,
        gate: Gate,
        listener: ListenerPolicy,
        peer: Peer,
        authentication: Authentication,
        tracing: Tracing,
    ) -> None:
        super().__init__(gate, listener, peer, authentication)
        self._watched = _Watched(tracing, listener, peer, self)
        self.pipeline.queue = self._watched

    def watch(self) -> None:
        """While requests that are traced are in flight, the sizes of responses are looked at."""
        watched = self._watched
        if not watched.has_traced:
            watched.sizes = None
            self.__dict__.pop("reply_passes", None)
        elif "reply_passes" not in self.__dict__ or watched.sizes is None:
            self.__dict__["reply_passes"] = self._watched_reply_passes
            under_way = self._replies.working or self._replies.has_begun
            watched.sizes = None if under_way else _ResponseSizes()

    def _watched_reply_passes(self, data: memoryview, now_ms: int) -> bool:
        """In place of `reply_passes`."""
        watched = self._watched
        watched.passing_bytes = len(data)
        try:
            return Session.reply_passes(self, data, now_ms)
        finally:
            watched.passing_bytes = 0

    def broker_replied(self, data: memoryview, now_ms: int) -> list[Effect]:
        if self._watched.sizes is not None:
            self._watched.sizes.take(data)
        return super().broker_replied(data, now_ms)

    def answer(self, data: bytes, effects: list[Effect], api_key: int, since_ms: int) -> None:
        watched = self._watched
        request = watched.taken
        if request is not None:
            request.client = self.client
        super().answer(data, effects, api_key, since_ms)
        if request is not None and watched.taken is request:
            # It is not in the queue: nothing is in flight before it.
            watched.taken = None
            watched.answered(request, data)

    def note(self, call: Call, effects: list[Effect], client: ClientState | None = None) -> None:
        if call.denials is not None:
            self._watched.denied(call.correlation_id)
        super().note(call, effects, client)

    def complete(self, event: AuditEvent) -> AuditEvent:
        if event.event == "forwarded":
            self._watched.forwarded(event)
        return super().complete(event)

    def gone(self) -> None:
        super().gone()
        self._watched.end_all()

    def _one(
        self, data: memoryview, run: int, position: int, stop: int, now_ms: int, effects: list[Effect]
    ) -> int:
        if self.authentication.under_way:
            self._watched.taken = None
        else:
            self._watched.take(data, position, stop - position)
        return super()._one(data, run, position, stop, now_ms, effects)

    def _note_throttled(self, bucket: Bucket, throttle_ms: int, now_ms: int) -> None:
        if bucket.enforced and self._watched.has_traced:
            self._watched.throttle_time_ms = throttle_ms
        super()._note_throttled(bucket, throttle_ms, now_ms)


def _read_error(request: _Request, data: bytes) -> None:
    """Set the error code that a response of our own tells, and its throttle time."""
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
