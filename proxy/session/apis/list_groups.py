"""ListGroups (KIP-518): DESCRIBE on the cluster shows all groups, otherwise those with DESCRIBE on them.

The group of Penstock's own controllers is shown to super users only.
"""

from collections.abc import Callable
from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.security.protected import protected_names
from proxy.session.apis.api import Api
from proxy.session.call import CLUSTER_NAME, Call, Forward, Verdict
from proxy.wire.api_keys import ApiKey


def decide(call: Call, request: Any) -> Verdict:
    """Nothing is refused; what may not be described is left out of the answer."""
    if not call.shows(Operation.DESCRIBE, ResourceType.CLUSTER, (CLUSTER_NAME,)):
        return _shown(lambda names: call.shows(Operation.DESCRIBE, ResourceType.GROUP, names))
    own = protected_names(call.gate.authorizer, ResourceType.GROUP)
    hidden = own - call.shows(Operation.DESCRIBE, ResourceType.GROUP, own)
    return _shown(lambda names: set(names) - hidden) if hidden else Forward()


def _shown(may_see: Callable[[list[str]], set[str]]) -> Forward:
    def on_reply(response: Any) -> None:
        shown = may_see([group.group_id for group in response.groups])
        response.groups = [group for group in response.groups if group.group_id in shown]

    return Forward(None, on_reply)


API = Api(ApiKey.LIST_GROUPS, decide)
