"""OAUTHBEARER, server side: tokens in, challenges, principals and rejections out."""

from collections.abc import Awaitable, Callable

import pytest

from proxy.security.jwk_set import JwkSet
from proxy.security.jwt import JwtPolicy
from proxy.security.principal import Principal
from proxy.security.sasl.exchange import Accepted, Challenge, Deferred, Rejected
from proxy.security.sasl.oauthbearer import OAuthBearerExchange
from proxy.security.sasl.oauthbearer_message import ClientFirst
from tests.support.identity_provider import AUDIENCE, ISSUER, jwks, rsa, token

pytestmark = pytest.mark.spec("R9")

NOW_S = 1_700_000_000
NOW = NOW_S * 1000
POLICY = JwtPolicy(ISSUER, frozenset({AUDIENCE}))
ALICE = Accepted(Principal("User", "alice"), b"", NOW + 300_000)
INVALID = '{"status":"invalid_token"}'


class Source:
    """Keys, and those that come when newer ones are asked for; None: they cannot be asked for now."""

    def __init__(self, keys: bytes | None = None, newer: bytes | None = None, *, asks: bool = True) -> None:
        self.keys = JwkSet.parse(keys) if keys else None
        self._newer = newer
        self._asks = asks
        self.asked: list[str | None] = []

    def newer(self, key_id: str | None) -> Callable[[], Awaitable[None]] | None:
        if not self._asks:
            return None
        self.asked.append(key_id)

        async def ready() -> None:
            if self._newer:
                self.keys = JwkSet.parse(self._newer)

        return ready


def exchange(source: Source | None = None, policy: JwtPolicy = POLICY) -> OAuthBearerExchange:
    return OAuthBearerExchange(source or Source(jwks(rsa())), policy)


def first(text: str | None = None, authorization_id: str = "", **extensions: str) -> bytes:
    return ClientFirst(token(NOW_S) if text is None else text, authorization_id, extensions).encode()


@pytest.mark.parametrize(
    "message", [first(), first(authorization_id="alice"), first(traceId="123", logicalCluster="lkc")]
)
def test_a_valid_token_is_its_subject_until_it_expires(message: bytes) -> None:
    assert exchange().respond(message, NOW) == ALICE


def test_an_invalid_token_is_told_first_and_refused_when_the_client_has_read_it() -> None:
    login = exchange()
    text = token(NOW_S, iss="https://evil.example")

    reason = "invalid token: issuer 'https://evil.example' is not the expected one"
    assert login.respond(first(text), NOW) == Challenge(INVALID.encode(), reason)
    assert login.respond(b"\x01", NOW) == Rejected(
        INVALID, "invalid token: issuer 'https://evil.example' is not the expected one"
    )
    assert login.respond(first(), NOW) == Rejected("", "a token after the end of the exchange")


def test_after_an_invalid_token_no_other_is_taken() -> None:
    login = exchange()
    login.respond(first(token(NOW_S, aud="else")), NOW)

    refused = login.respond(first(), NOW)
    assert refused == Rejected(
        "", "invalid token: meant for another audience; and the message after it is not the expected one"
    )
    assert isinstance(login.respond(first(), NOW), Rejected)


def test_a_token_without_a_required_scope_is_told_which() -> None:
    policy = JwtPolicy(ISSUER, frozenset({AUDIENCE}), required_scopes=frozenset({"stream", 'b"d'}))
    login = exchange(policy=policy)
    error = '{"status":"insufficient_scope", "scope":"b\\"d stream"}'

    assert login.respond(first(), NOW) == Challenge(error.encode(), 'invalid token: without scope b"d')
    assert login.respond(b"\x01", NOW) == Rejected(error, 'invalid token: without scope b"d')


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "malformed client first message"),
        (b"\x01", "malformed client first message"),
        (b"n,,\x01\x01", "the message has no auth"),
        (b"\xff", "the message is not ASCII"),
        (b"n,,\x01auth=Bearer " + b"x" * 70_000 + b"\x01\x01", "a message of 70018 bytes, limit 65536"),
    ],
)
def test_what_is_no_first_message_is_refused_at_once_and_without_a_word(message: bytes, reason: str) -> None:
    assert exchange().respond(message, NOW) == Rejected("", reason)


def test_the_authorization_id_must_be_the_principal() -> None:
    assert exchange().respond(first(authorization_id="root"), NOW) == Rejected(
        "Authentication failed: Client requested an authorization id (root) that is different from"
        " the token's principal name (alice)",
        "'alice' asked to act as 'root'",
    )


def test_a_token_is_good_for_one_exchange_at_a_time() -> None:
    login = exchange()
    login.respond(first(), NOW)

    assert login.respond(first(), NOW) == Rejected("", "a token after the end of the exchange")


async def test_a_token_with_a_new_key_waits_for_it() -> None:
    source = Source(jwks(rsa("rsa-1")), jwks(rsa("rsa-2")))
    waiting = exchange(source).respond(first(token(NOW_S, key=rsa("rsa-2"))), NOW)

    assert isinstance(waiting, Deferred)
    assert waiting.ready is not None
    await waiting.ready()
    assert waiting.work() == ALICE
    assert source.asked == ["rsa-2"]


async def test_a_token_whose_key_does_not_come_is_refused_like_any_other() -> None:
    login = exchange(Source(jwks(rsa("rsa-1"))))
    waiting = login.respond(first(token(NOW_S, key=rsa("rsa-2"))), NOW)

    assert isinstance(waiting, Deferred)
    assert waiting.ready is not None
    await waiting.ready()
    assert waiting.work() == Challenge(INVALID.encode(), "invalid token: unknown key 'rsa-2'")
    assert login.respond(b"\x01", NOW) == Rejected(INVALID, "invalid token: unknown key 'rsa-2'")


def test_a_token_does_not_wait_where_newer_keys_were_just_asked_for() -> None:
    login = exchange(Source(jwks(rsa("rsa-1")), asks=False))

    assert login.respond(first(token(NOW_S, key=rsa("rsa-2"))), NOW) == Challenge(
        INVALID.encode(), "invalid token: unknown key 'rsa-2'"
    )


def test_before_there_are_keys_nobody_gets_in() -> None:
    login = exchange(Source(None, asks=False))

    reason = "invalid token: the identity provider's keys are not loaded yet"
    assert login.respond(first(), NOW) == Challenge(INVALID.encode(), reason)
    assert login.respond(b"\x01", NOW) == Rejected(
        INVALID, "invalid token: the identity provider's keys are not loaded yet"
    )


async def test_a_login_that_comes_before_the_first_keys_waits_for_them() -> None:
    waiting = exchange(Source(None, jwks(rsa()))).respond(first(), NOW)

    assert isinstance(waiting, Deferred)
    assert waiting.ready is not None
    await waiting.ready()
    assert waiting.work() == ALICE
