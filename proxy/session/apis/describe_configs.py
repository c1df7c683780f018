"""DescribeConfigs (KIP-133, KIP-412, KIP-714): DESCRIBE_CONFIGS on the topic, the group or the cluster.

Brokers, their loggers and client metrics stand under the cluster. Denied resources carry the error of their
kind. A resource of a type that nobody knows fails the whole request, as at a broker.
"""

from typing import Any

from proxy.metadata.acl import Operation
from proxy.session.apis.api import Api
from proxy.session.apis.config_resources import config_kind, resource_key
from proxy.session.apis.order import in_request_order
from proxy.session.apis.refusal import MESSAGES, refused
from proxy.session.call import CLUSTER_NAME, Answer, Call, Forward, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    unknown = [r.resource_type for r in request.resources if config_kind(r.resource_type) is None]
    if unknown:
        message = f"No config resource is of type {unknown[0]}."
        return refused(call, request, ErrorCode.INVALID_REQUEST, message)
    asked = [resource_key(resource) for resource in request.resources]
    errors = {resource: _error(call, resource) for resource in dict.fromkeys(asked)}
    denials = [_denial(resource, code) for resource in asked if (code := errors[resource]) is not None]
    if not denials:
        return Forward()
    request.resources = [r for r in request.resources if errors[resource_key(r)] is None]
    if not request.resources:
        return Answer(types.DescribeConfigsResponse(results=denials))

    def on_reply(response: Any) -> None:
        response.results = in_request_order(asked, [*response.results, *denials], resource_key)

    return Forward(request, on_reply)


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
