"""The broker's bytes in, the client's out, in the order of the requests.

A response that need not be read passes in pieces, as it comes. Of a Fetch response only the head is read, to
write the throttle time into it (KIP-219) and to learn of its fetch session. Small responses that change are
held until they are whole; then the session has them rewritten: decoded, changed by a handler, encoded again.
What changes in a response is for the API's file to say. `charge` comes first, at the moment at which the
response arrived; the rest may take several slices. Changes nothing of the session: returns plans.
"""

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error
from typing import Any

from proxy.audit import events
from proxy.quota.throttle import Bucket
from proxy.session.accounting import response_errors
from proxy.session.data import fetch, produce
from proxy.session.data.fast_lane import (
    FETCH_HEAD_BYTES,
    FIRST_FLEXIBLE_FETCH,
    FastLane,
    is_plain,
    passes_to_several,
)
from proxy.session.effects import Close, Data, MuteClient, Recorded, ToClient
from proxy.session.gate import ListenerPolicy
from proxy.session.in_flight import (
    BrokerQuery,
    EndingFetch,
    Fetched,
    InFlight,
    Pipeline,
    Produced,
    ProducedToSeveral,
    Ready,
    Rewritten,
    Timed,
)
from proxy.session.memory import FREE_BYTES
from proxy.session.plan import CutOff, Plan, RecordDecisions, Rewrite
from proxy.session.throttling import head_bytes, raise_to, throttle, write_throttle_time
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError
from proxy.wire.header import encode_response, response_body_offset
from proxy.wire.message import MANY_BYTES, release
from proxy.wire.work import Pace

FAULTS = (WireError, IndexError, struct_error)
"""Raised for a response that is malformed."""
_FETCH = int(ApiKey.FETCH)
_READS = frozenset((ApiKey.FETCH, ApiKey.SHARE_FETCH))

_HEAD = Struct(">ii").unpack_from  # length, correlation id
_INT32 = Struct(">i").unpack_from
_ERROR_CODE = Struct(">h").unpack_from
_MIN_BYTES = 8
_NOTHING = memoryview(b"")
MAX_HELD_BYTES = 100 << 20
"""Of a response that is held until it is whole: as much as the proxy's own connections accept."""
_FRAMES_AT_A_TIME = 64  # That are handled between two looks at the clock.


@dataclass(slots=True)
class Charged:
    """The outcome of charging a response to its client."""

    plan: Plan
    admitted: bool = True
    """False: the quota has no room for its records."""
    throttle_time_ms: int = 0


def past_grant(entry: InFlight, now_ms: int) -> Plan:
    """Cut off a client that may not have the records of a response any more, because the broker has held it
    past the end of an ACL by which the client reads (SPEC A11); [] if it may."""
    # A follower's bytes are not charged to its client, which has this right all the same.
    client = entry.call.client if isinstance(entry, Rewritten) and entry.call else entry.client
    if entry.api_key not in _READS or client is None or client.until_ms is None or now_ms < client.until_ms:
        return []
    name = ApiKey.name_of(entry.api_key)
    message = f"{name}: the response came after the end of an ACL that had allowed the request"
    event = events.request_refused(method=name, granted=False, message=message)
    return [Recorded(event), CutOff(Close("fetch_denied", message))]


def charge(entry: InFlight, size_bytes: int, now_ms: int) -> Charged:
    """Charge a whole response of this size, its length prefix included (KIP-13).

    A Produce was charged when its bytes came.
    """
    if not isinstance(entry, Produced | Rewritten):
        return Charged([])
    bucket, admitted, for_bytes_ms = entry.bucket, True, entry.throttle_time_ms
    if bucket is not None and isinstance(entry, Rewritten) and not entry.request_bytes:
        if entry.client is not None:
            entry.client.fetched(size_bytes - 4, entry.reserved_bytes, entry.since_ms, now_ms)
            entry.reserved_bytes = 0
        if entry.api_key == _FETCH:
            admitted, for_bytes_ms = bucket.admit(size_bytes - 4, now_ms)
        else:
            # What a share group has acquired would stay locked until its time is over.
            for_bytes_ms = bucket.record(size_bytes - 4, now_ms)
    plan, throttle_time_ms = throttle(entry.client, bucket, for_bytes_ms, now_ms)
    return Charged(plan, admitted, throttle_time_ms)


