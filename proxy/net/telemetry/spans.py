"""Trace spans as the rest of Penstock sees them: begun, given events, ended. OpenTelemetry is not known here.

Made by proxy.net.telemetry.otlp where the configuration has `telemetry.otlp`; NO_SPANS stands for it where it
has not. A parent is named by its `traceparent` (W3C Trace Context), so that it may be in another process.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log1p
from typing import Literal, Protocol

Attributes = Mapping[str, str | int | bool]
Kind = Literal["server", "client"]


class OpenSpan(Protocol):
    """A span that has begun."""

    @property
    def traceparent(self) -> str | None:
        """What names it as a parent; None: it is not recorded."""

    def event(self, name: str, attributes: Attributes) -> None:
        """Something that happened within it, now."""

    def end(self, attributes: Attributes, error: str | None = None, end_ns: int | None = None) -> None:
        """`error`: what went wrong, as one word of few; `end_ns`: since the epoch, None: now."""


class Spans(Protocol):
    """Where spans begin."""

    def begin(
        self, name: str, kind: Kind, parent: str | None = None, start_ns: int | None = None
    ) -> OpenSpan:
        """`name`: one of few. `parent`: a traceparent, from anywhere.

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
    """Which requests get a span: each with the same probability, whatever was chosen before.

    Random numbers are asked for once for each that is chosen, not once for each request.
    """

    __slots__ = ("_random", "_ratio", "left")

    def __init__(self, ratio: float, random: Callable[[], float]) -> None:
        """`ratio`: of all requests, 0 to 1; `random`: at least 0, less than 1."""
        self._ratio = ratio
        self._random = random
        self.left = 0
        """The next that is chosen is so many requests away; 1: the next one."""
        self.renew()

    def chooses(self) -> bool:
        """Whether the next request is chosen."""
        self.left -= 1
        if self.left > 0:
            return False
        self.renew()
        return True

    def renew(self) -> None:
        """One was chosen."""
        if self._ratio >= 1:
            self.left = 1
        elif self._ratio <= 0:
            self.left = sys.maxsize
        else:
            # The distance between two that are chosen is distributed geometrically.
            self.left = 1 + int(log1p(-self._random()) / log1p(-self._ratio))


@dataclass(frozen=True, slots=True)
class Tracing:
    """What a traced session needs."""

    spans: Spans
    sampler: Sampler
    """Shared by all sessions of the process."""
    now_ns: Callable[[], int]


class Traces(Protocol):
    """Made from the configuration."""

    @property
    def tracing(self) -> Tracing | None:
        """For sessions; None: their requests have no spans."""

    @property
    def spans(self) -> Spans: ...

    async def run(self) -> None:
        """Until cancelled, or until there is nothing more to do."""

    async def close(self, timeout_ms: int) -> None:
        """Export what is left, for so long at most."""


class NoTraces:
    """There is no `telemetry.otlp`."""

    tracing = None
    spans = NO_SPANS

    async def run(self) -> None:
        """There is nothing to do."""

    async def close(self, timeout_ms: int) -> None:
        """There is nothing to export."""
