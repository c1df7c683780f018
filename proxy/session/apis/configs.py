"""AlterConfigs, IncrementalAlterConfigs and DescribeConfigs (KIP-133, KIP-339, KIP-412, KIP-714).

They need ALTER_CONFIGS or DESCRIBE_CONFIGS on each resource (proxy.admin.configs); the error of a denied
resource depends on its type. An alteration is INVALID_REQUEST, before any right is checked, if its resource
is named twice or of an unknown type, or if a config key is named twice or has no value. What is about one
broker goes to the broker behind this proxy, since only that broker's process can check it; the rest goes to
the controller.

No broker knows the configs `owner` and `acls` of topics (KIP-11, decision 0028). DescribeConfigs adds them
from the image to those of the broker, if the request names them or topic.owner.described is set: tools that
copy or compare all configs of a topic must not find configs that a broker does not have (decision 0072). The
controller decides who may set them. Requests that set them are rejected if they would have no effect: a KRaft
controller has no such configs, and not every authorizer reads the metadata log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any, Protocol

from proxy.admin.configs import (
    BROKER,
    BROKER_LOGGER,
    DELETE,
    DYNAMIC_TOPIC_CONFIG,
    SET,
    TOPIC,
    Alterable,
    AlterableConfig,
    AlteredResource,
    denial,
    each_resource,
    is_config_resource,
    resource_key,
)
from proxy.admin.objects import HIDDEN, TYPES, Known, Object, named, shown, without_value
from proxy.admin.rejection import PartError, in_request_order, rejected_parts
from proxy.audit import events
from proxy.metadata.acl import Acl, Operation
from proxy.metadata.image import ACLS, OWNER, MetadataImage
from proxy.metadata.topic_acls import stripped, topic_acls, topic_acls_text
from proxy.security.protected import acls_in_log
from proxy.session.call import (
    CONTROLLER_TIMEOUT_MS,
    UNRECORDED,
    Api,
    Call,
    Change,
    Forward,
    QueryController,
    Respond,
    ResponseHandler,
    Verdict,
    forward_to_controller,
    reject,
)
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

NOT_STORED = (
    "The configs owner and acls of a topic are stored by Penstock's own controller; this cluster uses"
    " Kafka's (controller.mode: kraft), which has no owners. Use kafka-acls."
)

NOT_READ = (
    "The configs owner and acls of a topic have no effect at this proxy: its authorizer does not read the"
    " metadata log."
)

RIGHTS_CHANGED = "Rights have changed since the request was decided; nothing of the broker was altered."

STRING = 2
"""DescribeConfigsResponse.ConfigType."""
MAX_SHOWN_BYTES = 32_000
"""Strings in old versions have at most 32,767 bytes."""

_DOCUMENTATION = {
    OWNER: "The principal that may do everything with this topic unless an ACL denies it.",
    ACLS: "The ACLs on exactly this topic, as type:name:operations:permission:host, separated by semicolons.",
}

_TOPIC_TYPE = "TOPIC"
_TYPES_IN_LOG = {kind: name for kind, name in TYPES.items() if kind != BROKER_LOGGER}
"""The resources whose configs Kafka's controller stores in its log; levels of loggers are not there."""
_OPERATIONS = ("SET_CONFIG", "DELETE_CONFIG", "APPEND_CONFIG", "SUBTRACT_CONFIG")
"""By the numbers of IncrementalAlterConfigs."""


class Named(Protocol):
    """A config in a request."""

    name: str


def penstock_configs(image: MetadataImage, topic: str, names: Container[str]) -> dict[str, str]:
    """Return name -> value of those in `names`, without those that are not set."""
    values: dict[str, str | None] = {}
    if OWNER in names:
        values[OWNER] = image.topics.owner(topic)
    if ACLS in names and (acls := topic_acls(image, topic)):
        values[ACLS] = _shown(topic, acls)
    return {name: value for name, value in values.items() if value}


