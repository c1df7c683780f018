"""What we say of OCSF is what its published schema says: ids, captions, attributes, and what is required."""

from itertools import pairwise

import pytest

from proxy.audit import ocsf
from proxy.audit.ocsf import attributes_of, ocsf_of
from proxy.audit.record import DATA_FIELDS, AuditEvent
from proxy.wire.api_keys import ApiKey
from tests.unit.audit import ocsf_facts as facts
from tests.unit.audit.ocsf_facts import CLASSES, OBJECTS

pytestmark = pytest.mark.spec("D2")

Shape = frozenset[str]

_CLIENT = {"connection_id", "listener", "host"}
_REQUEST = _CLIENT | {"principal", "client_id", "method", "api_version", "correlation_id"}
_STAMP = {"schema_version", "role", "proxy_id", "boot_id", "sequence", "time_ms", "event"}
_OUTCOME = {"granted", "rule", "metadata_offset"}
SHAPES: dict[str, list[set[str]]] = {
    "started": [{"settings"}],
    "stopped": [set()],
    "high_water": [{"count"}],
    "records_dropped": [{"count", "message"}],
    "configuration_changed": [{"settings"}],
    "authentication": [_CLIENT | {"principal", "mechanism", "session_lifetime_ms", "method", "error_code"}],
    "reauthentication": [_CLIENT | {"principal", "mechanism", "session_lifetime_ms", "method", "error_code"}],
    # A TLS handshake that failed has a host and nobody behind it.
    "authentication_failed": [_CLIENT | {"mechanism", "error_code"}, {"host", "listener", "message"}],
    "reauthentication_failed": [_CLIENT | {"principal", "mechanism", "error_code"}],
    "session_expired": [_REQUEST],
    "session_expired_idle": [_CLIENT | {"principal"}],
    "session_revoked": [_CLIENT | {"principal"}],
    "authorization": [_REQUEST | _OUTCOME | {"resource_type", "resource_name", "operation", "acl_id"}],
    "authorization_summary": [
        _CLIENT | _OUTCOME | {"principal", "method", "resource_type", "resource_name", "count"}
    ],
    "authorization_collapsed": [_REQUEST | {"granted", "resource_type", "operation", "count"}],
    # Bytes that are no request: nothing but the connection is known.
    "request_refused": [_REQUEST | {"granted", "message"}, _CLIENT | {"granted", "message"}],
    "forwarded": [_REQUEST | {"forward_id", "error_code", "envelope_error_code"}],
    "forwarded_received": [(_REQUEST - {"connection_id"}) | {"forward_id", "error_code"}],
    "quota_changed": [{"entity_path", "message"}],
    "tokens_expired": [{"method", "count", "first_offset", "last_offset"}],
    "topics_gone": [{"method", "count", "first_offset", "last_offset"}],
    "throttled": [_CLIENT | {"principal", "client_id", "quota_id", "quota_key", "count"}],
    "quota_used": [_CLIENT | {"principal", "client_id", "quota_id", "quota_key", "count"}],
}
"""The fields that each event has in its barest forms, as the code that makes it fills them."""
BARE = [(event, frozenset(shape)) for event, shapes in SHAPES.items() for shape in shapes]


def test_the_facts_are_of_the_release_that_we_name() -> None:
    assert facts.VERSION == ocsf.SCHEMA_VERSION
    assert set(SHAPES) == set(ocsf.EVENTS)
    assert {name for shapes in SHAPES.values() for shape in shapes for name in shape} <= set(DATA_FIELDS)


