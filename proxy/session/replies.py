"""The broker's bytes in, the client's bytes out, in the order of the requests.

Half of proxy.session.session. An answer that nobody has to look into passes in chunks as it comes; of a
fetch answer only the head is looked at, to put in the throttle time (KIP-219) and to learn of its fetch
session; small answers that change are held until they are whole.
"""

from collections.abc import Callable
from functools import partial
from struct import Struct
from struct import error as struct_error
from typing import Any

from proxy.quota.throttle import Bucket
from proxy.session import held_replies, produce, request_time
from proxy.session.call import Call
from proxy.session.client_state import ClientState
from proxy.session.effects import Close, Data, Effect, MuteClient, ToClient
from proxy.session.fetch import FIRST_WITH_SESSION, FetchSessions, throttled_answer
from proxy.session.gate import ListenerPolicy
from proxy.session.memory import FREE_BYTES
from proxy.session.pipeline import InFlight, Pipeline, Reply
from proxy.session.slices import UNFINISHED, Slices
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError
from proxy.wire.work import Pace

_HEAD = Struct(">ii").unpack_from  # length, correlation id
_INT32 = Struct(">i")
_ERROR_CODE = Struct(">h").unpack_from
_READY = Reply.READY  # A look-up in an enumeration costs more than one in the module.
_REPLY_FETCH = Reply.FETCH
_FETCH = int(ApiKey.FETCH)
_FETCH_HEAD_BYTES = 19  # length, correlation id, tags, throttle time, error, session id
_FIRST_FLEXIBLE_FETCH = 12
_FRAMES_AT_A_TIME = 64  # That are handled between two looks at the clock.
_FAULTS = (WireError, IndexError, struct_error)


