"""The only reader of time: wall-clock milliseconds for all `now_ms`, nanoseconds for trace spans, and a
clock for durations, which nothing sets. And waiting for an event at most for some time.
"""

import asyncio
import time


def now_ms() -> int:
    """Return milliseconds since the epoch."""
    return int(time.time() * 1000)  # noqa: TID251 - the rule exempts this line


def monotonic_ms() -> int:
    """Return milliseconds since some moment before the start of the process; the clock is never set."""
    return time.monotonic_ns() // 1_000_000


async def set_within(event: asyncio.Event, timeout_ms: float) -> bool:
    """Wait for the event; return whether it was set within the time."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await event.wait()
    except TimeoutError:
        return False
    return True
