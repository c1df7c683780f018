"""DescribeCluster (KIP-700, KIP-919, KIP-1073): no right is needed; authorized operations need DESCRIBE.

Brokers have the addresses of their proxies. To a request for controllers the broker responds that it is no
endpoint of controllers.
"""

from __future__ import annotations

from proxy.admin.rejection import code_and_message
from proxy.session.apis.addresses import controller_id, rewrite_brokers
from proxy.session.apis.authorized_operations import NOT_REQUESTED, of_cluster
from proxy.session.call import Api, Call, Forward, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def decide(call: Call, request: types.DescribeClusterRequest) -> Verdict:
    """Decide a DescribeCluster request."""
    requested = request.include_cluster_authorized_operations

    def on_response(response: types.DescribeClusterResponse) -> None:
        response.brokers = rewrite_brokers(call.listener, response.brokers)
        response.controller_id = controller_id(
            response.controller_id, [b.broker_id for b in response.brokers]
        )
        is_included = requested and response.error_code == ErrorCode.NONE
        response.cluster_authorized_operations = of_cluster(call) if is_included else NOT_REQUESTED

    return Forward(None, on_response)


APIS = (Api(ApiKey.DESCRIBE_CLUSTER, decide, code_and_message("DescribeClusterResponse"), repeatable=True),)
