"""What each event is in OCSF, the Open Cybersecurity Schema Framework: class, activity, status, attributes.

For whoever feeds a security lake: docs/audit.md shows these tables, and tests hold them to that page and to
the ids, enums and required attributes of the published schema. Activity ids are those of the class; 99 is
"Other", which then needs a name. Nothing here is in the records themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from proxy.audit.record import AuditEvent

SCHEMA_VERSION = "1.8.0"
"""`metadata.version`: the release whose ids these are."""
PROFILES = ("security_control",)
"""`metadata.profiles`: where `action_id` and `authorizations` come from."""
AUTHENTICATION, ENTITY_MANAGEMENT, APPLICATION_LIFECYCLE, API_ACTIVITY = 3002, 3004, 6002, 6003
CLASSES = {
    AUTHENTICATION: "Authentication",
    ENTITY_MANAGEMENT: "Entity Management",
    APPLICATION_LIFECYCLE: "Application Lifecycle",
    API_ACTIVITY: "API Activity",
}
UNKNOWN, SUCCESS, FAILURE, OTHER_STATUS = 0, 1, 2, 99
INFORMATIONAL, LOW, MEDIUM, HIGH = 1, 2, 3, 4
OTHER = 99


@dataclass(frozen=True, slots=True)
class Ocsf:
    """`type_uid` of the OCSF event is class_uid * 100 + activity_id, `category_uid` class_uid // 1000."""

    class_uid: int
    activity_id: int
    activity_name: str
    status_id: int | None
    """None: by the record, see `_status`."""
    severity_id: int


_BY_EVENT = {
    "started": Ocsf(APPLICATION_LIFECYCLE, 3, "Start", SUCCESS, INFORMATIONAL),
    "stopped": Ocsf(APPLICATION_LIFECYCLE, 4, "Stop", SUCCESS, INFORMATIONAL),
    "settings_changed": Ocsf(APPLICATION_LIFECYCLE, OTHER, "Settings changed", SUCCESS, MEDIUM),
    "high_water": Ocsf(APPLICATION_LIFECYCLE, OTHER, "High water", SUCCESS, INFORMATIONAL),
    "records_dropped": Ocsf(APPLICATION_LIFECYCLE, OTHER, "Records dropped", FAILURE, HIGH),
    "configuration_changed": Ocsf(APPLICATION_LIFECYCLE, OTHER, "Configuration changed", None, LOW),
    "authentication": Ocsf(AUTHENTICATION, 1, "Logon", SUCCESS, INFORMATIONAL),
    "reauthentication": Ocsf(AUTHENTICATION, 1, "Logon", SUCCESS, INFORMATIONAL),
    "authentication_failed": Ocsf(AUTHENTICATION, 1, "Logon", FAILURE, MEDIUM),
    "reauthentication_failed": Ocsf(AUTHENTICATION, 1, "Logon", FAILURE, MEDIUM),
    "authentication_incomplete": Ocsf(AUTHENTICATION, 1, "Logon", UNKNOWN, LOW),
    "session_expired": Ocsf(AUTHENTICATION, 2, "Logoff", SUCCESS, LOW),
    "session_expired_idle": Ocsf(AUTHENTICATION, 2, "Logoff", SUCCESS, INFORMATIONAL),
    "session_revoked": Ocsf(AUTHENTICATION, 2, "Logoff", SUCCESS, LOW),
    "authorization": Ocsf(API_ACTIVITY, OTHER, "", None, INFORMATIONAL),
    "authorization_summary": Ocsf(API_ACTIVITY, OTHER, "", UNKNOWN, INFORMATIONAL),
    "authorization_collapsed": Ocsf(API_ACTIVITY, OTHER, "", None, INFORMATIONAL),
    "authentication_collapsed": Ocsf(AUTHENTICATION, 1, "Logon", FAILURE, MEDIUM),
    "request_collapsed": Ocsf(API_ACTIVITY, OTHER, "Refuse", FAILURE, MEDIUM),
    "request_refused": Ocsf(API_ACTIVITY, OTHER, "Refuse", FAILURE, MEDIUM),
    "request_summary": Ocsf(API_ACTIVITY, OTHER, "", UNKNOWN, INFORMATIONAL),
    "admin_request": Ocsf(API_ACTIVITY, OTHER, "", None, INFORMATIONAL),
    "forwarded": Ocsf(API_ACTIVITY, OTHER, "", None, INFORMATIONAL),
    "forwarded_received": Ocsf(API_ACTIVITY, OTHER, "", None, INFORMATIONAL),
    "quota_changed": Ocsf(ENTITY_MANAGEMENT, 3, "Update", SUCCESS, INFORMATIONAL),
    "tokens_expired": Ocsf(API_ACTIVITY, 4, "Delete", SUCCESS, INFORMATIONAL),
    "topics_gone": Ocsf(API_ACTIVITY, 4, "Delete", SUCCESS, INFORMATIONAL),
    "throttled": Ocsf(API_ACTIVITY, OTHER, "Throttle", OTHER_STATUS, LOW),
    "quota_used": Ocsf(API_ACTIVITY, OTHER, "Use quota", SUCCESS, INFORMATIONAL),
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

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "schema_version": ("metadata.log_version",),
    "role": ("metadata.product.feature.name",),
    "proxy_id": ("metadata.log_provider",),
    "boot_id": ("metadata.log_name",),
    "sequence": ("metadata.sequence",),
    "event": ("metadata.event_code",),
    "time_ms": ("time",),
    "interval_start_ms": ("start_time",),
    "interval_end_ms": ("end_time",),
    "error_code": ("status_code",),
    "message": ("status_detail",),
    "granted": ("action_id", "authorizations.decision"),
    "rule": ("authorizations.policy.name",),
    "acl_id": ("authorizations.policy.uid",),
}
"""Field of `data` -> where it stands in an event of any class; what is in no table goes to `unmapped`."""

