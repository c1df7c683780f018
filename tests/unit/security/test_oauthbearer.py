"""OAUTHBEARER, server side: tokens in, challenges, principals and rejections out."""

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from proxy.security.claims import ClaimPath, GroupsClaim, NameClaim
from proxy.security.jwk_set import JwkSet
from proxy.security.jwt import Invalid, JwtPolicy
from proxy.security.principal import Principal
from proxy.security.sasl.exchange import Accepted, Challenge, Deferred, Rejected
from proxy.security.sasl.oauthbearer import OAuthBearerExchange, TrustedProvider, provider_of
from proxy.security.sasl.oauthbearer_message import ClientFirst
from tests.support.identity_provider import ABSENT, AUDIENCE, ISSUER, jwks, part, rsa, signed, token

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
    return OAuthBearerExchange((TrustedProvider(source or Source(jwks(rsa())), policy),))


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


PARTNER = "https://partner.example"
OURS, THEIRS = rsa("rsa-1"), rsa("rsa-2")


def two_providers() -> tuple[OAuthBearerExchange, Source, Source]:
    ours, theirs = Source(jwks(OURS)), Source(jwks(THEIRS))
    names = (NameClaim(ClaimPath.parse("sub"), "partner-"),)
    partner = JwtPolicy(PARTNER, frozenset({"p"}), names=names, required_scopes=frozenset({"x"}))
    login = OAuthBearerExchange((TrustedProvider(ours, POLICY), TrustedProvider(theirs, partner)))
    return login, ours, theirs


@pytest.mark.spec("A9")
def test_the_issuer_of_a_token_chooses_keys_audience_and_names() -> None:
    assert two_providers()[0].respond(first(token(NOW_S, key=OURS)), NOW) == ALICE

    text = token(NOW_S, key=THEIRS, iss=PARTNER, aud="p", scope="x")
    assert two_providers()[0].respond(first(text), NOW) == Accepted(
        Principal("User", "partner-alice"), b"", NOW + 300_000
    )
    text = token(NOW_S, key=THEIRS, iss=PARTNER, aud="p")
    told = two_providers()[0].respond(first(text), NOW)
    assert told == Challenge(
        b'{"status":"insufficient_scope", "scope":"x"}', "invalid token: without scope x"
    )


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (token(NOW_S, key=THEIRS), "unknown key 'rsa-2'"),
        (token(NOW_S, key=OURS, iss=PARTNER, aud="p"), "unknown key 'rsa-1'"),
        (token(NOW_S, key=THEIRS, header={"kid": "rsa-1"}), "wrong signature"),
        (token(NOW_S, key=THEIRS, iss=PARTNER), "meant for another audience"),
    ],
)
def test_no_provider_speaks_for_another_one(text: str, reason: str) -> None:
    login, ours, theirs = two_providers()
    ours._asks = theirs._asks = False

    assert login.respond(first(text), NOW) == Challenge(INVALID.encode(), f"invalid token: {reason}")


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (token(NOW_S, iss=f"{ISSUER}/"), f"issuer '{ISSUER}/' is not one of the expected ones"),
        (token(NOW_S, iss=ISSUER[:-1]), f"issuer '{ISSUER[:-1]}' is not one of the expected ones"),
        (token(NOW_S, iss=f" {ISSUER}"), f"issuer ' {ISSUER}' is not one of the expected ones"),
        (token(NOW_S, iss="x" * 200), f"issuer '{'x' * 128}…' is not one of the expected ones"),
        (token(NOW_S, iss=ABSENT), "no iss claim, or iss is not a string"),
        (token(NOW_S, iss=[ISSUER]), "no iss claim, or iss is not a string"),
        ("a.b", "not a signed JWT: 2 parts instead of 3"),
        ("a.!.c", "payload is not base64url"),
        (f"a.{part(b'[')}.c", "payload is not JSON, or names a member twice"),
        (f"a.{part(b'[1]')}.c", "payload is not a JSON object"),
        ("x" * 16_385, "a token of 16385 bytes, limit 16384"),
    ],
)
def test_a_token_of_no_known_issuer_is_rejected_before_any_key_is_looked_up(text: str, reason: str) -> None:
    login, ours, theirs = two_providers()
    message = b"n,,\x01auth=Bearer " + text.encode() + b"\x01\x01"
    if "!" in text:
        # The message allows no such token; a provider is chosen all the same.
        providers = (TrustedProvider(ours, POLICY), TrustedProvider(theirs, POLICY))
        assert provider_of(text, providers) == Invalid(reason)
    else:
        assert login.respond(message, NOW) == Challenge(INVALID.encode(), f"invalid token: {reason}")
    assert ours.asked == theirs.asked == []


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


HUGE, SMALL = "g" * 32_768, "g" * 8_000


@pytest.mark.spec("A8", "O8")
@pytest.mark.parametrize(
    ("members", "reason"),
    [
        (f'"groups":{json.dumps([str(number) for number in range(5_000)])}', "bytes, limit 16384"),
        (f'"groups":["{HUGE}"]', "bytes, limit 16384"),
        (f'"groups":["{SMALL}"]', "the name of a group has 8000 bytes, limit 249"),
        (f'"groups":{json.dumps([str(number) for number in range(1_500)])}', "1500 groups, limit 1000"),
        # Hypothesis lets Python recurse deeper in the process in which one of its tests runs.
        (
            f'"groups":{"[" * 1_000}"a"{"]" * 1_000}',
            "payload is not JSON, or names a member twice|is neither a string nor a list",
        ),
        (f'"groups":{"[" * 100}"a"{"]" * 100}', "groups is neither a string nor a list of them"),
        (f'"{SMALL}":1,"groups":[{{"{SMALL[:500]}":1}}]', "groups is neither a string nor a list of them"),
        ('"groups":["a"],"groups":[]', "payload is not JSON, or names a member twice"),
        (r'"groups":["a","b\u0000"]', "contains a control character or is not text"),
        (r'"groups":["\ud800"]', "contains a control character or is not text"),
        ('"groups":["*"]', r"a group is named \*"),
        ('"groups":1e999', "payload is not JSON, or names a member twice|is neither a string nor a list"),
    ],
    ids=[
        *("5,000 groups", "a name of 32 kB", "a name of 8 kB", "1,500 groups", "nested 1,000 deep"),
        *(
            "nested 100 deep",
            "objects",
            "twice",
            "a control character",
            "half a character",
            "all",
            "infinity",
        ),
    ],
)
def test_hostile_groups_are_an_invalid_token_with_a_short_reason(members: str, reason: str) -> None:
    usual = f'"iss":"{ISSUER}","aud":"{AUDIENCE}","sub":"alice","iat":{NOW_S},"exp":{NOW_S + 300}'
    payload = f"{{{usual},{members}}}".encode()
    policy = replace(POLICY, groups=GroupsClaim(ClaimPath.parse("groups")))
    login = exchange(policy=policy)

    told = login.respond(first(signed({"alg": "RS256", "kid": "rsa-1"}, payload, rsa(), "RS256")), NOW)

    assert isinstance(told, Challenge)
    assert told.token == INVALID.encode()
    assert re.search(reason, told.failure)
    assert len(told.failure) < 200
    assert isinstance(login.respond(b"\x01", NOW), Rejected)
