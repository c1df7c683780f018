"""What other clients do to the controller's election and to its transactional id: a log line and a metric.

forwarding.net.election and forwarding.net.leader report it. A client with rights on the transactional id or
on the election group can repeat these things quickly: each is counted, one in LOG_INTERVAL_MS is logged.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

import structlog
from prometheus_client import Counter

LOG_INTERVAL_MS = 30_000

log = structlog.get_logger(__name__)


class Kind(StrEnum):
    """The kind of disturbance, which is the label of the metric."""

    FENCED = "fenced"
    EVICTED = "evicted"
    UNSEATED = "unseated"
    ALIEN = "alien member"
    NO_ELECTION = "no election"


MEANINGS = {
    Kind.FENCED: "another producer with the transactional id of the controllers fenced this one, "
    "which is the elected one",
    Kind.EVICTED: "this controller was removed from its election group although it sent heartbeats",
    Kind.UNSEATED: "the election group chose another member although this controller is active",
    Kind.ALIEN: "a client that is not a controller is in the election group",
    Kind.NO_ELECTION: "the election group cannot be used: this controller is active without an election",
}
ACTION = (
    "only controllers may have WRITE on this transactional id and READ on this group: look for ACLs that "
    "give them to others, prefixes and * included, and for clients with these names"
)


class Disturbances:
    """Counts every disturbance, and logs one of each kind in LOG_INTERVAL_MS."""

    def __init__(
        self, counter: Counter, transactional_id: str, group_id: str, now_ms: Callable[[], int]
    ) -> None:
        self._counter = counter
        self._transactional_id = transactional_id
        self._group_id = group_id
        self._now_ms = now_ms
        self._logged_ms: dict[Kind, int] = {}

    def is_due(self, kind: Kind) -> bool:
        """Whether the next one of this kind is logged."""
        return self._now_ms() - self._logged_ms.get(kind, -LOG_INTERVAL_MS) >= LOG_INTERVAL_MS

    def report(self, kind: Kind, members: Sequence[str] = ()) -> None:
        """Report one disturbance. `members`: the members of the election group, with this controller."""
        self._counter.labels(kind.value).inc()
        if not self.is_due(kind):
            return
        self._logged_ms[kind] = self._now_ms()
        log.error(
            "controller disturbed",
            kind=kind.value,
            meaning=MEANINGS[kind],
            action=ACTION,
            transactional_id=self._transactional_id,
            group=self._group_id,
            members=list(members),
        )
