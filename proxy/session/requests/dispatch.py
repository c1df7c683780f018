"""A whole frame of the client, decoded -> its API's row decides -> the plan that carries the verdict out.

For frames that do not take the fast lane. What each API decides is in proxy.session.apis. Before that, here,
requests are rejected without a decision of the authorizer, or because none is possible:

* The metadata log is not loaded yet. A listener may open early (KIP-801): without an image only super users
  are served. Kafka has no number for AUTHORIZER_NOT_READY, so clients get UNKNOWN_SERVER_ERROR; the name is
  in the error message where the API has one.
* The audit trail has no room for records of a class that must not be missing (audit.policy).
* The client has the principal of a proxy (KIP-590). Such a principal may send Envelopes to the controller,
  which name any user, so no client may make administrative requests with it; ACLs decide on its other
  requests.
* The bytes are no request, or one of an API or version that was never offered. As at a broker, the client
  gets no response: its connection is closed.
"""

from typing import Any

from proxy.audit import events
from proxy.audit.classes import DENIAL, SUMMARY
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.security.authorizer import NOT_READY, Action
from proxy.session.apis.table import TABLE, rejection
from proxy.session.call import UNRECORDED, Call, NameTopics, Respond, reject
from proxy.session.data import produce
from proxy.session.effects import Close, Recorded
from proxy.session.gate import Gate, ListenerPolicy
from proxy.session.plan import End, Plan
from proxy.session.requests import fetch_handler, queries, verdicts
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import RequestHeader
from proxy.wire.message import release
from proxy.wire.protocols import in_place_of_a_request

MESSAGE = "AUTHORIZER_NOT_READY"
UNRECORDED_CLASSES = frozenset((SUMMARY, DENIAL))
"""Any request may turn out to be one that is denied."""

_PROBE = Action(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)

_PRODUCE = int(ApiKey.PRODUCE)
_FETCH = int(ApiKey.FETCH)


def early(call: Call, request: Any) -> Respond | None:
    """The rejection of a decoded request, recorded where there is room for the record; None: decide on it."""
    gate = call.gate
    if call.context.image is None or gate.unrecorded or gate.rejects_changes:
        rejected = _not_ready(call, request)
        if rejected is not None:
            return rejected
    return _of_a_proxy(call, request) if gate.proxy_principals and call.admin else None


def _not_ready(call: Call, request: Any) -> Respond | None:
    gate, api_key, version = call.gate, call.api_key, call.version
    if not call.admin and not UNRECORDED_CLASSES.isdisjoint(gate.unrecorded):
        return rejected(api_key, version, request, ErrorCode.UNKNOWN_SERVER_ERROR, UNRECORDED)
    if gate.rejects_changes and call.api is not None and call.api.admin == "broker":
        return rejected(api_key, version, request, ErrorCode.UNKNOWN_SERVER_ERROR, UNRECORDED)
    if call.context.image is not None:
        return None
    decision = call.decide([_PROBE])[0]
    if decision.rule != NOT_READY:
        return None
    call.note(_PROBE, decision)
    return rejected(api_key, version, request, ErrorCode.UNKNOWN_SERVER_ERROR, MESSAGE)


def _of_a_proxy(call: Call, request: Any) -> Respond | None:
    principal = str(call.context.principal)
    if principal not in call.gate.proxy_principals:
        return None
    event = events.request_refused(
        method=ApiKey.name_of(call.api_key),
        api_version=call.version,
        correlation_id=call.correlation_id,
        granted=False,
        message=(
            f"{principal} is a principal that proxies have at the controller, and no client may make"
            " administrative requests with it: give this client a user of its own, and change the"
            " proxy's credentials if they were not given to it on purpose"
        ),
    )
    call.events.append(event)
    message = "A proxy's principal must not be used by clients for administrative requests."
    return reject(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message)


def rejected(api_key: int, version: int, request: Any, error_code: ErrorCode, message: str | None) -> Respond:
    """All of a request rejected, Produce and Fetch too; KeyError for an API without a row."""
    if api_key == ApiKey.PRODUCE:
        return produce.reject_all(request, error_code, message)
    if api_key == ApiKey.FETCH:
        return fetch_handler.reject_all(request, error_code)
    return Respond(rejection(api_key, version, request, error_code, message))


def not_served(listener: ListenerPolicy, header: RequestHeader) -> Plan:
    """An API, or a version of it, that was never offered."""
    name = ApiKey.name_of(header.api_key)
    message = f"{name} v{header.api_version} (api key {header.api_key}) is not served here"
    event = events.request_refused(
        method=name,
        api_version=header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        granted=False,
        message=message,
    )
    listener.counts.error(header.api_key, ErrorCode.UNSUPPORTED_VERSION)
    return [Recorded(event), End(Close("unsupported_request", message))]


def malformed(message: str, reason: str = "malformed_request") -> Plan:
    """Bytes that are no request; `message` says what is wrong with them."""
    event = events.request_refused(granted=False, message=message)
    return [Recorded(event), End(Close(reason, message))]


def impossible_length(fault: str, frame: memoryview) -> Plan:
    """A frame whose length has this fault: of another protocol, or malformed."""
    other = in_place_of_a_request(frame)
    return malformed(fault) if other is None else malformed(other, "wrong_protocol")


def is_offered(gate: Gate, header: RequestHeader) -> bool:
    """Whether ApiVersions offers the API in this version, and it can be decoded."""
    offered = gate.versions.get(header.api_key)
    # Produce versions may be advertised that are not served (proxy.session.apis.table).
    return (
        offered is not None
        and offered[0] <= header.api_version <= offered[1]
        and header.api_version in codecs.request_versions(header.api_key)
    )


def plan(call: Call, frame: memoryview, body_offset: int) -> Plan:
    """Decode the request in `frame`, which is_offered, and decide on it. WireError if it is malformed."""
    api_key = call.api_key
    request, end = codecs.request(api_key, call.version).decode(frame, body_offset)
    as_it_came = end == len(frame)
    rejected = early(call, request)
    if rejected is not None:
        call.is_recorded = True  # Or there is no room for a record.
        return verdicts.plan(call, request, rejected)
    if api_key == _FETCH:
        return fetch_handler.plan(call, request, frame, as_it_came=as_it_came)
    verdict = produce.decide(call, request) if api_key == _PRODUCE else TABLE[api_key].decide(call, request)
    if isinstance(verdict, NameTopics):
        held = queries.hold_frame(call, verdict.topic_ids, frame)
        if held is not None:
            release(request)  # It is decoded again.
            return held
        verdict = verdict.then()
    return verdicts.plan(call, request, verdict, frame if as_it_came else None)
