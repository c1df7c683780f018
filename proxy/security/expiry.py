"""When a SASL session is over (KIP-368).

Set when an exchange is accepted, asked at each request. Does not know how a client re-authenticates.
"""

from dataclasses import dataclass


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

    def is_over(self, now_ms: int) -> bool:
        """Whether a request that comes now is one too late."""
        return self.expires_at_ms is not None and now_ms >= self.expires_at_ms


def session_lifetime_ms(max_reauth_ms: int, credential_expires_at_ms: int | None, now_ms: int) -> int:
    """What SaslAuthenticate v1+ tells: connections.max.reauth.ms, or what is left of the credential if less.

    0 tells the client that it need not re-authenticate: neither is set, or the credential is over
    already. The two differ for us, so use SessionExpiry.after for the deadline.
    """
    if credential_expires_at_ms is None:
        return max(max_reauth_ms, 0)
    left_ms = max(credential_expires_at_ms - now_ms, 0)
    return left_ms if max_reauth_ms <= 0 else min(left_ms, max_reauth_ms)
