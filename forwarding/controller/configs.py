"""AlterConfigs and IncrementalAlterConfigs (KIP-133, KIP-339): the allowed resources go on to a broker.

ALTER_CONFIGS on the topic or the group, on the cluster for brokers and client metrics. Refused resources
are put back into the broker's response in the order of the request.
"""

from collections import Counter
from typing import Any

from forwarding.controller.access import Access
from forwarding.controller.outcome import AskBroker, Decision, Outcome
from proxy.metadata.acl import Operation
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""ConfigResource.Type by Kafka's numbers."""

Resource = tuple[int, str]
Fault = tuple[ErrorCode, str]


def alter_configs(request: Any, access: Access) -> Decision:
    """Serves both APIs: their requests and responses differ in what is inside a resource only."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    faults = {resource: _fault(resource, count, access) for resource, count in times.items()}
    response = _response_of(request)
    refused = {
        resource: response.AlterConfigsResourceResponse(
            error_code=fault[0],
            error_message=fault[1],
            resource_type=resource[0],
            resource_name=resource[1],
        )
        for resource, fault in faults.items()
        if fault is not None
    }
    resources = [
        resource
        for resource in request.resources
        if (resource.resource_type, resource.resource_name) not in refused
    ]

    def merge(answer: Any) -> Any:
        by_resource = {(part.resource_type, part.resource_name): part for part in answer.responses} | refused
        answer.responses = [by_resource[resource] for resource in times if resource in by_resource]
        return answer

    if not resources:
        return Outcome((), merge(response(responses=[])))
    return AskBroker(type(request)(resources=resources, validate_only=request.validate_only), merge)


def _fault(resource: Resource, count: int, access: Access) -> Fault | None:
    resource_type, _ = resource
    if resource_type not in _RIGHTS:
        return ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {resource_type}."
    if count > 1:
        return ErrorCode.INVALID_REQUEST, "Duplicate resource."
    return _RIGHTS[resource_type](resource, access)


def _topic(resource: Resource, access: Access) -> Fault | None:
    if access.to_topics(Operation.ALTER_CONFIGS, (resource[1],)):
        return None
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."


def _group(resource: Resource, access: Access) -> Fault | None:
    if access.to_group(Operation.ALTER_CONFIGS, resource[1]):
        return None
    return ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."


def _cluster(_resource: Resource, access: Access) -> Fault | None:
    if access.to_cluster(Operation.ALTER_CONFIGS):
        return None
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."


def _logger(resource: Resource, access: Access) -> Fault | None:
    # Log levels belong to one broker's process: its own proxy serves them, not the controller.
    return _cluster(resource, access) or (ErrorCode.INVALID_REQUEST, "Log levels are altered at the broker.")


_RIGHTS = {TOPIC: _topic, GROUP: _group, BROKER: _cluster, CLIENT_METRICS: _cluster, BROKER_LOGGER: _logger}


def _response_of(request: Any) -> Any:
    incremental = isinstance(request, types.IncrementalAlterConfigsRequest)
    return types.IncrementalAlterConfigsResponse if incremental else types.AlterConfigsResponse