@pytest.mark.parametrize("event", ocsf.EVENTS)
def test_class_activity_status_and_severity_are_in_the_schemas_enums(event: str) -> None:
    for method in (None, *(ApiKey.name_of(key) for key in ApiKey)):
        told = ocsf_of(AuditEvent(event=event, method=method))
        of_class = CLASSES[told.class_uid]
        assert ocsf.CLASSES[told.class_uid] == of_class.caption
        assert told.class_uid // 1000 in facts.CATEGORIES
        assert told.status_id in facts.STATUSES
        assert told.severity_id in facts.SEVERITIES
        if told.activity_id == ocsf.OTHER:
            assert told.activity_name not in {*of_class.activities.values(), *facts.EVERY_CLASS.values()}
        else:
            assert of_class.activities[told.activity_id] == told.activity_name


@pytest.mark.parametrize("event", ocsf.EVENTS)
def test_each_attribute_that_we_name_is_one_of_its_class_and_of_its_object(event: str) -> None:
    of_class = CLASSES[ocsf_of(AuditEvent(event=event)).class_uid]
    known = facts.BASE | facts.SECURITY_CONTROL | of_class.required | of_class.others

    for path in [path for paths in attributes_of(event).values() for path in paths]:
        first, *inner = path.split(".")
        assert first in known, path
        for holder, name in pairwise([first, *inner]):
            assert name in OBJECTS[holder].used, path


@pytest.mark.parametrize(("event", "fields"), BARE)
def test_whatever_a_class_requires_is_told_by_the_barest_record(event: str, fields: Shape) -> None:
    told = _told(event, fields)
    of_class = CLASSES[ocsf_of(AuditEvent(event=event)).class_uid]
    roots = _roots(told)

    assert facts.BASE_REQUIRED - facts.CLASSIFICATION | of_class.required <= roots
    assert not of_class.at_least_one or of_class.at_least_one & roots
    for holder, names in _objects(told).items():
        assert OBJECTS[holder].required <= names, holder
        assert not OBJECTS[holder].at_least_one or OBJECTS[holder].at_least_one & names, holder


def _told(event: str, fields: Shape) -> set[str]:
    """All attribute paths of the OCSF event that such a record becomes."""
    present = fields | _STAMP
    told = {path for name, paths in attributes_of(event).items() if name in present for path in paths}
    uid = ocsf_of(AuditEvent(event=event)).class_uid
    roots = CLASSES[uid].required | CLASSES[uid].others | facts.BASE
    told |= {path for path in ocsf.FIXED if path.partition(".")[0] in roots}
    for path in ocsf.INSTEAD:
        root = path.partition(".")[0]
        if root in {"resources", "api"} & _roots(told) or root in CLASSES[uid].required - _roots(told):
            told.add(path)
    return told


def _roots(paths: set[str]) -> set[str]:
    return {path.partition(".")[0] for path in paths}


def _objects(paths: set[str]) -> dict[str, set[str]]:
    """Each object that occurs in the paths -> which of its attributes are there."""
    found: dict[str, set[str]] = {}
    for path in paths:
        parts = path.split(".")
        for holder, name in pairwise(parts):
            found.setdefault(holder, set()).add(name)
    return found


def test_what_replaces_a_missing_field_is_an_attribute_too() -> None:
    for path in (*ocsf.INSTEAD, *ocsf.FIXED):
        *_, holder, name = path.split(".")
        assert name in OBJECTS[holder].used, path


def test_actions_and_protocols_are_in_the_schemas_enums() -> None:
    assert facts.ACTIONS[ocsf.ALLOWED] == "Allowed"
    assert facts.ACTIONS[ocsf.DENIED] == "Denied"
    assert {name: facts.AUTH_PROTOCOLS[uid] for name, uid in ocsf.AUTH_PROTOCOLS.items()} == {
        "GSSAPI": "Kerberos",
        "OAUTHBEARER": "OAUTH 2.0",
    }
    assert facts.AUTH_PROTOCOLS[ocsf.OTHER] == "Other"


def test_only_aggregates_have_ocsfs_count() -> None:
    counted = {event for event in ocsf.EVENTS if "count" in attributes_of(event)}

    assert counted == {"authorization_summary", "authorization_collapsed", "throttled"}
