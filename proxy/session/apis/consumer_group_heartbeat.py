"""ConsumerGroupHeartbeat (KIP-848): READ on the group and DESCRIBE on every topic subscribed to by name.

One denied topic refuses the whole request with TOPIC_AUTHORIZATION_FAILED. Topics subscribed to by a regular
expression are matched by the broker; the assignment names them by id only, and what stands behind an id is
told by Metadata to those who may DESCRIBE it.
"""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.refusal import denied
from proxy.session.call import Call, Forward, Verdict
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return denied(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    subscribed = set(request.subscribed_topic_names or ())
    if call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, sorted(subscribed)) < subscribed:
        return denied(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return Forward()


API = Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, decide)
