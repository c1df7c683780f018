"""AddOffsetsToTxn and EndTxn (KIP-98): WRITE on the transactional id, READ on a group that is added.

Denied, the whole request is TRANSACTIONAL_ID_AUTHORIZATION_FAILED or GROUP_AUTHORIZATION_FAILED.
"""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.refusal import denied
from proxy.session.call import Answer, Call, Forward, Verdict
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def decide_add_offsets(call: Call, request: Any) -> Verdict:
    """AddOffsetsToTxn."""
    return refused_to_commit(call, request) or Forward()


def decide_end(call: Call, request: Any) -> Verdict:
    """EndTxn."""
    if not call.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return denied(call, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return Forward()


def refused_to_commit(call: Call, request: Any) -> Answer | None:
    """The refusal of a request that brings a group's offsets into a transaction; None: both are allowed."""
    if not call.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return denied(call, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return denied(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return None


APIS = (
    Api(ApiKey.ADD_OFFSETS_TO_TXN, decide_add_offsets),
    Api(ApiKey.END_TXN, decide_end),
)
