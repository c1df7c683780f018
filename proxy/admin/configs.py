"""Config resources by Kafka's numbers, and the right that each needs (KIP-133, KIP-412, KIP-714, KIP-1000).

Topics and groups need a right on themselves; brokers, their loggers and client metrics on the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from proxy.admin.authorization import Authorization
from proxy.admin.rejection import MESSAGES, Error, Reject
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

SET, DELETE, SUBTRACT = 0, 1, 3
"""Operations of IncrementalAlterConfigs; the last one takes elements out of a list."""


DYNAMIC_TOPIC_CONFIG = 1
"""Kafka's number for the source (ConfigSource) of a config that was set for this topic."""

Alterable: TypeAlias = (
    "types.AlterConfigsRequest.AlterConfigsResource"
    " | types.IncrementalAlterConfigsRequest.AlterConfigsResource"
)
AlterableConfig: TypeAlias = (
    "types.AlterConfigsRequest.AlterableConfig | types.IncrementalAlterConfigsRequest.AlterableConfig"
)
AlteredResource: TypeAlias = (
    "types.AlterConfigsResponse.AlterConfigsResourceResponse"
    " | types.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse"
)


@dataclass(frozen=True, slots=True)
class ConfigKind:
    """The resource type whose ACLs cover a config resource, and the error of a denial."""

    resource_type: ResourceType
    error_code: ErrorCode


_CLUSTER = ConfigKind(ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_KINDS = {
    TOPIC: ConfigKind(ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    BROKER: _CLUSTER,
    BROKER_LOGGER: _CLUSTER,
    CLIENT_METRICS: _CLUSTER,
    GROUP: ConfigKind(ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}


def is_config_resource(config_type: int) -> bool:
    return config_type in _KINDS


def denial(
    authorization: Authorization, operation: Operation, resource: tuple[int, str]
) -> tuple[ErrorCode, str] | None:
    """Return the error if the principal may not do this to the resource, or None.

    KeyError for an unknown type.
    """
    kind = _KINDS[resource[0]]
    name = CLUSTER_NAME if kind is _CLUSTER else resource[1]
    if authorization.allows(operation, kind.resource_type, name):
        return None
    return kind.error_code, MESSAGES[kind.error_code]


class HasResource(Protocol):
    """A config resource in a request, or its part of a response."""

    resource_type: int
    resource_name: str


def resource_key(part: HasResource) -> tuple[int, str]:
    """Return type and name of a resource in a request, or of its part of a response."""
    return part.resource_type, part.resource_name


def each_resource(response: str, parts: str, struct: str) -> Reject:
    """Return a function that makes the response with an error for each config resource."""

    def reject(_version: int, request: Any, error: Error) -> Any:
        message = getattr(types, response)
        part = getattr(message, struct)
        rejected = [
            part(resource_type=each.resource_type, resource_name=each.resource_name, **error)
            for each in request.resources
        ]
        return message(**{parts: rejected})

    return reject
