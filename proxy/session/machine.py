"""The owner of a session's state: plans are applied here, and nothing else changes what the machine holds.

The parts that take bytes apart (proxy.session.intake, proxy.session.responses) and those that decide return
plans. Why no further request is taken right now is in `flags`, which only `move` writes, by the table of
proxy.session.state.

Work on requests and responses is done a slice at a time (SPEC O8). While a piece of work is unfinished,
nothing else of the session happens: it takes neither requests nor responses. proxy.net.clients.turns
continues it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any

from proxy.audit.record import AuditEvent
from proxy.error_text import text_of
from proxy.quota.throttle import Bucket, percent
from proxy.security.authorizer import RequestContext
from proxy.security.protected import with_deciding_groups
from proxy.security.sasl.exchange import Settled
from proxy.session import responses
from proxy.session.accounting.summaries import SummaryRoom
from proxy.session.apis.table import TABLE
from proxy.session.authentication import Authentication
from proxy.session.call import Call
from proxy.session.client_state import ClientState, ConnectionUse
from proxy.session.data.fast_lane import FastLane
from proxy.session.effects import Close, LookUpTopics, MuteClient, Recorded, ToClient, Verify
from proxy.session.former_clients import FormerClients
from proxy.session.gate import Gate, ListenerPolicy, Peer
from proxy.session.in_flight import (
    Awaited,
    BrokerQuery,
    ControllerQuery,
    EndingFetch,
    Fetched,
    InFlight,
    Passing,
    Pipeline,
    Produced,
    Rewritten,
    Timed,
)
from proxy.session.intake import NOTHING, Intake
from proxy.session.memory import SessionMemory
from proxy.session.plan import (
    Complete,
    CutOff,
    DecideAgain,
    Dropped,
    End,
    FollowBasis,
    ForgetLast,
    HoldFrame,
    LoggedIn,
    LookUp,
    Plan,
    RecordDecisions,
    Rewrite,
    SendResponse,
    Step,
    Take,
    Throttle,
    Wait,
)
from proxy.session.remembered import Remembered
from proxy.session.requests import dispatch, forwarding, handshake, termination, too_large
from proxy.session.requests.upstream_login import UpstreamLogin
from proxy.session.responses import Responses
from proxy.session.state import (
    AWAIT_CONTROLLER,
    BROKER_RESPONDED,
    CLOSE,
    CLOSING,
    CONTROLLER_RESPONDED,
    DISCONNECT,
    EMPTY_PIPELINE,
    FILL_PIPELINE,
    LEAVE_WORK,
    LOOK_UP_TOPICS,
    MEMORY_GRANTED,
    MUTE,
    QUERY_BROKER,
    RESPONSES_PENDING,
    TOPICS_LOOKED_UP,
    UNMUTE,
    VERIFIED,
    VERIFY,
    WAITING,
    Effects,
    Transition,
    after,
)
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError
from proxy.wire.header import RequestHeader, decode_request_header
from proxy.wire.work import Work, paced, spend

LOOKUP_NS, LOOKED_UP_ID_NS = 300_000, 3_000
"""What a lookup takes of the event loop, and each id in it. A question has the ids of many clients, so its
time is not measured for each of them."""
_HEAD = Struct(">ihhih").unpack_from  # length, API key, version, correlation id, client id length
_FREE_WEIGHT = 200
"""Sessions that remember no more take no room: there are many."""
_LOOK_AGAIN_MS = 250  # As often as shares of a cluster's quota change.
_FEW_COUNTS = 8
_SUMMARY_UNITS = 2  # What counting a decision costs, in the units of proxy.wire.work.


class Machine:
    """Holds the state of a session, the requests in flight, the client state and unfinished work."""

    # The values of a new connection are those of the class.
    now_ms = 0
    """The time of the slice."""
    flags = 0
    """The state, as a number."""
    mutes = 0
    """The number of `MuteClient` effects without an `unmuted` yet."""
    shared_debts: tuple[Bucket, ...] = ()
    """The buckets of a cluster's quota that have muted the client."""
    waits_for: Awaited | LookUp | None = None
    login_due: UpstreamLogin | None = None
    """The proxy's own login at the broker, which waits until no request is under way."""
    is_draining = False
    is_over = False
    """The connection is closed, and its memory is free."""
    is_awaited_after_end = False
    """The client has left, and the controller has its last request: its memory is still counted."""
    work: Work | None = None
    """What is unfinished: a piece of work at a time."""
    later: Sequence[Callable[[], Effects]] = ()
    """Work behind what is unfinished."""
    parting: Close | None = None
    """Carried out once the responses before it have left."""

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
        self.pipeline = Pipeline()
        self.remembered = Remembered()
        self.use = ConnectionUse(listener.counts, authentication)
        self.client = self._new_client(None, None)
        """The state that requests use now."""
        self.lane = FastLane(gate, listener, authentication, self.pipeline, self.remembered, self.client)
        self.memory = SessionMemory(gate.memory, authentication, peer.host)
        self.intake = Intake(
            gate,
            self.pipeline,
            self.lane,
            self.memory,
            self.memory_granted,
            self.may_remember,
            self.renew_client,
        )
        self.responses = Responses(self.pipeline, listener, self.lane, self._may_hold_response, gate.pace)
        self.pass_response = self.lane.response
        self.on_turn_due: Callable[[], None] = _nothing
        """Called when a turn is due without anything having come in."""
        self._handshake = handshake.Handshake(gate, listener, authentication, self.use)
        self._former = FormerClients(self.pipeline)
        self._room = SummaryRoom()

    def close(self) -> None:
        """The connection is over."""
        self.is_over = True
        self.intake.close()
        self._abandon_work()
        self.responses.close()
        self.memory.leave()
        if self.flags:
            self.move(DISCONNECT)
            if isinstance(self.waits_for, Awaited):
                # The controller may have it for as long as its timeout, although the client has left.
                self.memory.count(0, 0, self.waits_for.taken_bytes)
                self.is_awaited_after_end = True
        self.on_turn_due = _nothing
        if self.gate.share_room.taken:
            self.gate.share_room.drop(self.remembered)
        if self.gate.memory_of_decisions.taken:
            self.gate.memory_of_decisions.drop(self)
        self.use.close()

    def move(self, transition: Transition) -> None:
        """The only way in which the flags change."""
        self.flags = after(self.flags, transition)

    def begin(self, now_ms: int, own_turn: bool = False) -> None:
        """A slice begins."""
        self.now_ms = now_ms
        self.gate.pace.begin(own_turn)
        self.intake.own_bytes = 0

    def run(self, function: Callable[[], Effects], max_elements: int | None = None) -> Effects:
        """Do this work, in slices; behind what is unfinished, if anything is.

        `max_elements`: see Work. What `function` raises, `run` or `resume` raises.
        """
        if self.work is not None:
            # A sweep, which may come at any time: this is next.
            self.later = [*self.later, function]
            return []
        work = Work.on(function, self.gate.pace, max_elements)
        if work.go_on():
            effects: Effects
            effects, work.result = work.result, None
            return effects
        self.work = work
        self.move(LEAVE_WORK)
        return []

    def resume(self) -> Effects:
        """Continue what is unfinished for another slice; the effects of what is done then."""
        work = self.work
        if work is None:
            return []
        try:
            if not work.go_on():
                return []
        except BaseException:
            self.work = None
            raise
        self.work = None
        effects: Effects = work.taken()
        return effects

    def apply(self, plan: Plan) -> Effects:
        """Carry out the steps of a plan, in order."""
        effects: Effects = []
        for step in plan:
            apply = _APPLY.get(type(step))
            if apply is None:
                effects.append(step)  # type: ignore[arg-type] # every other step is an effect
            else:
                effects += apply(self, step)
        return effects

    def unmute(self, now_ms: int) -> Effects:
        """The time of a `MuteClient` is over; requests are taken again after that of the last one.

        The throttle time of a quota for the whole cluster is an estimate, because shares change. Its client
        stays muted until the debt is paid.
        """
        self.mutes = max(0, self.mutes - 1)
        if self.mutes:
            return []
        effects: Effects = []
        if self.shared_debts:
            if self.client.basis is not self.gate.basis and self.work is None:
                # The quota may be another one now.
                effects = self._follow_basis(FollowBasis())
                buckets = self.client.buckets
                self.shared_debts = tuple(bucket for bucket in self.shared_debts if bucket in buckets)
            owed_ms = max((bucket.record(0, now_ms) for bucket in self.shared_debts), default=0)
            if owed_ms:
                return effects + self.apply([MuteClient(min(owed_ms, _LOOK_AGAIN_MS))])
            self.shared_debts = ()
        self.move(UNMUTE)
        return effects

    # Requests.

    def take(self, now_ms: int) -> Effects:
        """Handle what the client has sent, up to the first request that has to wait."""
        intake, effects = self.intake, Effects()
        if self.login_due is not None or self.is_draining:
            effects = self.between_requests()
        while intake.data or intake.has_begun:
            plan = intake.plan(now_ms, not self.flags)
            if not plan:
                break
            effects += self.apply(plan)
            if self.login_due is not None or self.is_draining:
                effects += self.between_requests()
            if self.flags & CLOSING:
                break
        else:
            intake.data = NOTHING  # An empty view would hold all of the last request.
            return effects
        if intake.data:
            intake.defer()
        return effects

    def may_remember(self) -> bool:
        """Whether there is room in the process for what has been decided in this session."""
        self.client.has_grown = False
        weight = self.client.weight + self._former.weight + self.remembered.weight
        room = self.gate.memory_of_decisions
        if weight > _FREE_WEIGHT and not self.is_over:
            return room.take(self, self.memory.owner, weight)
        if room.taken:
            room.drop(self)
        return True

    def _forget(self) -> Effects:
        """Record what was counted, and decide all of it again when it is requested again."""
        effects = self.summaries(self.now_ms)
        in_use = {id(getattr(entry, "summary", None)) for entry in self.pipeline.queue}
        in_use.add(id(self.intake.streams_to))
        for client in (self.client, *self._former.clients()):
            for _ in client.forget(in_use):  # To free very many at once takes longer than a slice.
                spend(1)
        self.remembered.forget_fetch_sessions()
        self.lane.use(self.client)
        self.may_remember()
        return effects

    def between_requests(self) -> Effects:
        """Do what waits until no request is on its way to the broker in pieces: end a draining session, or
        begin the proxy's own login at the broker."""
        if self.intake.streaming_bytes or self.flags & CLOSING:
            return []
        if self.is_draining and not self.authentication.under_way:
            return self.apply([End(Close(termination.DRAINED))])
        if self.login_due is None or self.work is not None or self.flags & WAITING:
            return []
        login, self.login_due = self.login_due, None
        return self.apply(login.begin())

    def go_on(self, now_ms: int) -> Effects:
        """Do what waited for responses to leave: close the connection, or take more requests."""
        self.note_responses()
        if self.parting is not None and not self.pipeline.queue and self.work is None:
            parting, self.parting = self.parting, None
            return [parting]
        return self.take(now_ms)

    def _take(self, step: Take) -> Effects:
        handle = partial(self._handle, step.frame, self.now_ms)
        return self.run(handle, self.gate.limits.decoded_request_max_elements)

    def _handle(self, frame: memoryview, now_ms: int) -> Effects:
        """Decode a whole request and decide on it."""
        if self._handshake.takes_bare_tokens:
            return self.apply(self._handshake.bare_token(frame, now_ms))
        effects: Effects = []
        call: Call | None = None
        try:
            header = decode_request_header(frame, 4)
            self.listener.counts.took(header.api_key)
            if header.api_key in handshake.API_KEYS and not self.authentication.under_way:
                effects = self.follow_client_id(header, frame, now_ms)
            plan = self._handshake.request(header, frame, self.client, now_ms)
            if plan is None:
                if dispatch.is_offered(self.gate, header):
                    effects = self.follow_client_id(header, frame, now_ms)
                    call = self._call(header, len(frame), now_ms)
                    plan = dispatch.plan(call, frame, header.body_offset)
                else:
                    plan = dispatch.not_served(self.listener, header)
        except WireError as error:
            plan = too_large.refused(call, frame, error)
        effects += self.apply(plan)
        if self.client.has_grown and not self.may_remember():
            effects += self._forget()
        return effects

    def _call(self, header: RequestHeader, size_bytes: int, now_ms: int) -> Call:
        api_key, version, correlation_id, _, _ = header
        return Call(
            api_key,
            version,
            correlation_id,
            self.client,
            self.gate,
            self.listener,
            self.peer,
            self.remembered,
            now_ms,
            self.client.basis.image,
            size_bytes,
            size_bytes,
            api=TABLE.get(api_key),
        )

    def _respond_to_dropped(self, step: Dropped) -> Effects:
        effects = self.follow_client_id(step.header, memoryview(step.head), self.now_ms)
        call = self._call(step.header, step.size_bytes, step.since_ms)
        return effects + self.apply(too_large.dropped(call))

    def _decide_again(self, _step: DecideAgain) -> Effects:
        summary = self.intake.streams_to
        assert summary is not None
        effects = self.renew_client(self.client.raw_id, self.client.context.client_id, self.now_ms)
        action = summary.action
        decision = self.client.decide([action])[0]
        if not decision.allowed:
            return effects + self.apply(termination.denied_midway(self.authentication, action, decision))
        # What the former state has counted is recorded, and no response of the broker may be due to it.
        api = summary.api_key, summary.api_version
        self.intake.streams_to = self.client.summary(*api, action, decision, self.now_ms)
        return effects

    def verified(self, outcome: Settled, now_ms: int) -> Effects:
        self.move(VERIFIED)
        return self.apply(self._handshake.verified(outcome, now_ms))

    # Whose requests come now.

    def sweep(self, now_ms: int) -> Effects:
        """`summaries`, now or in later turns; a few take much less than a slice, and need none.

        Another interval begins, in which as many resources may have summaries of their own again.
        """
        self._room.renew()
        if self.client.size <= _FEW_COUNTS and not self._former.has_any:
            return self.summaries(now_ms)
        return self.run(partial(self.summaries, now_ms))

    def summaries(self, now_ms: int) -> Effects:
        """Records of the traffic counted since the last time; to be called at each interval and at the
        end."""
        client = self.client
        events = client.drain(now_ms, lambda event: self.completed(event, client), self._room)
        events = self._former.drain(now_ms, self.completed, self._room) + events
        return [Recorded(event) for event in events]

    def follow_client_id(self, header: RequestHeader, frame: memoryview, now_ms: int) -> Effects:
        """Use the state of the client id in the header, a new one if the memory of the present one is
        full."""
        client = self.client
        raw_id = bytes(frame[12 : 14 + max(0, _HEAD(frame, 0)[4])])
        is_same = raw_id == client.raw_id
        if is_same and not client.is_full():
            return []
        if is_same or client.raw_id is None or client.basis is not self.gate.basis:
            # Before a request and never within one: all of it is counted under one state of its client.
            return self.renew_client(raw_id, header.client_id, now_ms)
        former = self._former.switch(client, raw_id, now_ms)
        self._use_client(former or self._new_client(raw_id, header.client_id))
        return self.summaries(now_ms) if self._former.is_full else []

    def _follow_basis(self, _step: FollowBasis) -> Effects:
        client = self.client
        return self.run(partial(self.renew_client, client.raw_id, client.context.client_id, self.now_ms))

    def renew_client(self, raw_id: bytes | None, client_id: str | None, now_ms: int) -> Effects:
        """The principal or the basis has changed, or the memory is full: the counts so far leave first."""
        effects: Effects = []
        if not self.client.is_unused or self._former.has_any or self.pipeline.queue:
            effects = self.summaries(now_ms)
            self._former.add(self.client)
        self._use_client(self._new_client(raw_id, client_id))
        return effects

    def _use_client(self, client: ClientState) -> None:
        self.client = client
        self.lane.use(client)

    def _new_client(self, raw_id: bytes | None, client_id: str | None) -> ClientState:
        basis = self.gate.basis
        context = RequestContext(
            self.authentication.principal,
            self.peer.host,
            self.listener.name,
            client_id,
            image=basis.image,
            settings_generation=basis.settings_generation,
        )
        if context.principal.groups:
            context = with_deciding_groups(basis.authorizer, context, self.gate.quotas.excluded)
        return ClientState(raw_id, context, basis, self.gate.quotas, self.now_ms, self.use)

    def spent_on_requests(self, spent_ns: int, now_ms: int) -> None:
        """Charge the time spent on what the client sent, and for sending it on."""
        client = self.client
        if client.request.limited:
            last = self.pipeline.last()
            is_exempt = client.last_was_exempt and (last is None or last.client is None)
            self._spent(spent_ns, is_exempt, now_ms)

    def spent_on_responses(self, spent_ns: int, is_exempt: bool, now_ms: int) -> None:
        """Charge the time spent on what the broker or the controller sent; it throttles what comes next."""
        if self.client.request.limited:
            self._spent(spent_ns, is_exempt, now_ms)

    def _spent(self, spent_ns: int, is_exempt: bool, now_ms: int) -> None:
        if is_exempt:
            self.gate.quotas.exempt_time.record(percent(spent_ns), now_ms)
        else:
            self.client.spent(spent_ns, now_ms)

    def completed(self, event: AuditEvent, client: ClientState, call: Call | None = None) -> AuditEvent:
        """The event with where it comes from. `client`: whose request it is about; `call`: that request.

        Once: a summary that a plan records has that of a former client.
        """
        if event.connection_id is not None:
            return event
        context, peer = client.context, self.peer
        event.connection_id = peer.connection_id
        event.listener = self.listener.name
        event.host = peer.host
        event.balancer = peer.balancer
        event.client_software = self.authentication.client_software
        event.client_id = event.client_id or context.client_id
        if event.principal is None and self.authentication.known:
            event.principal = str(context.principal)
        image = client.basis.image if call is None else call.newest
        if event.metadata_offset is None and image is not None:
            event.metadata_offset = image.offset
        generation = event.settings_generation
        if generation is None:
            generation = context.settings_generation
        event.settings_generation = generation or None
        if context.principal.groups and (event.granted is not None or event.quota_key is not None):
            # The authorizer may not have said which of them decide.
            groups = context.quota_groups if context.groups is None else context.groups
            event.groups = groups or None
        return event

    # Responses.

    def respond(self, now_ms: int) -> Effects:
        """Handle the broker's responses that were received."""
        effects: Effects = []
        while self.work is None:
            plan = self.responses.plan(now_ms)
            effects += self.apply(plan)
            if not plan or type(last := plan[-1]) is not Rewrite:
                break
            if ended := responses.past_grant(last.entry, now_ms):
                effects += self.apply(ended)
                break
            charged = responses.charge(last.entry, len(last.frame), now_ms)
            effects += self.run(partial(self._rewrite, last, charged, now_ms))
            if self.work is not None:
                self.responses.wait_for_turn()
                break
            if self.flags & CLOSING and self.parting is None:
                break
        self.responses.defer()
        self.note_turn()
        return effects

    def _rewrite(self, step: Rewrite, charged: responses.Charged, responded_ms: int) -> Effects:
        """Rewrite a whole response, and let it leave. `responded_ms`: when it came."""
        entry = step.entry
        try:
            if isinstance(entry, BrokerQuery):
                response = responses.response_to(entry, step.frame)
                effects = self._finish(entry, responded_ms)
                self.move(BROKER_RESPONDED)
                # What waited for it continues.
                return effects if self.flags & CLOSING else effects + self.apply(entry.then(response))
            plan = responses.rewritten(entry, step.frame, charged, self.listener)
        except responses.FAULTS as error:
            name = ApiKey.name_of(entry.api_key)
            message = f"the broker's response to {name} is malformed: {text_of(error)}"
            return self.apply([CutOff(Close("upstream_protocol", message))])
        effects = self.apply(plan) + self._finish(entry, responded_ms)
        if self.client.has_grown and not self.may_remember():
            effects += self._forget()
        return effects

    def _finish(self, entry: InFlight, responded_ms: int) -> Effects:
        """Finish `entry`: its rewritten response leaves."""
        return self.apply(self.responses.finished(entry, responded_ms, self.now_ms))

    def note_turn(self) -> None:
        if self.work is not None or self.responses.turn_due:
            self.move(LEAVE_WORK)

    def memory_granted(self) -> None:
        """There is memory for the request that waits, or for its response; `take_turn` continues."""
        self.move(MEMORY_GRANTED)
        self.on_turn_due()

    def topics_looked_up(self) -> None:
        """The lookup has ended; `take_turn` continues."""
        lookup = self.waits_for
        if type(lookup) is LookUp:
            self.waits_for = None
            self.move(TOPICS_LOOKED_UP)
            self.later = [*self.later, partial(self.looked_up, lookup)]
            self.on_turn_due()

    def _may_hold_response(self, size_bytes: int) -> bool:
        return self.memory.may_hold(size_bytes, self._response_memory_granted)

    def _response_memory_granted(self) -> None:
        self.responses.room_granted()
        self.move(LEAVE_WORK)
        self.on_turn_due()

    @property
    def is_timed(self) -> bool:
        """Whether the event loop's time on this client is to be measured (KIP-124).

        The quota of a client is not known before its first request.
        """
        return self.client.request.limited or self.client.raw_id is None

    @property
    def next_response_is_exempt(self) -> bool:
        """Whether the response that is due belongs to a request of another broker."""
        head = self.pipeline.head()
        return head is not None and head.client is None and type(head) is not BrokerQuery

    def controller_responded(self, outcome: forwarding.Outcome, now_ms: int) -> Effects:
        self.waits_for = None
        self.move(CONTROLLER_RESPONDED)
        if self.flags & CLOSING and isinstance(outcome.entry, ControllerQuery):
            return self.apply([ForgetLast()])
        return self.apply(forwarding.responded(outcome, now_ms))

    def looked_up(self, lookup: LookUp) -> Effects:
        if self.client.request.limited:
            self.client.spent(LOOKUP_NS + LOOKED_UP_ID_NS * len(lookup.topic_ids), self.now_ms)
        if lookup.then is None:
            self.remembered.looked_up = self.gate.topic_names.without_name(lookup.topic_ids)
            return []
        return [] if self.flags & CLOSING else self.apply(lookup.then())

    # The steps of plans.

    def _record(self, step: Recorded) -> Effects:
        self.completed(step.event, self.client)
        return [step]

    def _send_to_broker(self, entry: InFlight) -> Effects:
        entry.queued_ms = max(0, self.now_ms - entry.since_ms)
        entry.since_ms = self.now_ms
        self.pipeline.queue.append(entry)
        return []

    def _query_broker(self, query: BrokerQuery) -> Effects:
        self.move(QUERY_BROKER)
        self.pipeline.queue.append(query)
        return []

    def _await_controller(self, entry: Awaited) -> Effects:
        self.waits_for = entry
        self.move(AWAIT_CONTROLLER)
        self.pipeline.queue.append(entry)
        return []

    def _look_up(self, step: LookUp) -> Effects:
        self.waits_for = step
        self.move(LOOK_UP_TOPICS)
        return [LookUpTopics(b"".join(step.topic_ids))]

    def _hold_frame(self, step: HoldFrame) -> Effects:
        self.intake.hold(step.frame)
        return []

    def _wait(self, step: Wait) -> Effects:
        self.move(step.why)
        return []

    def _send_response(self, step: SendResponse) -> Effects:
        """Behind the responses to requests in flight."""
        data, counts, effects = step.data, self.listener.counts, Effects()
        self.intake.own_bytes += len(data)
        if self.pipeline.queue:
            self.pipeline.push_ready(data, counts.through[step.api_key], step.since_ms)
            self.note_responses()
        else:
            counts.responded_here(step.api_key, self.now_ms - step.since_ms)
            effects.append(ToClient(data))
        return effects

    def note_responses(self) -> None:
        was_full = self.flags & RESPONSES_PENDING != 0
        if self.pipeline.is_full(was_full=was_full) != was_full:
            self.move(EMPTY_PIPELINE if was_full else FILL_PIPELINE)

    def _complete(self, step: Complete) -> Effects:
        self.pipeline.complete(step.entry, step.data)
        return [ToClient(ready) for ready in self.pipeline.pop_ready(self.now_ms)]

    def _forget_last(self, _step: ForgetLast) -> Effects:
        self.pipeline.queue.pop()
        return []

    def _record_decisions(self, step: RecordDecisions) -> Effects:
        """Denials and administrative decisions are records; all others are counted."""
        call = step.call
        client = call.client
        if step.by_handler and call.is_undecided:
            call.count_unchecked()  # The handler of the response might have decided, and did not.
        effects = Effects()
        if call.events:
            effects = [Recorded(self.completed(each, client, call)) for each in call.events]
        counted = call.counted
        if counted:
            decided = counted if len(counted) == 1 else paced(counted, _SUMMARY_UNITS)
            client.count(call.api_key, call.version, decided, call.uncounted_bytes, call.now_ms)
            call.uncounted_bytes = 0
        call.recorded()
        return effects

    def _log_in(self, step: LoggedIn) -> Effects:
        principal, before = self.authentication.principal, self.client.context.principal
        # With a delegation token the same user does not have the same rights as with a password (KIP-48), and
        # what a principal of a plug-in carries may be something else now.
        if not before.decides_as(principal):
            effects = self.renew_client(None, None, self.now_ms)
            self.remembered.forget_fetch_sessions()
            for entry in self.pipeline.queue:
                if isinstance(entry, Fetched):
                    entry.opens_at = None  # Its topics were decided for the former principal.
        else:
            # What was counted in one session must not look as if it had been served in the next.
            effects = self.summaries(self.now_ms)
        step.event.principal = str(principal)
        return [*effects, Recorded(self.completed(step.event, self.client))]

    def _throttle(self, step: Throttle) -> Effects:
        # At the present state of the client: that of the request may have been recorded for the last time.
        bucket = step.bucket
        if bucket.is_muted_until_paid and bucket not in self.shared_debts:
            self.shared_debts += (bucket,)
        self.client.throttled(bucket, step.throttle_time_ms, self.now_ms)
        return []

    def _verify(self, step: Verify) -> Effects:
        self.move(VERIFY)
        return [step]

    def _mute(self, step: MuteClient) -> Effects:
        self.mutes += 1
        self.move(MUTE)
        return [step]

    def _end(self, step: End) -> Effects:
        self.move(CLOSE)
        if self.pipeline.queue or self.work is not None:
            self.parting = step.close
            return []
        return [step.close]

    def _cut_off(self, step: CutOff) -> Effects:
        self.move(CLOSE)
        self.parting = None
        self._abandon_work()
        return [step.close]

    def _abandon_work(self) -> None:
        work, self.work = self.work, None
        if work is not None:
            work.abandon()
        self.later = ()


