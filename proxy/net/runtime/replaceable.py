"""A background part of a process that a reload may replace: one runs at a time, until cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

Run = Callable[[], Awaitable[Any]]


class InTurn:
    """Runs the newest of several parts; the one before it is cancelled."""

    def __init__(self, first: Run) -> None:
        self._run = first
        self._replaced = asyncio.Event()

    def replace(self, run: Run) -> None:
        """The one that runs ends, and this one begins."""
        self._run = run
        self._replaced.set()

    async def run(self) -> None:
        """Until cancelled. What a part raises ends this."""
        while True:
            self._replaced.clear()
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(_of(self._run))
                await self._replaced.wait()
                running.cancel()


async def _of(run: Run) -> None:
    await run()
