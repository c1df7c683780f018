"""OffsetDelete (KIP-496): DELETE on the group and READ on each topic.

Without the group everything is GROUP_AUTHORIZATION_FAILED; partitions of denied topics are
TOPIC_AUTHORIZATION_FAILED, unless the group itself fails, which the broker tells with no topic left too.
"""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.refusal import denied
from proxy.session.apis.topic_filter import take_out
from proxy.session.apis.topic_shapes import TOPIC_SHAPES
from proxy.session.call import Call, Forward, Verdict
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

_SHAPE = TOPIC_SHAPES[ApiKey.OFFSET_DELETE]


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    if not call.allows(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return denied(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = [topic.name for topic in request.topics]
    allowed = call.allowed_names(Operation.READ, ResourceType.TOPIC, names)
    merge = take_out(request, _SHAPE, allowed)
    if merge is None:
        return Forward()

    def on_reply(response: Any) -> None:
        if response.error_code == ErrorCode.NONE:
            merge(response)

    return Forward(request, on_reply)


API = Api(ApiKey.OFFSET_DELETE, decide, admin=True, changes_at_broker=True)
