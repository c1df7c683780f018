"""Whether a peer is reachable: one log line for each change of state, its cause, and when to retry.

Used for each connection to a broker, a controller or another server. The pauses between attempts grow to ten
seconds, as with Kafka's reconnect.backoff.max.ms. An attempt comes earlier if a request waits for the peer,
or if another connection has shown that the peer is back.

Errors of proxy.net that a peer causes have a `reason`, a short one that anyone may read. Log lines and
/readyz show it; /readyz adds the text of the error only for readers with a credential.
"""

import asyncio
import errno
import secrets
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import structlog

from proxy.error_text import text_of

REFUSED = "connection refused"
UNKNOWN_HOST = "unknown host name"
UNREACHABLE = "network unreachable"
CERTIFICATE = "certificate not trusted"
TLS = "TLS handshake failed"
TIMED_OUT = "timed out"
LOGIN = "login rejected"
VERSION = "no common version"
NO_BROKER = "no broker has this node.id"
WRONG_PROTOCOL = "wrong protocol"
CLOSED = "connection closed"
NOT_CONNECTED = "cannot connect"

_BY_NUMBER = {
    errno.ECONNREFUSED: REFUSED,
    errno.ECONNRESET: CLOSED,
    errno.EHOSTUNREACH: UNREACHABLE,
    errno.ENETUNREACH: UNREACHABLE,
    errno.ETIMEDOUT: TIMED_OUT,
}

NOT_TLS = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "BAD_RECORD_TYPE")
"""What OpenSSL says of bytes that are no TLS."""

MAX_MS = 10_000

HURRIED_MS = 1_000
"""The longest pause while a request waits. Attempts are still never closer than the backoff allows."""
REPEATED_AFTER_S = 10.0
"""The log lines of a peer that comes and goes are at least so far apart. Its pauses grow until a connection
has lasted so long."""
MAX_REASONS = 32

log = structlog.get_logger(__name__)


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
    text = text_of(error)
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
        return WRONG_PROTOCOL if error.reason in NOT_TLS else TLS
    if error.errno in _BY_NUMBER:
        return _BY_NUMBER[error.errno]
    # asyncio joins the texts of several addresses that failed differently into one error without a number.
    named = (reason for number, reason in _BY_NUMBER.items() if f"[Errno {number}]" in str(error))
    return next(named, NOT_CONNECTED)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double up to a limit, partly random so that processes do not retry at the same time."""

    initial_ms: int = 50
    maximum_ms: int = MAX_MS

    def pause_ms(self, attempt: int, chance: float, left_ms: int | None = None) -> int:
        """Return the pause after the `attempt`-th attempt (from 1).

        `chance` is in [0, 1); the pause is never longer than `left_ms`.
        """
        grown_ms = min(self.maximum_ms, self.initial_ms << min(max(attempt, 1) - 1, 16))
        spread_ms = int(grown_ms * (0.8 + 0.4 * chance))
        return spread_ms if left_ms is None else max(0, min(left_ms, spread_ms))


class StateLine:
    """Logs `up` and `down` when the state changes, and `down` also for each new reason."""

    def __init__(self, up: str, down: str) -> None:
        self.cause: Cause | None = None
        """Why the peer is down; None while it is up, and before the first attempt."""
        self._up = up
        self._down = down
        self._logged_s: dict[str, float] = {}
        """Reason -> the loop's time when it was last logged."""
        self._is_logged = False
        self._down_since_s: float | None = None
        self._was_up = False

    def is_up(self, **fields: object) -> bool:
        """Report that the peer is up; return whether this is a change."""
        changed = self.cause is not None or not self._was_up
        # If "down" was left out, because the peer comes and goes, "up" is left out too.
        if self._is_logged or not self._was_up:
            since_s, after_ms = self._down_since_s, None
            if since_s is not None:
                after_ms = int((asyncio.get_running_loop().time() - since_s) * 1000)
            log.info(self._up, after_ms=after_ms, **fields)
        self.cause, self._down_since_s, self._is_logged, self._was_up = None, None, False, True
        return changed

    def is_down(self, cause: Cause, *, level: str = "warning", **fields: object) -> None:
        """Report that the peer is down; within one outage each reason is logged once."""
        now_s = asyncio.get_running_loop().time()
        if self._down_since_s is None:
            self._down_since_s = now_s
        self.cause = cause
        logged_s = self._logged_s.get(cause.reason)
        in_this_outage = logged_s is not None and logged_s >= self._down_since_s
        if in_this_outage or (logged_s is not None and now_s - logged_s < REPEATED_AFTER_S):
            log.debug(self._down, reason=cause.reason, error=cause.detail, **fields)
            return
        if len(self._logged_s) >= MAX_REASONS:
            self._logged_s.clear()
        self._logged_s[cause.reason] = now_s
        self._is_logged = True
        getattr(log, level)(self._down, reason=cause.reason, error=cause.detail, **fields)


