"""ShareGroupHeartbeat, ShareAcknowledge and the offsets of share groups (KIP-932).

    ShareGroupHeartbeat             READ on the group, DESCRIBE on every topic subscribed to
    ShareAcknowledge                READ on the group and on each topic, which the request names by id
    DescribeShareGroupOffsets       DESCRIBE on each group and topic
    AlterShareGroupOffsets          READ on the group and on each topic
    DeleteShareGroupOffsets         DELETE on the group, READ on each topic

A denied group is GROUP_AUTHORIZATION_FAILED. Denied topics are TOPIC_AUTHORIZATION_FAILED, an id that the
broker does not know is UNKNOWN_TOPIC_ID; if all offsets of a group are requested (topics null), they are
omitted. ShareFetch has its own file.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TypeAlias

from proxy.admin.objects import of_topics
from proxy.admin.rejection import (
    MESSAGES,
    TopicShape,
    code_and_message,
    code_only,
    each_part,
    in_request_order,
    take_out,
)
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.addresses import rewrite_endpoints
from proxy.session.apis.heartbeats import learn_host
from proxy.session.apis.topic_existence import with_names
from proxy.session.apis.topic_filter import errors_by_id, unless_failed
from proxy.session.call import Api, Call, Forward, Respond, Verdict, deny, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

_ALTER_OFFSETS = TopicShape(
    response="AlterShareGroupOffsetsResponse",
    topic="AlterShareGroupOffsetsResponseTopic",
    partition="AlterShareGroupOffsetsResponsePartition",
    response_topics="responses",
    name="topic_name",
    has_message=True,
    reports_empty_topics=False,
    merges_topics=True,
)

_DELETE_OFFSETS = TopicShape(
    response="DeleteShareGroupOffsetsResponse",
    topic="DeleteShareGroupOffsetsResponseTopic",
    response_topics="responses",
    name="topic_name",
    has_message=True,
)

_Topic: TypeAlias = "types.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic"

_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_MAX_MEMBER_ID_LENGTH = 36
"""The length of a UUID as text."""


def is_member_id(member_id: str | None) -> bool:
    """Whether a broker accepts it; it checks after the right on the group and before those on topics."""
    return member_id is not None and 0 < len(member_id) <= _MAX_MEMBER_ID_LENGTH


def decide_heartbeat(call: Call, request: types.ShareGroupHeartbeatRequest) -> Verdict:
    """Decide a ShareGroupHeartbeat request; one denied topic rejects all of it."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not is_member_id(request.member_id):
        return reject(call, request, ErrorCode.INVALID_REQUEST)
    subscribed = set(request.subscribed_topic_names or ())
    if call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, sorted(subscribed)) < subscribed:
        return deny(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return learn_host(call, request.group_id, request.member_id)


def decide_acknowledge(call: Call, request: types.ShareAcknowledgeRequest) -> Verdict:
    """Decide a ShareAcknowledge request.

    It is forwarded even if no topic is left: the broker counts the requests of a share session.
    """
    if request.group_id is None:
        return reject(call, request, ErrorCode.INVALID_REQUEST)
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not is_member_id(request.member_id):
        return reject(call, request, ErrorCode.INVALID_REQUEST)
    requested = [bytes(topic.topic_id) for topic in request.topics]
    return with_names(call, requested, lambda: _acknowledged(call, request, requested))


def _acknowledged(call: Call, request: types.ShareAcknowledgeRequest, requested: list[bytes]) -> Verdict:
    errors = errors_by_id(call, Operation.READ, request.topics)
    rejected = [
        _rejected_acknowledgements(topic, errors[topic_id])
        for topic, topic_id in zip(request.topics, requested, strict=True)
        if topic_id in errors
    ]

    def on_response(response: types.ShareAcknowledgeResponse) -> None:
        response.node_endpoints = rewrite_endpoints(call.listener, response.node_endpoints)
        if response.error_code == ErrorCode.NONE:
            parts = [*response.responses, *rejected]
            response.responses = in_request_order(requested, parts, lambda topic: bytes(topic.topic_id))

    session = call.remembered.share_sessions.find(request.group_id or "", request.member_id or "")
    if not rejected and (session is None or not session.behind):
        return Forward(None, on_response)
    if session is not None:
        request.share_session_epoch = session.broker_epoch(request.share_session_epoch)
    request.topics = [topic for topic in request.topics if bytes(topic.topic_id) not in errors]
    return Forward(request, on_response)


def _rejected_acknowledgements(
    topic: types.ShareAcknowledgeRequest.AcknowledgeTopic, error_code: ErrorCode
) -> types.ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse:
    response = types.ShareAcknowledgeResponse
    return response.ShareAcknowledgeTopicResponse(
        topic_id=topic.topic_id,
        partitions=[
            response.PartitionData(
                partition_index=partition.partition_index,
                error_code=error_code,
                # The schema's default is broker 0, where franz-go would look for the leader.
                current_leader=response.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
            )
            for partition in topic.partitions
        ],
    )


def decide_describe_offsets(call: Call, request: types.DescribeShareGroupOffsetsRequest) -> Verdict:
    requested = [group.group_id for group in request.groups]
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.GROUP, requested)
    response_type = types.DescribeShareGroupOffsetsResponse
    rejected = [
        response_type.DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
        for group_id in requested
        if group_id not in allowed
    ]
    request.groups = [group for group in request.groups if group.group_id in allowed]
    if not request.groups:
        return Respond(response_type(groups=rejected))
    # By group, in order: a request may name a group twice. None: it wants all topics.
    denied_topics = defaultdict[str, deque[list[_Topic] | None]](deque)
    for group in request.groups:
        denied_topics[group.group_id].append(None if group.topics is None else _take_out(call, group))

    def on_response(response: types.DescribeShareGroupOffsetsResponse) -> None:
        for group in response.groups:
            of_group = denied_topics[group.group_id]
            denied = of_group.popleft() if of_group else None
            if denied is None:
                names = [topic.topic_name for topic in group.topics]
                allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, names)
                group.topics = [topic for topic in group.topics if topic.topic_name in allowed]
            elif group.error_code == ErrorCode.NONE:
                group.topics = [*group.topics, *denied]
        parts = [*response.groups, *rejected]
        response.groups = in_request_order(requested, parts, lambda group: group.group_id)

    return Forward(request, on_response)


