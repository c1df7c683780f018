"""GSSAPI over a whole connection: several tokens, sessions that end, and failures."""

from typing import Any

import pytest

from proxy.security.kerberos_names import LocalRules
from proxy.security.sasl.gssapi import GssapiExchange
from proxy.session.authentication import SaslListener
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import Conversation
from tests.support.fake_kerberos import FakeAcceptor, FakeInitiator

HOUR_MS = 3_600_000


def conversation(max_reauth_ms: int = 0) -> Conversation:
    seen: set[bytes] = set()

    def new_exchange(_mechanism: str) -> GssapiExchange:
        return GssapiExchange(lambda: FakeAcceptor(seen), lambda name: LocalRules().name(name, "ACME.ORG"))

    listener = SaslListener("SASL", ("GSSAPI",), lambda _: max_reauth_ms, new_exchange)
    return Conversation(sasl_listener=listener)


def logs_in(talk: Conversation, name: str = "alice@ACME.ORG", nonce: bytes = b"n0") -> Any:
    client = FakeInitiator(name)
    talk.shakes_hands("GSSAPI")
    talk.authenticates(client.ticket(nonce))
    offered = talk.authenticates(b"")
    return talk.authenticates(client.choice(bytes(offered.auth_bytes)))


@pytest.mark.spec("R2", "R9")
@pytest.mark.parametrize("limit_ms", [0, HOUR_MS])
def test_a_session_lasts_as_long_as_the_listener_says(limit_ms: int) -> None:
    talk = conversation(limit_ms)
    answer = logs_in(talk)

    assert (answer.error_code, bytes(answer.auth_bytes), answer.session_lifetime_ms) == (0, b"", limit_ms)
    assert [event.principal for event in talk.told("authentication")] == ["User:alice"]


@pytest.mark.spec("R5", "R9")
def test_a_session_is_renewed_with_another_ticket_of_the_same_user() -> None:
    talk = conversation(HOUR_MS)
    logs_in(talk)

    assert logs_in(talk, nonce=b"n1").session_lifetime_ms == HOUR_MS
    assert [event.principal for event in talk.told("reauthentication")] == ["User:alice"]


@pytest.mark.spec("R6", "R9")
def test_a_session_is_not_renewed_by_another_user() -> None:
    talk = conversation(HOUR_MS)
    logs_in(talk)

    answer = logs_in(talk, "bob@ACME.ORG", b"n1")

    assert (
        answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert talk.close_reason == "authentication_failed"


@pytest.mark.spec("R6", "R9", "D1")
def test_a_session_is_not_renewed_with_the_ticket_of_its_login() -> None:
    talk = conversation(HOUR_MS)
    logs_in(talk)
    talk.shakes_hands("GSSAPI")

    answer = talk.authenticates(FakeInitiator().ticket(b"n0"))

    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert talk.close_reason == "authentication_failed"
    assert [event.message for event in talk.told("reauthentication_failed")] == ["request is a replay"]


@pytest.mark.spec("R9", "D1")
def test_a_ticket_for_another_service_is_told_without_a_reason() -> None:
    talk = conversation()
    talk.shakes_hands("GSSAPI")
    answer = talk.authenticates(FakeInitiator(service_key=b"of HTTP/localhost").ticket())

    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
    )
    assert [event.message for event in talk.told("authentication_failed")] == ["defective token"]
