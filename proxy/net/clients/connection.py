"""One client connection: its bytes go to its session, and the session's effects are carried out.

proxy.net.clients.listener makes one for each client. Effects are carried out in order, before anything more
is read. The client is not read while the session is blocked, while the connection to the broker is not open,
and while the broker is slower than the client; the broker is not read while the client is slow.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fcntl import ioctl
from functools import partial
from termios import TIOCOUTQ
from time import perf_counter_ns
from typing import Any, Protocol

from proxy.audit.record import AuditEvent
from proxy.net.clients.relay_protocol import ReceiveBuffers, RelayProtocol, joined
from proxy.net.clients.turns import Turns
from proxy.net.kafka.channel import reauthentication_wait_s
from proxy.quota.connections import Slot
from proxy.security.sasl.exchange import Settled
from proxy.session.authentication import Phase
from proxy.session.effects import (
    Close,
    ControllerResponse,
    Data,
    Effect,
    LookUpTopics,
    MuteClient,
    Recorded,
    ToBroker,
    ToClient,
    ToController,
    UpstreamLoggedIn,
    UpstreamLoginFailed,
    Verify,
)
from proxy.session.memory import FREE_BYTES, STRANGERS_FREE_BYTES
from proxy.session.requests.termination import DRAINED
from proxy.session.requests.upstream_login import UpstreamLogin
from proxy.session.session import Session
from proxy.session.state import State

MAX_LINGER_S = 10.0
"""How long a closed connection may take to deliver what was written."""
DRAIN_TIMEOUT = "drain_timeout"
RENEWAL_LATE = 0.85
"""Share of the proxy's session at the broker after which a renewed login is late. The rest is for requests
that are on their way to the broker."""
SILENT_MS = 500
"""How long the drain of a connection waits for the first message of a login."""
LOGIN_MS = 5_000
"""How long it waits for the others, besides the time that the proxy takes to check them."""
PARTING_S = 0.5
"""How long the client of a drained connection may take to close its end after the last bytes."""


class ConnectionHost(Protocol):
    """The process around a connection."""

    buffers: ReceiveBuffers
    turns: Turns

    def now_ms(self) -> int: ...

    def record(self, event: AuditEvent) -> None: ...

    def held_class(self, event: AuditEvent) -> str | None:
        """Return the record's class if all effects after it wait until it is durable; else None."""

    def hold(self, connection: "Connection", /) -> None:
        """Wait until the `pending_classes` are durable, then call `resume` or `close`."""

    def new_session(
        self, connection: "Connection", transport: asyncio.Transport
    ) -> tuple[Session, Sequence[Recorded]] | None:
        """Return the session of a new connection, and the record of a login that it begins with; None: the
        connection is rejected and closed."""

    def connect_upstream(self, connection: "Connection", /) -> None:
        """Connect to the broker, then call `upstream_ready` or `close`."""

    def forward(self, connection: "Connection", /, request: ToController) -> None:
        """Send a request to the controller, then call `controller_responded` and its result."""

    def verify(self, connection: "Connection", /, login: Verify) -> None:
        """Check a login, then call `verified`."""

    def look_up_topics(self, connection: "Connection", topic_ids: bytes) -> None:
        """Request the names of these ids from the broker, then call `topics_looked_up`."""

    def renew_login(self, connection: "Connection", /, upstream: "Upstream") -> None:
        """Renew the session at the broker, which expires soon: call `log_in_upstream` or `close`."""

    def login_rejected(self, message: str) -> None:
        """Report that the broker did not renew the session; the connection is closed."""

    def connection_closed(self, connection: "Connection", reason: str) -> None:
        """Remove a closed connection."""


@dataclass(slots=True)
class DeferredEffects:
    """Effects that wait until the audit records before them are durable, in order."""

    effects: list[Effect] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)
    """Classes of the records that have to be durable first, and for which no wait has begun."""

    def add(self, effect: Effect) -> None:
        """Append an effect, with a copy of what it borrows from the receive buffer."""
        self.effects.append(owned(effect))

    def pending_classes(self) -> set[str]:
        """Return the classes to wait for; empty when the effects may be carried out."""
        classes, self.classes = self.classes, set()
        return classes