def _nothing() -> None:
    """No turns are taken: a test plays the event loop."""


_APPLY: dict[type[Step], Callable[[Machine, Any], Effects]] = {
    Recorded: Machine._record,
    Passing: Machine._send_to_broker,
    Timed: Machine._send_to_broker,
    Produced: Machine._send_to_broker,
    Fetched: Machine._send_to_broker,
    EndingFetch: Machine._send_to_broker,
    Rewritten: Machine._send_to_broker,
    BrokerQuery: Machine._query_broker,
    Awaited: Machine._await_controller,
    ControllerQuery: Machine._await_controller,
    LookUp: Machine._look_up,
    HoldFrame: Machine._hold_frame,
    SendResponse: Machine._send_response,
    Complete: Machine._complete,
    ForgetLast: Machine._forget_last,
    RecordDecisions: Machine._record_decisions,
    Wait: Machine._wait,
    Take: Machine._take,
    FollowBasis: Machine._follow_basis,
    DecideAgain: Machine._decide_again,
    Dropped: Machine._respond_to_dropped,
    Rewrite: lambda _machine, _step: [],  # By `respond`, in slices.
    LoggedIn: Machine._log_in,
    Throttle: Machine._throttle,
    Verify: Machine._verify,
    MuteClient: Machine._mute,
    End: Machine._end,
    CutOff: Machine._cut_off,
}
"""Every other step is an effect."""
