"""AlterPartitionReassignments and ElectLeaders (KIP-455, KIP-460): the topics that they may change.

A reassignment to brokers that have no copy, or an unclean election, may lose records. So the right does not
cover Penstock's own topics. No client has a right that does (decision 0108).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proxy.admin.authorization import Authorization
from proxy.admin.rejection import MESSAGES, TopicShape, take_out
from proxy.metadata.acl import Operation, ResourceType
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

ELECTIONS = TopicShape(
    response="ElectLeadersResponse",
    topic="ReplicaElectionResult",
    partition="PartitionResult",
    request_topics="topic_partitions",
    response_topics="replica_election_results",
    name="topic",
    request_index=None,
    response_partitions="partition_result",
    response_index="partition_id",
    has_message=True,
)
REASSIGNMENTS = TopicShape(
    response="AlterPartitionReassignmentsResponse",
    topic="ReassignableTopicResponse",
    partition="ReassignablePartitionResponse",
    response_topics="responses",
    has_message=True,
)
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def take_own_topics_out(
    authorization: Authorization, request: Message, shape: TopicShape
) -> Callable[[Any], None] | None:
    """Remove Penstock's own topics from the request; the returned handler adds them to the response.

    None: there are none. The principal has ALTER on the cluster.
    """
    names = [getattr(topic, shape.name) for topic in shape.topics(request)]
    allowed = authorization.within_cluster_right(Operation.ALTER, ResourceType.TOPIC, names)
    return take_out(request, shape, allowed, _DENIED, MESSAGES[_DENIED])
