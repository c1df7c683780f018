"""Requests that need no right, so that no decision in the audit trail states them: they are recorded here.

Examples are a Metadata request for all topics, a token of one's own, a fetch session that does not exist.
Each administrative request is a record (`admin_request`), unless it only reads and was not rejected: any
client may describe its own tokens as often as it likes. Those and all others are counted (`request_summary`).
"""

from proxy.audit import events
from proxy.audit.classes import READS
from proxy.audit.record import AuditEvent
from proxy.session.accounting import response_errors
from proxy.session.call import Call, Forward, NameTopics, QueryBroker, QueryController, Respond, Verdict
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

_QUERIES = (QueryBroker, QueryController, NameTopics)  # A union would be built for each request.


def record(call: Call, verdict: Verdict) -> None:
    """Record or count a request that was decided without the authorizer; nothing for all others."""
    if call.is_recorded or call.events or call.counted or isinstance(verdict, _QUERIES):
        return
    if call.admin and not (ApiKey.name_of(call.api_key) in READS and _error_of(verdict) == ErrorCode.NONE):
        call.events.append(_event(call, verdict))
    elif not isinstance(verdict, Forward) or verdict.on_response is None:
        count(call)


def count(call: Call) -> None:
    """Count it, and its bytes, once."""
    call.client.unchecked(call.api_key, call.uncounted_bytes, call.now_ms)
    call.is_recorded, call.uncounted_bytes = True, 0


def count_responded(call: Call) -> None:
    """Count a request on whose response the handler might have decided, and did not."""
    if not (call.is_recorded or call.events or call.counted):
        count(call)


def _event(call: Call, verdict: Verdict) -> AuditEvent:
    # Recorded before it is carried out, as all administrative requests are: with its error if that is known.
    return events.admin_request(
        method=ApiKey.name_of(call.api_key),
        api_version=call.version,
        correlation_id=call.correlation_id,
        error_code=_error_of(verdict),
    )


def _error_of(verdict: Verdict) -> int | None:
    """None: there is no response yet."""
    if isinstance(verdict, Respond) and verdict.message is not None:
        return response_errors.error_of(verdict.message)
    return None
