"""Audit events in, log lines out: the same names in the log of a proxy, a controller and in the audit trail.

Called by proxy.net.telemetry.event_metrics and by the controller's process with each event. What is counted
or summarised, and what has a log line of its own already, gets none here.
"""

import structlog

from proxy.audit.record import AuditEvent
from proxy.security.principal import ANONYMOUS

QUIET_EVENTS = frozenset(
    (
        "authorization_summary",
        "request_summary",
        "high_water",
        "throttled",
        "quota_used",
        # Whoever loads a file logs what came of it.
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
"""Principals that anybody has: their lines are sampled (proxy.net.telemetry.log_lines)."""

log = structlog.get_logger(__name__)


def log_event(event: AuditEvent) -> None:
    """One line, without the fields that do not apply; a warning for what failed or was denied."""
    if event.event in QUIET_EVENTS:
        return
    known = {name: value for name in LOGGED_FIELDS if (value := getattr(event, name)) is not None}
    failed = event.event in WARNINGS or event.granted is False
    (log.warning if failed else log.info)(event.event, **known, stranger=event.principal in STRANGERS)
