"""The only reader of time: wall-clock milliseconds for all `now_ms`, nanoseconds for trace spans, and a
clock for durations, which nothing sets.
"""

import time


def now_ms() -> int:
    """Return milliseconds since the epoch."""
    return int(time.time() * 1000)  # noqa: TID251 - the rule exempts this line


def now_ns() -> int:
    """Return nanoseconds since the epoch."""
    return time.time_ns()


def monotonic_ms() -> int:
    """Return milliseconds since some moment before the start of the process; the clock is never set."""
    return time.monotonic_ns() // 1_000_000
