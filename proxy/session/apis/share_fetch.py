"""ShareFetch (KIP-932): READ on the group and on each topic of the share session, with every request.

The broker's session has only what the client may read: denied topics are removed from what is added to it,
topics that are denied later are forgotten on behalf of the client, and added when they are allowed again
(proxy.session.remembered). In each response a denied partition is TOPIC_AUTHORIZATION_FAILED, one of an
id that the broker does not know UNKNOWN_TOPIC_ID; acknowledgements for them get the same error and never
reach the broker. The response is held until it is whole, because it ends with addresses of brokers (KIP-951);
so the request is limited to what may be held, and to what the quota has room for. Without room it is not sent
at all, unless it acknowledges or ends the session (decision 0158).
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.admin.rejection import code_only
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.addresses import rewrite_endpoints
from proxy.session.apis.share_groups import is_member_id
from proxy.session.apis.topic_existence import with_names
from proxy.session.apis.topic_filter import TopicErrors, id_errors
from proxy.session.call import Api, Call, Forward, Respond, Verdict, deny, reject
from proxy.session.remembered import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Partitions,
    ShareSession,
    ShareSessions,
    by_topic,
    without,
)
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

RAW = ("responses.partitions",)


def decide(call: Call, request: types.ShareFetchRequest) -> Verdict:
    if request.group_id is None:
        return reject(call, request, ErrorCode.INVALID_REQUEST)
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    call.client.note_ends(decision for _, decision in call.counted)
    # Without those of denied topics a broker would accept such a request, and open the session.
    begins_with_acknowledgements = request.share_session_epoch == INITIAL_EPOCH and _acknowledges(request)
    if not is_member_id(request.member_id) or begins_with_acknowledgements:
        return reject(call, request, ErrorCode.INVALID_REQUEST)
    topic_ids = [bytes(topic.topic_id) for topic in request.topics]
    session = call.remembered.share_sessions.find(request.group_id, request.member_id or "")
    if session is not None and request.share_session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        # Clients name a topic once: it may have been new then, or its lookup has failed.
        topic_ids += call.gate.topic_names.without_name(session.named)
    return with_names(call, topic_ids, lambda: _decide(call, request))


def _acknowledges(request: types.ShareFetchRequest) -> bool:
    return any(part.acknowledgement_batches for topic in request.topics for part in topic.partitions)


def _decide(call: Call, request: types.ShareFetchRequest) -> Verdict:
    sessions = call.remembered.share_sessions
    session = _session(sessions, request)
    if session is None:
        return reject(call, request, ErrorCode.SHARE_SESSION_NOT_FOUND)
    requested = by_topic(
        (bytes(topic.topic_id), [part.partition_index for part in topic.partitions])
        for topic in request.topics
    )
    session.add(requested)
    if not sessions.take_room(call.gate.share_room, call.remembered, call.context.principal):
        sessions.close(request.group_id or "", request.member_id or "")
        return reject(call, request, ErrorCode.SHARE_SESSION_LIMIT_REACHED)
    max_bytes, reserved_bytes = call.max_held_bytes, 0
    if request.share_session_epoch == FINAL_EPOCH and session.behind and not session.is_open:
        return Respond(types.ShareFetchResponse())  # The broker knows of none.
    if call.client.consumer.limited and request.share_session_epoch != FINAL_EPOCH:
        room_bytes, reserved_bytes = call.client.reserve(call.now_ms)
        if not (room_bytes or request.is_renew_ack or _acknowledges(request)):
            _hold(request, session)
            return Respond(types.ShareFetchResponse(), is_refused=True)
    errors = id_errors(call, Operation.READ, session.named)
    call.client.note_ends(decision for _, decision in call.counted)
    acknowledged = _acknowledged(request, requested, errors)
    _narrow(request, session, requested, errors)
    denied = _Denied(errors, _fetched(request, session, errors), acknowledged)
    request.max_bytes = min(request.max_bytes, max_bytes)
    request.min_bytes = min(request.min_bytes, request.max_bytes)

    def on_response(response: types.ShareFetchResponse) -> None:
        _finish(call, sessions, request, response, denied)

    # Without errors nothing is added to the response, and its records are skipped.
    return Forward(
        request,
        on_response,
        () if errors else RAW,
        consumes=call.gate.topic_names.name(min(session.at_broker)) or "" if session.at_broker else "",
        reserved_bytes=reserved_bytes,
    )


def _hold(request: types.ShareFetchRequest, session: ShareSession) -> None:
    """The next request that is sent has what changes in this one."""
    session.behind += 1
    session.forget(_forgotten(request))


def _forgotten(request: types.ShareFetchRequest) -> Partitions:
    """Return what the client forgets; a new session has nothing to forget, and a broker ignores it."""
    if request.share_session_epoch == INITIAL_EPOCH:
        return {}
    return by_topic((bytes(topic.topic_id), topic.partitions) for topic in request.forgotten_topics_data)


def _session(sessions: ShareSessions, request: types.ShareFetchRequest) -> ShareSession | None:
    group_id = request.group_id or ""
    if request.share_session_epoch == INITIAL_EPOCH:
        return sessions.open(group_id, request.member_id or "")
    session = sessions.find(group_id, request.member_id or "")
    if request.share_session_epoch == FINAL_EPOCH:
        sessions.close(group_id, request.member_id or "")
    return session


@dataclass(frozen=True, slots=True)
class _Denied:
    """Topics that are not in the request to the broker."""

    errors: TopicErrors
    fetched: Partitions
    """Partitions that the client fetches."""
    acknowledged: Partitions
    """Partitions whose acknowledgements were removed."""


def _fetched(request: types.ShareFetchRequest, session: ShareSession, errors: TopicErrors) -> Partitions:
    """Return denied partitions; none if the session ends or locks are renewed (KIP-1222)."""
    if request.share_session_epoch == FINAL_EPOCH or request.is_renew_ack:
        return {}
    return {topic_id: indexes for topic_id, indexes in session.named.items() if topic_id in errors}


def _acknowledged(request: types.ShareFetchRequest, requested: Partitions, errors: TopicErrors) -> Partitions:
    """Return denied partitions, if any is acknowledged: then a broker responds for each that is named."""
    if not _acknowledges(request):
        return {}
    return {topic_id: indexes for topic_id, indexes in requested.items() if topic_id in errors and indexes}


def _narrow(
    request: types.ShareFetchRequest, session: ShareSession, requested: Partitions, errors: TopicErrors
) -> None:
    """Change the request so that the broker's session has what the client has named and may read now."""
    named = session.named.keys() - errors.keys()
    request.topics = [topic for topic in request.topics if bytes(topic.topic_id) in named]
    if request.share_session_epoch == FINAL_EPOCH:
        return
    forgotten = _forgotten(request)
    session.forget(forgotten)
    allowed = {topic_id: indexes for topic_id, indexes in session.named.items() if topic_id not in errors}
    if allowed != session.at_broker:
        fetch = types.ShareFetchRequest
        request.topics += [
            fetch.FetchTopic(
                topic_id=topic_id,
                partitions=[fetch.FetchPartition(partition_index=index) for index in sorted(indexes)],
            )
            for topic_id, indexes in sorted(without(allowed, session.at_broker, requested).items())
        ]
        request.forgotten_topics_data += [
            fetch.ForgottenTopic(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in sorted(without(session.at_broker, allowed, forgotten).items())
        ]
        session.at_broker = allowed
    request.share_session_epoch = session.broker_epoch(request.share_session_epoch)
    session.is_open = True


def _finish(
    call: Call,
    sessions: ShareSessions,
    request: types.ShareFetchRequest,
    response: types.ShareFetchResponse,
    denied: _Denied,
) -> None:
    response.node_endpoints = rewrite_endpoints(call.listener, response.node_endpoints)
    if response.error_code != ErrorCode.NONE:
        # What the broker's session has now is unknown: the client has to open another one.
        sessions.close(request.group_id or "", request.member_id or "")
        return
    # Topics that the broker's session must not have are not passed on.
    allowed = [topic for topic in response.responses if bytes(topic.topic_id) not in denied.errors]
    topic_ids = [*denied.fetched, *(t for t in denied.acknowledged if t not in denied.fetched)]
    response.responses = allowed + [_rejected(topic_id, denied) for topic_id in topic_ids]


def _rejected(topic_id: bytes, denied: _Denied) -> types.ShareFetchResponse.ShareFetchableTopicResponse:
    response, code = types.ShareFetchResponse, denied.errors[topic_id]
    none: frozenset[int] = frozenset()
    fetched, acknowledged = denied.fetched.get(topic_id, none), denied.acknowledged.get(topic_id, none)
    return response.ShareFetchableTopicResponse(
        topic_id=topic_id,
        partitions=[
            response.PartitionData(
                partition_index=index,
                error_code=code if index in fetched else ErrorCode.NONE,
                acknowledge_error_code=code if index in acknowledged else ErrorCode.NONE,
                # The schema's default is broker 0, where franz-go would look for the leader.
                current_leader=response.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
                records=b"",
            )
            for index in sorted(fetched | acknowledged)
        ],
    )


APIS = (Api(ApiKey.SHARE_FETCH, decide, code_only("ShareFetchResponse"), repeatable=True, held=True),)
