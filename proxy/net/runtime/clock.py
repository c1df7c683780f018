"""The one reader of time: wall-clock milliseconds for everything that takes `now_ms`, ns for trace spans."""

import time


def now_ms() -> int:
    """ms since the epoch."""
    return int(time.time() * 1000)  # noqa: TID251 - this is the one place the rule speaks of


def now_ns() -> int:
    """ns since the epoch."""
    return time.time_ns()
