"""The classes of events, and the part of a bounded space that each class may use.

proxy.audit.events assigns a class to each event. The class decides what happens to an event when the trail
has no room. Settings and metrics use the classes, proxy.net.audit.capacity the shares: for the queue and for
the spool, which records leave in the order in which they came. A class can always use its reserve, whatever
the others hold: a flood of denials or summaries never uses the room of administrative changes, or the other
way round.
"""

from collections import Counter, deque
from dataclasses import dataclass, field

ADMIN = "admin"
"""Changes to the cluster or to the process's own settings, and their requests."""
DENIAL = "denial"
AUTHENTICATION = "authentication"
"""Logins, and sessions that ended because of one."""
SUMMARY = "summary"
"""Counted traffic, periodic reports, and administrative requests that only read."""
PROCESS = "process"
"""Start, end and settings of a boot: a few records, without which the others cannot be interpreted."""

CLASSES = (ADMIN, DENIAL, AUTHENTICATION, SUMMARY)
"""The classes with a policy; there is always room for PROCESS."""

READS = frozenset(
    (
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeDelegationToken",
        "DescribeUserScramCredentials",
        "InitProducerId",
    )
)
"""APIs whose allowed actions are recorded one by one, although they change nothing in the cluster."""

BY_CLIENTS = frozenset(("LeaveGroup", "Metadata", "OffsetCommit", "TxnOffsetCommit"))
"""APIs of data traffic with which a tool may change something: any client may send them, as often as it
likes."""

RESERVED = {ADMIN: 1 / 8, DENIAL: 1 / 8, AUTHENTICATION: 1 / 16}
"""The part of the space that only this class may use."""
_GRAINS = 256
"""Released space is counted in pieces of this part of the whole."""


@dataclass(slots=True)
class _Piece:
    """Consecutive records, which are released together."""

    end: int
    size_bytes: int = 0
    by_class: Counter[str] = field(default_factory=Counter)


class SpoolShares:
    """The use of one space. Positions count every byte that was ever put, `unknown_bytes` included."""

    def __init__(self, max_bytes: int, unknown_bytes: int = 0) -> None:
        """`unknown_bytes`: existing bytes of unknown class; they are released first."""
        self._max_bytes = max_bytes
        self._reserved = {name: int(max_bytes * part) for name, part in RESERVED.items()}
        self._grain_bytes = max_bytes // _GRAINS
        self._unknown_bytes = unknown_bytes
        self._held: Counter[str] = Counter()
        self._taken_bytes = sum(self._reserved.values())
        """What all classes hold, or have reserved if that is more."""
        self._pieces: deque[_Piece] = deque()
        self._end = unknown_bytes
        self._released = 0

    def put(self, event_class: str, size_bytes: int) -> None:
        """Count a record."""
        self._end += size_bytes
        self._hold(event_class, size_bytes)
        pieces = self._pieces
        if not pieces or pieces[-1].size_bytes >= self._grain_bytes:
            pieces.append(_Piece(self._end))
        piece = pieces[-1]
        piece.end = self._end
        piece.size_bytes += size_bytes
        piece.by_class[event_class] += size_bytes

    def release(self, position: int) -> None:
        """Release everything before this position."""
        self._released = max(self._released, position)
        while self._pieces and self._pieces[0].end <= position:
            for event_class, size_bytes in self._pieces.popleft().by_class.items():
                self._hold(event_class, -size_bytes)

    def room_bytes(self, event_class: str) -> int:
        """Return how many bytes this class may put now; negative if there are too many already."""
        held = self._held.get(event_class, 0)
        others = self._taken_bytes - max(held, self._reserved.get(event_class, 0))
        unknown = max(0, self._unknown_bytes - self._released)
        return self._max_bytes - unknown - others - held

    def _hold(self, event_class: str, more_bytes: int) -> None:
        held, reserved = self._held.get(event_class, 0), self._reserved.get(event_class, 0)
        self._held[event_class] = held + more_bytes
        self._taken_bytes += max(held + more_bytes, reserved) - max(held, reserved)

    @property
    def ratio(self) -> float:
        """How full the space is for the class with the least room; 1: it has none."""
        held = sum(self._held.values()) + max(0, self._unknown_bytes - self._released)
        room = max(0, min(self.room_bytes(name) for name in CLASSES))
        return held / (held + room) if held + room else 1.0
