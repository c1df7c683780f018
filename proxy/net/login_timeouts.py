"""How long connections may take to log in: connections in, those that have taken too long out.

One for each listener with SASL (proxy.net.logins). There are one timer and a set of connections for each
second to come, so that ten thousand connections cost nothing while they wait. Nothing that a client sends
extends its time.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

CLOSED_IN_A_TURN = 100
"""More at once would hold the loop."""

Connection = TypeVar("Connection", bound=Hashable)


class LoginTimeouts(Generic[Connection]):
    """Exact to a second."""

    def __init__(self, limit_ms: int, over: Callable[[Connection], None]) -> None:
        """`over` gets each connection whose time is over, whether it has logged in or not. 0: no limit."""
        self._limit_ms = limit_ms
        self._over = over
        self._seconds: dict[int, dict[Connection, None]] = {}
        self._end_s: dict[Connection, float] = {}
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None

    def begin(self, connection: Connection) -> None:
        """From now on its time counts."""
        if self._limit_ms:
            self._place(connection, self._limit_ms / 1000)

    def pause(self, connection: Connection) -> float | None:
        """It waits for us; returns what is left of its time for `resume`, None where no time counts."""
        end_s = self._end_s.get(connection)
        self.forget(connection)
        return None if end_s is None else end_s - asyncio.get_running_loop().time()

    def resume(self, connection: Connection, left_s: float | None) -> None:
        """We wait for it again."""
        if left_s is not None:
            self._place(connection, left_s)

    def forget(self, connection: Connection) -> None:
        """It has ended."""
        end_s = self._end_s.pop(connection, None)
        if end_s is not None:
            second = self._seconds[int(end_s)]
            del second[connection]
            if not second:
                del self._seconds[int(end_s)]

    def close(self) -> None:
        """No connection is of interest any more."""
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
            self._over(connection)
        if len(late) == CLOSED_IN_A_TURN:
            self._timer = loop.call_soon(self._look)
        else:
            self._timer = loop.call_later(1, self._look) if self._seconds else None

    def _late(self, now_s: float) -> list[Connection]:
        """Those whose second has passed, some of them at a time."""
        late: list[Connection] = []
        for second in sorted(self._seconds):
            if second >= int(now_s) or len(late) >= CLOSED_IN_A_TURN:
                break
            late += list(self._seconds[second])[: CLOSED_IN_A_TURN - len(late)]
        return late