def _take_out(
    call: Call, group: types.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
) -> list[_Topic]:
    """Remove the denied topics of a group; return them with their error."""
    topics = group.topics or []
    names = [topic.topic_name for topic in topics]
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, names)
    rejected = [_rejected_offsets(topic) for topic in topics if topic.topic_name not in allowed]
    group.topics = [topic for topic in topics if topic.topic_name in allowed]
    return rejected


def _rejected_offsets(
    topic: types.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic,
) -> _Topic:
    response = types.DescribeShareGroupOffsetsResponse
    return response.DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            response.DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=-1,
                error_code=_TOPIC_DENIED,
                error_message=MESSAGES[_TOPIC_DENIED],
            )
            for index in topic.partitions
        ],
    )


def _of_one_group(
    call: Call,
    request: types.AlterShareGroupOffsetsRequest | types.DeleteShareGroupOffsetsRequest,
    operation: Operation,
    shape: TopicShape,
) -> Verdict:
    if not call.allows(operation, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = [topic.topic_name for topic in request.topics]
    allowed = call.allowed_names(Operation.READ, ResourceType.TOPIC, names)
    merge = take_out(request, shape, allowed, _TOPIC_DENIED, MESSAGES[_TOPIC_DENIED])
    on_response = unless_failed(merge)
    return Forward() if on_response is None else Forward(request, on_response)


APIS = (
    Api(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        decide_heartbeat,
        code_only("ShareGroupHeartbeatResponse"),
        repeatable=True,
    ),
    Api(ApiKey.SHARE_ACKNOWLEDGE, decide_acknowledge, code_only("ShareAcknowledgeResponse")),
    Api(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        decide_describe_offsets,
        each_part(
            "DescribeShareGroupOffsetsResponse",
            "groups",
            "DescribeShareGroupOffsetsResponseGroup",
            lambda request: ({"group_id": group.group_id} for group in request.groups),
            has_message=True,
        ),
    ),
    Api(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        lambda call, request: _of_one_group(call, request, Operation.READ, _ALTER_OFFSETS),
        code_and_message("AlterShareGroupOffsetsResponse"),
        admin="broker",
        objects=of_topics(
            _ALTER_OFFSETS, "ALTER_OFFSETS", lambda part: f"{part.partition_index}:{part.start_offset}"
        ),
    ),
    Api(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        lambda call, request: _of_one_group(call, request, Operation.DELETE, _DELETE_OFFSETS),
        code_and_message("DeleteShareGroupOffsetsResponse"),
        admin="broker",
        objects=of_topics(_DELETE_OFFSETS, "DELETE_OFFSETS"),
    ),
)
