"""Which operations a client may do on a resource, as the bit field that answers carry (KIP-430).

Asked by the APIs that tell it: Metadata, DescribeCluster, DescribeGroups and their kin. The broker's own
answer would be about the proxy's principal.
"""

from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.session.call import Call

NOT_REQUESTED = -(2**31)
"""What an answer says when nobody asked."""

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
    """0 without DESCRIBE on the cluster."""
    if not call.allows_cluster(Operation.DESCRIBE):
        return 0
    return call.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME, _CLUSTER)
