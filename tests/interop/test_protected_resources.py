"""What stops every administrative change, tried by a user who has wide rights: nothing of it gets through.

The controller of this stack has a transactional id that its proxy's file does not name: the proxy learns it.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.net.kafka.channel import Channel
from proxy.net.runtime.clock import now_ms
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.settings import AUDIT_TOPIC, METADATA_TOPIC
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import User, channel_settings
from tests.session.conversation import fetch, produce
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import EVERYBODY_COMES_FROM_HERE
from tests.support.two_sides import allow_request
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

WRITER, IN_THE_FILE = "company-writer", "penstock-controller"
ATTACK_MS = 8_000


@pytest.fixture(scope="module")
def attacked(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(
        StackSettings(
            directory=tmp_path_factory.mktemp("attacked"),
            libs=kafka_libs,
            proxy_changes={"login.backoff": EVERYBODY_COMES_FROM_HERE},
            controller_changes={
                "metadata": {
                    "topic": METADATA_TOPIC,
                    "transactional.id": WRITER,
                    "signing.key.file": "signing.key",
                }
            },
        )
    )
    with stack.running():
        yield stack


@pytest.fixture(scope="module")
def office(attacked: Stack) -> ClusterAdmin:
    return ClusterAdmin(attacked)


@pytest.fixture(scope="module")
def bob(office: ClusterAdmin) -> User:
    """With the rights that mirrors, connectors and consoles are usually given."""
    user = office.user("bob")
    office.allow(user, "READ", "WRITE", topic="*")
    office.allow(user, "WRITE", transactional_id="*")
    office.allow(user, "READ", group="*")
    office.allow(user, "DESCRIBE", cluster=True)
    return user


async def connected(stack: Stack, user: User, client_id: str = "mirror") -> Channel:
    return await Channel.open(channel_settings(user, stack.entrance().bootstrap, client_id=client_id))


async def read(channel: Channel, topic: str) -> tuple[int, bytes]:
    """The error of its first partition, and the records."""
    answer = await channel.request(ApiKey.FETCH, 12, fetch(topic))
    (part,) = answer.responses
    return part.partitions[0].error_code, bytes(part.partitions[0].records or b"")


async def fence(channel: Channel, transactional_id: str) -> int:
    request = t.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    return int((await channel.request(ApiKey.INIT_PRODUCER_ID, 4, request)).error_code)


async def join(channel: Channel, group_id: str) -> int:
    protocol = t.JoinGroupRequest.JoinGroupRequestProtocol(name="penstock-incumbency", metadata=b"\0" * 10)
    request = t.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol],
    )
    return int((await channel.request(ApiKey.JOIN_GROUP, 5, request)).error_code)


@pytest.mark.spec("A7")
async def test_rights_on_every_topic_read_neither_the_log_nor_the_trail(attacked: Stack, bob: User) -> None:
    async with await connected(attacked, bob) as channel:
        denied = [await read(channel, topic) for topic in (METADATA_TOPIC, AUDIT_TOPIC)]
    async with await connected(attacked, attacked.users["admin"]) as channel:
        error_code, records = await read(channel, METADATA_TOPIC)

    assert denied == [(ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")] * 2
    assert error_code == ErrorCode.NONE
    assert b"bob" in records, "what a super user reads is the log with its users"


@pytest.mark.spec("A7")
async def test_an_acl_on_that_very_name_lets_the_auditor_read(attacked: Stack, office: ClusterAdmin) -> None:
    auditor = office.user("auditor")
    office.allow(auditor, "READ", topic=METADATA_TOPIC)

    async with await connected(attacked, auditor) as channel:
        codes = [(await read(channel, topic))[0] for topic in (METADATA_TOPIC, AUDIT_TOPIC)]

    assert codes == [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.spec("A7", "E12")
@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
async def test_the_client_id_of_kafkas_tools_opens_no_way_to_what_coordinators_keep(
    attacked: Stack, bob: User, topic: str
) -> None:
    async with await connected(attacked, bob, client_id="__admin_client") as channel:
        answer = await channel.request(ApiKey.PRODUCE, 9, produce(topic, acks=-1))

    codes = [part.error_code for each in answer.responses for part in each.partition_responses]
    assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.spec("A7", "E12")
async def test_an_administrators_changes_are_answered_while_a_user_attacks_the_controller(
    attacked: Stack, office: ClusterAdmin, bob: User
) -> None:
    async def attack() -> set[tuple[str, int]]:
        heard: set[tuple[str, int]] = set()
        async with await connected(attacked, bob) as channel:
            end_ms = now_ms() + ATTACK_MS
            while now_ms() < end_ms:
                for name in (WRITER, IN_THE_FILE):
                    heard.add(("fence", await fence(channel, name)))
                    heard.add(("join", await join(channel, f"{name}-election")))
                await asyncio.sleep(0.05)
        return heard

    changes = 0
    async with asyncio.TaskGroup() as tasks:
        attacking = tasks.create_task(attack())
        while not attacking.done():
            # Raises when it is not answered.
            await asyncio.to_thread(office.allow, bob, "READ", topic=f"granted-{changes}")
            changes += 1

    assert attacking.result() == {
        ("fence", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("join", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    }
    assert changes > 3


async def groups_and_writers(stack: Stack, user: User) -> tuple[set[str], set[str]]:
    async with await connected(stack, user) as channel:
        groups = await channel.request(ApiKey.LIST_GROUPS, 4, t.ListGroupsRequest())
        writers = await channel.request(ApiKey.LIST_TRANSACTIONS, 0, t.ListTransactionsRequest())
    return (
        {group.group_id for group in groups.groups},
        {state.transactional_id for state in writers.transaction_states},
    )


@pytest.mark.spec("A7")
async def test_only_a_super_user_sees_them(attacked: Stack, bob: User) -> None:
    election = f"{WRITER}-election"

    of_bob, of_admin = [await groups_and_writers(attacked, each) for each in (bob, attacked.users["admin"])]

    assert election not in of_bob[0]
    assert WRITER not in of_bob[1]
    assert election in of_admin[0]
    assert WRITER in of_admin[1]


async def asked(stack: Stack, user: User, key: ApiKey, version: int, request: Any) -> Any:
    async with await connected(stack, user) as channel:
        return await channel.request(key, version, request)


@pytest.fixture(scope="module")
def mallory(office: ClusterAdmin) -> User:
    """Who administers the cluster, but is no super user."""
    user = office.user("mallory")
    office.allow(user, "ALL", cluster=True)
    office.allow(user, "ALL", topic="*")
    return user


@pytest.mark.spec("A7", "D3")
def test_whoever_administers_the_cluster_neither_moves_nor_elects_in_our_own_topics(
    attacked: Stack, mallory: User
) -> None:
    moves = t.AlterPartitionReassignmentsRequest
    partition = moves.ReassignablePartition(partition_index=0, replicas=[77])
    topics = [moves.ReassignableTopic(name=n, partitions=[partition]) for n in (METADATA_TOPIC, AUDIT_TOPIC)]
    elections = t.ElectLeadersRequest
    named = [elections.TopicPartitions(topic=name, partitions=[0]) for name in (METADATA_TOPIC, AUDIT_TOPIC)]

    async def tried() -> tuple[Any, Any, Any]:
        return (
            await asked(attacked, mallory, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, moves(topics=topics)),
            await asked(
                attacked,
                mallory,
                ApiKey.ELECT_LEADERS,
                2,
                elections(election_type=1, topic_partitions=named),
            ),
            await asked(
                attacked, mallory, ApiKey.ELECT_LEADERS, 2, elections(election_type=1, topic_partitions=None)
            ),
        )

    moved, elected, everywhere = asyncio.run(tried())

    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [part.error_code for topic in moved.responses for part in topic.partitions] == [denied] * 2
    assert [
        part.error_code for topic in elected.replica_election_results for part in topic.partition_result
    ] == [denied] * 2
    assert everywhere.error_code == ErrorCode.NONE
    assert [part for topic in everywhere.replica_election_results for part in topic.partition_result] == []
    assert {topic.topic for topic in everywhere.replica_election_results}.isdisjoint(
        (METADATA_TOPIC, AUDIT_TOPIC)
    )


def settings_of(stack: Stack, topic: str) -> dict[str, tuple[str | None, bool]]:
    """Each setting's value in effect, and whether the topic itself has it."""
    request = t.DescribeConfigsRequest
    resource = request.DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=None)
    admin = stack.users["admin"]
    response = asyncio.run(asked(stack, admin, ApiKey.DESCRIBE_CONFIGS, 4, request(resources=[resource])))
    return {config.name: (config.value, config.config_source == 1) for config in response.results[0].configs}


