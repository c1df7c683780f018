"""A verdict on a request -> the plan that carries it out.

The verdicts are made by proxy.session.apis and proxy.session.data. One that needs something first (a response
of the broker or of the controller, the names of topics) becomes a plan with a continuation, which makes the
final verdict and its plan.

Requests that need no right are recorded here, because no decision in the audit trail states them. Examples
are a Metadata request for all topics, a token of one's own, a fetch session that does not exist. Each
administrative request is a record (`admin_request`), unless it only reads and was not rejected: any client
may describe its own tokens as often as it likes. Those and all others are counted (`request_summary`).
"""

from dataclasses import replace
from functools import partial
from typing import Any

from proxy.admin.objects import Object
from proxy.audit import events
from proxy.audit.classes import READS
from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Operation
from proxy.session.accounting import response_errors
from proxy.session.accounting.summaries import Summary
from proxy.session.apis.table import BETWEEN_BROKERS
from proxy.session.apis.table import HELD as HELD_APIS
from proxy.session.call import (
    Call,
    Forward,
    ForwardToController,
    NameTopics,
    QueryBroker,
    QueryController,
    Respond,
    Verdict,
)
from proxy.session.client_state import topic_action
from proxy.session.effects import Close, ToBroker
from proxy.session.in_flight import InFlight, Passing, Produced, Rewritten, Timed, charge_on_arrival
from proxy.session.plan import End, LookUp, Plan, RecordDecisions, SendResponse
from proxy.session.requests import forwarding
from proxy.session.requests.queries import broker_query
from proxy.session.throttling import charge_unanswered, exempt, refuse, throttle_own
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from proxy.wire.header import encode_request, encode_response
from proxy.wire.message import MANY_BYTES, Message, release

_QUERIES = (QueryBroker, QueryController, NameTopics)  # A union would be built for each request.

_PRODUCE = int(ApiKey.PRODUCE)
_HELD = HELD_APIS | {ApiKey.FETCH}


def _request_event(call: Call, error_code: int | None, objects: list[Object] | None = None) -> AuditEvent:
    return events.admin_request(
        method=ApiKey.name_of(call.api_key),
        api_version=call.version,
        correlation_id=call.correlation_id,
        error_code=error_code,
        objects=objects,
    )


def plan(call: Call, request: Any, verdict: Verdict, frame: memoryview | None = None) -> Plan:
    """Record what was decided, then carry the verdict out.

    `frame`: the client's own bytes, if they may be sent on where the verdict changes nothing.
    """
    if call.requested is not None and isinstance(verdict, (Forward, Respond)):
        return _administrative(call, call.requested, request, verdict, frame)
    steps = recorded(call, verdict)
    if isinstance(verdict, Respond):
        return steps + _respond(call, verdict)
    if isinstance(verdict, Forward):
        return steps + _forward(call, request, verdict, frame)
    if isinstance(verdict, ForwardToController):
        return steps + forwarding.send(call, request, verdict)

    def later(*found: Any) -> Plan:
        # The client's bytes are gone by then, so the request is encoded again.
        return plan(call, request, verdict.then(*found))

    if isinstance(verdict, QueryBroker):
        query = verdict.api_key, verdict.version, verdict.message
        return steps + broker_query(*query, later, verdict.raw, call.size_bytes)
    if isinstance(verdict, QueryController):
        return steps + forwarding.query(call, verdict, later)
    return [*steps, LookUp(verdict.topic_ids, later)]


def _administrative(
    call: Call, requested: Message, request: Message, verdict: Forward | Respond, frame: memoryview | None
) -> Plan:
    """A change that the broker carries out, or one that is rejected: record what it is about (SPEC D12)."""
    api = call.api
    assert api is not None
    assert api.objects is not None
    objects_of = partial(call.objects_of, api.objects)
    if isinstance(verdict, Respond):
        steps = recorded(call, verdict)
        if call.events:
            call.events[0].objects = objects_of(requested, verdict.message, call.size_bytes)
        return steps + _respond(call, verdict)
    if call.admin:
        sent = request if verdict.message is None else verdict.message
        call.events.append(_request_event(call, None, objects_of(sent, None, call.size_bytes)))
    on_response = verdict.on_response

    def responded(response: Message) -> None:
        if on_response is not None:
            on_response(response)
        call.events.append(
            events.broker_responded(
                method=ApiKey.name_of(call.api_key),
                api_version=call.version,
                correlation_id=call.correlation_id,
                error_code=response_errors.error_of(response),
                objects=objects_of(requested, response, call.size_bytes),
            )
        )

    verdict = replace(verdict, on_response=responded)
    return recorded(call, verdict) + _forward(call, request, verdict, frame)


def recorded(call: Call, verdict: Verdict) -> Plan:
    """Record what was decided, with the response's errors if they are known already.

    A request that was decided without the authorizer is recorded or counted too.
    """
    response = verdict.message if isinstance(verdict, Respond) else None
    if call.events and response is not None:
        response_errors.set_error_codes(call.events, response)
    if call.is_undecided and not isinstance(verdict, _QUERIES):
        # Before it is carried out, as all administrative requests are: with its error if that is known.
        error_code = None if response is None else response_errors.error_of(response)
        if call.admin and not (ApiKey.name_of(call.api_key) in READS and error_code == ErrorCode.NONE):
            call.events.append(_request_event(call, error_code))
        elif not isinstance(verdict, Forward) or verdict.on_response is None:
            call.count_unchecked()
    return [RecordDecisions(call)]


