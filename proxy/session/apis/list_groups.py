"""ListGroups (KIP-518): DESCRIBE on the cluster shows all groups, otherwise those with DESCRIBE on them."""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.call import CLUSTER_NAME, Call, Forward, Verdict
from proxy.wire.api_keys import ApiKey


def decide(call: Call, request: Any) -> Verdict:
    """Nothing is refused; what may not be described is left out of the answer."""
    if call.shows(Operation.DESCRIBE, ResourceType.CLUSTER, (CLUSTER_NAME,)):
        return Forward()

    def on_reply(response: Any) -> None:
        group_ids = [group.group_id for group in response.groups]
        shown = call.shows(Operation.DESCRIBE, ResourceType.GROUP, group_ids)
        response.groups = [group for group in response.groups if group.group_id in shown]

    return Forward(None, on_reply)


API = Api(ApiKey.LIST_GROUPS, decide)