def rewritten(entry: InFlight, frame: memoryview, charged: Charged, listener: ListenerPolicy) -> Plan:
    """The plan of a response that is not a query's. Raises one of FAULTS if it is malformed."""
    throttle_time_ms = charged.throttle_time_ms
    plan = charged.plan
    data: Data
    if isinstance(entry, Rewritten):
        if entry.summary is not None:
            entry.summary.response_bytes += len(frame)
        data = _changed(entry, frame, charged, listener)
        if entry.call is not None:
            plan.append(RecordDecisions(entry.call, by_handler=True))
    else:
        data = produce.finished_response(frame, entry.version, throttle_time_ms, listener)
    plan.append(ToClient(data))
    if throttle_time_ms:
        plan.append(MuteClient(throttle_time_ms))
    return plan


def _changed(entry: Rewritten, frame: memoryview, charged: Charged, listener: ListenerPolicy) -> bytes:
    body_at = 4 + response_body_offset(entry.api_key, entry.version)
    if entry.in_place is not None and not charged.throttle_time_ms:
        body = entry.in_place(bytes(frame[body_at:]))
        if body is not None:
            return encode_response(entry.api_key, entry.version, entry.correlation_id, body)
    codec = codecs.response(entry.api_key, entry.version, entry.raw)
    response, _ = codec.decode(frame, body_at)
    if entry.handler is not None:
        entry.handler(response)
        if entry.call is not None and entry.call.events:
            response_errors.set_error_codes(entry.call.events, response)
    listener.counts.errors_of(entry.api_key, response)
    if not charged.admitted:
        response.responses = []
    if charged.throttle_time_ms:
        response.throttle_time_ms = max(response.throttle_time_ms, charged.throttle_time_ms)
    data = encode_response(entry.api_key, entry.version, entry.correlation_id, codec.encode(response))
    if len(frame) > MANY_BYTES:
        release(response)
    return data


def response_to(query: BrokerQuery, frame: memoryview) -> Any:
    """The decoded response to a request of the proxy's own. Raises one of FAULTS if it is malformed."""
    codec = codecs.response(query.api_key, query.version, query.raw)
    # Copied: parts of it may be retained, and the receive buffer, which holds the frame, is written over.
    response, _ = codec.decode(
        memoryview(bytes(frame)), 4 + response_body_offset(query.api_key, query.version)
    )
    return response


class _Run:
    """Responses of one read that pass, patched in place perhaps, and are written in one piece."""

    __slots__ = ("_start", "data", "plan")

    def __init__(self, data: memoryview) -> None:
        self.plan: Plan = []
        self.data = data
        self._start = 0

    def end(self, position: int) -> Plan:
        """Write what has passed before `position`."""
        if self._start < position:
            self.plan.append(ToClient(self.data[self._start : position]))
            self._start = position
        return self.plan

    def skip_to(self, position: int) -> None:
        """Leave out what is before `position`, or has been written."""
        self._start = position


