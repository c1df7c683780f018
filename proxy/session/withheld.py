"""Assignments of consumer group members (KIP-848) that are not told yet: a topic in them has no name.

Kept by a session for its connection, worked on by proxy.session.apis.consumer_group_heartbeat. The broker
tells an assignment once; what it told is kept until the next heartbeat, before which the broker is asked
for the names.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

MAX_MEMBERS = 16
"""Of one connection; a client is one. Beyond it the oldest gets its assignment when it joins again."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """What one member is to be told with its next heartbeat."""

    member_epoch: int
    assignment: Any

    @property
    def topic_ids(self) -> list[bytes]:
        return [bytes(topic.topic_id) for topic in self.assignment.topic_partitions]


class WithheldAssignments:
    """By group and member."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: OrderedDict[tuple[str, str], Withheld] = OrderedDict()

    def keep(self, group_id: str, member_id: str, withheld: Withheld) -> None:
        """In the place of what was kept for the member before."""
        self._members.pop((group_id, member_id), None)
        self._members[group_id, member_id] = withheld
        if len(self._members) > MAX_MEMBERS:
            self._members.popitem(last=False)

    def take(self, group_id: str, member_id: str) -> Withheld | None:
        """What was kept, once."""
        return self._members.pop((group_id, member_id), None)
