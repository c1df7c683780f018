"""DescribeGroups (KIP-430) and the Describe APIs of consumer, share and Streams groups: DESCRIBE on groups.

Denied groups are GROUP_AUTHORIZATION_FAILED. A group (KIP-848, KIP-932) with a member on a topic that the
client may not DESCRIBE is TOPIC_AUTHORIZATION_FAILED as a whole, and so is a Streams group (KIP-1071) with
such a topic in its topology. The proxy's authorizer decides the authorized operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from proxy.admin.rejection import Reject, each_part, in_request_order
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.authorized_operations import NOT_REQUESTED, of_group
from proxy.session.apis.streams_group_heartbeat import topics_of_subtopology
from proxy.session.call import Api, Call, Forward, Respond, ResponseHandler, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

Decide = Callable[[Call, Any], Verdict]

HIDDEN_TOPICS_MESSAGE = "The group has described topic(s) that the client is not authorized to describe."
HIDDEN_TOPOLOGY_MESSAGE = "The described group uses topics that the client is not authorized to describe."


def decide(call: Call, request: types.DescribeGroupsRequest) -> Verdict:
    """Decide a DescribeGroups request."""
    requested = request.groups
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.GROUP, requested)
    set_operations = _operations_setter(call) if request.include_authorized_operations else None
    request.groups = [group_id for group_id in requested if group_id in allowed]
    return _merged(request, types.DescribeGroupsResponse, requested, request.groups, set_operations)


def _describes(response_type: Any, topics_of: Callable[[Any], Iterator[str]], message: str) -> Decide:
    """Return the decision for an API whose described groups name topics."""

    def decide_groups(call: Call, request: Any) -> Verdict:
        requested = request.group_ids
        allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.GROUP, requested)
        set_operations = _operations_setter(call) if request.include_authorized_operations else None

        def finish(response: Any) -> None:
            if set_operations is not None:
                set_operations(response)
            names = {id(group): set(topics_of(group)) for group in response.groups}
            every = sorted({name for group_names in names.values() for name in group_names})
            shown = call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, every)
            response.groups = [
                group if names[id(group)] <= shown else _hidden(response_type, group.group_id, message)
                for group in response.groups
            ]

        request.group_ids = [group_id for group_id in requested if group_id in allowed]
        return _merged(request, response_type, requested, request.group_ids, finish)

    return decide_groups


def _merged(
    request: Any, response_type: Any, requested: list[str], left: list[str], finish: ResponseHandler | None
) -> Verdict:
    allowed = set(left)
    rejected = [
        response_type.DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in requested
        if group_id not in allowed
    ]
    if not rejected:
        return Forward(None, finish)
    if not left:
        return Respond(response_type(groups=rejected))

    def on_response(response: Any) -> None:
        if finish is not None:
            finish(response)
        response.groups = in_request_order(
            requested, [*response.groups, *rejected], lambda group: group.group_id
        )

    return Forward(request, on_response)


def _operations_setter(call: Call) -> Callable[[Any], None]:
    def set_operations(response: Any) -> None:
        for group in response.groups:
            found = group.error_code == ErrorCode.NONE
            group.authorized_operations = of_group(call, group.group_id) if found else NOT_REQUESTED

    return set_operations


def _hidden(response_type: Any, group_id: str, message: str) -> Any:
    return response_type.DescribedGroup(
        group_id=group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=message
    )


def _of_consumer_group(group: types.ConsumerGroupDescribeResponse.DescribedGroup) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (partitions.topic_name for partitions in assignment.topic_partitions)


def _of_share_group(group: types.ShareGroupDescribeResponse.DescribedGroup) -> Iterator[str]:
    for member in group.members:
        yield from (partitions.topic_name for partitions in member.assignment.topic_partitions)


def _of_streams_group(group: types.StreamsGroupDescribeResponse.DescribedGroup) -> Iterator[str]:
    subtopologies = (group.topology.subtopologies or ()) if group.topology is not None else ()
    for subtopology in subtopologies:
        yield from topics_of_subtopology(subtopology)


def _each_group(response: str) -> Reject:
    return each_part(
        response,
        "groups",
        "DescribedGroup",
        lambda request: ({"group_id": each} for each in request.group_ids),
    )


APIS = (
    Api(
        ApiKey.DESCRIBE_GROUPS,
        decide,
        each_part(
            "DescribeGroupsResponse",
            "groups",
            "DescribedGroup",
            lambda request: ({"group_id": each} for each in request.groups),
        ),
    ),
    Api(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        _describes(types.ConsumerGroupDescribeResponse, _of_consumer_group, HIDDEN_TOPICS_MESSAGE),
        _each_group("ConsumerGroupDescribeResponse"),
    ),
    Api(
        ApiKey.SHARE_GROUP_DESCRIBE,
        _describes(types.ShareGroupDescribeResponse, _of_share_group, HIDDEN_TOPICS_MESSAGE),
        _each_group("ShareGroupDescribeResponse"),
    ),
    Api(
        ApiKey.STREAMS_GROUP_DESCRIBE,
        _describes(types.StreamsGroupDescribeResponse, _of_streams_group, HIDDEN_TOPOLOGY_MESSAGE),
        _each_group("StreamsGroupDescribeResponse"),
    ),
)
