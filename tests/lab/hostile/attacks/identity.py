"""Tokens and certificates that a provider and a CA have signed, with whatever their users wanted in them."""

import asyncio
import hmac
import ssl
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from time import time_ns
from typing import Any

from cryptography import x509
from cryptography.x509.name import _ASN1Type
from joserfc.jwk import RSAKey

from proxy.security.principal import MAX_GROUPS
from proxy.security.sasl.oauthbearer_message import ClientFirst
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.probe import series
from tests.lab.hostile.attack import Found, Size, attack
from tests.lab.hostile.client import ELSEWHERE, Client
from tests.lab.hostile.identities import REVOKED, Office, provider_key
from tests.lab.hostile.place import ORDINARY, Scene
from tests.lab.hostile.target import Target
from tests.support.identity_provider import ABSENT, jwks, part, rsa, signed, token

IDENTITIES = Scene("identities", ORDINARY.changes, has_identities=True)
PATIENCE_S = 10
Names = Collection[str]
_CN, _OU = x509.NameOID.COMMON_NAME, x509.NameOID.ORGANIZATIONAL_UNIT_NAME


@attack(IDENTITIES)
async def tokens_with_anything_in_them(target: Target, size: Size, found: Found) -> None:
    """Wrong tokens of every kind, and right ones as large as they may be, again and again (A8, A9, R9).

    Each wrong one is a failed login with a record, and its connection ends. A right one logs in.
    """
    key = provider_key(target.log)
    right, wrong = _right_tokens(key), _wrong_tokens(key)

    async def log_in(form: str) -> bool:
        return await _by_token(target, (right | wrong)[form])

    await _play(_Stage(target, "OAUTHBEARER", found), size.of(4, 150), right, wrong, log_in)


@attack(IDENTITIES)
async def certificates_with_anything_in_them(target: Target, size: Size, found: Found) -> None:
    """The same with certificates: thousands of names, names in odd encodings, revoked and expired ones."""
    office = Office.of(target.log)
    right, wrong = _right_certificates(office), _wrong_certificates(office)

    async def log_in(form: str) -> bool:
        return await _by_certificate(target, (right | wrong)[form])

    await _play(_Stage(target, "SSL", found), size.of(4, 150), right, wrong, log_in)


@dataclass(slots=True)
class _Stage:
    target: Target
    mechanism: str
    found: Found


async def _play(
    stage: _Stage, rounds: int, right: Names, wrong: Names, log_in: Callable[[str], Awaitable[bool]]
) -> None:
    """Compare each outcome with what it should be, and the number of failures with the metric."""
    found, forms = stage.found, [*right, *wrong]
    found.logged_in, found.connections = True, len(forms)
    before = _failures(stage)
    for _ in range(rounds):
        outcomes = await asyncio.gather(*map(log_in, forms))
        wrongly = [form for form, served in zip(forms, outcomes, strict=True) if served != (form in right)]
        if wrongly:
            found.faults.append(f"wrongly logged in or rejected: {', '.join(wrongly)}")
            return
    counted, expected = _failures(stage) - before, rounds * len(wrong)
    found.facts |= {"logins": rounds * len(forms), "counted as failed": counted}
    if counted != expected:
        found.faults.append(f"{counted:.0f} failed logins were counted, not {expected}")


def _failures(stage: _Stage) -> float:
    return sum(
        value
        for name, value in series(stage.target.http).items()
        if name.startswith("penstock_authentication_total{")
        and f'mechanism="{stage.mechanism}"' in name
        and 'outcome="failed"' in name
    )


