"""Clients that have rights at the broker that they should not have, and disturb a controller with them.

Each runs in a task until cancelled, and begins again whatever happens to it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

CLIENT_ID = "alien"


@asynccontextmanager
async def disturbing(attack: Callable[[], Awaitable[None]]) -> AsyncIterator[asyncio.Event]:
    """`attack` in a task of its own; the event is set once it was carried out for the first time."""
    begun = asyncio.Event()

    async def again_and_again() -> None:
        while True:
            try:
                await attack()
                begun.set()
            except ChannelError:
                await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(again_and_again())
        try:
            yield begun
        finally:
            task.cancel()


@dataclass
class Fencer:
    """Asks for a producer id with the controller's transactional id, `pause_s` between two."""

    endpoint: EndpointSettings
    transactional_id: str
    pause_s: float
    fenced: int = 0
    has_fenced: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self) -> None:
        async with await Channel.open(self.endpoint) as channel:
            for _ in count():
                request = types.InitProducerIdRequest(
                    transactional_id=self.transactional_id,
                    transaction_timeout_ms=10_000,
                    producer_id=-1,
                    producer_epoch=-1,
                )
                answer = await channel.request(ApiKey.INIT_PRODUCER_ID, 4, request)
                if answer.error_code == ErrorCode.NONE:
                    self.fenced += 1
                    self.has_fenced.set()
                await asyncio.sleep(self.pause_s)


@dataclass
class Evicter:
    """Has all members out of a group, `pause_s` between two times."""

    endpoint: EndpointSettings
    group_id: str
    pause_s: float
    evicted: int = 0

    async def __call__(self) -> None:
        async with await Channel.open(self.endpoint) as channel:
            describe = types.DescribeGroupsRequest(groups=[self.group_id])
            for _ in count():
                described = await channel.request(ApiKey.DESCRIBE_GROUPS, 5, describe)
                member = types.LeaveGroupRequest.MemberIdentity
                leave = types.LeaveGroupRequest(
                    group_id=self.group_id,
                    members=[member(member_id=each.member_id) for each in described.groups[0].members],
                )
                answer = await channel.request(ApiKey.LEAVE_GROUP, 5, leave)
                self.evicted += sum(each.error_code == 0 for each in answer.members)
                await asyncio.sleep(self.pause_s)


@dataclass
class AlienMember:
    """Joins a group as told, assigns as told if it leads, and joins again when it is out."""

    endpoint: EndpointSettings
    group_id: str
    protocol_type: str
    protocol: str
    metadata: bytes
    assignment: bytes
    joined: asyncio.Event
    rebalance_timeout_ms: int = 6_000
    stalls: bool = False
    """It does not join again when the group is to decide again, and sends heartbeats all the same."""

    async def __call__(self) -> None:
        async with await Channel.open(self.endpoint) as channel:
            member_id = ""
            while True:
                member_id = await self._generation(channel, member_id)
                await asyncio.sleep(0.05)

    async def _generation(self, channel: Channel, member_id: str) -> str:
        """Until it ends; under which id to join the next."""
        request = types.JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=member_id,
            protocol_type=self.protocol_type,
            protocols=[
                types.JoinGroupRequest.JoinGroupRequestProtocol(name=self.protocol, metadata=self.metadata)
            ],
        )
        joined = await channel.request(ApiKey.JOIN_GROUP, 5, request)
        if joined.error_code != ErrorCode.NONE:
            return str(joined.member_id) if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED else ""
        assign = types.SyncGroupRequest.SyncGroupRequestAssignment
        leads = joined.leader == joined.member_id
        sync = types.SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assign(member_id=joined.member_id, assignment=self.assignment)] if leads else [],
        )
        error_code = (await channel.request(ApiKey.SYNC_GROUP, 4, sync)).error_code
        beat = types.HeartbeatRequest(
            group_id=self.group_id, generation_id=joined.generation_id, member_id=joined.member_id
        )
        going_on = [ErrorCode.NONE, *([ErrorCode.REBALANCE_IN_PROGRESS] if self.stalls else [])]
        while error_code in going_on:
            self.joined.set()
            await asyncio.sleep(0.1)
            error_code = (await channel.request(ApiKey.HEARTBEAT, 4, beat)).error_code
        return str(joined.member_id) if error_code == ErrorCode.REBALANCE_IN_PROGRESS else ""


@dataclass
class NewerMember:
    """Joins a group by the newer consumer protocol (KIP-848)."""

    endpoint: EndpointSettings
    group_id: str
    topic: str
    joined: asyncio.Event

    async def __call__(self) -> None:
        async with await Channel.open(self.endpoint) as channel:
            member_id, epoch = "", 0
            while True:
                answer = await channel.request(
                    ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, self._beat(member_id, epoch)
                )
                if answer.error_code == ErrorCode.NONE:
                    self.joined.set()
                    member_id, epoch = answer.member_id, answer.member_epoch
                else:
                    member_id, epoch = "", 0
                await asyncio.sleep(0.2)

    def _beat(self, member_id: str, epoch: int) -> Any:
        joining = epoch == 0
        return types.ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if joining else -1,
            subscribed_topic_names=[self.topic] if joining else None,
            topic_partitions=[] if joining else None,
        )
