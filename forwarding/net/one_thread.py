"""A thread for work that only computes, so that the event loop serves others meanwhile.

For work on values that do not change. It holds the interpreter's lock for 5 ms at most at a time, except in
calls of C code.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class OneThread:
    """Runs functions one by one, in the order of the calls."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, name)

    async def run(self, function: Callable[[], T]) -> T:
        """Return what the function returns. A cancelled caller does not stop a function that has begun."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)
