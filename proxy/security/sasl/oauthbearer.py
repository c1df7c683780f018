"""OAUTHBEARER, server side (RFC 7628), as Kafka's OAuthBearerSaslServer: a token in, its principal out.

That a token is not valid is told in two steps: a challenge with the error as JSON, and the rejection after
the client has said that it has read it. Keys come from a KeySource; a token whose key is not known yet may
wait for newer keys, away from the loop. Extensions are taken and, as by Kafka's own validator, not looked at.
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
"""What a client answers to the error (RFC 7628, section 3.2.3)."""


class KeySource(Protocol):
    """The identity provider's keys as they are known now."""

    @property
    def keys(self) -> JwkSet | None:
        """None: there have been none yet, and no token is valid."""

    def newer(self, key_id: str | None) -> Callable[[], Awaitable[None]] | None:
        """Newer keys, for a token with an unknown key (None: there are no keys at all).

        What comes back waits for them, and not for long; None: they are not asked for now, because that was
        done a moment ago.
        """


class OAuthBearerExchange:
    """One OAUTHBEARER login."""

    def __init__(self, source: KeySource, policy: JwtPolicy) -> None:
        self._source = source
        self._policy = policy
        self._refused: Rejected | None = None
        self._over = False

    def respond(self, token: bytes, now_ms: int) -> Challenge | Accepted | Rejected | Deferred:
        """`token`: the first message, or the byte that says that the error has been read."""
        if self._refused is not None:
            refused, self._refused, self._over = self._refused, None, True
            if token == ERROR_READ:
                return refused
            return Rejected("", f"{refused.reason}; and another message than the one expected after it")
        if self._over:
            return Rejected("", "a token after the end of the exchange")
        self._over = True
        if len(token) > MAX_TOKEN_BYTES:
            return Rejected("", f"a message of {len(token)} bytes, limit {MAX_TOKEN_BYTES}")
        try:
            first = ClientFirst.parse(bytes(token))
        except MessageError as error:
            return Rejected("", str(error))
        return self._validate(first, now_ms)

    def _validate(self, first: ClientFirst, now_ms: int) -> Challenge | Accepted | Rejected | Deferred:
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
            return Invalid("no keys of the identity provider are there yet")
        return verify(first.token, keys, self._policy, now_ms)

    def _challenge(self, invalid: Invalid) -> Challenge:
        error = _error(invalid, self._policy)
        self._refused = Rejected(error, f"invalid token: {invalid.reason}")
        return Challenge(error.encode(), self._refused.reason)


def _accepted(first: ClientFirst, claims: Claims) -> Accepted | Rejected:
    wanted = first.authorization_id
    if wanted not in ("", claims.subject):
        return Rejected(
            f"Authentication failed: Client requested an authorization id ({wanted}) that is different from"
            f" the token's principal name ({claims.subject})",
            f"{shown(claims.subject)} asked to act as {shown(wanted)}",
        )
    return Accepted(Principal(USER_TYPE, claims.subject), b"", claims.expires_at_ms)


def _error(invalid: Invalid, policy: JwtPolicy) -> str:
    """As Kafka spells it, to the blank."""
    if not invalid.insufficient_scope:
        return '{"status":"invalid_token"}'
    scope = json.dumps(" ".join(sorted(policy.required_scopes)))
    return f'{{"status":"insufficient_scope", "scope":{scope}}}'