def described(
    values: dict[str, str], synonyms: bool, documentation: bool
) -> list[types.DescribeConfigsResponse.DescribeConfigsResourceResult]:
    """Return the configs as parts of a DescribeConfigsResponse."""
    response = types.DescribeConfigsResponse
    return [
        response.DescribeConfigsResourceResult(
            name=name,
            value=value,
            config_source=DYNAMIC_TOPIC_CONFIG,
            config_type=STRING,
            documentation=_DOCUMENTATION[name] if documentation else None,
            synonyms=[response.DescribeConfigsSynonym(name=name, value=value, source=DYNAMIC_TOPIC_CONFIG)]
            if synonyms
            else [],
        )
        for name, value in values.items()
    ]


def _shown(topic: str, acls: list[Acl]) -> str:
    text = topic_acls_text(map(stripped, acls))
    if len(text.encode()) <= MAX_SHOWN_BYTES:
        return text
    return f"({len(acls)} ACLs: kafka-acls --list --topic {topic})"


def _alter(call: Call, request: Any, response_type: Any, incremental: bool) -> Verdict:
    requested = [resource_key(resource) for resource in request.resources]
    counts = Counter(requested)
    errors = [_alteration_error(call, r, counts[resource_key(r)], incremental) for r in request.resources]
    rejected = [
        response_type.AlterConfigsResourceResponse(
            error_code=error[0], error_message=error[1], resource_type=resource[0], resource_name=resource[1]
        )
        for resource, error in zip(requested, errors, strict=True)
        if error is not None
    ]
    if not rejected:
        return _sent(call, request, None)
    pairs = zip(request.resources, errors, strict=True)
    request.resources = [resource for resource, error in pairs if error is None]
    if not request.resources:
        return Respond(response_type(responses=rejected))

    def on_response(response: Any) -> None:
        response.responses = in_request_order(requested, [*response.responses, *rejected], resource_key)

    return _sent(call, request, on_response)


def _sent(call: Call, request: Any, on_response: ResponseHandler | None) -> Verdict:
    """Send what is about one broker to that broker, since only its process can check it, and the rest to the
    controller, whose policies apply to it; first the rest, if there is both."""
    resources: list[Alterable] = request.resources
    of_broker = [each for each in resources if _is_of_one_broker(*resource_key(each))]
    if not of_broker:
        return forward_to_controller(request, on_response)
    if len(of_broker) == len(resources):
        return _at_broker(call, request, on_response)
    rest = copy(request)
    rest.resources = [each for each in resources if not _is_of_one_broker(*resource_key(each))]
    request.resources = of_broker

    def then(response: Any, error_code: int) -> Verdict:
        if response is None:
            response = reject(call, rest, ErrorCode(error_code)).message
        else:
            error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        parts = response.responses
        codes = {part.error_code for part in parts}
        if error_code in codes and ErrorCode.NONE not in codes:
            # All failed that was not rejected before, as on an unknown operation. A broker forwards its own
            # configs with the rest, and they fail with it; levels of its loggers it has set before.
            configs = type(request)(resources=[each for each in of_broker if each.resource_type == BROKER])
            request.resources = [each for each in of_broker if each.resource_type == BROKER_LOGGER]
            parts = [*parts, *reject(call, configs, ErrorCode(error_code)).message.responses]
        return _at_broker(call, request, partial(_merge, resources, parts, on_response))

    return QueryController(call.api_key, call.version, rest, then, CONTROLLER_TIMEOUT_MS)


def _merge(
    resources: list[Alterable], parts: list[Any], on_response: ResponseHandler | None, response: Any
) -> None:
    """Merge `parts` into the broker's response, in the order of the request."""
    merged = [*response.responses, *parts]
    response.responses = in_request_order(map(resource_key, resources), merged, resource_key)
    if on_response is not None:
        on_response(response)


def _is_of_one_broker(kind: int, name: str) -> bool:
    return kind == BROKER_LOGGER or (kind == BROKER and name != "")


