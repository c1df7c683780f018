"""The whole audit record of each way in which a session ends other than by its client."""

from typing import Any

import pytest

from proxy.audit.record import AuditEvent
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, produce, produced, sasl
from tests.session.test_ending_conversation import Users, asked_to_prove, swept, with_users

pytestmark = pytest.mark.spec("D1", "R3")

MINUTE_MS = 60_000
OF_THE_CONNECTION = {"connection_id": "c0ffee", "listener": "SASL", "host": "10.0.0.1"}
"""In each record."""


def produced_before(talk: Conversation) -> None:
    """The first request of a connection is decoded whole; later ones to that topic stream."""
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    talk.answers(ApiKey.PRODUCE, 9, produced("orders"))


def stated(talk: Conversation, event: str) -> dict[str, Any]:
    """The only record of that event, without what every record has."""
    (record,) = talk.told(event)
    assert isinstance(record, AuditEvent)
    found = {name: getattr(record, name) for name in AuditEvent.__dataclass_fields__}
    found = {name: value for name, value in found.items() if value is not None}
    assert OF_THE_CONNECTION.items() <= found.items()
    return {
        name: value for name, value in found.items() if name not in (*OF_THE_CONNECTION, "metadata_offset")
    }


def test_a_session_that_is_used_past_its_end() -> None:
    talk = Conversation("WRITE TOPIC orders", sasl_listener=sasl(MINUTE_MS))
    talk.logs_in()
    talk.passes(MINUTE_MS)

    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))

    record = stated(talk, "session_expired")
    assert record.pop("correlation_id") == talk.correlation_id
    assert record == {
        "event": "session_expired",
        "principal": "User:alice",
        "client_id": "app",
        "method": "Produce",
        "api_version": 9,
        "error_code": 0,
        "mechanism": "PLAIN",
        "message": "used past the end of its session without re-authentication",
    }


def test_a_session_whose_last_request_is_cut_by_its_end() -> None:
    talk = Conversation("WRITE TOPIC orders", sasl_listener=sasl(MINUTE_MS))
    talk.logs_in()
    produced_before(talk)
    request = talk.request(ApiKey.PRODUCE, 9, produce("orders", records=bytes(9_000)))
    talk.sends(request[:5_000])
    talk.passes(MINUTE_MS)

    talk.sends(request[5_000:])

    assert stated(talk, "session_expired") == {
        "event": "session_expired",
        "principal": "User:alice",
        "client_id": "app",
        "error_code": 0,
        "mechanism": "PLAIN",
        "message": "used past the end of its session without re-authentication",
    }


def test_a_session_that_is_idle_past_its_end() -> None:
    talk = Conversation(sasl_listener=sasl(MINUTE_MS))
    talk.logs_in()
    talk.passes(MINUTE_MS)

    swept(talk)

    assert stated(talk, "session_expired_idle") == {
        "event": "session_expired_idle",
        "principal": "User:alice",
        "error_code": 0,
        "mechanism": "PLAIN",
        "message": "past the end of its session and idle",
    }


def test_a_session_whose_credential_was_removed() -> None:
    users = Users()
    talk = with_users(users)
    talk.logs_in()
    del users.passwords["alice"]

    asked_to_prove(talk)

    assert stated(talk, "session_revoked") == {
        "event": "session_revoked",
        "principal": "User:alice",
        "error_code": 0,
        "mechanism": "PLAIN",
        "message": "the credential it logged in with was changed or removed",
    }


@pytest.mark.spec("S5")
def test_a_produce_whose_acl_is_removed_before_its_last_bytes() -> None:
    talk = Conversation("WRITE TOPIC orders")
    produced_before(talk)
    request = talk.request(ApiKey.PRODUCE, 9, produce("orders", records=bytes(9_000)))
    talk.sends(request[:5_000])
    talk.gate.image = image_with("READ TOPIC orders")

    talk.sends(request[5_000:])

    assert talk.close_reason == "produce_denied"
    (denial,) = [event for event in talk.told("authorization") if event.granted is False]
    assert (denial.method, denial.operation, denial.resource_type, denial.resource_name) == (
        "Produce",
        "WRITE",
        "TOPIC",
        "orders",
    )
    assert (denial.pattern_type, denial.principal, denial.error_code) == ("LITERAL", "User:alice", 0)
    assert denial.message == "denied before the last bytes of the request were sent on"


def test_a_request_that_does_not_belong_to_the_login() -> None:
    talk = Conversation(sasl_listener=sasl())

    talk.asks(ApiKey.METADATA, 9, t.MetadataRequest(topics=None))

    assert talk.close_reason == "illegal_sasl_state"
    (record,) = talk.events
    assert (record.client_id, record.principal, record.granted) == ("app", None, None)
    assert record.message == "Metadata request while authentication was under way"
    assert talk.closed is not None
    assert talk.closed.message == record.message
