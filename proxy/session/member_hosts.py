"""The hosts of group members, for the responses that describe groups.

The broker sees the proxy's connections, so it reports the proxy's address as the host of each member. A proxy
learns a member's host when the broker accepts a request of it: SyncGroup and Heartbeat of classic groups, the
heartbeats of the others. The broker that coordinates a group serves both its members and those who describe
it, so the proxy in front of it sees both; its workers share what they know. The host of a member that is
connected to another proxy of the same broker is not known, so the response has the broker's address for it.

Used by proxy.session.apis.groups, heartbeats and share_groups.
"""

from __future__ import annotations

from typing import Any, Protocol

from proxy.security.authorizer import host_address

MAX_MEMBERS = 50_000
"""Beyond this the oldest is forgotten, and learnt again from its next heartbeat."""
MAX_NAME_LENGTH = 512
"""Of group and member id together: longer names than clients choose would use too much memory."""
REFRESH_MS = 600_000
"""After this time a member's host is learnt again, so that those of former members are the oldest."""


class SharedHosts(Protocol):
    """Group id and member id -> address in 4 or 16 raw bytes, in all workers of a proxy. Bounded."""

    def put(self, group_id: str, member_id: str, address: bytes) -> bool:
        """Return False if it cannot be stored now."""
        ...

    def get(self, group_id: str, member_id: str) -> bytes | None: ...


class MemberHosts:
    """Group id and member id -> address. Bounded by number and by the length of names."""

    __slots__ = ("_max_members", "_members", "_shared")

    def __init__(self, shared: SharedHosts | None = None, max_members: int = MAX_MEMBERS) -> None:
        self._shared = shared
        self._max_members = max_members
        # Address, and when it was learnt; the oldest first.
        self._members: dict[tuple[str, str], tuple[bytes, int]] = {}

    def learn(self, group_id: str, member_id: str | None, address: bytes, at_ms: int) -> None:
        """Store the address from which the broker has accepted a request of this member."""
        if not member_id or len(group_id) + len(member_id) > MAX_NAME_LENGTH:
            return
        if self.knows(group_id, member_id, address, at_ms):
            return
        if self._shared is not None and not self._shared.put(group_id, member_id, address):
            return  # The member's next heartbeat tries it again.
        member = (group_id, member_id)
        if self._members.pop(member, None) is None and len(self._members) >= self._max_members:
            del self._members[next(iter(self._members))]
        self._members[member] = address, at_ms

    def knows(self, group_id: str, member_id: str, address: bytes, at_ms: int) -> bool:
        """Whether there is nothing to learn from a request of this member."""
        known = self._members.get((group_id, member_id))
        return known is not None and known[0] == address and 0 <= at_ms - known[1] < REFRESH_MS

    def fill_in(self, group_id: str, members: list[Any]) -> None:
        """Write the known hosts into members of a group that was described."""
        for member in members:
            address = self._address(group_id, member.member_id)
            if address is not None:
                # Kafka returns Java's text of an address without a host name, which begins with a slash.
                member.client_host = f"/{host_address(address)}"

    def _address(self, group_id: str, member_id: str) -> bytes | None:
        # A member may have moved to another worker, so the shared address comes first.
        shared = None if self._shared is None else self._shared.get(group_id, member_id)
        if shared is not None:
            return shared
        known = self._members.get((group_id, member_id))
        return None if known is None else known[0]
