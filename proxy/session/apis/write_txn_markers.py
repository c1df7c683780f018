"""WriteTxnMarkers (KIP-98, KIP-664): ALTER on the cluster, or CLUSTER_ACTION.

Brokers send it to each other; an administrator ends a hanging transaction with it (kafka-transactions abort).
Denied, every partition is CLUSTER_AUTHORIZATION_FAILED. A request that names one of Penstock's own topics is
denied as a whole, with TOPIC_AUTHORIZATION_FAILED: a marker there could end a transaction of the controller.
"""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.refusal import denied
from proxy.session.call import CLUSTER_NAME, Call, Forward, Verdict
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    may_alter = call.shows(Operation.ALTER, ResourceType.CLUSTER, (CLUSTER_NAME,))
    if not call.allows_cluster(Operation.ALTER if may_alter else Operation.CLUSTER_ACTION):
        return denied(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    names = [topic.name for marker in request.markers for topic in marker.topics]
    if not call.within_cluster_right(Operation.WRITE, ResourceType.TOPIC, names).issuperset(names):
        return denied(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return Forward()


API = Api(ApiKey.WRITE_TXN_MARKERS, decide, admin=True, changes_at_broker=True)
