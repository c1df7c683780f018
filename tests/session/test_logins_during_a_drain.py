"""Logins that meet a drain at any of their messages: they end as at any time, and the session with them."""

from collections.abc import Callable
from typing import Any

import pytest

from proxy.metadata.scram import ScramMechanism, credential_from_password
from proxy.security.jwk_set import JwkSet
from proxy.security.jwt import JwtPolicy
from proxy.security.sasl.client import ScramClient
from proxy.security.sasl.exchange import Exchange
from proxy.security.sasl.oauthbearer import OAuthBearerExchange, TrustedProvider
from proxy.security.sasl.oauthbearer_message import ClientFirst
from proxy.security.sasl.scram import ScramExchange
from proxy.session.authentication import SaslListener
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import (
    NOW_MS,
    PASSWORDS,
    Conversation,
    frames_of,
    plain_token,
    produce,
    produced,
    sasl,
)
from tests.support.identity_provider import AUDIENCE, ISSUER, jwks, rsa, token

pytestmark = pytest.mark.spec("O4", "R9")

HANDSHAKE, AUTHENTICATE, PRODUCE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.PRODUCE
API_VERSIONS = ApiKey.API_VERSIONS
SHA_256 = ScramMechanism.SCRAM_SHA_256
SALTED = credential_from_password(SHA_256, PASSWORDS["alice"], b"salt")
NOW_S = NOW_MS // 1_000


class _Source:
    keys = JwkSet.parse(jwks(rsa()))

    def newer(self, key_id: str | None) -> None:
        return None


def _exchange(mechanism: str) -> Exchange:
    if mechanism == "SCRAM-SHA-256":
        return ScramExchange(SHA_256, {"alice": SALTED}.get, "nonce", b"key")
    if mechanism == "OAUTHBEARER":
        return OAuthBearerExchange((TrustedProvider(_Source(), JwtPolicy(ISSUER, frozenset({AUDIENCE}))),))
    return sasl().new_exchange(mechanism)


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")


def _conversation() -> Conversation:
    listener = SaslListener("SASL", MECHANISMS, lambda _mechanism: 60_000, _exchange)
    return Conversation("WRITE TOPIC orders", sasl_listener=listener)


def _drains(talk: Conversation) -> None:
    talk.carry_out(talk.session.drain())


Send = Callable[[bytes], bytes]


def _plain(send: Send) -> None:
    send(plain_token("alice"))


def _scram(send: Send) -> None:
    client = ScramClient(SHA_256, "alice", PASSWORDS["alice"], "of-the-client")
    proof = client.respond(send(client.first()))
    assert proof is not None
    client.respond(send(proof))
    assert client.done


def _bearer(send: Send) -> None:
    assert send(ClientFirst(token(NOW_S, sub="alice")).encode()) == b""


LOGINS = {"PLAIN": _plain, "SCRAM-SHA-256": _scram, "OAUTHBEARER": _bearer}


class _Login:
    """A login during which the drain begins before one of its messages."""

    def __init__(self, talk: Conversation, drained_at: int | None) -> None:
        self._talk, self._left = talk, drained_at
        self.has_drained = False

    def in_full(self, mechanism: str, version: int) -> None:
        """`version`: of SaslAuthenticate; -1: bare tokens."""
        self._next()
        versions = t.ApiVersionsRequest(client_software_name="app", client_software_version="1")
        self._talk.asks(API_VERSIONS, 3, versions)
        assert self._talk.heard(API_VERSIONS, 3).error_code == ErrorCode.NONE
        self.of(mechanism, version)

    def of(self, mechanism: str, version: int) -> None:
        self._next()
        assert self._talk.shakes_hands(mechanism, min(version + 1, 1)).error_code == ErrorCode.NONE
        LOGINS[mechanism](self._bare if version < 0 else lambda token: self._framed(token, version))

    def _framed(self, token: bytes, version: int) -> bytes:
        self._next()
        answer = self._talk.authenticates(token, version)
        assert answer.error_code == ErrorCode.NONE
        return bytes(answer.auth_bytes)

    def _bare(self, token: bytes) -> bytes:
        self._next()
        self._talk.sends(len(token).to_bytes(4, "big") + token)
        (frame,) = frames_of(self._talk.heard_bytes())
        return frame[4:]

    def _next(self) -> None:
        assert self._talk.close_reason is None
        if self._left == 0:
            _drains(self._talk)
            assert self._talk.close_reason is None, "the login is not over"
            assert self._talk.session.takes_rest
            self.has_drained = True
        self._left = None if self._left is None else self._left - 1


def _messages(mechanism: str) -> int:
    """The number of tokens that the client sends."""
    return 2 if mechanism == "SCRAM-SHA-256" else 1


EACH = [
    (mechanism, version, step)
    for mechanism in MECHANISMS
    for version in (-1, 0, 1, 2)
    for step in range(2 + _messages(mechanism))
]


