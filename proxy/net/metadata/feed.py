"""What the feeds of both metadata logs have: requests that wait for an offset (E13), and the end of ACLs.

TopicFeed and QuorumFeed follow one log each, into a Loader, and call `applied` after each step.
"""

import asyncio
from collections.abc import Callable

from proxy.metadata.loader import Loader
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.reachability import Reachability

LOOK_INTERVAL_MS = 500
"""The longest time without a look at the wall clock, which may have been set."""


class FeedTimeout(Exception):
    """The image did not reach the offset in time."""


class MetadataFeed:
    """Requests wait here for offsets of the log."""

    def __init__(self, loader: Loader, addresses: int = 1) -> None:
        """`addresses`: how many the log can be read from."""
        self.loader = loader
        self.on_applied: Callable[[int], None] = lambda _offset: None
        """Called with each offset that is applied."""
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self.reachability = Reachability(
            "metadata feed caught up", "metadata feed interrupted", addresses=addresses
        )
        self.loaded = asyncio.Event()
        """Set when the loader is ready. No listener opens before (KIP-801)."""
        self.connected = False
        """Whether the feed follows the end of the log; False while it connects or catches up."""

    async def wait_for(self, offset: int, timeout_ms: int) -> None:
        """Wait until this offset is applied (E13); FeedTimeout if it is not in time."""
        with self.reachability.wanted():
            applied = self.loader.applied_offset
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
                    f"the image is at {self.loader.applied_offset}"
                ) from None
            finally:
                self._waiting.remove(waiter)

    def applied(self) -> None:
        """Wake the requests whose offset is applied; the feeds call it after each step."""
        applied = self.loader.applied_offset
        if not self.loader.ready or applied is None:
            return
        self.loaded.set()
        self.on_applied(applied)
        for wanted, done in self._waiting:
            if wanted <= applied and not done.done():
                done.set_result(None)


async def end_acls(loader: Loader, now_ms: Callable[[], int] = now_ms) -> None:
    """End each ACL when its time has come by the wall clock (SPEC A11); never returns.

    Nothing is looked at in a request: the loader shows another image without what has ended, which is to
    sessions like an image in which ACLs were deleted.
    """
    while True:
        wait_ms = 0
        if not loader.end_acls():
            next_ms = loader.next_end_ms
            left_ms = LOOK_INTERVAL_MS if next_ms is None else next_ms - now_ms()
            wait_ms = min(max(0, left_ms), LOOK_INTERVAL_MS)
        await asyncio.sleep(wait_ms / 1000)
