"""Administrative requests on their way to the controller and back (KIP-590), as the session sees them.

While the controller has a request, no other one of this client is taken, as at a broker: so a change is in
effect for the client's next request (SPEC E13). A request of the proxy's own goes the same way, on behalf of
the client; its response never reaches the client, and what waited for it continues.

Where the controller does not return the offset of a change in its log (`controller.mode: kraft`), the audit
event has the records that Kafka's own controller writes for the request: reconciliation looks for them in the
log (spark_audit.reconcile). Such a change is the name of a record, then its fields in a fixed order, as far
as they are known: a shorter one stands for every record that begins like it. It contains no secrets. Without
a response, it is everything that was requested.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proxy.admin.objects import Object, details_of
from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.session.accounting.response_errors import error_of
from proxy.session.apis.table import TABLE, rejection
from proxy.session.call import Call, Change, ForwardToController, QueryController
from proxy.session.effects import Close, ControllerResponse, MuteClient, Recorded, ToController
from proxy.session.in_flight import Awaited, ControllerQuery
from proxy.session.plan import Complete, End, ForgetLast, Plan, RecordDecisions, SendResponse
from proxy.session.throttling import throttle_longer
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from proxy.wire.header import encode_response, response_body_offset
from proxy.wire.work import spend

MAX_BYTES = 262_144
"""A request with more changes is recorded by the kinds of its records, since a topic takes no large
messages."""

_DENIED = "AUTHORIZATION_FAILED"
_OF_RESPONSE = ("topic_id", "partitions", "replication_factor")
_CHANGE_UNITS = 4
"""The cost of one change, in the units of proxy.wire.work."""


def expected_records(api_key: int, request: Any, response: Any) -> tuple[Change, ...]:
    """In the order of the request; `response` None: its outcome is unknown."""
    changes_by = TABLE[api_key].changes
    if changes_by is None or getattr(request, "validate_only", False):
        return ()
    changes: list[Change] = []
    kinds: dict[Change, None] = {}
    size_bytes = 0
    for change in changes_by(request, response):
        spend(_CHANGE_UNITS)
        kinds[change[:1]] = None
        if size_bytes <= MAX_BYTES:
            changes.append(change)
            size_bytes += len(json.dumps(change)) + len(", ")
    return tuple(changes) if size_bytes <= MAX_BYTES else tuple(kinds)


def send(call: Call, request: Any, verdict: ForwardToController) -> Plan:
    """Send the request to the controller, and wait."""
    to_send = request if verdict.message is None else verdict.message
    entry = Awaited(
        call.api_key,
        call.version,
        call.correlation_id,
        call.client,
        call.now_ms,
        durations=call.listener.counts.through[call.api_key],
        call=call,
        request=to_send,
        handler=verdict.on_response,
        request_bytes=call.size_bytes,
    )
    try:
        return _sent(entry, verdict.timeout_ms)
    except ValueError as error:
        unsent = _unsent(entry, str(error))
    response = rejection(call.api_key, call.version, to_send, ErrorCode.UNKNOWN_SERVER_ERROR)
    call.listener.counts.errors_of(call.api_key, response)
    body = codecs.response(call.api_key, call.version).encode(response)
    data = encode_response(call.api_key, call.version, call.correlation_id, body)
    return [unsent, SendResponse(data, call.api_key, call.now_ms)]


def query(call: Call, verdict: QueryController, then: Callable[[Any, int], Plan]) -> Plan:
    """Send a request of the proxy's own to the controller; `then` gets its response or None, and the
    error."""
    entry = ControllerQuery(
        verdict.api_key,
        verdict.version,
        # The client's own, so that the records of both requests show that they belong together.
        call.correlation_id,
        call.client,
        call=call,
        request=verdict.message,
        then=then,
    )
    try:
        return _sent(entry, verdict.timeout_ms)
    except ValueError as error:
        return [_unsent(entry, str(error)), *then(None, ErrorCode.UNKNOWN_SERVER_ERROR)]


def _sent(entry: Awaited, timeout_ms: int) -> Plan:
    """ValueError where the client's principal cannot be written into an Envelope."""
    call = entry.call
    principal = call.gate.serde.serialize(call.context.principal)
    body = codecs.request(entry.api_key, entry.version).encode(entry.request)
    return [
        entry,
        ToController(
            entry.api_key,
            entry.version,
            entry.correlation_id,
            call.context.client_id,
            body,
            principal,
            call.peer.address,
            timeout_ms,
        ),
    ]


def _unsent(entry: Awaited, fault: str) -> Recorded:
    """Record a fault of the configuration, which the client need not know."""
    return Recorded(
        events.request_refused(
            method=ApiKey.name_of(entry.api_key),
            api_version=entry.version,
            correlation_id=entry.correlation_id,
            error_code=int(ErrorCode.UNKNOWN_SERVER_ERROR),
            message=fault,
        )
    )


@dataclass(slots=True)
class Outcome:
    """The controller's response to a request, decoded once: for its record, and then for the client."""

    entry: Awaited
    response: ControllerResponse
    message: Any = None
    """None: the controller returned an error instead, or a malformed response."""
    fault: str | None = None
    """What is malformed in the response."""


