"""Which class an event belongs to: what becomes of it when the trail has no room is decided by class.

Asked by proxy.net.audit_log for each event, and by the metrics. Knows nothing of spools.
"""

from proxy.audit.record import AuditEvent

ADMIN = "admin"
"""What changes the cluster or the process's own settings, and who asked for it."""
DENIAL = "denial"
AUTHENTICATION = "authentication"
"""Logins, and sessions that ended because of one."""
SUMMARY = "summary"
"""Counted traffic, what is told from time to time, and what an administrator has only read."""
PROCESS = "process"
"""The begin, the end and the settings of a boot: a few records, without which the others cannot be read."""

CLASSES = (ADMIN, DENIAL, AUTHENTICATION, SUMMARY)
"""Those that have a policy; there is always room for PROCESS."""

READS = frozenset(
    (
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeDelegationToken",
        "DescribeUserScramCredentials",
        "InitProducerId",
    )
)
"""APIs whose allowed actions are recorded one by one though they change nothing of the cluster's."""

_BY_EVENT = {
    "started": PROCESS,
    "stopped": PROCESS,
    "settings_changed": PROCESS,
    "records_dropped": PROCESS,
    "high_water": SUMMARY,
    "authentication": AUTHENTICATION,
    "authentication_failed": AUTHENTICATION,
    "authentication_incomplete": AUTHENTICATION,
    "reauthentication": AUTHENTICATION,
    "reauthentication_failed": AUTHENTICATION,
    "session_expired": AUTHENTICATION,
    "session_expired_idle": AUTHENTICATION,
    "session_revoked": AUTHENTICATION,
    "authorization_summary": SUMMARY,
    "authentication_collapsed": AUTHENTICATION,
    "request_collapsed": DENIAL,
    "request_refused": DENIAL,
    "request_summary": SUMMARY,
    "admin_request": ADMIN,
    "forwarded": ADMIN,
    "forwarded_received": ADMIN,
    "quota_changed": ADMIN,
    "tokens_expired": ADMIN,
    "topics_gone": ADMIN,
    "configuration_changed": ADMIN,
    "throttled": SUMMARY,
    "quota_used": SUMMARY,
}

EVENTS = (*_BY_EVENT, "authorization", "authorization_collapsed")
"""All there are."""


def class_of(event: AuditEvent) -> str:
    """An event that has no line above is kept like an administrator's."""
    if event.event in ("authorization", "authorization_collapsed"):
        if not event.granted:
            return DENIAL
        # Granted ones are recorded one by one where the request is an administrative one.
        return SUMMARY if event.method in READS else ADMIN
    if event.event == "admin_request" and event.error_code:
        return DENIAL
    return _BY_EVENT.get(event.event, ADMIN)
