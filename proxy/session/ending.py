"""Sessions that end without a request: past their end and idle, or because their credential was taken back.

Asked by proxy.net's sweeps, where the settings want it (connections.expired.close.idle,
sessions.revoke.immediately). By default only a session's next request, or its next login, ends it (KIP-368).
"""

from typing import TYPE_CHECKING

from proxy.audit.record import AuditEvent
from proxy.metadata.acl import PatternType
from proxy.security.authorizer import Action, Decision
from proxy.session.effects import Close, Effect, Recorded
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from proxy.session.session import Session

EXPIRED_IDLE, REVOKED = "session_expired_idle", "session_revoked"


def expired_idle(session: "Session", now_ms: int) -> list[Effect]:
    """The end of a session that is past its own, if it is and nothing is in flight on it."""
    authentication = session.authentication
    idle = not (len(session.pipeline) or session.blocked or authentication.under_way)
    if not idle or not authentication.expiry.is_over(now_ms):
        return []
    return _ended(session, EXPIRED_IDLE, "past the end of its session and idle")


def revoked(session: "Session") -> list[Effect]:
    """The end of a session whose credential is not in force any more, at once, whatever is in flight."""
    if session.closing or not session.authentication.revoked:
        return []
    return _ended(session, REVOKED, "the credential it logged in with was changed or removed")


def expired_midway(session: "Session") -> list[Effect]:
    """The end of a session that sends the last bytes of a request past its own end."""
    return _ended(session, "session_expired", "used past the end of its session without re-authentication")


def denied_midway(session: "Session", action: Action, decision: Decision) -> list[Effect]:
    """The end of a connection that may no longer send the request of which it sends the last bytes."""
    event = AuditEvent(
        event="authorization",
        method=ApiKey.name_of(ApiKey.PRODUCE),
        principal=str(session.authentication.principal),
        resource_type=action.resource_type.name,
        resource_name=action.resource_name,
        pattern_type=PatternType.LITERAL.name,
        operation=action.operation.name,
        granted=False,
        error_code=ErrorCode.NONE,
        rule=decision.rule,
        acl_id=decision.acl_id,
        message="denied before the last bytes of the request were sent on",
    )
    return [Recorded(session.complete(event)), *session.cut_off(Close("produce_denied"))]


def _ended(session: "Session", name: str, message: str) -> list[Effect]:
    authentication = session.authentication
    event = AuditEvent(
        event=name,
        principal=str(authentication.principal),
        mechanism=authentication.mechanism,
        error_code=ErrorCode.NONE,
        message=message,
    )
    return [Recorded(session.complete(event)), *session.cut_off(Close(name))]