class Reachability:
    """The state of one peer, which has one address or several that are tried in turn."""

    def __init__(self, up: str, down: str, initial_ms: int = 100, addresses: int = 1) -> None:
        """`addresses`: the peer counts as down after so many failed attempts in a row."""
        self._line = StateLine(up, down)
        self._backoff = Backoff(initial_ms)
        self._addresses = addresses
        self._causes: dict[str, Cause] = {}
        self._in_a_row = 0
        self._failures = 0
        """Failed attempts since the last connection that lasted."""
        self._reached_s: float | None = None
        self._waiting = 0
        self._hurried = asyncio.Event()
        self._others: tuple[Reachability, ...] = ()

    @property
    def cause(self) -> Cause | None:
        """Why the peer is down; None while it is up, and until all addresses have failed."""
        return self._line.cause

    def replace_addresses(self, count: int) -> None:
        """Forget the failures: from now on the peer has `count` other addresses."""
        self._addresses = count
        self._causes.clear()
        self._in_a_row = 0
        self.retry_soon()

    def reached(self, **fields: object) -> None:
        """Report that a connection was made and works."""
        self._causes.clear()
        self._in_a_row = 0
        self._reached_s = asyncio.get_running_loop().time()
        if self._line.is_up(**fields):
            for other in self._others:
                other.retry_soon()

    def failed(
        self, error: Exception | Cause, address: str = "", *, level: str = "warning", **fields: object
    ) -> None:
        """Report that an attempt or a connection has failed."""
        self._settle()
        self._failures += 1
        self._causes[address] = error if isinstance(error, Cause) else cause_of(error)
        self._in_a_row += 1
        if self._in_a_row >= self._addresses:
            self._line.is_down(combined(self._causes.values()), level=level, **fields)

    async def pause(self, at_most_ms: int | None = None) -> None:
        """Wait before the next attempt; `retry_soon` and `wanted` shorten the pause to a second."""
        self._settle()
        attempt = self._failures // self._addresses + 1 if self._addresses > 1 else self._failures
        pause_ms = self._backoff.pause_ms(attempt, secrets.randbelow(1_000) / 1_000, at_most_ms)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_ms / 1_000):
                await asyncio.sleep(min(pause_ms, HURRIED_MS) / 1_000)
                await self._hurried.wait()
        if not self._waiting:
            self._hurried.clear()

    def retry_soon(self) -> None:
        """Shorten the current pause: the next attempt is likely to succeed."""
        self._hurried.set()

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """Shorten pauses during this block, because the caller waits for the peer."""
        self._waiting += 1
        self._hurried.set()
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._hurried.clear()

    def _settle(self) -> None:
        """Reset the count of failures if the last connection has lasted."""
        reached_s, self._reached_s = self._reached_s, None
        if reached_s is None:
            return
        if asyncio.get_running_loop().time() - reached_s >= REPEATED_AFTER_S:
            self._failures = 0


def link(*peers: Reachability) -> None:
    """Let each of these peers, which lead to the same server, retry soon when another is reached."""
    for peer in peers:
        peer._others = tuple(other for other in peers if other is not peer)
