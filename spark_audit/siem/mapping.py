"""A record of the trail as an event of OCSF 1.8.0 or ECS 9.4.

Takes the line of a record as the chain covers it, and where the record stands in the chain. Returns an event
as JSON, which has the whole line too, so that its hash can be computed again. EVENTS, FIELDS and ACTIONS are
the mapping, from which the tables of docs/siem.md are made. Runs on executors that need not have this
package: imports the standard library only.
"""

import ipaddress
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

OCSF, ECS = "ocsf", "ecs"
SCHEMAS = (OCSF, ECS)
OCSF_VERSION, ECS_VERSION = "1.8.0", "9.4.0"
DATASET = "penstock.audit"

ACCOUNT_CHANGE, AUTHENTICATION, APPLICATION, API = 3001, 3002, 6002, 6003
"""Classes of OCSF."""
CLASSES = {
    ACCOUNT_CHANGE: "Account Change",
    AUTHENTICATION: "Authentication",
    APPLICATION: "Application Lifecycle",
    API: "API Activity",
}
_ROOTS = {
    ACCOUNT_CHANGE: ("actor", "src_endpoint"),
    AUTHENTICATION: ("actor", "user", "session", "src_endpoint", "dst_endpoint", "auth_protocol"),
    APPLICATION: (),
    API: ("actor", "api", "src_endpoint", "dst_endpoint"),
}
"""The attributes of each class that say who, from where and with what. Each class has the others."""
INFORMATIONAL, LOW, HIGH = 1, 2, 4
OTHER = 99
_BY_ACTION = -1

ADMIN, DENIAL, LOGIN, SUMMARY, PROCESS = "admin", "denial", "authentication", "summary", "process"
EVENT_CLASSES = (ADMIN, DENIAL, LOGIN, SUMMARY, PROCESS)
"""As in `audit.policy.<class>` (proxy.audit.classes)."""


class EventRow(NamedTuple):
    """What the records of an event are in both schemas."""

    event_class: str
    ocsf_class: int
    activity: int
    """OCSF's activity_id; _BY_ACTION: that of the operation."""
    severity: int
    """OCSF's severity_id, also of ECS."""
    category: str
    """ECS' event.category."""
    type: str
    """ECS' event.type; "": that of the operation."""


def _request(event_class: str, severity: int = INFORMATIONAL) -> EventRow:
    return EventRow(event_class, API, _BY_ACTION, severity, "api", "")


def _process(event_class: str, severity: int, activity: int = OTHER, type_: str = "info") -> EventRow:
    category = "process" if type_ in ("start", "end") else "configuration"
    return EventRow(event_class, APPLICATION, activity, severity, category, type_)


_LOGON = EventRow(LOGIN, AUTHENTICATION, 1, INFORMATIONAL, "authentication", "start")
_NO_LOGON = _LOGON._replace(severity=LOW)
_LOGOFF = EventRow(LOGIN, AUTHENTICATION, 2, INFORMATIONAL, "session", "end")
_USE = EventRow(SUMMARY, API, OTHER, INFORMATIONAL, "api", "info")
_UPDATED, _STARTED, _STOPPED = 8, 3, 4

EVENTS = {
    "started": _process(PROCESS, INFORMATIONAL, _STARTED, "start"),
    "stopped": _process(PROCESS, INFORMATIONAL, _STOPPED, "end"),
    "settings_changed": _process(PROCESS, INFORMATIONAL, _UPDATED, "change"),
    "configuration_changed": _process(ADMIN, INFORMATIONAL, _UPDATED, "change"),
    "own_topic": _process(ADMIN, INFORMATIONAL, _UPDATED, "change"),
    "log_not_understood": _process(PROCESS, HIGH),
    "log_not_signed": _process(PROCESS, HIGH),
    "same_id_twice": _process(PROCESS, HIGH),
    "records_dropped": _process(PROCESS, HIGH),
    "high_water": _process(SUMMARY, INFORMATIONAL),
    "checkpoint": _process(PROCESS, INFORMATIONAL),
    "witnessed": _process(SUMMARY, INFORMATIONAL),
    "quota_share": _process(SUMMARY, INFORMATIONAL),
    "candidate_compared": _process(SUMMARY, INFORMATIONAL),
    "candidate_differs": _process(SUMMARY, INFORMATIONAL),
    "authentication": _LOGON,
    "reauthentication": _LOGON,
    "authentication_failed": _NO_LOGON,
    "reauthentication_failed": _NO_LOGON,
    "authentication_incomplete": _NO_LOGON,
    "authentication_collapsed": _NO_LOGON,
    "session_expired": _LOGOFF,
    "session_expired_idle": _LOGOFF,
    "session_revoked": _LOGOFF,
    "session_disconnected": _LOGOFF._replace(event_class=ADMIN),
    "authorization": _request(DENIAL, LOW),
    "authorization_collapsed": _request(DENIAL, LOW),
    "authorization_summary": _request(SUMMARY),
    "request_summary": _request(SUMMARY),
    "request_refused": _request(DENIAL, LOW),
    "request_collapsed": _request(DENIAL, LOW),
    "admin_request": _request(ADMIN),
    "broker_responded": _request(ADMIN),
    "forwarded": _request(ADMIN),
    "forwarded_received": _request(ADMIN),
    "quota_changed": _request(ADMIN),
    "tokens_expired": _request(ADMIN),
    "acls_ended": _request(ADMIN),
    "topics_gone": _request(ADMIN),
    "log_written_again": _request(ADMIN),
    "throttled": _USE,
    "quota_used": _USE,
}
"""Event -> what it is. `authorization` of an allowed action has severity 1."""

