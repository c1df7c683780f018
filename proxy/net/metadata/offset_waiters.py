"""Requests that wait until an offset of the metadata log is applied (E13).

The feeds (topic_feed, quorum_feed) report what they have applied.
"""

import asyncio
from collections.abc import Callable


class FeedTimeout(Exception):
    """The image did not reach the offset in time."""


class OffsetWaiters:
    """Lets requests wait for offsets. `applied` returns the image's offset; None before the first image."""

    def __init__(self, applied: Callable[[], int | None]) -> None:
        self._applied = applied
        self._listeners: list[Callable[[int], None]] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def wait_for(self, offset: int, timeout_ms: int) -> None:
        """Wait until this offset is applied; FeedTimeout if it is not in time."""
        applied = self._applied()
        if applied is not None and applied >= offset:
            return
        waiter = (offset, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await waiter[1]
        except TimeoutError:
            raise FeedTimeout(
                f"metadata offset {offset} not applied within {timeout_ms} ms, "
                f"the image is at {self._applied()}"
            ) from None
        finally:
            self._waiting.remove(waiter)

    def on_applied(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with each offset that is applied from now on."""
        self._listeners.append(listener)

    def wake(self) -> None:
        """Wake the requests whose offset is applied; call it after each step."""
        applied = self._applied()
        for listener in self._listeners:
            if applied is not None:
                listener(applied)
        for wanted, done in self._waiting:
            if applied is not None and wanted <= applied and not done.done():
                done.set_result(None)
