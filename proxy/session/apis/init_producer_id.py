"""InitProducerId (KIP-98, KIP-360, KIP-679): WRITE on the transactional id, if there is one.

Two-phase commit (KIP-939) needs TWO_PHASE_COMMIT on it too. A producer that is only idempotent needs
IDEMPOTENT_WRITE on the cluster, or WRITE on any topic at all; else it is CLUSTER_AUTHORIZATION_FAILED.
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
    if request.transactional_id is None:
        if _may_be_idempotent(call):
            return Forward()
        return denied(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    needed = [Operation.WRITE] + ([Operation.TWO_PHASE_COMMIT] if request.enable2_pc else [])
    for operation in needed:
        if not call.allows(operation, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            return denied(call, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return Forward()


def _may_be_idempotent(call: Call) -> bool:
    if call.shows(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, (CLUSTER_NAME,)):
        return True
    return call.allows_by_type(Operation.WRITE, ResourceType.TOPIC)


API = Api(ApiKey.INIT_PRODUCER_ID, decide)
