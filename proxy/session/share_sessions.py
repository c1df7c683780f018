"""Share sessions (KIP-932): what the client named, and what the broker was told.

Kept by a session for its connection and worked on by proxy.session.apis.share_fetch. A request of a share
session names only what changes in it. The broker reads for us whatever its session holds, so topics that
the client may not read are kept out of it; the client, which knows nothing of that, names them once and
hears their error in each answer, and finds them fetched as soon as an ACL allows it.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MAX_SESSIONS = 16
"""Of one connection; a client has one. Beyond it the oldest is forgotten, and begins anew."""

MAX_PARTITIONS = 100_000
"""Of one session; more than a client names, and a bound on what one can make us keep."""

INITIAL_EPOCH = 0
FINAL_EPOCH = -1

Partitions = Mapping[bytes, set[int]]
"""Topic id -> partitions."""


@dataclass(slots=True)
class ShareSession:
    """One member of a group at this broker."""

    named: dict[bytes, set[int]] = field(default_factory=dict)
    """What the client fetches, as far as it knows."""
    served: set[bytes] = field(default_factory=set)
    """Of these topics, those that the broker's session holds."""

    def add(self, partitions: Partitions) -> None:
        """The client names more."""
        for topic_id, indexes in partitions.items():
            self.named.setdefault(topic_id, set()).update(indexes)

    def forget(self, partitions: Partitions) -> None:
        """The client is done with some."""
        for topic_id, indexes in partitions.items():
            left = self.named.get(topic_id, set()) - indexes
            if left:
                self.named[topic_id] = left
            else:
                self.named.pop(topic_id, None)

    @property
    def is_full(self) -> bool:
        """Whether it holds more than we keep."""
        return sum(map(len, self.named.values())) > MAX_PARTITIONS


class ShareSessions:
    """The share sessions of one connection, by group and member."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[str, str], ShareSession] = OrderedDict()

    def open(self, group_id: str, member_id: str) -> ShareSession:
        """A new one in the place of any that was there."""
        self.close(group_id, member_id)
        session = self._sessions[group_id, member_id] = ShareSession()
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def find(self, group_id: str, member_id: str) -> ShareSession | None:
        """None: the client has to begin one."""
        return self._sessions.get((group_id, member_id))

    def close(self, group_id: str, member_id: str) -> None:
        """The broker has ended it, or the client does."""
        self._sessions.pop((group_id, member_id), None)


def by_topic(topics: Iterable[tuple[bytes, Iterable[int]]]) -> dict[bytes, set[int]]:
    """Topics as a request lists them, perhaps twice, in one map."""
    partitions: dict[bytes, set[int]] = {}
    for topic_id, indexes in topics:
        partitions.setdefault(topic_id, set()).update(indexes)
    return partitions
