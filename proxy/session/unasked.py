"""Requests that ask for no right: none of the decisions in the trail tells of them, so they are told here.

All topics of a Metadata, a token of one's own, a fetch session that is not there. Each administrative request
is a record (`admin_request`), unless it only reads and was not rejected: anybody may describe his own tokens
as often as he likes. Those and all others are counted (`request_summary`). Part of proxy.session.session.
"""

from proxy.audit.classes import READS
from proxy.audit.record import AuditEvent
from proxy.session import outcome
from proxy.session.call import Answer, Ask, AskController, Call, Forward, LookUp, Verdict
from proxy.session.client_state import ClientState
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

_QUESTIONS = (Ask, AskController, LookUp)


def tell(call: Call, verdict: Verdict, client: ClientState) -> None:
    """Of a request that was decided on, without a decision of the authorizer."""
    if call.is_told or call.events or call.counted or isinstance(verdict, _QUESTIONS):
        return
    if call.admin and not (ApiKey.name_of(call.api_key) in READS and _error_of(verdict) == ErrorCode.NONE):
        call.events.append(_event(call, verdict))
    elif not isinstance(verdict, Forward) or verdict.on_reply is None:
        count(call, client)


def count(call: Call, client: ClientState) -> None:
    """Once; its bytes were told nowhere."""
    client.asked_no_right(call.api_key, call.untold_bytes, call.now_ms)
    call.is_told, call.untold_bytes = True, 0


def tell_answered(call: Call, client: ClientState) -> None:
    """Of a request whose answer might have been decided on, and was not."""
    if not (call.is_told or call.events or call.counted):
        count(call, client)


def _event(call: Call, verdict: Verdict) -> AuditEvent:
    """Before it is carried out, as all administrative requests: with the outcome where it is known."""
    return AuditEvent(
        event="admin_request",
        method=ApiKey.name_of(call.api_key),
        api_version=call.version,
        correlation_id=call.correlation_id,
        error_code=_error_of(verdict),
    )


def _error_of(verdict: Verdict) -> int | None:
    """None: there is no answer yet."""
    if isinstance(verdict, Answer) and verdict.message is not None:
        return outcome.error_of(verdict.message)
    return None
