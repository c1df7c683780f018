"""The classic group protocol, ListGroups, DeleteGroups, OffsetDelete, and the Describe APIs of all groups.

    JoinGroup, SyncGroup, Heartbeat, LeaveGroup     READ on the group
    ListGroups (KIP-518)            DESCRIBE on the cluster shows all groups, else DESCRIBE on each
    DeleteGroups (KIP-229)          DELETE on each group
    OffsetDelete (KIP-496)          DELETE on the group and READ on each topic
    DescribeGroups (KIP-430), ConsumerGroupDescribe, ShareGroupDescribe, StreamsGroupDescribe
                                    DESCRIBE on each group

Denied groups are GROUP_AUTHORIZATION_FAILED, partitions of denied topics TOPIC_AUTHORIZATION_FAILED. A
described group (KIP-848, KIP-932) with a member on a topic that the client may not DESCRIBE is
TOPIC_AUTHORIZATION_FAILED as a whole, and so is a Streams group (KIP-1071) with such a topic in its topology.
The proxy's authorizer decides the authorized operations. The hosts of members are those of their clients
(proxy.session.member_hosts).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

from proxy.admin.objects import Known, Object, named, of_topics
from proxy.admin.rejection import Error, Reject, TopicShape, code_only, each_part, in_request_order, take_out
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.security.protected import protected_names
from proxy.session.apis.authorized_operations import NOT_REQUESTED, of_group
from proxy.session.apis.heartbeats import decide_by_group, learn_host, topics_of_subtopology
from proxy.session.apis.topic_filter import unless_failed
from proxy.session.call import Api, Call, Forward, Respond, ResponseHandler, Verdict, deny, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

OFFSET_DELETE = TopicShape(
    response="OffsetDeleteResponse",
    topic="OffsetDeleteResponseTopic",
    partition="OffsetDeleteResponsePartition",
    merges_topics=True,
)

Decide = Callable[[Call, Any], Verdict]

HIDDEN_TOPICS_MESSAGE = "The group has described topic(s) that the client is not authorized to describe."
HIDDEN_TOPOLOGY_MESSAGE = "The described group uses topics that the client is not authorized to describe."


def decide_member(
    call: Call, request: types.SyncGroupRequest | types.HeartbeatRequest, raw: tuple[str, ...] = ()
) -> Verdict:
    """Decide a SyncGroup or Heartbeat request. The response is read, except for the fields in `raw`, only if
    the member's host is not known."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return learn_host(call, request.group_id, request.member_id, raw)


