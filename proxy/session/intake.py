"""The client's bytes in: requests that pass as they come, and those that have to be decoded.

The twin of proxy.session.responses. A Produce for a topic that the client may write passes in pieces (see
proxy.session.data.fast_lane); its last bytes are held until they are here and nothing has been withdrawn
meanwhile. Every other request is stored until it is whole, in memory that is reserved for it; then the
machine has it decoded. Changes nothing of the session, except that a first request names the client: returns
plans. A plan ends with the step that changes what comes next, such as a wait, and the machine calls for the
next one.
"""

from collections.abc import Callable
from struct import Struct

from proxy.session import memory
from proxy.session.accounting.summaries import Summary
from proxy.session.authentication import Phase
from proxy.session.client_state import FIRST_PRODUCE_WITH_TOPIC_ID
from proxy.session.data.fast_lane import HEAD_BYTES, FastLane, ProduceHead, decoded_name
from proxy.session.effects import ToBroker
from proxy.session.gate import Gate
from proxy.session.in_flight import Pipeline, Produced, charge_on_arrival
from proxy.session.memory import FREE_BYTES, STRANGERS_FREE_BYTES, SessionMemory
from proxy.session.plan import DecideAgain, Dropped, FollowBasis, LookUp, Plan, Take, Wait
from proxy.session.requests import dispatch, queries, termination, too_large
from proxy.session.state import AWAIT_MEMORY, FILL_PIPELINE, LEAVE_WORK, Effects
from proxy.session.throttling import charge_unanswered
from proxy.wire import skim
from proxy.wire.errors import WireError
from proxy.wire.header import decode_client_id

_INT32 = Struct(">i").unpack_from
_INT16 = Struct(">h").unpack_from
_SLICE_BYTES, _STRANGERS_SLICE_BYTES = 256 * 1024, 8 * 1024  # Of the proxy's own responses in one slice.
_FRAMES_AT_A_TIME = 64  # That pass without being decoded, between two looks at the clock.
BORROWED_BYTES = 256 * 1024  # The largest frame that the receive buffer may hold.
NOTHING = memoryview(b"")


