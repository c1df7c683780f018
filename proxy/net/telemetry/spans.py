"""The interface of trace spans for the rest of Penstock, which does not know OpenTelemetry.

proxy.net.telemetry.otlp implements it if the configuration has `telemetry.otlp`; otherwise NO_SPANS does. A
`traceparent` (W3C Trace Context) identifies a parent, so that it may be in another process.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

Attributes = Mapping[str, str | int | bool]


def trace_ids(traceparent: str | None) -> dict[str, str]:
    """Return `trace_id` and `span_id` of a traceparent, in hex, for lines and exemplars; {} for None."""
    if traceparent is None:
        return {}
    _, trace_id, span_id, _ = traceparent.split("-")
    return {"trace_id": trace_id, "span_id": span_id}


Kind = Literal["server", "client"]


class OpenSpan(Protocol):
    """A span that has started and not ended."""

    @property
    def traceparent(self) -> str | None:
        """Identify the span as a parent; None if it is not recorded."""

    def event(self, name: str, attributes: Attributes) -> None:
        """Add an event at the current time."""

    def end(self, attributes: Attributes, error: str | None = None) -> None:
        """End the span. `error`: a keyword of few values."""


class Spans(Protocol):
    """Starts spans."""

    def begin(self, name: str, kind: Kind, parent: str | None = None) -> OpenSpan:
        """Start a span. `name` has few values. `parent`: a traceparent, possibly of another process."""


class _NoSpan:
    traceparent = None

    def event(self, name: str, attributes: Attributes) -> None:
        pass

    def end(self, attributes: Attributes, error: str | None = None) -> None:
        pass


class _NoSpans:
    def begin(self, name: str, kind: Kind, parent: str | None = None) -> OpenSpan:
        return NO_SPAN


NO_SPAN: OpenSpan = _NoSpan()
NO_SPANS: Spans = _NoSpans()


class Traces(Protocol):
    """The traces of a process, made from the configuration."""

    @property
    def spans(self) -> Spans: ...

    async def run(self) -> None:
        """Run until cancelled, or until there is nothing left to do."""

    async def close(self, timeout_ms: int) -> None:
        """Export the remaining spans, at most for the timeout."""


class NoTraces:
    """The traces of a process without `telemetry.otlp`."""

    spans = NO_SPANS

    async def run(self) -> None:
        """Return: there is nothing to do."""

    async def close(self, timeout_ms: int) -> None:
        """Return: there is nothing to export."""
