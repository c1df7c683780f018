"""Members of groups that speak the wire protocol, from an address of their own."""

import asyncio
from typing import Any

from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.hostile.client import Client

HOST = "127.0.0.5"
"""Where they connect from."""
_TRIES, _PAUSE_S = 100, 0.2
_NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


async def join_classic(client: Client, group: str, topic: str) -> str:
    """Return the member id; `topic` is not read."""
    join = t.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[t.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    # The first response assigns the member id, with which the client joins (KIP-394).
    join.member_id = (await _once_there_is_a_coordinator(client, ApiKey.JOIN_GROUP, 5, join)).member_id
    joined = await client.ask(ApiKey.JOIN_GROUP, 5, join)
    sync = t.SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[]
    )
    assert (await client.ask(ApiKey.SYNC_GROUP, 3, sync)).error_code == ErrorCode.NONE
    return str(joined.member_id)


async def join_consumer_group(client: Client, group: str, topic: str) -> str:
    """The same for a group of KIP-848."""
    join = t.ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="AAAAAAAAAAAAAAAAAAAAAA",
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    joined = await _once_there_is_a_coordinator(client, ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, join)
    assert joined.error_code == ErrorCode.NONE
    return str(joined.member_id)


async def _once_there_is_a_coordinator(client: Client, key: ApiKey, version: int, request: Any) -> Any:
    finder = t.FindCoordinatorRequest(key=request.group_id, key_type=0)
    for _ in range(_TRIES):
        await client.ask(ApiKey.FIND_COORDINATOR, 2, finder)
        response = await client.ask(key, version, request)
        if response.error_code not in _NOT_YET:
            return response
        await asyncio.sleep(_PAUSE_S)
    raise TimeoutError(f"no coordinator of the group: {response.error_code}")