@pytest.mark.parametrize(("mechanism", "version", "step"), EACH)
def test_a_login_that_meets_a_drain_succeeds_and_then_the_session_ends(
    mechanism: str, version: int, step: int
) -> None:
    talk = _conversation()
    login = _Login(talk, drained_at=step)

    login.in_full(mechanism, version)

    assert login.has_drained
    assert talk.close_reason == "drained"
    assert [event.principal for event in talk.told("authentication")] == ["User:alice"]
    assert talk.told("authentication_failed") == []


@pytest.mark.parametrize(("mechanism", "version", "step"), [each for each in EACH if each[2] > 0])
def test_a_renewed_login_that_meets_a_drain_succeeds_and_then_the_session_ends(
    mechanism: str, version: int, step: int
) -> None:
    talk = _conversation()
    _Login(talk, None).of(mechanism, version)
    if step == 1:  # Before its SaslHandshake a renewed login has not begun.
        _drains(talk)
        assert talk.close_reason == "drained"
        return
    login = _Login(talk, drained_at=step - 1)

    login.of(mechanism, version)

    assert login.has_drained
    assert talk.close_reason == "drained"
    assert len(talk.told("reauthentication")) == 1
    assert talk.told("reauthentication_failed") == []


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_no_request_is_taken_behind_the_last_message_of_a_login(mechanism: str) -> None:
    talk = _conversation()
    _Login(talk, None).of(mechanism, 2)
    talk.asks(HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism=mechanism))
    talk.heard(HANDSHAKE, 1)
    answers: list[Any] = []

    def send(token: bytes) -> bytes:
        frame = talk.request(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=token))
        is_last = len(answers) + 1 == _messages(mechanism)
        talk.sends(frame + (talk.request(PRODUCE, 9, produce("orders")) if is_last else b""))
        answers.append(talk.heard(AUTHENTICATE, 2))
        return bytes(answers[-1].auth_bytes)

    _drains(talk)
    LOGINS[mechanism](send)

    assert [answer.error_code for answer in answers] == [0] * _messages(mechanism)
    assert (talk.forwarded(), talk.close_reason) == ([], "drained")


def test_a_response_in_flight_and_that_of_a_renewed_login_leave_in_order_before_the_end() -> None:
    talk = _conversation()
    _Login(talk, None).of("PLAIN", 2)
    written = talk.asks(PRODUCE, 9, produce("orders"))
    talk.asks(HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))

    _drains(talk)
    talk.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice")))
    assert talk.close_reason is None
    talk.answers(PRODUCE, 9, produced("orders"), written)

    (_, first), (_, _), (_, last) = talk.heard_all((PRODUCE, 9), (HANDSHAKE, 1), (AUTHENTICATE, 2))
    assert (first.responses[0].name, last.error_code) == ("orders", 0)
    assert talk.close_reason == "drained"


def test_a_wrong_password_is_rejected_and_recorded_during_a_drain_as_at_any_time() -> None:
    talk = _conversation()
    talk.shakes_hands()

    _drains(talk)
    answer = talk.authenticates(plain_token("alice", "wrong"))

    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert len(talk.told("authentication_failed")) == 1
    assert talk.close_reason == "authentication_failed"


def test_an_invalid_token_is_rejected_with_its_last_message_during_a_drain() -> None:
    talk = _conversation()
    talk.shakes_hands("OAUTHBEARER")
    talk.authenticates(ClientFirst(token(NOW_S, aud="else")).encode())

    _drains(talk)
    answer = talk.authenticates(b"\x01")

    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert len(talk.told("authentication_failed")) == 1
    assert talk.close_reason == "authentication_failed"


def test_a_client_of_too_new_an_api_versions_logs_in_with_the_version_it_is_told() -> None:
    talk = _conversation()

    _drains(talk)
    frame = bytearray(talk.request(API_VERSIONS, 3, t.ApiVersionsRequest()))
    frame[6:8] = (99).to_bytes(2, "big")
    talk.sends(bytes(frame))
    assert talk.heard(API_VERSIONS, 0).error_code == ErrorCode.UNSUPPORTED_VERSION
    _Login(talk, None).in_full("PLAIN", 2)

    assert talk.close_reason == "drained"


@pytest.mark.parametrize("checks", ["in full", "while verified"])
def test_a_message_of_a_login_that_comes_in_pieces_is_taken(checks: str) -> None:
    talk = _conversation()
    talk.holds_checks = checks == "while verified"
    talk.shakes_hands()
    frame = talk.request(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice")))
    talk.sends(frame[:9])

    _drains(talk)
    talk.sends(frame[9:])
    if talk.checks:
        assert not talk.session.takes_rest
        assert talk.close_reason is None
        talk.is_verified()

    assert talk.heard(AUTHENTICATE, 2).error_code == ErrorCode.NONE
    assert talk.close_reason == "drained"