class Connection(RelayProtocol):
    """The client's side of a relayed connection."""

    __slots__ = (
        "_close_reason",
        "_connecting",
        "_deferred",
        "_early",
        "_host",
        "_in_turns",
        "_linger",
        "_logs_in_since_ms",
        "_renewal",
        "_renewal_late",
        "_rest",
        "last_activity_ms",
        "session",
        "since_ms",
        "slot",
        "upstream",
    )

    session: Session

    def __init__(self, host: ConnectionHost, slot: Slot) -> None:
        """`slot`: its place among the limited connections."""
        super().__init__(host.buffers)
        self.slot = slot
        self._host = host
        self.upstream: Upstream | None = None
        self._connecting = False
        self._early: list[bytes] | tuple[()] = ()  # For the broker, until the connection to it is open.
        self._close_reason: str | None = None
        self.since_ms = self.last_activity_ms = host.now_ms()
        self._linger: asyncio.TimerHandle | None = None
        self._logs_in_since_ms = 0  # Since when a drain waits for messages of a login.
        self._renewal: asyncio.TimerHandle | None = None
        self._renewal_late: asyncio.TimerHandle | None = None
        self._deferred: DeferredEffects | None = None
        self._rest: list[Effect] | tuple[()] = ()  # Not carried out in the last slice.
        self._in_turns = False
        # Limit of one read; 0: as much as the buffer has room for.
        self.read_limit_bytes = STRANGERS_FREE_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        made = self._host.new_session(self, self.transport)
        if made is None:
            self._close_reason = "turned_away"
            return
        self.session, login = made
        self.session.call_when_turn_is_due(self._join_turns)
        self.on_drained = self._update_reading
        if login:
            self.carry_out(login)

    def buffer_updated(self, nbytes: int) -> None:
        if self._close_reason is not None:
            return
        now_ms = self.last_activity_ms = self._host.now_ms()
        data = self._buffers.current[:nbytes]
        upstream = self.upstream
        if upstream is not None and self.session.forward_request(data, now_ms):
            upstream.write(data)
            if upstream.full:
                self._update_reading()
        else:
            if self.session.machine.is_timed:
                self._on_requests(lambda: self._received(data, now_ms), now_ms)
            else:  # Without the price of a lambda.
                self.carry_out(self._received(data, now_ms))
            self._host.turns.worked()

    def broker_sent(self, nbytes: int) -> None:
        """Handle so many bytes of the broker in the receive buffer."""
        if self._close_reason is None:
            now_ms = self.last_activity_ms = self._host.now_ms()
            data = self._buffers.current[:nbytes]
            if self.session.forward_response(data, now_ms):
                self.write(data)
                if self.full:
                    self._update_reading()
            else:
                if self.session.machine.is_timed:
                    self._on_responses(lambda: self._broker_responded(data, now_ms), now_ms)
                else:
                    self.carry_out(self._broker_responded(data, now_ms))
                self._host.turns.worked()

    def take_turn(self) -> bool:
        """Continue the remaining work for a slice; return whether there is more to do now."""
        try:
            if self._rest:
                self.session.gate.pace.begin(own_turn=True)
                effects, self._rest = self._rest, ()
                self.carry_out(effects)
            elif self.session.turn_due and not self._has_to_wait:
                now_ms = self._host.now_ms()
                self._on_requests(lambda: self.session.take_turn(now_ms), now_ms)
        except BaseException:
            # Like uvloop after an exception in a callback: this connection ends, and no other.
            self._in_turns = False
            self.abort("internal_error")
            raise
        self._in_turns = bool(self._rest) or (self.session.turn_due and not self._has_to_wait)
        return self._in_turns

    # Of a client with a request quota, the time that the event loop spends on it is measured (KIP-124).

    def _on_requests(self, take: Callable[[], list[Effect]], now_ms: int) -> None:
        """Carry out the effects of a client's bytes."""
        machine = self.session.machine
        if not machine.is_timed:
            self.carry_out(take())
            return
        since_ns = perf_counter_ns()
        self.carry_out(take())
        machine.spent_on_requests(perf_counter_ns() - since_ns, now_ms)

    def _on_responses(self, take: Callable[[], list[Effect]], now_ms: int) -> None:
        """Carry out the effects of a response's bytes."""
        machine = self.session.machine
        if not machine.is_timed:
            self.carry_out(take())
            return
        is_exempt = machine.next_response_is_exempt
        since_ns = perf_counter_ns()
        self.carry_out(take())
        machine.spent_on_responses(perf_counter_ns() - since_ns, is_exempt, now_ms)

    def _received(self, data: memoryview, now_ms: int) -> list[Effect]:
        effects = self.session.receive(data, now_ms)
        self._lend_buffer()
        return effects

    def _broker_responded(self, data: memoryview, now_ms: int) -> list[Effect]:
        effects = self.session.broker_responded(data, now_ms)
        self._lend_buffer()
        return effects

    def _lend_buffer(self) -> None:
        if self.session.working:
            # The session still has views of the buffer. It is not reused, and is freed with the last view.
            self._buffers.hand_over()

    def controller_responded(
        self, correlation_id: int, response: ControllerResponse
    ) -> Callable[[], None] | None:
        """Record the outcome of a `ToController`, even if the client has disconnected.

        Returns what to call once the record is durable; None: there is nothing left to do.
        """
        responded = self.session.controller_responded(correlation_id, response, self._host.now_ms())
        if responded is None:
            return None
        event, then = responded
        self._host.record(event)
        return partial(self._respond, then)

    def _respond(self, then: Callable[[int], list[Effect]]) -> None:
        if self._close_reason is None:
            now_ms = self._host.now_ms()
            self._on_responses(partial(then, now_ms), now_ms)

    def verified(self, outcome: Settled) -> None:
        """Handle the outcome of a `Verify`."""
        if self._close_reason is None:
            now_ms = self._logs_in_since_ms = self._host.now_ms()
            self.carry_out(self.session.verified(outcome, now_ms))
            return
        # A client that disconnected has tried to log in: that is recorded. Its other bytes are ignored.
        self.session.closed()
        for effect in self.session.verified(outcome, self._host.now_ms()):
            if isinstance(effect, Recorded | Verify):
                _CARRY_OUT[type(effect)](self, effect)

    def topics_looked_up(self) -> None:
        """Continue after a `LookUpTopics`."""
        if self._close_reason is None:
            self.session.topics_looked_up()

    def upstream_ready(self, upstream: "Upstream") -> None:
        """Use the open connection to the broker: write what waited for it."""
        self._connecting = False
        self.upstream = upstream
        upstream.on_drained = self._update_reading
        early, self._early = self._early, ()
        for data in early:
            upstream.write(data)
        if self._close_reason is not None:
            self.upstream = None
            upstream.close()
            return
        self._renew_login_after(upstream.session_lifetime_ms)
        self._update_reading()

    def log_in_upstream(self, login: UpstreamLogin) -> None:
        """Renew the session at the broker between two requests."""
        if self._renewal_late is not None:
            self._renewal_late.cancel()
        if self._close_reason is None:
            self.carry_out(self.session.log_in_upstream(login))

    def carry_out(self, effects: Sequence[Effect]) -> None:
        """Carry out the session's effects, in order."""
        if self._deferred is not None:
            self._defer(effects)
            return
        if self._rest:
            self._rest += map(owned, effects)
            return
        to_client: list[Data] = []
        to_broker: list[Data] = []
        for count, effect in enumerate(effects, 1):
            if type(effect) is ToClient:
                to_client.append(effect.data)
            elif type(effect) is ToBroker:
                to_broker.append(effect.data)
            else:
                if type(effect) is not Recorded:
                    self._write(to_client, to_broker)
                _CARRY_OUT[type(effect)](self, effect)
                if self._deferred is not None:
                    self._write(to_client, to_broker)
                    self._defer(effects[count:])
                    self._host.hold(self)
                    return
                if self.session.gate.pace.is_over:
                    self._rest = [owned(each) for each in effects[count:]]
                    break
        self._write(to_client, to_broker)
        self._update_reading()

    def _write(self, to_client: list[Data], to_broker: list[Data]) -> None:
        """Write the data, and empty both lists."""
        for data in joined(to_client):
            self.write(data)
        for data in joined(to_broker):
            if self.upstream is not None:
                self.upstream.write(data)
            elif self._close_reason is None:
                self._early = self._early or []  # A tuple takes no memory while nothing is early.
                self._early.append(bytes(data))
                if not self._connecting:
                    self._connecting = True
                    self._host.connect_upstream(self)
        to_client.clear()
        to_broker.clear()

    def pending_classes(self) -> set[str]:
        """Return the classes of records that have to be durable before this connection continues."""
        return set() if self._deferred is None else self._deferred.pending_classes()

    def resume(self) -> None:
        """Carry out the deferred effects."""
        held, self._deferred = self._deferred, None
        if held is not None and self._close_reason is None:
            self.carry_out(held.effects)

    def sweep(self, now_ms: int, idle_since_ms: int, incomplete_since_ms: int = 0) -> None:
        """Record what was counted.

        Close the connection if it has been idle since `idle_since_ms`, or if its client has not completed a
        request that it began before `incomplete_since_ms`.
        """
        if self._close_reason is None:
            self.carry_out(self.session.sweep(now_ms))
            # A connection that closes after its last responses is not waited for, nor is one whose client
            # neither completes a request nor reads its responses.
            since_ms = self.session.incomplete_since_ms
            waits_for_client = self.session.closing or self.full or since_ms is not None
            if self.last_activity_ms < idle_since_ms and (self.quiet or waits_for_client):
                self.close("idle")
            elif since_ms is not None and since_ms < incomplete_since_ms:
                self.close("request_incomplete")

    def end_if_expired(self, now_ms: int) -> None:
        """End the connection if its session has expired and it is idle (connections.expired.close.idle)."""
        if self._close_reason is None:
            self.carry_out(self.session.end_if_expired(now_ms))

    def end_if_revoked(self) -> None:
        """End the connection if its credential is not in effect any more (sessions.revoke.immediately)."""
        if self._close_reason is None:
            self.carry_out(self.session.end_if_revoked())

    def disconnect(self, message: str) -> bool:
        """End the connection for an administrator; return False if it has ended already.

        `message`: why, and who it is.
        """
        effects = [] if self._close_reason is not None else self.session.disconnect(message)
        if effects:
            self.carry_out(effects)
        return bool(effects)

    def drain(self) -> bool:
        """Accept no more requests; end after the responses in flight (proxy.session.requests.termination).

        Return whether the drain begins now.
        """
        if self._close_reason is not None or self.session.draining:
            return False
        self._logs_in_since_ms = self._host.now_ms()
        self.carry_out(self.session.drain())
        return True

    def end_if_unanswered(self, late: bool) -> bool:
        """End a draining connection if nothing is lost by that; with `late` also if its client does not read.

        Return whether it was cut off.
        """
        if self._close_reason is not None:
            if self._close_reason != DRAINED and self.transport is not None and self._is_delivered():
                self.transport.abort()
        elif self._has_to_wait or self._rest or not self.session.needs_no_response:
            if late and self.full:
                self.abort(DRAIN_TIMEOUT)
                return True
        elif not self._may_log_in:
            self.close(DRAINED)
        return False

    def close(self, reason: str) -> None:
        """Close the connection. Written data is still delivered, to a client that reads it in time."""
        if self._close_reason is not None:
            return
        self._close_reason = reason
        # Bytes that wait for the connection to the broker still go there: with acks=0 no response is awaited.
        if self.upstream is not None:
            self.upstream.close()
        if self.transport is not None and reason == DRAINED:
            self._part(self.transport)
        elif self.transport is not None:
            self.transport.close()
            self._linger = self._later(MAX_LINGER_S * 1000, self.transport.abort)

    def _part(self, transport: asyncio.Transport) -> None:
        """Signal the end to the client, and let it close first.

        Bytes that it still sends are read and dropped. Unread bytes would make the kernel reset the
        connection, responses on their way would be lost, and the client would repeat completed requests.
        """
        if transport.is_closing():
            return  # The client has disconnected: connection_lost follows.
        self.read_limit_bytes = 0
        self.read(True)
        if transport.can_write_eof():
            transport.write_eof()
        else:
            transport.close()  # Under TLS a close_notify, and the transport reads on until the client's.
        self._linger = self._later(PARTING_S * 1000, self._end_parting)

    def _end_parting(self) -> None:
        if self.transport is not None:
            if self._is_delivered():
                self.transport.abort()
            else:
                self._linger = self._later((MAX_LINGER_S - PARTING_S) * 1000, self.transport.abort)

    def _is_delivered(self) -> bool:
        """Return whether the client's kernel has everything that was written."""
        transport = self.transport
        if transport is None or transport.get_write_buffer_size():
            return transport is None
        raw_socket = transport.get_extra_info("socket")
        if raw_socket is None:
            return True  # A TLS transport that has lost its connection: connection_lost follows.
        # Under TLS some bytes may be in a buffer without access; then the kernel's is not empty either.
        try:
            unsent = ioctl(raw_socket.fileno(), TIOCOUTQ, bytes(4))
        except (OSError, ValueError):
            return True
        return not any(unsent)

    def abort(self, reason: str) -> None:
        """Close the connection at once, without delivering written data."""
        self.close(reason)
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        # The client's bytes still go to the broker, as in Kafka: with acks=0 no response is awaited.
        if self._close_reason is None:
            self._close_reason = "connection_reset" if exc is not None else "client_closed"
            if self.upstream is not None:
                self.session.client_left(self._host.now_ms())
        if self._linger is not None:
            self._linger.cancel()
        if self._renewal is not None and self._renewal_late is not None:
            self._renewal.cancel()
            self._renewal_late.cancel()
        # Without these references the connection has no cycle, and is freed without the garbage collector.
        upstream, self.upstream, self.on_drained = self.upstream, None, None
        if upstream is not None:
            upstream.close()
        super().connection_lost(exc)
        if hasattr(self, "session"):
            self.session.closed()
            self._host.turns.end(self._end)

    def _end(self) -> None:
        records = [effect for effect in self._rest if type(effect) is Recorded]
        self._rest = ()
        self.carry_out([*records, *self.session.sweep(self._host.now_ms())])
        self._host.connection_closed(self, self._close_reason or "client_closed")

    def eof_received(self) -> bool:
        """Close a connection whose client sends no more, even with requests in flight, as Kafka does."""
        return False

    @property
    def quiet(self) -> bool:
        """Whether nothing is in flight, so that closing loses no request."""
        if not hasattr(self, "session"):
            return True
        session = self.session
        waits = self._has_to_wait or session.turn_due or session.looks_up_topics
        return not waits and not len(session.pipeline)

    @property
    def awaits(self) -> str:
        """What a drain waits for: one of a few words, the field of its log line."""
        if self._close_reason is not None or self.full:
            return "clients_to_close" if self._close_reason is not None else "clients_to_read"
        if self._deferred is not None:
            return "audit_records"
        if self.session.state & State.VERIFYING:
            return "login_checks"
        if self.session.state & State.AWAITING_CONTROLLER:
            return "controller_responses"
        return "clients_to_send" if self.session.takes_rest else "broker_responses"

    @property
    def _may_log_in(self) -> bool:
        """Whether the client of a draining connection has a login to complete, and time for it."""
        authentication = self.session.authentication
        if not authentication.under_way or self.session.state & State.VERIFYING:
            return authentication.under_way
        limit_ms = SILENT_MS if authentication.phase is Phase.VERSIONS else LOGIN_MS
        return self._host.now_ms() - self._logs_in_since_ms < limit_ms

    @property
    def _has_to_wait(self) -> bool:
        """Whether no more may be done now: the client does not read, or records are not durable yet."""
        return self._close_reason is None and (self.full or self._deferred is not None)

    def _look_up_topics(self, effect: LookUpTopics) -> None:
        if self._close_reason is None:
            self._host.look_up_topics(self, effect.topic_ids)

    def _mute(self, effect: MuteClient) -> None:
        self._later(effect.duration_ms, self._unmute)

    def _carry_out_record(self, effect: Recorded) -> None:
        self._host.record(effect.event)
        event_class = self._host.held_class(effect.event)
        if event_class is not None and self._close_reason is None:
            if self._deferred is None:
                self._deferred = DeferredEffects()
            self._deferred.classes.add(event_class)

    def _defer(self, effects: Sequence[Effect]) -> None:
        held = self._deferred
        assert held is not None
        for effect in effects:
            if type(effect) is Recorded:
                self._carry_out_record(effect)
            else:
                held.add(effect)
        self._update_reading()

    def _close(self, effect: Close) -> None:
        if effect.delay_ms:
            self._later(effect.delay_ms, lambda: self._close_with(effect))
        else:
            self._close_with(effect)

    def _close_with(self, effect: Close) -> None:
        if effect.last_words:
            self.write(effect.last_words)
        self.close(effect.reason)

    def _renew_login_after(self, session_lifetime_ms: int) -> None:
        if session_lifetime_ms > 0:
            wait_s = reauthentication_wait_s(session_lifetime_ms)
            self._renewal = asyncio.get_running_loop().call_later(wait_s, self._renew_login)
            self._renewal_late = self._later(session_lifetime_ms * RENEWAL_LATE, self._await_login)

    def _renew_login(self) -> None:
        if self.upstream is not None and self._close_reason is None:
            self._host.renew_login(self, self.upstream)

    def _await_login(self) -> None:
        """Hold the client's requests: the first one after the session's end would end the connection."""
        if self._close_reason is None:
            self.session.await_upstream_login()
            self._update_reading()

    def _unmute(self) -> None:
        if self._close_reason is None:
            now_ms = self._host.now_ms()
            self._on_requests(lambda: self.session.unmuted(now_ms), now_ms)

    def _later(self, delay_ms: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, call)

    def _update_reading(self) -> None:
        # A client that does not read its responses is not read either: they would pile up here.
        session, upstream = self.session, self.upstream
        if self._close_reason is not None:
            self._join_turns()  # For records that are left.
            return
        stops = self._has_to_wait or bool(self._rest)
        waits = stops or (session.blocked and not session.takes_rest)
        limit_bytes = FREE_BYTES if session.gate.memory.is_short(stranger=False) else 0
        self.read_limit_bytes = limit_bytes if session.authentication.known else STRANGERS_FREE_BYTES
        if upstream is None:
            self.read(not waits and not self._connecting)
            to_broker_bytes = sum(map(len, self._early))
        else:
            to_broker_bytes = upstream.unsent_bytes
            self.read(not waits and not upstream.full)
            upstream.read_limit_bytes = limit_bytes
            upstream.read(not stops and not session.turn_due and not session.response_waits)
        session.count_held(self.unsent_bytes, to_broker_bytes)
        self._join_turns()

    def _join_turns(self) -> None:
        session = self.session
        if self._in_turns or not (self._rest or (session.turn_due and not self._has_to_wait)):
            return
        self._in_turns = True
        self._host.turns.add(session.memory.owner, self, stranger=not session.authentication.known)