async def _by_token(target: Target, text: str) -> bool:
    """Whether it logs in. A rejected client gets the error and, after its acknowledgement, the end."""
    async with asyncio.timeout(PATIENCE_S), await Client.open(target.address, ELSEWHERE) as client:
        await client.ask(ApiKey.SASL_HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="OAUTHBEARER"))
        message = t.SaslAuthenticateRequest(auth_bytes=ClientFirst(text).encode())
        told = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, message)
        if told.error_code == 0 and told.auth_bytes:
            told = await client.ask(
                ApiKey.SASL_AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=b"\x01")
            )
        if told.error_code == 0:
            return True
        assert await client.answers(1) == 0
        return False


async def _by_certificate(target: Target, context: ssl.SSLContext) -> bool:
    """Whether it is served. With TLS 1.3 a client learns only afterwards that it was rejected."""
    host, _, port = target.reauth_address.rpartition(":")
    try:
        async with asyncio.timeout(PATIENCE_S):
            streams = await asyncio.open_connection(host, int(port), ssl=context, local_addr=(ELSEWHERE, 0))
            async with Client(*streams) as client:
                await client.ask(ApiKey.API_VERSIONS, 2, t.ApiVersionsRequest())
                return True
    except (OSError, asyncio.IncompleteReadError):
        return False