READS = ("CONSUME", "DESCRIBE", "DESCRIBE_CONFIGS", "DESCRIBE_TOKENS", "FETCH", "READ")
ACTIONS = {
    **dict.fromkeys(("CREATE", "CREATE_TOKENS"), (1, "creation")),
    **dict.fromkeys(READS, (2, "access")),
    **dict.fromkeys(("ALTER", "ALTER_CONFIGS", "ALTER_OFFSETS", "APPEND_CONFIG"), (3, "change")),
    **dict.fromkeys(("CREATE_PARTITIONS", "ELECT_LEADERS", "MOVE_REPLICAS"), (3, "change")),
    **dict.fromkeys(("REASSIGN_PARTITIONS", "RENEW", "REPLACE_CONFIGS", "SET"), (3, "change")),
    **dict.fromkeys(("SET_CONFIG", "SUBTRACT_CONFIG", "UPDATE", "UPSERT", "WRITE"), (3, "change")),
    **dict.fromkeys(("DELETE", "DELETE_CONFIG", "DELETE_MATCHING", "DELETE_OFFSETS"), (4, "deletion")),
    **dict.fromkeys(("DELETE_RECORDS", "END", "EXPIRE", "REMOVE_MEMBER", "UNREGISTER"), (4, "deletion")),
}
"""Operation -> (activity_id of API Activity, event.type). Others are (99, "info")."""
ACCOUNT_ACTIVITIES = {"UPSERT": 3, "DELETE": 6}
"""Operation on a SCRAM credential -> activity_id of Account Change: Password Change, Delete."""

_RECORDED_READS = (
    *("DescribeAcls", "DescribeClientQuotas", "DescribeDelegationToken", "DescribeUserScramCredentials"),
    "InitProducerId",
)
_BY_CLIENTS = ("LeaveGroup", "Metadata", "OffsetCommit", "TxnOffsetCommit")
"""Methods whose records are of class SUMMARY, as in proxy.audit.classes."""
_SUCCEEDED = ("authentication", "reauthentication", "authorization_summary")
_FAILED = (
    *("authentication_failed", "reauthentication_failed", "authentication_incomplete"),
    *("authentication_collapsed", "request_refused", "request_collapsed"),
)
Value = Any
"""What JSON can express."""
Data = Mapping[str, Value]
Convert = Callable[[Value, Data], Value]
"""A value, and the whole `data` -> the value in the other schema; None if it has none."""


def _same(value: Value, _: Data) -> Value:
    return value


def _text(value: Value, _: Data) -> str:
    return str(value)


def _address(value: Value, _: Data) -> str | None:
    try:
        # Fields for addresses do not accept zones.
        return str(ipaddress.ip_address(value.partition("%")[0]))
    except ValueError:
        return None


def _user(value: Value, _: Data) -> str:
    return str(value).removeprefix("User:")


def _iso(value: Value, _: Data) -> str:
    return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _end(value: Value, data: Data) -> int | None:
    return data["time_ms"] + value if value else None


def _protocol(value: Value, _: Data) -> int:
    return {"GSSAPI": 2, "OAUTHBEARER": 6}.get(value, OTHER)


def _decision(value: Value, _: Data) -> str:
    return "allowed" if value else "denied"


