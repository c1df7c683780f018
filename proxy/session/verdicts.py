"""A verdict on a request, and the request in hand: what goes to the broker, the client or the controller.

Part of proxy.session.session. The verdicts are made by proxy.session.apis; the answers come back through
proxy.session.replies.
"""

from typing import TYPE_CHECKING, Any

from proxy.metadata.acl import Operation
from proxy.session import asking, forwarding, outcome, produce_path, request_time
from proxy.session.call import Answer, Ask, AskController, Call, Forward, LookUp, ToTheController, Verdict
from proxy.session.client_state import topic_action
from proxy.session.effects import Close, Effect, ToBroker
from proxy.session.pipeline import InFlight, Reply
from proxy.session.summaries import Summary
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import encode_request, encode_response
from proxy.wire.work import release

if TYPE_CHECKING:
    from proxy.session.session import Session

_PRODUCE = int(ApiKey.PRODUCE)
_QUESTIONS = (Ask, AskController, LookUp)  # A union would be made anew for each request.


def act(
    session: "Session",
    call: Call,
    message: Any,
    verdict: Verdict,
    trailing: bool,
    effects: list[Effect],
) -> bool:
    """Carry a verdict out; True when the frame goes on as it came."""
    if isinstance(verdict, Answer):
        if verdict.is_paid_for and session.client.producer.limited:
            throttle_ms = produce_path.charge(session, call.size_bytes - 4, call.now_ms, effects)
            if verdict.message is not None:
                verdict.message.throttle_time_ms = throttle_ms
        carry_out(session, call, verdict, effects)
        return False
    if isinstance(verdict, ToTheController):
        forwarding.send(session, call, message, verdict, effects)
        return False
    if isinstance(verdict, _QUESTIONS):
        _ask_first(session, call, message, verdict, effects)
        return False
    unanswered = call.api_key == _PRODUCE and message.acks == 0
    if not unanswered:
        entry = _in_flight(session, call, verdict)
        request_time.governs(session, entry)
        session.pipeline.push(entry)
    elif session.client.producer.limited or session.client.request.limited:
        produce_path.charge(session, call.size_bytes - 4, call.now_ms, effects)
    if verdict.message is None and not trailing:
        return True
    send(session, call, call.version, message if verdict.message is None else verdict.message, effects)
    if unanswered and verdict.on_reply is not None:
        # Part of it was denied, and there is no answer to say so in: Kafka cuts the client off too.
        session.close(Close("produce_denied"), effects)
    return False


def _ask_first(
    session: "Session",
    call: Call,
    message: Any,
    verdict: Ask | AskController | LookUp,
    effects: list[Effect],
) -> None:
    if isinstance(verdict, Ask):
        asking.ask_first(session, call, message, verdict, act, effects)
    elif isinstance(verdict, LookUp):
        asking.look_up_first(session, call, message, verdict, act, effects)
    else:
        forwarding.ask_first(session, call, message, verdict, act, effects)


def tell_outcome(call: Call, verdict: Verdict) -> None:
    """What was decided is recorded before it is carried out: with the answer, if that is known already."""
    if call.events and isinstance(verdict, Answer) and verdict.message is not None:
        outcome.tell(call.events, verdict.message)


def _in_flight(session: "Session", call: Call, verdict: Forward) -> InFlight:
    entry = InFlight(Reply.PASS, call.api_key, call.version, call.correlation_id, client=session.client)
    times(session, call, entry)
    if call.api_key == _PRODUCE:
        entry.reply = Reply.PRODUCE
        entry.bucket = session.client.producer if session.client.producer.limited else None
        entry.request_bytes = call.size_bytes - 4
    elif verdict.consumes is not None:
        entry.bucket = session.client.consumer if session.client.consumer.limited else None
        entry.summary = _summary(session, call, verdict.consumes)
    if verdict.on_reply is not None:
        entry.reply, entry.handler, entry.raw = Reply.HELD, verdict.on_reply, verdict.raw
        entry.call = call
    return entry


def times(session: "Session", call: Call, entry: InFlight) -> None:
    """A request that is sent to the broker now: how long it takes is counted from here."""
    entry.since_ms = session.now_ms
    entry.held_ms = max(0, session.now_ms - call.now_ms)
    entry.took = session.listener.counts.passed[call.api_key]


def _summary(session: "Session", call: Call, topic: str) -> Summary | None:
    """Where the bytes of records are counted, for whoever compares them with the quota."""
    if not topic:
        return None
    action = topic_action(Operation.READ, topic)
    decision = call.basis.authorizer.authorize(call.context, [action])[0]
    return session.client.summary(call.api_key, action, decision, call.now_ms) if decision.allowed else None


def send(session: "Session", call: Call, version: int, message: Any, effects: list[Effect]) -> None:
    """Send what is left of a request to the broker, encoded again."""
    body = codecs.request(call.api_key, version).encode(message)
    effects.append(
        ToBroker(encode_request(call.api_key, version, call.correlation_id, call.context.client_id, body))
    )


def carry_out(session: "Session", call: Call, verdict: Answer, effects: list[Effect]) -> None:
    """Answer a request ourselves."""
    if verdict.message is not None:
        if session.client.request.limited:
            request_time.tell(session, verdict.message, call.now_ms, effects)
        session.listener.counts.errors_of(call.api_key, verdict.message)
        body = codecs.response(call.api_key, call.version).encode(verdict.message)
        response = encode_response(call.api_key, call.version, call.correlation_id, body)
        session.answer(response, effects, call.api_key, call.now_ms)
        release(verdict.message)
    if verdict.close is not None:
        session.close(Close(verdict.close), effects)
