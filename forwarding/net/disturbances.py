"""What others do to the controller at the broker, as one log line, a metric and an alert.

Told by forwarding.net.election and forwarding.net.leader. Whoever may use the controller's transactional id
or its election group can do these things again and again: each is counted, one in a while is logged.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

import structlog
from prometheus_client import Counter

LOG_INTERVAL_MS = 30_000

log = structlog.get_logger(__name__)


class Kind(StrEnum):
    """What was done. The label of the metric."""

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
    "give them to others, prefixes and * included, and for clients with the names told here"
)


class Disturbances:
    """Counts all, logs one of a kind in LOG_INTERVAL_MS."""

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

    def tell(self, kind: Kind, members: Sequence[str] = ()) -> None:
        """`members`: who is in the election group, this controller included."""
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