DEFAULTS = {
    "log.retention.ms": "1000",
    "log.retention.bytes": "1",
    "log.roll.ms": "2000",
    "log.segment.bytes": "1048576",
    "log.cleanup.policy": "compact",
    "log.message.timestamp.type": "CreateTime",
    "message.max.bytes": "1000",
    "log.cleaner.min.compaction.lag.ms": "0",
    "log.cleaner.delete.retention.ms": "0",
    "log.index.size.max.bytes": "1024",
}


@pytest.mark.spec("D3", "A7")
def test_defaults_of_the_brokers_do_not_reach_our_own_topics(attacked: Stack, mallory: User) -> None:
    until(lambda: settings_of(attacked, AUDIT_TOPIC)["retention.ms"][1], "given settings of its own")
    until(lambda: settings_of(attacked, METADATA_TOPIC)["max.message.bytes"][1], "given settings of its own")
    before = {topic: settings_of(attacked, topic) for topic in (METADATA_TOPIC, AUDIT_TOPIC)}
    request = t.IncrementalAlterConfigsRequest

    def alter(operation: int) -> list[int]:
        configs = [
            request.AlterableConfig(name=name, config_operation=operation, value=value)
            for name, value in DEFAULTS.items()
        ]
        resource = request.AlterConfigsResource(resource_type=4, resource_name="", configs=configs)
        response = asyncio.run(
            asked(attacked, mallory, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request(resources=[resource]))
        )
        return [part.error_code for part in response.responses]

    assert alter(0) == [ErrorCode.NONE]
    try:
        until(lambda: settings_of(attacked, "__consumer_offsets")["retention.ms"][0] == "1000", "in effect")
        after = {topic: settings_of(attacked, topic) for topic in (METADATA_TOPIC, AUDIT_TOPIC)}
    finally:
        assert alter(1) == [ErrorCode.NONE]

    assert after == before


@pytest.mark.spec("E10", "D1")
async def test_a_client_with_the_proxys_principal_administers_nothing(
    attacked: Stack, office: ClusterAdmin
) -> None:
    proxy = office.user("proxy-1")
    office.allow(proxy, "ALL", cluster=True)

    async with await connected(attacked, proxy) as channel:
        response = await channel.request(ApiKey.CREATE_ACLS, 3, allow_request("orders", "eve"))

    (result,) = response.results

    assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert "proxy's principal" in (result.error_message or "")
