"""One client connection as a value machine: bytes in, effects out; no socket, no clock.

Fed by proxy.net.connection with what the client, the broker and the controller send, and carried out by it.
A frame is one of three kinds: it streams through (produce to one partition), it is treated as a whole
(proxy.session.request), or it is the session's own (SASL, ApiVersions: proxy.session.greeting).
What the broker answers is the affair of proxy.session.replies.
"""

from struct import Struct

from proxy.audit.record import AuditEvent
from proxy.quota.throttle import Bucket
from proxy.security.authorizer import RequestContext
from proxy.security.sasl.exchange import Settled
from proxy.session import (
    asking,
    fetch,
    forwarding,
    frames,
    greeting,
    known_fetch,
    produce_path,
    refused,
    request,
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
from proxy.session.memory import Held
from proxy.session.pipeline import InFlight, Pipeline
from proxy.session.replies import Replies
from proxy.session.share_sessions import ShareSessions
from proxy.session.summaries import Summary
from proxy.session.withheld import WithheldAssignments
from proxy.wire.header import RequestHeader

_INT32 = Struct(">i").unpack_from
_HEAD_BYTES = 14

MAX_READY_BYTES = 1 << 20
"""Of our own answers that wait behind the broker's; beyond it no further request is taken."""


class Session:
    """All that can come in: `receive`, `broker_replied`, `controller_replied`, `verified`, `unmuted`."""

    def __init__(
        self, gate: Gate, listener: ListenerPolicy, peer: Peer, authentication: Authentication
    ) -> None:
        self.gate = gate
        self.listener = listener
        self.peer = peer
        self.authentication = authentication
        self.pipeline = Pipeline()
        self.fetch_sessions = fetch.FetchSessions()
        self.share_sessions = ShareSessions()
        self.withheld = WithheldAssignments()
        self.client = self._new_client(None, None)
        self._former = FormerClients(self.pipeline)
        self._replies = Replies(
            self.pipeline, listener, self.fetch_sessions, self._note_of_answer, self._note_throttled
        )
        # The request that the controller has, or a question of ours that the broker has.
        self.waits_for: InFlight | Question | frames.Starved | None = None
        self.held: Held | None = None  # Room for the frame that is not all there yet.
        self._login_due: upstream_login.UpstreamLogin | None = None
        # Of the token whose check is under way; the header is None in a frame that was nothing but the token.
        self.verifying: tuple[RequestHeader | None] | None = None
        self._input = bytearray()
        self._needed_bytes = 0
        self._streaming_bytes = 0  # Of a frame that was let through and is not all there yet.
        self._streams_to: Summary | None = None  # Where it is counted.
        self.mutes = 0  # How many `MuteClient` have not been followed by `unmuted` yet.
        self._stalled = False  # Too much of ours waits behind the broker's answers.
        self._closing = False
        self._parting: Close | None = None  # Said once the answers before it have left.

    @property
    def blocked(self) -> bool:
        """No further request is taken now; what the client sends meanwhile is kept, so read no more of it."""
        waits = self.waits_for is not None or self.verifying is not None
        return waits or self.mutes > 0 or self._closing or self._stalled

    @property
    def closing(self) -> bool:
        """Nothing is taken from the client any more."""
        return self._closing

    def passes(self, data: memoryview, now_ms: int) -> bool:
        """Whether `data` goes to the broker as it is now (patched, perhaps); then it is not for `receive`."""
        if (
            self._streaming_bytes
            or self._input
            # As `blocked`, without a call.
            or self.waits_for is not None
            or self.verifying is not None
            or self.mutes
            or self._closing
            or self._stalled
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
        if self._closing or self._stalled:
            return False
        return self._replies.passes(data, now_ms)

    def receive(self, data: memoryview, now_ms: int) -> list[Effect]:
        """Bytes of the client, cut anywhere. They are patched in place, so `data` has to be writable."""
        if self._closing:
            return []
        self.listener.counts.request_bytes += len(data)
        effects: list[Effect] = []
        if self._streaming_bytes:
            passed = min(len(data), self._streaming_bytes)
            self._streaming_bytes -= passed
            if self._streams_to is not None:
                self._streams_to.request_bytes += passed
            effects.append(ToBroker(data[:passed]))
            data = data[passed:]
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
        if self._closing and self._parting is None:
            return []
        effects = self._replies.receive(data, now_ms)
        for effect in effects:
            if type(effect) is MuteClient:
                self.mutes += 1
            elif type(effect) is Close:
                self._closing, self._parting = True, None
        question = self.waits_for
        if type(question) is Question and question.reply is not None:
            asking.go_on(self, question, now_ms, effects)
            effects += self._go_on(now_ms)
        if self._stalled or self._parting is not None:
            effects += self._answers_left(now_ms)
        return effects

    def controller_replied(self, correlation_id: int, reply: ControllerReply, now_ms: int) -> list[Effect]:
        """What came of a `ToController`; `forwarding.told` has its record."""
        effects = forwarding.replied(self, correlation_id, reply, now_ms)
        return effects + self._answers_left(now_ms)

    def log_in_upstream(self, login: upstream_login.UpstreamLogin) -> list[Effect]:
        """Renew our session at the broker as soon as no request is on its way there in pieces."""
        effects: list[Effect] = []
        self._login_due = login
        self._log_in_upstream(effects)
        return effects

    def verified(self, outcome: Settled, now_ms: int) -> list[Effect]:
        """What came of a `Verify`."""
        if self._closing:
            return []
        effects: list[Effect] = []
        greeting.verified(self, outcome, now_ms, effects)
        return effects + self._go_on(now_ms)

    def unmuted(self, now_ms: int) -> list[Effect]:
        """The time of a `MuteClient` is over; the client is heard again when that of each of them is."""
        self.mutes = max(0, self.mutes - 1)
        return self._go_on(now_ms)

    @property
    def starved(self) -> bool:
        """There is no room for what the client is sending: `try_again`, now and then."""
        return self.waits_for is frames.STARVED

    def try_again(self, now_ms: int) -> list[Effect]:
        """Go on if there is room by now."""
        frames.give_back(self)
        return self._go_on(now_ms)

    def gone(self) -> None:
        """The connection is over: what was held is free, and what was not looked at yet will not be."""
        self._input = bytearray()
        frames.give_back(self)

    def summaries(self, now_ms: int) -> list[Effect]:
        """The traffic counted since the last time; to be called at each interval and at the end."""
        events = self._former.drain(now_ms, self._complete_for)
        return [Recorded(event) for event in events + self.client.drain(now_ms, self.complete)]

    def renew_client(self, raw_id: bytes | None, client_id: str | None, now_ms: int) -> list[Effect]:
        """Principal, image or client id have changed: what was counted under the old ones leaves first."""
        effects = self.summaries(now_ms)
        self._former.add(self.client)
        self.client = self._new_client(raw_id, client_id)
        return effects

    def complete(self, event: AuditEvent) -> AuditEvent:
        """Fill in who and where, and at which image."""
        return self._complete_for(event, self.client.context)

    def _complete_for(self, event: AuditEvent, context: RequestContext) -> AuditEvent:
        event.connection_id = self.peer.connection_id
        event.listener = self.listener.name
        event.host = self.peer.host
        event.client_id = event.client_id or context.client_id
        if event.principal is None and self.authentication.known:
            event.principal = str(context.principal)
        if event.metadata_offset is None and context.image is not None:
            event.metadata_offset = context.image.offset
        return event

    def answer(self, data: bytes, effects: list[Effect]) -> None:
        """An answer of our own takes its place behind those that are on their way."""
        if len(self.pipeline):
            self.pipeline.push_ready(data)
            self._stalled = self.pipeline.ready_bytes > MAX_READY_BYTES
        else:
            effects.append(ToClient(data))

    def close(self, close: Close, effects: list[Effect]) -> None:
        """Nothing more is taken from this client; what it asked for before is answered first."""
        self._closing = True
        if len(self.pipeline):
            self._parting = close
        else:
            effects.append(close)

    def cut_off(self, close: Close) -> list[Effect]:
        """Nothing more is taken, nor answered."""
        self._closing, self._parting = True, None
        return [close]

    def _answers_left(self, now_ms: int) -> list[Effect]:
        """What waited for answers to leave: a farewell, or requests there was no room for."""
        self._stalled = self.pipeline.ready_bytes > MAX_READY_BYTES
        if self._parting is not None and not len(self.pipeline):
            parting, self._parting = self._parting, None
            return [parting]
        return self._go_on(now_ms)

    def _log_in_upstream(self, effects: list[Effect]) -> None:
        login = self._login_due
        if login is not None and not self._streaming_bytes and self.waits_for is None and not self._closing:
            self._login_due = None
            upstream_login.begin(self, login, effects)

    def _go_on(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._login_due is not None:
            self._log_in_upstream(effects)
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
        position = run = 0
        end = len(data)
        if self.client.image is not self.gate.image:
            effects += self.renew_client(self.client.raw_id, self.client.context.client_id, now_ms)
        while position < end and not self.blocked:
            if end - position < 4:
                self._needed_bytes = 4
                break
            length = _INT32(data, position)[0]
            stop = position + 4 + length
            if end - position >= _HEAD_BYTES and (
                summary := produce_path.streams(self, data, position, stop, now_ms, effects)
            ):
                position = stop if stop <= end else self._streams(summary, stop - end, end)
            elif fault := frames.fault_of_size(self, data, position, length):
                if run < position:
                    effects.append(ToBroker(data[run:position]))
                refused.malformed(self, fault, effects)
                return end
            elif stop <= end:
                run = self._one(data, run, position, stop, now_ms, effects)
                position = stop
            else:
                self._needed_bytes = frames.needed_bytes(data, position, length)
                frames.has_room(self, self._needed_bytes)
                break
        if self.held is not None and position:
            frames.give_back(self)
        if run < position:
            effects.append(ToBroker(data[run:position]))
        return position

    def _streams(self, summary: Summary, missing_bytes: int, end: int) -> int:
        """A request was let through of which so much is to come, and to be counted when it does."""
        self._streaming_bytes, self._streams_to = missing_bytes, summary
        summary.request_bytes -= missing_bytes
        return end

    def _one(
        self, data: memoryview, run: int, position: int, stop: int, now_ms: int, effects: list[Effect]
    ) -> int:
        """Treat one frame; where the run of frames that go on as they came begins after it."""
        own: list[Effect] = []
        passes = request.treat(self, data[position:stop], now_ms, own)
        if not passes:
            if run < position:
                effects.append(ToBroker(data[run:position]))
            run = stop
        effects += own
        return run

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
        context = RequestContext(
            self.authentication.principal,
            self.peer.host,
            self.listener.name,
            client_id,
            image=self.gate.image,
        )
        return ClientState(raw_id, context, self.gate.quotas)
