"""A decoded Fetch request -> the plan that carries it out: decided by topic, patched in place where nothing
is denied.

What becomes of a request with denied topics is in proxy.session.data.fetch; requests for topics that are
known to be allowed take proxy.session.data.fast_lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.session.call import Call, Respond
from proxy.session.client_state import topic_action
from proxy.session.data import fetch
from proxy.session.effects import MuteClient, ToBroker
from proxy.session.in_flight import Fetched, Rewritten
from proxy.session.plan import Plan, SendResponse
from proxy.session.remembered import FetchSession
from proxy.session.requests import queries, verdicts
from proxy.session.throttling import exempt, throttle
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_request_header
from proxy.wire.work import paced

_FETCH = int(ApiKey.FETCH)
_FOLLOW = Operation.CLUSTER_ACTION, ResourceType.CLUSTER
_UNITS = 8  # What a decision costs, in the units of proxy.wire.work.


def plan(call: Call, request: Any, frame: memoryview, *, as_it_came: bool) -> Plan:
    """`as_it_came`: the frame has no bytes behind the request, so it may be sent on, patched."""
    client = call.client
    names = fetch.topic_names(call, request)
    if None in names:
        held = _hold_for_names(call, request, names, frame)
        if held is not None:
            return held
    bucket = client.consumer if client.consumer.limited or client.request.limited else None
    entry = Fetched(_FETCH, call.version, call.correlation_id, client, call.now_ms, bucket=bucket)
    entry.durations = call.listener.counts.passed[_FETCH]
    # What the response costs is known when it has left.
    entry.holds_back = bucket is not None
    session = None
    if fetch.is_incremental(request, call.version):
        session = _session(call, request, names)
        if session is None:
            verdicts.count_unchecked(call)
            return verdicts.respond(call, Respond(fetch.session_not_found()))
        entry.summary = client.reads[session.first_topic]
    if fetch.is_follower(request) or not all(_reads(call, name) for name in paced(names, _UNITS)):
        return _without_denied(call, request, names, entry)
    fetch.count(client, entry, names, len(frame), opens=session is None)
    if entry.summary is None:
        verdicts.count_unchecked(call)
    entry.version = min(call.version, fetch.LAST_WITHOUT_ENDPOINTS)
    if client.consumer.limited or (session is not None and session.behind) or not as_it_came:
        return _adjusted(call, request, frame, entry, session)
    fetch.adjust_in_place(frame, call.version, 0, None)
    return [entry, ToBroker(frame)]


def _adjusted(
    call: Call, request: types.FetchRequest, frame: memoryview, entry: Fetched, session: FetchSession | None
) -> Plan:
    """Request no more of the broker than the quota has room for, and nothing if there is none."""
    if call.client.consumer.limited:
        room_bytes = fetch.reserve(call.client, entry)
        if not room_bytes and (session is None or session.may_hold(request)):
            if session is not None:
                # The receive buffer is written over while parts of the request are held.
                body_offset = decode_request_header(frame, 4).body_offset
                copy, _ = codecs.request(_FETCH, call.version).decode(memoryview(bytes(frame)), body_offset)
                session.hold(copy)
            return _refused(call, entry, 0 if session is None else request.session_id)
        fetch.limit(request, room_bytes)
    if session is not None and session.behind:
        session.catch_up(request)
    return [entry, verdicts.to_broker(call, entry.version, request)]


def _refused(call: Call, entry: Fetched, session_id: int) -> Plan:
    """The response without records to a request that is not sent, because the quota has no room (KIP-219)."""
    bucket = call.client.consumer
    for_bytes_ms = bucket.refuse(call.client.expected_fetch_bytes, call.now_ms)
    steps, throttle_time_ms = throttle(entry, bucket, for_bytes_ms, call.now_ms)
    response = fetch.throttled_response(call.version, call.correlation_id, throttle_time_ms, session_id)
    if entry.summary is not None:
        entry.summary.response_bytes += len(response)
    return [*steps, MuteClient(throttle_time_ms), SendResponse(response, _FETCH, call.now_ms)]


def _hold_for_names(call: Call, request: Any, names: Sequence[str | None], frame: memoryview) -> Plan | None:
    """The plan where the request waits until the broker has named its topics; None: it does not."""
    if fetch.is_follower(request) and not call.shows(*_FOLLOW, (CLUSTER_NAME,)):
        return None  # All of it is denied, and no topic disclosed.
    unnamed = [
        bytes(topic.topic_id)
        for topic, name in zip(paced(request.topics), names, strict=True)
        if name is None
    ]
    return queries.hold_frame(call, unnamed, frame)


def _session(call: Call, request: types.FetchRequest, names: Sequence[str | None]) -> FetchSession | None:
    """The session of an incremental fetch, if it is this connection's and may still be used."""
    if call.context.image is None:
        return None
    session = call.remembered.fetch_sessions.find(request.session_id, call.basis.rights)
    if session is None or not _reads(call, session.first_topic):
        return None
    # Topics that are added to the session have to be allowed, or it starts again without them.
    return session if all(_reads(call, name) for name in paced(names, _UNITS)) else None


def _reads(call: Call, name: str | None) -> bool:
    if name is None:
        return False
    client = call.client
    if name in client.reads:
        return True
    action = topic_action(Operation.READ, name)
    decision = client.decide([action])[0]
    if decision.allowed:
        client.reads[name] = client.summary(_FETCH, action, decision, call.now_ms)
    return decision.allowed


def _without_denied(call: Call, request: Any, names: list[str | None], entry: Fetched) -> Plan:
    is_follower = fetch.is_follower(request)
    verdict = fetch.without_denied(call, request, names)
    if isinstance(verdict, Respond):
        return verdicts.plan(call, request, verdict)
    rewritten = Rewritten(
        _FETCH,
        min(call.version, fetch.LAST_WITHOUT_ENDPOINTS),
        call.correlation_id,
        call.client,
        call.now_ms,
        durations=entry.durations,
        call=call,
        handler=verdict.on_response,
        bucket=entry.bucket,
        holds_back=entry.holds_back,
    )
    if is_follower:
        exempt(call.client, rewritten)
    else:
        first = next(name for name in names if name is not None and _reads(call, name))
        rewritten.summary = entry.summary = call.client.reads[first]
        if call.client.consumer.limited:
            room_bytes = fetch.reserve(call.client, rewritten)
            if not room_bytes:
                return [*verdicts.recorded(call, verdict), *_refused(call, entry, 0)]
            fetch.limit(request, room_bytes)
    return [
        *verdicts.recorded(call, verdict),
        rewritten,
        verdicts.to_broker(call, rewritten.version, request),
    ]