class Responses:
    """The responses of one connection that are on their way from the broker."""

    __slots__ = (
        "_data",
        "_discards",
        "_has_room",
        "_input",
        "_lane",
        "_listener",
        "_needed_bytes",
        "_pace",
        "_pipeline",
        "_reserved_bytes",
        "_streaming_bytes",
        "has_begun",
        "is_starved",
        "turn_due",
    )

    def __init__(
        self,
        pipeline: Pipeline,
        listener: ListenerPolicy,
        lane: FastLane,
        has_room: Callable[[int], bool],
        pace: Pace,
    ) -> None:
        """`has_room`: whether a response of this many bytes may be held. If not, `room_granted` is called
        later."""
        self._pipeline = pipeline
        self._listener = listener
        self._lane = lane
        self._has_room = has_room
        self._pace = pace
        self._data = _NOTHING  # Of this read, not handled yet.
        self._input = bytearray()  # The beginning of a response that is not whole, or what waits for a turn.
        self._needed_bytes = _MIN_BYTES  # Of `_input`, before it is looked at again.
        self._reserved_bytes = 0  # Room taken for the response at the beginning of `_input`.
        self._streaming_bytes = 0  # Still to come of the response whose beginning has left.
        self._discards = False  # They are not for the client, since there was no room for them in its quota.
        self.has_begun = False
        """Whether a part of a response is here."""
        self.is_starved = False
        """The response that is due waits for room: nothing more is to be received."""
        self.turn_due = False
        """Received bytes wait for a turn."""

    @property
    def held_bytes(self) -> int:
        """Memory of responses that are not whole, or wait for a turn."""
        return max(len(self._input), self._reserved_bytes)

    def receive(self, data: memoryview) -> None:
        """Take what the broker has sent, cut anywhere; `plan` handles it."""
        self._listener.counts.response_bytes += len(data)
        self._data = data

    def streams_on(self, size_bytes: int) -> bool:
        """Whether so many bytes belong to the response whose beginning has left, and are not its last."""
        if size_bytes >= self._streaming_bytes or self._discards or self._input:
            return False
        self._streaming_bytes -= size_bytes
        self._listener.counts.response_bytes += size_bytes
        return True

    def defer(self) -> None:
        """Store what is not handled yet: `data` of `receive` is not valid any longer."""
        if self._data:
            self._input += self._data
            self._data = _NOTHING
        self.has_begun = self._streaming_bytes > 0 or len(self._input) > 0

    def room_granted(self) -> None:
        """There is room for the response that waited."""
        self.is_starved, self.turn_due = False, True
        self._needed_bytes = _MIN_BYTES  # Its head is looked at again, and takes the room.

    def close(self) -> None:
        """The connection is over."""
        self._data, self._input, self.turn_due = _NOTHING, bytearray(), False
        self._has_room = _no_room

    def wait_for_turn(self) -> None:
        """Store what was received: other work of this session is unfinished."""
        self.defer()
        self.turn_due = not self.is_starved

    def plan(self, now_ms: int) -> Plan:
        """Return the plan for what was received, up to the next response that has to be rewritten."""
        if self.turn_due or self.is_starved:
            self.defer()
            return []
        data, self._data = self._data, _NOTHING
        if self._input:
            self._input += data
            if not self._streaming_bytes and len(self._input) < self._needed_bytes:
                return []  # A large response comes in many pieces: it is not copied for each of them.
            data, self._input = memoryview(self._input), bytearray()
        plan: Plan = []
        if rest := self._streaming_bytes:
            plan, data = self._stream(data[:rest], now_ms), data[rest:]
        if len(data) < self._needed_bytes:
            self._input += data
            return plan
        return plan + self._frames(data, now_ms)

    def finished(self, entry: InFlight, responded_ms: int, now_ms: int) -> Plan:
        """The response at the head of the queue, which came at `responded_ms`, leaves now."""
        self._reserved_bytes = 0
        entry.count(self._listener.counts, responded_ms, now_ms)
        self._pipeline.queue.pop(0)
        return [ToClient(ready) for ready in self._pipeline.pop_ready(now_ms)]

    def _stream(self, data: memoryview, now_ms: int) -> Plan:
        """Pass on bytes of the response whose beginning has left."""
        plan: Plan = [] if self._discards or not data else [ToClient(data)]
        self._streaming_bytes -= len(data)
        entry = self._pipeline.head()
        if not self._streaming_bytes and entry is not None:
            self._discards = False
            plan += self.finished(entry, now_ms, now_ms)
        return plan

    def _frames(self, data: memoryview, now_ms: int) -> Plan:
        """Handle the responses in `data`; stores what has to wait."""
        run, position, end, count = _Run(data), 0, len(data), 0
        self._needed_bytes = _MIN_BYTES
        while end - position >= _MIN_BYTES and not self._slice_is_over(count):
            count += 1
            length, correlation_id = _HEAD(data, position)
            stop, entry = position + 4 + length, self._pipeline.head()
            fault = _fault(entry, length, correlation_id)
            if fault is not None or entry is None:
                return [*run.end(position), CutOff(Close("upstream_protocol", f"{fault}"))]
            if not entry.is_whole:
                self._needed_bytes = min(_head_bytes(entry), stop - position)
                if self._needed_bytes > end - position:
                    break
                if type(entry) is EndingFetch and (ended := past_grant(entry, now_ms)):
                    return [*run.end(position), *ended]
                self._look_at_head(run, position, stop, entry, now_ms)
                if stop > end:
                    self._streaming_bytes, self._needed_bytes = stop - end, _MIN_BYTES
                    return run.end(end)
            elif not _passes(data, position, stop, entry):
                return run.end(position) + self._hold(entry, data, position, stop)
            position, self._needed_bytes = stop, _MIN_BYTES
            ready = self.finished(entry, now_ms, now_ms)
            if ready:
                run.end(position)
                run.plan += ready
        self._input += data[position:]
        return run.end(position)

    def _hold(self, entry: InFlight, data: memoryview, position: int, stop: int) -> Plan:
        """Have a response rewritten that is whole, if it may be now; else store it.

        Room for all of it is taken when its head arrives, so that one that was begun can be completed.
        """
        size_bytes = self._needed_bytes = stop - position
        if size_bytes > FREE_BYTES and not self._reserved_bytes:
            if size_bytes > MAX_HELD_BYTES:
                fault = f"a response of {size_bytes} bytes, the most that is held is {MAX_HELD_BYTES}"
                return [CutOff(Close("upstream_protocol", fault))]
            if not self._has_room(size_bytes):
                self.is_starved = True
                self._input += data[position:]
                return []
            self._reserved_bytes = size_bytes
        if stop <= len(data):
            self.turn_due = not self._pace.may_begin
            if not self.turn_due:
                self._data, self._needed_bytes = data[stop:], _MIN_BYTES
                return [Rewrite(entry, data[position:stop])]
        self._input += data[position:]
        return []

    def _slice_is_over(self, count: int) -> bool:
        """Whether the rest waits for a turn, once `count` responses were handled."""
        if count and count % _FRAMES_AT_A_TIME == 0 and self._pace.is_over:
            self.turn_due = True
        return self.turn_due

    def _look_at_head(self, run: _Run, position: int, stop: int, entry: InFlight, now_ms: int) -> None:
        """Charge a response that streams, and write its throttle time into its head."""
        if isinstance(entry, Fetched):
            self._fetched(run, position, stop, entry, now_ms)
        elif type(entry) is Timed:
            steps, throttle_time_ms = throttle(entry.client, None, 0, now_ms)
            run.plan += steps
            if throttle_time_ms:
                if stop - position >= head_bytes(entry):
                    write_throttle_time(run.data, position, entry, throttle_time_ms)
                run.plan.append(MuteClient(throttle_time_ms))

    def _fetched(self, run: _Run, position: int, stop: int, entry: Fetched, now_ms: int) -> None:
        """The same for a Fetch. A response for which the quota has no room is discarded as it comes, and an
        empty one sent in its place (KIP-219)."""
        data, size_bytes = run.data, stop - position
        is_flexible = entry.version >= FIRST_FLEXIBLE_FETCH
        offset = position + (9 if is_flexible else 8)
        client, bucket = entry.client, entry.bucket
        if bucket is not None and client is not None:
            # Kafka does not charge the tagged fields of the header.
            length = size_bytes - (5 if is_flexible else 4)
            client.fetched(length, entry.reserved_bytes, entry.since_ms, now_ms)
            entry.reserved_bytes = 0
            if client.request.limited or not bucket.record_within(length, now_ms):
                empty = self._charge(run, offset, length, entry, bucket, now_ms)
                if empty:
                    run.end(position)
                    run.plan.append(ToClient(empty))
                    run.skip_to(stop)
                    self._discards, size_bytes = stop > len(data), len(empty)
                    entry.opens_at = None
        self._lane.fetched(data, offset, size_bytes, entry)

    def _charge(
        self, run: _Run, offset: int, length: int, entry: Fetched, bucket: Bucket, now_ms: int
    ) -> bytes:
        """Charge a Fetch response whose throttle time is at `offset`; the response in its place, or b""."""
        data = run.data
        admitted, for_bytes_ms = bucket.admit(length, now_ms)
        steps, throttle_time_ms = throttle(entry.client, bucket, for_bytes_ms, now_ms)
        run.plan += steps
        if not throttle_time_ms:
            return b""
        run.plan.append(MuteClient(throttle_time_ms))
        has_session = entry.version >= fetch.FIRST_WITH_SESSION
        if admitted or (has_session and _ERROR_CODE(data, offset + 4)[0]):
            raise_to(data, offset, throttle_time_ms)
            return b""
        # A session that was to be opened is not: the client requests all of it again.
        continues = has_session and entry.opens_at is None
        session_id = _INT32(data, offset + 6)[0] if continues else 0
        longest_ms = max(_INT32(data, offset)[0], throttle_time_ms)
        return fetch.throttled_response(entry.version, entry.correlation_id, longest_ms, session_id)


