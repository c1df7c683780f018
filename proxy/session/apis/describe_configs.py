"""DescribeConfigs (KIP-133, KIP-412, KIP-714): DESCRIBE_CONFIGS on the topic, the group or the cluster.

Brokers, their loggers and client metrics stand under the cluster. Denied resources carry the error of their
kind. A resource of a type that nobody knows fails the whole request, as at a broker. Owner and ACLs of
a topic, which no broker knows, are told with its other configs (kept_configs.py).
"""

from typing import Any

from proxy.metadata.acl import Operation
from proxy.security.protected import acls_in_log
from proxy.session.apis.api import Api
from proxy.session.apis.config_resources import TOPIC, config_kind, resource_key
from proxy.session.apis.kept_configs import described, kept_configs
from proxy.session.apis.order import in_request_order
from proxy.session.apis.refusal import MESSAGES, refused
from proxy.session.call import CLUSTER_NAME, Answer, Call, Forward, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    unknown = [r.resource_type for r in request.resources if config_kind(r.resource_type) is None]
    if unknown:
        message = f"No config resource is of type {unknown[0]}."
        return refused(call, request, ErrorCode.INVALID_REQUEST, message)
    asked = [resource_key(resource) for resource in paced(request.resources)]
    errors = {resource: _error(call, resource) for resource in dict.fromkeys(asked)}
    denials = [_denial(resource, code) for resource in paced(asked) if (code := errors[resource]) is not None]
    kept = _kept(call, [resource for resource, code in paced(list(errors.items())) if code is None])
    if not denials and not kept:
        return Forward()
    wanted = {
        resource_key(resource): resource.configuration_keys or None for resource in paced(request.resources)
    }
    request.resources = [r for r in paced(request.resources) if errors[resource_key(r)] is None]
    if not request.resources:
        return Answer(types.DescribeConfigsResponse(results=denials))

    def on_reply(response: Any) -> None:
        for result in paced(response.results, 4):
            key = resource_key(result)
            if result.error_code == ErrorCode.NONE and key in kept:
                result.configs = [
                    *result.configs,
                    *described(
                        kept[key], wanted[key], request.include_synonyms, request.include_documentation
                    ),
                ]
        response.results = in_request_order(asked, [*response.results, *denials], resource_key)

    return Forward(request if denials else None, on_reply)


def _kept(call: Call, resources: list[tuple[int, str]]) -> dict[tuple[int, str], dict[str, str]]:
    """What we keep of each topic, where we keep anything of topics at all."""
    if not call.gate.keeps_topic_configs or not acls_in_log(call.gate.authorizer):
        return {}
    found = {
        resource: kept_configs(call.image, resource[1]) for resource in resources if resource[0] == TOPIC
    }
    return {resource: configs for resource, configs in found.items() if configs}


def _error(call: Call, resource: tuple[int, str]) -> ErrorCode | None:
    kind = config_kind(resource[0])
    assert kind is not None
    name = CLUSTER_NAME if kind.by_cluster else resource[1]
    return None if call.allows(Operation.DESCRIBE_CONFIGS, kind.resource_type, name) else kind.error_code


def _denial(resource: tuple[int, str], error_code: ErrorCode) -> Any:
    return types.DescribeConfigsResponse.DescribeConfigsResult(
        error_code=error_code,
        error_message=MESSAGES[error_code],
        resource_type=resource[0],
        resource_name=resource[1],
    )


API = Api(ApiKey.DESCRIBE_CONFIGS, decide)