_CARRY_OUT: dict[type[Effect], Callable[[Connection, Any], None]] = {
    ToController: lambda connection, effect: connection._host.forward(connection, effect),
    Verify: lambda connection, effect: connection._host.verify(connection, effect),
    LookUpTopics: Connection._look_up_topics,
    MuteClient: Connection._mute,
    Recorded: Connection._carry_out_record,
    Close: Connection._close,
    UpstreamLoggedIn: lambda connection, effect: connection._renew_login_after(effect.session_lifetime_ms),
    UpstreamLoginFailed: lambda connection, effect: connection._host.login_rejected(effect.message),
}


def owned(effect: Effect) -> Effect:
    """Return the effect with a copy of its data, if these may be in the receive buffer."""
    if isinstance(effect, ToClient | ToBroker):
        return replace(effect, data=bytes(effect.data))
    return effect


class Upstream(RelayProtocol):
    """The broker's side of a client's connection."""

    __slots__ = ("_connection", "authenticate_version", "session_lifetime_ms")

    def __init__(self, connection: Connection, buffers: ReceiveBuffers) -> None:
        super().__init__(buffers)
        self._connection = connection
        self.session_lifetime_ms = 0
        """Of the session at the broker, as reported at the first login; 0: it does not expire."""
        self.authenticate_version = 0
        """Version of SaslAuthenticate for the next logins."""

    def buffer_updated(self, nbytes: int) -> None:
        connection = self._connection
        connection.broker_sent(nbytes)
        if connection.full:
            self.read(False)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connection.close("upstream_closed")

    def eof_received(self) -> bool:
        return False

    def close(self) -> None:
        """Close the connection to the broker."""
        if self.transport is not None:
            self.transport.close()
