"""Log lines of audit events, with the same names as in the audit trail.

proxy.net.telemetry.event_metrics calls it for each event of a proxy, and the controller's process for its
own. Events that are counted or summarised have no line, nor have those that are logged elsewhere.
"""

from operator import attrgetter

import structlog

from proxy.audit.record import AuditEvent
from proxy.security.principal import ANONYMOUS

QUIET_EVENTS = frozenset(
    (
        "authorization_summary",
        "request_summary",
        "candidate_compared",
        "candidate_differs",
        "high_water",
        "checkpoint",
        "witnessed",
        "throttled",
        "quota_used",
        "quota_share",
        # Who records them logs them too.
        "own_topic",
        "configuration_changed",
        "settings_changed",
    )
)
WARNINGS = frozenset(
    (
        "authentication_failed",
        "reauthentication_failed",
        "authentication_incomplete",
        "session_expired",
        "session_revoked",
        "session_disconnected",
        "request_refused",
    )
)
LOGGED_FIELDS = (
    "connection_id",
    "listener",
    "host",
    "principal",
    "forwarding_principal",
    "client_id",
    "mechanism",
    "method",
    "api_version",
    "operation",
    "resource_type",
    "resource_name",
    "granted",
    "rule",
    "acl_id",
    "error_code",
    "forward_id",
    "last_offset",
    "session_lifetime_ms",
    "entity_path",
    "message",
    "count",
)
STRANGERS = (None, str(ANONYMOUS))
"""Principals of clients without a login: their lines are sampled (proxy.net.telemetry.log_lines)."""

log = structlog.get_logger(__name__)

_values = attrgetter(*LOGGED_FIELDS)


def log_event(event: AuditEvent) -> None:
    """Log an event, without empty fields; as a warning if it is a failure or a denial."""
    if event.event in QUIET_EVENTS:
        return
    known = {
        name: value for name, value in zip(LOGGED_FIELDS, _values(event), strict=True) if value is not None
    }
    failed = event.event in WARNINGS or event.granted is False
    (log.warning if failed else log.info)(event.event, **known, stranger=event.principal in STRANGERS)
