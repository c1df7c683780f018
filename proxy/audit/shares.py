"""How much of a bounded space each class of records may take: its own reserve, and the rest for everybody.

Asked by proxy.net.audit.capacity, for the queue and for the spool. What was put leaves in the order in which
it came. A class can always use its reserve, whatever the others have put: a flood of denials or summaries
never takes the room of an administrator's change, nor the other way round.
"""

from collections import Counter, deque
from dataclasses import dataclass, field

from proxy.audit.classes import ADMIN, AUTHENTICATION, CLASSES, DENIAL

RESERVED = {ADMIN: 1 / 8, DENIAL: 1 / 8, AUTHENTICATION: 1 / 16}
"""Part of the whole that only this class may take."""
_GRAINS = 256
"""What leaves is counted in pieces of this part of the whole."""


@dataclass(slots=True)
class _Piece:
    """Records that were put one after the other; they leave together."""

    end: int
    by_class: Counter[str] = field(default_factory=Counter)


class Shares:
    """Of one space. Positions count every byte that was ever put, `unknown_bytes` included."""

    def __init__(self, max_bytes: int, unknown_bytes: int = 0) -> None:
        """`unknown_bytes`: what is there already, of whichever class; it leaves first."""
        self._max_bytes = max_bytes
        self._reserved = {name: int(max_bytes * part) for name, part in RESERVED.items()}
        self._grain_bytes = max_bytes // _GRAINS
        self._unknown_bytes = unknown_bytes
        self._held: Counter[str] = Counter()
        self._pieces: deque[_Piece] = deque()
        self._end = unknown_bytes
        self._left = 0

    def put(self, event_class: str, size_bytes: int) -> None:
        """A record has come."""
        self._end += size_bytes
        self._held[event_class] += size_bytes
        pieces = self._pieces
        if not pieces or sum(pieces[-1].by_class.values()) >= self._grain_bytes:
            pieces.append(_Piece(self._end))
        pieces[-1].end = self._end
        pieces[-1].by_class[event_class] += size_bytes

    def left(self, position: int) -> None:
        """Everything before this position is gone."""
        self._left = max(self._left, position)
        while self._pieces and self._pieces[0].end <= position:
            self._held -= self._pieces.popleft().by_class

    def room_bytes(self, event_class: str) -> int:
        """How much this class may put now; negative when there is too much already."""
        others = sum(
            max(self._held[name], self._reserved.get(name, 0))
            for name in (*CLASSES, *self._held.keys() - set(CLASSES))
            if name != event_class
        )
        unknown = max(0, self._unknown_bytes - self._left)
        return self._max_bytes - unknown - others - self._held[event_class]

    @property
    def ratio(self) -> float:
        """How full it is for the class that has the least room: 1 when that one has none."""
        held = sum(self._held.values()) + max(0, self._unknown_bytes - self._left)
        room = max(0, min(self.room_bytes(name) for name in CLASSES))
        return held / (held + room) if held + room else 1.0
