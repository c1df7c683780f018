"""The classic group protocol, ListGroups, DeleteGroups and OffsetDelete.

    JoinGroup, SyncGroup, Heartbeat, LeaveGroup     READ on the group
    ListGroups (KIP-518)            DESCRIBE on the cluster shows all groups, else DESCRIBE on each
    DeleteGroups (KIP-229)          DELETE on each group
    OffsetDelete (KIP-496)          DELETE on the group and READ on each topic

Denied groups are GROUP_AUTHORIZATION_FAILED, partitions of denied topics TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from collections.abc import Callable

from proxy.admin.rejection import Error, TopicShape, code_only, each_part, in_request_order
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.security.protected import protected_names
from proxy.session.apis.topic_filter import take_out
from proxy.session.call import Api, Call, Forward, Respond, Verdict, deny, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

OFFSET_DELETE = TopicShape(
    response="OffsetDeleteResponse",
    topic="OffsetDeleteResponseTopic",
    partition="OffsetDeleteResponsePartition",
)


def decide(
    call: Call,
    request: types.JoinGroupRequest
    | types.SyncGroupRequest
    | types.HeartbeatRequest
    | types.LeaveGroupRequest,
) -> Verdict:
    """Decide a JoinGroup, SyncGroup, Heartbeat or LeaveGroup request."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return Forward()


def decide_sync_group(call: Call, request: types.SyncGroupRequest) -> Verdict:
    """Decide a SyncGroup request; from v5 on it has to name the protocol (KIP-559), whatever the rights."""
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return reject(call, request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return decide(call, request)


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
    return _shown(lambda names: set(names) - hidden) if hidden else Forward()


def _shown(visible: Callable[[list[str]], set[str]]) -> Forward:
    def on_response(response: types.ListGroupsResponse) -> None:
        shown = visible([group.group_id for group in response.groups])
        response.groups = [group for group in response.groups if group.group_id in shown]

    return Forward(None, on_response)


def decide_delete(call: Call, request: types.DeleteGroupsRequest) -> Verdict:
    """Decide a DeleteGroups request."""
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
    merge = take_out(request, OFFSET_DELETE, allowed)
    if merge is None:
        return Forward()

    def on_response(response: types.OffsetDeleteResponse) -> None:
        if response.error_code == ErrorCode.NONE:
            merge(response)

    return Forward(request, on_response)


APIS = (
    Api(ApiKey.JOIN_GROUP, decide, _reject_join, repeatable=True),
    Api(ApiKey.SYNC_GROUP, decide_sync_group, code_only("SyncGroupResponse"), repeatable=True),
    Api(ApiKey.HEARTBEAT, decide, code_only("HeartbeatResponse"), repeatable=True),
    Api(ApiKey.LEAVE_GROUP, decide, code_only("LeaveGroupResponse")),
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
        admin=True,
        changes_at_broker=True,
    ),
    Api(
        ApiKey.OFFSET_DELETE,
        decide_offset_delete,
        code_only("OffsetDeleteResponse"),
        admin=True,
        changes_at_broker=True,
    ),
)
