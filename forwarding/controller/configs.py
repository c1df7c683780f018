"""AlterConfigs and IncrementalAlterConfigs (KIP-133, KIP-339): the allowed resources go on to a broker.

ALTER_CONFIGS on the topic or the group, on the cluster for brokers and client metrics. Refused resources
are put back into the broker's response in the order of the request. Of a topic, `owner` and `acls` are ours
to keep (topic_owner.py): cut out, and committed once the broker has done its part, if it has one.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeAlias

from forwarding.controller.access import Access
from forwarding.controller.outcome import MAX_RECORDS_PER_REQUEST, AskBroker, Decision, Outcome
from forwarding.controller.policy import Alterable, AlterableConfig
from forwarding.controller.served import Asked, Served
from forwarding.controller.topic_owner import KEYS, Keeping, later, owner_of, wanted, without
from forwarding.controller.topic_records import Alteration, Altered
from proxy.admin.configs import BROKER_LOGGER, DELETE, SET, TOPIC, denial, is_config_resource, resource_key
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


def _kept_topics(request: Altering) -> list[TopicKey]:
    """The topics whose `owner` or `acls` a request is about."""
    return [(resource.resource_name, NO_TOPIC_ID) for resource in request.resources if _is_kept(resource)]


def alter_configs(asked: Asked[Altering]) -> Decision:
    """Serves both APIs: their requests and responses differ in what is inside a resource only."""
    request, access, image, topic_ids = asked.request, asked.access, asked.image, asked.topic_ids
    times = Counter(resource_key(resource) for resource in request.resources)
    faults = {resource: _fault(resource, count, access) for resource, count in times.items()}
    for resource in request.resources:
        key = resource_key(resource)
        if faults[key] is None:
            faults[key] = asked.policies.of_alteration(resource, access)
    keeping: dict[str, Keeping] = {}
    for resource in filter(_is_kept, request.resources):
        key = resource_key(resource)
        if faults[key] is None:
            kept = _keeping(resource, access, image, topic_ids)
            if isinstance(kept, Keeping):
                keeping[resource.resource_name] = kept
            else:
                faults[key] = kept
    response = _response_of(request)
    rejected = {resource: _part(response, resource, *fault) for resource, fault in faults.items() if fault}
    resources = [resource for resource in request.resources if resource_key(resource) not in rejected]
    alteration = Alteration(keeping, topic_ids, asked.new_id)
    for_broker: list[Any] = [resource for resource in resources if _concerns_broker(resource)]
    ours = [
        _part(response, resource_key(resource), ErrorCode.NONE, None)
        for resource in resources
        if not _concerns_broker(resource)
    ]

    def merge(answer: Altered) -> Altered:
        parts = [*answer.responses, *ours, *rejected.values()]
        answer.responses = in_request_order(times, parts, resource_key)
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


def _is_kept(resource: Alterable) -> bool:
    return resource.resource_type == TOPIC and any(config.name in KEYS for config in resource.configs)


def _concerns_broker(resource: Alterable) -> bool:
    """AlterConfigs puts back to its default whatever it does not name: an empty one says a lot."""
    return not _is_kept(resource) or not _is_incremental(resource) or bool(without(resource.configs))


def _is_incremental(resource: Alterable) -> bool:
    return all(hasattr(config, "config_operation") for config in resource.configs)


def _keeping(
    resource: Alterable, access: Access, image: MetadataImage, topic_ids: Mapping[str, bytes]
) -> Keeping | Fault:
    """What is to change of our configs of a topic, or why it cannot."""
    name = resource.resource_name
    if name not in topic_ids:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED
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


def _value(config: AlterableConfig) -> str | None:
    return None if getattr(config, "config_operation", SET) == DELETE else config.value


def _fault(resource: Resource, count: int, access: Access) -> Fault | None:
    if not is_config_resource(resource[0]):
        return ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {resource[0]}."
    if count > 1:
        return ErrorCode.INVALID_REQUEST, "Duplicate resource."
    denied = denial(access, Operation.ALTER_CONFIGS, resource)
    if denied is None and resource[0] == BROKER_LOGGER:
        # Log levels belong to one broker's process: its own proxy serves them, not the controller.
        return ErrorCode.INVALID_REQUEST, "Log levels are altered at the broker."
    return denied


def _part(response: Any, resource: Resource, error_code: ErrorCode, message: str | None) -> Any:
    return response.AlterConfigsResourceResponse(
        error_code=error_code, error_message=message, resource_type=resource[0], resource_name=resource[1]
    )


def _response_of(request: Altering) -> Any:
    incremental = isinstance(request, types.IncrementalAlterConfigsRequest)
    return types.IncrementalAlterConfigsResponse if incremental else types.AlterConfigsResponse


SERVED = tuple(
    Served(key=key, decide=alter_configs, to_broker=True, topics=_kept_topics)
    for key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
)
