"""Turns at the event loop of connections with more work, one slice at a time (SPEC O8).

proxy.net.clients.connection adds connections whose session has work left. Each turn of the event loop has one
slice of work, or several short ones; in between, the loop reads and writes for all others. Principals take
turns, whatever the number of their connections. Clients without a login take turns by address (IPv6: by /64
network), and all of these alternate with the others. TLS handshakes and the ends of very many connections
have turns too.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Protocol

from proxy.security.authorizer import host_address, network_of
from proxy.wire.work import Pace

ENDS_IN_A_TURN = 50
"""Connections that end in one turn of the loop, in some milliseconds; others wait for later turns."""
SMALL_WORK_NS = 2_000_000
"""Several workers share a turn of the loop up to this much work: most work is much shorter."""
CROWDED_NS = 5_000_000
"""After so much work in one turn of the loop, all other expensive work waits for a later one."""


class Worker(Protocol):
    """A connection."""

    def take_turn(self) -> bool:
        """Work for a slice; return whether there is more to do."""


class _Queue(dict[Hashable, deque[Worker]]):
    """Workers by owner, in the order of their turns; an owner's first worker is finished before its next
    one."""

    def add(self, owner: Hashable, worker: Worker) -> None:
        self.setdefault(owner, deque()).append(worker)

    def take_turn(self) -> bool:
        """Let the next owner's first worker work; return whether it is finished."""
        owner = next(iter(self))
        workers = self.pop(owner)
        is_finished = True
        try:
            is_finished = not workers[0].take_turn()
        finally:
            if is_finished:
                workers.popleft()
            workers.extend(self.pop(owner, ()))  # Workers that came meanwhile.
            if workers:
                self[owner] = workers
        return is_finished


class _Waiting:
    """Waits for a turn of the loop that it has for itself, for work after it."""

    __slots__ = ("_called", "called")

    def __init__(self, called: Callable[[], None]) -> None:
        self._called = called
        self.called = asyncio.Event()

    def take_turn(self) -> bool:
        self._called()
        self.called.set()
        return False


class Turns:
    """The turns of one event loop."""

    def __init__(self, pace: Pace | None = None) -> None:
        """`pace`: None: each turn is one piece of work."""
        self._pace = pace or Pace()
        self._queues = {True: _Queue(), False: _Queue()}
        self._strangers_next = False
        self._spent_ns = self._ended = 0
        self._endings: deque[Callable[[], None]] = deque()
        self._is_scheduled = self._is_batch = False
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, owner: Hashable, worker: Worker, *, stranger: bool) -> None:
        """Give a worker turns until it has no more work. Call it once until then."""
        self._queues[stranger].add(owner, worker)
        self._idle.clear()
        self._pace.crowded = True
        self._schedule()

    async def next(self, address: str) -> None:
        """Wait for a turn of a client without a login, for one piece of work."""
        waiting = _Waiting(self._end_batch)
        self.add(network_of(host_address(address)), waiting, stranger=True)
        await waiting.called.wait()

    def end(self, end: Callable[[], None]) -> None:
        """Call `end`, now or in a later turn: thousands of clients may disconnect at the same moment."""
        self._schedule()
        if self._endings or self._ended >= ENDS_IN_A_TURN:
            self._endings.append(end)
            self._idle.clear()
        else:
            self._ended += 1
            end()

    def worked(self) -> None:
        """Count a slice outside of any turn."""
        self._spent_ns += self._pace.elapsed_ns
        if self._spent_ns >= CROWDED_NS:
            self._pace.crowded = True
        self._schedule()

    async def idle(self) -> None:
        """Wait until no worker has work left."""
        await self._idle.wait()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        self._spent_ns = self._ended = 0
        if not (self._endings or self._queues[True] or self._queues[False]):
            self._pace.crowded = False
            self._idle.set()
            return
        try:
            while self._endings and self._ended < ENDS_IN_A_TURN:
                self._ended += 1
                self._endings.popleft()()
            now_ns = self._pace.now_ns
            ends_ns = None if now_ns is None else now_ns + SMALL_WORK_NS
            self._is_batch = ends_ns is not None
            while self._next_turn() and self._is_batch:
                now_ns = self._pace.now_ns
                if now_ns is None or ends_ns is None or now_ns >= ends_ns:
                    break
        finally:
            self._pace.crowded = bool(self._queues[True]) or bool(self._queues[False])
            if self._pace.crowded or self._ended:
                self._schedule()
            else:
                self._idle.set()

    def _end_batch(self) -> None:
        self._is_batch = False

    def _next_turn(self) -> bool:
        """Give one worker a turn; return whether there was one."""
        self._strangers_next = not self._strangers_next
        for stranger in (self._strangers_next, not self._strangers_next):
            if self._queues[stranger]:
                self._queues[stranger].take_turn()
                return True
        return False
