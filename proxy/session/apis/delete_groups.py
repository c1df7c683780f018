"""DeleteGroups (KIP-229): DELETE on each group; the others are GROUP_AUTHORIZATION_FAILED."""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.order import in_request_order
from proxy.session.call import Answer, Call, Forward, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    asked = list(dict.fromkeys(request.groups_names))
    allowed = call.allowed_names(Operation.DELETE, ResourceType.GROUP, asked)
    result = types.DeleteGroupsResponse.DeletableGroupResult
    refused = [
        result(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in asked
        if group_id not in allowed
    ]
    if not refused:
        return Forward()
    if not allowed:
        return Answer(types.DeleteGroupsResponse(results=refused))

    def on_reply(response: Any) -> None:
        parts = [*response.results, *refused]
        response.results = in_request_order(asked, parts, lambda part: part.group_id)

    request.groups_names = [group_id for group_id in asked if group_id in allowed]
    return Forward(request, on_reply)


API = Api(ApiKey.DELETE_GROUPS, decide, admin=True, changes_at_broker=True)
