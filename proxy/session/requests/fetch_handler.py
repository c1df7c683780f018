"""A decoded Fetch request -> the plan that carries it out: decided by topic, patched in place where nothing
is denied.

What becomes of a request with denied topics is in proxy.session.data.fetch; requests for topics that are
known to be allowed take proxy.session.data.fast_lane.
"""

from collections.abc import Sequence
from typing import Any

from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.session.call import Call, Respond
from proxy.session.client_state import topic_action
from proxy.session.data import fetch
from proxy.session.effects import ToBroker
from proxy.session.in_flight import Fetched, Rewritten
from proxy.session.plan import Plan
from proxy.session.requests import queries, verdicts
from proxy.session.throttling import exempt
from proxy.wire.api_keys import ApiKey
from proxy.wire.work import paced

_FETCH = int(ApiKey.FETCH)
_FOLLOW = Operation.CLUSTER_ACTION, ResourceType.CLUSTER
_UNITS = 8  # What a decision costs, in the units of proxy.wire.work.


def plan(call: Call, request: Any, frame: memoryview, body_offset: int, *, as_it_came: bool) -> Plan:
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
    is_incremental = fetch.is_incremental(request, call.version)
    if is_incremental and not _continues(call, request, names, entry):
        verdicts.count_unchecked(call)
        return verdicts.respond(call, Respond(fetch.session_not_found()))
    if fetch.is_follower(request) or not all(_reads(call, name) for name in paced(names, _UNITS)):
        return _without_denied(call, request, names, entry)
    fetch.count(client, entry, names, len(frame), opens=not is_incremental)
    if entry.summary is None:
        verdicts.count_unchecked(call)
    entry.version = fetch.adjust_in_place(frame, call.version, body_offset, client.consumer)
    return [entry, ToBroker(frame) if as_it_came else verdicts.to_broker(call, entry.version, request)]


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


def _continues(call: Call, request: Any, names: Sequence[str | None], entry: Fetched) -> bool:
    """Whether an incremental fetch belongs to a session of this connection that may still be used."""
    topic = None
    if call.context.image is not None:
        topic = call.remembered.fetch_sessions.first_topic(request.session_id, call.basis.rights)
    if topic is None or not _reads(call, topic):
        return False
    entry.summary = call.client.reads[topic]
    # Topics that are added to the session have to be allowed, or it starts again without them.
    return all(_reads(call, name) for name in paced(names, _UNITS))


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
    )
    if is_follower:
        exempt(call.client, rewritten)
    else:
        first = next(name for name in names if name is not None and _reads(call, name))
        rewritten.summary = call.client.reads[first]
    return [
        *verdicts.recorded(call, verdict),
        rewritten,
        verdicts.to_broker(call, rewritten.version, request),
    ]
