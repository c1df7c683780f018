"""What a connection remembers from one request to the next: fetch sessions, share sessions, assignments.

A fetch session (KIP-227) names its partitions once, so what was allowed then has to be allowed still: a
session is known to the connection that opened it, under the rights it was opened under. Any other use of it
gets FETCH_SESSION_ID_NOT_FOUND, upon which a client opens a new one. A request for whose response the
client's quota has no room is not sent: its changes are held for the next one, and the broker's epoch stays
behind the client's.

A request of a share session (KIP-932) names only what changes in it. The broker fetches whatever its session
has, with the proxy's rights, so topics that the client may not read stay out of it. The client, which does
not know that, names them once, gets their error in each response, and gets their records as soon as an ACL
allows it. Here, too, a request without room in the quota is not sent. proxy.session.apis.share_fetch changes
these sessions.

An assignment of a consumer group member (KIP-848) is deferred if a topic in it has no name yet. The broker
sends an assignment once; it is held until the member's next heartbeat, before which the names are looked up
(proxy.session.apis.heartbeats).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from proxy.session.gate import Rights, SharedRoom
from proxy.wire import types

_MAX_FETCH_SESSIONS = 100

MAX_SESSIONS = 16
"""Share sessions of one connection; a client has one. Beyond this the oldest is forgotten."""

MAX_PARTITIONS = 20_000
"""Partitions of all share sessions of a connection, which may take 10 MB: more than clients name."""

INITIAL_EPOCH = 0
FINAL_EPOCH = -1

Partitions = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions."""
_NO_PARTITIONS: frozenset[int] = frozenset()

MAX_MEMBERS = 16
"""Members of one connection; a client has one. Beyond this the oldest gets its assignment when it rejoins."""


MAX_HELD = 1_000
"""Topics and partitions. A Fetch that changes more of its session is sent, even if the quota has no room."""
_USUAL_CHARACTERS = 256
"""A longer name counts as several topics."""
_LAST_EPOCH = 2**31 - 1

FetchPartition = types.FetchRequest.FetchPartition
FetchTopic = types.FetchRequest.FetchTopic
ForgottenTopic = types.FetchRequest.ForgottenTopic


@dataclass(slots=True)
class FetchSession:
    """A fetch session of the client at the broker."""

    rights: Rights
    first_topic: str
    """The topic at which its traffic is counted."""
    until_ms: int | None = None
    """When the first of the ACLs ends that allow its topics; None: none of them has an end."""
    behind: int = 0
    """The number of requests that the client has sent and the broker has not got."""
    held: dict[tuple[str, bytes], dict[int, FetchPartition | None]] = field(default_factory=dict)
    """The changes in them: topic -> partition -> as it was named last, None if it was forgotten."""
    held_weight: int = 0
    """Their memory, in pieces of a third of a kilobyte."""

    @property
    def weight(self) -> int:
        """The memory of all of it, in the same pieces."""
        return 1 + len(self.first_topic) // _USUAL_CHARACTERS + self.held_weight

    def broker_epoch(self, epoch: int) -> int:
        """Return the epoch that the broker expects where the client sends this one."""
        return _epoch_at_broker(epoch, self.behind)

    def hold(self, request: types.FetchRequest) -> None:
        """Hold the changes of a request that is not sent; nothing of it may borrow the receive buffer."""
        self.behind += 1
        self._change(request)
        self.held_weight = _weight((name, len(partitions)) for (name, _), partitions in self.held.items())

    def may_hold(self, request: types.FetchRequest) -> bool:
        """Whether its changes are few enough to be held."""
        counts = [(name, len(partitions)) for (name, _), partitions in self.held.items()]
        counts += [(topic.topic, len(topic.partitions)) for topic in request.topics]
        counts += [(topic.topic, len(topic.partitions)) for topic in request.forgotten_topics_data]
        return _weight(counts) <= MAX_HELD

    def catch_up(self, request: types.FetchRequest) -> None:
        """Add the held changes to a request that is sent, and the epoch that the broker expects."""
        request.session_epoch = self.broker_epoch(request.session_epoch)
        if not self.held:
            return
        self._change(request)
        held, self.held, self.held_weight = self.held, {}, 0
        request.topics, request.forgotten_topics_data = [], []
        for (name, topic_id), partitions in held.items():
            named = [partition for partition in partitions.values() if partition is not None]
            forgotten = [index for index, partition in partitions.items() if partition is None]
            if named:
                request.topics.append(FetchTopic(topic=name, topic_id=topic_id, partitions=named))
            if forgotten:
                request.forgotten_topics_data.append(
                    ForgottenTopic(topic=name, topic_id=topic_id, partitions=forgotten)
                )

    def _change(self, request: types.FetchRequest) -> None:
        for topic in request.topics:
            named = self.held.setdefault((topic.topic, bytes(topic.topic_id)), {})
            named.update((partition.partition, partition) for partition in topic.partitions)
        for gone in request.forgotten_topics_data:
            self.held.setdefault((gone.topic, bytes(gone.topic_id)), {}).update(
                dict.fromkeys(gone.partitions)
            )


