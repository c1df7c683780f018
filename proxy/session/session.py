"""One client connection as a value machine: bytes in, effects out; no socket, no clock.

proxy.net.clients.connection feeds it with what the client, the broker and the controller send, and carries
its effects out. The session is the entry only: proxy.session.machine owns the state.
"""

from collections.abc import Callable
from functools import partial

from proxy.audit.record import AuditEvent
from proxy.security.sasl.exchange import Settled
from proxy.session.authentication import Authentication
from proxy.session.effects import ControllerResponse
from proxy.session.gate import Gate, ListenerPolicy, Peer
from proxy.session.in_flight import Awaited, Fetched, Pipeline, Rewritten
from proxy.session.intake import BORROWED_BYTES
from proxy.session.machine import Machine
from proxy.session.memory import SessionMemory
from proxy.session.requests import forwarding, termination
from proxy.session.requests.upstream_login import UpstreamLogin
from proxy.session.state import (
    CLOSING,
    LATE_LOGIN,
    LOG_IN,
    LOOKING_UP_TOPICS,
    RESPONSES_PENDING,
    TAKE_TURN,
    TURN_DUE,
    Effects,
    State,
)

_RESPONSES_WAIT = TURN_DUE | CLOSING
_RESPONSES_ARE_DECODED = RESPONSES_PENDING | _RESPONSES_WAIT


