"""FindCoordinator (KIP-699: several keys from v4): DESCRIBE on the group or the transactional id.

Share coordinators (KIP-932) need CLUSTER_ACTION; without it the whole request is rejected. Coordinators have
the addresses of their proxies; one without an address is reported as not available.
"""

from __future__ import annotations

from typing import TypedDict

from proxy.admin.rejection import Error, in_request_order
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.addresses import NO_HOST, NO_NODE, NO_PORT, rewrite_coordinator
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


def decide(call: Call, request: types.FindCoordinatorRequest) -> Verdict:
    """Decide a FindCoordinator request."""
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
    rejected = [_rejected_key(key, error_code) for key in requested if key not in allowed]

    def on_response(response: types.FindCoordinatorResponse) -> None:
        _rewrite(call, response)
        parts = [*response.coordinators, *rejected]
        response.coordinators = in_request_order(requested, parts, lambda coordinator: coordinator.key)

    if not rejected:
        return Forward(None, on_response)
    keys = [key for key in requested if key in allowed]
    if not keys:
        return Respond(types.FindCoordinatorResponse(coordinators=rejected))
    return Forward(
        types.FindCoordinatorRequest(key_type=request.key_type, coordinator_keys=keys), on_response
    )


def _rejected_key(key: str, error_code: ErrorCode) -> types.FindCoordinatorResponse.Coordinator:
    return types.FindCoordinatorResponse.Coordinator(
        key=key, error_code=error_code, node_id=NO_NODE, host=NO_HOST, port=NO_PORT
    )


def _rewrite(call: Call, response: types.FindCoordinatorResponse) -> None:
    if call.version < _FIRST_WITH_KEYS:
        rewrite_coordinator(call.listener, response)
    for coordinator in response.coordinators:
        rewrite_coordinator(call.listener, coordinator)


class Nowhere(TypedDict):
    """The fields of a response without an address."""

    node_id: int
    host: str
    port: int


def _reject(
    version: int, request: types.FindCoordinatorRequest, error: Error
) -> types.FindCoordinatorResponse:
    nowhere = Nowhere(node_id=NO_NODE, host=NO_HOST, port=NO_PORT)
    response = types.FindCoordinatorResponse
    if version < 4:
        return response(**error, **nowhere)
    return response(
        coordinators=[response.Coordinator(key=key, **error, **nowhere) for key in request.coordinator_keys]
    )


APIS = (Api(ApiKey.FIND_COORDINATOR, decide, _reject, repeatable=True),)
