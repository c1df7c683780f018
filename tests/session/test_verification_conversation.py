"""Checks of logins that take long: what a session does while one is under way, and what comes of it."""

import pytest

from proxy.security.sasl.exchange import Exchange, Outcome, Rejected
from proxy.session.authentication import SaslListener
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import Conversation, plain_token, produce, produced, sasl

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
MINUTE_MS = 60_000


def waiting(password: str = "a-secret", version: int = 2) -> Conversation:
    """alice has sent her password, and nobody has looked at it yet."""
    talk = Conversation("WRITE TOPIC orders", sasl_listener=sasl(MINUTE_MS))
    talk.holds_checks = True
    talk.shakes_hands()
    talk.asks(AUTHENTICATE, version, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice", password)))
    return talk


@pytest.mark.spec("R9")
def test_requests_that_come_meanwhile_wait_for_the_answer() -> None:
    talk = waiting()
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))

    assert talk.session.blocked
    assert (talk.heard_bytes(), talk.forwarded(), talk.events) == (b"", [], [])

    talk.is_verified()

    assert talk.heard(AUTHENTICATE, 2).session_lifetime_ms == MINUTE_MS
    assert [request.header.api_key for request in talk.forwarded()] == [ApiKey.PRODUCE]
    assert [e.principal for e in talk.told("authentication")] == ["User:alice"]


@pytest.mark.spec("R6")
def test_a_rejection_closes_the_connection_and_what_came_meanwhile_is_not_served() -> None:
    talk = waiting("wrong")
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))

    talk.is_verified()

    assert talk.heard(AUTHENTICATE, 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert (talk.close_reason, talk.forwarded()) == ("authentication_failed", [])
    assert [e.client_id for e in talk.told("authentication_failed")] == ["app"]


@pytest.mark.spec("R5")
def test_answers_to_pipelined_requests_flow_during_the_check_and_leave_before_its_own() -> None:
    talk = waiting()
    talk.is_verified()
    talk.heard_bytes()
    first = talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    second = talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    shake = talk.asks(HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
    token = talk.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice")))

    talk.answers(ApiKey.PRODUCE, 9, produced("orders"), first)
    assert [c for c, _ in talk.heard_all((ApiKey.PRODUCE, 9))] == [first]
    talk.is_verified()
    assert talk.heard_bytes() == b""
    talk.answers(ApiKey.PRODUCE, 9, produced("orders"), second)

    heard = talk.heard_all((ApiKey.PRODUCE, 9), (HANDSHAKE, 1), (AUTHENTICATE, 2))
    assert [correlation_id for correlation_id, _ in heard] == [second, shake, token]


@pytest.mark.spec("R4")
@pytest.mark.parametrize(("password", "reason"), [("a-secret", None), ("wrong", "authentication_failed")])
def test_a_bare_token_is_checked_elsewhere_too(password: str, reason: str | None) -> None:
    talk = Conversation(sasl_listener=sasl(MINUTE_MS))
    talk.holds_checks = True
    talk.shakes_hands("PLAIN", version=0)
    token = plain_token("alice", password)
    talk.sends(len(token).to_bytes(4, "big") + token)
    assert talk.heard_bytes() == b""

    talk.is_verified()

    assert (talk.heard_bytes(), talk.close_reason) == (b"" if reason else bytes(4), reason)


@pytest.mark.spec("R5")
def test_another_principal_is_refused_after_its_check() -> None:
    talk = waiting()
    talk.is_verified()
    talk.heard_bytes()
    talk.shakes_hands()
    talk.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("bob")))

    talk.is_verified()

    response = talk.heard(AUTHENTICATE, 2)
    assert (response.error_code, talk.close_reason) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "authentication_failed",
    )
    assert response.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )


class Broken:
    """A mechanism with a fault."""

    def respond(self, token: bytes, now_ms: int) -> Outcome:
        raise RuntimeError("a fault of the mechanism")


def broken(_mechanism: str) -> Exchange:
    return Broken()


@pytest.mark.spec("R9")
def test_a_mechanism_that_raises_rejects_and_the_fault_reaches_whoever_runs_the_check() -> None:
    talk = Conversation(sasl_listener=SaslListener("SASL", ("PLAIN",), lambda _: 0, broken))
    talk.holds_checks = True
    talk.shakes_hands()
    talk.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice")))

    with pytest.raises(RuntimeError, match="a fault of the mechanism"):
        talk.checks[0].check.work()
    talk.is_verified(Rejected("", "the check of the credentials failed"))

    assert talk.heard(AUTHENTICATE, 2).error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
    )
    assert talk.close_reason == "authentication_failed"