def _right_tokens(key: RSAKey) -> dict[str, str]:
    claims: dict[str, dict[str, Any]] = {
        "1,000 groups": {"groups": [f"g{number}" for number in range(MAX_GROUPS)]},
        "groups named like principals": {"groups": ["Group:ops", "User:admin", "a,b", "a/b", "a:b", "a;b"]},
        "a name as long as it may be": {"sub": "x" * 1_024},
        "a name like an administrator's": {"sub": "\u0430dmin"},
        "a name between blanks of Unicode": {"sub": "\u00a0admin\u2003"},
        "no groups": {"groups": None},
        "12 kB of other claims": {"other": {str(number): [[]] for number in range(800)}},
        "500 audiences": {"aud": ["kafka", *map(str, range(500))]},
        "an end in 292 million years": {"exp": (2**63 - 1) // 1000},
        "an end with a fraction": {"exp": time_ns() / 10**9 + 300.5},
        "keys elsewhere": {"header": {"jku": "http://127.0.0.1:1/", "x5u": "http://127.0.0.1:1/"}},
    }
    return {form: token(key=key, **each) for form, each in claims.items()}


def _wrong_tokens(key: RSAKey) -> dict[str, str]:
    now_s = time_ns() // 10**9
    head = {"alg": "RS256", "kid": "rsa-1"}
    claims: dict[str, dict[str, Any]] = {
        "1,001 groups": {"groups": [f"g{number}" for number in range(MAX_GROUPS + 1)]},
        "one group too long": {"groups": ["x" * 250]},
        "groups of a wrong type": {"groups": {"admins": True}},
        "groups among numbers": {"groups": ["ops", 7]},
        "groups elsewhere": {"_claim_names": {"groups": "src1"}},
        "a group with a line break": {"groups": ["ops\nadmins"]},
        "a group with NUL": {"groups": ["ops\0"]},
        "a group of everybody": {"groups": ["*"]},
        "a name of everybody": {"sub": "*"},
        "a name too long": {"sub": "x" * 1_025},
        "a name with a line break": {"sub": "alice\nadmin"},
        "a name that ends in NUL": {"sub": "admin\0"},
        "a name for a terminal": {"sub": "\x1b]0;admin\x07"},
        "half of a character": {"sub": "admin\ud800"},
        "a number as a name": {"sub": 7},
        "an object as a name": {"sub": {"name": "admin"}},
        "no name": {"sub": None},
        "expired": {"exp": now_s - 3_600},
        "not yet valid": {"nbf": now_s + 3_600},
        "a negative end": {"exp": -1},
        "an end as a text": {"exp": str(now_s + 300)},
        "an end beyond all numbers": {"exp": 1e300},
        "another audience": {"aud": ["a", "b"]},
        "another issuer": {"iss": "https://evil.example"},
        "critical parameters": {"header": {"crit": ["b64"], "b64": False}},
        "no such key": {"header": {"kid": "none"}},
        "a key id of 8 kB": {"header": {"kid": "k" * 8_000}},
        "a key in the token": {"key": rsa("mine"), "header": {"kid": ABSENT, "jwk": rsa("mine").as_dict()}},
    }
    unsigned = f"{part({'alg': 'none'})}.{part({'sub': 'admin'})}"
    symmetric = f"{part({'alg': 'HS256', 'kid': 'rsa-1'})}.{part({'sub': 'admin'})}"
    by_public = hmac.digest(jwks(key), symmetric.encode(), "sha256")
    payloads = {
        "not UTF-8": b'{"sub":"\xff"}',
        "a claim twice": b'{"sub":"alice","sub":"admin"}',
        "nested 5,000 times": b'{"groups":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        "a number of 10,000 digits": b'{"exp":' + b"9" * 10_000 + b"}",
        "an infinite end": b'{"exp":1e999}',
        "not a number": b'{"exp":NaN}',
    }
    return {
        **{form: token(**{"key": key} | each) for form, each in claims.items()},
        **{form: signed(head, payload, key, "RS256") for form, payload in payloads.items()},
        "no signature": f"{unsigned}.",
        "a signature by the public key": f"{symmetric}.{part(by_public)}",
        "20 kB": "x" * 20_000,
    }


def _name(text: str, kind: _ASN1Type | None = None) -> list[x509.NameAttribute[str]]:
    return [x509.NameAttribute(_CN, text, kind, _validate=False)]


def _units(count: int) -> list[list[x509.NameAttribute[str]]]:
    return [[x509.NameAttribute(_OU, f"u{number}", _validate=False)] for number in range(count)]


def _unit(text: str) -> list[x509.NameAttribute[str]]:
    return [x509.NameAttribute(_OU, text, _validate=False)]


def _dns(count: int) -> list[x509.GeneralName]:
    return [x509.DNSName(f"n{number}") for number in range(count)]


def _uri(*texts: str) -> list[x509.GeneralName]:
    return [x509.UniformResourceIdentifier(text) for text in texts]


def _right_certificates(office: Office) -> dict[str, ssl.SSLContext]:
    return {
        "plain": office.client([_name("alice")]),
        "1,000 units": office.client(_units(MAX_GROUPS), _uri("urn:a")),
        "1,000 alternative names": office.client([_name("alice")], _dns(MAX_GROUPS)),
        "several values in one part": office.client([[*_name("alice"), *_unit("ops")]]),
        "odd escapes": office.client([_name(' #a+b=,"\\<>; '), _unit(' \\,"+#;')]),
        "NUL in the subject": office.client([_name("alice\0admin")]),
        "BMPString": office.client([_name("alice,", _ASN1Type.BMPString)]),
        "UniversalString": office.client([_name("alicé,", _ASN1Type.UniversalString)]),
    }


def _wrong_certificates(office: Office) -> dict[str, ssl.SSLContext]:
    return {
        "1,001 alternative names": office.client([_name("alice")], _dns(MAX_GROUPS + 1)),
        "5,000 alternative names": office.client([_name("alice")], _dns(5_000)),
        "a subject of 60 kB": office.client([_name("a," * 30_000)]),
        "3,000 units": office.client(_units(3_000)),
        "no name at all": office.client([]),
        "a BMPString that is not UTF-8": office.client([_name("alicé,", _ASN1Type.BMPString)]),
        "two names": office.client([_name("alice")], _uri("urn:a", "urn:b")),
        "a unit with a line break": office.client([_name("alice"), _unit("ops\nadmins")]),
        "a unit with NUL": office.client([_name("alice"), _unit("ops\0")]),
        "an alternative name with NUL": office.client([_name("alice")], _uri("urn:a\0b")),
        "revoked": office.client([_name("alice")], serial=REVOKED),
        "expired": office.client([_name("alice")], lasts=timedelta(hours=-1)),
    }
