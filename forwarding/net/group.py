"""Requests to the coordinator of the election group; responses as values.

forwarding.net.election decides what follows from a response. The requests have their own channel, which
re-authenticates. The group has its own protocol type: consumers cannot join while a controller is a member,
and Kafka cannot convert it into a group of the newer consumer protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from proxy.net.kafka.channel import Channel, EndpointSettings, first_of
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message, Request, Response

PROTOCOL_TYPE = "penstock"
PROTOCOL = "penstock-incumbency"
STABLE = "Stable"
REQUEST_TIMEOUT_MS = 5_000
LEFT = -1
"""The member epoch that leaves a group of the newer consumer protocol."""


class GroupError(Exception):
    """The coordinator returned an error."""

    def __init__(self, api_key: int, error_code: int) -> None:
        super().__init__(f"{ApiKey.name_of(api_key)}: {ErrorCode.name_of(error_code)}")
        self.error_code = error_code


@dataclass(frozen=True, slots=True)
class Joined:
    """A generation of the group, from the view of one member."""

    generation: int
    member_id: str
    leads: bool
    members: Mapping[str, bytes]
    """Member id -> its metadata. Empty except at the leader."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member, as DescribeGroups returns it."""

    member_id: str
    client_id: str
    host: str
    metadata: bytes = b""
    assignment: bytes = b""

    def __str__(self) -> str:
        return f"{self.client_id} at {self.host.removeprefix('/')} ({self.member_id})"


@dataclass(frozen=True, slots=True)
class Description:
    """The current state of the group."""

    state: str
    members: Sequence[GroupMember]
    uses_our_protocol: bool
    """Whether the members use Penstock's protocol. Their metadata is visible in state STABLE only."""


class GroupCoordinator:
    """A channel to the coordinator of the group."""

    def __init__(self, channel: Channel, group_id: str) -> None:
        self._channel = channel
        self._group_id = group_id

    @classmethod
    async def open(cls, endpoint: EndpointSettings, group_id: str) -> Self:
        """Find the coordinator and connect to it; ChannelError or GroupError on failure."""
        endpoint = replace(endpoint, request_timeout_ms=min(endpoint.request_timeout_ms, REQUEST_TIMEOUT_MS))
        async with await Channel.open(endpoint) as channel:
            request = types.FindCoordinatorRequest(key=group_id)
            found = await _request(channel, request, (1, 3))
        return cls(await Channel.open(endpoint.at(found.host, found.port)), group_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def join(
        self, member_id: str, metadata: bytes, session_ms: int, rebalance_ms: int, timeout_ms: int
    ) -> Joined:
        """Join the group. Returns when all members have joined, or those that have not were removed."""
        request = types.JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[types.JoinGroupRequest.JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata)],
        )
        response = await self._join(request, timeout_ms)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = response.member_id
            response = await self._join(request, timeout_ms)
        _check(ApiKey.JOIN_GROUP, response)
        members = {member.member_id: bytes(member.metadata) for member in response.members}
        return Joined(
            response.generation_id, response.member_id, response.leader == response.member_id, members
        )

    async def sync(self, joined: Joined, assignments: Mapping[str, bytes]) -> bytes:
        """Return this member's assignment. `assignments`: for all members, from the leader only."""
        assignment = types.SyncGroupRequest.SyncGroupRequestAssignment
        request = types.SyncGroupRequest(
            group_id=self._group_id,
            generation_id=joined.generation,
            member_id=joined.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=[assignment(member_id=to, assignment=what) for to, what in assignments.items()],
        )
        response = await _request(self._channel, request, (3, 5))
        return bytes(response.assignment)

    async def heartbeat(self, generation: int, member_id: str) -> None:
        """Send a heartbeat; GroupError when this is no longer a member, or the group rebalances."""
        request = types.HeartbeatRequest(
            group_id=self._group_id, generation_id=generation, member_id=member_id
        )
        await _request(self._channel, request, (3, 4))

    async def describe(self) -> Description:
        """Return the state and the members of the group, in either consumer protocol."""
        request = types.DescribeGroupsRequest(groups=[self._group_id])
        response = await _request(self._channel, request, (3, 6))
        group = first_of(response.groups)
        if not group.members:
            return await self._describe_newer(group.group_state)
        members = [
            GroupMember(
                each.member_id,
                each.client_id,
                each.client_host,
                bytes(each.member_metadata),
                bytes(each.member_assignment),
            )
            for each in group.members
        ]
        return Description(group.group_state, members, group.protocol_type == PROTOCOL_TYPE)

    async def evict(self, members: Iterable[GroupMember], *, use_our_protocol: bool) -> None:
        """Remove members. `use_our_protocol`: False if they may use the newer consumer protocol."""
        ids = [member.member_id for member in members]
        await self.leave(ids)
        if not use_our_protocol and ApiKey.CONSUMER_GROUP_HEARTBEAT in self._channel.api_versions:
            for member_id in ids:
                request = types.ConsumerGroupHeartbeatRequest(
                    group_id=self._group_id, member_id=member_id, member_epoch=LEFT
                )
                # The response is ignored: a member of the older protocol is unknown to the newer one.
                await self._channel.send(request, (0, 1))

    async def leave(self, member_ids: Iterable[str]) -> None:
        """Remove members from the group; unknown ones are ignored."""
        member = types.LeaveGroupRequest.MemberIdentity
        request = types.LeaveGroupRequest(
            group_id=self._group_id, members=[member(member_id=member_id) for member_id in member_ids]
        )
        await self._channel.send(request, (3, 5), timeout_ms=REQUEST_TIMEOUT_MS)

    async def _join(self, request: types.JoinGroupRequest, timeout_ms: int) -> types.JoinGroupResponse:
        return await self._channel.send(request, (5, 9), timeout_ms=timeout_ms)

    async def _describe_newer(self, state: str) -> Description:
        """Describe a group of the newer protocol (KIP-848), which looks empty in the older one."""
        if ApiKey.CONSUMER_GROUP_DESCRIBE not in self._channel.api_versions:
            return Description(state, (), uses_our_protocol=False)
        request = types.ConsumerGroupDescribeRequest(group_ids=[self._group_id])
        response = await self._channel.send(request, (0, 1))
        members = [
            GroupMember(each.member_id, each.client_id, each.client_host)
            for group in response.groups
            for each in group.members
        ]
        return Description(state, members, uses_our_protocol=False)


async def _request(channel: Channel, request: Request[Response], versions: tuple[int, int]) -> Response:
    response = await channel.send(request, versions, timeout_ms=REQUEST_TIMEOUT_MS)
    _check(request.api_key, response)
    return response


def _check(api_key: int, response: Message) -> None:
    error_code = getattr(response, "error_code", ErrorCode.NONE)
    if error_code != ErrorCode.NONE:
        raise GroupError(api_key, error_code)
