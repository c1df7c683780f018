"""The text of /readyz: why the process is not ready, and what is degraded; and the same as metrics.

Each process makes it from its parts for each request. Each line has two forms: one for everyone, and one with
addresses, users and errors for readers with a credential of the HTTP port. Metrics have a third one, whose
values are few, so that nothing is in /readyz that no metric shows.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, replace

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.net.runtime.merged_metrics import GaugeMetricFamily
from proxy.net.runtime.reachability import Cause

READY = "ready"
NOT_YET = Cause("no connection yet")
BEING_READ = Cause("it is being read")


@dataclass(frozen=True, slots=True)
class Note:
    """One line of /readyz, in both forms, and the label of its metric."""

    what: str
    """One of a few texts: it does not contain what differs from case to case."""
    public: str
    detailed: str

    @classmethod
    def of(cls, what: str, cause: Cause | None = None) -> "Note":
        """Make a line of a state and its cause."""
        if cause is None:
            return cls(what, what, what)
        return cls(what, f"{what}: {cause.reason}", f"{what}: {cause.text(detailed=True)}")

    def prefixed(self, who: str) -> "Note":
        """Return the line prefixed with the name of one of several parts."""
        return replace(self, public=f"{who}: {self.public}", detailed=f"{who}: {self.detailed}")


@dataclass(frozen=True, slots=True)
class Readiness:
    """The lines of /readyz. The process is ready unless something is `blocked`."""

    blocked: tuple[Note, ...] = ()
    """Why no client can be served."""
    others: tuple[Note, ...] = ()
    """What is degraded."""
    headline: str = READY

    def text(self, *, detailed: bool) -> str:
        """Return the lines; the first one begins with "ready" or "not ready"."""
        lines = [f"not ready: {_form(note, detailed)}" for note in self.blocked] or [self.headline]
        return "\n".join(dict.fromkeys([*lines, *(_form(note, detailed) for note in self.others)])) + "\n"

    def encoded(self) -> bytes:
        """Encode the lines for `decoded` in another process."""
        return json.dumps(
            [[astuple(note) for note in notes] for notes in (self.blocked, self.others)]
        ).encode()

    @classmethod
    def decoded(cls, page: bytes) -> "Readiness":
        """Return the lines that `encoded` was called on."""
        blocked, others = (tuple(Note(*forms) for forms in notes) for notes in json.loads(page))
        return cls(blocked, others)


class ReadinessSeries(Collector):
    """What /readyz says, as metrics."""

    def __init__(self, readiness: Callable[[], Readiness]) -> None:
        self._readiness = readiness

    def collect(self) -> Iterable[Metric]:
        found = self._readiness()
        yield GaugeMetricFamily(
            "penstock_ready",
            "Whether /readyz says that the process is ready",
            int(not found.blocked),
            merge="min",
        )
        blocked = GaugeMetricFamily(
            "penstock_not_ready",
            "1 for each reason why the process is not ready",
            labels=["cause"],
            merge="max",
        )
        others = GaugeMetricFamily(
            "penstock_degraded", "1 for each part that is degraded", labels=["cause"], merge="max"
        )
        for series, notes in ((blocked, found.blocked), (others, found.others)):
            for cause in dict.fromkeys(note.what for note in notes):
                series.add_metric([cause], 1)
            yield series


def degraded(what: str, cause: Cause | None) -> Iterable[Note]:
    """Return a line about a degraded part; none without a cause."""
    return () if cause is None else (Note.of(f"degraded: {what}", cause),)


def _form(note: Note, detailed: bool) -> str:
    return note.detailed if detailed else note.public
