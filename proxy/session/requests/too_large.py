"""A request larger than the limits -> the response in which it fails, and the record that says which limit.

The proxy itself has these limits (docs/decisions/0113), so a client that is within Kafka's gets Kafka's error
for a policy of the receiver, which clients do not retry. One with more elements than
`decoded.request.max.elements` has come whole: each of its elements gets the error, in batches. One with an
element that has too many itself, such as a topic with its partitions, and one of more bytes than
`decoded.request.max.bytes`, which is dropped as it comes (proxy.session.intake), get the error if their
response has one for the whole request. Otherwise the connection is closed.
"""

from functools import cache

from proxy.audit import events
from proxy.session.apis.table import TABLE
from proxy.session.call import Call
from proxy.session.effects import Close, Recorded
from proxy.session.gate import Gate
from proxy.session.plan import End, Plan, SendResponse
from proxy.session.requests import dispatch, verdicts
from proxy.session.throttling import charge_unanswered, throttle_own
from proxy.wire import batches, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import TooManyElements, WireError
from proxy.wire.header import RequestHeader, decode_request_header, encode_response
from proxy.wire.message import Message

ERROR = ErrorCode.POLICY_VIOLATION
CLOSE = "request_too_large"

_ELEMENTS, _BYTES = "decoded.request.max.elements", "decoded.request.max.bytes"
_RESPONSE_PART = 2
"""How many times `decoded.request.max.bytes` the response may have: less than twice the request is usual."""
_UNREAD = {ApiKey.OFFSET_FETCH: "topics", ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "topics"}
"""Arrays within the elements that a rejection does not repeat, and that have most of the names."""


def refused(call: Call | None, frame: memoryview, error: WireError) -> Plan:
    """The plan for a whole frame that could not be decoded; `call`: None if that was before there was one."""
    if call is None or not isinstance(error, TooManyElements):
        return dispatch.malformed(str(error))
    error.__traceback__ = None  # It holds what was decoded so far.
    limit = call.gate.limits.decoded_request_max_elements
    reason = _reason(call, "elements", _ELEMENTS, limit)
    try:
        plan = _rejection(call, frame, reason, limit)
    except TooManyElements:
        plan = None
    except WireError as fault:
        return dispatch.malformed(str(fault))
    if plan is None and _is_answered(call.api_key, call.version):
        plan = _rejection_as_a_whole(call, reason)
    return [*_record(call, reason), *(plan or [End(Close(CLOSE, reason))])]


def _rejection(call: Call, frame: memoryview, reason: str, limit: int) -> Plan | None:
    """Respond with the error for each element, or for the whole request; None: the API has neither."""
    key, version, plan, joined = call.api_key, call.version, Plan(), None
    max_bytes = _RESPONSE_PART * call.gate.limits.decoded_request_max_bytes
    body_offset = decode_request_header(frame, 4).body_offset
    unread = _UNREAD.get(ApiKey(key), "")
    for request in batches.of_request(key, version, frame, body_offset, limit, unread):
        # The first batch names the limit: for each element the text would be longer than the rest.
        rejected = dispatch.rejected(key, version, request, ERROR, reason if joined is None else None)
        if rejected.message is None:
            return verdicts.respond(call, rejected)
        if joined is None:
            joined = batches.JoinedResponse(key, version, rejected.message)
            plan += _throttled(call, rejected.message)
            call.listener.counts.errors_of(key, rejected.message)
        if not joined.has_elements:
            break
        joined.add(rejected.message)
        if joined.size_bytes > max_bytes:
            return None
    assert joined is not None
    if not (joined.has_elements or joined.has_error):
        return None
    body = joined.encode()
    response = encode_response(key, version, call.correlation_id, body)
    return [*plan, SendResponse(response, key, call.now_ms)]


def header_of(gate: Gate, frame: memoryview, size_bytes: int) -> RequestHeader | None:
    """The header of a frame of which the beginning is here, if it may be dropped and answered; else None."""
    if not gate.limits.decoded_request_max_bytes < size_bytes - 4 <= gate.limits.socket_request_max_bytes:
        return None
    try:
        header = decode_request_header(frame, 4)
    except WireError:
        return None
    if not dispatch.is_offered(gate, header) or not _is_answered(header.api_key, header.api_version):
        return None
    return header


@cache
def _is_answered(api_key: int, version: int) -> bool:
    """Whether the API has an error for a whole request of which nothing is known."""
    if api_key != ApiKey.FETCH and api_key not in TABLE:
        return False
    rejected = dispatch.rejected(api_key, version, _default(api_key), ERROR, "")
    return batches.JoinedResponse(api_key, version, rejected.message).has_error


def dropped(call: Call) -> Plan:
    """Answer a request of too many bytes after the last one of them has come."""
    call.listener.counts.took(call.api_key)
    limit = call.gate.limits.decoded_request_max_bytes
    reason = _reason(call, "bytes", _BYTES, limit)
    return [*_record(call, reason), *_rejection_as_a_whole(call, reason)]


def _rejection_as_a_whole(call: Call, reason: str) -> Plan:
    """Respond with the error of the whole request, without its elements."""
    rejected = dispatch.rejected(call.api_key, call.version, _default(call.api_key), ERROR, reason)
    return verdicts.respond(call, rejected)


def _default(api_key: int) -> Message:
    request: Message = getattr(types, f"{ApiKey.name_of(api_key)}Request")()
    return request


def _throttled(call: Call, response: Message) -> Plan:
    if not (isinstance(response, types.ProduceResponse) and call.client.producer.limited):
        return throttle_own(call, response)
    charged, response.throttle_time_ms = charge_unanswered(call.client, call.size_bytes - 4, call.now_ms)
    return charged


def _reason(call: Call, unit: str, key: str, limit: int) -> str:
    name = ApiKey.name_of(call.api_key)
    return f"{name} v{call.version} of {call.size_bytes - 4} bytes: more {unit} than {key}, which is {limit}"


def _record(call: Call, reason: str) -> Plan:
    event = events.request_refused(
        method=ApiKey.name_of(call.api_key),
        api_version=call.version,
        correlation_id=call.correlation_id,
        granted=False,
        error_code=ERROR,
        message=reason,
    )
    return [Recorded(event)]
