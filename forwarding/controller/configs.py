"""AlterConfigs and IncrementalAlterConfigs (KIP-133, KIP-339): the allowed resources are sent to a broker.

A topic or group needs ALTER_CONFIGS on it; brokers and client metrics need ALTER_CONFIGS on the cluster.
Rejected resources are merged into the broker's response in the order of the request. The metadata log stores
`owner` and `acls` of a topic (topic_owner.py): they are removed from the request, and committed once the
broker has carried out the rest, if there is any.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, TypeAlias

from forwarding.controller.api import (
    MAX_RECORDS_PER_REQUEST,
    ControllerApi,
    ControllerOutcome,
    Decision,
    DecisionInputs,
    SendToBroker,
)
from forwarding.controller.authorization import ForwardedAuthorization
from forwarding.controller.policy import new_value
from forwarding.controller.topic_owner import (
    TOPIC_CONFIGS,
    OwnerAndAcls,
    authorization_fault,
    broker_configs,
    owner_of,
    parse_configs,
)
from forwarding.controller.topic_records import OF_TOPICS, Alteration, Altered
from proxy.admin.configs import (
    BROKER_LOGGER,
    DELETE,
    SET,
    TOPIC,
    Alterable,
    denial,
    is_config_resource,
    resource_key,
)
from proxy.admin.rejection import in_request_order
from proxy.admin.topics import NO_TOPIC_ID, NOT_HOSTED, TopicKey
from proxy.metadata.acl import Operation
from proxy.metadata.image import MetadataImage
from proxy.metadata.topic_acls import stripped, topic_acls
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

Resource = tuple[int, str]
Altering: TypeAlias = "types.AlterConfigsRequest | types.IncrementalAlterConfigsRequest"
Fault = tuple[ErrorCode, str]


def _topics_to_look_up(request: Altering) -> list[TopicKey]:
    """Return the topics whose `owner` or `acls` a request changes."""
    resources: Sequence[Alterable] = request.resources
    return [
        (resource.resource_name, NO_TOPIC_ID) for resource in resources if _changes_owner_or_acls(resource)
    ]


def alter_configs(inputs: DecisionInputs[Altering]) -> Decision:
    """Decide both APIs: their requests and responses differ only inside a resource."""
    request, authorization = inputs.request, inputs.authorization
    image, topic_ids = inputs.image, inputs.topic_ids
    requested: Sequence[Alterable] = request.resources
    times = Counter(resource_key(resource) for resource in requested)
    faults = {resource: _fault(resource, count, authorization) for resource, count in times.items()}
    for resource in requested:
        key = resource_key(resource)
        if faults[key] is None:
            faults[key] = inputs.policies.alteration_fault(resource, authorization)
    changes: dict[str, OwnerAndAcls] = {}
    for resource in filter(_changes_owner_or_acls, requested):
        key = resource_key(resource)
        if faults[key] is None:
            change = _requested_change(resource, authorization, image, topic_ids)
            if isinstance(change, OwnerAndAcls):
                changes[resource.resource_name] = change
            else:
                faults[key] = change
    incremental = isinstance(request, types.IncrementalAlterConfigsRequest)
    response = types.IncrementalAlterConfigsResponse if incremental else types.AlterConfigsResponse
    rejected = {resource: _part(response, resource, *fault) for resource, fault in faults.items() if fault}
    resources = [resource for resource in requested if resource_key(resource) not in rejected]
    alteration = Alteration(changes, topic_ids, inputs.new_id)
    for_broker: list[Any] = [resource for resource in resources if _concerns_broker(resource)]
    without_broker = [
        _part(response, resource_key(resource), ErrorCode.NONE, None)
        for resource in resources
        if not _concerns_broker(resource)
    ]

    def merge(altered: Altered) -> Altered:
        parts = [*altered.responses, *without_broker, *rejected.values()]
        altered.responses = in_request_order(times, parts, resource_key)
        return altered

    if not for_broker:
        altered = merge(response(responses=[]))
        return ControllerOutcome(
            () if request.validate_only else alteration.records(altered, image, {}), altered
        )
    to_send = []
    for resource in for_broker:
        # A copy: the record of the request names all that was requested.
        to_send.append(copy(resource))
        if _changes_owner_or_acls(resource):
            to_send[-1].configs = broker_configs(resource.configs)
    narrowed: Any = copy(request)
    narrowed.resources = to_send
    return SendToBroker(
        narrowed,
        merge,
        alteration if changes and not request.validate_only else None,
    )


def _changes_owner_or_acls(resource: Alterable) -> bool:
    return resource.resource_type == TOPIC and any(
        config.name in TOPIC_CONFIGS for config in resource.configs
    )


def _concerns_broker(resource: Alterable) -> bool:
    """Whether a broker has to see the resource. AlterConfigs resets what it does not name."""
    return (
        not _changes_owner_or_acls(resource)
        or not all(hasattr(config, "config_operation") for config in resource.configs)
        or bool(broker_configs(resource.configs))
    )


def _requested_change(
    resource: Alterable,
    authorization: ForwardedAuthorization,
    image: MetadataImage,
    topic_ids: Mapping[str, bytes],
) -> OwnerAndAcls | Fault:
    """Return the change of `owner` and `acls` that a resource requests, or why it is rejected."""
    name = resource.resource_name
    if name not in topic_ids:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED
    configs = [config for config in resource.configs if config.name in TOPIC_CONFIGS]
    if any(getattr(config, "config_operation", SET) not in (SET, DELETE) for config in configs):
        return ErrorCode.INVALID_CONFIG, "owner and acls are set or deleted; nothing is appended to them."
    change = parse_configs([(config.name, new_value(config)) for config in configs], authorization)
    if not isinstance(change, OwnerAndAcls):
        return change
    change = _changed(name, topic_ids[name], change, image)
    if (
        change.acls is not None
        and len(change.acls) + len(topic_acls(image, name)) > MAX_RECORDS_PER_REQUEST - 4
    ):
        return ErrorCode.POLICY_VIOLATION, f"More ACLs of topic {name} than one request may change."
    fault = (
        authorization_fault(name, topic_ids[name], change, authorization, image) if change.is_any else None
    )
    return change if fault is None else fault


def _changed(name: str, topic_id: bytes, change: OwnerAndAcls, image: MetadataImage) -> OwnerAndAcls:
    """Leave out unchanged values: a tool that writes back what it has read needs no right for them."""
    owner, acls = change.owner, change.acls
    if owner is not None and owner == owner_of(name, topic_id, image):
        owner = None
    if acls is not None and set(acls) == {stripped(acl) for acl in topic_acls(image, name)}:
        acls = None
    return OwnerAndAcls(owner, acls)


def _fault(resource: Resource, count: int, authorization: ForwardedAuthorization) -> Fault | None:
    if not is_config_resource(resource[0]):
        return ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {resource[0]}."
    if count > 1:
        return ErrorCode.INVALID_REQUEST, "Duplicate resource."
    denied = denial(authorization, Operation.ALTER_CONFIGS, resource)
    if denied is None and resource[0] == BROKER_LOGGER:
        # Log levels belong to one broker's process: its own proxy serves them, not the controller.
        return ErrorCode.INVALID_REQUEST, "Log levels are altered at the broker."
    return denied


def _part(response: Any, resource: Resource, error_code: ErrorCode, message: str | None) -> Any:
    return response.AlterConfigsResourceResponse(
        error_code=error_code, error_message=message, resource_type=resource[0], resource_name=resource[1]
    )


CONTROLLER_APIS = tuple(
    ControllerApi(
        key=key,
        decide=alter_configs,
        writes=("AccessControlEntryRecord", "RemoveAccessControlEntryRecord", *OF_TOPICS),
        to_broker=True,
        topics=_topics_to_look_up,
    )
    for key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
)
