"""One client connection as a value machine: bytes in, effects out; no socket, no clock.

proxy.net.clients.connection feeds it with what the client, the broker and the controller send, and carries
its effects out. The parts (login, requests, responses, data) return plans (proxy.session.plan), which the
machine applies.
"""

from functools import partial
from struct import Struct

from proxy.audit.record import AuditEvent
from proxy.security.sasl.exchange import Settled
from proxy.session import memory
from proxy.session.accounting.summaries import Summary
from proxy.session.apis.table import TABLE
from proxy.session.authentication import Authentication
from proxy.session.call import Call
from proxy.session.data.fast_lane import HEAD_BYTES, ProduceHead, decoded_name
from proxy.session.data.produce import FIRST_WITH_TOPIC_ID
from proxy.session.effects import Close, ControllerResponse, ToBroker
from proxy.session.gate import Gate, ListenerPolicy, Peer
from proxy.session.in_flight import Observer, Produced, charge_on_arrival
from proxy.session.machine import Machine
from proxy.session.memory import FREE_BYTES, STRANGERS_FREE_BYTES
from proxy.session.plan import End, LookUp, Plan
from proxy.session.requests import dispatch, forwarding, queries, termination, too_large
from proxy.session.requests.handshake import Handshake
from proxy.session.requests.upstream_login import UpstreamLogin
from proxy.session.state import (
    AWAIT_MEMORY,
    CLOSING,
    FILL_PIPELINE,
    LEAVE_WORK,
    LOG_IN,
    LOOKING_UP_TOPICS,
    RESPONSES_PENDING,
    TAKE_TURN,
    TURN_DUE,
    VERIFIED,
    WAITING,
    Effects,
    State,
)
from proxy.session.throttling import charge_unanswered
from proxy.wire import skim
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError
from proxy.wire.header import RequestHeader, decode_request_header

_RESPONSES_ARE_DECODED = RESPONSES_PENDING | TURN_DUE | CLOSING

_INT32 = Struct(">i").unpack_from
_INT16 = Struct(">h").unpack_from
_SLICE_BYTES, _STRANGERS_SLICE_BYTES = 256 * 1024, 8 * 1024  # Of the proxy's own responses in one slice.
_FRAMES_AT_A_TIME = 64  # That pass without being decoded, between two looks at the clock.


