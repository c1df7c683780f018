"""The authorized operations of a client on a resource, as the bit field in responses (KIP-430).

Used by Metadata, DescribeCluster, DescribeTopicPartitions and the Describe APIs of groups. The broker's own
bit field is about the proxy's principal.
"""

from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.session.call import Call

NOT_REQUESTED = -(2**31)
"""The value in a response if the client did not request the operations."""

_TOPIC = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DESCRIBE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_GROUP = (
    Operation.READ,
    Operation.DESCRIBE,
    Operation.DELETE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_CLUSTER = (
    Operation.CREATE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
    Operation.ALTER,
    Operation.DESCRIBE,
)


def of_topic(call: Call, name: str) -> int:
    return call.authorized_operations(ResourceType.TOPIC, name, _TOPIC)


def of_group(call: Call, group_id: str) -> int:
    return call.authorized_operations(ResourceType.GROUP, group_id, _GROUP)


def of_cluster(call: Call) -> int:
    """Return the bit field of the cluster; 0 without DESCRIBE on it."""
    if not call.allows_cluster(Operation.DESCRIBE):
        return 0
    return call.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME, _CLUSTER)
