"""Parses a JWKS document (RFC 7517) into the keys that verify tokens.

proxy.net.logins.oauthbearer fetches the document, proxy.security.jwt uses the keys. Only public signature
keys are accepted: with a shared secret (`oct`) everyone who can verify a token could also forge one.
"""

import json
import re
from dataclasses import dataclass
from types import MappingProxyType

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from proxy.error_text import text_of

SigningKey = RSAKey | ECKey | OKPKey

MAX_KEYS = 256
_RSA_BITS = range(2048, 16_384 + 1)
"""A shorter key can be broken; with a longer one a verification takes seconds."""

_KEY_OF = MappingProxyType(
    {
        "RS256": ("RSA", None),
        "RS384": ("RSA", None),
        "RS512": ("RSA", None),
        "PS256": ("RSA", None),
        "PS384": ("RSA", None),
        "PS512": ("RSA", None),
        "ES256": ("EC", "P-256"),
        "ES384": ("EC", "P-384"),
        "ES512": ("EC", "P-521"),
        "EdDSA": ("OKP", "Ed25519"),
        "Ed25519": ("OKP", "Ed25519"),
    }
)
"""Algorithm -> type and curve of its keys (RFC 7518, RFC 8037, RFC 9864). All are asymmetric."""

ALGORITHMS = tuple(_KEY_OF)
"""Every algorithm that can be allowed; `none` and the HMAC ones are not."""

_TYPES: dict[str, type[SigningKey]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
_NUMBERS = ("n", "e", "x", "y")
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+")
_TO_URL_ALPHABET = str.maketrans("+/", "-_")


class JwkSetError(Exception):
    """The document has no usable key; the message says why."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """One key, and the algorithms that a token signed with it may name."""

    key_id: str | None
    algorithms: frozenset[str]
    key: SigningKey


@dataclass(frozen=True, slots=True)
class JwkSet:
    """The usable keys of one document."""

    keys: tuple[VerificationKey, ...]
    skipped: tuple[str, ...] = ()
    """Why other keys of the document are unusable, one sentence each."""

    @classmethod
    def parse(cls, document: bytes) -> "JwkSet":
        """Parse a document; JwkSetError if it is no JWKS, or has no usable key."""
        keys: list[VerificationKey] = []
        skipped: list[str] = []
        for place, entry in enumerate(_entries(document)):
            try:
                keys.append(_verification_key(entry))
            except (JoseError, ValueError, TypeError, KeyError) as error:
                skipped.append(f"key {place}: {text_of(error)}")
        if not keys:
            raise JwkSetError("no usable key" + (f": {'; '.join(skipped[:3])}" if skipped else ""))
        return cls(tuple(keys), tuple(skipped))

    def candidates(self, key_id: str | None, algorithm: str) -> tuple[VerificationKey, ...]:
        """Return the keys that may have signed a token with this header.

        For a token without a key id it is the first one that fits, as at a broker.
        """
        fitting = tuple(key for key in self.keys if algorithm in key.algorithms)
        if key_id is not None:
            return tuple(key for key in fitting if key.key_id == key_id)
        return fitting[:1]

    @property
    def key_descriptions(self) -> list[str]:
        """Name and algorithms of each key, for a log line."""
        return [f"{key.key_id}: {' '.join(sorted(key.algorithms))}" for key in self.keys]

    def knows(self, key_id: str) -> bool:
        return any(key.key_id == key_id for key in self.keys)


def _entries(document: bytes) -> list[object]:
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise JwkSetError("not JSON") from error
    entries = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(entries, list):
        raise JwkSetError("not a JWKS: it has no list of keys")
    if len(entries) > MAX_KEYS:
        raise JwkSetError(f"{len(entries)} keys, limit {MAX_KEYS}")
    return entries


def _verification_key(entry: object) -> VerificationKey:
    if not isinstance(entry, dict):
        raise ValueError("not an object")
    key_id = entry.get("kid")
    if key_id is not None and not isinstance(key_id, str):
        raise ValueError("kid is not a string")
    if entry.get("use", "sig") != "sig":
        raise ValueError(f"use {entry['use']!r}, not sig")
    operations = entry.get("key_ops")
    if operations is not None and (not isinstance(operations, list) or "verify" not in operations):
        raise ValueError("key_ops without verify")
    kind = entry.get("kty")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise ValueError(f"kty {kind!r} is not used for signatures of tokens")
    algorithms = _algorithms(kind, entry.get("crv"), entry.get("alg"))
    # Private members, which a careless provider might publish, are ignored.
    numbers = {name: _base64url(name, entry[name]) for name in _NUMBERS if name in entry}
    if kind == "RSA":
        if "n" not in numbers:
            raise ValueError("n is missing")
        # Checked before the key is made, so that a huge one costs nothing.
        bits = len(numbers["n"]) * 6 // 8 * 8
        if bits not in _RSA_BITS:
            raise ValueError(f"an RSA key of about {bits} bits, allowed {_RSA_BITS[0]} to {_RSA_BITS[-1]}")
    public: dict[str, str | list[str]] = {"kty": kind, "crv": str(entry.get("crv")), **numbers}
    return VerificationKey(key_id, algorithms, _TYPES[kind].import_key(public))


def _base64url(name: str, value: object) -> str:
    """Return the number as RFC 7518 wants it.

    Some providers pad it, or use base64's other alphabet or lines; brokers accept that, since jose4j does.
    """
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a string")
    number = "".join(value.split()).rstrip("=").translate(_TO_URL_ALPHABET)
    if _BASE64URL.fullmatch(number) is None or len(number) % 4 == 1:
        raise ValueError(f"{name} is not base64url")
    return number


def _algorithms(kind: str, curve: object, named: object) -> frozenset[str]:
    fitting = frozenset(
        algorithm
        for algorithm, (its_kind, its_curve) in _KEY_OF.items()
        if its_kind == kind and its_curve in (None, curve)
    )
    if not fitting:
        raise ValueError(f"curve {curve!r} is not used for signatures of tokens")
    if named is None:
        return fitting
    if named not in fitting:
        raise ValueError(f"alg {named!r} does not fit kty {kind}")
    # EdDSA and Ed25519 are two names of one algorithm: key and token may use different ones.
    return fitting if kind == "OKP" else frozenset({named})