def _times(value: Value, data: Data) -> int | None:
    """Return None where the number is not one of events: for quotas it is what was used."""
    return value if data["event"].endswith(("_summary", "_collapsed", "_incomplete")) else None


def _nanos(value: Value, _: Data) -> int:
    return int(value) * 1_000_000


class FieldRow(NamedTuple):
    """Where a field of the record is in a schema, as a dotted path; "" if nowhere."""

    name: str
    ocsf: str
    ecs: str
    to_ocsf: Convert = _same
    to_ecs: Convert = _same


FieldPlace = tuple[FieldRow, str, Convert]
"""A field, its path in one schema or "" for nowhere, and how its value is converted."""

FIELDS = (
    FieldRow("time_ms", "time", "@timestamp", _same, _iso),
    FieldRow("event", "metadata.event_code", "event.action"),
    FieldRow("sequence", "metadata.sequence", "event.sequence"),
    FieldRow("proxy_id", "metadata.log_name", "observer.name"),
    FieldRow("role", "metadata.log_provider", "observer.type"),
    FieldRow("principal", "actor.user.uid", "user.id"),
    FieldRow("principal", "actor.user.name", "user.name", _user, _user),
    FieldRow("groups", "actor.user.groups[].name", "user.group.name"),
    FieldRow("client_id", "actor.app_name", ""),
    FieldRow("connection_id", "session.uid", ""),
    FieldRow("session_lifetime_ms", "session.expiration_time", "", _end),
    FieldRow("mechanism", "auth_protocol", ""),
    FieldRow("mechanism", "auth_protocol_id", "", _protocol),
    FieldRow("host", "src_endpoint.ip", "source.ip", _address, _address),
    FieldRow("host", "src_endpoint.name", "source.address"),
    FieldRow("balancer", "src_endpoint.intermediate_ips[]", "", _address),
    FieldRow("listener", "dst_endpoint.interface_name", "observer.ingress.interface.name"),
    FieldRow("client_software", "", "user_agent.original"),
    FieldRow("method", "api.operation", ""),
    FieldRow("api_version", "api.version", "", _text),
    FieldRow("correlation_id", "api.request.uid", "", _text),
    FieldRow("error_code", "status_code", "error.code", _text, _text),
    FieldRow("message", "message", "message"),
    FieldRow("rule", "status_detail", "event.reason"),
    FieldRow("rule", "actor.authorizations[].policy.name", "rule.name"),
    FieldRow("granted", "actor.authorizations[].decision", "", _decision),
    FieldRow("acl_id", "actor.authorizations[].policy.uid", "rule.id"),
    FieldRow("count", "count", "", _times),
    FieldRow("interval_start_ms", "start_time", "event.start", _same, _iso),
    FieldRow("interval_end_ms", "end_time", "event.end", _same, _iso),
    FieldRow("request_bytes", "", "source.bytes"),
    FieldRow("response_bytes", "", "destination.bytes"),
    FieldRow("throttle_time_ms", "", "event.duration", _same, _nanos),
)
"""A row for each attribute. What has no place in a schema, or in a class of OCSF, is in `penstock`."""


class ChainPlace(NamedTuple):
    """Where a record stands in the chain of its boot."""

    uid: str
    """The same each time that the record is exported, and of no other record."""
    chain: str | None
    """The link in hex; None for a record of version 1, which has none."""
    previous_chain: str | None
    """The link of the record before it; None if that is not there, as before the first."""
    checkpoint: int | None
    """The sequence of the first checkpoint that covers the record; None: there is none yet."""
    sha256: str
    """Of the record in the topic, in hex."""


def exported(schema: str, classes: Sequence[str], body: str, record: Data, proof: ChainPlace) -> str | None:
    """Return an event as JSON; None for a record of another class than `classes`, if there are any.

    `body` is the record without its link, with its last brace, and `record` its `data`, with the types of the
    table: who can write to the topic can use others. Checkpoints are of all classes: without them nothing
    could be verified.
    """
    data = {name: value for name, value in record.items() if value is not None}
    if "objects" in data:
        data["objects"] = [each for each in data["objects"] if each is not None]
    if classes and data["event"] != "checkpoint" and event_class(data) not in classes:
        return None
    raw = body if proof.chain is None else f'{body[:-1]},"chain":"{proof.chain}"}}'
    made = {OCSF: _ocsf, ECS: _ecs}[schema](data, raw, proof)
    return json.dumps(made, separators=(",", ":"), sort_keys=True)


