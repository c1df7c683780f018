"""OAUTHBEARER, server side (RFC 7628), as Kafka's OAuthBearerSaslServer: a token in, its principal out.

An invalid token is rejected in two steps: a challenge with the error as JSON, and the rejection after the
client has acknowledged it. A token with an unknown key may wait for newer keys, off the event loop.
Extensions are accepted and ignored, as by Kafka's validator.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Protocol

from proxy.security.jwk_set import JwkSet
from proxy.security.jwt import Claims, Invalid, JwtPolicy, verify
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


class OAuthBearerExchange:
    """One OAUTHBEARER login."""

    def __init__(self, source: KeySource, policy: JwtPolicy) -> None:
        self._source = source
        self._policy = policy
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
        verdict = self._verdict(first, now_ms)
        if isinstance(verdict, Claims):
            return _accepted(first, verdict)
        if self._source.keys is None or verdict.unknown_key_id is not None:
            ready = self._source.newer(verdict.unknown_key_id)
            if ready is not None:
                return Deferred(lambda: self._settled(first, now_ms), ready)
        return self._challenge(verdict)

    def _settled(self, first: ClientFirst, now_ms: int) -> Challenge | Accepted | Rejected:
        verdict = self._verdict(first, now_ms)
        return _accepted(first, verdict) if isinstance(verdict, Claims) else self._challenge(verdict)

    def _verdict(self, first: ClientFirst, now_ms: int) -> Claims | Invalid:
        keys = self._source.keys
        if keys is None:
            return Invalid("the identity provider's keys are not loaded yet")
        return verify(first.token, keys, self._policy, now_ms)

    def _challenge(self, invalid: Invalid) -> Challenge:
        error = _error(invalid, self._policy)
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


def _error(invalid: Invalid, policy: JwtPolicy) -> str:
    """The error exactly as Kafka writes it."""
    if not invalid.insufficient_scope:
        return '{"status":"invalid_token"}'
    scope = json.dumps(" ".join(sorted(policy.required_scopes)))
    return f'{{"status":"insufficient_scope", "scope":{scope}}}'
