"""The hosts of group members, as Kafka's tools print them: those of the clients, not the proxy's."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.release import Feature
from tests.lab.cluster.users import User
from tests.lab.hostile.client import Client
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("A7")]

HOST = "127.0.0.5"
_TRIES, _PAUSE_S = 100, 0.2
_NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


async def _join_classic(client: Client, group: str, topic: str) -> str:
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


async def _join_consumer_group(client: Client, group: str, topic: str) -> str:
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


@pytest.mark.parametrize(
    "join",
    [
        pytest.param(_join_classic, id="classic"),
        pytest.param(_join_consumer_group, id="consumer", marks=pytest.mark.needs(Feature.CONSUMER_GROUPS)),
    ],
)
def test_the_tools_print_the_address_of_a_members_client(
    join: Callable[[Client, str, str], Awaitable[str]],
    gate: Gate,
    cluster_admin: ClusterAdmin,
    alice: User,
    topic: str,
) -> None:
    group = topic
    cluster_admin.allow_consume(alice, topic, group)

    async def describe_a_member() -> tuple[str, str]:
        async with await Client.logged_in(gate.entrance().bootstrap, alice, HOST) as client:
            member_id = await join(client, group, topic)
            tools = gate.tools("admin")
            run = await asyncio.to_thread(
                tools.run, "kafka-consumer-groups", "--describe", "--group", group, "--members"
            )
            return member_id, run.said

    member_id, said = asyncio.run(describe_a_member())

    members = [line.split() for line in said.splitlines() if member_id in line]
    assert [line[2] for line in members] == [f"/{HOST}"], said
