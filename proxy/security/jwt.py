"""Verifies a signed JWT (RFC 7519) with a key set.

proxy.security.sasl.oauthbearer passes the keys and the time. The checks are those of Kafka's
BrokerJwtValidator; docs/differences.md lists the stricter ones. Reasons never contain the token, nor an
unverified part of it except the names of its key, its algorithm and its issuer.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry

from proxy.security.claims import SUB, GroupsClaim, NameClaim
from proxy.security.jwk_set import ALGORITHMS, JwkSet
from proxy.security.principal import has_controls
from proxy.security.sasl.exchange import shown

Value = TypeVar("Value")
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+")
_MAX_SECONDS = (2**63 - 1) // 1000
"""A later time does not fit into the session_lifetime_ms of a response."""


@dataclass(frozen=True, slots=True)
class JwtPolicy:
    """The requirements on a token."""

    issuer: str | None
    """sasl.oauthbearer.expected.issuer; None: not checked."""
    audiences: frozenset[str]
    """sasl.oauthbearer.expected.audience: the token must name one of them. Empty: it must name none."""
    algorithms: frozenset[str] = frozenset(ALGORITHMS)
    clock_skew_s: int = 30
    scope_claim: str = "scope"
    names: tuple[NameClaim, ...] = (SUB,)
    """The first of these claims that a token has is the principal's name."""
    required_scopes: frozenset[str] = frozenset()
    max_bytes: int = 16_384
    groups: GroupsClaim | None = None
    """None: sessions have no groups."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a valid token."""

    subject: str
    expires_at_ms: int
    scopes: frozenset[str] = field(default_factory=frozenset)
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why the token is invalid; for the audit trail, never for the client."""

    reason: str
    unknown_key_id: str | None = None
    """The token's key id, if it is not in the set: newer keys may make the token valid."""
    insufficient_scope: bool = False


class _InvalidToken(Exception):
    """Carries an Invalid out of the checks."""

    def __init__(
        self, reason: str, *, unknown_key_id: str | None = None, insufficient_scope: bool = False
    ) -> None:
        super().__init__(reason)
        self.invalid = Invalid(reason, unknown_key_id, insufficient_scope)


