"""AlterConfigs and IncrementalAlterConfigs (KIP-133, KIP-339, KIP-412): ALTER_CONFIGS on each resource.

Topics and groups by their own name, brokers, their loggers and client metrics on the cluster. A resource
named twice, of an unknown type, or with a config key named twice or without a value is INVALID_REQUEST before
any right is asked for. What is left goes to the controller, unless it is about one broker: that broker's
process has to look at it itself, and is the one behind us.
"""

from collections import Counter
from typing import Any

from proxy.metadata.acl import Operation
from proxy.session.apis.api import Api
from proxy.session.apis.cluster_operations import to_the_controller
from proxy.session.apis.config_resources import BROKER, BROKER_LOGGER, TOPIC, config_kind, resource_key
from proxy.session.apis.kept_configs import NOT_KEPT, names_kept_configs
from proxy.session.apis.order import in_request_order
from proxy.session.apis.refusal import MESSAGES
from proxy.session.call import CLUSTER_NAME, Answer, Call, Forward, ReplyHandler, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced

_DELETE = 1
"""The operation on a config key that needs no value."""

Error = tuple[ErrorCode, str]


def decide_alter_configs(call: Call, request: Any) -> Verdict:
    """AlterConfigs, which knows no loggers."""
    return _decide(call, request, types.AlterConfigsResponse, incremental=False)


def decide_incremental_alter_configs(call: Call, request: Any) -> Verdict:
    """IncrementalAlterConfigs."""
    return _decide(call, request, types.IncrementalAlterConfigsResponse, incremental=True)


def _decide(call: Call, request: Any, response: Any, incremental: bool) -> Verdict:
    asked = [resource_key(resource) for resource in paced(request.resources)]
    times = Counter(asked)
    errors = [_error(call, r, times[resource_key(r)], incremental) for r in paced(request.resources, 4)]
    refused = [
        _refusal(response, resource, error)
        for resource, error in zip(asked, errors, strict=True)
        if error is not None
    ]
    if not refused:
        return _sent(request, None)
    pairs = zip(paced(request.resources), errors, strict=True)
    request.resources = [resource for resource, error in pairs if error is None]
    if not request.resources:
        return Answer(response(responses=refused))

    def on_reply(answer: Any) -> None:
        answer.responses = in_request_order(asked, [*answer.responses, *refused], resource_key)

    return _sent(request, on_reply)


def _sent(request: Any, on_reply: ReplyHandler | None) -> Verdict:
    if any(_is_of_one_broker(resource) for resource in paced(request.resources)):
        return Forward(request, on_reply)
    return to_the_controller(request, on_reply)


def _is_of_one_broker(resource: Any) -> bool:
    kind, name = resource_key(resource)
    return kind == BROKER_LOGGER or (kind == BROKER and name != "")


def _error(call: Call, resource: Any, count: int, incremental: bool) -> Error | None:
    message = _malformed(resource, count, incremental)
    if message is not None:
        return ErrorCode.INVALID_REQUEST, message
    kind = config_kind(resource.resource_type)
    assert kind is not None
    name = CLUSTER_NAME if kind.by_cluster else resource.resource_name
    if call.allows(Operation.ALTER_CONFIGS, kind.resource_type, name):
        return _unkept(call, resource)
    return kind.error_code, MESSAGES[kind.error_code]


def _unkept(call: Call, resource: Any) -> Error | None:
    """Owner and ACLs of a topic, where the controller does not keep them."""
    if call.gate.keeps_topic_configs or resource.resource_type != TOPIC:
        return None
    return (ErrorCode.INVALID_CONFIG, NOT_KEPT) if names_kept_configs(resource.configs) else None


def _malformed(resource: Any, count: int, incremental: bool) -> str | None:
    if count > 1:
        return "Each resource must appear at most once."
    keys = Counter(config.name for config in resource.configs)
    if any(times > 1 for times in keys.values()):
        return "Error due to duplicate config keys"
    valueless = [config.name for config in resource.configs if _lacks_value(config, incremental)]
    if valueless:
        return f"Null value not supported for : {', '.join(valueless)}"
    unknown = config_kind(resource.resource_type) is None
    if unknown or (resource.resource_type == BROKER_LOGGER and not incremental):
        return f"Unknown resource type {resource.resource_type}"
    return None


def _lacks_value(config: Any, incremental: bool) -> bool:
    return config.value is None and not (incremental and config.config_operation == _DELETE)


def _refusal(response: Any, resource: tuple[int, str], error: Error) -> Any:
    return response.AlterConfigsResourceResponse(
        error_code=error[0], error_message=error[1], resource_type=resource[0], resource_name=resource[1]
    )


APIS = (
    Api(ApiKey.ALTER_CONFIGS, decide_alter_configs, admin=True, forwarded=True),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, decide_incremental_alter_configs, admin=True, forwarded=True),
)