class Session:
    """Bytes and outcomes in, effects out.

    A slice of the event loop's time may be too short for what came in: then `turn_due` is true, and the rest
    is done by `take_turn`.
    """

    def __init__(
        self,
        gate: Gate,
        listener: ListenerPolicy,
        peer: Peer,
        authentication: Authentication,
        observer: Observer | None = None,
    ) -> None:
        self.gate = gate
        self.listener = listener
        self.peer = peer
        self.authentication = authentication
        self.machine = Machine(gate, listener, peer, authentication, observer)
        self._lane, self._responses = self.machine.lane, self.machine.responses
        self.pipeline = self.machine.pipeline
        self.memory = self.machine.memory
        self._handshake = Handshake(gate, listener, authentication)
        self._login_due: UpstreamLogin | None = None
        self._input: bytearray | memoryview = bytearray()  # A view: of bytes that are the session's own.
        self._needed_bytes = 0  # Of `_input`, before it is looked at again.
        self._streaming_bytes = 0  # Still to come of a frame whose beginning has been sent on.
        self._streaming_tag_bytes = 0  # So many of the last of them have to be zero.
        self._streams_to: Summary | None = None  # Where they are counted.
        self._dropped: Call | None = None  # They are dropped; then this request is answered.
        self._streaming: Produced | None = None  # The request that they belong to, if it gets a response.
        self._streaming_length = 0  # The size of the whole request.
        self._incomplete_since_ms: int | None = None  # Since when the rest of a frame is missing.
        self._is_draining = False

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
        return self._is_draining

    @property
    def takes_rest(self) -> bool:
        """Whether a draining session still takes something: the rest of a request that the broker has a part
        of, or the next message of a login."""
        logs_in = self.authentication.under_way and not self.blocked
        return self._is_draining and (self._streaming_bytes > 0 or logs_in)

    @property
    def needs_no_response(self) -> bool:
        """Whether the client loses nothing but time if the connection ends now."""
        responds = self.working or self._responses.has_begun
        return not responds and termination.are_repeatable(self.pipeline.queue, self._streaming)

    @property
    def turn_due(self) -> bool:
        """There is work left, for `take_turn`."""
        return self.machine.flags & TURN_DUE != 0

    @property
    def working(self) -> bool:
        """A piece of work is unfinished: it may borrow the receive buffer."""
        return self.machine.slices.unfinished

    @property
    def looks_up_topics(self) -> bool:
        return self.machine.flags & LOOKING_UP_TOPICS != 0

    @property
    def response_waits(self) -> bool:
        """The broker's next response has to wait for memory: read no more of the broker."""
        return self._responses.is_starved

    @property
    def incomplete_since_ms(self) -> int | None:
        """When the frame began of which the client has not sent everything yet."""
        return self._incomplete_since_ms if self._streaming_bytes or not self.machine.flags else None

    def forward_request(self, data: memoryview, now_ms: int) -> bool:
        """Whether `data` goes to the broker as it is now (patched, perhaps); then it is not for `receive`."""
        if self.machine.flags or self._streaming_bytes or self._input:
            return False
        lane, size_bytes = self._lane, len(data)
        if lane.produce_again(data, 0, size_bytes, now_ms) is None and not lane.fetch(data, now_ms):
            return False
        self.listener.counts.request_bytes += size_bytes
        return True

    def forward_response(self, data: memoryview, now_ms: int) -> bool:
        """Whether `data` goes to the client as it is; then it is not for `broker_responded`."""
        if self.machine.flags & _RESPONSES_ARE_DECODED or self._responses.has_begun:
            return False
        return self.machine.pass_response(data, now_ms)

    def receive(self, data: memoryview, now_ms: int) -> Effects:
        """Bytes of the client, cut anywhere. They are patched in place, so `data` has to be writable."""
        if self.machine.flags & CLOSING:
            return []
        self.machine.begin(now_ms)
        self.listener.counts.request_bytes += len(data)
        effects: Effects = []
        if rest := self._streaming_bytes:
            effects = self._stream(data[:rest], now_ms)
            if self.machine.flags & CLOSING:
                return effects
            data = data[rest:]
        if self._input or self.machine.flags:
            if isinstance(self._input, memoryview):
                self._input = bytearray(self._input)
            self._input += data
            if self.machine.flags or len(self._input) < self._needed_bytes:
                return effects
            data, self._input = memoryview(self._input), bytearray()
        return effects + self._take(data, now_ms)

    def broker_responded(self, data: memoryview, now_ms: int) -> Effects:
        """Bytes of the broker, cut anywhere; writable, as above."""
        if self.machine.flags & CLOSING and self.machine.parting is None:
            return []
        self.machine.begin(now_ms)
        if self.machine.observer is not None:
            self.machine.observer.received(data)
        self._responses.receive(data)
        if self.machine.slices.unfinished:
            self._responses.wait_for_turn()
        effects = self.machine.respond(now_ms)
        return effects + self._continue(now_ms)

    def controller_responded(self, correlation_id: int, response: ControllerResponse, now_ms: int) -> Effects:
        """The outcome of a `ToController`; `controller_record` returns its record."""
        self.machine.begin(now_ms)
        effects = self.machine.run(
            partial(self.machine.controller_responded, correlation_id, response, now_ms)
        )
        return effects + self._continue(now_ms)

    def controller_record(
        self, correlation_id: int, response: ControllerResponse, now_ms: int
    ) -> AuditEvent | None:
        """The record of the controller's response, which has to be durable before the client gets it."""
        entry = self.machine.awaited(correlation_id)
        if entry is None:
            return None
        event = forwarding.record(entry, response, now_ms)
        if self.machine.observer is not None:
            self.machine.observer.forwarded(event)
        return self.machine.completed(event, self.machine.client.context)

    def verified(self, outcome: Settled, now_ms: int) -> Effects:
        """The outcome of a `Verify`."""
        if self.machine.flags & CLOSING:
            return []
        self.machine.begin(now_ms)
        effects = self.machine.run(partial(self._verified, outcome, now_ms))
        return effects + self._take_more(now_ms)

    def unmuted(self, now_ms: int) -> Effects:
        """The time of a `MuteClient` is over: see `Machine.unmute`."""
        self.machine.begin(now_ms)
        return self.machine.unmute(now_ms) + self._take_more(now_ms)

    def topics_looked_up(self) -> None:
        """The topics of a `LookUpTopics` have names now, as far as the broker knows them: `take_turn`."""
        self.machine.topics_looked_up()

    def take_turn(self, now_ms: int) -> Effects:
        """Continue the work that is left, for a slice."""
        self.machine.begin(now_ms, own_turn=True)
        self.machine.move(TAKE_TURN)
        effects = self.machine.slices.resume()
        while self.machine.later and not self.machine.slices.unfinished:
            effects += self.machine.run(self.machine.later.pop(0))
        if not self.machine.slices.unfinished and self._responses.turn_due:
            self._responses.turn_due = False
            effects += self.machine.respond(now_ms)
        self.machine.note_turn()
        return effects + self._continue(now_ms)

    def sweep(self, now_ms: int) -> Effects:
        """`summaries`, now or in later turns; nothing while other work is unfinished."""
        if self.working:
            return []
        self.machine.begin(now_ms, own_turn=True)
        return self.machine.sweep(now_ms)

    def log_in_upstream(self, login: UpstreamLogin) -> Effects:
        """Renew the proxy's session at the broker as soon as no request is on its way there in pieces."""
        self._login_due = login
        self.machine.move(LOG_IN)
        return self._log_in_upstream()

    def end_if_expired(self, now_ms: int) -> Effects:
        """End the session if it is past its end, and nothing is in flight on it."""
        authentication = self.authentication
        is_idle = not (len(self.pipeline) or self.machine.flags or authentication.under_way)
        if not is_idle or not authentication.expiry.is_over(now_ms):
            return []
        return self.machine.apply(termination.expired_idle(authentication))

    def end_if_revoked(self) -> Effects:
        """End the session at once if its credential is not in effect any more."""
        if self.machine.flags & CLOSING or (reason := self.authentication.revocation) is None:
            return []
        return self.machine.apply(termination.revoked(self.authentication, reason))

    def drain(self) -> Effects:
        """Take no further request; the session's Close comes once what is in flight has its responses.

        The rest of a Produce request that the broker has a part of is still taken, and so are the messages of
        a login that has no final response yet.
        """
        self._is_draining = True
        return self.machine.apply(self._drained())

    def closed(self) -> None:
        """The connection is over: what was held is free, and what was not handled yet will not be."""
        self._input = bytearray()
        self.machine.close()

    def count_held(self, unsent_bytes: int) -> None:
        """Account for the memory that is held; `unsent_bytes` of it the client does not take."""
        input_bytes = max(0, len(self._input) - self.memory.frame_bytes) + len(self.machine.held_frame or b"")
        self.memory.count(input_bytes, self.pipeline.held_bytes + self._responses.held_bytes + unsent_bytes)

    def _take(self, data: memoryview, now_ms: int) -> Effects:
        """Handle the frames in `data`; what is not handled is stored."""
        effects, position = self._frames(data, now_ms)
        if position < len(data):
            self._input = bytearray(data[position:])
        return effects

    def _take_more(self, now_ms: int) -> Effects:
        """Handle what has waited, if it may be handled now."""
        effects = self._log_in_upstream()
        if self.machine.held_frame is not None and not self.machine.flags:
            frame, self.machine.held_frame = self.machine.held_frame, None
            own, position = self._frames(frame, now_ms)
            effects += own
            if not position:
                self.machine.held_frame = frame  # It waits for a turn, or for memory.
        if self.machine.flags or not self._input:
            return effects
        data, self._input = memoryview(self._input), bytearray()
        own, position = self._frames(data, now_ms)
        rest = data[position:]
        # Not copied each time that a few requests are taken, but once most of what it is a part of is gone.
        self._input = rest if 2 * len(rest) > len(memoryview(data.obj)) else bytearray(rest)
        return effects + own

    def _continue(self, now_ms: int) -> Effects:
        """Do what waited for responses to leave: close the connection, or take more requests."""
        self.machine.note_responses()
        if self.machine.parting is not None and not len(self.pipeline) and not self.machine.slices.unfinished:
            parting, self.machine.parting = self.machine.parting, None
            return [parting]
        return self._take_more(now_ms)

    def _frames(self, data: memoryview, now_ms: int) -> tuple[Effects, int]:
        """Handle the frames in `data`; returns where the first one begins that is incomplete or has to wait.

        Frames that are sent on as they came are written in one run; anything else breaks the run.
        """
        effects = self.machine.follow_basis(now_ms)
        position = run = passed = 0
        end = len(data)
        while position < end and self._may_take():
            left = end - position
            if left < 4:
                self._await_rest(position, 4, now_ms)
                break
            length = _INT32(data, position)[0]
            stop = position + 4 + length
            summary, own = self._passes(data, position, stop, now_ms)
            effects += own
            if summary is not None:
                position = stop if stop <= end else self._begin_stream(summary, data, position, stop, now_ms)
                passed += 1
                self._look_at_clock(passed, end - position)
            elif self.machine.flags & WAITING:
                self._frames_taken(position)
                break  # For the name of its topic.
            elif fault := self._fault(data, position, length):
                _pass_on(data[run:position], effects)
                effects += self._refuse(fault, data[position:stop], stop - position, now_ms)
                position = run = end if self.machine.flags & CLOSING else min(stop, end)
            elif stop > end:
                needed_bytes = memory.needed_bytes(self.gate.limits, data, position, length)
                self._await_rest(position, needed_bytes, now_ms)
                break
            elif self._may_begin():
                frame = data[position:stop]
                own_effects = self._handle_in_slices(frame, now_ms)
                position = stop
                if own_effects and type(last := own_effects[-1]) is ToBroker and last.data is frame:
                    effects += own_effects[:-1]
                else:
                    _pass_on(data[run : position - len(frame)], effects)
                    effects += own_effects
                    run = stop
        else:
            self._frames_taken(position)
        if run < position:
            effects.append(ToBroker(data[run:position]))
        return effects, position

    def _passes(
        self, data: memoryview, position: int, stop: int, now_ms: int
    ) -> tuple[Summary | None, Effects]:
        """Let the frame at `position` pass if it is a Produce request that may; returns where it is
        counted."""
        lane = self._lane
        if len(data) - position < HEAD_BYTES or _INT16(data, position + 4)[0]:
            return None, []  # The API key of Produce is 0.
        summary = lane.produce_again(data, position, stop, now_ms)
        if summary is not None:
            return summary, []
        head = lane.head_of_produce(data, position, stop, now_ms)
        if head is not None:
            return self._produce(head, data, position, now_ms)
        several = lane.produce_to_several(data, position, stop, now_ms)
        return (
            (None, [])
            if several is None
            else (several[0], self._charge(several[1], stop - position - 4, now_ms))
        )

    def _frames_taken(self, position: int) -> None:
        if position and not self._streaming_bytes:
            self._incomplete_since_ms = None
            self.memory.complete()

    def _fault(self, data: memoryview, position: int, length: int) -> str | None:
        stranger, bare = self.authentication.under_way, self._handshake.takes_bare_tokens
        return memory.fault_of_size(
            self.gate.limits, data, position, length, stranger=stranger, bare_token=bare
        )

    def _refuse(self, fault: str, frame: memoryview, size_bytes: int, now_ms: int) -> Effects:
        """Drop a frame of this size and respond to it then, or close the connection."""
        header = None if self.authentication.under_way else too_large.header_of(self.gate, frame, size_bytes)
        if header is None:
            return self.machine.apply(dispatch.impossible_length(fault, frame))
        effects = self.machine.follow_client_id(header, frame, now_ms)
        self._dropped, self._streams_to = self._call(header, size_bytes, now_ms), None
        self._streaming_bytes, self._streaming_tag_bytes, self._incomplete_since_ms = size_bytes, 0, now_ms
        return effects + self._stream(frame, now_ms)

    def _await_rest(self, position: int, needed_bytes: int, now_ms: int) -> None:
        """The frame at `position` is incomplete: take memory for it, and wait for this much of it."""
        self._needed_bytes = needed_bytes
        if position or self._incomplete_since_ms is None:
            self._incomplete_since_ms = now_ms
        if position:
            self.memory.complete()
        free_bytes = STRANGERS_FREE_BYTES if self.authentication.under_way else FREE_BYTES
        if needed_bytes <= free_bytes or self.memory.frame_bytes:
            return
        if not self.memory.take(needed_bytes, self.machine.memory_granted):
            self.machine.move(AWAIT_MEMORY)

    def _look_at_clock(self, passed: int, left_bytes: int) -> None:
        """After so many frames that passed without being decoded: whether the rest waits for a turn."""
        if passed % _FRAMES_AT_A_TIME == 0 and left_bytes and self.gate.pace.is_over:
            self.machine.move(LEAVE_WORK)

    def _may_take(self) -> bool:
        """Whether another request is taken; otherwise it waits."""
        if self.pipeline.queue and self.pipeline.is_full(was_full=False):
            self.machine.move(FILL_PIPELINE)
        return not self.machine.flags

    def _may_begin(self) -> bool:
        """Whether a request may be decoded now; otherwise a turn is due, or the client waits for memory."""
        limit = _STRANGERS_SLICE_BYTES if self.authentication.under_way else _SLICE_BYTES
        if not self.gate.pace.may_begin or self.machine.own_bytes > limit:
            self.machine.move(LEAVE_WORK)
            return False
        if not self.memory.may_respond(self.machine.memory_granted):
            self.machine.move(AWAIT_MEMORY)
            return False
        return True

    def _produce(
        self, head: ProduceHead, data: memoryview, position: int, now_ms: int
    ) -> tuple[Summary | None, Effects]:
        """Let a Produce request pass if its topic is allowed. Return where it is counted; None: decode it."""
        effects = self.machine.name_client(head.raw_id, now_ms)
        if effects is None:
            return None, []  # Decoded, it is malformed.
        summary = self.machine.client.writes_of(head.version).get(head.topic)
        if summary is None:
            summary, own = self._decide_produce(head, now_ms)
            effects += own
        if summary is not None:
            self._lane.produce(head, data, position, summary, now_ms)
            if position + head.length + 4 <= len(data):
                effects += self._charge(head.acks, head.length, now_ms)
        return summary, effects

    def _charge(self, acks: int, request_bytes: int, now_ms: int) -> Effects:
        """Charge a request that has passed, if it has no place in flight."""
        client = self.machine.client
        if acks or not (client.producer.limited or client.request.limited):
            return []
        return self.machine.apply(charge_unanswered(client, request_bytes, now_ms)[0])

    def _decide_produce(self, head: ProduceHead, now_ms: int) -> tuple[Summary | None, Effects]:
        gate, topic = self.gate, head.topic
        if gate.unrecorded:
            return None, []
        if head.version >= FIRST_WITH_TOPIC_ID:
            name = gate.topic_names.name(topic)
            if name is None and queries.is_unnamed(gate, self.machine.remembered, topic, now_ms):
                return None, self.machine.apply([LookUp(topic)])
        else:
            name = decoded_name(topic)
        if name is None:
            return None, []  # The decoded request gets the error.
        effects: Effects = []
        if self.machine.client.is_full():
            effects = self.machine.renew_client(
                self.machine.client.raw_id, self.machine.client.context.client_id, now_ms
            )
        return self._lane.decide(head, name, now_ms), effects

    def _begin_stream(self, summary: Summary, data: memoryview, position: int, stop: int, now_ms: int) -> int:
        """A request passes whose last bytes are still to come, and to be counted and charged when they do."""
        self._streaming_bytes, self._streams_to = stop - len(data), summary
        self._streaming, self._streaming_length = self._lane.streaming, stop - position - 4
        self._streaming_tag_bytes = skim.tag_bytes(_INT16(data, position + 6)[0])
        self._incomplete_since_ms = now_ms
        summary.request_bytes -= self._streaming_bytes
        return len(data)

    def _stream(self, data: memoryview, now_ms: int) -> Effects:
        """Send on bytes of a request whose beginning has been sent on."""
        effects: Effects = []
        if any(data[max(0, self._streaming_bytes - self._streaming_tag_bytes) :]):
            return self.machine.apply(termination.malformed_midway())
        if len(data) == self._streaming_bytes:
            effects = self._decide_again(now_ms)
            if self.machine.flags & CLOSING:
                return effects
        self._streaming_bytes -= len(data)
        if self._streams_to is not None:
            self._streams_to.request_bytes += len(data)
        if self._dropped is None:
            effects.append(ToBroker(data))
        if not self._streaming_bytes:
            effects += self._last_bytes_came(now_ms)
            self._incomplete_since_ms = self._streaming = None
            effects += self.machine.apply(self._drained())
        return effects + self._log_in_upstream()

    def _last_bytes_came(self, now_ms: int) -> Effects:
        """Charge a request that was sent on, or answer one that was dropped."""
        if self._dropped is not None:
            call, self._dropped = self._dropped, None
            return self.machine.apply(too_large.dropped(call))
        entry = self._streaming
        if entry is None:
            return self._charge(0, self._streaming_length, now_ms)
        charge_on_arrival(entry, now_ms)
        if entry.throttle_time_ms:
            self._lane.use(self.machine.client)  # The template's entry is like this one.
        return []

    def _decide_again(self, now_ms: int) -> Effects:
        """Decide again on a request whose last bytes are here, if anything has changed since its first ones.

        What is denied now is not sent on: the broker never gets a complete request, and both connections end.
        The client gets no response, since its request's place in the order of responses is the broker's.
        """
        summary = self._streams_to
        if self.authentication.expiry.is_over(now_ms):
            return self.machine.apply(termination.expired_midway(self.authentication))
        if summary is None or self.machine.client.basis is self.gate.basis:
            return []
        effects = self.machine.renew_client(
            self.machine.client.raw_id, self.machine.client.context.client_id, now_ms
        )
        decision = self.machine.client.decide([summary.action])[0]
        if not decision.allowed:
            effects += self.machine.apply(
                termination.denied_midway(self.authentication, summary.action, decision)
            )
        return effects

    def _handle_in_slices(self, frame: memoryview, now_ms: int) -> Effects:
        if self.machine.observer is not None:
            self.machine.observer.frame_taken(frame, logged_in=not self.authentication.under_way)
        effects = self.machine.slices.run(
            partial(self._handle, frame, now_ms), self.gate.limits.decoded_request_max_elements
        )
        if effects is None:
            self.machine.move(LEAVE_WORK)
            return []
        return effects

    def _handle(self, frame: memoryview, now_ms: int) -> Effects:
        """Handle one whole frame. A frame that is sent on as it came is the last of the effects."""
        if self._handshake.takes_bare_tokens:
            return self.machine.apply(self._handshake.bare_token(frame, now_ms) + self._drained())
        effects: Effects = []
        call: Call | None = None
        try:
            header = decode_request_header(frame, 4)
            self.listener.counts.took(header.api_key)
            if header.api_key == ApiKey.API_VERSIONS and not self.authentication.under_way:
                effects = self.machine.follow_client_id(header, frame, now_ms)
            plan = self._handshake.request(header, frame, self.machine.client, now_ms)
            if plan is not None:
                plan += self._drained()
            elif not dispatch.is_offered(self.gate, header):
                plan = dispatch.not_served(self.listener, header)
            else:
                effects = self.machine.follow_client_id(header, frame, now_ms)
                call = self._call(header, len(frame), now_ms)
                plan = dispatch.plan(call, frame, header.body_offset)
        except WireError as error:
            plan = too_large.refused(call, frame, error)
        return effects + self.machine.apply(plan)

    def _call(self, header: RequestHeader, size_bytes: int, now_ms: int) -> Call:
        api_key, version, correlation_id, _, _ = header
        whose = self.machine.client, self.gate, self.listener, self.peer, self.machine.remembered
        taken = now_ms, size_bytes, size_bytes
        return Call(api_key, version, correlation_id, *whose, *taken, api=TABLE.get(api_key))

    def _verified(self, outcome: Settled, now_ms: int) -> Effects:
        self.machine.move(VERIFIED)
        return self.machine.apply(self._handshake.verified(outcome, now_ms) + self._drained())

    def _log_in_upstream(self) -> Effects:
        login = self._login_due
        if login is None or self._streaming_bytes or self.working or self.machine.flags & (WAITING | CLOSING):
            return []
        self._login_due = None
        return self.machine.apply(login.begin())

    def _drained(self) -> Plan:
        """Return the end of a draining session that has neither the rest of a request to take nor a login to
        complete."""
        if not self._is_draining or self._streaming_bytes or self.machine.flags & CLOSING:
            return []
        return [] if self.authentication.under_way else [End(Close(termination.DRAINED))]


def _pass_on(run: memoryview, effects: Effects) -> None:
    if run:
        effects.append(ToBroker(run))
