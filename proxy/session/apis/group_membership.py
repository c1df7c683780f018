"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup (the classic group protocol): READ on the group.

Denied, the whole request is GROUP_AUTHORIZATION_FAILED.
"""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.refusal import denied, refused
from proxy.session.call import Call, Forward, Verdict
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return denied(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return Forward()


def decide_sync_group(call: Call, request: Any) -> Verdict:
    """From v5 on the protocol has to be named (KIP-559), which a broker looks at before any right."""
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return refused(call, request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return decide(call, request)


APIS = (
    Api(ApiKey.JOIN_GROUP, decide),
    Api(ApiKey.SYNC_GROUP, decide_sync_group),
    Api(ApiKey.HEARTBEAT, decide),
    Api(ApiKey.LEAVE_GROUP, decide),
)
