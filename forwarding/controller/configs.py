"""AlterConfigs and IncrementalAlterConfigs (KIP-133, KIP-339): the allowed resources go on to a broker.

ALTER_CONFIGS on the topic or the group, on the cluster for brokers and client metrics. Refused resources
are put back into the broker's response in the order of the request. Of a topic, `owner` and `acls` are ours
to keep (topic_owner.py): cut out, and committed once the broker has done its part, if it has one.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from forwarding.controller.access import Access
from forwarding.controller.outcome import MAX_RECORDS_PER_REQUEST, AskBroker, Decision, Outcome
from forwarding.controller.policy import NO_POLICIES, Policies
from forwarding.controller.topic_owner import KEYS, Keeping, later, owner_of, wanted, without
from forwarding.controller.topic_records import Alteration
from proxy.metadata.acl import Operation
from proxy.metadata.image import MetadataImage
from proxy.metadata.topic_acls import stripped, topic_acls
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""ConfigResource.Type by Kafka's numbers."""

SET, DELETE = 0, 1
"""What IncrementalAlterConfigs may do with a config that is no list."""

Resource = tuple[int, str]
Fault = tuple[ErrorCode, str]
_NO_IDS: Mapping[str, bytes] = MappingProxyType({})


def kept_topics(request: Any) -> list[str]:
    """The topics whose `owner` or `acls` a request is about: their ids are needed before the decision."""
    return [resource.resource_name for resource in request.resources if _is_kept(resource)]


def alter_configs(
    request: Any,
    access: Access,
    image: MetadataImage = MetadataImage.EMPTY,
    new_id: Callable[[], bytes] = lambda: bytes(16),
    topic_ids: Mapping[str, bytes] = _NO_IDS,
    policies: Policies = NO_POLICIES,
) -> Decision:
    """Serves both APIs: their requests and responses differ in what is inside a resource only.

    `topic_ids`: of `kept_topics`, those that a broker knows.
    """
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    faults = {resource: _fault(resource, count, access) for resource, count in times.items()}
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        if faults[key] is None:
            faults[key] = policies.of_alteration(resource, access)
    keeping: dict[str, Keeping] = {}
    for resource in filter(_is_kept, request.resources):
        key = (resource.resource_type, resource.resource_name)
        if faults[key] is None:
            asked = _keeping(resource, access, image, topic_ids)
            if isinstance(asked, Keeping):
                keeping[resource.resource_name] = asked
            else:
                faults[key] = asked
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

    alteration = Alteration(keeping, topic_ids, new_id)
    for_broker = [resource for resource in resources if _concerns_broker(resource)]
    ours = {
        key: response.AlterConfigsResourceResponse(
            error_code=ErrorCode.NONE, error_message=None, resource_type=key[0], resource_name=key[1]
        )
        for key in ((r.resource_type, r.resource_name) for r in resources if not _concerns_broker(r))
    }

    def merge(answer: Any) -> Any:
        parts = {(part.resource_type, part.resource_name): part for part in answer.responses}
        by_resource = parts | ours | refused
        answer.responses = [by_resource[resource] for resource in times if resource in by_resource]
        return answer

    if not for_broker:
        answer = merge(response(responses=[]))
        return Outcome(() if request.validate_only else alteration.records(answer, image, {}), answer)
    for resource in for_broker:
        if _is_kept(resource):
            resource.configs = without(resource.configs)
    return AskBroker(
        type(request)(resources=for_broker, validate_only=request.validate_only),
        merge,
        alteration if keeping and not request.validate_only else None,
    )


def _is_kept(resource: Any) -> bool:
    return resource.resource_type == TOPIC and any(config.name in KEYS for config in resource.configs)


def _concerns_broker(resource: Any) -> bool:
    """AlterConfigs puts back to its default whatever it does not name: an empty one says a lot."""
    return not _is_kept(resource) or not _is_incremental(resource) or bool(without(resource.configs))


def _is_incremental(resource: Any) -> bool:
    return all(hasattr(config, "config_operation") for config in resource.configs)


def _keeping(
    resource: Any, access: Access, image: MetadataImage, topic_ids: Mapping[str, bytes]
) -> Keeping | Fault:
    """What is to change of our configs of a topic, or why it cannot."""
    name = resource.resource_name
    if name not in topic_ids:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    configs = [config for config in resource.configs if config.name in KEYS]
    if any(getattr(config, "config_operation", SET) not in (SET, DELETE) for config in configs):
        return ErrorCode.INVALID_CONFIG, "owner and acls are set or deleted; nothing is appended to them."
    asked = wanted([(config.name, _value(config)) for config in configs], access)
    if not isinstance(asked, Keeping):
        return asked
    asked = _changed(name, topic_ids[name], asked, image)
    if (
        asked.acls is not None
        and len(asked.acls) + len(topic_acls(image, name)) > MAX_RECORDS_PER_REQUEST - 4
    ):
        return ErrorCode.POLICY_VIOLATION, f"More ACLs of topic {name} than one request may change."
    fault = later(name, topic_ids[name], asked, access, image) if asked.anything else None
    return asked if fault is None else fault


def _changed(name: str, topic_id: bytes, asked: Keeping, image: MetadataImage) -> Keeping:
    """Without what is so already: a tool that writes back all it was told needs no right for that."""
    owner, acls = asked.owner, asked.acls
    if owner is not None and owner == owner_of(name, topic_id, image):
        owner = None
    if acls is not None and set(acls) == {stripped(acl) for acl in topic_acls(image, name)}:
        acls = None
    return Keeping(owner, acls)


def _value(config: Any) -> str | None:
    return None if getattr(config, "config_operation", SET) == DELETE else config.value


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