class Session:
    """Bytes and outcomes in, effects out.

    A slice of the event loop's time may be too short for what came in: then `turn_due` is true, and the rest
    is done by `take_turn`.
    """

    __slots__ = ("authentication", "gate", "listener", "machine", "peer")

    def __init__(
        self,
        gate: Gate,
        listener: ListenerPolicy,
        peer: Peer,
        authentication: Authentication,
    ) -> None:
        self.gate = gate
        self.listener = listener
        self.peer = peer
        self.authentication = authentication
        self.machine = Machine(gate, listener, peer, authentication)

    # What it is doing.

    @property
    def pipeline(self) -> Pipeline:
        """The requests in flight."""
        return self.machine.pipeline

    @property
    def memory(self) -> SessionMemory:
        return self.machine.memory

    @property
    def state(self) -> State:
        """Why no further request is taken now; OPEN: the next one is."""
        return State(self.machine.flags)

    @property
    def blocked(self) -> bool:
        """No further request is taken now. What the client sends meanwhile is stored: read no more of it."""
        return self.machine.flags != 0

    @property
    def closing(self) -> bool:
        """Nothing is taken from the client any more."""
        return self.machine.flags & CLOSING != 0

    @property
    def draining(self) -> bool:
        return self.machine.is_draining

    @property
    def takes_rest(self) -> bool:
        """Whether a draining session still takes something: the rest of a request that the broker has a part
        of, or the next message of a login."""
        logs_in = self.authentication.under_way and not self.blocked
        return self.machine.is_draining and (self.machine.intake.streaming_bytes > 0 or logs_in)

    @property
    def needs_no_response(self) -> bool:
        """Whether the client loses nothing but time if the connection ends now."""
        responds = self.working or self.machine.responses.has_begun
        return not responds and termination.are_repeatable(self.pipeline.queue, self.machine.intake.streaming)

    @property
    def turn_due(self) -> bool:
        """There is work left, for `take_turn`."""
        return self.machine.flags & TURN_DUE != 0

    @property
    def working(self) -> bool:
        """A piece of work is unfinished: it may borrow the receive buffer."""
        return self.machine.work is not None

    @property
    def looks_up_topics(self) -> bool:
        return self.machine.flags & LOOKING_UP_TOPICS != 0

    @property
    def response_waits(self) -> bool:
        """The broker's next response has to wait for memory: read no more of the broker."""
        return self.machine.responses.is_starved

    @property
    def incomplete_since_ms(self) -> int | None:
        """When the frame began of which the client has not sent everything yet."""
        intake = self.machine.intake
        return intake.incomplete_since_ms if intake.streaming_bytes or not self.machine.flags else None

    # What comes in.

    def forward_request(self, data: memoryview, now_ms: int) -> bool:
        """Whether `data` goes to the broker as it is now (patched, perhaps); then it is not for `receive`."""
        machine = self.machine
        if machine.flags:
            return False
        size_bytes = len(data)
        if machine.intake.has_begun:
            if machine.is_timed or not machine.intake.streams_on(size_bytes):
                return False
        elif machine.lane.produce_again(data, 0, size_bytes, now_ms) is None and not machine.lane.fetch(
            data, now_ms
        ):
            return False
        self.listener.counts.request_bytes += size_bytes
        return True

    def forward_response(self, data: memoryview, now_ms: int) -> bool:
        """Whether `data` goes to the client as it is; then it is not for `broker_responded`."""
        machine = self.machine
        if machine.responses.has_begun:
            if machine.is_timed or machine.flags & _RESPONSES_WAIT:
                return False
            return machine.responses.streams_on(len(data))
        if machine.flags & _RESPONSES_ARE_DECODED:
            return False
        return machine.pass_response(data, now_ms)

    def receive(self, data: memoryview, now_ms: int) -> Effects:
        """Bytes of the client, cut anywhere. They are patched in place, so `data` has to be writable."""
        machine = self.machine
        if machine.flags & CLOSING:
            return []
        machine.begin(now_ms)
        self.listener.counts.request_bytes += len(data)
        machine.intake.receive(data)
        return machine.take(now_ms)

    def broker_responded(self, data: memoryview, now_ms: int) -> Effects:
        """Bytes of the broker, cut anywhere; writable, as above."""
        machine = self.machine
        if machine.flags & CLOSING and machine.parting is None:
            return []
        machine.begin(now_ms)
        machine.responses.receive(data)
        if machine.work is not None:
            machine.responses.wait_for_turn()
        effects = machine.respond(now_ms)
        return effects + machine.go_on(now_ms)

    def controller_responded(
        self, correlation_id: int, response: ControllerResponse, now_ms: int
    ) -> tuple[AuditEvent, Callable[[int], Effects]] | None:
        """Take the outcome of a `ToController`; None: no request with this correlation id waits for it.

        Returns its record, and what to call with the time once that is durable, if the client is still there:
        then it gets the response.
        """
        machine, entry = self.machine, self.machine.waits_for
        if not isinstance(entry, Awaited) or entry.correlation_id != correlation_id:
            return None
        if machine.is_awaited_after_end:
            machine.memory.leave()
        outcome = forwarding.outcome(entry, response)
        event = forwarding.record(outcome, now_ms)
        return machine.completed(event, machine.client, entry.call), partial(self._recorded, outcome)

    def _recorded(self, outcome: forwarding.Outcome, now_ms: int) -> Effects:
        self.machine.begin(now_ms)
        effects = self.machine.run(partial(self.machine.controller_responded, outcome, now_ms))
        return effects + self.machine.go_on(now_ms)

    def verified(self, outcome: Settled, now_ms: int) -> Effects:
        """The outcome of a `Verify`."""
        machine = self.machine
        if machine.flags & CLOSING:
            return []
        machine.begin(now_ms)
        effects = machine.run(partial(machine.verified, outcome, now_ms))
        return effects + machine.take(now_ms)

    def unmuted(self, now_ms: int) -> Effects:
        """The time of a `MuteClient` is over: see `Machine.unmute`."""
        self.machine.begin(now_ms)
        return self.machine.unmute(now_ms) + self.machine.take(now_ms)

    def topics_looked_up(self) -> None:
        """The topics of a `LookUpTopics` have names now, as far as the broker knows them: `take_turn`."""
        self.machine.topics_looked_up()

    def await_upstream_login(self) -> None:
        """Send nothing more to the broker before `log_in_upstream`: it would end an expired session."""
        self.machine.move(LATE_LOGIN)

    def log_in_upstream(self, login: UpstreamLogin) -> Effects:
        """Renew the proxy's session at the broker as soon as no request is on its way there in pieces."""
        self.machine.login_due = login
        self.machine.move(LOG_IN)
        return self.machine.between_requests()

    # Time passes.

    def call_when_turn_is_due(self, call: Callable[[], None]) -> None:
        """Have `call` called when a turn is due without anything having come in."""
        self.machine.on_turn_due = call

    def take_turn(self, now_ms: int) -> Effects:
        """Continue the work that is left, for a slice."""
        machine = self.machine
        machine.begin(now_ms, own_turn=True)
        machine.move(TAKE_TURN)
        effects = machine.resume()
        while machine.later and machine.work is None:
            first, *machine.later = machine.later
            effects += machine.run(first)
        if machine.work is None and machine.responses.turn_due:
            machine.responses.turn_due = False
            effects += machine.respond(now_ms)
        machine.note_turn()
        return effects + machine.go_on(now_ms)

    def sweep(self, now_ms: int) -> Effects:
        """`summaries`, now or in later turns; nothing while other work is unfinished."""
        if self.working:
            return []
        self.machine.begin(now_ms, own_turn=True)
        return self.machine.sweep(now_ms)

    # Its end.

    def end_if_expired(self, now_ms: int) -> Effects:
        """End the session if it is past its end, and nothing is in flight on it."""
        authentication = self.authentication
        is_idle = not (self.pipeline.queue or self.machine.flags or authentication.under_way)
        if not is_idle or not authentication.is_expired(now_ms):
            return []
        return self.machine.apply(termination.expired_idle(authentication))

    def end_if_revoked(self) -> Effects:
        """End the session at once if its credential is not in effect any more."""
        if self.machine.flags & CLOSING or (reason := self.authentication.revocation) is None:
            return []
        return self.machine.apply(termination.revoked(self.authentication, reason))

    def disconnect(self, message: str) -> Effects:
        """End the session at once, for an administrator. `message`: why, and who it is."""
        if self.machine.flags & CLOSING:
            return []
        return self.machine.apply(termination.disconnected(self.authentication, message))

    def drain(self) -> Effects:
        """Take no further request; the session's Close comes once what is in flight has its responses.

        The rest of a Produce request that the broker has a part of is still taken, and so are the messages of
        a login that has no final response yet.
        """
        self.machine.is_draining = True
        return self.machine.between_requests()

    def client_left(self, now_ms: int) -> None:
        """The client has closed the connection, before anything else has; `closed` follows."""
        for entry in self.machine.pipeline.queue:
            # The broker reads the records all the same, and charges its own clients for them.
            if isinstance(entry, Fetched | Rewritten) and entry.reserved_bytes and entry.client is not None:
                entry.client.left(entry.reserved_bytes, entry.since_ms, now_ms)

    def closed(self) -> None:
        """The connection is over: what was held is free, and what was not handled yet will not be."""
        self.machine.close()

    def count_held(self, unsent_bytes: int, to_broker_bytes: int = 0) -> None:
        """Account for the memory that is held; `unsent_bytes` of it the client does not take, and
        `to_broker_bytes` the broker."""
        machine, unread_bytes = self.machine, unsent_bytes
        # More than one read brings is a large request: until the broker has it, its owner gets no other.
        taken_bytes = to_broker_bytes if to_broker_bytes > BORROWED_BYTES else 0
        input_bytes = machine.intake.held_bytes + to_broker_bytes - taken_bytes
        if machine.pipeline.queue:  # Without a request in flight there is no response.
            unread_bytes += machine.pipeline.held_bytes + machine.responses.held_bytes
            taken_bytes += machine.pipeline.taken_bytes
        machine.memory.count(input_bytes, unread_bytes, taken_bytes)
