"""Work on a message that is stopped as often as it can be, by a clock that moves at each look."""

from collections.abc import Callable
from itertools import count
from typing import Any

from proxy.wire.work import Pace, Work


def in_slices(function: Callable[[], Any]) -> tuple[Any, int]:
    """What the function returns, and how often it stopped; each look at the clock is the end of a slice."""
    pace = Pace(count().__next__, 1)
    work, stops = Work.on(function, pace), 0
    pace.begin()
    while not work.go_on():
        stops += 1
        pace.begin()
    return work.taken(), stops
