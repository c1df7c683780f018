"""Admin requests on their way to the controller and back (KIP-590), as the session sees it.

Part of proxy.session.session. While the controller has a request no other one of this client is taken, as a
broker would not: so a change is in force for the client's next request (SPEC E13). A question of ours goes
the same way, on behalf of the client; its answer never reaches the client, and what waited for it goes on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proxy.audit.record import AuditEvent
from proxy.session import asking, request_time
from proxy.session.apis.table import rejection
from proxy.session.call import AskController, Call, ToTheController
from proxy.session.changes import changes_of
from proxy.session.controller_reply import ControllerReply
from proxy.session.effects import Close, Effect, MuteClient, Recorded, ToClient, ToController
from proxy.session.outcome import error_of
from proxy.session.pipeline import InFlight, Reply
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from proxy.wire.header import encode_response, response_body_offset

if TYPE_CHECKING:
    from proxy.session.session import Session


Then = Callable[[Any, int, list[Effect]], None]
"""Decoded answer or None, the error if there is none, and where what comes of it goes."""


@dataclass(slots=True)
class ControllerQuestion(InFlight):
    """One request of ours that the controller has."""

    then: Then = field(kw_only=True)


def send(
    session: "Session", call: Call, message: Any, verdict: ToTheController, effects: list[Effect]
) -> None:
    """Hand the request over and wait."""
    to_send = message if verdict.message is None else verdict.message
    entry = InFlight(
        Reply.AWAITED,
        call.api_key,
        call.version,
        call.correlation_id,
        call.size_bytes,
        handler=verdict.on_reply,
        request=to_send,
        call=call,
        client=session.client,
        since_ms=call.now_ms,
        took=session.listener.counts.through[call.api_key],
    )
    if not _handed_over(session, call, entry, verdict.timeout_ms, effects):
        answer = rejection(call.api_key, call.version, to_send, ErrorCode.UNKNOWN_SERVER_ERROR)
        session.listener.counts.errors_of(call.api_key, answer)
        body = codecs.response(call.api_key, call.version).encode(answer)
        response = encode_response(call.api_key, call.version, call.correlation_id, body)
        session.answer(response, effects, call.api_key, call.now_ms)


def ask_first(
    session: "Session",
    call: Call,
    message: Any,
    verdict: AskController,
    act: asking.Act,
    effects: list[Effect],
) -> None:
    """Put an API's question; its verdict on the request is made of the answer, and carried out by `act`."""

    def then(reply: Any, error_code: int, out: list[Effect]) -> None:
        asking.act_on(session, call, message, verdict.then(reply, error_code), act, out)

    entry = ControllerQuestion(
        Reply.AWAITED,
        verdict.api_key,
        verdict.version,
        # The client's own, so that both requests are told to belong together; as a broker has it.
        call.correlation_id,
        request=verdict.message,
        client=session.client,
        then=then,
    )
    if not _handed_over(session, call, entry, verdict.timeout_ms, effects):
        then(None, ErrorCode.UNKNOWN_SERVER_ERROR, effects)


def _handed_over(
    session: "Session", call: Call, entry: InFlight, timeout_ms: int, effects: list[Effect]
) -> bool:
    """Whether the controller gets it: not where who asks cannot be named to it, which is told."""
    try:
        principal = session.gate.serde.serialize(call.context.principal)
    except ValueError as error:
        _unnamed(session, call, entry, str(error), effects)
        return False
    session.pipeline.push(entry)
    session.waits_for = entry
    effects.append(
        ToController(
            entry.api_key,
            entry.version,
            entry.correlation_id,
            call.context.client_id,
            codecs.request(entry.api_key, entry.version).encode(entry.request),
            principal,
            session.peer.address,
            timeout_ms,
            session.pipeline.traceparent,
        )
    )
    return True


def told(session: "Session", correlation_id: int, reply: ControllerReply, now_ms: int) -> AuditEvent | None:
    """The record of the controller's answer, which is kept before the client has the answer (`replied`)."""
    entry = _awaited(session, correlation_id)
    return None if entry is None else session.complete(_event(entry, reply, now_ms))


def _unnamed(session: "Session", call: Call, entry: InFlight, fault: str, effects: list[Effect]) -> None:
    """Who asks cannot be told to the controller: a set-up fault, which is none of the client's business."""
    event = AuditEvent(
        event="request_refused",
        method=ApiKey.name_of(entry.api_key),
        api_version=entry.version,
        correlation_id=call.correlation_id,
        error_code=int(ErrorCode.UNKNOWN_SERVER_ERROR),
        message=fault,
    )
    effects.append(Recorded(session.complete(event)))


