"""A whole frame of the client, decoded -> its API's row decides -> the plan that carries the verdict out.

For frames that do not take the fast lane. What each API decides is in proxy.session.apis.
"""

from proxy.session.apis.table import TABLE
from proxy.session.call import Call, NameTopics
from proxy.session.data import produce
from proxy.session.gate import Gate
from proxy.session.plan import Plan
from proxy.session.requests import fetch_handler, rejections, topic_lookup, verdicts
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import RequestHeader

_PRODUCE = int(ApiKey.PRODUCE)
_FETCH = int(ApiKey.FETCH)


def is_offered(gate: Gate, header: RequestHeader) -> bool:
    """Whether ApiVersions offers the API in this version, and it can be decoded."""
    offered = gate.versions.get(header.api_key)
    # Produce versions may be advertised that are not served (proxy.session.requests.supported_versions).
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
    rejected = rejections.early(call, request)
    if rejected is not None:
        call.is_recorded = True  # Or there is no room for a record.
        return verdicts.plan(call, request, rejected)
    if api_key == _FETCH:
        return fetch_handler.plan(call, request, frame, body_offset, as_it_came=as_it_came)
    verdict = produce.decide(call, request) if api_key == _PRODUCE else TABLE[api_key].decide(call, request)
    if api_key == _PRODUCE and isinstance(verdict, NameTopics):
        held = topic_lookup.hold_frame(call, verdict.topic_ids, frame)
        if held is not None:
            return held
        verdict = verdict.then()
    return verdicts.plan(call, request, verdict, frame if as_it_came else None)