def _at_broker(call: Call, request: Any, on_response: ResponseHandler | None) -> Verdict:
    if not request.resources:
        message = None  # The other parts say what failed.
    elif call.basis.rights is not call.gate.basis.rights:
        # While the controller had its part: a client can make its own requests wait there.
        message = RIGHTS_CHANGED
        refused = events.request_refused(
            method=ApiKey.name_of(call.api_key),
            api_version=call.version,
            correlation_id=call.correlation_id,
            granted=False,
            message=message,
        )
        call.events.append(refused)
    elif call.gate.rejects_changes:
        message = UNRECORDED
    else:
        return Forward(request, on_response)
    rejected = reject(call, request, ErrorCode.UNKNOWN_SERVER_ERROR, message)
    if on_response is not None:
        on_response(rejected.message)
    return rejected


def _alteration_error(call: Call, resource: Alterable, count: int, incremental: bool) -> PartError | None:
    message = _malformed(resource, count, incremental)
    if message is not None:
        return ErrorCode.INVALID_REQUEST, message
    denied = denial(call, Operation.ALTER_CONFIGS, resource_key(resource))
    if denied is None and resource.resource_type == TOPIC and _names_ours(resource.configs):
        return None if _penstock_configs_count(call) else _not_supported(call)
    return denied


def unsupported_topics(
    call: Call, topics: Iterable[types.CreateTopicsRequest.CreatableTopic]
) -> dict[str, PartError]:
    """Return the errors of topics to create with an `owner` or `acls` that would have no effect."""
    if _penstock_configs_count(call):
        return {}
    return {topic.name: _not_supported(call) for topic in topics if _names_ours(topic.configs)}


def _names_ours(configs: Iterable[Named]) -> bool:
    return any(config.name in (OWNER, ACLS) for config in configs)


def _not_supported(call: Call) -> PartError:
    return ErrorCode.INVALID_CONFIG, (NOT_READ if call.gate.stores_topic_configs else NOT_STORED)


def _penstock_configs_count(call: Call) -> bool:
    """Whether the controller stores the configs, and the authorizer of this proxy reads them."""
    return call.gate.stores_topic_configs and acls_in_log(call.basis.authorizer)


def _malformed(resource: Alterable, count: int, incremental: bool) -> str | None:
    if count > 1:
        return "Each resource must appear at most once."
    keys = Counter(config.name for config in resource.configs)
    if any(count > 1 for count in keys.values()):
        return "Error due to duplicate config keys"
    valueless = [
        config.name
        for config in resource.configs
        if config.value is None and not (incremental and getattr(config, "config_operation", SET) == DELETE)
    ]
    if valueless:
        return f"Null value not supported for : {', '.join(valueless)}"
    unknown = not is_config_resource(resource.resource_type)
    if unknown or (resource.resource_type == BROKER_LOGGER and not incremental):
        return f"Unknown resource type {resource.resource_type}"
    return None


def decide_describe_configs(call: Call, request: types.DescribeConfigsRequest) -> Verdict:
    unknown = [r.resource_type for r in request.resources if not is_config_resource(r.resource_type)]
    if unknown:
        message = f"No config resource is of type {unknown[0]}."
        return reject(call, request, ErrorCode.INVALID_REQUEST, message)
    requested = [resource_key(resource) for resource in request.resources]
    errors = {
        resource: denial(call, Operation.DESCRIBE_CONFIGS, resource) for resource in dict.fromkeys(requested)
    }
    denials = [
        types.DescribeConfigsResponse.DescribeConfigsResult(
            error_code=error[0], error_message=error[1], resource_type=resource[0], resource_name=resource[1]
        )
        for resource in requested
        if (error := errors[resource]) is not None
    ]
    allowed = [r for r in request.resources if errors[resource_key(r)] is None]
    additional = _penstock_configs(call, allowed)
    if not denials and not additional:
        return Forward()
    request.resources = allowed
    if not request.resources:
        return Respond(types.DescribeConfigsResponse(results=denials))

    def on_response(response: types.DescribeConfigsResponse) -> None:
        for result in response.results:
            key = resource_key(result)
            if result.error_code == ErrorCode.NONE and key in additional:
                result.configs = [
                    *result.configs,
                    *described(additional[key], request.include_synonyms, request.include_documentation),
                ]
        response.results = in_request_order(requested, [*response.results, *denials], resource_key)

    return Forward(request if denials else None, on_response)


