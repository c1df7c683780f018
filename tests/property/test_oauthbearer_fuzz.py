"""Whatever a stranger sends instead of a token: no principal, no crash, and not a word of it in a reason."""

from collections.abc import Awaitable, Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.security.claims import ClaimPath, GroupsClaim, NameClaim
from proxy.security.jwk_set import JwkSet, JwkSetError
from proxy.security.jwt import Claims, Invalid, JwtPolicy, verify
from proxy.security.principal import Principal, group_names
from proxy.security.sasl.exchange import Accepted, Challenge, Rejected
from proxy.security.sasl.oauthbearer import OAuthBearerExchange, TrustedProvider
from proxy.security.sasl.oauthbearer_message import ClientFirst
from tests.support.identity_provider import AUDIENCE, ISSUER, ec, ed25519, jwks, part, rsa, signed, token

pytestmark = pytest.mark.spec("R9")

NOW_S = 1_700_000_000
NOW = NOW_S * 1000
KEYS = JwkSet.parse(jwks(rsa(), ec(), ed25519()))
POLICY = JwtPolicy(
    ISSUER,
    frozenset({AUDIENCE}),
    names=(NameClaim(ClaimPath.parse("/act/sub")), NameClaim(ClaimPath.parse("sub"))),
    groups=GroupsClaim(ClaimPath.parse("/act/groups"), ","),
)
GOOD = token(NOW_S)
MESSAGE = ClientFirst(GOOD).encode()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
CLAIMS = st.dictionaries(
    st.sampled_from(["iss", "aud", "sub", "exp", "iat", "nbf", "scope", "jti", "act", "_claim_names"]),
    JSON | st.dictionaries(st.sampled_from(["sub", "groups"]), JSON | st.lists(st.text(max_size=4))),
    max_size=4,
)
HEADERS = st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "x5c", "jku"]), JSON)


class Source:
    keys = KEYS

    def newer(self, key_id: str | None) -> Callable[[], Awaitable[None]] | None:
        return None


def answers(*messages: bytes) -> list[Challenge | Accepted | Rejected]:
    login = OAuthBearerExchange((TrustedProvider(Source(), POLICY),))
    outcomes = [login.respond(message, NOW) for message in messages]
    assert all(isinstance(outcome, Challenge | Accepted | Rejected) for outcome in outcomes)
    return outcomes  # type: ignore[return-value]


@given(st.lists(st.binary(max_size=200) | st.just(b"\x01"), min_size=1, max_size=4))
@example([b"\x01", b"\x01"])
def test_bytes_are_nobody(messages: list[bytes]) -> None:
    assert not any(isinstance(outcome, Accepted) for outcome in answers(*messages))


@given(st.integers(0, len(MESSAGE) - 1), st.integers(0, 255))
def test_a_good_message_with_another_byte_is_alice_or_nobody(place: int, byte: int) -> None:
    changed = MESSAGE[:place] + bytes([byte]) + MESSAGE[place + 1 :]
    (outcome,) = answers(changed)

    # "BEARER", say, is no other message; but there is no byte of it that makes her somebody else.
    if isinstance(outcome, Accepted):
        assert outcome.principal == Principal("User", "alice")


@given(st.integers(0, len(MESSAGE) - 1))
def test_a_message_that_is_cut_is_nobody(length: int) -> None:
    assert not isinstance(answers(MESSAGE[:length])[0], Accepted)


@given(HEADERS, CLAIMS | JSON, st.binary(max_size=300))
def test_no_signature_that_is_made_up_is_valid(header: object, payload: object, signature: bytes) -> None:
    try:
        text = f"{part(header)}.{part(payload)}.{part(signature)}"
    except UnicodeEncodeError:
        return
    assert isinstance(verify(text, KEYS, POLICY, NOW), Invalid)


@given(CLAIMS)
def test_signed_claims_of_any_kind_are_judged_without_a_crash(claims: dict[str, object]) -> None:
    usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": NOW_S, "exp": NOW_S + 300}
    text = signed({"alg": "EdDSA", "kid": "Ed25519"}, usual | claims, ed25519(), "EdDSA")
    found = verify(text, KEYS, POLICY, NOW)

    if isinstance(found, Claims):
        actor = (usual | claims).get("act") or {}
        named = actor.get("sub") if isinstance(actor, dict) else None
        assert found.subject == str((usual | claims)["sub"] if named is None else named).strip()
        assert found.groups == group_names(found.groups)
        assert found.expires_at_ms > NOW - POLICY.clock_skew_s * 1000
        found.subject.encode()
    else:
        assert text not in found.reason


@given(st.binary(max_size=400) | st.builds(lambda value: str(value).encode(), JSON))
def test_a_key_set_of_any_bytes_is_read_or_refused(document: bytes) -> None:
    try:
        keys = JwkSet.parse(document)
    except JwkSetError:
        return
    assert keys.keys
