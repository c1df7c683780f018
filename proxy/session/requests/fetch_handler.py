"""A decoded Fetch request (KIP-227, KIP-516) -> its plan: READ on each topic, CLUSTER_ACTION for a follower.

Where nothing is denied the request is patched in place. One with denied topics never opens a fetch session
(proxy.session.remembered): it is sent on without one, and the client names all its partitions each time.
Requests for topics that are known to be allowed take proxy.session.data.fast_lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from proxy.admin.rejection import merged_topics
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.session.call import Call, Forward, Respond
from proxy.session.data import fetch
from proxy.session.effects import ToBroker
from proxy.session.in_flight import EndingFetch, Fetched, Rewritten
from proxy.session.plan import Plan, SendResponse
from proxy.session.remembered import FetchSession
from proxy.session.requests import queries, verdicts
from proxy.session.throttling import exempt, refuse
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import decode_request_header
from proxy.wire.message import release

_Topic: TypeAlias = "types.FetchResponse.FetchableTopicResponse"

_FETCH = int(ApiKey.FETCH)
_FOLLOW = Operation.CLUSTER_ACTION, ResourceType.CLUSTER


def plan(call: Call, request: types.FetchRequest, frame: memoryview, *, as_it_came: bool) -> Plan:
    """`as_it_came`: the frame has no bytes behind the request, so it may be sent on, patched."""
    client = call.client
    client.fetches_in(call.version)
    is_follower = request.replica_id >= 0 or request.replica_state.replica_id >= 0
    if call.version < fetch.FIRST_WITH_TOPIC_ID:
        names: list[str | None] = [topic.topic for topic in request.topics]
    else:
        names = [call.gate.topic_names.name(bytes(topic.topic_id)) for topic in request.topics]
    # A follower without the right is denied all of it, and no topic is disclosed.
    if None in names and (not is_follower or call.shows(*_FOLLOW, (CLUSTER_NAME,))):
        named = zip(request.topics, names, strict=True)
        unnamed = [bytes(topic.topic_id) for topic, name in named if name is None]
        held = queries.hold_frame(call, unnamed, frame)
        if held is not None:
            release(request)  # It is decoded again.
            return held
    bucket = client.consumer if client.consumer.limited or client.request.limited else None
    kind = EndingFetch if call.image.acls.ends else Fetched
    entry = kind(_FETCH, call.version, call.correlation_id, client, call.now_ms, bucket=bucket)
    entry.durations = call.listener.counts.passed[_FETCH]
    session = None
    if call.version >= fetch.FIRST_WITH_SESSION and request.session_epoch not in fetch.FULL_EPOCHS:
        session = _session(call, request, names)
        if session is None:
            # The client opens a new one.
            call.count_unchecked()
            not_found = types.FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return verdicts.respond(call, Respond(not_found))
        entry.summary = client.reads[session.first_topic]
    if is_follower or not _reads(call, names):
        verdict = _without_denied(call, request, names, is_follower)
        if isinstance(verdict, Respond):
            return verdicts.plan(call, request, verdict)
        return _rewritten(call, request, names, entry, verdict, is_follower)
    fetch.count(client, entry, names, len(frame), opens=session is None)
    if entry.summary is None:
        call.count_unchecked()
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
                call.client.has_grown = True
            return _refused(call, entry, 0 if session is None else request.session_id)
        _limit(request, room_bytes)
    if session is not None and session.behind:
        session.catch_up(request)
    return [entry, verdicts.to_broker(call, entry.version, request)]


def _refused(call: Call, entry: Fetched, session_id: int) -> Plan:
    """The response without records to a request that is not sent, because the quota has no room (KIP-219)."""
    steps, throttle_time_ms = refuse(call.client, call.now_ms)
    response = fetch.throttled_response(call.version, call.correlation_id, throttle_time_ms, session_id)
    if entry.summary is not None:
        entry.summary.response_bytes += len(response)
    return [*steps, SendResponse(response, _FETCH, call.now_ms)]


def _session(call: Call, request: types.FetchRequest, names: Sequence[str | None]) -> FetchSession | None:
    """The session of an incremental fetch, if it is this connection's and may still be used."""
    if call.context.image is None:
        return None
    session = call.remembered.fetch_sessions.find(request.session_id, call.basis.rights)
    # Topics that are added to the session have to be allowed, or it starts again without them.
    if session is None or not _reads(call, (session.first_topic, *names)):
        return None
    if session.until_ms is not None:
        call.client.ends_at(session.until_ms)
    session.until_ms = call.client.until_ms
    return session


