"""ShareFetch (KIP-932): READ on the group and on each topic of the share session, with every request.

The broker's session holds what the client may read: denied topics are taken out of what is added to it,
topics that were allowed when they were added are forgotten for the client as soon as they are not, and
added when they are again (proxy.session.share_sessions). In each answer a denied partition is
TOPIC_AUTHORIZATION_FAILED, one of an id that the broker does not know UNKNOWN_TOPIC_ID; acknowledgements
for them get the same error and never reach the broker. The answer is held until it is whole, for it ends
with addresses of brokers (KIP-951); so no more is asked for than may be held, nor than the quota lets
through in one window.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.admin.rejection import code_only
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.addresses import rewrite_endpoints
from proxy.session.apis.existing_topics import with_names
from proxy.session.apis.share_groups import is_member_id
from proxy.session.apis.topic_filter import TopicErrors, id_errors
from proxy.session.call import Api, Call, Forward, Verdict, deny, reject
from proxy.session.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Partitions,
    ShareSession,
    ShareSessions,
    by_topic,
)
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

RAW = ("responses.partitions",)


def decide(call: Call, request: types.ShareFetchRequest) -> Verdict:
    """See the module."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id or ""):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not is_member_id(request.member_id) or _begins_with_acknowledgements(request):
        return reject(call, request, ErrorCode.INVALID_REQUEST)
    topic_ids = [bytes(topic.topic_id) for topic in request.topics]
    return with_names(call, topic_ids, lambda: _decide(call, request))


def _begins_with_acknowledgements(request: types.ShareFetchRequest) -> bool:
    # A broker would not see those of denied topics, and open the session.
    return bool(request.share_session_epoch == INITIAL_EPOCH and _acknowledges(request))


def _acknowledges(request: types.ShareFetchRequest) -> bool:
    return any(part.acknowledgement_batches for topic in request.topics for part in topic.partitions)


def _decide(call: Call, request: types.ShareFetchRequest) -> Verdict:
    sessions = call.remembered.share_sessions
    session = _session(sessions, request)
    if session is None:
        return reject(call, request, ErrorCode.SHARE_SESSION_NOT_FOUND)
    asked = by_topic(
        (bytes(topic.topic_id), [part.partition_index for part in topic.partitions])
        for topic in request.topics
    )
    session.add(asked)
    if session.is_full:
        sessions.close(request.group_id or "", request.member_id or "")
        return reject(call, request, ErrorCode.SHARE_SESSION_LIMIT_REACHED)
    errors = id_errors(call, Operation.READ, session.named)
    acknowledged = _acknowledged(request, asked, errors)
    _narrow(request, session, asked, errors)
    told = _Told(errors, _fetched(request, session, errors), acknowledged)
    request.max_bytes = min(request.max_bytes, call.max_held_bytes)
    request.min_bytes = min(request.min_bytes, request.max_bytes)

    def on_response(response: types.ShareFetchResponse) -> None:
        _finish(call, sessions, request, response, told)

    # Without errors nothing is put into the answer, and its records are stepped over.
    return Forward(request, on_response, () if errors else RAW, consumes=_a_topic(call, session))


def _a_topic(call: Call, session: ShareSession) -> str:
    """One of those that are fetched, at which all of it is counted."""
    return call.gate.topic_names.name(min(session.served)) or "" if session.served else ""


def _session(sessions: ShareSessions, request: types.ShareFetchRequest) -> ShareSession | None:
    group_id = request.group_id or ""
    if request.share_session_epoch == INITIAL_EPOCH:
        return sessions.open(group_id, request.member_id or "")
    session = sessions.find(group_id, request.member_id or "")
    if request.share_session_epoch == FINAL_EPOCH:
        sessions.close(group_id, request.member_id or "")
    return session


@dataclass(frozen=True, slots=True)
class _Told:
    """What the client hears of the topics that the broker was not asked for."""

    errors: TopicErrors
    fetched: Partitions
    """Partitions it fetches in vain."""
    acknowledged: Partitions
    """Partitions whose acknowledgements were taken out."""