def _weight(topics: Iterable[tuple[str, int]]) -> int:
    """Return the memory of topics, each with the number of its partitions."""
    return sum(1 + len(name) // _USUAL_CHARACTERS + count for name, count in topics)


class FetchSessions:
    """Bounded: beyond 100 sessions the oldest is forgotten."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: dict[int, FetchSession] = {}  # The oldest first.

    def opened(self, session_id: int, rights: Rights, first_topic: str, until_ms: int | None) -> None:
        """The broker gave this id to a request whose topics were all allowed under `rights`."""
        if session_id:
            self._sessions[session_id] = FetchSession(rights, first_topic, until_ms)
            if len(self._sessions) > _MAX_FETCH_SESSIONS:
                del self._sessions[next(iter(self._sessions))]

    def find(self, session_id: int, rights: Rights) -> FetchSession | None:
        """Return the session; None when it must not be used any more."""
        session = self._sessions.get(session_id)
        return None if session is None or session.rights is not rights else session

    @property
    def weight(self) -> int:
        """The memory of all of them, in pieces of a third of a kilobyte."""
        return sum(session.weight for session in self._sessions.values())


@dataclass(slots=True)
class ShareSession:
    """The share session of one member of a group at this broker."""

    named: dict[bytes, frozenset[int]] = field(default_factory=dict)
    """The partitions that the client has named."""
    at_broker: Partitions = field(default_factory=dict)
    """Those that the broker's session has."""
    is_open: bool = False
    """The broker has got a request of it."""
    behind: int = 0
    """The number of requests that the client has sent and the broker has not got."""

    def broker_epoch(self, epoch: int) -> int:
        """Return the epoch that the broker expects where the client sends this one."""
        if epoch == FINAL_EPOCH or not self.behind:
            return epoch
        return _epoch_at_broker(epoch, self.behind) if self.is_open else INITIAL_EPOCH

    def add(self, partitions: Partitions) -> None:
        """Add partitions that the client has named; as at a broker, a topic without any is not in it."""
        for topic_id, indexes in partitions.items():
            if indexes:
                self.named[topic_id] = self.named.get(topic_id, _NO_PARTITIONS) | indexes

    def forget(self, partitions: Partitions) -> None:
        """Remove partitions that the client has forgotten."""
        for topic_id, indexes in partitions.items():
            left = self.named.get(topic_id, _NO_PARTITIONS) - indexes
            if left:
                self.named[topic_id] = left
            else:
                self.named.pop(topic_id, None)


class ShareSessions:
    """The share sessions of one connection, by group and member."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], ShareSession] = {}  # The oldest first.

    def open(self, group_id: str, member_id: str) -> ShareSession:
        """Open a session, in place of an earlier one."""
        self.close(group_id, member_id)
        session = self._sessions[group_id, member_id] = ShareSession()
        if len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return session

    def find(self, group_id: str, member_id: str) -> ShareSession | None:
        """Return the session; None: the client has to open one."""
        return self._sessions.get((group_id, member_id))

    def take_room(self, room: SharedRoom, holder: object, owner: Hashable) -> bool:
        """Whether there is room in the process for all partitions of the sessions; else nothing changes."""
        named = (indexes for session in self._sessions.values() for indexes in session.named.values())
        count = sum(map(len, named))
        return count <= MAX_PARTITIONS and room.take(holder, owner, count)

    def close(self, group_id: str, member_id: str) -> None:
        """Close the session, ended by the broker or by the client."""
        self._sessions.pop((group_id, member_id), None)


def by_topic(topics: Iterable[tuple[bytes, Iterable[int]]]) -> dict[bytes, frozenset[int]]:
    """Collect the topics of a request, which may list one twice, by id."""
    partitions: dict[bytes, set[int]] = {}
    for topic_id, indexes in topics:
        partitions.setdefault(topic_id, set()).update(indexes)
    return {topic_id: frozenset(indexes) for topic_id, indexes in partitions.items()}


def without(partitions: Partitions, *others: Partitions) -> dict[bytes, frozenset[int]]:
    """Return the partitions that none of the others has."""
    left = (
        (topic_id, indexes.difference(*(other.get(topic_id, _NO_PARTITIONS) for other in others)))
        for topic_id, indexes in partitions.items()
    )
    return {topic_id: indexes for topic_id, indexes in left if indexes}


def _epoch_at_broker(epoch: int, behind: int) -> int:
    at_broker = epoch - behind
    return at_broker if at_broker > 0 else at_broker + _LAST_EPOCH


@dataclass(frozen=True, slots=True)
class DeferredAssignment:
    """An assignment that one member gets with its next heartbeat."""

    member_epoch: int
    assignment: Any
    since_ms: int
    """When the request was taken whose response had it."""

    @property
    def topic_ids(self) -> list[bytes]:
        return [bytes(topic.topic_id) for topic in self.assignment.topic_partitions]


class DeferredAssignments:
    """The deferred assignments of one connection, by group and member."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: dict[tuple[str, str], DeferredAssignment] = {}  # The oldest first.

    def hold(self, group_id: str, member_id: str, deferred: DeferredAssignment) -> None:
        """Hold an assignment, in place of the member's earlier one."""
        self._members.pop((group_id, member_id), None)
        self._members[group_id, member_id] = deferred
        if len(self._members) > MAX_MEMBERS:
            del self._members[next(iter(self._members))]

    def find(self, group_id: str, member_id: str) -> DeferredAssignment | None:
        """Return the held assignment; None: there is none."""
        return self._members.get((group_id, member_id))

    def drop(self, group_id: str, member_id: str) -> None:
        """Forget the held assignment: the member gets it now."""
        self._members.pop((group_id, member_id), None)


class Remembered:
    """State of one connection from one request to the next. Each part is made when it is first used."""

    __slots__ = ("deferred_assignments", "fetch_sessions", "looked_up", "share_sessions")

    fetch_sessions: FetchSessions
    share_sessions: ShareSessions
    deferred_assignments: DeferredAssignments
    looked_up: frozenset[bytes]
    """Topic ids without a name, although they were looked up for the next request."""

    def __getattr__(self, name: str) -> object:
        if name not in _PARTS:
            raise AttributeError(name)
        made = _PARTS[name]()
        setattr(self, name, made)
        return made

    @property
    def weight(self) -> int:
        """The memory of the fetch sessions, in pieces of a third of a kilobyte."""
        try:
            sessions: FetchSessions = object.__getattribute__(self, "fetch_sessions")
        except AttributeError:
            return 0
        return sessions.weight

    def forget_fetch_sessions(self) -> None:
        """The client has to open other ones."""
        with suppress(AttributeError):
            del self.fetch_sessions


_PARTS: dict[str, Callable[[], object]] = {
    "fetch_sessions": FetchSessions,
    "share_sessions": ShareSessions,
    "deferred_assignments": DeferredAssignments,
    "looked_up": frozenset,
}
