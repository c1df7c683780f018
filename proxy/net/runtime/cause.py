"""Why something does not work: a few words that anybody may read, and the text of the error.

Errors of proxy.net that a peer causes have a `reason`. Shown by /readyz, whose details are for who has a
credential, and by log lines.
"""

import errno
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass

REFUSED = "connection refused"
UNKNOWN_HOST = "host name not known"
UNREACHABLE = "network unreachable"
CERTIFICATE = "certificate not trusted"
TLS = "TLS handshake failed"
TIMED_OUT = "no answer in time"
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
    """`detail` may name addresses and users."""

    reason: str
    detail: str = ""

    def text(self, *, detailed: bool) -> str:
        """With the detail only for those who may know it."""
        if not detailed or self.detail in ("", self.reason):
            return self.reason
        return f"{self.reason} ({self.detail})"


def cause_of(error: Exception) -> Cause:
    """Of an error of ours that may have a `reason`."""
    text = str(error) or repr(error)
    return Cause(getattr(error, "reason", None) or text, text)


def all_of(causes: Iterable[Cause]) -> Cause:
    """Of several attempts, each reason once."""
    found = list(causes)
    reasons = dict.fromkeys(cause.reason for cause in found)
    return Cause(", ".join(reasons), "; ".join(dict.fromkeys(cause.detail for cause in found)))


def reason_of_connecting(error: OSError) -> str:
    """In plain words, why no connection came about."""
    if isinstance(error, socket.gaierror):
        return UNKNOWN_HOST
    if isinstance(error, ssl.SSLCertVerificationError):
        return CERTIFICATE
    if isinstance(error, ssl.SSLError):
        return TLS
    if error.errno in _BY_NUMBER:
        return _BY_NUMBER[error.errno]
    # A name with several addresses that failed in several ways has no number, but the text of each.
    named = (reason for number, reason in _BY_NUMBER.items() if f"[Errno {number}]" in str(error))
    return next(named, NOT_CONNECTED)