def _penstock_configs(
    call: Call, resources: list[types.DescribeConfigsRequest.DescribeConfigsResource]
) -> dict[tuple[int, str], dict[str, str]]:
    """Return owner and ACLs of each topic, if they are requested and the controller stores them."""
    if not _penstock_configs_count(call):
        return {}
    without_names = (OWNER, ACLS) if call.gate.describes_topic_configs else ()
    found = {
        resource_key(resource): penstock_configs(
            call.image, resource.resource_name, resource.configuration_keys or without_names
        )
        for resource in resources
        if resource.resource_type == TOPIC
    }
    return {resource: configs for resource, configs in found.items() if configs}


def _incrementally_altered(
    request: types.IncrementalAlterConfigsRequest, response: types.IncrementalAlterConfigsResponse | None
) -> Iterator[Change]:
    for type_name, resource in _config_resources(request, response):
        for config in resource.configs:
            place = ("ConfigRecord", type_name, resource.resource_name, config.name)
            is_shown = shown(resource.resource_type, config.name, config.value) != HIDDEN
            if is_shown and type_name == _TOPIC_TYPE and config.config_operation in (SET, DELETE):
                yield *place, config.value if config.config_operation == SET else None
            else:
                # The new value depends on the old one, unknown here; other resources may have secrets.
                yield place


def _altered(
    request: types.AlterConfigsRequest, response: types.AlterConfigsResponse | None
) -> Iterator[Change]:
    for type_name, resource in _config_resources(request, response):
        # Configs that are not named are removed.
        yield "ConfigRecord", type_name, resource.resource_name


def _config_resources(request: Any, response: Message | None) -> Iterator[tuple[str, Any]]:
    rejected = rejected_parts(response, "responses", lambda part: (part.resource_type, part.resource_name))
    for resource in request.resources:
        type_name = _TYPES_IN_LOG.get(resource.resource_type)
        if type_name is not None and (resource.resource_type, resource.resource_name) not in rejected:
            yield type_name, resource


def _alterations(
    request: types.AlterConfigsRequest | types.IncrementalAlterConfigsRequest,
    response: types.AlterConfigsResponse | types.IncrementalAlterConfigsResponse | None,
    known: Known,
) -> Iterator[Object]:
    resources: Sequence[Alterable] = request.resources
    results: Sequence[AlteredResource] = () if response is None else response.responses
    parts = {resource_key(part): part for part in results}
    for resource in resources:
        number, name = resource_key(resource)
        kind = TYPES.get(number, str(number))
        part = without_value(parts.get((number, name)), number, resource.configs)
        if isinstance(request, types.AlterConfigsRequest):
            # Configs that are not named are removed.
            yield named(kind, name, "REPLACE_CONFIGS", part)
        keys = {config.name for config in resource.configs} & {OWNER, ACLS} if number == TOPIC else set()
        old = penstock_configs(known.image, name, keys)
        configs: Sequence[AlterableConfig] = resource.configs
        for config in configs:
            operation = getattr(config, "config_operation", SET)
            yield named(
                kind,
                name,
                _OPERATIONS[operation] if operation in range(len(_OPERATIONS)) else str(operation),
                part,
                key=config.name,
                old_value=old.get(config.name),
                new_value=None if operation == DELETE else shown(number, config.name, config.value),
            )


APIS = (
    Api(
        ApiKey.ALTER_CONFIGS,
        lambda call, request: _alter(call, request, types.AlterConfigsResponse, incremental=False),
        each_resource("AlterConfigsResponse", "responses", "AlterConfigsResourceResponse"),
        admin="controller",
        changes=_altered,
        objects=_alterations,
    ),
    Api(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda call, request: _alter(call, request, types.IncrementalAlterConfigsResponse, incremental=True),
        each_resource("IncrementalAlterConfigsResponse", "responses", "AlterConfigsResourceResponse"),
        admin="controller",
        changes=_incrementally_altered,
        objects=_alterations,
    ),
    Api(
        ApiKey.DESCRIBE_CONFIGS,
        decide_describe_configs,
        each_resource("DescribeConfigsResponse", "results", "DescribeConfigsResult"),
    ),
)
