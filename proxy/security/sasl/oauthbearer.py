"""OAUTHBEARER, server side (RFC 7628), as Kafka's OAuthBearerSaslServer: a token in, its principal out.

An invalid token is rejected in two steps: a challenge with the error as JSON, and the rejection after the
client has acknowledged it. A token with an unknown key may wait for newer keys, off the event loop.
Extensions are accepted and ignored, as by Kafka's validator.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from proxy.security.jwk_set import JwkSet
from proxy.security.jwt import Claims, Invalid, JwtPolicy, issuer_of, verify
from proxy.security.principal import USER_TYPE, Principal
from proxy.security.sasl.exchange import MAX_TOKEN_BYTES, Accepted, Challenge, Deferred, Rejected, shown
from proxy.security.sasl.oauthbearer_message import ClientFirst, MessageError

NAME = "OAUTHBEARER"
ERROR_READ = b"\x01"
"""The client's acknowledgement of the error (RFC 7628, section 3.2.3)."""


class KeySource(Protocol):
    """The current keys of the identity provider."""

    @property
    def keys(self) -> JwkSet | None:
        """Return the keys; None before the first were fetched: no token is valid."""

    def newer(self, key_id: str | None) -> Callable[[], Awaitable[None]] | None:
        """Return a function that waits for newer keys, for a token with an unknown key.

        It waits only a short time. None: keys were requested just now, and are not requested again.
        `key_id` is None if there are no keys at all.
        """


@dataclass(frozen=True, slots=True)
class TrustedProvider:
    """An identity provider: its keys, and the rules for its tokens."""

    source: KeySource
    policy: JwtPolicy

    def verdict(self, token: str, now_ms: int) -> Claims | Invalid:
        keys = self.source.keys
        if keys is None:
            return Invalid("the identity provider's keys are not loaded yet")
        return verify(token, keys, self.policy, now_ms)


class _HasPolicy(Protocol):
    @property
    def policy(self) -> JwtPolicy: ...


Chosen = TypeVar("Chosen", bound=_HasPolicy)


def provider_of(token: str, providers: Sequence[Chosen]) -> Chosen | Invalid:
    """Return the provider that a token claims to be from: with several of them, each has an issuer."""
    if len(providers) == 1:
        return providers[0]  # It may have no issuer; `verify` compares it.
    issuer = issuer_of(token, max(provider.policy.max_bytes for provider in providers))
    if isinstance(issuer, Invalid):
        return issuer
    chosen = next((provider for provider in providers if provider.policy.issuer == issuer), None)
    return chosen or Invalid(f"issuer {shown(issuer)} is not one of the expected ones")


class OAuthBearerExchange:
    """One OAUTHBEARER login."""

    def __init__(self, providers: Sequence[TrustedProvider]) -> None:
        """`providers`: at least one; of several, no two with the same issuer, and none without."""
        self._providers = providers
        self._rejection: Rejected | None = None
        self._over = False

    def respond(self, token: bytes, now_ms: int) -> Challenge | Accepted | Rejected | Deferred:
        """`token`: the first message, or the acknowledgement of the error."""
        if self._rejection is not None:
            rejection, self._rejection, self._over = self._rejection, None, True
            if token == ERROR_READ:
                return rejection
            return Rejected("", f"{rejection.reason}; and the message after it is not the expected one")
        if self._over:
            return Rejected("", "a token after the end of the exchange")
        self._over = True
        if len(token) > MAX_TOKEN_BYTES:
            return Rejected("", f"a message of {len(token)} bytes, limit {MAX_TOKEN_BYTES}")
        try:
            first = ClientFirst.parse(bytes(token))
        except MessageError as error:
            return Rejected("", str(error))
        provider = provider_of(first.token, self._providers)
        if isinstance(provider, Invalid):
            return self._challenge(provider)
        verdict, source = provider.verdict(first.token, now_ms), provider.source
        if isinstance(verdict, Invalid) and (source.keys is None or verdict.unknown_key_id is not None):
            ready = source.newer(verdict.unknown_key_id)
            if ready is not None:
                return Deferred(lambda: self._settled(first, provider, now_ms), ready)
        return self._outcome(first, verdict, provider.policy)

    def _settled(
        self, first: ClientFirst, provider: TrustedProvider, now_ms: int
    ) -> Challenge | Accepted | Rejected:
        return self._outcome(first, provider.verdict(first.token, now_ms), provider.policy)

    def _outcome(
        self, first: ClientFirst, verdict: Claims | Invalid, policy: JwtPolicy
    ) -> Challenge | Accepted | Rejected:
        if isinstance(verdict, Claims):
            return _accepted(first, verdict)
        return self._challenge(verdict, policy.required_scopes)

    def _challenge(self, invalid: Invalid, scopes: frozenset[str] = frozenset()) -> Challenge:
        error = _error(invalid, scopes)
        self._rejection = Rejected(error, f"invalid token: {invalid.reason}")
        return Challenge(error.encode(), self._rejection.reason)


def _accepted(first: ClientFirst, claims: Claims) -> Accepted | Rejected:
    wanted = first.authorization_id
    if wanted not in ("", claims.subject):
        return Rejected(
            f"Authentication failed: Client requested an authorization id ({wanted}) that is different from"
            f" the token's principal name ({claims.subject})",
            f"{shown(claims.subject)} asked to act as {shown(wanted)}",
        )
    return Accepted(Principal(USER_TYPE, claims.subject, groups=claims.groups), b"", claims.expires_at_ms)


def _error(invalid: Invalid, required_scopes: frozenset[str]) -> str:
    """The error exactly as Kafka writes it."""
    if not invalid.insufficient_scope:
        return '{"status":"invalid_token"}'
    scope = json.dumps(" ".join(sorted(required_scopes)))
    return f'{{"status":"insufficient_scope", "scope":{scope}}}'
