"""When a SASL session is over (KIP-368).

Set when an exchange is accepted, asked at each request. Does not know how a client re-authenticates.
"""

from dataclasses import dataclass

SASL_HANDSHAKE = 17
SASL_AUTHENTICATE = 36

SASL_API_KEYS = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})
"""Re-authentication itself. ApiVersions is not in it: after expiry Kafka closes on it like on any other."""


@dataclass(frozen=True, slots=True)
class SessionExpiry:
    expires_at_ms: int | None
    """None: the listener sets no limit and the credential has no end (or this is no SASL listener)."""

    @classmethod
    def after(cls, max_reauth_ms: int, credential_expires_at_ms: int | None, now_ms: int) -> "SessionExpiry":
        """Of a session authenticated at `now_ms`. A credential that is over already expires it at once."""
        if max_reauth_ms <= 0 and credential_expires_at_ms is None:
            return cls(None)
        return cls(now_ms + session_lifetime_ms(max_reauth_ms, credential_expires_at_ms, now_ms))

    def refuses(self, api_key: int, now_ms: int) -> bool:
        """Close instead of serving this request?"""
        # An idle connection is left alone however long it is past its end: only its next
        # request shows that the client did not re-authenticate.
        if self.expires_at_ms is None or api_key in SASL_API_KEYS:
            return False
        return now_ms >= self.expires_at_ms


def session_lifetime_ms(max_reauth_ms: int, credential_expires_at_ms: int | None, now_ms: int) -> int:
    """What SaslAuthenticate v1+ tells: connections.max.reauth.ms, or what is left of the credential if less.

    0 tells the client that it need not re-authenticate: neither is set, or the credential is over
    already. The two differ for us, so use SessionExpiry.after for the deadline.
    """
    if credential_expires_at_ms is None:
        return max(max_reauth_ms, 0)
    left_ms = max(credential_expires_at_ms - now_ms, 0)
    return left_ms if max_reauth_ms <= 0 else min(left_ms, max_reauth_ms)