def exported_row(
    schema: str,
    classes: str,
    body: str,
    record: str,
    *place: *tuple[str, str | None, str | None, int | None, str],
) -> str | None:
    """Return `exported` of values of columns. `classes` are separated by commas, `place` is a ChainPlace."""
    wanted = classes.split(",") if classes else ()
    return exported(schema, wanted, body, json.loads(record), ChainPlace(*place))


def event_class(data: Data) -> str:
    """Return one of EVENT_CLASSES, as proxy.audit.events.class_of does."""
    event, method = data["event"], data.get("method")
    if event in ("authorization", "authorization_collapsed") and data.get("granted"):
        return SUMMARY if method in _RECORDED_READS else ADMIN
    if event == "admin_request" and data.get("error_code"):
        return DENIAL
    if event == "broker_responded" and method in _BY_CLIENTS:
        return SUMMARY
    return _kind(data).event_class


def _kind(data: Data) -> EventRow:
    kind = EVENTS.get(data["event"], _process(ADMIN, INFORMATIONAL))
    return kind._replace(severity=INFORMATIONAL) if data.get("granted") else kind


def _outcome(data: Data, kind: EventRow) -> str | None:
    event, granted, error = data["event"], data.get("granted"), data.get("error_code")
    if kind.ocsf_class == APPLICATION:
        return None
    if event in _FAILED or granted is False:
        return "failure"
    if error:
        # It is the error of one object. Others may have been changed, or that is not known.
        told = {each.get("error") for each in data.get("objects", ())}
        return "success" if "NONE" in told else "unknown" if None in told else "failure"
    return "success" if event in _SUCCEEDED or granted or error == 0 else "unknown"


def _operation(data: Data) -> str:
    """Return the operation of an event; of a dry run one that changes nothing."""
    first = next(iter(_done_first(data)), {})
    if "validate_only" in (first.get("details") or ()):
        return "VALIDATE"
    return str(data.get("operation") or first.get("operation"))


def _accounts(data: Data) -> list[str]:
    """Return the users whose SCRAM credentials an administrative request is about."""
    return [each["name"] for each in _done_first(data) if each.get("type") == "USER" and "name" in each]


def _done_first(data: Data) -> list[dict[str, Value]]:
    """Return what a request is about. A client chooses the first object, and it may be one that fails."""
    return sorted(data.get("objects", ()), key=lambda each: bool(each.get("error") != "NONE"))


def _placed(document: dict[str, Value], data: Data, places: Iterator[FieldPlace]) -> set[str]:
    """Write fields where they belong, and returns the names of those that have a place."""
    placed = set()
    for field, path, convert in places:
        value = data.get(field.name)
        value = None if value is None else convert(value, data)
        if path and value is not None:
            _put(document, path, value)
            placed.add(field.name)
    return placed


def _put(into: dict[str, Value], path: str, value: Value) -> None:
    """Write a value at a dotted path. `name[]` is a list, with an element for each value."""
    head, _, rest = path.partition(".")
    if not head.endswith("[]"):
        if rest:
            _put(into.setdefault(head, {}), rest, value)
        else:
            into[head] = value
        return
    values = value if isinstance(value, list) else [value]
    items = into.setdefault(head[:-2], [{} for _ in values] if rest else values)
    for item, each in zip(items, values if rest else (), strict=bool(rest)):
        _put(item, rest, each)


def _rest(data: Data, placed: set[str], proof: ChainPlace) -> dict[str, Value]:
    """Return what has no place in a schema, and the place of the record in its chain."""
    left = {name: value for name, value in data.items() if name not in placed}
    # Their names are anybody's, and an index has a field for each. Both are in the line.
    left.pop("changes", None)
    if "settings" in left:
        left["settings"] = [f"{name}={value}" for name, value in sorted(left["settings"].items())]
    place = {name: data[name] for name in ("proxy_id", "boot_id", "sequence")}
    links = {"chain": proof.chain, "previous_chain": proof.previous_chain, "checkpoint": proof.checkpoint}
    return left | place | links


