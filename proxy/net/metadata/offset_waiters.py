"""Who waits for an offset of the metadata log to be in force, and for how long.

Used by the feeds (topic_feed, quorum_feed): they say how far they have come, requests wait (E13).
"""

import asyncio
from collections.abc import Callable


class FeedTimeout(Exception):
    """The image did not come to the offset in time."""


class OffsetWaiters:
    """`applied` tells the offset up to which records are in force; None while none are."""

    def __init__(self, applied: Callable[[], int | None]) -> None:
        self._applied = applied
        self._watchers: list[Callable[[int], None]] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def wait_for(self, offset: int, timeout_ms: int) -> None:
        """Until this offset or a later one is in force; FeedTimeout if not in time."""
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

    def tell(self, watcher: Callable[[int], None]) -> None:
        """Call it with each offset that is in force from now on."""
        self._watchers.append(watcher)

    def wake(self) -> None:
        """Something was applied."""
        applied = self._applied()
        for watcher in self._watchers:
            if applied is not None:
                watcher(applied)
        for wanted, done in self._waiting:
            if applied is not None and wanted <= applied and not done.done():
                done.set_result(None)
