"""Assignments of consumer group members (KIP-848) that are deferred because a topic in them has no name yet.

Held by a session for its connection, used by proxy.session.apis.consumer_group_heartbeat. The broker sends an
assignment once; it is held until the member's next heartbeat, before which the names are looked up.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

MAX_MEMBERS = 16
"""Members of one connection; a client has one. Beyond this the oldest gets its assignment when it rejoins."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """An assignment that one member gets with its next heartbeat."""

    member_epoch: int
    assignment: Any

    @property
    def topic_ids(self) -> list[bytes]:
        return [bytes(topic.topic_id) for topic in self.assignment.topic_partitions]


class DeferredAssignments:
    """The deferred assignments of one connection, by group and member."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: OrderedDict[tuple[str, str], Deferred] = OrderedDict()

    def hold(self, group_id: str, member_id: str, deferred: Deferred) -> None:
        """Hold an assignment, in place of the member's earlier one."""
        self._members.pop((group_id, member_id), None)
        self._members[group_id, member_id] = deferred
        if len(self._members) > MAX_MEMBERS:
            self._members.popitem(last=False)

    def take(self, group_id: str, member_id: str) -> Deferred | None:
        """Return the held assignment, once; None: there is none."""
        return self._members.pop((group_id, member_id), None)
