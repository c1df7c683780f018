"""Nodes of a schema registry: a compacted topic, and a leader elected by the group protocol (registry)."""

import asyncio

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.users import User, channel_settings, librdkafka_settings
from tests.lab.neighbours.registry import GROUP, Node
from tests.support.cluster_admin import TIMEOUT_S, ClusterAdmin, admin, done
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]

TOPIC = "_schemas"
_HEARTBEAT_S, _HEARTBEATS = 0.1, 10 * TIMEOUT_S
SCHEMAS = {b'{"subject":"orders","version":1}': b'"string"', b'{"subject":"orders","version":2}': b'"long"'}


@pytest.fixture(scope="module")
def registry(gate: Gate, cluster_admin: ClusterAdmin) -> User:
    """The registry's user, with the ACLs of docs/tested-with.md; it has created its topic."""
    user = cluster_admin.user("registry")
    cluster_admin.allow(user, "CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS", topic=TOPIC)
    cluster_admin.allow(user, "READ", group=GROUP)
    client = admin.AdminClient(librdkafka_settings(user, gate.entrance()))
    done(client.create_topics([admin.NewTopic(TOPIC, 1, 1, config={"cleanup.policy": "compact"})]))
    return user


async def rejoined(node: Node) -> None:
    """Join again as soon as a heartbeat says that a member has come or gone."""
    for _ in range(_HEARTBEATS):
        if await node.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS:
            break
        await asyncio.sleep(_HEARTBEAT_S)
    assert await node.settle() == ErrorCode.NONE


@pytest.mark.spec("O11", "A7")
async def test_nodes_elect_a_primary_and_another_one_when_it_leaves(gate: Gate, registry: User) -> None:
    endpoint = channel_settings(registry, gate.entrance().bootstrap)
    one, two = [await Node.open(endpoint, f"http://registry-{number}:8081") for number in (1, 2)]
    try:
        async with asyncio.timeout(TIMEOUT_S):
            assert (await two.settle(), two.primary) == (ErrorCode.NONE, two.url)
            async with asyncio.TaskGroup() as tasks:
                joining = tasks.create_task(one.settle())
                await rejoined(two)
            assert joining.result() == ErrorCode.NONE
            assert (one.primary, two.primary) == (one.url, one.url)
            assert [await node.heartbeat() for node in (one, two)] == [ErrorCode.NONE] * 2

            assert await one.leave() == ErrorCode.NONE

            await rejoined(two)
            assert two.primary == two.url
    finally:
        await asyncio.gather(one.close(), two.close())


@pytest.mark.spec("O11", "A7")
def test_what_a_node_writes_another_reads_from_the_beginning(gate: Gate, registry: User) -> None:
    login = librdkafka_settings(registry, gate.entrance())
    client = admin.AdminClient(login)
    (described,) = client.describe_configs([admin.ConfigResource(admin.ResourceType.TOPIC, TOPIC)]).values()
    assert described.result(TIMEOUT_S)["cleanup.policy"].value == "compact"
    producer = Producer(login | {"acks": "all", "enable.idempotence": True})
    for key, value in SCHEMAS.items():
        producer.produce(TOPIC, value, key=key, partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    reader = Consumer(login | {"group.id": GROUP, "enable.auto.commit": False})
    reader.assign([TopicPartition(TOPIC, 0, 0)])
    try:
        messages = reader.consume(len(SCHEMAS), timeout=TIMEOUT_S)
    finally:
        reader.close()

    assert {message.key(): message.value() for message in messages} == SCHEMAS


@pytest.mark.spec("O11", "A7")
async def test_a_node_without_read_on_the_group_does_not_join(
    gate: Gate, cluster_admin: ClusterAdmin
) -> None:
    stranger = cluster_admin.user("no-registry")
    cluster_admin.allow(stranger, "DESCRIBE", group=GROUP)
    node = await Node.open(channel_settings(stranger, gate.entrance().bootstrap), "http://stranger:8081")
    try:
        assert await node.settle() == ErrorCode.GROUP_AUTHORIZATION_FAILED
    finally:
        await node.close()