def _fetched(request: types.ShareFetchRequest, session: ShareSession, errors: TopicErrors) -> Partitions:
    """None where the broker would fetch none: a session that ends, locks that are renewed (KIP-1222)."""
    if request.share_session_epoch == FINAL_EPOCH or request.is_renew_ack:
        return {}
    named = session.named.items()
    return {topic_id: set(indexes) for topic_id, indexes in named if topic_id in errors and indexes}


def _acknowledged(request: types.ShareFetchRequest, asked: Partitions, errors: TopicErrors) -> Partitions:
    """As soon as one partition is acknowledged, a broker answers for each that the request names."""
    if not _acknowledges(request):
        return {}
    return {topic_id: indexes for topic_id, indexes in asked.items() if topic_id in errors and indexes}


def _narrow(
    request: types.ShareFetchRequest, session: ShareSession, asked: Partitions, errors: TopicErrors
) -> None:
    """Make of the request what brings the broker's session to what is allowed now."""
    forgotten = by_topic((bytes(topic.topic_id), topic.partitions) for topic in request.forgotten_topics_data)
    hidden = {topic_id: session.named[topic_id] for topic_id in session.served if topic_id in errors}
    allowed = {topic_id for topic_id in session.named if topic_id not in errors}
    request.topics = [topic for topic in request.topics if bytes(topic.topic_id) in allowed]
    if request.share_session_epoch != FINAL_EPOCH:
        unserved = {
            topic_id: session.named[topic_id] - asked.get(topic_id, set())
            for topic_id in allowed - session.served
        }
        request.topics += _added(unserved)
        request.forgotten_topics_data += _forgotten(hidden)
    if request.share_session_epoch != INITIAL_EPOCH:
        # A session that begins has nothing to forget, and a broker does not look.
        session.forget(forgotten)
    session.served = allowed & session.named.keys()


def _added(unserved: Partitions) -> list[types.ShareFetchRequest.FetchTopic]:
    """What the client named earlier of topics that the broker's session does not hold yet."""
    asked = types.ShareFetchRequest
    return [
        asked.FetchTopic(
            topic_id=topic_id,
            partitions=[asked.FetchPartition(partition_index=index) for index in sorted(indexes)],
        )
        for topic_id, indexes in sorted(unserved.items())
        if indexes
    ]


def _forgotten(partitions: Partitions) -> list[types.ShareFetchRequest.ForgottenTopic]:
    topic = types.ShareFetchRequest.ForgottenTopic
    return [
        topic(topic_id=topic_id, partitions=sorted(indexes))
        for topic_id, indexes in sorted(partitions.items())
    ]


def _finish(
    call: Call,
    sessions: ShareSessions,
    request: types.ShareFetchRequest,
    response: types.ShareFetchResponse,
    told: _Told,
) -> None:
    response.node_endpoints = rewrite_endpoints(call.listener, response.node_endpoints)
    if response.error_code != ErrorCode.NONE:
        # What the broker's session holds now is not known: the client is made to begin anew.
        sessions.close(request.group_id or "", request.member_id or "")
        return
    # A broker that answers for a topic it was not to hold must not be heard.
    kept = [topic for topic in response.responses if bytes(topic.topic_id) not in told.errors]
    topic_ids = [*told.fetched, *(t for t in told.acknowledged if t not in told.fetched)]
    response.responses = kept + [_refused(topic_id, told) for topic_id in topic_ids]


def _refused(topic_id: bytes, told: _Told) -> types.ShareFetchResponse.ShareFetchableTopicResponse:
    response, code = types.ShareFetchResponse, told.errors[topic_id]
    fetched, acknowledged = told.fetched.get(topic_id, set()), told.acknowledged.get(topic_id, set())
    return response.ShareFetchableTopicResponse(
        topic_id=topic_id,
        partitions=[
            response.PartitionData(
                partition_index=index,
                error_code=code if index in fetched else ErrorCode.NONE,
                acknowledge_error_code=code if index in acknowledged else ErrorCode.NONE,
                records=b"",
            )
            for index in sorted(fetched | acknowledged)
        ],
    )


APIS = (Api(ApiKey.SHARE_FETCH, decide, code_only("ShareFetchResponse"), repeatable=True),)