_OF_CLIENT = {
    "host": ("src_endpoint.ip",),
    "listener": ("dst_endpoint.svc_name",),
    "client_id": ("actor.app_name",),
}
ATTRIBUTES_OF_CLASS: Mapping[int, Mapping[str, tuple[str, ...]]] = {
    API_ACTIVITY: _OF_CLIENT
    | {
        "principal": ("actor.user.name",),
        "connection_id": ("actor.session.uid",),
        "method": ("api.operation",),
        "api_version": ("api.version",),
        "correlation_id": ("api.request.uid",),
        "error_code": ("status_code", "api.response.code"),
        "resource_type": ("resources.type",),
        "resource_name": ("resources.name",),
    },
    AUTHENTICATION: _OF_CLIENT
    | {
        "principal": ("user.name",),
        "connection_id": ("session.uid",),
        "session_lifetime_ms": ("session.expiration_time",),
        "mechanism": ("auth_protocol", "auth_protocol_id"),
    },
    ENTITY_MANAGEMENT: {"entity_path": ("entity.name",)},
    APPLICATION_LIFECYCLE: {"proxy_id": ("metadata.log_provider", "app.uid")},
}
"""Beside ATTRIBUTES, and before them."""

AGGREGATES = (
    "authorization_summary",
    "authorization_collapsed",
    "authentication_collapsed",
    "request_collapsed",
    "request_summary",
    "throttled",
)
"""Their `count` is OCSF's; that of others counts no events."""
FIXED = {"metadata.version": SCHEMA_VERSION, "metadata.product.name": "Penstock", "app.name": "Penstock"}
"""What is the same in every event whose class has it."""
INSTEAD = {
    "api.operation": "unknown",
    "user.name": "unknown",
    "resources.name": "unknown",
    "actor.app_name": "proxy_id",
    "src_endpoint.name": "proxy_id",
}
"""For a required attribute whose field is null: a word, or the process itself where it has acted unasked."""
AUTH_PROTOCOLS = {"GSSAPI": 2, "OAUTHBEARER": 6}
"""Mechanism -> auth_protocol_id (Kerberos, OAUTH 2.0); OTHER for the rest, with the mechanism's name."""
ALLOWED, DENIED = 1, 2
"""`action_id`, by `granted`."""


def ocsf_of(event: AuditEvent) -> Ocsf:
    """KeyError for an event that the table does not have."""
    entry = _BY_EVENT[event.event]
    class_uid, activity_id, name = entry.class_uid, entry.activity_id, entry.activity_name
    if not name:
        activity_id, name = _activity(event.method or "")
    status = _status(event) if entry.status_id is None else entry.status_id
    denied = event.granted is False
    return Ocsf(class_uid, activity_id, name, status, MEDIUM if denied else entry.severity_id)


def attributes_of(event: str) -> Mapping[str, tuple[str, ...]]:
    """Field of `data` -> OCSF attributes, of an event of that name; KeyError for one that there is not."""
    of_class = ATTRIBUTES_OF_CLASS[_BY_EVENT[event].class_uid]
    return ATTRIBUTES | dict(of_class) | ({"count": ("count",)} if event in AGGREGATES else {})


def _activity(method: str) -> tuple[int, str]:
    fitting = [verb for verb in _BY_VERB if method.startswith(verb)]
    return _BY_VERB[max(fitting, key=len)] if fitting else (OTHER, method)


def _status(event: AuditEvent) -> int:
    """FAILURE when denied or answered with an error; UNKNOWN when recorded before there was an answer."""
    outcome = (event.settings or {}).get("outcome")
    if event.granted is False or event.error_code or outcome == "failed":
        return FAILURE
    return UNKNOWN if event.error_code is None and outcome is None else SUCCESS
