"""The authorized operations of a client on a resource, as the bit field in responses (KIP-430).

Used by Metadata, DescribeCluster, DescribeTopicPartitions and the Describe APIs of groups. The broker's own
bit field is about the proxy's principal.
"""

from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.session.call import Call

NOT_REQUESTED = -(2**31)
"""The value in a response if the client did not request the operations."""


def of_topic(call: Call, name: str) -> int:
    return call.authorized_operations(ResourceType.TOPIC, name)


def of_group(call: Call, group_id: str) -> int:
    return call.authorized_operations(ResourceType.GROUP, group_id)


def of_cluster(call: Call) -> int:
    """Return the bit field of the cluster; 0 without DESCRIBE on it."""
    if not call.allows_cluster(Operation.DESCRIBE):
        return 0
    return call.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME)
