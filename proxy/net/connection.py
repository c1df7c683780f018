"""One client: what comes from its socket goes into its session, and what the session wants is carried out.

Made by proxy.net.listener for each connection. No rule of Kafka's is here: effects are carried out in their
order, before anything more is read. Reading stops while the session is blocked, while the broker's side is
not up yet, and while it is slower than the client; the broker's side stops while the client is slow.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from proxy.net import loop_time
from proxy.net.admission import Slot
from proxy.net.buffers import ReceiveBuffers
from proxy.net.channel import reauthentication_wait_s
from proxy.net.edge import Edge
from proxy.net.held import Held
from proxy.net.side import Side
from proxy.security.sasl.exchange import Settled
from proxy.session import ending, forwarding, request_time
from proxy.session.controller_reply import ControllerReply
from proxy.session.effects import (
    Close,
    Data,
    Effect,
    MuteClient,
    Recorded,
    ToBroker,
    ToClient,
    ToController,
    UpstreamLoggedIn,
    UpstreamRefused,
    Verify,
)
from proxy.session.session import Session
from proxy.session.upstream_login import UpstreamLogin

MAX_LINGER_S = 10.0
"""How long a closed connection may take to deliver what was written before."""


class Connection(Side):
    """The client's side."""

    __slots__ = (
        "_close_reason",
        "_connecting",
        "_early",
        "_edge",
        "_held",
        "_last_activity_ms",
        "_linger",
        "_renewal",
        "session",
        "slot",
        "upstream",
    )

    session: Session

    def __init__(self, edge: Edge, slot: Slot | None = None) -> None:
        """`slot`: its place among the connections, where it already has one."""
        super().__init__(edge.buffers)
        self.slot = slot
        self._edge = edge
        self.upstream: Upstream | None = None
        self._connecting = False
        self._early: list[bytes] = []  # For the broker, while its side is not up.
        self._close_reason: str | None = None
        self._last_activity_ms = edge.now_ms()
        self._linger: asyncio.TimerHandle | None = None
        self._renewal: asyncio.TimerHandle | None = None
        self._held: Held | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        session = self._edge.new_session(self, self.transport)
        if session is None:
            self._close_reason = "turned_away"
            return
        self.session = session
        self.on_drained = self._client_drained

    def buffer_updated(self, nbytes: int) -> None:
        if self._close_reason is not None:
            return
        now_ms = self._last_activity_ms = self._edge.now_ms()
        data = self._buffers.current[:nbytes]
        upstream = self.upstream
        if upstream is not None and self.session.passes(data, now_ms):
            upstream.write(data)
            if upstream.full:
                self._update_reading()
        elif request_time.is_measured(self.session):
            loop_time.on_requests(self, lambda: self.session.receive(data, now_ms), now_ms)
        else:
            self.carry_out(self.session.receive(data, now_ms))

    def broker_sent(self, nbytes: int) -> None:
        """So many bytes of the broker, in the receive buffer."""
        if self._close_reason is None:
            now_ms = self._last_activity_ms = self._edge.now_ms()
            data = self._buffers.current[:nbytes]
            if self.session.reply_passes(data, now_ms):
                self.write(data)
                if self.full:
                    self._update_reading()
            elif request_time.is_measured(self.session):
                loop_time.on_answers(self, lambda: self.session.broker_replied(data, now_ms), now_ms)
            else:
                self.carry_out(self.session.broker_replied(data, now_ms))

    def controller_told(self, correlation_id: int, reply: ControllerReply) -> None:
        """Record what came of a `ToController`, whether its client is still there or not."""
        event = forwarding.told(self.session, correlation_id, reply, self._edge.now_ms())
        if event is not None:
            self._edge.record(event)

    def controller_replied(self, correlation_id: int, reply: ControllerReply) -> None:
        """What came of a `ToController`, once its record is kept."""
        if self._close_reason is None:
            now_ms = self._edge.now_ms()
            loop_time.on_answers(
                self, lambda: self.session.controller_replied(correlation_id, reply, now_ms), now_ms
            )

    def verified(self, outcome: Settled) -> None:
        """What came of a `Verify`."""
        if self._close_reason is None:
            self.carry_out(self.session.verified(outcome, self._edge.now_ms()))
            return
        # Who left before the answer has tried to log in all the same; nothing else of theirs is looked at.
        self.session.gone()
        for effect in self.session.verified(outcome, self._edge.now_ms()):
            if isinstance(effect, Recorded | Verify):
                _CARRY_OUT[type(effect)](self, effect)

    def upstream_ready(self, upstream: "Upstream") -> None:
        """The broker's side is up: what waited for it goes out."""
        self._connecting = False
        self.upstream = upstream
        upstream.on_drained = self._update_reading
        early, self._early = self._early, []
        for data in early:
            upstream.write(data)
        if self._close_reason is not None:
            upstream.close()
            return
        self._renew_login_after(upstream.session_lifetime_ms)
        self._update_reading()

    def log_in_upstream(self, login: UpstreamLogin) -> None:
        """Renew our session at the broker between two requests."""
        if self._close_reason is None:
            self.carry_out(self.session.log_in_upstream(login))

    def carry_out(self, effects: list[Effect]) -> None:
        """Do what the session asks, in order."""
        if self._held is not None:
            self._defer(effects)
            return
        for effect in effects:
            # Nearly all are one of the first two, and nearly always there is but one.
            if type(effect) is ToClient:
                self.write(effect.data)
            elif type(effect) is ToBroker:
                self._to_broker(effect.data)
            else:
                _CARRY_OUT[type(effect)](self, effect)
                if self._held is not None:
                    rest = next(index for index, each in enumerate(effects, 1) if each is effect)
                    self._defer(effects[rest:])
                    self._edge.hold(self)
                    return
        self._update_reading()

    def unkept(self) -> set[str]:
        """Classes of records that have to be kept before this connection goes on."""
        return set() if self._held is None else self._held.unkept()

    def go_on(self) -> None:
        """What was held back leaves now."""
        held, self._held = self._held, None
        if held is not None and self._close_reason is None:
            if self.upstream is not None:
                self.upstream.read(not self.full)
            self.carry_out(held.effects)

    def sweep(self, now_ms: int, idle_since_ms: int) -> None:
        """Write out what was counted; end a connection on which nothing has happened since."""
        if self._close_reason is None:
            self.carry_out(self.session.summaries(now_ms))
            # One that only waits for answers to say farewell after them has no claim to be waited for.
            if self._last_activity_ms < idle_since_ms and (self.quiet or self.session.closing):
                self.close("idle")

    def try_again(self, now_ms: int) -> None:
        """There may be room now for what its client is sending."""
        if self._close_reason is None and self.session.starved:
            loop_time.on_requests(self, lambda: self.session.try_again(now_ms), now_ms)

    def end_if_expired(self, now_ms: int) -> None:
        """Past its session's end, and idle (connections.expired.close.idle)."""
        if self._close_reason is None:
            self.carry_out(ending.expired_idle(self.session, now_ms))

    def end_if_revoked(self) -> None:
        """Its credential is not in force any more (sessions.revoke.immediately)."""
        if self._close_reason is None:
            self.carry_out(ending.revoked(self.session))

    def close(self, reason: str) -> None:
        """End it; what was written before is still delivered, to a peer that takes it within a while."""
        if self._close_reason is not None:
            return
        self._close_reason = reason
        self._early.clear()
        if self.upstream is not None:
            self.upstream.close()
        if self.transport is not None:
            self.transport.close()
            loop = asyncio.get_running_loop()
            self._linger = loop.call_later(MAX_LINGER_S, self.transport.abort)

    def abort(self, reason: str) -> None:
        """End it now, whatever is still to be delivered."""
        self.close(reason)
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        # What one who left had sent goes out still, as at Kafka: with acks=0 nobody waits for an answer.
        reason = self._close_reason or ("connection_reset" if exc is not None else "client_closed")
        self._close_reason = reason
        if self._linger is not None:
            self._linger.cancel()
        if self._renewal is not None:
            self._renewal.cancel()
        if self.upstream is not None:
            self.upstream.close()
        for buffer in self._kept:
            self._buffers.take_back(buffer)
        self._kept.clear()
        if hasattr(self, "session"):
            self.session.gone()
            for effect in self.session.summaries(self._edge.now_ms()):
                self._carry_out_record(effect)
            self._edge.gone(self, reason)

    def eof_received(self) -> bool:
        """A client that will send no more gets no more, not even what is in flight: Kafka closes too."""
        return False

    @property
    def quiet(self) -> bool:
        """Nothing is in flight: it may be closed without a request being lost."""
        return not hasattr(self, "session") or (self._held is None and not len(self.session.pipeline))

    def _to_broker(self, data: Data) -> None:
        upstream = self.upstream
        if upstream is not None:
            upstream.write(data)
            return
        self._early.append(bytes(data))
        if not self._connecting:
            self._connecting = True
            self._edge.connect_upstream(self)

    def _to_controller(self, effect: Any) -> None:
        self._edge.forward(self, effect)

    def _verify(self, effect: Any) -> None:
        self._edge.verify(self, effect)

    def _mute(self, effect: Any) -> None:
        self._later(effect.duration_ms, self._unmute)

    def _carry_out_record(self, effect: Any) -> None:
        self._edge.record(effect.event)
        event_class = self._edge.held_class(effect.event)
        if event_class is not None and self._close_reason is None:
            if self._held is None:
                self._held = Held()
            self._held.classes.add(event_class)

    def _defer(self, effects: list[Effect]) -> None:
        held = self._held
        assert held is not None
        for effect in effects:
            if type(effect) is Recorded:
                self._carry_out_record(effect)
            else:
                held.take(effect)
        if self.upstream is not None:
            self.upstream.read(False)
        self._update_reading()

    def _close(self, effect: Any) -> None:
        if effect.delay_ms:
            self._later(effect.delay_ms, lambda: self._close_with(effect))
        else:
            self._close_with(effect)

    def _close_with(self, effect: Close) -> None:
        if effect.last_words:
            self.write(effect.last_words)
        self.close(effect.reason)

    def _upstream_logged_in(self, effect: Any) -> None:
        self._renew_login_after(effect.session_lifetime_ms)

    def _upstream_refused(self, effect: Any) -> None:
        self._edge.login_refused(effect.message)

    def _renew_login_after(self, session_lifetime_ms: int) -> None:
        if session_lifetime_ms > 0:
            wait_s = reauthentication_wait_s(session_lifetime_ms)
            self._renewal = asyncio.get_running_loop().call_later(wait_s, self._renew_login)

    def _renew_login(self) -> None:
        if self.upstream is not None and self._close_reason is None:
            self._edge.renew_login(self, self.upstream)

    def _unmute(self) -> None:
        if self._close_reason is None:
            now_ms = self._edge.now_ms()
            loop_time.on_requests(self, lambda: self.session.unmuted(now_ms), now_ms)

    def _later(self, delay_ms: int, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(delay_ms / 1000, call)

    def _update_reading(self) -> None:
        # A client that does not take its answers is not heard either: our own would pile up here.
        waits = self.full or self._held is not None or self.session.blocked
        upstream = self.upstream
        if upstream is None:
            self.read(not waits and not self._connecting)
        else:
            self.read(not waits and not upstream.full)

    def _client_drained(self) -> None:
        if self.upstream is not None:
            self.upstream.read(self._held is None)
        self._update_reading()


_CARRY_OUT: dict[type[Effect], Callable[[Connection, Any], None]] = {
    ToController: Connection._to_controller,
    Verify: Connection._verify,
    MuteClient: Connection._mute,
    Recorded: Connection._carry_out_record,
    Close: Connection._close,
    UpstreamLoggedIn: Connection._upstream_logged_in,
    UpstreamRefused: Connection._upstream_refused,
}


class Upstream(Side):
    """The broker's side of one client's connection."""

    __slots__ = ("_connection", "_lost", "authenticate_version", "session_lifetime_ms")

    def __init__(self, connection: Connection, buffers: ReceiveBuffers) -> None:
        super().__init__(buffers)
        self._connection = connection
        self._lost = False
        self.session_lifetime_ms = 0
        """Of our own session at the broker, as told at the first login; 0: it does not end."""
        self.authenticate_version = 0
        """Of SaslAuthenticate, for the next logins."""

    def buffer_updated(self, nbytes: int) -> None:
        connection = self._connection
        connection.broker_sent(nbytes)
        if connection.full:
            self.read(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        for buffer in self._kept:
            self._buffers.take_back(buffer)
        self._kept.clear()
        self._connection.close("upstream_closed")

    def eof_received(self) -> bool:
        return False

    def close(self) -> None:
        """The client is gone."""
        if self.transport is not None and not self._lost:
            self.transport.close()
