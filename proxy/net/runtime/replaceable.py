"""A background task of a process that a reload can replace."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

Run = Callable[[], Awaitable[Any]]


class ReplaceableTask:
    """Runs one coroutine function at a time; `replace` cancels it and starts the next one."""

    def __init__(self, first: Run) -> None:
        self._run = first
        self._replaced = asyncio.Event()

    def replace(self, run: Run) -> None:
        """Cancel the running one and start `run`."""
        self._run = run
        self._replaced.set()

    async def run(self) -> None:
        """Run until cancelled. An exception of the running one ends this task group."""
        while True:
            self._replaced.clear()
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(_awaited(self._run))
                await self._replaced.wait()
                running.cancel()


async def _awaited(run: Run) -> None:
    await run()
