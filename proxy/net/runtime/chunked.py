"""Long work in pieces, so that clients are served in between.

For everything on the event loop whose length depends on how much there is: the metadata log, connections,
rows of a page. One piece takes SLICE_MS of CPU time, whatever its items are; the loop then has a turn.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from time import thread_time_ns
from typing import TypeVar
from weakref import WeakKeyDictionary

from proxy.wire.work import Pace, Work

T = TypeVar("T")

SLICE_MS = 2
"""CPU time. SPEC O8 allows the loop to be held for 20 ms, and one item may take a slice of its own on top."""


_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def in_pieces(items: Iterable[T], *, share: float = 1.0) -> AsyncIterator[T]:
    """Each of the items; the loop has a turn before each SLICE_MS of work.

    `share`: how much of the time this work may take at most, for work that is not urgent.
    """
    pause_s = SLICE_MS / 1000 * (1 / share - 1)
    await _turn()
    since_ns = thread_time_ns()
    for item in items:
        yield item
        if thread_time_ns() - since_ns >= SLICE_MS * 1_000_000:
            if pause_s:
                await asyncio.sleep(pause_s)
            await _turn()
            since_ns = thread_time_ns()


async def done_in_pieces(steps: Iterable[object], *, share: float = 1.0) -> None:
    """Take all steps of some work, as `in_pieces` does."""
    async for _ in in_pieces(steps, share=share):
        pass


async def in_slices(function: Callable[[], T]) -> T:
    """What `function` returns. It is paused where it says that it has worked (proxy.wire.work)."""
    pace = Pace(thread_time_ns)
    work = Work(function, pace)
    pace.begin()
    while not work.go_on():
        await _turn()
        pace.begin()
    result: T = work.result
    return result


async def _turn() -> None:
    """Let the loop turn. Of several works that are in pieces one has its piece in each turn, in order."""
    gate = _gates.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    async with gate:
        await asyncio.sleep(0)
