"""Ends ACLs at the time that they have been granted until (SPEC A11), in each process by its wall clock.

Nothing is looked at in a request: the loader shows another image without what has ended, which is to sessions
like an image in which ACLs were deleted.
"""

import asyncio
from collections.abc import Callable

from proxy.metadata.loader import Loader
from proxy.net.runtime.clock import now_ms

LOOK_INTERVAL_MS = 500
"""The longest time without a look at the wall clock, which may have been set."""


async def end_acls(loader: Loader, now_ms: Callable[[], int] = now_ms) -> None:
    """End each ACL when its time has come; never returns."""
    while True:
        wait_ms = 0
        if not loader.end_acls():
            next_ms = loader.next_end_ms
            left_ms = LOOK_INTERVAL_MS if next_ms is None else next_ms - now_ms()
            wait_ms = min(max(0, left_ms), LOOK_INTERVAL_MS)
        await asyncio.sleep(wait_ms / 1000)
