"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets (KIP-932).

DESCRIBE on each group and topic to describe; READ on the group and on each topic to alter; DELETE on the
group and READ on each topic to delete. A denied group is GROUP_AUTHORIZATION_FAILED, denied topics are
TOPIC_AUTHORIZATION_FAILED; where all offsets of a group are asked for (topics null) they are left out.
"""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.order import in_request_order
from proxy.session.apis.refusal import MESSAGES, denied
from proxy.session.apis.topic_filter import take_out
from proxy.session.apis.topic_shapes import TOPIC_SHAPES
from proxy.session.call import Answer, Call, Forward, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def decide_describe(call: Call, request: Any) -> Verdict:
    """DescribeShareGroupOffsets."""
    asked = [group.group_id for group in request.groups]
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.GROUP, asked)
    response = types.DescribeShareGroupOffsetsResponse
    refused = [
        response.DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
        for group_id in asked
        if group_id not in allowed
    ]
    request.groups = [group for group in request.groups if group.group_id in allowed]
    if not request.groups:
        return Answer(response(groups=refused))
    denied_topics = {group.group_id: _take_out(call, group) for group in request.groups}
    wants_all = {group.group_id for group in request.groups if group.topics is None}

    def on_reply(answer: Any) -> None:
        for group in answer.groups:
            if group.group_id in wants_all:
                _show_allowed(call, group)
            elif group.error_code == ErrorCode.NONE:
                group.topics = [*group.topics, *denied_topics.get(group.group_id, ())]
        parts = [*answer.groups, *refused]
        answer.groups = in_request_order(asked, parts, lambda group: group.group_id)

    return Forward(request, on_reply)


def _take_out(call: Call, group: Any) -> list[Any]:
    """Leave the allowed topics of a group; the others, refused."""
    if group.topics is None:
        return []
    names = [topic.topic_name for topic in group.topics]
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, names)
    refused = [_refused(topic) for topic in group.topics if topic.topic_name not in allowed]
    group.topics = [topic for topic in group.topics if topic.topic_name in allowed]
    return refused


def _refused(topic: Any) -> Any:
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


def _show_allowed(call: Call, group: Any) -> None:
    names = [topic.topic_name for topic in group.topics]
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, names)
    group.topics = [topic for topic in group.topics if topic.topic_name in allowed]


def decide_alter(call: Call, request: Any) -> Verdict:
    """AlterShareGroupOffsets."""
    return _of_one_group(call, request, Operation.READ)


def decide_delete(call: Call, request: Any) -> Verdict:
    """DeleteShareGroupOffsets."""
    return _of_one_group(call, request, Operation.DELETE)


def _of_one_group(call: Call, request: Any, operation: Operation) -> Verdict:
    if not call.allows(operation, ResourceType.GROUP, request.group_id):
        return denied(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = [topic.topic_name for topic in request.topics]
    allowed = call.allowed_names(Operation.READ, ResourceType.TOPIC, names)
    shape = TOPIC_SHAPES[ApiKey(call.api_key)]
    merge = take_out(request, shape, allowed, _TOPIC_DENIED, MESSAGES[_TOPIC_DENIED])
    if merge is None:
        return Forward()

    def on_reply(response: Any) -> None:
        # What is wrong with the group is told of it alone, whatever topics were asked for.
        if response.error_code == ErrorCode.NONE:
            merge(response)

    return Forward(request, on_reply)


APIS = (
    Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, decide_describe),
    Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, decide_alter, admin=True, changes_at_broker=True),
    Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, decide_delete, admin=True, changes_at_broker=True),
)
