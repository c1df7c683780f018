"""One client connection as a value machine: bytes in, effects out; no socket, no clock.

Fed by proxy.net.connection with what the client, the broker and the controller send, and carried out by it.
A frame is one of three kinds: it streams through (produce to one partition), it is treated as a whole
(proxy.session.request), or it is the session's own (SASL, ApiVersions: proxy.session.greeting).
What the broker answers is the affair of proxy.session.replies.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any

from proxy.audit.record import AuditEvent
from proxy.quota.throttle import Bucket
from proxy.security.authorizer import RequestContext
from proxy.security.sasl.exchange import Settled
from proxy.session import (
    asking,
    draining,
    fetch,
    forwarding,
    frames,
    greeting,
    known_fetch,
    origin,
    produce_path,
    refused,
    request,
    topic_lookup,
    unasked,
    upstream_login,
)
from proxy.session.asking import Question
from proxy.session.authentication import Authentication
from proxy.session.call import Call
from proxy.session.client_state import ClientState
from proxy.session.controller_reply import ControllerReply
from proxy.session.effects import Close, Effect, MuteClient, Recorded, ToBroker, ToClient
from proxy.session.former_clients import FormerClients
from proxy.session.gate import Gate, ListenerPolicy, Peer
from proxy.session.memory import SessionMemory
from proxy.session.pipeline import MAX_IN_FLIGHT, InFlight, Pipeline
from proxy.session.replies import Replies
from proxy.session.share_sessions import ShareSessions
from proxy.session.slices import UNFINISHED, Slices
from proxy.session.summaries import Summary
from proxy.session.topic_lookup import TopicLookup
from proxy.session.withheld import WithheldAssignments
from proxy.wire.header import RequestHeader

_INT32 = Struct(">i").unpack_from
_HEAD_BYTES = 14

_Function = Callable[[], list[Effect] | None]
_RESPONSES_WAIT, _TURN_DUE = 1, 2  # Bits of Session._holds.
_SLICE_BYTES, _STRANGERS_SLICE_BYTES = 256 * 1024, 8 * 1024  # Of our own responses in one slice.
_BORROWED_BYTES = 256 * 1024  # The largest frame that the receive buffer may hold.
_FRAMES_AT_A_TIME = 64  # That pass without being decoded, between two looks at the clock.


class Session:
    """Bytes and outcomes in, effects out.

    A slice of the event loop's time may be too short for what came in: then `turn_due` is true, and the rest
    is done by `take_turn`.
    """

    def __init__(
        self, gate: Gate, listener: ListenerPolicy, peer: Peer, authentication: Authentication
    ) -> None:
        self.gate = gate
        self.now_ms = 0  # Of the slice.
        self.listener = listener
        self.peer = peer
        self.authentication = authentication
        self.pipeline = Pipeline()
        self.fetch_sessions = fetch.FetchSessions()
        self.share_sessions = ShareSessions()
        self.withheld = WithheldAssignments()
        self.client = self._new_client(None, None)
        self._former = FormerClients(self.pipeline)
        self._slices = Slices(gate.pace)
        self._later: deque[tuple[_Function, list[Effect] | None]] = deque()  # Work behind that.
        self.memory = SessionMemory(gate.memory, authentication, peer.host)
        self._replies = Replies(
            self.pipeline,
            listener,
            self.fetch_sessions,
            self._note_of_answer,
            self._note_throttled,
            partial(self.memory.may_hold, granted=self._response_room_granted),
            gate.pace,
        )
        # A request that the controller has, a question of ours that the broker has, topics without names.
        self.waits_for: InFlight | Question | TopicLookup | frames.Starved | None = None
        self.looked_up = topic_lookup.NONE
        """Ids that the broker had no name for when they were looked up for the next request."""
        self._held_back: memoryview | None = None  # A frame before `_input`, to be treated again.
        self.on_turn_due: Callable[[], None] = _nothing
        """Called when a turn is due without anything having come in."""
        self._login_due: upstream_login.UpstreamLogin | None = None
        # A token that is checked, and since when; the header is None where the frame was nothing else.
        self.verifying: tuple[RequestHeader | None, int] | None = None
        self._input = bytearray()
        self._needed_bytes = 0
        self._streaming_bytes = 0  # Of a frame that was let through and is not all there yet.
        self._streams_to: Summary | None = None  # Where it is counted.
        self._incomplete_since_ms: int | None = None  # Since when the rest of a frame is missing.
        self._own_bytes = 0  # Of our own responses in this slice.
        self.mutes = 0  # How many `MuteClient` have not been followed by `unmuted` yet.
        # Too many responses are due, or there is work left that has to wait for its turn.
        self._holds = 0
        self.closing = False  # Nothing is taken from the client any more.
        self._parting: Close | None = None  # Said once the answers before it have left.
        self.draining = False
        self.incomplete: InFlight | None = None  # The request in flight that is not all there yet.

    @property
    def streams_to(self) -> Summary | None:
        """Where a request is counted of which the last bytes are still to come."""
        return self._streams_to if self._streaming_bytes else None

    @property
    def blocked(self) -> bool:
        """No further request is taken now; what the client sends meanwhile is kept, so read no more of it."""
        waits = self.waits_for is not None or self.verifying is not None
        return waits or self.mutes > 0 or self.closing or self._holds != 0

    @property
    def turn_due(self) -> bool:
        """There is work left, for `take_turn`."""
        return self._holds & _TURN_DUE != 0

    @property
    def incomplete_since_ms(self) -> int | None:
        """When the frame began of which the client has not sent everything yet."""
        return self._incomplete_since_ms if self._streaming_bytes or not self.blocked else None

    @property
    def working(self) -> bool:
        """A piece of work is unfinished: it may borrow the receive buffer, and the broker is not heard."""
        return self._slices.unfinished or self._replies.working

    @property
    def response_waits(self) -> bool:
        """No more of the broker's responses can be held until others of the same owner were read."""
        return self._replies.starved

    @property
    def responding(self) -> bool:
        """A response has begun, or is being changed."""
        return self.working or self._replies.has_begun

    def passes(self, data: memoryview, now_ms: int) -> bool:
        """Whether `data` goes to the broker as it is now (patched, perhaps); then it is not for `receive`."""
        if (
            self._streaming_bytes
            or self._input
            # As `blocked`, without a call.
            or self.waits_for is not None
            or self.verifying is not None
            or self.mutes
            or self.closing
            or self._holds
            or not (
                produce_path.streams_again(self, data, 0, len(data), now_ms)
                or known_fetch.passes(self, data, now_ms)
            )
        ):
            return False
        self.listener.counts.request_bytes += len(data)
        return True

    def reply_passes(self, data: memoryview, now_ms: int) -> bool:
        """Whether `data` goes to the client as it is: then it is not for `broker_replied`."""
        if self.closing or self._holds:
            return False
        return self._replies.passes(data, now_ms)

    def receive(self, data: memoryview, now_ms: int) -> list[Effect]:
        """Bytes of the client, cut anywhere. They are patched in place, so `data` has to be writable."""
        if self.closing:
            return []
        self._begin(now_ms)
        self.listener.counts.request_bytes += len(data)
        effects: list[Effect] = []
        if self._streaming_bytes:
            passed = min(len(data), self._streaming_bytes)
            if passed == self._streaming_bytes and not produce_path.may_end(self, now_ms, effects):
                return effects
            self._streaming_bytes -= passed
            if self._streams_to is not None:
                self._streams_to.request_bytes += passed
            effects.append(ToBroker(data[:passed]))
            data = data[passed:]
            if not self._streaming_bytes:
                self._incomplete_since_ms = self.incomplete = None
                draining.end_if_due(self, effects)
            if self._login_due is not None:
                self._log_in_upstream(effects)
        if self._input or self.blocked:
            self._input += data
            if self.blocked or len(self._input) < self._needed_bytes:
                return effects
            data, self._input = memoryview(self._input), bytearray()
        position = self._frames(data, now_ms, effects)
        if position < len(data):
            self._input += data[position:]
        return effects

    def broker_replied(self, data: memoryview, now_ms: int) -> list[Effect]:
        """Bytes of the broker, cut anywhere; writable, as above."""
        if self.closing and self._parting is None:
            return []
        self._begin(now_ms)
        return self._replied(self._replies.receive(data, now_ms, keep=self._slices.unfinished), now_ms)

    def controller_replied(self, correlation_id: int, reply: ControllerReply, now_ms: int) -> list[Effect]:
        """What came of a `ToController`; `forwarding.told` has its record."""
        self._begin(now_ms)
        effects: list[Effect] = []
        self._run(partial(forwarding.replied, self, correlation_id, reply, now_ms), effects)
        return effects + self._answers_left(now_ms)

    def take_turn(self, now_ms: int) -> list[Effect]:
        """Go on with the work that is left, for a slice."""
        effects: list[Effect] = []
        self._begin(now_ms, own_turn=True)
        self._holds &= ~_TURN_DUE
        self._slices.go_on(effects)
        while self._later and not self._slices.unfinished:
            function, own = self._later.popleft()
            self._run(function, effects, own)
        if not self._slices.unfinished and self._replies.turn_due:
            effects += self._replied(self._replies.go_on(now_ms), now_ms)
        self._note_turn()
        return effects + self._answers_left(now_ms)

    def sweep(self, now_ms: int) -> list[Effect]:
        """`summaries`, now or in later turns; nothing while other work is unfinished."""
        effects: list[Effect] = []
        if not self.working:
            self._begin(now_ms, own_turn=True)
            self._run(partial(self.summaries, now_ms), effects)
        return effects

    def log_in_upstream(self, login: upstream_login.UpstreamLogin) -> list[Effect]:
        """Renew our session at the broker as soon as no request is on its way there in pieces."""
        effects: list[Effect] = []
        self._login_due = login
        self._log_in_upstream(effects)
        return effects

    def verified(self, outcome: Settled, now_ms: int) -> list[Effect]:
        """What came of a `Verify`."""
        if self.closing:
            return []
        self._begin(now_ms)
        effects: list[Effect] = []
        own: list[Effect] = []
        self._run(partial(greeting.verified, self, outcome, now_ms, own), effects, own)
        draining.end_if_due(self, effects)
        return effects + self._go_on(now_ms)

    def unmuted(self, now_ms: int) -> list[Effect]:
        """The time of a `MuteClient` is over; the client is heard again when that of each of them is."""
        self._begin(now_ms)
        self.mutes = max(0, self.mutes - 1)
        return self._go_on(now_ms)

    def room_granted(self) -> None:
        """What was waited for is there: `take_turn`."""
        self.waits_for = None
        self._holds |= _TURN_DUE
        self.on_turn_due()

    def hold_back(self, frame: memoryview) -> None:
        """Treat this frame again before anything else is taken, once nothing is waited for."""
        self._held_back = frame if len(frame) > _BORROWED_BYTES else memoryview(bytearray(frame))

    def topics_looked_up(self) -> None:
        """The topics waited for have names now, as far as the broker knows them: `take_turn`."""
        lookup = self.waits_for
        if type(lookup) is TopicLookup:
            self._later.append(lookup.ended(self))
            self.room_granted()

    def count_held(self, unsent_bytes: int) -> None:
        """Count what is held in memory; `unsent_bytes` of it the client does not take."""
        input_bytes = max(0, len(self._input) - self.memory.frame_bytes) + len(self._held_back or b"")
        self.memory.count(input_bytes, self.pipeline.held_bytes + self._replies.kept_bytes + unsent_bytes)

    def _response_room_granted(self) -> None:
        self._replies.room_granted()
        self._holds |= _TURN_DUE
        self.on_turn_due()

    def gone(self) -> None:
        """The connection is over: what was held is free, and what was not looked at yet will not be."""
        self._input, self._held_back = bytearray(), None
        self._slices.drop()
        self._later.clear()
        self._replies.drop()
        self._holds, self.on_turn_due = 0, _nothing
        self.memory.leave()

    def summaries(self, now_ms: int) -> list[Effect]:
        """The traffic counted since the last time; to be called at each interval and at the end."""
        events = self._former.drain(now_ms, self._complete_for)
        return [Recorded(event) for event in events + self.client.drain(now_ms, self.complete)]

    def renew_client(self, raw_id: bytes | None, client_id: str | None, now_ms: int) -> list[Effect]:
        """The principal or the basis has changed, or the memory is full: the counts so far leave first."""
        effects = self.summaries(now_ms)
        self._former.add(self.client)
        self.client = self._new_client(raw_id, client_id)
        return effects

    def switch_client(self, raw_id: bytes, client_id: str | None, now_ms: int) -> list[Effect]:
        """Another client id than in the request before: what was counted under that one stays there."""
        if self.client.raw_id is None or self.client.basis is not self.gate.basis:
            return self.renew_client(raw_id, client_id, now_ms)
        kept = self._former.switch(self.client, raw_id, now_ms)
        self.client = kept or self._new_client(raw_id, client_id)
        return self.summaries(now_ms) if self._former.is_full else []

    def complete(self, event: AuditEvent) -> AuditEvent:
        """Fill in who and where, and at which image."""
        return self._complete_for(event, self.client.context)

    def _complete_for(self, event: AuditEvent, context: RequestContext) -> AuditEvent:
        return origin.complete(self, event, context)

    def answer(self, data: bytes, effects: list[Effect], api_key: int, since_ms: int) -> None:
        """Our own response to a request taken at `since_ms`, behind those that are on their way."""
        self._own_bytes += len(data)
        if len(self.pipeline):
            self.pipeline.push_ready(data, self.listener.counts.through[api_key], since_ms)
            self._note_responses()
        else:
            self.listener.counts.answered_here(api_key, self.now_ms - since_ms)
            effects.append(ToClient(data))

    def close(self, close: Close, effects: list[Effect]) -> None:
        """Nothing more is taken from this client; what it asked for before is answered first."""
        self.closing = True
        if len(self.pipeline) or self._slices.unfinished:
            self._parting = close
        else:
            effects.append(close)

    def cut_off(self, close: Close) -> list[Effect]:
        """Nothing more is taken, nor answered."""
        self.closing, self._parting = True, None
        self._slices.drop()
        self._later.clear()
        return [close]

    def _begin(self, now_ms: int, own_turn: bool = False) -> None:
        """A slice begins."""
        self.now_ms = now_ms
        self.gate.pace.begin(own_turn)
        self._own_bytes = 0

    def _answers_left(self, now_ms: int) -> list[Effect]:
        """What waited for answers to leave: a farewell, or requests there was no room for."""
        self._note_responses()
        if self._parting is not None and not len(self.pipeline) and not self._slices.unfinished:
            parting, self._parting = self._parting, None
            return [parting]
        return self._go_on(now_ms)

    def _note_responses(self) -> None:
        is_full = self.pipeline.is_full(was_full=self._holds & _RESPONSES_WAIT != 0)
        self._holds = (self._holds & ~_RESPONSES_WAIT) | (_RESPONSES_WAIT if is_full else 0)

    def _note_turn(self) -> None:
        if self.working or self._replies.turn_due:
            self._holds |= _TURN_DUE

    def _replied(self, effects: list[Effect], now_ms: int) -> list[Effect]:
        """What follows from responses of the broker, whose effects these are."""
        for effect in effects:
            if type(effect) is MuteClient:
                self.mutes += 1
            elif type(effect) is Close:
                self.closing, self._parting = True, None
        question = self.waits_for
        if type(question) is Question and question.reply is not None:
            own: list[Effect] = []
            self._run(partial(asking.go_on, self, question, now_ms, own), effects, own)
            effects += self._go_on(now_ms)
        if self._holds or self._parting is not None:
            effects += self._answers_left(now_ms)
        self._note_turn()
        return effects

    def _run(
        self,
        function: _Function,
        effects: list[Effect],
        own: list[Effect] | None = None,
    ) -> None:
        """Work that is no request's; its effects, which are its result or `own`, are added in the end."""

        def then(result: Any, out: list[Effect]) -> None:
            out += result if own is None else own

        if self._slices.unfinished:
            # A sweep, which may come at any time: this is next.
            self._later.append((function, own))
            return
        result = self._slices.run(function, then)
        if result is UNFINISHED:
            self._holds |= _TURN_DUE
        else:
            then(result, effects)

    def _log_in_upstream(self, effects: list[Effect]) -> None:
        login = self._login_due
        if login is not None and not self._streaming_bytes and self.waits_for is None and not self.closing:
            self._login_due = None
            upstream_login.begin(self, login, effects)

    def _go_on(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._login_due is not None:
            self._log_in_upstream(effects)
        if self._held_back is not None and not self.blocked:
            frame, self._held_back = self._held_back, None
            if not self._frames(frame, now_ms, effects):
                self._held_back = frame  # It waits for a turn, or for room.
        if self.blocked or not self._input:
            return effects
        data, self._input = memoryview(self._input), bytearray()
        position = self._frames(data, now_ms, effects)
        if position < len(data):
            self._input += data[position:]
        return effects

    def _frames(self, data: memoryview, now_ms: int, effects: list[Effect]) -> int:
        """Treat the frames in `data`; where the first one begins that is not there yet or has to wait.

        Frames that go on as they came are written in one run; anything else breaks the run.
        """
        position = run = passed = 0
        end = len(data)
        self._follow_basis(now_ms, effects)
        while position < end and self._may_take():
            if end - position < 4:
                return self._incomplete(data, run, position, 4, now_ms, effects)
            length = _INT32(data, position)[0]
            stop = position + 4 + length
            if end - position >= _HEAD_BYTES and (
                summary := produce_path.streams(self, data, position, stop, now_ms, effects)
            ):
                position = stop if stop <= end else self._streams(summary, data, position, stop, now_ms)
                passed += 1
                self._look_at_clock(passed, end - position)
            elif self.waits_for is not None:
                break  # For the name of its topic.
            elif fault := frames.fault_of_size(self, data, position, length):
                _pass_on(data[run:position], effects)
                refused.malformed(self, fault, effects)
                return end
            elif stop > end:
                needed_bytes = frames.needed_bytes(data, position, length)
                return self._incomplete(data, run, position, needed_bytes, now_ms, effects)
            elif self._may_begin():
                run = self._one(data, run, position, stop, now_ms, effects)
                position = stop
        if position and not self._streaming_bytes:
            self._incomplete_since_ms = None
            self.memory.complete()
        if run < position:
            effects.append(ToBroker(data[run:position]))
        return position

    def _follow_basis(self, now_ms: int, effects: list[Effect]) -> None:
        client = self.client
        if client.basis is not self.gate.basis:
            self._run(partial(self.renew_client, client.raw_id, client.context.client_id, now_ms), effects)

    def _incomplete(
        self,
        data: memoryview,
        run: int,
        position: int,
        needed_bytes: int,
        now_ms: int,
        effects: list[Effect],
    ) -> int:
        """The frame at `position` is not complete: take room for it, and wait for so much of it."""
        self._needed_bytes = needed_bytes
        if position or self._incomplete_since_ms is None:
            self._incomplete_since_ms = now_ms
        if position:
            self.memory.complete()
        frames.take_room(self, needed_bytes)
        _pass_on(data[run:position], effects)
        return position

    def _look_at_clock(self, passed: int, left_bytes: int) -> None:
        """After so many frames that passed without being decoded: whether the rest waits for a turn."""
        if passed % _FRAMES_AT_A_TIME == 0 and left_bytes and self.gate.pace.is_over:
            self._holds |= _TURN_DUE

    def _may_take(self) -> bool:
        """Whether another request is taken; otherwise it waits."""
        if len(self.pipeline.queue) >= MAX_IN_FLIGHT:
            self._holds |= _RESPONSES_WAIT
        return not self.blocked

    def _may_begin(self) -> bool:
        """Whether a request may be decoded now; otherwise a turn is due, or the client waits for room."""
        limit = _STRANGERS_SLICE_BYTES if self.authentication.under_way else _SLICE_BYTES
        if not self.gate.pace.may_begin or self._own_bytes > limit:
            self._holds |= _TURN_DUE
            return False
        if not self.memory.may_respond(self.room_granted):
            self.waits_for = frames.STARVED
            return False
        return True

    def _streams(self, summary: Summary, data: memoryview, position: int, stop: int, now_ms: int) -> int:
        """A request was let through of which the rest is to come, and to be counted when it does."""
        self._streaming_bytes, self._streams_to = stop - len(data), summary
        self.incomplete = draining.begun(self, _INT32(data, position + 8)[0])
        self._incomplete_since_ms = now_ms
        summary.request_bytes -= self._streaming_bytes
        return len(data)

    def _one(
        self, data: memoryview, run: int, position: int, stop: int, now_ms: int, effects: list[Effect]
    ) -> int:
        """Treat one frame; where the run of frames that go on as they came begins after it."""
        own: list[Effect] = []
        frame = data[position:stop]

        def then(passes: Any, out: list[Effect]) -> None:
            if passes:
                out.append(ToBroker(frame))
            out += own

        treat = partial(request.treat, self, frame, now_ms, own)
        passes = self._slices.run(treat, then, self.gate.limits.decoded_request_max_elements)
        if passes is UNFINISHED:
            self._holds |= _TURN_DUE
        elif passes:
            effects += own
            return run
        _pass_on(data[run:position], effects)
        if passes is not UNFINISHED:
            effects += own
        return stop

    def _note_of_answer(self, call: Call, effects: list[Effect], client: ClientState | None) -> None:
        unasked.tell_answered(call, client or self.client)
        self.note(call, effects, client)

    def note(self, call: Call, effects: list[Effect], client: ClientState | None = None) -> None:
        """Write down what was decided: denials and admin decisions at once, the rest counted.

        `client`: whose request it was, where another may have come since.
        """
        client = client or self.client
        effects.extend(Recorded(self._complete_for(event, client.context)) for event in call.events)
        for action, decision in call.counted:
            summary = client.summary(call.api_key, action, decision, call.now_ms)
            summary.count += 1
            summary.request_bytes += call.untold_bytes
            call.untold_bytes = 0
        # A call is noted again after its answer was handled: with what the handler decided, and no more.
        call.written_down()

    def _note_throttled(self, bucket: Bucket, throttle_ms: int, now_ms: int) -> None:
        # At the client state of now: the one of the request may have been written out for good already.
        self.client.throttled(bucket, throttle_ms, now_ms)

    def _new_client(self, raw_id: bytes | None, client_id: str | None) -> ClientState:
        context = origin.context(self, client_id)
        return ClientState(raw_id, context, self.gate.basis, self.gate.quotas)


def _pass_on(run: memoryview, effects: list[Effect]) -> None:
    if run:
        effects.append(ToBroker(run))


def _nothing() -> None:
    """No turns are taken: a test plays the event loop."""