def respond(call: Call, verdict: Respond) -> Plan:
    """Send the proxy's own response, and close the connection if the verdict says so."""
    steps: Plan = []
    if verdict.message is not None:
        steps += throttle_own(call, verdict.message)
        call.listener.counts.errors_of(call.api_key, verdict.message)
        try:
            body = codecs.response(call.api_key, call.version).encode(verdict.message)
        except WireError as error:
            # An error's text has names that the client has chosen. What was decided is recorded all the same.
            return [*steps, End(Close("malformed_request", str(error)))]
        response = encode_response(call.api_key, call.version, call.correlation_id, body)
        steps.append(SendResponse(response, call.api_key, call.now_ms))
        if len(body) > MANY_BYTES:
            release(verdict.message)
    if verdict.close is not None:
        steps.append(End(Close(verdict.close)))
    return steps


def to_broker(call: Call, version: int, request: Any) -> ToBroker:
    """Encode the request again, for the broker."""
    body = codecs.request(call.api_key, version).encode(request)
    return ToBroker(encode_request(call.api_key, version, call.correlation_id, call.context.client_id, body))


def _respond(call: Call, verdict: Respond) -> Plan:
    if verdict.is_refused:
        refused, verdict.message.throttle_time_ms = refuse(call.client, call.now_ms)
        return refused + respond(call, verdict)
    if not (verdict.is_charged and call.client.producer.limited):
        return respond(call, verdict)
    charged, throttle_time_ms = charge_unanswered(call.client, call.size_bytes - 4, call.now_ms)
    if verdict.message is not None:
        verdict.message.throttle_time_ms = throttle_time_ms
    return charged + respond(call, verdict)


def _forward(call: Call, request: Any, verdict: Forward, frame: memoryview | None) -> Plan:
    unanswered = call.api_key == _PRODUCE and request.acks == 0
    steps: Plan = []
    if not unanswered:
        steps.append(_in_flight(call, verdict))
    elif call.client.producer.limited or call.client.request.limited:
        steps += charge_unanswered(call.client, call.size_bytes - 4, call.now_ms)[0]
    if verdict.message is None and frame is not None:
        steps.append(ToBroker(frame))
        return steps
    steps.append(to_broker(call, call.version, request if verdict.message is None else verdict.message))
    if unanswered and verdict.on_response is not None:
        # A part of it was denied, and there is no response to say so in: Kafka closes the connection too.
        steps.append(End(Close("produce_denied")))
    return steps


def _in_flight(call: Call, verdict: Forward) -> InFlight:
    client = call.client
    is_timed = client.request.limited
    entry: Passing | Produced | Rewritten
    common = (call.api_key, call.version, call.correlation_id, client, call.now_ms)
    if verdict.on_response is None and not is_timed and verdict.consumes is None and call.api_key != _PRODUCE:
        durations = call.listener.counts.passed[call.api_key]
        return Passing(*common, 0, durations, holds_back=call.api_key in _HELD)
    bucket, summary, request_bytes = None, None, 0
    if call.api_key == _PRODUCE:
        bucket, request_bytes = client.producer, call.size_bytes - 4
    elif verdict.consumes is not None:
        bucket, summary = client.consumer, _summary(call, verdict.consumes)
    if bucket is not None and not bucket.limited:
        bucket = None
    if verdict.on_response is not None:
        entry = Rewritten(
            *common,
            call=call,
            handler=verdict.on_response,
            raw=verdict.raw,
            in_place=verdict.in_place,
            request_bytes=request_bytes,
            bucket=bucket,
            summary=summary,
            reserved_bytes=verdict.reserved_bytes,
        )
    elif call.api_key == _PRODUCE:
        entry = Produced(*common, request_bytes=request_bytes, bucket=bucket)
    else:
        entry = (Timed if is_timed else Passing)(*common)
    entry.durations = call.listener.counts.passed[call.api_key]
    # What a response costs, and the time spent on a request, is known when the response has left.
    entry.holds_back = is_timed or call.api_key in _HELD or (bucket is not None and not request_bytes)
    if request_bytes and isinstance(entry, Produced | Rewritten):
        charge_on_arrival(entry, call.now_ms)
    if is_timed and call.api_key in BETWEEN_BROKERS:  # As at Kafka, no quota of clients applies to it.
        exempt(client, entry)
    return entry


def _summary(call: Call, topic: str) -> Summary | None:
    """The summary that counts the bytes of records, for the comparison with the quota."""
    if not topic:
        return None
    action = topic_action(Operation.READ, topic)
    decision = call.decide([action])[0]
    return (
        call.client.summary(call.api_key, call.version, action, decision, call.now_ms)
        if decision.allowed
        else None
    )
