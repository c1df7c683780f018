"""The interface of trace spans for the rest of Penstock, which does not know OpenTelemetry.

proxy.net.telemetry.otlp implements it if the configuration has `telemetry.otlp`; otherwise NO_SPANS does. A
`traceparent` (W3C Trace Context) identifies a parent, so that it may be in another process.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log1p
from typing import Literal, Protocol

Attributes = Mapping[str, str | int | bool]
Kind = Literal["server", "client"]


class OpenSpan(Protocol):
    """A span that has started and not ended."""

    @property
    def traceparent(self) -> str | None:
        """Identifies the span as a parent; None if it is not recorded."""

    def event(self, name: str, attributes: Attributes) -> None:
        """Add an event at the current time."""

    def end(self, attributes: Attributes, error: str | None = None, end_ns: int | None = None) -> None:
        """End the span. `error`: a keyword of few values; `end_ns`: since the epoch, None: now."""


class Spans(Protocol):
    """Starts spans."""

    def begin(
        self, name: str, kind: Kind, parent: str | None = None, start_ns: int | None = None
    ) -> OpenSpan:
        """Start a span. `name` has few values. `parent`: a traceparent, possibly of another process.

        `start_ns`: since the epoch; None: now.
        """


class _NoSpan:
    traceparent = None

    def event(self, name: str, attributes: Attributes) -> None:
        pass

    def end(self, attributes: Attributes, error: str | None = None, end_ns: int | None = None) -> None:
        pass


class _NoSpans:
    def begin(
        self, name: str, kind: Kind, parent: str | None = None, start_ns: int | None = None
    ) -> OpenSpan:
        return NO_SPAN


NO_SPAN: OpenSpan = _NoSpan()
NO_SPANS: Spans = _NoSpans()


class Sampler:
    """Chooses the requests that get a span, each with the same probability and independently.

    It draws a random number for each chosen request, not for each request.
    """

    __slots__ = ("_random", "_ratio", "left")

    def __init__(self, ratio: float, random: Callable[[], float]) -> None:
        """`ratio`: the chosen share, 0 to 1; `random` returns a number from [0, 1)."""
        self._ratio = ratio
        self._random = random
        self.left = 0
        """Requests up to the next chosen one, which is included; 1: it is the next request."""
        self.renew()

    def chooses(self) -> bool:
        """Return whether the next request is chosen."""
        self.left -= 1
        if self.left > 0:
            return False
        self.renew()
        return True

    def renew(self) -> None:
        """Draw the distance to the next chosen request."""
        if self._ratio >= 1:
            self.left = 1
        elif self._ratio <= 0:
            self.left = sys.maxsize
        else:
            # The distance between chosen requests has a geometric distribution.
            self.left = 1 + int(log1p(-self._random()) / log1p(-self._ratio))


@dataclass(frozen=True, slots=True)
class Tracing:
    """The tracing of sessions."""

    spans: Spans
    sampler: Sampler
    """Shared by all sessions of the process."""
    now_ns: Callable[[], int]


class Traces(Protocol):
    """The traces of a process, made from the configuration."""

    @property
    def tracing(self) -> Tracing | None:
        """For sessions; None: their requests have no spans."""

    @property
    def spans(self) -> Spans: ...

    async def run(self) -> None:
        """Run until cancelled, or until there is nothing left to do."""

    async def close(self, timeout_ms: int) -> None:
        """Export the remaining spans, at most for the timeout."""


class NoTraces:
    """The traces of a process without `telemetry.otlp`."""

    tracing = None
    spans = NO_SPANS

    async def run(self) -> None:
        """Return: there is nothing to do."""

    async def close(self, timeout_ms: int) -> None:
        """Return: there is nothing to export."""
