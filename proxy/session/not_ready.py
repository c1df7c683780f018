"""Requests that come when none can be served: before the metadata log has been loaded, or without an audit.

Asked by proxy.session.session. A listener may open early (KIP-801): while there is no image super users are
served, all others get the whole request refused. Kafka gave AUTHORIZER_NOT_READY no number, so clients see
UNKNOWN_SERVER_ERROR; the name stands in the message where the API has one. The same where the audit trail
has no room for records of a class that must not be missing (audit.policy).
"""

from typing import Any

from proxy.audit.classes import DENIAL, SUMMARY
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.security.authorizer import NOT_READY, Action
from proxy.session import fetch, produce
from proxy.session.apis.table import rejection
from proxy.session.call import Answer, Call
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

MESSAGE = "AUTHORIZER_NOT_READY"
UNRECORDED = "The audit trail takes no records, and this proxy serves nothing that it cannot record."
UNRECORDED_CLASSES = frozenset((SUMMARY, DENIAL))
"""Any request may turn out to be one that is denied."""

_PROBE = Action(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)


def answer(call: Call, request: Any) -> Answer | None:
    """The refusal, written down where there is room for it; None for those who are served all the same."""
    if not call.admin and not UNRECORDED_CLASSES.isdisjoint(call.gate.unrecorded):
        return refused(call.api_key, call.version, request, ErrorCode.UNKNOWN_SERVER_ERROR, UNRECORDED)
    if call.api is not None and call.gate.refuses_changes and call.api.changes_at_broker:
        return refused(call.api_key, call.version, request, ErrorCode.UNKNOWN_SERVER_ERROR, UNRECORDED)
    if call.context.image is not None:
        return None
    decision = call.basis.authorizer.authorize(call.context, [_PROBE])[0]
    if decision.rule != NOT_READY:
        return None
    call.note(_PROBE, decision)
    return refused(call.api_key, call.version, request, ErrorCode.UNKNOWN_SERVER_ERROR, MESSAGE)


def refused(api_key: int, version: int, request: Any, error_code: ErrorCode, message: str) -> Answer:
    """All of a request refused, Produce and Fetch too; KeyError for an API that is not treated here."""
    if api_key == ApiKey.PRODUCE:
        return produce.refuse_all(request, error_code, message)
    if api_key == ApiKey.FETCH:
        return fetch.refuse_all(request, error_code)
    return Answer(rejection(api_key, version, request, error_code, message))
