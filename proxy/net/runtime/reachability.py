"""Whether a peer can be reached: one log line for each change of state, and when to try again.

Used by everything that holds a connection to a broker, a controller or another server. The pauses between
attempts grow to ten seconds, as with Kafka's reconnect.backoff.max.ms. An attempt comes earlier when a
request waits for the peer, or when another connection has shown that the peer is back.
"""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import structlog

from proxy.net.runtime.cause import Cause, all_of, cause_of

MAX_MS = 10_000

HURRIED_MS = 1_000
"""The longest pause while somebody waits; attempts never come faster for it than they otherwise may."""
REPEATED_AFTER_S = 10.0
"""A peer that comes and goes is logged so often, and its pauses grow until it has stayed for so long."""
MAX_REASONS = 32

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double up to a limit, each spread by chance so that many processes do not retry in step."""

    initial_ms: int = 50
    maximum_ms: int = MAX_MS

    def pause_ms(self, attempt: int, chance: float, left_ms: int | None = None) -> int:
        """The pause after the `attempt`-th attempt (from 1); `chance` in [0, 1). Never beyond `left_ms`."""
        grown_ms = min(self.maximum_ms, self.initial_ms << min(max(attempt, 1) - 1, 16))
        spread_ms = int(grown_ms * (0.8 + 0.4 * chance))
        return spread_ms if left_ms is None else max(0, min(left_ms, spread_ms))


class StateLine:
    """Two log lines, `up` and `down`, each written when the state changes, and `down` for each new reason."""

    def __init__(self, up: str, down: str) -> None:
        self.cause: Cause | None = None
        """Why it is down; None while it is up, and before the first attempt."""
        self._up = up
        self._down = down
        self._logged_s: dict[str, float] = {}
        """Reason -> when it was logged last."""
        self._is_logged = False
        self._down_since_s: float | None = None
        self._was_up = False

    def is_up(self, **fields: object) -> bool:
        """It works; whether that is a change."""
        changed = self.cause is not None or not self._was_up
        # Of a peer that comes and goes both lines are left out.
        if self._is_logged or not self._was_up:
            log.info(self._up, after_ms=self._after_ms(), **fields)
        self.cause, self._down_since_s, self._is_logged, self._was_up = None, None, False, True
        return changed

    def is_down(self, cause: Cause, *, level: str = "warning", **fields: object) -> None:
        """It does not work; within one outage each reason is logged once."""
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

    def _after_ms(self) -> int | None:
        if self._down_since_s is None:
            return None
        return int((asyncio.get_running_loop().time() - self._down_since_s) * 1000)


class Reach:
    """One peer, at one address or several that are tried in turn."""

    def __init__(self, up: str, down: str, initial_ms: int = 100, addresses: int = 1) -> None:
        """`addresses`: the peer is away when so many attempts in a row have failed."""
        self._line = StateLine(up, down)
        self._backoff = Backoff(initial_ms)
        self._addresses = addresses
        self._causes: dict[str, Cause] = {}
        self._in_a_row = 0
        self._failures = 0
        """Since a connection that has lasted."""
        self._reached_s: float | None = None
        self._waiting = 0
        self._hurried = asyncio.Event()
        self._others: tuple[Reach, ...] = ()

    @property
    def cause(self) -> Cause | None:
        """Why the peer is not reached; None while it is, and until all of its addresses were tried."""
        return self._line.cause

    def follow(self, addresses: int) -> None:
        """From now on there are so many addresses, and others than before."""
        self._addresses = addresses
        self._causes.clear()
        self._in_a_row = 0
        self.poke()

    def reached(self, **fields: object) -> None:
        """A connection is there, and did what it is for."""
        self._causes.clear()
        self._in_a_row = 0
        self._reached_s = asyncio.get_running_loop().time()
        if self._line.is_up(**fields):
            for other in self._others:
                other.poke()

    def lost(
        self, error: Exception | Cause, address: str = "", *, level: str = "warning", **fields: object
    ) -> None:
        """An attempt or a connection has failed."""
        self._settle()
        self._failures += 1
        self._causes[address] = error if isinstance(error, Cause) else cause_of(error)
        self._in_a_row += 1
        if self._in_a_row >= self._addresses:
            self._line.is_down(all_of(self._causes.values()), level=level, **fields)

    async def pause(self, at_most_ms: int | None = None) -> None:
        """Before the next attempt. Cut short, but not below a second, when there is reason to hope."""
        self._settle()
        attempt = self._failures // self._addresses + 1 if self._addresses > 1 else self._failures
        pause_ms = self._backoff.pause_ms(attempt, secrets.randbelow(1_000) / 1_000, at_most_ms)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_ms / 1_000):
                await asyncio.sleep(min(pause_ms, HURRIED_MS) / 1_000)
                await self._hurried.wait()
        if not self._waiting:
            self._hurried.clear()

    def poke(self) -> None:
        """The next attempt may well succeed."""
        self._hurried.set()

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """Somebody waits for the peer within this block."""
        self._waiting += 1
        self._hurried.set()
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._hurried.clear()

    def _settle(self) -> None:
        """Forget failures that lie before a connection which has lasted."""
        reached_s, self._reached_s = self._reached_s, None
        if reached_s is None:
            return
        if asyncio.get_running_loop().time() - reached_s >= REPEATED_AFTER_S:
            self._failures = 0


def together(*reaches: Reach) -> None:
    """When one of them is reached, the others are tried too: all lead to the same place."""
    for reach in reaches:
        reach._others = tuple(other for other in reaches if other is not reach)
