"""Which keys of a provider's JWKS are taken."""

import json
from typing import Any

import pytest

from proxy.security.jwk_set import MAX_KEYS, JwkSet, JwkSetError
from tests.support.identity_provider import ec, ed25519, jwks, rsa

pytestmark = pytest.mark.spec("R9")


def document(*entries: Any) -> bytes:
    return json.dumps({"keys": list(entries)}).encode()


def public(**changed: Any) -> dict[str, Any]:
    return {**rsa().as_dict(private=False), **changed}


def test_keys_of_every_kind_are_taken_for_the_algorithms_that_fit_them() -> None:
    keys = JwkSet.parse(jwks(rsa(), ec("P-256"), ec("P-384"), ec("P-521"), ed25519()))

    assert {key.key_id: set(key.algorithms) for key in keys.keys} == {
        "rsa-1": {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"},
        "P-256": {"ES256"},
        "P-384": {"ES384"},
        "P-521": {"ES512"},
        "Ed25519": {"EdDSA", "Ed25519"},
    }
    assert keys.skipped == ()


def padded(number: str) -> str:
    return number + "=" * (-len(number) % 4)


@pytest.mark.parametrize(
    "key", [rsa(), ec("P-256"), ec("P-384"), ec("P-521"), ed25519()], ids=lambda key: key.kid
)
@pytest.mark.parametrize(
    "written",
    [
        padded,
        lambda number: number + "==",
        lambda number: padded(number).replace("-", "+").replace("_", "/"),
        lambda number: f"{number[:20]}\r\n{number[20:]}\n",
    ],
    ids=["padded", "padded too much", "the other alphabet", "in lines"],
)
def test_numbers_that_are_not_quite_base64url_are_read_as_a_broker_reads_them(key: Any, written: Any) -> None:
    entry = key.as_dict(private=False)
    changed = {name: written(entry[name]) for name in ("n", "e", "x", "y") if name in entry}
    plain = JwkSet.parse(document(entry))

    loose = JwkSet.parse(document(entry | changed))

    assert loose.skipped == ()
    assert [made.key.as_dict(private=False) for made in loose.keys] == [
        made.key.as_dict(private=False) for made in plain.keys
    ]


def test_as_many_keys_as_the_limit_are_accepted_and_one_more_is_not() -> None:
    entries = [{"kty": "oct", "kid": str(number)} for number in range(MAX_KEYS)]

    assert len(JwkSet.parse(document(*entries[1:], public())).keys) == 1
    with pytest.raises(JwkSetError, match="257 keys, limit 256"):
        JwkSet.parse(document(*entries, public()))


def test_a_key_that_names_its_algorithm_is_for_no_other() -> None:
    keys = JwkSet.parse(jwks(rsa(), alg="RS512"))

    assert [key.algorithms for key in keys.keys] == [frozenset({"RS512"})]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (public(use="enc"), "use 'enc'"),
        (public(key_ops=["encrypt"]), "key_ops"),
        (public(key_ops="verify"), "key_ops"),
        (public(kid=7), "kid"),
        (public(kty="oct"), "kty 'oct'"),
        ({"kty": "oct", "kid": "secret", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"}, "kty 'oct'"),
        (public(kty=["RSA"]), "kty"),
        (public(alg="HS256"), "alg 'HS256'"),
        (public(alg="none"), "alg 'none'"),
        (public(alg="ES256"), "alg 'ES256'"),
        (public(n=None), "n is not a string"),
        ({"kty": "RSA", "e": "AQAB"}, "n is missing"),
        ({"kty": "RSA", "n": public()["n"]}, "'e' is required"),
        (public(e=""), "e is not base64url"),
        (public(e=65537), "e is not a string"),
        ({**ec().as_dict(private=False), "y": "A"}, "y is not base64url"),
        ({**ec().as_dict(private=False), "x": "!" * 43}, "x is not base64url"),
        ({**ed25519().as_dict(private=False), "x": "\u00e9" * 43}, "x is not base64url"),
        ({**ed25519().as_dict(private=False), "x": "AA=AA"}, "x is not base64url"),
        (public(n="AQAB"), "RSA key of about 24 bits"),
        (public(n="A" * 40_000), "RSA key of about"),
        (public(n="%" * 342), "n is not base64url"),
        ({**ec().as_dict(private=False), "crv": "P-192"}, "curve 'P-192'"),
        ({**ec().as_dict(private=False), "x": "AQAB"}, "Invalid EC key"),
        ({"kty": "OKP", "crv": "X25519", "x": "AQAB"}, "curve 'X25519'"),
        ("not an object", "not an object"),
        (None, "not an object"),
    ],
)
def test_a_key_that_cannot_be_used_is_left_out_and_told(entry: Any, reason: str) -> None:
    keys = JwkSet.parse(document(entry, ec().as_dict(private=False)))

    assert [key.key_id for key in keys.keys] == ["P-256"]
    [skipped] = keys.skipped
    assert skipped.startswith("key 0: ")
    assert reason in skipped
    with pytest.raises(JwkSetError, match="no usable key"):
        JwkSet.parse(document(entry))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": []}',
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps({"keys": [{}] * 257}).encode(),
    ],
)
def test_what_is_no_key_set_is_an_error(content: bytes) -> None:
    with pytest.raises(JwkSetError):
        JwkSet.parse(content)


def test_the_private_part_of_a_key_is_not_taken() -> None:
    keys = JwkSet.parse(document(rsa().as_dict(private=True)))

    assert [key.key.is_private for key in keys.keys] == [False]


def test_for_a_token_without_a_key_id_it_is_the_first_key_that_fits() -> None:
    keys = JwkSet.parse(jwks(rsa("rsa-1"), rsa("rsa-2"), ec()))

    assert [key.key_id for key in keys.candidates(None, "ES256")] == ["P-256"]
    assert [key.key_id for key in keys.candidates(None, "RS256")] == ["rsa-1"]
    assert keys.candidates(None, "ES384") == ()
    assert [key.key_id for key in keys.candidates("rsa-2", "RS256")] == ["rsa-2"]
    assert keys.candidates("rsa-2", "ES256") == ()
