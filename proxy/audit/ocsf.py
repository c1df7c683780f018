"""What each event is in OCSF, the Open Cybersecurity Schema Framework (1.x): class, activity, status.

For whoever feeds a security lake: docs/audit.md shows this table, and a test holds the two together. Activity
ids are those of the class; 99 is "Other", which then needs a name. Nothing here is in the records themselves.
"""

from dataclasses import dataclass

from proxy.audit.record import AuditEvent

ACCOUNT_CHANGE, AUTHENTICATION, APPLICATION_LIFECYCLE, API_ACTIVITY = 3001, 3002, 6002, 6003
CLASSES = {
    ACCOUNT_CHANGE: "Account Change",
    AUTHENTICATION: "Authentication",
    APPLICATION_LIFECYCLE: "Application Lifecycle",
    API_ACTIVITY: "API Activity",
}
SUCCESS, FAILURE, OTHER_STATUS = 1, 2, 99
INFORMATIONAL, LOW, MEDIUM, HIGH = 1, 2, 3, 4
OTHER = 99


@dataclass(frozen=True, slots=True)
class Ocsf:
    """`type_uid` of the OCSF event is class_uid * 100 + activity_id."""

    class_uid: int
    activity_id: int
    activity_name: str
    status_id: int | None
    """None: by the record: FAILURE where `granted` is false or `error_code` is not 0."""
    severity_id: int


_BY_EVENT = {
    "started": Ocsf(APPLICATION_LIFECYCLE, 3, "Start", SUCCESS, INFORMATIONAL),
    "stopped": Ocsf(APPLICATION_LIFECYCLE, 4, "Stop", SUCCESS, INFORMATIONAL),
    "high_water": Ocsf(APPLICATION_LIFECYCLE, OTHER, "High water", SUCCESS, INFORMATIONAL),
    "records_dropped": Ocsf(APPLICATION_LIFECYCLE, OTHER, "Records dropped", FAILURE, HIGH),
    "configuration_changed": Ocsf(APPLICATION_LIFECYCLE, OTHER, "Configuration changed", None, LOW),
    "authentication": Ocsf(AUTHENTICATION, 1, "Logon", SUCCESS, INFORMATIONAL),
    "reauthentication": Ocsf(AUTHENTICATION, 1, "Logon", SUCCESS, INFORMATIONAL),
    "authentication_failed": Ocsf(AUTHENTICATION, 1, "Logon", FAILURE, MEDIUM),
    "reauthentication_failed": Ocsf(AUTHENTICATION, 1, "Logon", FAILURE, MEDIUM),
    "session_expired": Ocsf(AUTHENTICATION, 2, "Logoff", SUCCESS, LOW),
    "session_expired_idle": Ocsf(AUTHENTICATION, 2, "Logoff", SUCCESS, INFORMATIONAL),
    "session_revoked": Ocsf(AUTHENTICATION, 2, "Logoff", SUCCESS, LOW),
    "authorization": Ocsf(API_ACTIVITY, OTHER, "", None, INFORMATIONAL),
    "authorization_summary": Ocsf(API_ACTIVITY, OTHER, "", SUCCESS, INFORMATIONAL),
    "authorization_collapsed": Ocsf(API_ACTIVITY, OTHER, "", FAILURE, MEDIUM),
    "request_refused": Ocsf(API_ACTIVITY, OTHER, "Refuse", FAILURE, MEDIUM),
    "forwarded": Ocsf(API_ACTIVITY, OTHER, "", None, INFORMATIONAL),
    "forwarded_received": Ocsf(API_ACTIVITY, OTHER, "", None, INFORMATIONAL),
    "quota_changed": Ocsf(API_ACTIVITY, 3, "Update", SUCCESS, INFORMATIONAL),
    "tokens_expired": Ocsf(API_ACTIVITY, 4, "Delete", SUCCESS, INFORMATIONAL),
    "topics_gone": Ocsf(API_ACTIVITY, 4, "Delete", SUCCESS, INFORMATIONAL),
    "throttled": Ocsf(API_ACTIVITY, OTHER, "Throttle", OTHER_STATUS, LOW),
}
EVENTS = tuple(_BY_EVENT)

_CREATE, _READ, _UPDATE, _DELETE = (1, "Create"), (2, "Read"), (3, "Update"), (4, "Delete")
_BY_VERB = {
    "Create": _CREATE,
    "Add": _CREATE,
    "Produce": _CREATE,
    "Init": _CREATE,
    "Fetch": _READ,
    "List": _READ,
    "Describe": _READ,
    "Find": _READ,
    "Metadata": _READ,
    "Get": _READ,
    "ShareFetch": _READ,
    "OffsetFetch": _READ,
    "ConsumerGroupDescribe": _READ,
    "Alter": _UPDATE,
    "Incremental": _UPDATE,
    "Update": _UPDATE,
    "Renew": _UPDATE,
    "Elect": _UPDATE,
    "Offset": _UPDATE,
    "Delete": _DELETE,
    "Expire": _DELETE,
    "Remove": _DELETE,
}
"""The beginning of an API's name -> activity of API Activity; the longest that fits."""

_ACCOUNTS = {
    "AlterUserScramCredentials": (ACCOUNT_CHANGE, 3, "Password Change"),
    "CreateDelegationToken": (ACCOUNT_CHANGE, 1, "Create"),
    "RenewDelegationToken": (ACCOUNT_CHANGE, OTHER, "Renew"),
    "ExpireDelegationToken": (ACCOUNT_CHANGE, 6, "Delete"),
    "CreateAcls": (ACCOUNT_CHANGE, 7, "Attach Policy"),
    "DeleteAcls": (ACCOUNT_CHANGE, 8, "Detach Policy"),
}
"""What is done to credentials and rights of users, once the controller has done it."""


def ocsf_of(event: AuditEvent) -> Ocsf:
    """KeyError for an event that the table does not have."""
    entry = _BY_EVENT[event.event]
    class_uid, activity_id, name = entry.class_uid, entry.activity_id, entry.activity_name
    if event.event == "forwarded_received" and event.method in _ACCOUNTS:
        class_uid, activity_id, name = _ACCOUNTS[event.method]
    elif not name:
        activity_id, name = _activity(event.method or "")
    status = _status(event) if entry.status_id is None else entry.status_id
    denied = event.granted is False
    return Ocsf(class_uid, activity_id, name, status, MEDIUM if denied else entry.severity_id)


def _activity(method: str) -> tuple[int, str]:
    fitting = [verb for verb in _BY_VERB if method.startswith(verb)]
    return _BY_VERB[max(fitting, key=len)] if fitting else (OTHER, method)


def _status(event: AuditEvent) -> int:
    told = event.settings or {}
    failed = event.granted is False or bool(event.error_code) or told.get("outcome") == "failed"
    return FAILURE if failed else SUCCESS