def outcome(entry: Awaited, response: ControllerResponse) -> Outcome:
    """Decode the response, if there is one."""
    found = Outcome(entry, response)
    if response.error_code == ErrorCode.NONE and response.body is not None:
        try:
            found.message, _ = codecs.response(entry.api_key, entry.version).decode(response.body)
        except WireError as error:
            found.fault = str(error)
    return found


def responded(outcome: Outcome, now_ms: int) -> Plan:
    """The controller's response takes the request's place in the order of responses."""
    entry, response, fault = outcome.entry, outcome.response, outcome.fault
    try:
        if response.close and not isinstance(entry, ControllerQuery):
            return [ForgetLast(), End(Close("unsupported_by_controller"))]
        if fault is None and isinstance(entry, ControllerQuery):
            return [ForgetLast(), *entry.then(outcome.message, int(response.error_code))]
        if fault is None:
            return _completed(outcome, now_ms)
    except WireError as error:
        fault = str(error)
    return [
        ForgetLast(),
        End(Close("controller_protocol", f"the controller's response is malformed: {fault}")),
    ]


def _completed(outcome: Outcome, now_ms: int) -> Plan:
    entry, response, message = outcome.entry, outcome.response, outcome.message
    if message is None:
        message = rejection(entry.api_key, entry.version, entry.request, response.error_code)
    if entry.handler is not None:
        entry.handler(message)
        _record_rejected(entry, message)
    entry.call.listener.counts.errors_of(entry.api_key, message)
    client = entry.call.client
    throttled, owed_ms = throttle_longer(client, message, now_ms) if client.request.limited else ([], 0)
    if outcome.message is None or response.body is None or entry.handler is not None or owed_ms > 0:
        body = codecs.response(entry.api_key, entry.version).encode(message)
    else:
        body = bytes(response.body)
    data = encode_response(entry.api_key, entry.version, entry.correlation_id, body)
    plan: Plan = [*throttled, RecordDecisions(entry.call), Complete(entry, data)]
    if message.throttle_time_ms > 0:
        # KIP-219: nothing is read from the client until then, whether it waits by itself or not.
        plan.append(MuteClient(message.throttle_time_ms))
    return plan


def _record_rejected(entry: Awaited, message: Any) -> None:
    """Record what the proxy has rejected of a request whose rest it has forwarded. Denials are recorded."""
    call, objects_of = entry.call, TABLE[entry.api_key].objects
    if call.requested is None or objects_of is None:
        return
    sent = {_identity(each) for each in call.objects_of(objects_of, entry.request, None, call.size_bytes)}
    rejected = [
        each
        for each in call.objects_of(objects_of, call.requested, message, call.size_bytes)
        if "error" in each and _identity(each) not in sent and not str(each["error"]).endswith(_DENIED)
    ]
    if rejected:
        event = events.admin_request(
            method=ApiKey.name_of(entry.api_key),
            api_version=entry.version,
            correlation_id=entry.correlation_id,
            error_code=ErrorCode.__members__.get(str(rejected[0]["error"]), ErrorCode.UNKNOWN_SERVER_ERROR),
            objects=rejected,
        )
        call.events.append(event)


def _identity(made: Object) -> str:
    """Return what an object is, without what the response says of it."""
    details = {name: text for name, text in details_of(made).items() if name not in _OF_RESPONSE}
    return json.dumps([made.get(name) for name in ("type", "name", "operation", "key")] + [details])


def record(outcome: Outcome, now_ms: int) -> AuditEvent:
    """The record of the controller's response, which is durable before the client has it (`responded`)."""
    entry, response, message = outcome.entry, outcome.response, outcome.message
    error_code: int | None = int(response.error_code)
    response_bytes, throttle_time_ms = None, None
    if response.error_code == ErrorCode.NONE and response.body is not None:
        # As it would be at the client.
        response_bytes = 4 + response_body_offset(entry.api_key, entry.version) + len(response.body)
        throttle_time_ms = getattr(message, "throttle_time_ms", None)
        # Before what was denied here is merged in, which has records of its own; None where it is malformed.
        error_code = None if message is None else error_of(message)
    # A request that was sent twice may have been carried out the first time, whatever the second response
    # says.
    known = message if response.attempts == 1 else None
    changes, count, objects = None, None, None
    if response.first_offset is not None:
        # Kafka's controller writes no audit records, so the changes are recorded here.
        changes, count = expected_records(entry.api_key, entry.request, known), response.attempts
    objects_of, size_bytes = TABLE[entry.api_key].objects, entry.call.size_bytes + (response_bytes or 0)
    if objects_of is not None:
        is_own = entry.api_key != entry.call.api_key
        cause = {"requested_by": ApiKey.name_of(entry.call.api_key)} if is_own else {}
        objects = entry.call.objects_of(objects_of, entry.request, known, size_bytes, **cause)
    return events.forwarded(
        method=ApiKey.name_of(entry.api_key),
        api_version=entry.version,
        correlation_id=entry.correlation_id,
        forward_id=response.forward_id,
        envelope_error_code=int(response.error_code),
        error_code=error_code,
        first_offset=response.first_offset,
        last_offset=response.last_offset,
        # None for a request of the proxy's own: the client has sent nothing for it.
        request_bytes=entry.request_bytes or None,
        response_bytes=response_bytes,
        throttle_time_ms=throttle_time_ms,
        interval_end_ms=now_ms,
        count=count,
        changes=changes,
        objects=objects,
    )
