"""A node that keeps its data in a compacted topic and elects a leader by the group protocol.

Schema Registry does so: its group has the protocol type `sr`, the member that the broker makes leader of the
group assigns the same node as primary to all, and only the primary writes.
"""

import json
from typing import Any, Self

from proxy.net.kafka.channel import Channel, EndpointSettings
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

GROUP, PROTOCOL_TYPE, PROTOCOL = "schema-registry", "sr", "v0"
_JOIN, _SYNC, _HEARTBEAT, _LEAVE = 5, 3, 3, 3
"""Versions, as in the Java client's coordinator."""


class Node:
    """One node of the registry, on one connection."""

    def __init__(self, channel: Channel, url: str) -> None:
        self.url = url
        self.primary: str | None = None
        """The URL of the primary, once the group has settled."""
        self._channel = channel
        self._member_id = ""
        self._generation = -1

    @classmethod
    async def open(cls, endpoint: EndpointSettings, url: str) -> Self:
        return cls(await Channel.open(endpoint), url)

    async def close(self) -> None:
        await self._channel.close()

    async def settle(self) -> int:
        """Join and learn the primary; the error code of the join or the sync."""
        joined = await self._join()
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            joined = await self._join()
        if joined.error_code != ErrorCode.NONE:
            return int(joined.error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        synced = await self._channel.request(ApiKey.SYNC_GROUP, _SYNC, self._sync(joined))
        if synced.error_code == ErrorCode.NONE:
            self.primary = json.loads(bytes(synced.assignment))["primary"]
        return int(synced.error_code)

    async def heartbeat(self) -> int:
        request = t.HeartbeatRequest(
            group_id=GROUP, generation_id=self._generation, member_id=self._member_id
        )
        return int((await self._channel.request(ApiKey.HEARTBEAT, _HEARTBEAT, request)).error_code)

    async def leave(self) -> int:
        member = t.LeaveGroupRequest.MemberIdentity(member_id=self._member_id)
        request = t.LeaveGroupRequest(group_id=GROUP, members=[member])
        return int((await self._channel.request(ApiKey.LEAVE_GROUP, _LEAVE, request)).error_code)

    async def _join(self) -> Any:
        protocol = t.JoinGroupRequest.JoinGroupRequestProtocol(name=PROTOCOL, metadata=self.url.encode())
        request = t.JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol],
        )
        return await self._channel.request(ApiKey.JOIN_GROUP, _JOIN, request)

    def _sync(self, joined: Any) -> t.SyncGroupRequest:
        assigned = t.SyncGroupRequest.SyncGroupRequestAssignment
        assignments = []
        if joined.leader == joined.member_id:
            primary = min(bytes(member.metadata).decode() for member in joined.members)
            content = json.dumps({"primary": primary}).encode()
            assignments = [
                assigned(member_id=member.member_id, assignment=content) for member in joined.members
            ]
        return t.SyncGroupRequest(
            group_id=GROUP,
            generation_id=self._generation,
            member_id=self._member_id,
            assignments=assignments,
        )