def replied(session: "Session", correlation_id: int, reply: ControllerReply, now_ms: int) -> list[Effect]:
    """The controller's answer takes the request's place in the order of answers."""
    entry = _awaited(session, correlation_id)
    if entry is None:
        return []
    session.waits_for = None
    effects: list[Effect] = []
    if isinstance(entry, ControllerQuestion):
        return _go_on(session, entry, reply, effects)
    if reply.close:
        return _given_up(session, Close("unsupported_by_controller"), effects)
    try:
        data, throttle_ms = _answer(session, entry, reply, now_ms)
    except WireError as error:
        return _given_up(session, _malformed(error), effects)
    if entry.call is not None:
        session.note(entry.call, effects)
    session.pipeline.make_ready(entry, data)
    effects.extend(ToClient(ready) for ready in session.pipeline.pop_ready(now_ms))
    if throttle_ms > 0:
        # KIP-219: who was told to wait is not heard until then, whether the client keeps to it or not.
        session.mutes += 1
        effects.append(MuteClient(throttle_ms))
    return effects


def _go_on(
    session: "Session", question: ControllerQuestion, reply: ControllerReply, effects: list[Effect]
) -> list[Effect]:
    """The answer to a question of ours is there: what waited for it happens now."""
    answer = None
    if reply.error_code == ErrorCode.NONE and reply.body is not None:
        try:
            answer, _ = codecs.response(question.api_key, question.version).decode(reply.body)
        except WireError as error:
            return _given_up(session, _malformed(error), effects)
    session.pipeline.forget_last()
    if not session.closing:
        question.then(answer, int(reply.error_code), effects)
    return effects


def _malformed(error: WireError) -> Close:
    return Close("controller_protocol", f"the controller's answer is malformed: {error}")


def _awaited(session: "Session", correlation_id: int) -> InFlight | None:
    """The request that the controller has, if it is this one."""
    entry = session.waits_for
    return entry if isinstance(entry, InFlight) and entry.correlation_id == correlation_id else None


def _given_up(session: "Session", close: Close, effects: list[Effect]) -> list[Effect]:
    # It is the last in flight, for nothing is taken while the controller has it.
    session.pipeline.forget_last()
    session.close(close, effects)
    return effects


def _answer(session: "Session", entry: InFlight, reply: ControllerReply, now_ms: int) -> tuple[bytes, int]:
    """The client's answer, and the time that it tells the client to wait."""
    codec = codecs.response(entry.api_key, entry.version)
    body = None if reply.error_code != ErrorCode.NONE else reply.body
    if body is None:
        message = rejection(entry.api_key, entry.version, entry.request, reply.error_code)
    else:
        message, _ = codec.decode(body)
    if entry.handler is not None:
        entry.handler(message)
    session.listener.counts.errors_of(entry.api_key, message)
    is_changed = request_time.put_longer(session, message, now_ms) > 0 or entry.handler is not None
    encoded = codec.encode(message) if is_changed or body is None else bytes(body)
    answer = encode_response(entry.api_key, entry.version, entry.correlation_id, encoded)
    return answer, message.throttle_time_ms


def _event(entry: InFlight, reply: ControllerReply, now_ms: int) -> AuditEvent:
    event = AuditEvent(
        event="forwarded",
        method=ApiKey.name_of(entry.api_key),
        api_version=entry.version,
        correlation_id=entry.correlation_id,
        forward_id=reply.forward_id,
        envelope_error_code=int(reply.error_code),
        first_offset=reply.first_offset,
        last_offset=reply.last_offset,
        interval_end_ms=now_ms,
        # Of a question of ours the client has sent nothing.
        request_bytes=entry.request_bytes or None,
    )
    answer = None
    if reply.error_code != ErrorCode.NONE or reply.body is None:
        # What the client is told where the controller gave no answer.
        event.error_code = int(reply.error_code)
    else:
        answer = _read(entry, reply.body)
        event.response_bytes = _frame_bytes(entry, reply.body)
        event.throttle_time_ms = getattr(answer, "throttle_time_ms", None)
        # Before what was denied here is merged in, which tells the same; None where it cannot be read.
        event.error_code = None if answer is None else error_of(answer)
    if reply.first_offset is not None:
        _tell_changes(event, entry, reply, answer)
    return event


def _frame_bytes(entry: InFlight, body: bytes | memoryview) -> int:
    """How long the controller's answer would be at the client, as it is."""
    return 4 + response_body_offset(entry.api_key, entry.version) + len(body)


def _tell_changes(event: AuditEvent, entry: InFlight, reply: ControllerReply, answer: Any) -> None:
    """Kafka's controller writes no audit: what it was asked for, and has done, is told here."""
    # What was sent twice may have been done by the first, whatever the second was answered.
    event.changes = changes_of(entry.api_key, entry.request, answer if reply.attempts == 1 else None)
    event.count = reply.attempts


def _read(entry: InFlight, body: bytes | memoryview) -> Any:
    try:
        return codecs.response(entry.api_key, entry.version).decode(body)[0]
    except WireError:
        return None
