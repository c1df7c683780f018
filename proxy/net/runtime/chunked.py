"""Long work in slices, so that the event loop serves clients in between.

For all work on the event loop that grows with the data: the metadata log, connections, rows of a page. A
slice takes SLICE_MS of CPU time; then the loop gets a turn.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from time import thread_time_ns
from typing import TypeVar
from weakref import WeakKeyDictionary

from proxy.wire.work import Pace, Work

T = TypeVar("T")

SLICE_MS = 2
"""CPU time. SPEC O8 allows 20 ms at a time, and one item may take a slice of its own on top."""


_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()
"""Of each loop one, as it has a greenlet for the next work. A greenlet and a pace of its own are a cycle."""


async def iterate_in_slices(items: Iterable[T], *, share: float = 1.0) -> AsyncIterator[T]:
    """Yield the items; the loop gets a turn before each SLICE_MS of work.

    `share`: the largest share of the time that this work may take, for work that is not urgent.
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


async def run_in_slices(steps: Generator[object, None, T], *, share: float = 1.0) -> T:
    """Run all steps, in slices like `iterate_in_slices`; return what the generator returns."""
    results: list[T] = []

    def each() -> Iterator[object]:
        results.append((yield from steps))

    async for _ in iterate_in_slices(each(), share=share):
        pass
    return results[0]


async def call_in_slices(function: Callable[[], T]) -> T:
    """Return the result of `function`, which is paused at its calls of proxy.wire.work.Pace."""
    loop = asyncio.get_running_loop()
    pace = _paces.get(loop)
    if pace is None:
        pace = _paces[loop] = Pace(thread_time_ns, SLICE_MS * 1_000_000)
    work = Work.on(function, pace)
    try:
        pace.begin()
        while not work.go_on():
            await _turn()
            pace.begin()
    except BaseException:
        work.abandon()
        raise
    result: T = work.taken()
    return result


async def _turn() -> None:
    """Yield to the loop. Only one of all sliced works runs in each turn of the loop; they take turns."""
    gate = _gates.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    async with gate:
        await asyncio.sleep(0)
