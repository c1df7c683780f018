"""Share sessions (KIP-932): what the client has named, and what the broker's session has.

A session stores them for its connection; proxy.session.apis.share_fetch changes them. A request of a share
session names only what changes in it. The broker fetches whatever its session has, with the proxy's rights,
so topics that the client may not read stay out of it. The client, which does not know that, names them once,
gets their error in each response, and gets their records as soon as an ACL allows it.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MAX_SESSIONS = 16
"""Share sessions of one connection; a client has one. Beyond this the oldest is forgotten."""

MAX_PARTITIONS = 100_000
"""Partitions of one session: more than clients name, and a limit for its memory."""

INITIAL_EPOCH = 0
FINAL_EPOCH = -1

Partitions = Mapping[bytes, set[int]]
"""Topic id -> partitions."""


@dataclass(slots=True)
class ShareSession:
    """The share session of one member of a group at this broker."""

    named: dict[bytes, set[int]] = field(default_factory=dict)
    """The partitions that the client has named."""
    served: set[bytes] = field(default_factory=set)
    """The named topics that the broker's session has."""

    def add(self, partitions: Partitions) -> None:
        """Add partitions that the client has named."""
        for topic_id, indexes in partitions.items():
            self.named.setdefault(topic_id, set()).update(indexes)

    def forget(self, partitions: Partitions) -> None:
        """Remove partitions that the client has forgotten."""
        for topic_id, indexes in partitions.items():
            left = self.named.get(topic_id, set()) - indexes
            if left:
                self.named[topic_id] = left
            else:
                self.named.pop(topic_id, None)

    @property
    def is_full(self) -> bool:
        """Whether it has too many partitions."""
        return sum(map(len, self.named.values())) > MAX_PARTITIONS


class ShareSessions:
    """The share sessions of one connection, by group and member."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[str, str], ShareSession] = OrderedDict()

    def open(self, group_id: str, member_id: str) -> ShareSession:
        """Open a session, in place of an earlier one."""
        self.close(group_id, member_id)
        session = self._sessions[group_id, member_id] = ShareSession()
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def find(self, group_id: str, member_id: str) -> ShareSession | None:
        """Return the session; None: the client has to open one."""
        return self._sessions.get((group_id, member_id))

    def close(self, group_id: str, member_id: str) -> None:
        """Close the session, ended by the broker or by the client."""
        self._sessions.pop((group_id, member_id), None)


def by_topic(topics: Iterable[tuple[bytes, Iterable[int]]]) -> dict[bytes, set[int]]:
    """Collect the topics of a request, which may list one twice, by id."""
    partitions: dict[bytes, set[int]] = {}
    for topic_id, indexes in topics:
        partitions.setdefault(topic_id, set()).update(indexes)
    return partitions
