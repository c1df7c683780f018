"""Requests to the coordinator of the election group in, its answers as values out.

Used by forwarding.net.election, which decides what follows from an answer. Goes over a channel of our own,
which re-authenticates. The group has a protocol type of its own, so that no consumer can be a member
while a controller is, and Kafka cannot turn it into a group of the newer consumer protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from proxy.net.kafka.channel import Channel, EndpointSettings
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message, Request, Response

PROTOCOL_TYPE = "penstock"
PROTOCOL = "penstock-incumbency"
STABLE = "Stable"
REQUEST_TIMEOUT_MS = 5_000
LEFT = -1
"""The epoch by which a member of the newer consumer protocol leaves."""


class GroupError(Exception):
    """The coordinator answered with an error."""

    def __init__(self, api_key: int, error_code: int) -> None:
        named = error_code in ErrorCode.__members__.values()
        name = ErrorCode(error_code).name if named else f"error {error_code}"
        super().__init__(f"{ApiKey.name_of(api_key)}: {name}")
        self.error_code = error_code


@dataclass(frozen=True, slots=True)
class Joined:
    """A generation of the group, as one member sees it."""

    generation: int
    member_id: str
    leads: bool
    members: Mapping[str, bytes]
    """Member id -> what it said when it joined. Empty for all but the member that leads."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member, as whoever asks about the group sees it."""

    member_id: str
    client_id: str
    host: str
    metadata: bytes = b""
    assignment: bytes = b""

    def __str__(self) -> str:
        return f"{self.client_id} at {self.host.removeprefix('/')} ({self.member_id})"


@dataclass(frozen=True, slots=True)
class Description:
    """The group as it is now."""

    state: str
    members: Sequence[Member]
    is_ours: bool
    """Its members use our protocol. What they said can be seen in state STABLE only."""


class Coordinator:
    """A channel to the broker that coordinates the group."""

    def __init__(self, channel: Channel, group_id: str) -> None:
        self._channel = channel
        self._group_id = group_id

    @classmethod
    async def open(cls, endpoint: EndpointSettings, group_id: str) -> Self:
        """ChannelError or GroupError if it cannot be found or reached."""
        endpoint = replace(endpoint, request_timeout_ms=min(endpoint.request_timeout_ms, REQUEST_TIMEOUT_MS))
        async with await Channel.open(endpoint) as channel:
            request = types.FindCoordinatorRequest(key=group_id)
            found = await _asked(channel, ApiKey.FIND_COORDINATOR, (1, 3), request)
        return cls(await Channel.open(endpoint.at(found.host, found.port)), group_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def join(self, member_id: str, metadata: bytes, session_ms: int, rebalance_ms: int) -> Joined:
        """Back when all members have joined, or those that have not are out of the group."""
        request = types.JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[types.JoinGroupRequest.JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata)],
        )
        limit_ms = rebalance_ms + REQUEST_TIMEOUT_MS // 2
        answer = await self._join(request, limit_ms)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = answer.member_id
            answer = await self._join(request, limit_ms)
        _check(ApiKey.JOIN_GROUP, answer)
        members = {member.member_id: bytes(member.metadata) for member in answer.members}
        return Joined(answer.generation_id, answer.member_id, answer.leader == answer.member_id, members)

    async def sync(self, joined: Joined, assignments: Mapping[str, bytes]) -> bytes:
        """What the member that leads has assigned to us; `assignments`: ours, if that is us."""
        assignment = types.SyncGroupRequest.SyncGroupRequestAssignment
        request = types.SyncGroupRequest(
            group_id=self._group_id,
            generation_id=joined.generation,
            member_id=joined.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=[assignment(member_id=to, assignment=what) for to, what in assignments.items()],
        )
        answer = await _asked(self._channel, ApiKey.SYNC_GROUP, (3, 5), request)
        return bytes(answer.assignment)

    async def heartbeat(self, generation: int, member_id: str) -> None:
        """GroupError when the group goes on without us, or into its next generation."""
        request = types.HeartbeatRequest(
            group_id=self._group_id, generation_id=generation, member_id=member_id
        )
        await _asked(self._channel, ApiKey.HEARTBEAT, (3, 4), request)

    async def describe(self) -> Description:
        """Who is in the group, whatever protocol it uses."""
        request = types.DescribeGroupsRequest(groups=[self._group_id])
        answer = await _asked(self._channel, ApiKey.DESCRIBE_GROUPS, (3, 6), request)
        group = answer.groups[0]
        if not group.members:
            return await self._describe_newer(group.group_state)
        members = [
            Member(
                each.member_id,
                each.client_id,
                each.client_host,
                bytes(each.member_metadata),
                bytes(each.member_assignment),
            )
            for each in group.members
        ]
        return Description(group.group_state, members, group.protocol_type == PROTOCOL_TYPE)

    async def evict(self, members: Iterable[Member], *, are_ours: bool) -> None:
        """Have them out of the group. `are_ours`: False if they may use the newer consumer protocol."""
        ids = [member.member_id for member in members]
        await self.leave(ids)
        if not are_ours and ApiKey.CONSUMER_GROUP_HEARTBEAT in self._channel.api_versions:
            for member_id in ids:
                request = types.ConsumerGroupHeartbeatRequest(
                    group_id=self._group_id, member_id=member_id, member_epoch=LEFT
                )
                version = self._channel.version(ApiKey.CONSUMER_GROUP_HEARTBEAT, (0, 1))
                # A member of the older protocol is not known by it, which is no fault.
                await self._channel.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, request)

    async def leave(self, member_ids: Iterable[str]) -> None:
        """Whether they were members or not, they are not any more."""
        member = types.LeaveGroupRequest.MemberIdentity
        request = types.LeaveGroupRequest(
            group_id=self._group_id, members=[member(member_id=member_id) for member_id in member_ids]
        )
        version = self._channel.version(ApiKey.LEAVE_GROUP, (3, 5))
        await self._channel.request(ApiKey.LEAVE_GROUP, version, request, timeout_ms=REQUEST_TIMEOUT_MS)

    async def _join(self, request: types.JoinGroupRequest, timeout_ms: int) -> types.JoinGroupResponse:
        version = self._channel.version(ApiKey.JOIN_GROUP, (5, 9))
        return await self._channel.request(ApiKey.JOIN_GROUP, version, request, timeout_ms=timeout_ms)

    async def _describe_newer(self, state: str) -> Description:
        """A group of the newer consumer protocol (KIP-848) is empty to whoever asks in the older one."""
        if ApiKey.CONSUMER_GROUP_DESCRIBE not in self._channel.api_versions:
            return Description(state, (), is_ours=False)
        version = self._channel.version(ApiKey.CONSUMER_GROUP_DESCRIBE, (0, 1))
        request = types.ConsumerGroupDescribeRequest(group_ids=[self._group_id])
        answer = await self._channel.request(ApiKey.CONSUMER_GROUP_DESCRIBE, version, request)
        members = [
            Member(each.member_id, each.client_id, each.client_host)
            for group in answer.groups
            for each in group.members
        ]
        return Description(state, members, is_ours=False)


async def _asked(
    channel: Channel, api_key: int, versions: tuple[int, int], request: Request[Response]
) -> Response:
    version = channel.version(api_key, versions)
    answer = await channel.request(api_key, version, request, timeout_ms=REQUEST_TIMEOUT_MS)
    _check(api_key, answer)
    return answer


def _check(api_key: int, answer: Message) -> None:
    error_code = getattr(answer, "error_code", ErrorCode.NONE)
    if error_code != ErrorCode.NONE:
        raise GroupError(api_key, error_code)