def _head_bytes(entry: InFlight) -> int:
    """Return how many bytes of a streaming response are needed before it is sent on."""
    if isinstance(entry, Fetched):
        return FETCH_HEAD_BYTES
    return head_bytes(entry) if type(entry) is Timed else _MIN_BYTES


def _passes(data: memoryview, position: int, stop: int, entry: InFlight) -> bool:
    """Whether a response that might have to change is whole, and passes as it is."""
    if stop > len(data):
        return False
    if type(entry) is ProducedToSeveral:
        return passes_to_several(entry, data[position:stop])
    return type(entry) is Produced and is_plain(entry, data, position, stop)


def _fault(entry: InFlight | None, length: int, correlation_id: int) -> str | None:
    """Return why this cannot be the head of the response that is due; None: it can."""
    if entry is None or isinstance(entry, Ready) or entry.correlation_id != correlation_id:
        return f"unexpected correlation id {correlation_id}"
    least = 4
    if isinstance(entry, Fetched):
        # What is read of it: correlation id, tags, throttle time, error code, session id.
        least = (9 if entry.version >= FIRST_FLEXIBLE_FETCH else 8) + (
            6 if entry.version >= fetch.FIRST_WITH_SESSION else 0
        )
    return f"a response of {length} bytes, the least is {least}" if length < least else None


def _no_room(_size_bytes: int) -> bool:
    return False