def _ocsf(data: Data, raw: str, proof: ChainPlace) -> dict[str, Value]:
    kind, operation = _kind(data), _operation(data)
    accounts = _accounts(data)
    class_, activity = kind.ocsf_class, kind.activity
    if activity == _BY_ACTION:
        activity = ACTIONS.get(operation, (OTHER, ""))[0]
    if accounts:
        class_, activity = ACCOUNT_CHANGE, ACCOUNT_ACTIVITIES.get(operation, OTHER)
    document: dict[str, Value] = {
        "class_uid": class_,
        "class_name": CLASSES[class_],
        "category_uid": class_ // 1000,
        "activity_id": activity,
        "type_uid": class_ * 100 + activity,
        "severity_id": kind.severity,
        "metadata": {
            "version": OCSF_VERSION,
            "uid": proof.uid,
            "product": {"name": "Penstock", "vendor_name": "Penstock"},
        },
        "raw_data": raw,
        "raw_data_hash": {"algorithm_id": 3, "value": proof.sha256},
    }
    if outcome := _outcome(data, kind):
        document["status_id"] = {"success": 1, "failure": 2, "unknown": 0}[outcome]
    placed = _placed(document, data, _ocsf_places(class_))
    _ocsf_required(document, class_, data, accounts)
    if class_ == API and (resources := _resources(data)):
        document["resources"] = resources
        placed |= {"objects", "resource_type", "resource_name"}
    return document | {"unmapped": {"penstock": _rest(data, placed, proof)}}


def _ocsf_places(class_: int) -> Iterator[FieldPlace]:
    of_others = {root for roots in _ROOTS.values() for root in roots} - set(_ROOTS[class_])
    for field in FIELDS:
        path = field.ocsf
        if class_ == AUTHENTICATION:
            # The user of a login is its subject, not who does something to it.
            path = path.replace("actor.user.", "user.")
        root = path.partition(".")[0]
        is_here = root not in of_others and not (root == "auth_protocol_id" and class_ != AUTHENTICATION)
        yield field, path if is_here else "", field.to_ocsf


def _ocsf_required(document: dict[str, Value], class_: int, data: Data, accounts: list[str]) -> None:
    """Add the attributes that a class must have, where the record has no field for them."""
    process = data["proxy_id"]
    if class_ == APPLICATION:
        document["app"] = {"name": "Penstock", "uid": process, "vendor_name": "Penstock"}
    elif class_ == AUTHENTICATION:
        document.setdefault("user", {"name": "unknown"})
        document.setdefault("dst_endpoint", {})["name"] = process
    elif class_ == ACCOUNT_CHANGE:
        document["user"] = {"name": accounts[0]}
    else:
        document.setdefault("actor", {})
        document.setdefault("api", {}).setdefault("operation", data["event"])
        document.setdefault("src_endpoint", {"name": process})
    if "actor" in document and "user" not in document["actor"]:
        document["actor"].setdefault("app_name", process)
    if "src_endpoint" in document:
        # Not known: of logins beyond 100 addresses.
        document["src_endpoint"].setdefault("name", "unknown")


def _resources(data: Data) -> list[dict[str, Value]]:
    found = [
        {
            "type": each.get("type"),
            "name": each.get("name", f"{each.get('count')} more"),
            "data": {name: value for name, value in each.items() if name not in ("type", "name")},
        }
        for each in data.get("objects", ())
    ]
    if "resource_name" in data and not found:
        found = [{"type": data.get("resource_type"), "name": data["resource_name"]}]
    return found


def _ecs(data: Data, raw: str, proof: ChainPlace) -> dict[str, Value]:
    kind, accounts = _kind(data), _accounts(data)
    types = [kind.type or ACTIONS.get(_operation(data), (OTHER, "info"))[1]]
    if "granted" in data and kind.category == "api":
        types.append("allowed" if data["granted"] else "denied")
    category = kind.category
    if accounts:
        category, types = "iam", [types[0], "user"]
    document: dict[str, Value] = {
        "ecs": {"version": ECS_VERSION},
        "event": {
            "id": proof.uid,
            "kind": "event",
            "category": [category],
            "type": types,
            "module": "penstock",
            "dataset": DATASET,
            "severity": kind.severity,
            "original": raw,
            "hash": proof.sha256,
        },
        "observer": {"vendor": "Penstock", "product": "Penstock"},
        "service": {"type": "kafka"},
    }
    if outcome := _outcome(data, kind):
        document["event"]["outcome"] = outcome
    placed = _placed(document, data, ((field, field.ecs, field.to_ecs) for field in FIELDS))
    if accounts:
        _put(document, "user.target.name", accounts[0])
    users = {document.get("user", {}).get("name"), *accounts} - {None}
    related = {"user": sorted(users), "ip": [ip] if (ip := document.get("source", {}).get("ip")) else []}
    document["related"] = {name: values for name, values in related.items() if values}
    return document | {"penstock": _rest(data, placed, proof)}
