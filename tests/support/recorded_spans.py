"""Spans that are kept for the test instead of being exported."""

from dataclasses import dataclass, field
from typing import Any

from proxy.net.telemetry.spans import Attributes, Kind, OpenSpan


@dataclass
class RecordedSpan:
    """One span. Its traceparent says how many had begun before it."""

    name: str
    kind: Kind
    parent: str | None
    traceparent: str
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    is_ended: bool = False

    def event(self, name: str, attributes: Attributes) -> None:
        self.events.append((name, dict(attributes)))

    def end(self, attributes: Attributes, error: str | None = None) -> None:
        assert not self.is_ended, "a span ends once"
        self.is_ended, self.attributes, self.error = True, dict(attributes), error


class RecordedSpans:
    """All that have begun; `ended`: those that were ended, in that order, too."""

    def __init__(self) -> None:
        self.begun: list[RecordedSpan] = []

    def begin(self, name: str, kind: Kind, parent: str | None = None) -> OpenSpan:
        span = RecordedSpan(name, kind, parent, f"00-{'a' * 32}-{len(self.begun):016x}-01")
        self.begun.append(span)
        return span

    @property
    def ended(self) -> list[RecordedSpan]:
        return [span for span in self.begun if span.is_ended]