class Replies:
    """What is on its way from the broker to one client."""

    __slots__ = (
        "_drops",
        "_fetch_sessions",
        "_has_room",
        "_input",
        "_listener",
        "_needed_bytes",
        "_note",
        "_now_ms",
        "_pace",
        "_pipeline",
        "_reserved_bytes",
        "_slices",
        "_streaming_bytes",
        "_throttled",
        "_yielded",
        "starved",
    )

    def __init__(
        self,
        pipeline: Pipeline,
        listener: ListenerPolicy,
        fetch_sessions: FetchSessions,
        note: Callable[[Call, list[Effect], ClientState | None], None],
        throttled: Callable[[Bucket, int, int], None],
        has_room: Callable[[int], bool],
        pace: Pace,
    ) -> None:
        """`note` writes down what a handler decided, `throttled` that an answer told the client to wait.

        `has_room`: whether a response of so many bytes may be held until it is whole. If not, `room_granted`
        is called once there is room.
        """
        self._note = note
        self._has_room = has_room
        self._reserved_bytes = 0  # For the response that is not whole yet, at the beginning of `_input`.
        self.starved = False
        """The response that is due waits for room: nothing more is to be received."""
        self._throttled = throttled
        self._pipeline = pipeline
        self._listener = listener
        self._fetch_sessions = fetch_sessions
        self._input = bytearray()
        self._needed_bytes = 0
        # Of the answer at the head of the pipeline, of which the client has the beginning already.
        self._streaming_bytes = 0
        # Whether they are kept from the client: there was no room for them in its quota.
        self._drops = False
        self._now_ms = 0  # Of the slice.
        self._pace = pace
        self._slices = Slices(pace)
        self._yielded = False  # What is in `_input` waits for a turn.

    @property
    def working(self) -> bool:
        """A response is unfinished: it may borrow the receive buffer."""
        return self._slices.unfinished

    @property
    def turn_due(self) -> bool:
        """There is work left, for `go_on`."""
        return self._yielded or self._slices.unfinished

    @property
    def kept_bytes(self) -> int:
        """Of responses that are not complete, or wait for a turn."""
        return max(len(self._input), self._reserved_bytes)

    @property
    def has_begun(self) -> bool:
        """A part of a response of the broker is here."""
        return self._streaming_bytes > 0 or len(self._input) > 0

    def passes(self, data: memoryview, now_ms: int) -> bool:
        """Whether `data` is the answer that is due, whole, to be written as it is, and nothing after it.

        By far the most frequent case: to a produce request that nothing throttles, and without addresses, or
        to a fetch that there is room for in the quota.
        """
        queue, size_bytes = self._pipeline.queue, len(data)
        if not queue or self._streaming_bytes or self._input or (len(queue) > 1 and queue[1].reply is _READY):
            return False
        entry = queue[0]
        if entry.reply is _REPLY_FETCH:
            if not self._fetch_passes(data, entry, now_ms):
                return False
        elif not _is_plain(entry, data, 0, size_bytes, now_ms):
            return False
        queue.popleft()
        self._listener.counts.response_bytes += size_bytes
        if (took := entry.took) is not None:
            # As request_counts.add, without a call.
            if (took_ms := now_ms - entry.since_ms) > 0:
                took[took_ms.bit_length()] += 1
                took[-1] += took_ms
            else:
                took[0] += 1
        return True

    def receive(self, data: memoryview, now_ms: int, *, keep: bool = False) -> list[Effect]:
        """Whatever the broker sent, cut anywhere. `keep`: for `go_on`, since other work is unfinished."""
        self._listener.counts.response_bytes += len(data)
        self._now_ms = now_ms
        if keep or self.turn_due or self.starved:
            self._yielded = not self.starved
            self._input += data
            return []
        return self._take(data, now_ms)

    def go_on(self, now_ms: int) -> list[Effect]:
        """Go on with the work that is left, for a slice."""
        effects: list[Effect] = []
        self._now_ms = now_ms
        try:
            self._slices.go_on(effects)
        except _FAULTS as error:
            self._broken(f"the broker's response is malformed: {error}", memoryview(b""), 0, effects)
            return effects
        if not self._slices.unfinished:
            self._yielded = False
            data, self._input = memoryview(self._input), bytearray()
            effects += self._take(data, now_ms)
        return effects

    def room_granted(self) -> None:
        """The response that waited may be received: `go_on`."""
        self.starved, self._yielded = False, True

    def drop(self) -> None:
        """The connection is over."""
        self._slices.drop()
        self._yielded, self._input = False, bytearray()
        self._note = self._throttled = _nobody
        self._has_room = _no_room

    def _take(self, data: memoryview, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._streaming_bytes:
            if len(data) < self._streaming_bytes:
                self._streaming_bytes -= len(data)
                return [] if self._drops else [ToClient(data)]
            data = self._end_stream(data, effects)
        if self._input:
            self._input += data
            if len(self._input) < self._needed_bytes:
                return effects
            data, self._input = memoryview(self._input), bytearray()
        position = self._frames(data, now_ms, effects)
        if position < len(data):
            self._input += data[position:]
        return effects

    def _end_stream(self, data: memoryview, effects: list[Effect]) -> memoryview:
        if not self._drops:
            effects.append(ToClient(data[: self._streaming_bytes]))
        self._drops = False
        rest = data[self._streaming_bytes :]
        self._streaming_bytes = 0
        self._finish(effects)
        return rest

    def _frames(self, data: memoryview, now_ms: int, effects: list[Effect]) -> int:
        """Treat the frames in `data`; where the first one begins that is not there yet.

        Answers that pass, patched in place perhaps, are written in one run.
        """
        position = run = count = 0
        end = len(data)
        while end - position >= 8 and not self._slice_is_over(count):
            count += 1
            length, correlation_id = _HEAD(data, position)
            entry = self._pipeline.head()
            fault = _fault(entry, length, correlation_id)
            if fault is not None or entry is None:
                return self._broken(f"{fault}", data[run:position], end, effects)
            stop = position + 4 + length
            if entry.reply is Reply.PASS or entry.reply is Reply.FETCH or entry.reply is Reply.TIMED:
                if entry.reply is not Reply.PASS:
                    look = self._fetch if entry.reply is Reply.FETCH else self._timed
                    run = look(data, run, position, stop, entry, now_ms, effects)
                    if self._needed_bytes > end - position:
                        break
                if stop > end:
                    self._streaming_bytes, position = stop - end, end
                    break
            else:
                self._needed_bytes = 4 + length
                if not self._may_hold(stop - position) or stop > end:
                    break
                run = self._whole(data, run, position, stop, entry, now_ms, effects)
                if run < 0 or self.turn_due:
                    return self._stopped(data, run, position, stop, effects)
            position, self._reserved_bytes = stop, 0
            self._listener.counts.answered(self._pipeline.pop(), now_ms)
            run = self._give_ready(data, run, position, effects)
        else:
            self._needed_bytes = 8
        if run < position:
            effects.append(ToClient(data[run:position]))
        return position

    def _may_hold(self, size_bytes: int) -> bool:
        """Take room for a whole response before it is received, so that it can always be completed."""
        if size_bytes > FREE_BYTES and not self._reserved_bytes:
            if not self._has_room(size_bytes):
                self.starved = True
                return False
            self._reserved_bytes = size_bytes
        return True

    def _give_ready(self, data: memoryview, run: int, position: int, effects: list[Effect]) -> int:
        """Our own answers that stand first now; where the run of the broker's begins after them."""
        ready = self._pipeline.pop_ready(self._now_ms)
        if not ready:
            return run
        if run < position:
            effects.append(ToClient(data[run:position]))
        effects.extend(ToClient(own) for own in ready)
        return position

    def _broken(self, fault: str, before: memoryview, end: int, effects: list[Effect]) -> int:
        """The broker is not to be understood any more; the answers before that are still good."""
        if before:
            effects.append(ToClient(before))
        effects.append(Close("upstream_protocol", fault))
        return end

    def _finish(self, effects: list[Effect]) -> None:
        self._reserved_bytes = 0
        self._listener.counts.answered(self._pipeline.pop(), self._now_ms)
        effects.extend(ToClient(ready) for ready in self._pipeline.pop_ready(self._now_ms))

    def _fetch(
        self,
        data: memoryview,
        run: int,
        position: int,
        stop: int,
        entry: InFlight,
        now_ms: int,
        effects: list[Effect],
    ) -> int:
        """Look at the head of a fetch answer, if `_needed_bytes` of it are there; where the run begins now.

        An answer that the quota has no room for is dropped as it comes, and an empty one given (KIP-219).
        """
        self._needed_bytes = min(_FETCH_HEAD_BYTES, stop - position)
        if len(data) - position < self._needed_bytes:
            return run
        offset = position + (9 if entry.version >= _FIRST_FLEXIBLE_FETCH else 8)
        size_bytes = stop - position
        client = entry.client
        if entry.bucket is not None and client is not None:
            # Kafka does not count the tagged fields of the header.
            length = size_bytes - (5 if entry.version >= _FIRST_FLEXIBLE_FETCH else 4)
            refusal = b""
            if client.request.limited or not entry.bucket.record_within(length, now_ms):
                refusal = self._pay(data, offset, length, entry, now_ms, effects)
            if refusal:
                if run < position:
                    effects.append(ToClient(data[run:position]))
                effects.append(ToClient(refusal))
                self._drops, run, size_bytes = stop > len(data), stop, len(refusal)
                entry.fetch_topic = None
        self._fetched(data, offset, size_bytes, entry)
        return run

    def _fetch_passes(self, data: memoryview, entry: InFlight, now_ms: int) -> bool:
        """Whether `data` is the whole answer to this fetch, and there is room for it: then it is paid for."""
        size_bytes = len(data)
        if (
            size_bytes < _FETCH_HEAD_BYTES
            or entry.held_ms
            or _HEAD(data) != (size_bytes - 4, entry.correlation_id)
        ):
            return False
        is_flexible = entry.version >= _FIRST_FLEXIBLE_FETCH
        client, bucket = entry.client, entry.bucket
        if bucket is not None and client is not None:
            length = size_bytes - (5 if is_flexible else 4)
            if client.request.limited or not bucket.record_within(length, now_ms):
                return False
        self._fetched(data, 9 if is_flexible else 8, size_bytes, entry)
        return True

    def _fetched(self, data: memoryview, offset: int, size_bytes: int, entry: InFlight) -> None:
        """Count an answer, and know the session that it opens; its throttle time stands at `offset`."""
        if entry.summary is not None:
            entry.summary.response_bytes += size_bytes
        if entry.fetch_topic is not None and entry.version >= FIRST_WITH_SESSION:
            client = entry.client
            if client is not None and client.image is not None:
                session_id = _INT32.unpack_from(data, offset + 6)[0]
                self._fetch_sessions.opened(session_id, client.basis.rights, entry.fetch_topic)

    def _pay(
        self, data: memoryview, offset: int, length: int, entry: InFlight, now_ms: int, effects: list[Effect]
    ) -> bytes:
        """Pay for a fetch answer whose throttle time stands at `offset`; what to say in its place, or b""."""
        bucket = entry.bucket
        assert bucket is not None
        admitted, for_bytes_ms = bucket.admit(length, now_ms)
        throttle_ms = self._throttle_ms(entry, for_bytes_ms, now_ms)
        if not throttle_ms:
            return b""
        effects.append(MuteClient(throttle_ms))
        told_ms = _INT32.unpack_from(data, offset)[0]
        has_session = entry.version >= FIRST_WITH_SESSION
        if admitted or (has_session and _ERROR_CODE(data, offset + 4)[0]):
            _INT32.pack_into(data, offset, max(told_ms, throttle_ms))
            return b""
        # A session that was to be opened is not: the client asks for all of it again.
        goes_on = has_session and entry.fetch_topic is None
        session_id = _INT32.unpack_from(data, offset + 6)[0] if goes_on else 0
        return throttled_answer(entry.version, entry.correlation_id, max(told_ms, throttle_ms), session_id)

    def _whole(
        self,
        data: memoryview,
        run: int,
        position: int,
        stop: int,
        entry: InFlight,
        now_ms: int,
        effects: list[Effect],
    ) -> int:
        """Treat a whole answer; where the run of those that pass (patched in place, perhaps) begins now.

        Negative when the answer is malformed, and the connection to end.
        """
        if _is_plain(entry, data, position, stop, now_ms):
            return run
        if not self._pace.may_begin:
            self._yielded = True
            return run
        frame, noted = data[position:stop], list[Effect]()
        admitted, throttle_ms = self._charge(frame, entry, now_ms)
        work = partial(self._changed, frame, entry, admitted, throttle_ms, noted)
        try:
            changed = self._slices.run(work, partial(self._finished_later, noted, throttle_ms))
        except _FAULTS as error:
            fault = f"the broker's answer to {ApiKey.name_of(entry.api_key)} is malformed: {error}"
            self._broken(fault, data[run:position], stop, effects)
            return -1
        if changed is not frame and run < position:
            effects.append(ToClient(data[run:position]))
        if changed is UNFINISHED:
            entry.broker_ms = now_ms - entry.since_ms
            return stop
        effects += noted
        if changed is not frame:
            if changed:
                effects.append(ToClient(changed))
            run = stop
        if throttle_ms:
            effects.append(MuteClient(throttle_ms))
        return run

    def _stopped(self, data: memoryview, run: int, position: int, stop: int, effects: list[Effect]) -> int:
        """The response at `position` is malformed (`run` < 0), unfinished, or waits for a turn."""
        if run < 0:
            return len(data)
        if self._slices.unfinished:
            return stop
        if run < position:
            effects.append(ToClient(data[run:position]))
        return position

    def _finished_later(
        self, noted: list[Effect], throttle_ms: int, changed: Any, effects: list[Effect]
    ) -> None:
        """A response was finished in a later slice; it is at the head of the pipeline still."""
        effects += noted
        if changed:
            effects.append(ToClient(changed))
        if throttle_ms:
            effects.append(MuteClient(throttle_ms))
        self._finish(effects)

    def _slice_is_over(self, count: int) -> bool:
        """Whether the rest waits for a turn, once so many responses were handled."""
        if count and count % _FRAMES_AT_A_TIME == 0 and self._pace.is_over:
            self._yielded = True
        return self._yielded

    def _changed(
        self, frame: memoryview, entry: InFlight, admitted: bool, throttle_ms: int, effects: list[Effect]
    ) -> Data:
        """What the client gets of a whole answer: the same frame, another one, or nothing."""
        if entry.reply is Reply.PRODUCE or entry.reply is Reply.TIMED_PRODUCE:
            return produce.finished_reply(frame, entry.version, throttle_ms, self._listener)
        if entry.reply is Reply.OWN:
            return held_replies.taken(frame, entry)
        if entry.summary is not None:
            entry.summary.response_bytes += len(frame)
        changed = held_replies.handled(frame, entry, throttle_ms, admitted, self._listener.counts)
        if entry.call is not None:
            self._note(entry.call, effects, entry.client)
        return changed

    def _timed(
        self,
        data: memoryview,
        run: int,
        position: int,
        stop: int,
        entry: InFlight,
        now_ms: int,
        effects: list[Effect],
    ) -> int:
        """Tell in the head of an answer what its client owes for time, if `_needed_bytes` of it are there."""
        self._needed_bytes = min(request_time.head_bytes(entry), stop - position)
        if len(data) - position >= self._needed_bytes:
            throttle_ms = self._throttle_ms(entry, 0, now_ms)
            if throttle_ms:
                if stop - position >= request_time.head_bytes(entry):
                    request_time.put_in(data, position, entry, throttle_ms)
                effects.append(MuteClient(throttle_ms))
        return run

    def _charge(self, frame: memoryview, entry: InFlight, now_ms: int) -> tuple[bool, int]:
        """Whether the client gets the answer as it is, and for how long it is to be muted."""
        bucket = entry.bucket
        admitted, throttle_ms = True, 0
        if bucket is not None:
            # A produce request is paid for by its own size, a fetch by that of its answer (KIP-13).
            size_bytes = entry.request_bytes or len(frame) - 4
            if entry.api_key == _FETCH:
                admitted, throttle_ms = bucket.admit(size_bytes, now_ms)
            else:
                throttle_ms = bucket.record(size_bytes, now_ms)
        return admitted, self._throttle_ms(entry, throttle_ms, now_ms)

    def _throttle_ms(self, entry: InFlight, for_bytes_ms: int, now_ms: int) -> int:
        """What an answer tells: the longer of what bytes and what time cost, written down; 0 if observed."""
        bucket, throttle_ms = entry.bucket, for_bytes_ms
        owed_ms = request_time.owed_ms(entry, now_ms)
        if owed_ms and owed_ms >= throttle_ms and entry.client is not None:
            bucket, throttle_ms = entry.client.request, owed_ms
        if not throttle_ms or bucket is None:
            return 0
        self._throttled(bucket, throttle_ms, now_ms)
        return throttle_ms if bucket.enforced else 0


def _fault(entry: InFlight | None, length: int, correlation_id: int) -> str | None:
    """Why the head of an answer cannot be that of the answer that is due."""
    if entry is None or entry.correlation_id != correlation_id:
        return f"unexpected correlation id {correlation_id}"
    least = 4
    if entry.reply is Reply.FETCH:
        # What is read of it: correlation id, tags, throttle time, error code, session id.
        least = (9 if entry.version >= _FIRST_FLEXIBLE_FETCH else 8) + (
            6 if entry.version >= FIRST_WITH_SESSION else 0
        )
    return f"an answer of {length} bytes, the least is {least}" if length < least else None


def _is_plain(entry: InFlight, data: memoryview, position: int, stop: int, now_ms: int) -> bool:
    """Whether the whole answer at `position` passes as it is; it is paid for then."""
    plain, length = entry.plain, stop - position - 4
    if (
        plain is None
        or length < plain.least_bytes
        or plain.read(data, position) != (length, entry.correlation_id, plain.head, plain.no_error)
    ):
        return False
    bucket = entry.bucket
    return bucket is None or bucket.record_within(entry.request_bytes, now_ms)


def _nobody(*_noted: object) -> None:
    """The session is over. A reference to it would leave it to the garbage collector."""


def _no_room(_size_bytes: int) -> bool:
    return False
