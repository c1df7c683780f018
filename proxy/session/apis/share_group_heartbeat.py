"""ShareGroupHeartbeat (KIP-932): READ on the group and DESCRIBE on every topic subscribed to.

One denied topic refuses the whole request with TOPIC_AUTHORIZATION_FAILED. A broker looks at the member's id
between the two, and so do we.
"""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.refusal import denied, refused
from proxy.session.apis.share_member import is_member_id
from proxy.session.call import Call, Forward, Verdict
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return denied(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not is_member_id(request.member_id):
        return refused(call, request, ErrorCode.INVALID_REQUEST)
    subscribed = set(request.subscribed_topic_names or ())
    if call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, sorted(subscribed)) < subscribed:
        return denied(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return Forward()


API = Api(ApiKey.SHARE_GROUP_HEARTBEAT, decide)