def decide_sync_group(call: Call, request: types.SyncGroupRequest) -> Verdict:
    """Decide a SyncGroup request; from v5 on it has to name the protocol (KIP-559), whatever the rights."""
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return reject(call, request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return decide_member(call, request, raw=("assignment",))


def _reject_join(version: int, _request: types.JoinGroupRequest, error: Error) -> types.JoinGroupResponse:
    return types.JoinGroupResponse(
        error_code=error["error_code"], protocol_name=None if version >= 7 else "", leader="", member_id=""
    )


def decide_list(call: Call, request: types.ListGroupsRequest) -> Verdict:
    """Decide a ListGroups request: nothing is denied, groups without DESCRIBE are omitted.

    The group of Penstock's own controllers is shown to super users only.
    """
    if not call.shows(Operation.DESCRIBE, ResourceType.CLUSTER, (CLUSTER_NAME,)):
        return _shown(lambda names: call.shows(Operation.DESCRIBE, ResourceType.GROUP, names))
    own = protected_names(call.basis.authorizer, ResourceType.GROUP)
    hidden = own - call.shows(Operation.DESCRIBE, ResourceType.GROUP, own)
    return _shown(lambda names: {name for name in names if name not in hidden}) if hidden else Forward()


def _shown(visible: Callable[[Iterator[str]], set[str]]) -> Forward:
    def on_response(response: types.ListGroupsResponse) -> None:
        shown = visible(group.group_id for group in response.groups)
        response.groups[:] = [group for group in response.groups if group.group_id in shown]

    return Forward(None, on_response)


def decide_delete(call: Call, request: types.DeleteGroupsRequest) -> Verdict:
    requested = list(dict.fromkeys(request.groups_names))
    allowed = call.allowed_names(Operation.DELETE, ResourceType.GROUP, requested)
    result = types.DeleteGroupsResponse.DeletableGroupResult
    rejected = [
        result(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in requested
        if group_id not in allowed
    ]
    if not rejected:
        return Forward()
    if not allowed:
        return Respond(types.DeleteGroupsResponse(results=rejected))

    def on_response(response: types.DeleteGroupsResponse) -> None:
        parts = [*response.results, *rejected]
        response.results = in_request_order(requested, parts, lambda part: part.group_id)

    request.groups_names = [group_id for group_id in requested if group_id in allowed]
    return Forward(request, on_response)


def decide_offset_delete(call: Call, request: types.OffsetDeleteRequest) -> Verdict:
    """Decide an OffsetDelete request.

    It is forwarded even if no topic is left: an error of the group is reported alone, by the broker.
    """
    if not call.allows(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = [topic.name for topic in request.topics]
    allowed = call.allowed_names(Operation.READ, ResourceType.TOPIC, names)
    on_response = unless_failed(take_out(request, OFFSET_DELETE, allowed))
    return Forward() if on_response is None else Forward(request, on_response)


def decide_describe(call: Call, request: types.DescribeGroupsRequest) -> Verdict:
    requested = request.groups
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.GROUP, requested)
    set_operations = _operations_setter(call) if request.include_authorized_operations else None

    def finish(response: types.DescribeGroupsResponse) -> None:
        if set_operations is not None:
            set_operations(response)
        _fill_in_hosts(call, response)

    request.groups = [group_id for group_id in requested if group_id in allowed]
    return _merged(request, types.DescribeGroupsResponse, requested, request.groups, finish)


def _fill_in_hosts(call: Call, response: Any) -> None:
    for group in response.groups:
        call.gate.member_hosts.fill_in(group.group_id, group.members)


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
                group
                if names[id(group)] <= shown
                else response_type.DescribedGroup(
                    group_id=group.group_id,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message=message,
                )
                for group in response.groups
            ]
            _fill_in_hosts(call, response)

        request.group_ids = [group_id for group_id in requested if group_id in allowed]
        return _merged(request, response_type, requested, request.group_ids, finish)

    return decide_groups


def _merged(
    request: Any, response_type: Any, requested: list[str], left: list[str], finish: ResponseHandler
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


def _deletions(
    request: types.DeleteGroupsRequest, response: types.DeleteGroupsResponse | None, _known: Known
) -> Iterator[Object]:
    parts = {} if response is None else {result.group_id: result for result in response.results}
    for group in request.groups_names:
        yield named("GROUP", group, "DELETE", parts.get(group))


def _removals(
    request: types.LeaveGroupRequest, response: types.LeaveGroupResponse | None, _known: Known
) -> Iterator[Object]:
    parts = [] if response is None else response.members[: len(request.members)]
    for member, part in zip_longest(request.members, parts):
        yield named(
            "GROUP",
            request.group_id,
            "REMOVE_MEMBER",
            part or response,
            member_id=member.member_id or None,
            group_instance_id=member.group_instance_id,
            reason=member.reason,
        )


def _removes_others(request: types.LeaveGroupRequest) -> bool:
    """Whether it is no member that leaves by itself: an administrator's tool removes several, or by name."""
    return len(request.members) > 1 or any(not member.member_id for member in request.members)


APIS = (
    Api(ApiKey.JOIN_GROUP, decide_by_group, _reject_join, repeatable=True, held=True),
    Api(ApiKey.SYNC_GROUP, decide_sync_group, code_only("SyncGroupResponse"), repeatable=True, held=True),
    Api(ApiKey.HEARTBEAT, decide_member, code_only("HeartbeatResponse"), repeatable=True),
    Api(
        ApiKey.LEAVE_GROUP,
        decide_by_group,
        code_only("LeaveGroupResponse"),
        objects=_removals,
        administers=_removes_others,
    ),
    Api(ApiKey.LIST_GROUPS, decide_list, code_only("ListGroupsResponse")),
    Api(
        ApiKey.DELETE_GROUPS,
        decide_delete,
        each_part(
            "DeleteGroupsResponse",
            "results",
            "DeletableGroupResult",
            lambda request: ({"group_id": each} for each in dict.fromkeys(request.groups_names)),
        ),
        admin="broker",
        objects=_deletions,
    ),
    Api(
        ApiKey.OFFSET_DELETE,
        decide_offset_delete,
        code_only("OffsetDeleteResponse"),
        admin="broker",
        objects=of_topics(OFFSET_DELETE, "DELETE_OFFSETS", lambda part: f"{part.partition_index}"),
    ),
    Api(
        ApiKey.DESCRIBE_GROUPS,
        decide_describe,
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
