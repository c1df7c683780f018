"""What each kind of audit record has to tell, and what CloudEvents 1.0 asks of each line, as tables.

Trails of real stacks are put to it (tests.interop); a fault is a line of text. `chain` stands beside the
attributes that CloudEvents knows: an extension, whose name may have lower-case letters and digits only.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from proxy.audit.record import STAMP_FIELDS
from proxy.wire.error_codes import ErrorCode

WHO = ("connection_id", "listener", "host")
ASKED = ("method", "api_version", "correlation_id")
DECIDED = ("granted", "rule", "resource_type", "operation", "metadata_offset")
COUNTED = ("count", "interval_start_ms", "interval_end_ms")
QUOTA = ("quota_id", "quota_limit")

REQUIRED: Mapping[str, tuple[str, ...]] = {
    "started": ("settings",),
    "stopped": (),
    "settings_changed": ("settings", "settings_generation"),
    "log_not_understood": ("message",),
    "log_not_signed": ("message",),
    "same_id_twice": ("message",),
    "high_water": ("count",),
    "checkpoint": ("message",),
    "witnessed": ("message",),
    "records_dropped": ("count", "message"),
    "configuration_changed": ("settings",),
    "own_topic": ("resource_name", "message"),
    "authentication": (*WHO, "principal", "mechanism"),
    "authentication_failed": (*WHO, "mechanism", "message"),
    "authentication_incomplete": ("listener", "message", *COUNTED),
    "reauthentication": (*WHO, "principal", "mechanism"),
    "reauthentication_failed": (*WHO, "principal", "mechanism", "message"),
    "session_expired": (*WHO, "principal"),
    "session_expired_idle": (*WHO, "principal"),
    "session_revoked": (*WHO, "principal"),
    "session_disconnected": (*WHO, "message"),
    "authorization": ("listener", "host", "principal", *ASKED, *DECIDED),
    # With an interval it counts what was beyond a rate, and has only what is the same in all of it.
    "authorization_collapsed": ("granted", "count"),
    "authentication_collapsed": ("listener", *COUNTED, "message"),
    "request_collapsed": ("listener", *COUNTED, "message"),
    "authorization_summary": (
        *WHO,
        "principal",
        "method",
        *DECIDED,
        *COUNTED,
        "request_bytes",
        "response_bytes",
    ),
    "request_refused": ("listener", "host", "message"),
    "request_summary": (*WHO, "principal", "method", *COUNTED, "request_bytes"),
    "admin_request": (*WHO, "principal", *ASKED),
    "broker_responded": (*WHO, "principal", *ASKED, "objects"),
    "forwarded": (
        *WHO,
        "principal",
        *ASKED,
        "forward_id",
        "envelope_error_code",
        "interval_end_ms",
        "objects",
    ),
    "forwarded_received": (
        "listener",
        "host",
        "principal",
        "forwarding_principal",
        *ASKED,
        "forward_id",
        "error_code",
        "metadata_offset",
        "objects",
    ),
    "candidate_compared": (*COUNTED, "message"),
    "candidate_differs": (*COUNTED, "message"),
    "quota_changed": ("entity_path", "message"),
    "quota_share": (*QUOTA, "quota_share", *COUNTED),
    "quota_used": ("quota_key", "metadata_offset", *COUNTED),
    "throttled": ("quota_key", "metadata_offset", "count", "throttle_time_ms"),
    "tokens_expired": ("method", "count", "first_offset", "last_offset", "metadata_offset", "objects"),
    "acls_ended": ("method", "count", "first_offset", "last_offset", "metadata_offset", "objects"),
    "log_written_again": ("method", "count", "first_offset", "last_offset", "metadata_offset"),
    "topics_gone": ("method", "count", "first_offset", "last_offset", "metadata_offset", "objects"),
}
"""Event -> fields that are never null in it."""

_BEFORE_A_MECHANISM = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE)
"""With these a client was turned away before one was agreed: the only failures that need not name it."""
_UNDER_RULE = {"acl": "acl_id"}
"""Rule -> the field that says which."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_URI = re.compile(r"[a-z][a-z0-9+.-]*:[^\s]+")


def _text(value: object) -> bool:
    return isinstance(value, str) and value != ""


ATTRIBUTES: Mapping[str, Callable[[Any], bool]] = {
    "specversion": lambda value: value == "1.0",
    "id": _text,
    "source": lambda value: _text(value) and _URI.fullmatch(value) is not None,
    "type": lambda value: _text(value) and value.startswith("io.penstock."),
    "time": lambda value: _text(value) and _TIME.fullmatch(value) is not None,
    # JSON format, 2.2: null is an attribute that is not set.
    "subject": lambda value: value is None or _text(value),
    "datacontenttype": lambda value: value == "application/json",
    "dataschema": lambda value: _text(value) and _URI.fullmatch(value) is not None,
    "chain": lambda value: _text(value) and re.fullmatch(r"[0-9a-f]{64}", value) is not None,
    "data": lambda value: isinstance(value, dict),
}


def faults(lines: Iterable[bytes]) -> list[str]:
    """Of a trail, in words; none is what is wanted."""
    seen: dict[tuple[str, str], bytes] = {}
    found: list[str] = []
    for line in lines:
        event = json.loads(line)
        found += [f"{event.get('id')}: {fault}" for fault in (*_envelope(event), *_record(event["data"]))]
        # CloudEvents: source and id together are one event; a line that was shipped twice is the same one.
        if seen.setdefault((event["source"], event["id"]), line) != line:
            found.append(f"{event['id']}: two events have it")
    return found


def _envelope(event: dict[str, Any]) -> Iterator[str]:
    for name, holds in ATTRIBUTES.items():
        if name not in event or not holds(event[name]):
            yield f"{name} is {event.get(name)!r}"
    for name in event.keys() - ATTRIBUTES.keys():
        yield f"{name} is no attribute of ours"


def _record(data: dict[str, Any]) -> Iterator[str]:
    required = REQUIRED.get(data["event"])
    if required is None:
        yield f"{data['event']} is not in the table"
        return
    none_agreed = data["event"] == "authentication_failed" and data["error_code"] in _BEFORE_A_MECHANISM
    for name in (*STAMP_FIELDS, *required):
        if data[name] is None and not (none_agreed and name == "mechanism"):
            yield f"{data['event']} of {data['method']} without {name}"
    if data["event"] == "authorization_collapsed" and data["interval_start_ms"] is None:
        for name in ("listener", "host", "principal", *ASKED, "operation"):
            if data[name] is None:
                yield f"{data['event']} of {data['method']} without {name}"
    if data["event"] in ("throttled", "quota_used") and data["message"] is None:
        # With a message it counts what several client ids used, each with a quota of its own.
        yield from (f"{data['event']} without {name}" for name in QUOTA if data[name] is None)
    which = _UNDER_RULE.get(data["rule"] or "")
    if which is not None and data[which] is None:
        yield f"{data['event']} by rule {data['rule']} without {which}"
