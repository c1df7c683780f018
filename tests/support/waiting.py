"""Waits until something holds, for what has no event: a file, a counter, another thread or process."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from proxy.net.runtime.clock import now_ms

Outcome = TypeVar("Outcome")

DEADLINE_S = 60
_BETWEEN_LOOKS = threading.Event()
"""Never set."""


def until(holds: Callable[[], bool], what: str = "so", every_s: float = 0.05) -> None:
    """AssertionError if it does not hold within DEADLINE_S."""
    since_ms = now_ms()
    while not holds():
        assert now_ms() - since_ms < DEADLINE_S * 1_000, f"not {what} within {DEADLINE_S} s"
        _BETWEEN_LOOKS.wait(every_s)


async def turns_until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until it holds; TimeoutError if it does not within DEADLINE_S."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def turns_during(work: Coroutine[Any, Any, Outcome]) -> tuple[Outcome, int]:
    """What comes of it, and how often the loop turned meanwhile."""
    turns = 0
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work)
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
    return task.result(), turns
