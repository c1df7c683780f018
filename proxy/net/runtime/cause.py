"""Causes of failures: a short reason that anyone may read, and the text of the error.

Errors of proxy.net that a peer causes have a `reason`. Log lines and /readyz show it; /readyz adds the detail
only for readers with a credential.
"""

import errno
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass

REFUSED = "connection refused"
UNKNOWN_HOST = "unknown host name"
UNREACHABLE = "network unreachable"
CERTIFICATE = "certificate not trusted"
TLS = "TLS handshake failed"
TIMED_OUT = "timed out"
LOGIN = "login rejected"
VERSION = "no common version"
CLOSED = "connection closed"
NOT_CONNECTED = "cannot connect"

_BY_NUMBER = {
    errno.ECONNREFUSED: REFUSED,
    errno.ECONNRESET: CLOSED,
    errno.EHOSTUNREACH: UNREACHABLE,
    errno.ENETUNREACH: UNREACHABLE,
    errno.ETIMEDOUT: TIMED_OUT,
}


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason, and the error's text as `detail`, which may contain addresses and user names."""

    reason: str
    detail: str = ""

    def text(self, *, detailed: bool) -> str:
        """Return the reason, with the detail if `detailed` and if it adds anything."""
        if not detailed or self.detail in ("", self.reason):
            return self.reason
        return f"{self.reason} ({self.detail})"


def cause_of(error: Exception) -> Cause:
    """Return the cause of an error, which has a `reason` if it is one of proxy.net."""
    text = str(error) or repr(error)
    return Cause(getattr(error, "reason", None) or text, text)


def combined(causes: Iterable[Cause]) -> Cause:
    """Combine the causes of several attempts; each reason and detail appears once."""
    found = list(causes)
    reasons = dict.fromkeys(cause.reason for cause in found)
    return Cause(", ".join(reasons), "; ".join(dict.fromkeys(cause.detail for cause in found)))


def reason_of_connecting(error: OSError) -> str:
    """Return the reason for a failed connection attempt."""
    if isinstance(error, socket.gaierror):
        return UNKNOWN_HOST
    if isinstance(error, ssl.SSLCertVerificationError):
        return CERTIFICATE
    if isinstance(error, ssl.SSLError):
        return TLS
    if error.errno in _BY_NUMBER:
        return _BY_NUMBER[error.errno]
    # asyncio joins the texts of several addresses that failed differently into one error without a number.
    named = (reason for number, reason in _BY_NUMBER.items() if f"[Errno {number}]" in str(error))
    return next(named, NOT_CONNECTED)
