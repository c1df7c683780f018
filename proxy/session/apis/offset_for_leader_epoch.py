"""OffsetForLeaderEpoch (KIP-101, KIP-320): DESCRIBE on each topic, or CLUSTER_ACTION for all but
Penstock's own.

Partitions of denied topics are TOPIC_AUTHORIZATION_FAILED.
"""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.security.protected import protected_among
from proxy.session.apis.api import Api
from proxy.session.apis.topic_filter import filter_topics
from proxy.session.apis.topic_shapes import TOPIC_SHAPES
from proxy.session.call import CLUSTER_NAME, Call, Forward, Verdict
from proxy.wire.api_keys import ApiKey

_SHAPE = TOPIC_SHAPES[ApiKey.OFFSET_FOR_LEADER_EPOCH]


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    names = [topic.topic for topic in request.topics]
    own = protected_among(call.gate.authorizer, ResourceType.TOPIC, names)
    if not own and call.shows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, (CLUSTER_NAME,)):
        return Forward()
    return filter_topics(call, request, _SHAPE, Operation.DESCRIBE)


API = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, decide)
