"""The hosts of group members, for the responses that describe groups.

The broker sees the proxy's connections, so it reports the proxy's address as the host of each member. A proxy
learns a member's host when the broker accepts a request of it: SyncGroup and Heartbeat of classic groups, the
heartbeats of the others. The broker that coordinates a group serves both its members and those who describe
it, so the proxy in front of it sees both. Of a member that is connected to another proxy or worker, the host
is not known, and stays the address that the broker has reported.

Used by proxy.session.apis.groups, heartbeats and share_groups.
"""

from __future__ import annotations

from typing import Any

MAX_MEMBERS = 50_000
"""Beyond this the oldest is forgotten, and learnt again from its next heartbeat."""
MAX_NAME_LENGTH = 512
"""Of group and member id together: longer names than clients choose would use too much memory."""


class MemberHosts:
    """Group id and member id -> host, as ACLs name it. Bounded by number and by the length of names."""

    __slots__ = ("_hosts", "_max_members")

    def __init__(self, max_members: int = MAX_MEMBERS) -> None:
        self._max_members = max_members
        self._hosts: dict[tuple[str, str], str] = {}  # The oldest first.

    def learn(self, group_id: str, member_id: str | None, host: str) -> None:
        """Store the host from which the broker has accepted a request of this member."""
        if not member_id or len(group_id) + len(member_id) > MAX_NAME_LENGTH:
            return
        member = (group_id, member_id)
        if self._hosts.pop(member, None) is None and len(self._hosts) >= self._max_members:
            del self._hosts[next(iter(self._hosts))]
        self._hosts[member] = host

    def is_at(self, group_id: str, member_id: str, host: str) -> bool:
        """Whether this is already known."""
        return self._hosts.get((group_id, member_id)) == host

    def fill_in(self, group_id: str, members: list[Any]) -> None:
        """Write the known hosts into members of a group that was described."""
        for member in members:
            host = self._hosts.get((group_id, member.member_id))
            if host is not None:
                # Kafka returns Java's text of an address without a host name, which begins with a slash.
                member.client_host = f"/{host}"
