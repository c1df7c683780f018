"""DescribeGroups and ConsumerGroupDescribe (KIP-430, KIP-848): DESCRIBE on each group.

Denied groups are GROUP_AUTHORIZATION_FAILED. A consumer group with a member on a topic that the client may
not DESCRIBE is TOPIC_AUTHORIZATION_FAILED as a whole. Authorised operations are told by our authorizer.
"""

from collections.abc import Callable, Iterator
from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.authorized_operations import NOT_ASKED, of_group
from proxy.session.apis.order import in_request_order
from proxy.session.call import Answer, Call, Forward, ReplyHandler, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

HIDDEN_TOPICS_MESSAGE = "The group has described topic(s) that the client is not authorized to describe."


def decide(call: Call, request: Any) -> Verdict:
    """DescribeGroups."""
    response, asked = types.DescribeGroupsResponse, request.groups
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.GROUP, asked)
    tell = _tell_operations(call) if request.include_authorized_operations else None
    request.groups = [group_id for group_id in asked if group_id in allowed]
    return _merged(request, response, asked, request.groups, tell)


def decide_consumer_groups(call: Call, request: Any) -> Verdict:
    """ConsumerGroupDescribe."""
    response, asked = types.ConsumerGroupDescribeResponse, request.group_ids
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.GROUP, asked)
    tell = _tell_operations(call) if request.include_authorized_operations else None

    def finish(answer: Any) -> None:
        if tell is not None:
            tell(answer)
        _hide_topics(call, answer)

    request.group_ids = [group_id for group_id in asked if group_id in allowed]
    return _merged(request, response, asked, request.group_ids, finish)


def _merged(
    request: Any, response: Any, asked: list[str], left: list[str], finish: ReplyHandler | None
) -> Verdict:
    kept = set(left)
    refused = [
        response.DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in asked
        if group_id not in kept
    ]
    if not refused:
        return Forward(None, finish)
    if not left:
        return Answer(response(groups=refused))

    def on_reply(answer: Any) -> None:
        if finish is not None:
            finish(answer)
        answer.groups = in_request_order(asked, [*answer.groups, *refused], lambda group: group.group_id)

    return Forward(request, on_reply)


def _tell_operations(call: Call) -> Callable[[Any], None]:
    def tell(answer: Any) -> None:
        for group in answer.groups:
            found = group.error_code == ErrorCode.NONE
            group.authorized_operations = of_group(call, group.group_id) if found else NOT_ASKED

    return tell


def _hide_topics(call: Call, answer: Any) -> None:
    names = {group.group_id: set(_assigned_topics(group)) for group in answer.groups}
    every = [name for group_names in names.values() for name in group_names]
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, sorted(every))
    answer.groups = [
        group if names[group.group_id] <= allowed else _hidden(group.group_id) for group in answer.groups
    ]


def _assigned_topics(group: Any) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for partitions in assignment.topic_partitions:
                yield partitions.topic_name


def _hidden(group_id: str) -> Any:
    return types.ConsumerGroupDescribeResponse.DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=HIDDEN_TOPICS_MESSAGE,
    )


APIS = (
    Api(ApiKey.DESCRIBE_GROUPS, decide),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, decide_consumer_groups),
)
