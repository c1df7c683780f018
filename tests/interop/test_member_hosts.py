"""The hosts of group members, as Kafka's tools print them: those of the clients, not the proxy's."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.lab.cluster.release import Feature
from tests.lab.cluster.users import User
from tests.lab.hostile.client import Client
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import Gate
from tests.support.group_members import HOST, join_classic, join_consumer_group

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("A7")]


@pytest.mark.parametrize(
    "join",
    [
        pytest.param(join_classic, id="classic"),
        pytest.param(join_consumer_group, id="consumer", marks=pytest.mark.needs(Feature.CONSUMER_GROUPS)),
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
