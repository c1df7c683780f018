"""OCSF 1.8.0 as far as our mapping touches it: ids, enums and which attributes are required.

Facts from the schema's repository (github.com/ocsf/ocsf-schema, tag 1.8.0, Apache-2.0): events/application,
events/iam, events/base_event.json, objects, profiles/security_control.json, categories.json, dictionary.json.
"""

from dataclasses import dataclass

VERSION = "1.8.0"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CATEGORIES = {3: "Identity & Access Management", 6: "Application Activity"}
STATUSES = {0: "Unknown", 1: "Success", 2: "Failure", 99: "Other"}
SEVERITIES = {
    0: "Unknown",
    1: "Informational",
    2: "Low",
    3: "Medium",
    4: "High",
    5: "Critical",
    6: "Fatal",
    99: "Other",
}
ACTIONS = {0: "Unknown", 1: "Allowed", 2: "Denied", 99: "Other"}
AUTH_PROTOCOLS = {
    0: "Unknown",
    1: "NTLM",
    2: "Kerberos",
    3: "Digest",
    4: "OpenID",
    5: "SAML",
    6: "OAUTH 2.0",
    7: "PAP",
    8: "CHAP",
    9: "EAP",
    10: "RADIUS",
    11: "Basic Authentication",
    12: "LDAP",
    99: "Other",
}

BASE_REQUIRED = {"activity_id", "category_uid", "class_uid", "metadata", "severity_id", "time", "type_uid"}
CLASSIFICATION = BASE_REQUIRED - {"metadata", "time"}
"""Those that follow from class, activity and severity alone."""
BASE = BASE_REQUIRED | _names(
    "activity_name category_name class_name count duration end_time enrichments message observables raw_data "
    "raw_data_hash raw_data_size severity start_time status status_code status_detail status_id "
    "timezone_offset type_name unmapped"
)
SECURITY_CONTROL = _names(
    "action action_id attacks authorizations confidence confidence_id confidence_score disposition "
    "disposition_id firewall_rule is_alert malware malware_scan_info policy risk_details risk_level "
    "risk_level_id risk_score"
)
"""The profile: every class may have it."""


@dataclass(frozen=True)
class Class:
    """An event class; `at_least_one` of those attributes has to be there."""

    caption: str
    activities: dict[int, str]
    required: frozenset[str]
    others: frozenset[str]
    at_least_one: frozenset[str] = frozenset()


CLASSES = {
    3002: Class(
        "Authentication",
        {
            1: "Logon",
            2: "Logoff",
            3: "Authentication Ticket",
            4: "Service Ticket Request",
            5: "Service Ticket Renew",
            6: "Preauth",
            7: "Account Switch",
        },
        frozenset({"user"}),
        _names(
            "account_switch_type account_switch_type_id actor auth_factors auth_protocol auth_protocol_id "
            "authentication_token certificate dst_endpoint http_request http_response is_cleartext is_mfa "
            "is_new_logon is_remote logon_process logon_type logon_type_id service session "
            "src_endpoint"
        ),
        frozenset({"service", "dst_endpoint"}),
    ),
    3004: Class(
        "Entity Management",
        {
            1: "Create",
            2: "Read",
            3: "Update",
            4: "Delete",
            5: "Move",
            6: "Enroll",
            7: "Unenroll",
            8: "Enable",
            9: "Disable",
            10: "Activate",
            11: "Deactivate",
            12: "Suspend",
            13: "Resume",
        },
        frozenset({"entity"}),
        _names("access_list access_mask actor comment entity_result http_request http_response src_endpoint"),
    ),
    6002: Class(
        "Application Lifecycle",
        {
            1: "Install",
            2: "Remove",
            3: "Start",
            4: "Stop",
            5: "Restart",
            6: "Enable",
            7: "Disable",
            8: "Update",
        },
        frozenset({"app"}),
        frozenset(),
    ),
    6003: Class(
        "API Activity",
        {1: "Create", 2: "Read", 3: "Update", 4: "Delete"},
        frozenset({"actor", "api", "src_endpoint"}),
        _names("dst_endpoint http_request http_response resources"),
    ),
}
EVERY_CLASS = {0: "Unknown", 99: "Other"}
"""Activities."""


@dataclass(frozen=True)
class Object:
    """Attributes that we use, and those without which it is not valid."""

    used: frozenset[str]
    required: frozenset[str] = frozenset()
    at_least_one: frozenset[str] = frozenset()


_NAMED = frozenset({"name", "uid"})
_ENDPOINT = _names("ip uid name hostname svc_name instance_uid interface_uid interface_name domain")
OBJECTS = {
    "actor": Object(
        frozenset({"user", "session", "app_name"}),
        at_least_one=_names("process user invoked_by session app_name app_uid"),
    ),
    "api": Object(frozenset({"operation", "version", "request", "response"}), frozenset({"operation"})),
    "app": Object(_NAMED | {"feature", "version"}, at_least_one=_NAMED),
    "authorizations": Object(frozenset({"decision", "policy"})),
    "dst_endpoint": Object(_ENDPOINT, at_least_one=_ENDPOINT),
    "entity": Object(
        _NAMED | {"type", "type_id"},
        at_least_one=_names("name uid device group org policy user"),
    ),
    "feature": Object(_NAMED, at_least_one=_NAMED),
    "metadata": Object(
        _names("log_version log_provider log_name sequence event_code uid version profiles product"),
        frozenset({"product", "version"}),
    ),
    "policy": Object(_NAMED | {"type"}, at_least_one=_NAMED | {"type"}),
    "product": Object(_NAMED | {"feature"}, at_least_one=_NAMED),
    "request": Object(frozenset({"uid"}), frozenset({"uid"})),
    "resources": Object(_NAMED | {"type"}, at_least_one=_NAMED),
    "response": Object(frozenset({"code", "error", "message"})),
    "session": Object(frozenset({"uid", "expiration_time"})),
    "src_endpoint": Object(_ENDPOINT, at_least_one=_ENDPOINT),
    "user": Object(_NAMED | {"account"}, at_least_one=_NAMED | {"account"}),
}
"""By the name of the attribute that holds it."""
