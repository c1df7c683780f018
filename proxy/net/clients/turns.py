"""Connections that have work left, each served for a slice at a time (SPEC O8).

Fed by proxy.net.clients.connection with connections whose session has a turn due. In each turn of the event
loop one slice is worked, or several short ones, so that in between all others are read from and written to.
Principals take turns, whatever the number of their connections; clients that are not logged in yet take turns
by address, and all of them together alternate with those that are. TLS handshakes and the ends of very many
connections have turns too.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Protocol

from proxy.wire.work import Pace

ENDS_IN_A_TURN = 50
"""Connections that end in one turn of the loop, some milliseconds; others wait for later turns."""
SMALL_WORK_NS = 2_000_000
"""Others have their turn in the same turn of the loop until so much was worked: most work is much shorter."""
CROWDED_NS = 5_000_000
"""So much work in one turn of the loop, and whatever else is not cheap waits for a later one."""


class Worker(Protocol):
    """A connection."""

    def take_turn(self) -> bool:
        """Work for a slice; whether there is more to do."""


class _Queue:
    """Workers by owner: owners take turns, and of one owner the first is finished before the next."""

    __slots__ = ("_by_owner",)

    def __init__(self) -> None:
        self._by_owner: dict[Hashable, deque[Worker]] = {}  # In the order of their turns.

    def __bool__(self) -> bool:
        return bool(self._by_owner)

    def add(self, owner: Hashable, worker: Worker) -> None:
        self._by_owner.setdefault(owner, deque()).append(worker)

    def take_turn(self) -> bool:
        """Let the next owner's first worker work; whether it is finished."""
        owner = next(iter(self._by_owner))
        workers = self._by_owner.pop(owner)
        is_finished = True
        try:
            is_finished = not workers[0].take_turn()
        finally:
            if is_finished:
                workers.popleft()
            workers.extend(self._by_owner.pop(owner, ()))  # That came meanwhile.
            if workers:
                self._by_owner[owner] = workers
        return is_finished


class _Waiting:
    """Waits for one turn of the loop, and works behind it: nobody else has a turn in that one."""

    __slots__ = ("_called", "called")

    def __init__(self, called: Callable[[], None]) -> None:
        self._called = called
        self.called = asyncio.Event()

    def take_turn(self) -> bool:
        self._called()
        self.called.set()
        return False


class Turns:
    """Of one event loop."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._queues = {True: _Queue(), False: _Queue()}
        self._strangers_next = False
        self._spent_ns = self._ended = 0
        self._endings: deque[Callable[[], None]] = deque()
        self._is_scheduled = self._is_batch = False
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, owner: Hashable, worker: Worker, *, stranger: bool) -> None:
        """Let it have turns until it has no more work; to be called once until then."""
        self._queues[stranger].add(owner, worker)
        self._idle.clear()
        self._pace.crowded = True
        self._schedule()

    async def next(self, address: str) -> None:
        """Return when it is the turn of a client that is not logged in yet, for one piece of work."""
        waiting = _Waiting(self._end_batch)
        self.add(address, waiting, stranger=True)
        await waiting.called.wait()

    def end(self, end: Callable[[], None]) -> None:
        """Call `end`, now or in a later turn: thousands of clients may leave at the same moment."""
        self._schedule()
        if self._endings or self._ended >= ENDS_IN_A_TURN:
            self._endings.append(end)
            self._idle.clear()
        else:
            self._ended += 1
            end()

    def worked(self) -> None:
        """A slice outside of any turn has ended."""
        self._spent_ns += self._pace.elapsed_ns
        if self._spent_ns >= CROWDED_NS:
            self._pace.crowded = True
        self._schedule()

    async def idle(self) -> None:
        """Wait until nobody has any work left."""
        await self._idle.wait()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        self._spent_ns = self._ended = 0
        try:
            self._next_ends()
            self._next_turns()
        finally:
            self._pace.crowded = bool(self._queues[True]) or bool(self._queues[False])
            if self._pace.crowded or self._ended:
                self._schedule()
            else:
                self._idle.set()

    def _next_ends(self) -> None:
        while self._endings and self._ended < ENDS_IN_A_TURN:
            self._ended += 1
            self._endings.popleft()()

    def _next_turns(self) -> None:
        now_ns = self._pace.now_ns
        ends_ns = None if now_ns is None else now_ns + SMALL_WORK_NS
        self._is_batch = ends_ns is not None
        while self._next_turn() and self._is_batch:
            now_ns = self._pace.now_ns
            if now_ns is None or ends_ns is None or now_ns >= ends_ns:
                break

    def _end_batch(self) -> None:
        self._is_batch = False

    def _next_turn(self) -> bool:
        """Whether anybody waited for a turn, and had it."""
        self._strangers_next = not self._strangers_next
        for stranger in (self._strangers_next, not self._strangers_next):
            if self._queues[stranger]:
                self._queues[stranger].take_turn()
                return True
        return False