def _reads(call: Call, names: Iterable[str | None]) -> bool:
    """Whether the client may read all of these topics, which have summaries then; None: an unknown topic."""
    client = call.client
    new = dict.fromkeys(name for name in names if name not in client.reads)
    known = [name for name in new if name is not None]
    for action, decision in call.decided(Operation.READ, ResourceType.TOPIC, known):
        if not decision.allowed:
            return False
        client.note_ends((decision,))
        client.reads[action.resource_name] = client.summary(
            _FETCH, call.version, action, decision, call.now_ms
        )
    return len(known) == len(new)


def _rewritten(
    call: Call,
    request: types.FetchRequest,
    names: list[str | None],
    entry: Fetched,
    verdict: Forward,
    is_follower: bool,
) -> Plan:
    """The plan of a request whose denied topics are put back into its response."""
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
        holds_back=True,
    )
    if is_follower:
        exempt(call.client, rewritten)
    else:
        first = next(name for name in names if name is not None and _reads(call, (name,)))
        rewritten.summary = entry.summary = call.client.reads[first]
        if call.client.consumer.limited:
            room_bytes = fetch.reserve(call.client, rewritten)
            if not room_bytes:
                return [*verdicts.recorded(call, verdict), *_refused(call, entry, 0)]
            _limit(request, room_bytes)
    return [
        *verdicts.recorded(call, verdict),
        rewritten,
        verdicts.to_broker(call, rewritten.version, request),
    ]


def _limit(request: types.FetchRequest, most_bytes: int) -> None:
    """Request no more than there is room for in the quota, as `fetch.limit_in_place` does."""
    request.max_bytes = min(request.max_bytes, most_bytes)
    request.min_bytes = min(request.min_bytes, request.max_bytes)


def _without_denied(
    call: Call, request: types.FetchRequest, names: list[str | None], is_follower: bool
) -> Forward | Respond:
    """The verdict on a full request in which a topic is denied or unknown."""
    if is_follower and not call.allows_cluster(Operation.CLUSTER_ACTION):
        # Unknown ids too, as at a broker: without the right to follow, no topic is disclosed.
        denied = _once(_denied(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in request.topics)
        return Respond(types.FetchResponse(responses=denied))
    known = [name for name in names if name is not None]
    may_read = call.within_cluster_right if is_follower else call.allowed_names
    allowed = may_read(Operation.READ, ResourceType.TOPIC, known)
    call.client.note_ends(decision for _, decision in call.counted)
    denied = _once(
        _denied(topic, ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for topic, name in zip(request.topics, names, strict=True)
        if name not in allowed
    )
    order = [_key(topic) for topic in request.topics]
    request.topics = [topic for topic, name in zip(request.topics, names, strict=True) if name in allowed]
    if not request.topics:
        return Respond(types.FetchResponse(responses=denied))
    request.session_id, request.session_epoch = 0, -1
    # The response is held until it is whole, so it must not be as large as a client may request.
    request.max_bytes = min(request.max_bytes, call.max_held_bytes)

    def put_back(response: types.FetchResponse) -> None:
        # A broker returns a topic in two parts if one of its partitions is invalid and others are not.
        parts = merged_topics([*response.responses, *denied], _key, "partitions")
        by_key = {_key(topic): topic for topic in parts}
        response.responses = [by_key[key] for key in dict.fromkeys(order) if key in by_key]

    return Forward(request, put_back)


def reject_all(request: types.FetchRequest, error_code: ErrorCode) -> Respond:
    """The response with this error at the top and for each partition."""
    rejected = [_denied(topic, error_code) for topic in request.topics]
    return Respond(types.FetchResponse(error_code=error_code, responses=rejected))


def _denied(topic: types.FetchRequest.FetchTopic, error_code: ErrorCode) -> _Topic:
    response = types.FetchResponse
    return response.FetchableTopicResponse(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=[
            response.PartitionData(
                partition_index=partition.partition, error_code=error_code, high_watermark=-1, records=b""
            )
            for partition in topic.partitions
        ],
    )


def _once(denied: Iterable[_Topic]) -> list[_Topic]:
    return merged_topics(denied, _key, "partitions", "partition_index")


def _key(topic: types.FetchRequest.FetchTopic | _Topic) -> tuple[str, bytes]:
    return topic.topic, bytes(topic.topic_id)