def verify(token: str, keys: JwkSet, policy: JwtPolicy, now_ms: int) -> Claims | Invalid:
    """Verify a token. The signature comes first: an unverified payload is never read."""
    try:
        claims = _json_object(_verified_payload(token, keys, policy), "payload")
        _check_types(claims)
        _check_issuer(claims, policy)
        _check_audience(claims, policy)
        expires_at_s = _check_times(claims, policy.clock_skew_s, now_ms // 1000)
        subject = _name(claims, policy.names)
        scopes = _granted_scopes(claims, policy)
        groups = _groups(claims, policy.groups)
        return Claims(subject, expires_at_s * 1000, scopes, groups)
    except _InvalidToken as wrong:
        return wrong.invalid


@dataclass(slots=True)
class Examined:
    """What a token says, and every reason why it is invalid; None: it does not say it."""

    reasons: list[str] = field(default_factory=list)
    name: str | None = None
    groups: tuple[str, ...] | None = None
    expires_at_s: int | None = None


def examine(token: str, keys: JwkSet, policy: JwtPolicy, now_ms: int) -> Examined:
    """Look at a token as `verify` does, and go on after a fault. For people, never for a login."""
    found = Examined()

    def tried(check: Callable[[], Value]) -> Value | None:
        try:
            return check()
        except _InvalidToken as wrong:
            found.reasons.append(wrong.invalid.reason)
            return None

    content = tried(lambda: _verified_payload(token, keys, policy))
    try:
        parts = _parts(token, policy.max_bytes)
        claims = _json_object(_decoded(parts[1], "payload") if content is None else content, "payload")
    except _InvalidToken as wrong:
        found.reasons = list(dict.fromkeys([*found.reasons, wrong.invalid.reason]))
        return found
    for check in (
        lambda: _check_types(claims),
        lambda: _check_issuer(claims, policy),
        lambda: _check_audience(claims, policy),
        lambda: _check_times(claims, policy.clock_skew_s, now_ms // 1000),
        lambda: _granted_scopes(claims, policy),
    ):
        tried(check)
    found.name = tried(lambda: _name(claims, policy.names))
    found.groups = tried(lambda: _groups(claims, policy.groups))
    with suppress(_InvalidToken):
        found.expires_at_s = _seconds(claims, "exp")
    return found


def _check_types(claims: dict[str, object]) -> None:
    # RFC 7519, section 4.1: the types of these claims, used or not.
    for name in ("iss", "sub", "jti"):
        if not isinstance(claims.get(name, ""), str):
            raise _InvalidToken(f"{name} is not a string")


def _granted_scopes(claims: dict[str, object], policy: JwtPolicy) -> frozenset[str]:
    scopes = _scopes(claims.get(policy.scope_claim), policy.scope_claim)
    missing = policy.required_scopes - scopes
    if missing:
        raise _InvalidToken(f"without scope {', '.join(sorted(missing))}", insufficient_scope=True)
    return scopes


def issuer_of(token: str, max_bytes: int) -> str | Invalid:
    """Return the `iss` of a token that is not verified yet: it only chooses whose keys verify it."""
    try:
        parts = _parts(token, max_bytes)
        issuer = _json_object(_decoded(parts[1], "payload"), "payload").get("iss")
        return issuer if isinstance(issuer, str) else Invalid("no iss claim, or iss is not a string")
    except _InvalidToken as wrong:
        return wrong.invalid


def _parts(token: str, max_bytes: int) -> list[str]:
    if len(token) > max_bytes:
        raise _InvalidToken(f"a token of {len(token)} bytes, limit {max_bytes}")
    parts = token.split(".")
    if len(parts) != 3:
        raise _InvalidToken(f"not a signed JWT: {len(parts)} parts instead of 3")
    return parts


def _verified_payload(token: str, keys: JwkSet, policy: JwtPolicy) -> bytes:
    parts = _parts(token, policy.max_bytes)
    header = _json_object(_decoded(parts[0], "header"), "header")
    payload, signature = _decoded(parts[1], "payload"), _decoded(parts[2], "signature")
    algorithm, key_id = _algorithm(header, policy), header.get("kid")
    if key_id is not None and not isinstance(key_id, str):
        raise _InvalidToken("kid is not a string")
    candidates = keys.candidates(key_id, algorithm)
    if not candidates:
        raise _no_key(keys, key_id, algorithm)
    signed = f"{parts[0]}.{parts[1]}".encode()
    if not any(_signed_with(algorithm, signed, signature, key.key) for key in candidates):
        raise _InvalidToken("wrong signature")
    return payload


def _algorithm(header: dict[str, object], policy: JwtPolicy) -> str:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str):
        raise _InvalidToken("header without alg")
    if algorithm not in policy.algorithms or algorithm not in ALGORITHMS:
        raise _InvalidToken(f"algorithm {shown(algorithm)} is not allowed")
    if "crit" in header:
        # RFC 7515, section 4.1.11: critical extensions have to be understood, and none is supported.
        raise _InvalidToken("critical header parameters")
    return algorithm


def _no_key(keys: JwkSet, key_id: str | None, algorithm: str) -> _InvalidToken:
    if key_id is None:
        return _InvalidToken(f"no kid, and no key for {algorithm}")
    if keys.knows(key_id):
        return _InvalidToken(f"key {shown(key_id)} is not for {algorithm}")
    return _InvalidToken(f"unknown key {shown(key_id)}", unknown_key_id=key_id)


def _signed_with(algorithm: str, signed: bytes, signature: bytes, key: object) -> bool:
    try:
        model = JWSRegistry.algorithms[algorithm]
        model.check_key(key)
        return bool(model.verify(signed, signature, key))
    except (JoseError, ValueError):
        return False


def _check_issuer(claims: dict[str, object], policy: JwtPolicy) -> None:
    if policy.issuer is None:
        return
    issuer = claims.get("iss")
    if issuer is None:
        raise _InvalidToken("no iss claim")
    if issuer != policy.issuer:
        raise _InvalidToken(f"issuer {shown(str(issuer))} is not the expected one")


def _check_audience(claims: dict[str, object], policy: JwtPolicy) -> None:
    audience = claims.get("aud")
    if audience is None:
        if policy.audiences:
            raise _InvalidToken("no aud claim")
        return
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise _InvalidToken("aud is neither a string nor a list of them")
    if not policy.audiences:
        # RFC 7519, section 4.1.3: a token with audiences is valid only for them.
        raise _InvalidToken("an aud claim, and no expected audience")
    if policy.audiences.isdisjoint(named):
        raise _InvalidToken("meant for another audience")


def _check_times(claims: dict[str, object], skew_s: int, now_s: int) -> int:
    expires, issued = _seconds(claims, "exp"), _seconds(claims, "iat")
    not_before = _seconds(claims, "nbf") if "nbf" in claims else None
    if now_s - skew_s >= expires:
        raise _InvalidToken(f"expired {now_s - expires} s ago")
    if not_before is not None and now_s + skew_s < not_before:
        raise _InvalidToken(f"not valid for another {not_before - now_s} s")
    if expires < max(issued, not_before or 0):
        raise _InvalidToken("exp is before iat or nbf")
    return expires


def _seconds(claims: dict[str, object], name: str) -> int:
    value = claims.get(name)
    if value is None:
        raise _InvalidToken(f"no {name} claim")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _InvalidToken(f"{name} is not a number")
    if not 0 <= value <= _MAX_SECONDS:
        raise _InvalidToken(f"{name} is out of range")
    return int(value)


def _text(value: object, name: str) -> str:
    if value is None:
        raise _InvalidToken(f"no {name} claim")
    if not isinstance(value, str):
        raise _InvalidToken(f"{name} is not a string")
    # Not all that Unicode takes for blank: a user of the provider could have another one's name behind it.
    text = value.strip(" ")
    if not text:
        raise _InvalidToken(f"{name} is empty")
    if has_controls(text):
        raise _InvalidToken(f"{name} contains a control character or is not text")
    return text


def _scopes(value: object, name: str) -> frozenset[str]:
    """RFC 8693, section 4.2: a string separated by spaces; some providers send a list."""
    if isinstance(value, str):
        return frozenset(_text(value, name).split(" ")) - {""}
    if not isinstance(value, list):
        return frozenset()
    scopes = [_text(scope, name) for scope in value]
    if len(set(scopes)) != len(scopes):
        raise _InvalidToken(f"{name} has one value twice")
    return frozenset(scopes)


def _name(claims: dict[str, object], wanted: tuple[NameClaim, ...]) -> str:
    for claim in wanted:
        try:
            value = claim.path.value(claims)
        except ValueError as error:
            raise _InvalidToken(str(error)) from error
        if value is not None:
            return claim.prefix + _text(value, claim.path.text)
    raise _InvalidToken(f"no {' or '.join(claim.path.text for claim in wanted)} claim")


def _groups(claims: dict[str, object], wanted: GroupsClaim | None) -> tuple[str, ...]:
    try:
        return () if wanted is None else wanted.groups(claims)
    except ValueError as error:
        raise _InvalidToken(str(error)) from error


def _decoded(part: str, name: str) -> bytes:
    if _BASE64URL.fullmatch(part) is None or len(part) % 4 == 1:
        raise _InvalidToken(f"{name} is not base64url")
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _json_object(content: bytes, name: str) -> dict[str, object]:
    try:
        # RFC 7519, section 7.2: in UTF-8. From bytes Python would also take UTF-16 and UTF-32.
        parsed = json.loads(content.decode(), object_pairs_hook=_members, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise _InvalidToken(f"{name} is not JSON, or names a member twice") from None
    if not isinstance(parsed, dict):
        raise _InvalidToken(f"{name} is not a JSON object")
    return parsed


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # RFC 7515, section 4: two readers must never see two different values of one name.
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member twice")
    return members


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)
