"""DescribeCluster, FindCoordinator, GetTelemetrySubscriptions and PushTelemetry: brokers, and which to use.

    DescribeCluster (KIP-700, KIP-919, KIP-1073)  no right; authorized operations need DESCRIBE
    FindCoordinator (KIP-699: several keys)       DESCRIBE on the group or the transactional id
    the telemetry APIs (KIP-714)                  no right, as at a broker

Brokers and coordinators have the addresses of their proxies; a coordinator without an address is reported as
not available. To a DescribeCluster for controllers the broker responds that it is no endpoint of controllers.
Share coordinators (KIP-932) need CLUSTER_ACTION; without it the whole request is rejected. The telemetry APIs
are forwarded unchanged: a broker advertises them only if it has a receiver for clients' metrics.
"""

from __future__ import annotations

from proxy.admin.rejection import MESSAGES, Error, code_and_message, code_only, in_request_order
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.addresses import (
    NO_HOST,
    NO_NODE,
    NO_PORT,
    controller_id,
    rewrite_brokers,
    rewrite_coordinator,
)
from proxy.session.apis.authorized_operations import NOT_REQUESTED, of_cluster
from proxy.session.call import Api, Call, Forward, Respond, Verdict, deny, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

_SHARE = 2
_KEY_TYPES = {
    0: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    1: (ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
_FIRST_WITH_KEYS = 4
_FIRST_WITH_SHARE = 6


def decide_describe(call: Call, request: types.DescribeClusterRequest) -> Verdict:
    requested = request.include_cluster_authorized_operations

    def on_response(response: types.DescribeClusterResponse) -> None:
        response.brokers = rewrite_brokers(call.listener, response.brokers)
        response.controller_id = controller_id(
            response.controller_id, [b.broker_id for b in response.brokers]
        )
        is_included = requested and response.error_code == ErrorCode.NONE
        response.cluster_authorized_operations = of_cluster(call) if is_included else NOT_REQUESTED

    return Forward(None, on_response)


def decide_find(call: Call, request: types.FindCoordinatorRequest) -> Verdict:
    if request.key_type == _SHARE:
        return _share(call, request)
    if request.key_type not in _KEY_TYPES:
        return reject(call, request, ErrorCode.INVALID_REQUEST)
    resource_type, error_code = _KEY_TYPES[request.key_type]
    if call.version < _FIRST_WITH_KEYS:
        if not call.allows(Operation.DESCRIBE, resource_type, request.key):
            return deny(call, request, error_code)
        return Forward(None, lambda response: _rewrite(call, response))
    allowed = call.allowed_names(Operation.DESCRIBE, resource_type, request.coordinator_keys)
    return _several(call, request, allowed, error_code)


def _share(call: Call, request: types.FindCoordinatorRequest) -> Verdict:
    if call.version < _FIRST_WITH_SHARE:
        return reject(call, request, ErrorCode.INVALID_REQUEST)
    if not call.allows_cluster(Operation.CLUSTER_ACTION):
        return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return Forward(None, lambda response: _rewrite(call, response))


def _several(
    call: Call, request: types.FindCoordinatorRequest, allowed: set[str], error_code: ErrorCode
) -> Verdict:
    requested = request.coordinator_keys
    rejected = [
        types.FindCoordinatorResponse.Coordinator(
            key=key, error_code=error_code, node_id=NO_NODE, host=NO_HOST, port=NO_PORT
        )
        for key in requested
        if key not in allowed
    ]

    def on_response(response: types.FindCoordinatorResponse) -> None:
        _rewrite(call, response)
        parts = [*response.coordinators, *rejected]
        response.coordinators = in_request_order(requested, parts, lambda coordinator: coordinator.key)

    if not rejected:
        return Forward(None, on_response)
    request.coordinator_keys = [key for key in requested if key in allowed]
    if not request.coordinator_keys:
        return Respond(types.FindCoordinatorResponse(coordinators=rejected))
    return Forward(request, on_response)


def _rewrite(call: Call, response: types.FindCoordinatorResponse) -> None:
    if call.version < _FIRST_WITH_KEYS:
        rewrite_coordinator(call.listener, response)
    for coordinator in response.coordinators:
        rewrite_coordinator(call.listener, coordinator)


def _reject(
    version: int, request: types.FindCoordinatorRequest, error: Error
) -> types.FindCoordinatorResponse:
    response = types.FindCoordinatorResponse
    code = error["error_code"]
    if version < _FIRST_WITH_KEYS:
        # As in Kafka, these versions have the text of the code, whatever the reason.
        message = MESSAGES.get(ErrorCode(code), error["error_message"])
        return response(error_code=code, error_message=message, node_id=NO_NODE, host=NO_HOST, port=NO_PORT)
    return response(
        coordinators=[
            response.Coordinator(key=key, node_id=NO_NODE, host=NO_HOST, port=NO_PORT, **error)
            for key in request.coordinator_keys
        ]
    )


APIS = (
    Api(
        ApiKey.DESCRIBE_CLUSTER, decide_describe, code_and_message("DescribeClusterResponse"), repeatable=True
    ),
    Api(ApiKey.FIND_COORDINATOR, decide_find, _reject, repeatable=True),
    Api(
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        lambda _call, _request: Forward(),
        code_only("GetTelemetrySubscriptionsResponse"),
        repeatable=True,
    ),
    Api(
        ApiKey.PUSH_TELEMETRY,
        lambda _call, _request: Forward(),
        code_only("PushTelemetryResponse"),
        repeatable=True,
    ),
)
