"""Config resources by Kafka's numbers, and under which resource of an ACL each stands.

Read by DescribeConfigs and the two APIs that alter configs.
"""

from dataclasses import dataclass
from typing import Any

from proxy.metadata.acl import ResourceType
from proxy.wire.error_codes import ErrorCode

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@dataclass(frozen=True, slots=True)
class ConfigKind:
    """What has to be allowed for a config resource, and the error without it."""

    resource_type: ResourceType
    error_code: ErrorCode

    @property
    def by_cluster(self) -> bool:
        """Whether the right is one on the cluster, whatever the resource is called."""
        return self.resource_type is ResourceType.CLUSTER


_CLUSTER = ConfigKind(ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

_KINDS = {
    TOPIC: ConfigKind(ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    BROKER: _CLUSTER,
    BROKER_LOGGER: _CLUSTER,
    CLIENT_METRICS: _CLUSTER,
    GROUP: ConfigKind(ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}


def config_kind(config_type: int) -> ConfigKind | None:
    """None: there is no such type."""
    return _KINDS.get(config_type)


def resource_key(part: Any) -> tuple[int, str]:
    """Of a resource in a request or its part of an answer."""
    return part.resource_type, part.resource_name
