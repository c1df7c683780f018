"""Logins without an outcome: closed after a time limit, and counted by address and reason in audit records.

One timer serves all connections, which are grouped by the second of their deadline: ten thousand waiting
connections cost nothing, and nothing that a client sends moves its deadline. Each address and reason has one
audit record a second; with a record for each login, clients that never log in could fill the trail. Used by
proxy.net.clients.pending_logins and the controller's server.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from proxy.audit import events
from proxy.audit.record import AuditEvent

INTERVAL_MS = 1_000
MAX_ADDRESSES = 100
"""Addresses with their own count in one interval; the others are counted together."""

CLOSED_IN_A_TURN = 100
"""More at a time would hold the loop."""
Connection = TypeVar("Connection", bound=Hashable)


class IncompleteLogins:
    """Counts the logins of one listener that ended without an outcome."""

    def __init__(
        self, listener: str, record: Callable[[AuditEvent], None], now_ms: Callable[[], int]
    ) -> None:
        self._listener = listener
        self._record = record
        self._now_ms = now_ms
        self._counts: Counter[tuple[str | None, str]] = Counter()
        self._began_ms = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, host: str, reason: str) -> None:
        """Count one login."""
        known = (host, reason) in self._counts or len(self._counts) < MAX_ADDRESSES
        self._counts[host if known else None, reason] += 1
        if self._timer is None:
            self._began_ms = self._now_ms()
            self._timer = asyncio.get_running_loop().call_later(INTERVAL_MS / 1000, self.flush)

    def flush(self) -> None:
        """Record the counts."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        counts, self._counts = self._counts, Counter()
        for (host, reason), count in counts.items():
            self._record(
                events.authentication_incomplete(
                    listener=self._listener,
                    host=host,
                    message=reason,
                    count=count,
                    interval_start_ms=self._began_ms,
                    interval_end_ms=self._now_ms(),
                )
            )


class LoginTimeouts(Generic[Connection]):
    """Closes connections whose time limit has passed, to the second."""

    def __init__(self, limit_ms: int, expire: Callable[[Connection], None]) -> None:
        """`expire` is called with each connection whose time is over, logged in or not. 0: no limit."""
        self._limit_ms = limit_ms
        self._expire = expire
        self._seconds: dict[int, dict[Connection, None]] = {}
        self._end_s: dict[Connection, float] = {}
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None

    def begin(self, connection: Connection) -> None:
        """Start the time of a connection."""
        if self._limit_ms:
            self._place(connection, self._limit_ms / 1000)

    def pause(self, connection: Connection) -> float | None:
        """Stop the time. Return what is left of it in seconds, for `resume`; None if there is no limit."""
        end_s = self._end_s.get(connection)
        self.forget(connection)
        return None if end_s is None else end_s - asyncio.get_running_loop().time()

    def resume(self, connection: Connection, left_s: float | None) -> None:
        """Continue with what was left."""
        if left_s is not None:
            self._place(connection, left_s)

    def forget(self, connection: Connection) -> None:
        """Remove a connection."""
        end_s = self._end_s.pop(connection, None)
        if end_s is not None:
            second = self._seconds[int(end_s)]
            del second[connection]
            if not second:
                del self._seconds[int(end_s)]

    def close(self) -> None:
        """Remove all connections."""
        self._seconds.clear()
        self._end_s.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _place(self, connection: Connection, left_s: float) -> None:
        loop = asyncio.get_running_loop()
        end_s = self._end_s[connection] = loop.time() + left_s
        self._seconds.setdefault(int(end_s), {})[connection] = None
        if self._timer is None:
            self._timer = loop.call_later(1, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        late = self._late(loop.time())
        for connection in late:
            self.forget(connection)
            self._expire(connection)
        if len(late) == CLOSED_IN_A_TURN:
            self._timer = loop.call_soon(self._look)
        else:
            self._timer = loop.call_later(1, self._look) if self._seconds else None

    def _late(self, now_s: float) -> list[Connection]:
        """Return connections whose second has passed, at most CLOSED_IN_A_TURN."""
        late: list[Connection] = []
        for second in sorted(self._seconds):
            if second >= int(now_s) or len(late) >= CLOSED_IN_A_TURN:
                break
            late += list(self._seconds[second])[: CLOSED_IN_A_TURN - len(late)]
        return late
