"""What we say of OCSF is what its published schema says: ids, captions, attributes, and what is required."""

from itertools import pairwise

import pytest

from proxy.audit import ocsf
from proxy.audit.ocsf import attributes_of, ocsf_of
from proxy.audit.record import DATA_FIELDS, EVENT_FIELDS, AuditEvent
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import Conversation, plain_token, produce, produced, sasl
from tests.unit.audit import ocsf_facts as facts
from tests.unit.audit.ocsf_events import missing
from tests.unit.audit.ocsf_facts import CLASSES, OBJECTS

pytestmark = pytest.mark.spec("D2")

_CLIENT = {"connection_id", "listener", "host"}
_REQUEST = _CLIENT | {"principal", "client_id", "method", "api_version", "correlation_id"}
_OUTCOME = {"granted", "rule", "metadata_offset"}
SHAPES: dict[str, list[set[str]]] = {
    "started": [{"settings"}],
    "stopped": [set()],
    "settings_changed": [{"settings", "settings_generation"}],
    "high_water": [{"count"}],
    "records_dropped": [{"count", "message"}],
    "configuration_changed": [{"settings"}],
    "authentication": [_CLIENT | {"principal", "mechanism", "session_lifetime_ms", "method", "error_code"}],
    "reauthentication": [_CLIENT | {"principal", "mechanism", "session_lifetime_ms", "method", "error_code"}],
    # A TLS handshake that failed has a host and nobody behind it.
    "authentication_failed": [_CLIENT | {"mechanism", "error_code"}, {"host", "listener", "message"}],
    "reauthentication_failed": [_CLIENT | {"principal", "mechanism", "error_code"}],
    "authentication_incomplete": [{"host", "listener", "message", "count"}, {"listener", "message", "count"}],
    "session_expired": [_REQUEST],
    "session_expired_idle": [_CLIENT | {"principal"}],
    "session_revoked": [_CLIENT | {"principal"}],
    "authorization": [_REQUEST | _OUTCOME | {"resource_type", "resource_name", "operation", "acl_id"}],
    "authorization_summary": [
        _CLIENT | _OUTCOME | {"principal", "method", "resource_type", "resource_name", "count"}
    ],
    "authorization_collapsed": [
        _REQUEST | {"granted", "resource_type", "operation", "count"},
        {"principal", "method", "granted", "count", "message"},
    ],
    "authentication_collapsed": [{"listener", "count", "message"}],
    "request_collapsed": [{"listener", "count", "message"}],
    # Bytes that are no request: nothing but the connection is known.
    "request_refused": [_REQUEST | {"granted", "message"}, _CLIENT | {"granted", "message"}],
    "request_summary": [_CLIENT | {"principal", "method", "count", "request_bytes"}],
    "admin_request": [_REQUEST, _REQUEST | {"error_code"}],
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
def test_whatever_a_class_requires_is_told_by_the_barest_record(event: str, fields: frozenset[str]) -> None:
    assert missing(event, fields) == []


def test_events_that_a_session_makes_tell_what_their_class_requires() -> None:
    stranger = Conversation(sasl_listener=sasl())
    stranger.shakes_hands()
    stranger.authenticates(plain_token("alice", "wrong"))
    garbled = Conversation()
    garbled.sends(b"\xff" * 40)
    talk = Conversation("WRITE TOPIC orders", sasl_listener=sasl(60_000))
    talk.logs_in()
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    talk.answers(ApiKey.PRODUCE, 9, produced("orders"))
    talk.asks(ApiKey.PRODUCE, 9, produce("secrets"))
    talk.passes(60_001)
    summaries = talk.summaries()
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))

    events = [*stranger.events, *garbled.events, *talk.events, *summaries]
    assert {event.event for event in events} >= {
        "authentication",
        "authentication_failed",
        "authorization",
        "authorization_summary",
        "request_refused",
        "session_expired",
    }
    for event in events:
        fields = frozenset(name for name in EVENT_FIELDS if getattr(event, name) is not None)
        assert missing(event.event, fields) == [], event


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

    assert counted == {
        "authorization_summary",
        "authorization_collapsed",
        "authentication_collapsed",
        "request_collapsed",
        "request_summary",
        "throttled",
    }
