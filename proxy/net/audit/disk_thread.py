"""Reads and small writes of a disk in a thread of their own, one after the other.

Not in asyncio.to_thread: its threads are joined at the end of the process, and a disk that hangs would keep
it from ending. A caller can be cancelled; the thread is left behind.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

Result = TypeVar("Result")
Outcome = TypeVar("Outcome")


class DiskThread:
    """Runs calls in a daemon thread, which starts with the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Return or raise what `work` does."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()

        def call() -> None:
            try:
                result = work(*arguments)
            except Exception as error:  # noqa: BLE001 - the caller of `run` gets it
                _settle(loop, done, done.set_exception, error)
            else:
                _settle(loop, done, done.set_result, result)

        self._calls.put(call)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        return await done

    def _run(self) -> None:
        while True:
            self._calls.get()()


def _settle(
    loop: asyncio.AbstractEventLoop,
    done: asyncio.Future[Result],
    settle: Callable[[Outcome], None],
    outcome: Outcome,
) -> None:
    def settle_now() -> None:
        if not done.done():
            settle(outcome)

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle_now)
