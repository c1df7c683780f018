"""APIs that need one operation on the cluster and nothing else; denied, all of it is refused.

Which operation, and whether the controller carries it out (KIP-590), is the table below. Answers with
addresses of controllers lose them (SPEC O1): clients cannot reach those, and shall not.
"""

from collections.abc import Callable
from typing import Any

from proxy.metadata.acl import Operation
from proxy.security.protected import acls_in_log
from proxy.session.apis.acl_numbers import must_be_known
from proxy.session.apis.api import Api
from proxy.session.apis.refusal import denied, refused
from proxy.session.call import Call, Forward, ReplyHandler, ToTheController, Verdict
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

NO_AUTHORIZER_MESSAGE = "No Authorizer is configured."


def _asks_broker(
    operation: Operation, on_reply: ReplyHandler | None = None
) -> Callable[[Call, Any], Verdict]:
    def decide(call: Call, request: Any) -> Verdict:
        if not call.allows_cluster(operation):
            return denied(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return Forward(None, on_reply)

    return decide


def _asks_controller(operation: Operation) -> Callable[[Call, Any], Verdict]:
    def decide(call: Call, request: Any) -> Verdict:
        if not call.allows_cluster(operation):
            return denied(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return to_the_controller(request)

    return decide


def _alters_acls(call: Call, request: Any) -> Verdict:
    """ALTER on the cluster; without an authorizer there are no ACLs to alter."""
    must_be_known(request.creations if call.api_key == ApiKey.CREATE_ACLS else request.filters)
    if not call.allows_cluster(Operation.ALTER):
        return denied(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not acls_in_log(call.gate.authorizer):
        return refused(call, request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER_MESSAGE)
    return to_the_controller(request)


def to_the_controller(request: Any, on_reply: ReplyHandler | None = None) -> ToTheController:
    """With the request's own timeout where it has one: until then it may be tried again."""
    timeout_ms = getattr(request, "timeout_ms", None)
    if timeout_ms is None:
        return ToTheController(request, on_reply)
    return ToTheController(request, on_reply, timeout_ms)


def _hide_listeners(response: Any) -> None:
    for node in response.nodes:
        node.listeners = []


APIS = (
    Api(ApiKey.CREATE_ACLS, _alters_acls, admin=True, forwarded=True),
    Api(ApiKey.DELETE_ACLS, _alters_acls, admin=True, forwarded=True),
    *(
        Api(key, _asks_controller(operation), admin=True, forwarded=True)
        for key, operation in (
            (ApiKey.ALTER_CLIENT_QUOTAS, Operation.ALTER_CONFIGS),
            (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, Operation.ALTER),
            (ApiKey.ALTER_PARTITION_REASSIGNMENTS, Operation.ALTER),
            (ApiKey.ELECT_LEADERS, Operation.ALTER),
            (ApiKey.UPDATE_FEATURES, Operation.ALTER),
        )
    ),
    *(
        Api(key, _asks_broker(Operation.ALTER), admin=True, changes_at_broker=True)
        for key in (
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            ApiKey.UNREGISTER_BROKER,
            ApiKey.ADD_RAFT_VOTER,
            ApiKey.REMOVE_RAFT_VOTER,
        )
    ),
    Api(ApiKey.DESCRIBE_LOG_DIRS, _asks_broker(Operation.DESCRIBE)),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, _asks_broker(Operation.DESCRIBE)),
    Api(ApiKey.LIST_CONFIG_RESOURCES, _asks_broker(Operation.DESCRIBE_CONFIGS)),
    Api(ApiKey.DESCRIBE_QUORUM, _asks_broker(Operation.DESCRIBE, _hide_listeners)),
)
