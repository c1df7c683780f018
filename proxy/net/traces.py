"""The traces of a process, or none: what the processes need to know of them. See proxy.net.otlp."""

from typing import Protocol

from proxy.net.spans import NO_SPANS, Spans, Tracing


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
