"""An identity provider for tests: keys, their JWKS, and tokens that are right or wrong in any one way."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any

from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

ISSUER = "https://idp.example/realms/streams"
AUDIENCE = "kafka"
ABSENT = object()
"""As the value of a claim or a header parameter: leave it out."""

AnyKey = RSAKey | ECKey | OKPKey


@cache
def rsa(name: str = "rsa-1", bits: int = 2048) -> RSAKey:
    """The same key for the same name: making one takes long. Its `kid` is the name."""
    return RSAKey.generate_key(bits, {"kid": name})


@cache
def ec(curve: str = "P-256") -> ECKey:
    return ECKey.generate_key(curve, {"kid": curve})


@cache
def ed25519() -> OKPKey:
    return OKPKey.generate_key("Ed25519", {"kid": "Ed25519"})


def jwks(*keys: AnyKey, **more: Any) -> bytes:
    """The keys' public parts as a provider serves them, each with the members of `more`."""
    return json.dumps({"keys": [key.as_dict(private=False) | more for key in keys]}).encode()


def part(value: Any) -> str:
    """JSON as a JWT holds it."""
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(content).decode().rstrip("=")


def signed(header: Mapping[str, Any], payload: Any, key: AnyKey, algorithm: str) -> str:
    """A JWT of exactly these parts, signed as `algorithm` whatever the header says."""
    text = f"{part(dict(header))}.{part(payload)}"
    signature = JWSRegistry.algorithms[algorithm].sign(text.encode(), key)
    return f"{text}.{part(signature)}"


def token(
    now_s: int | None = None,
    *,
    key: AnyKey | None = None,
    algorithm: str = "RS256",
    lifetime_s: int = 300,
    header: Mapping[str, Any] | None = None,
    **claims: Any,
) -> str:
    """A good token of alice's, issued at `now_s` (None: now), with the given claims in place of its own."""
    key = key or rsa()
    now_s = int(time.time_ns() // 10**9) if now_s is None else now_s
    usual = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "iat": now_s,
        "exp": now_s + lifetime_s,
        "scope": "openid stream",
    }
    head = {"alg": algorithm, "typ": "JWT", "kid": key.kid} | dict(header or {})
    return signed(_present(head), _present(usual | claims), key, algorithm)


def _present(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not ABSENT}
