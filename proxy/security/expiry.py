"""When a SASL session expires (KIP-368).

Set when an exchange is accepted, checked at each request.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionExpiry:
    expires_at_ms: int | None
    """None: the listener has no limit and the credential does not expire (or this is no SASL listener)."""

    @classmethod
    def after(cls, max_reauth_ms: int, credential_expires_at_ms: int | None, now_ms: int) -> "SessionExpiry":
        """Return the expiry of a session authenticated at `now_ms`; at once if the credential has expired."""
        if max_reauth_ms <= 0 and credential_expires_at_ms is None:
            return cls(None)
        return cls(now_ms + session_lifetime_ms(max_reauth_ms, credential_expires_at_ms, now_ms))

    def is_over(self, now_ms: int) -> bool:
        """Whether a request at this time is too late."""
        return self.expires_at_ms is not None and now_ms >= self.expires_at_ms


def session_lifetime_ms(max_reauth_ms: int, credential_expires_at_ms: int | None, now_ms: int) -> int:
    """Return connections.max.reauth.ms, or the credential's remaining time if shorter, for SaslAuthenticate
    v1+.

    0 means to the client that it need not re-authenticate: there is no limit, or the credential has expired.
    For the deadline, where these two differ, use SessionExpiry.after.
    """
    if credential_expires_at_ms is None:
        return max(max_reauth_ms, 0)
    left_ms = max(credential_expires_at_ms - now_ms, 0)
    return left_ms if max_reauth_ms <= 0 else min(left_ms, max_reauth_ms)
