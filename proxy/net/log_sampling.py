"""Log lines that anybody can cause: some of an event each second, and in the next one how many were left out.

A processor of structlog, set up by proxy.net.log_lines. The caller marks such a line with `stranger=True`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from proxy.net.clock import now_ms

STRANGER = "stranger"
LINES_A_SECOND = 10


@dataclass(slots=True)
class _Seen:
    second: int = -1
    lines: int = 0
    suppressed: int = 0


class Sampling:
    """See the module. Events are few: their names stand in the code."""

    def __init__(self, clock_ms: Callable[[], int] = now_ms) -> None:
        self.suppressed = 0
        """Lines of all events that were left out."""
        self._clock_ms = clock_ms
        self._seen: dict[str, _Seen] = {}

    def __call__(
        self, _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        if not event.pop(STRANGER, False):
            return event
        seen = self._seen.setdefault(str(event["event"]), _Seen())
        second = self._clock_ms() // 1000
        if second != seen.second:
            seen.second, seen.lines = second, 0
        if seen.lines >= LINES_A_SECOND:
            seen.suppressed += 1
            self.suppressed += 1
            raise structlog.DropEvent
        seen.lines += 1
        if seen.suppressed:
            event["suppressed"], seen.suppressed = seen.suppressed, 0
        return event
