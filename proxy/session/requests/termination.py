"""Why a session ends without a request of its own: drained, expired while idle, revoked, or in the middle of
one: denied or malformed at its last bytes.

By default only a session's next request, or its next login, ends it (KIP-368);
`connections.expired.close.idle` and `sessions.revoke.immediately` end it earlier. A session drains when its
process stops (docs/decisions/0049): what was sent on gets its response, and what the client has sent beyond
that is discarded. The broker never sees it, so a client that retries it doubles nothing.
"""

from collections.abc import Callable, Iterable

from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.metadata.acl import PatternType
from proxy.security.authorizer import Action, Decision
from proxy.session.apis.table import REPEATABLE as REPEATABLE_APIS
from proxy.session.authentication import Authentication
from proxy.session.effects import Close, Recorded
from proxy.session.in_flight import InFlight
from proxy.session.plan import CutOff, Plan
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

DRAINED, EXPIRED_IDLE, REVOKED = "drained", "session_expired_idle", "session_revoked"
DISCONNECTED = "session_disconnected"

_REPEATABLE = REPEATABLE_APIS | {ApiKey.FETCH, ApiKey.API_VERSIONS}
"""Requests that a client repeats on its next connection as if nothing had happened: they need no response.

The broker may hold some for as long as the client allows (Fetch, JoinGroup). A session that drains waits for
the response to every other request, since its client could not know whether it was carried out.
"""


def expired_idle(authentication: Authentication) -> Plan:
    """The session is past its end, and idle."""
    message = "past the end of its session and idle"
    return _ended(events.session_expired_idle, authentication, message, EXPIRED_IDLE)


def revoked(authentication: Authentication, reason: str) -> Plan:
    """The credential is not in effect any more: the session ends at once, whatever is in flight."""
    return _ended(events.session_revoked, authentication, reason, REVOKED)


def disconnected(authentication: Authentication, message: str) -> Plan:
    """An administrator ends the session: at once, whatever is in flight."""
    event = events.session_disconnected(mechanism=authentication.mechanism, message=message)
    return [Recorded(event), CutOff(Close(DISCONNECTED))]


def expired_midway(authentication: Authentication) -> Plan:
    """The last bytes of a request came past the end of the session."""
    message = "used past the end of its session without re-authentication"
    return _ended(events.session_expired, authentication, message, "session_expired")


def _ended(
    record: Callable[..., AuditEvent], authentication: Authentication, message: str, reason: str
) -> Plan:
    event = record(
        principal=str(authentication.principal),
        mechanism=authentication.mechanism,
        error_code=ErrorCode.NONE,
        message=message,
    )
    return [Recorded(event), CutOff(Close(reason))]


def denied_midway(authentication: Authentication, action: Action, decision: Decision) -> Plan:
    """The client is no longer allowed to send the Produce request whose last bytes came now."""
    event = events.authorization(
        method=ApiKey.name_of(ApiKey.PRODUCE),
        principal=str(authentication.principal),
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
    return [Recorded(event), CutOff(Close("produce_denied"))]


def malformed_midway() -> Plan:
    """The last bytes of a Produce request do not end it: the broker never gets them."""
    name = ApiKey.name_of(ApiKey.PRODUCE)
    message = f"{name}: the request does not end with three empty sections of tagged fields"
    event = events.request_refused(method=name, granted=False, message=message)
    return [Recorded(event), CutOff(Close("malformed_request", message))]


def are_repeatable(in_flight: Iterable[InFlight], incomplete: InFlight | None) -> bool:
    """Whether a client that gets no response to these requests loses nothing but time.

    `incomplete`: a Produce request of which the broker does not have all bytes, so it will not carry it out.
    """
    return all(entry.api_key in _REPEATABLE or entry is incomplete for entry in in_flight)