class Intake:
    """What has come of the client's requests, and where it goes."""

    # The values of a connection that is idle are those of the class: there are very many of them.
    data = NOTHING
    """To be handled now."""
    streaming_bytes = 0
    """Still to come of a request whose beginning has been sent on, or dropped."""
    streaming: Produced | None = None
    """The request in flight that they belong to; None: it gets no response of the broker."""
    streams_to: Summary | None = None
    """Where they are counted."""
    incomplete_since_ms: int | None = None
    """Since when the rest of a frame is missing."""
    has_begun = False
    """A request is stored, or a part of one, or the rest of one is still to come."""
    own_bytes = 0
    """Bytes of the proxy's own responses in this slice."""
    _is_own = False  # `data` is in memory of the session, not in the receive buffer.
    _input: bytearray | memoryview = NOTHING  # Stored, before `data`.
    _held: memoryview | None = None  # A frame that is handled again before anything else.
    _needed_bytes = 0  # Of `_input`, before it is looked at again.
    _streaming_length = 0  # The size of the whole request.
    _streaming_tag_bytes = 0  # So many of its last bytes have to be zero.
    _dropped: Dropped | None = None  # Its bytes are dropped; then it gets a response.

    def __init__(
        self,
        gate: Gate,
        pipeline: Pipeline,
        lane: FastLane,
        memory: SessionMemory,
        granted: Callable[[], None],
        may_remember: Callable[[], bool],
        renew_client: Callable[[bytes | None, str | None, int], Effects],
    ) -> None:
        """`granted` is called when there is memory for what had to wait for it.

        `may_remember`: whether there is room for what has been decided.
        `renew_client`: client id (as in the header, and decoded) and time -> the requests that come now are
        those of another state of this client; what the former one has counted.
        """
        self._gate = gate
        self._authentication = lane.authentication
        self._pipeline = pipeline
        self._lane = lane
        self._memory = memory
        self._granted = granted
        self._may_remember = may_remember
        self._renew_client = renew_client

    @property
    def held_bytes(self) -> int:
        """Memory of requests that wait, besides what is reserved for one."""
        held_bytes = 0 if self._held is None else len(self._held)
        return max(0, len(self._input) - self._memory.frame_bytes) + held_bytes

    def receive(self, data: memoryview) -> None:
        """Take what the client has sent, cut anywhere; `plan` handles it."""
        self.data, self._is_own = data, False

    def streams_on(self, size_bytes: int) -> bool:
        """Whether so many bytes belong to the request whose beginning has been sent on, and are not its
        last."""
        left_bytes = self.streaming_bytes - self._streaming_tag_bytes
        if self.streams_to is None or self._input or size_bytes >= left_bytes:
            return False
        self.streaming_bytes -= size_bytes
        self.streams_to.request_bytes += size_bytes
        return True

    def hold(self, frame: memoryview) -> None:
        """Handle this frame again, before anything else."""
        self._held = frame if len(frame) > BORROWED_BYTES else memoryview(bytearray(frame))
        self.has_begun = True

    def defer(self) -> None:
        """Store what is not handled yet: `data` of `receive` is not valid any longer."""
        data, self.data = self.data, NOTHING
        if self._input:
            if isinstance(self._input, memoryview):
                self._input = bytearray(self._input)
            self._input += data
        elif self._is_own and 2 * len(data) > len(memoryview(data.obj)):
            # Not copied each time that a few requests are taken, but once most of it is gone.
            self._input = data
        else:
            self._input = bytearray(data)
        self.has_begun = True

    def close(self) -> None:
        """The connection is over. Without the machine's methods there is no cycle to collect."""
        self._granted, self._may_remember, self._renew_client = _nothing, _may_not, _renew_nothing
        if self.has_begun:
            self.data, self._input, self._held = NOTHING, NOTHING, None

    def plan(self, now_ms: int, may_take: bool) -> Plan:
        """Return the plan for what is here, up to the next step that changes what follows; [] if there is
        nothing to do.

        Unless it `may_take` another request, only the rest of one passes of which the broker has a part.
        """
        if self.streaming_bytes:
            return self._stream(now_ms) if self.data else []
        if not may_take:
            return []
        if self._input and self._held is None:
            self.defer()
            if len(self._input) < self._needed_bytes:
                return []  # A large request comes in many pieces: it is not looked at for each of them.
            self.data, self._input, self._is_own = memoryview(self._input), NOTHING, True
            self.has_begun = False
        if self._lane.client.basis is not self._gate.basis:
            return [FollowBasis()]
        if self._held is None:
            return self._frames(now_ms)
        later, self.data = self.data, self._held
        plan = self._frames(now_ms)
        self._held, self.data = self.data or None, later  # It may have to wait for a turn, or for memory.
        self.has_begun = self._held is not None or len(self._input) > 0
        return plan

    def _frames(self, now_ms: int) -> Plan:
        """Handle the requests in `data`, up to the first one that does more than pass.

        Those that pass one after the other are written in one run.
        """
        data, pipeline = self.data, self._pipeline
        position, end, passed = 0, len(data), 0
        plan: Plan = []
        while position < end and not plan:
            if pipeline.queue and pipeline.is_full(was_full=False):
                plan = [Wait(FILL_PIPELINE)]
                continue
            summary = None
            if end - position >= HEAD_BYTES and not _INT16(data, position + 4)[0]:  # The API key of Produce.
                stop = position + 4 + _INT32(data, position)[0]
                summary, plan = self._passes(data, position, stop, now_ms)
            if summary is not None:
                if self.incomplete_since_ms is not None:
                    self._completed()
                position = stop if stop <= end else self._begin_stream(summary, position, stop, now_ms)
                passed += 1
                if passed % _FRAMES_AT_A_TIME == 0 and position < end and self._gate.pace.is_over:
                    plan.append(Wait(LEAVE_WORK))
            elif not plan:
                plan = self._to_decode(data, position, now_ms)
                break
        else:
            self.data = data[position:]
        return [ToBroker(data[:position]), *plan] if position else plan

    def _to_decode(self, data: memoryview, position: int, now_ms: int) -> Plan:
        """The plan for the frame at `position`, which does not pass; leaves what it does not take."""
        gate, stranger = self._gate, self._authentication.under_way
        self.data = data[position:]
        if len(self.data) < 4:
            return self._await_rest(4, now_ms)
        length = _INT32(data, position)[0]
        bare = self._authentication.phase is Phase.BARE_TOKENS
        fault = memory.fault_of_size(gate.limits, data, position, length, stranger=stranger, bare_token=bare)
        if fault is not None:
            return self._refuse(fault, self.data[: max(0, length + 4)], length + 4, now_ms)
        if len(self.data) < length + 4:
            return self._await_rest(memory.needed_bytes(gate.limits, data, position, length), now_ms)
        if not gate.pace.may_begin or self.own_bytes > (_STRANGERS_SLICE_BYTES if stranger else _SLICE_BYTES):
            return [Wait(LEAVE_WORK)]
        if not self._memory.may_take(self._granted):
            return [Wait(AWAIT_MEMORY)]
        if self.incomplete_since_ms is not None:
            self._completed()
        self.data = data[position + length + 4 :]
        return [Take(data[position : position + length + 4])]

    def _passes(self, data: memoryview, position: int, stop: int, now_ms: int) -> tuple[Summary | None, Plan]:
        """Let the Produce request at `position` pass if it may; return where it is counted.

        None: it has to be decoded, or, where there is a plan, looked at again after that.
        """
        lane = self._lane
        summary = lane.produce_again(data, position, stop, now_ms)
        if summary is not None:
            return summary, []
        head = lane.head_of_produce(data, position, stop, now_ms)
        if head is None:
            return None, []
        if head.partitions == 1:
            return self._produce(head, data, position, now_ms)
        summary = lane.produce_to_several(head, now_ms)
        return summary, [] if summary is None or head.acks else self._charge(head.length, now_ms)

    def _produce(
        self, head: ProduceHead, data: memoryview, position: int, now_ms: int
    ) -> tuple[Summary | None, Plan]:
        """Let a Produce request to one partition pass if its topic is allowed."""
        lane, plan = self._lane, Plan()
        if lane.client.raw_id is None:
            try:
                client_id = decode_client_id(head.raw_id)
            except WireError:
                return None, []  # Decoded, it is malformed.
            plan += self._renew_client(head.raw_id, client_id, now_ms)
        summary = lane.client.writes[head.version].get(head.topics[0])
        if summary is None:
            summary, own = self._decide(head, now_ms)
            plan += own
        if summary is not None:
            lane.produce(head, data, position, summary, now_ms)
            if not head.acks and position + head.length + 4 <= len(data):
                plan += self._charge(head.length, now_ms)
        return summary, plan

    def _decide(self, head: ProduceHead, now_ms: int) -> tuple[Summary | None, Plan]:
        """Decide on a topic that the client has not written to before."""
        gate, topic, client = self._gate, head.topics[0], self._lane.client
        if gate.unrecorded:
            return None, []
        if head.version >= FIRST_PRODUCE_WITH_TOPIC_ID:
            name = gate.topic_names.name(topic)
            if name is None and queries.is_unnamed(gate, self._lane.remembered, topic, now_ms):
                return None, [LookUp((topic,))]
        else:
            name = decoded_name(topic)
        if name is None:
            return None, []  # The decoded request gets the error.
        plan: Plan = []
        if client.has_grown and (client.is_full() or not self._may_remember()):
            plan += self._renew_client(client.raw_id, client.context.client_id, now_ms)
        return self._lane.decide(head, name, now_ms), plan

    def _charge(self, request_bytes: int, now_ms: int) -> Plan:
        """Charge a request that has passed without a place in flight (acks=0)."""
        client = self._lane.client
        if not (client.producer.limited or client.request.limited):
            return []
        return charge_unanswered(client, request_bytes, now_ms)[0]

    def _begin_stream(self, summary: Summary, position: int, stop: int, now_ms: int) -> int:
        """A request passes whose last bytes are still to come, and to be counted and charged when they do."""
        self.streaming_bytes, self.streams_to = stop - len(self.data), summary
        self.streaming, self._streaming_length = self._lane.streaming, stop - position - 4
        self._streaming_tag_bytes = skim.tag_bytes(_INT16(self.data, position + 6)[0])
        self.incomplete_since_ms, self.has_begun = now_ms, True
        summary.request_bytes -= self.streaming_bytes
        return len(self.data)

    def _refuse(self, fault: str, frame: memoryview, size_bytes: int, now_ms: int) -> Plan:
        """Drop a frame of this size and respond to it then, or close the connection."""
        stranger = self._authentication.under_way
        header = None if stranger else too_large.header_of(self._gate, frame, size_bytes)
        if header is None:
            return dispatch.impossible_length(fault, frame)
        self._dropped = Dropped(header, bytes(frame[: header.body_offset]), size_bytes, now_ms)
        self.streams_to = self.streaming = None
        self.streaming_bytes, self._streaming_tag_bytes = size_bytes, 0
        self.incomplete_since_ms, self.has_begun = now_ms, True
        return self._stream(now_ms)

    def _stream(self, now_ms: int) -> Plan:
        """Send on bytes of a request whose beginning has been sent on, or drop them as its beginning.

        Before the last bytes it is decided again if anything has changed since the first ones. What is denied
        now is not sent on: the broker never gets a complete request, and both connections end. The client
        gets no response, since its request's place in the order of responses is the broker's.
        """
        left_bytes, summary = self.streaming_bytes, self.streams_to
        data = self.data[:left_bytes]
        if any(data[max(0, left_bytes - self._streaming_tag_bytes) :]):
            return termination.malformed_midway()
        if len(data) == left_bytes:
            if self._authentication.is_expired(now_ms):
                return termination.expired_midway(self._authentication)
            if summary is not None and self._lane.client.basis is not self._gate.basis:
                return [DecideAgain()]
        self.data, self.streaming_bytes = self.data[left_bytes:], left_bytes - len(data)
        if summary is not None:
            summary.request_bytes += len(data)
        plan: Plan = [] if self._dropped is not None else [ToBroker(data)]
        return plan if self.streaming_bytes else plan + self._last_bytes_came(now_ms)

    def _last_bytes_came(self, now_ms: int) -> Plan:
        """Charge a request that was sent on, or respond to one that was dropped."""
        dropped, self._dropped = self._dropped, None
        entry, self.streaming = self.streaming, None
        self.has_begun = False
        self._completed()
        if dropped is not None:
            return [dropped]
        if entry is None:
            return self._charge(self._streaming_length, now_ms)
        charge_on_arrival(entry, now_ms)
        if entry.throttle_time_ms:
            self._lane.use(self._lane.client)  # The template's entry is like this one.
        return []

    def _completed(self) -> None:
        """The frame is complete: the next one begins."""
        self._needed_bytes, self.incomplete_since_ms = 0, None
        self._memory.complete()

    def _await_rest(self, needed_bytes: int, now_ms: int) -> Plan:
        """A frame is incomplete: take memory for it, and wait for this much of it."""
        self._needed_bytes = needed_bytes
        if self.incomplete_since_ms is None:
            self.incomplete_since_ms = now_ms
        free_bytes = STRANGERS_FREE_BYTES if self._authentication.under_way else FREE_BYTES
        if needed_bytes <= free_bytes or self._memory.frame_bytes:
            return []
        return [] if self._memory.take(needed_bytes, self._granted) else [Wait(AWAIT_MEMORY)]


def _nothing() -> None:
    """The machine is gone."""


def _may_not() -> bool:
    return False


def _renew_nothing(_raw_id: bytes | None, _client_id: str | None, _now_ms: int) -> Effects:
    return []
