"""Three brokers with a proxy before each: clients find every broker by its own proxy, and never past it.

Twice, where it matters how addresses are told: by proxies that rewrite them, and by proxies that keep what
brokers advertise.
"""

import asyncio
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Message, Producer

from proxy.net.kafka.channel import Channel, EndpointSettings
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.release import Feature
from tests.lab.cluster.users import User, aiokafka_settings, librdkafka_settings
from tests.lab.rolling.clients import KINDS
from tests.lab.rolling.running import Rolling
from tests.support.acl_filters import describe_acls
from tests.support.cluster_admin import ClusterAdmin, admin
from tests.support.steady_clients import SteadyClients
from tests.support.three_brokers import (
    KEEPING,
    REWRITING,
    ThreeBrokers,
    carol,
    replicated_topic,
    three,
    three_admin,
)
from tests.support.topic_requests import metadata_of
from tests.support.two_sides import allow_request, limit_request

__all__ = ["carol", "three", "three_admin"]

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]

TIMEOUT_S = 60
PARTITIONS = range(6)
ONE_REPLICA = {"min.insync.replicas": "1"}
"""Brokers before 4.0 accept nothing for a topic that has fewer replicas than that."""


def steady_clients(three: ThreeBrokers, user: User, topic: str) -> SteadyClients:
    login = librdkafka_settings(user, three.entrance(REWRITING, 1))
    return SteadyClients(login, topic, group=f"all-{topic}", partitions=len(PARTITIONS))


async def asked(endpoint: EndpointSettings, key: ApiKey, request: Any) -> Any:
    async with await Channel.open(endpoint) as channel:
        versions = codecs.request_versions(key)
        return await channel.request(key, channel.version(key, (versions[0], versions[-1])), request)


def ports_in(message: Any) -> set[int]:
    """Every port that stands anywhere in an answer."""
    if isinstance(message, list):
        return set().union(*map(ports_in, message))
    if not hasattr(message, "unknown_tags"):
        return set()
    fields = {name: getattr(message, name) for name in type(message).__slots__}
    own = {fields["port"]} if fields.get("port", -1) > 0 else set()
    return own.union(*map(ports_in, fields.values()))


QUORUM = t.DescribeQuorumRequest(
    topics=[
        t.DescribeQuorumRequest.TopicData(
            topic_name="__cluster_metadata",
            partitions=[t.DescribeQuorumRequest.PartitionData(partition_index=0)],
        )
    ]
)


async def coordinators_of(three: ThreeBrokers, endpoint: EndpointSettings, keys: list[str]) -> list[Any]:
    """What is told of the coordinators of all keys: node id, host and port."""
    request = t.FindCoordinatorRequest
    if three.stack.release.has(Feature.COORDINATOR_KEYS):
        found = await asked(endpoint, ApiKey.FIND_COORDINATOR, request(coordinator_keys=keys))
        return list(found.coordinators)
    return [await asked(endpoint, ApiKey.FIND_COORDINATOR, request(key=key)) for key in keys]


@pytest.mark.spec("O1")
@pytest.mark.parametrize("proxies", [REWRITING, KEEPING])
async def test_each_proxy_tells_of_all_proxies_and_of_no_broker(
    three: ThreeBrokers, three_admin: ClusterAdmin, proxies: str
) -> None:
    root, has_nodes = three.stack.users["admin"], three.stack.release.has(Feature.QUORUM_NODES)
    entrances = {
        node: (at.rpartition(":")[0], int(at.rpartition(":")[2]))
        for node, at in three.entrances(proxies).items()
    }
    keys = [f"group-{number}" for number in range(20)]
    told: set[int] = set()
    controllers: set[int] = set()
    coordinators: set[int] = set()

    for number in entrances:
        endpoint = three.endpoint(root, proxies, number)
        metadata = await asked(endpoint, ApiKey.METADATA, t.MetadataRequest(topics=None))
        cluster = await asked(endpoint, ApiKey.DESCRIBE_CLUSTER, t.DescribeClusterRequest())
        found = await coordinators_of(three, endpoint, keys)
        quorum: Any = await asked(endpoint, ApiKey.DESCRIBE_QUORUM, QUORUM) if has_nodes else None
        assert {node.node_id: (node.host, node.port) for node in metadata.brokers} == entrances
        assert {node.broker_id: (node.host, node.port) for node in cluster.brokers} == entrances
        assert {(each.node_id, each.host, each.port) for each in found} <= {
            (node, *at) for node, at in entrances.items()
        }
        assert not has_nodes or sorted(node.node_id for node in quorum.nodes) == [1, 2, 3]
        coordinators |= {each.node_id for each in found}
        told |= ports_in(metadata) | ports_in(cluster) | ports_in(found)
        controllers |= ports_in(quorum)

    assert coordinators == {1, 2, 3}
    assert told == {port for _, port in entrances.values()}
    assert told.isdisjoint(three.broker_ports())
    # Clients print the addresses of controllers, which have no proxies.
    assert controllers == (three.controller_ports() if has_nodes else set())


@pytest.mark.spec("O1", "A7")
@pytest.mark.parametrize("proxies", [REWRITING, KEEPING])
def test_librdkafka_reaches_every_partition_through_its_leaders_proxy(
    three: ThreeBrokers, three_admin: ClusterAdmin, carol: User, proxies: str
) -> None:
    topic = replicated_topic(three_admin, f"all-librdkafka-{proxies}")
    before = three.requests(proxies, "Produce"), three.requests(proxies, "Fetch")

    sent = _send_to_all(three, carol, topic, proxies)
    taken = _take(three, carol, topic, proxies, len(sent))

    assert taken == sent
    for earlier, now in zip(
        before, (three.requests(proxies, "Produce"), three.requests(proxies, "Fetch")), strict=True
    ):
        assert [node for node in now if now[node] <= earlier[node]] == []


def _send_to_all(three: ThreeBrokers, user: User, topic: str, proxies: str) -> Counter[bytes]:
    """By way of the first proxy, to each partition a hundred."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(librdkafka_settings(user, three.entrance(proxies, 1)) | {"enable.idempotence": True})
    values = [(partition, b"%d-%d" % (partition, n)) for partition in PARTITIONS for n in range(100)]
    for partition, value in values:
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    assert failures == []
    return Counter(value for _, value in values)


def _take(three: ThreeBrokers, user: User, topic: str, proxies: str, count: int) -> Counter[bytes]:
    """By way of the third proxy, as a group of one."""
    consumer = Consumer(
        librdkafka_settings(user, three.entrance(proxies, 3))
        | {"group.id": f"all-{topic}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    taken: Counter[bytes] = Counter()
    try:
        while taken.total() < count:
            messages = consumer.consume(count, timeout=10)
            assert messages, f"{taken.total()} of {count} records came"
            taken.update(message.value() or b"" for message in messages if message.error() is None)
    finally:
        consumer.close()
    return taken


@pytest.mark.spec("O1", "A7")
@pytest.mark.parametrize("proxies", [REWRITING, KEEPING])
async def test_aiokafka_reaches_every_partition_from_any_proxy(
    three: ThreeBrokers, three_admin: ClusterAdmin, carol: User, proxies: str
) -> None:
    topic = replicated_topic(three_admin, f"all-aiokafka-{proxies}")
    values = [b"%d" % number for number in range(60)]
    taken: list[bytes] = []

    async with asyncio.timeout(TIMEOUT_S):
        async with AIOKafkaProducer(**aiokafka_settings(carol, three.entrance(proxies, 2))) as producer:
            for number, value in enumerate(values):
                await producer.send_and_wait(topic, value, partition=number % 6)
        login = aiokafka_settings(carol, three.entrance(proxies, 3))
        async with AIOKafkaConsumer(
            topic, **login, group_id="all-aiokafka", auto_offset_reset="earliest"
        ) as consumer:
            while len(taken) < len(values):
                taken.append((await consumer.getone()).value)

    assert sorted(taken) == sorted(values)


@pytest.mark.spec("O1", "S8")
def test_kafkas_tools_find_all_brokers_from_the_second_proxy(
    three: ThreeBrokers, three_admin: ClusterAdmin
) -> None:
    topic = replicated_topic(three_admin, "all-tools")
    tools = three.stack.tools("admin", number=2)

    described = tools.run("kafka-topics", "--describe", "--topic", topic)
    offsets = tools.run("kafka-get-offsets", "--topic", topic)

    leaders = Counter(
        line.split("Leader: ")[1][0] for line in described.stdout.splitlines() if "Leader" in line
    )
    assert leaders == {"1": 2, "2": 2, "3": 2}, described.said
    assert sorted(offsets.stdout.split()) == [f"{topic}:{partition}:0" for partition in PARTITIONS], (
        offsets.said
    )


@pytest.mark.spec("S3", "E13", "Q4")
async def test_an_acl_and_a_quota_set_at_one_proxy_are_in_force_at_all_within_a_second(
    three: ThreeBrokers, three_admin: ClusterAdmin
) -> None:
    alice = three_admin.user("alice")
    topic = replicated_topic(three_admin, "all-of-alice")
    root = three.stack.users["admin"]
    wanted = metadata_of(topic)
    # Every proxy knows the user by now: what is measured is the ACL.
    assert await _metadata_error(three, alice, 3, wanted) == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    first = three.endpoint(root, REWRITING, 1)
    created = await asked(first, ApiKey.CREATE_ACLS, allow_request(topic, "alice"))
    altered = await asked(first, ApiKey.ALTER_CLIENT_QUOTAS, limit_request("alice", 12345.0))
    assert (created.results[0].error_code, altered.entries[0].error_code) == (0, 0)

    async def allowed() -> bool:
        return await _metadata_error(three, alice, 3, wanted) == ErrorCode.NONE

    async def alike() -> bool:
        views = [await _acls_and_quotas(three, root, number) for number in (1, 2, 3)]
        return views[1:] == views[:-1]

    assert await _within_a_second(allowed)
    assert await _within_a_second(alike)
    acls, quotas = await _acls_and_quotas(three, root, 3)
    assert "all-of-alice" in acls
    assert "12345.0" in quotas


async def _within_a_second(holds: Callable[[], Awaitable[bool]]) -> bool:
    """Asked every 50 ms; what the asking itself takes is not counted."""
    for _ in range(20):
        if await holds():
            return True
        await asyncio.sleep(0.05)
    return False


async def _metadata_error(three: ThreeBrokers, user: User, number: int, request: Any) -> int:
    answer = await asked(three.endpoint(user, REWRITING, number), ApiKey.METADATA, request)
    return int(answer.topics[0].error_code)


async def _acls_and_quotas(three: ThreeBrokers, root: User, number: int) -> tuple[str, str]:
    endpoint = three.endpoint(root, REWRITING, number)
    acls = await asked(endpoint, ApiKey.DESCRIBE_ACLS, describe_acls())
    quotas = await asked(endpoint, ApiKey.DESCRIBE_CLIENT_QUOTAS, t.DescribeClientQuotasRequest())
    return str(sorted(map(repr, acls.resources))), repr(quotas.entries)


@pytest.mark.spec("O1", "E2")
async def test_clients_follow_a_leader_that_was_moved_through_a_proxy(
    three: ThreeBrokers, three_admin: ClusterAdmin, carol: User
) -> None:
    topic = replicated_topic(three_admin, "all-moved")
    clients = steady_clients(three, carol, topic)
    endpoint = three.endpoint(three.stack.users["admin"], REWRITING, 2)
    leader = await _leader(endpoint, topic, {1, 2, 3})
    others = [node for node in (1, 2, 3) if node != leader]

    with clients.at_work():
        reassignment = t.AlterPartitionReassignmentsRequest
        partition = reassignment.ReassignablePartition(partition_index=0, replicas=[*others, leader])
        moved = await asked(
            endpoint,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            reassignment(topics=[reassignment.ReassignableTopic(name=topic, partitions=[partition])]),
        )
        election = t.ElectLeadersRequest
        elected = await asked(
            endpoint,
            ApiKey.ELECT_LEADERS,
            election(topic_partitions=[election.TopicPartitions(topic=topic, partitions=[0])]),
        )
        now = await _leader(endpoint, topic, set(others[:1]))
        await asyncio.to_thread(clients.wait_for_progress)

    assert (moved.error_code, elected.error_code) == (0, 0), (moved, elected)
    assert now == others[0]
    assert clients.refused == []
    assert set(clients.acknowledged) <= set(clients.read)


async def _leader(endpoint: EndpointSettings, topic: str, nodes: set[int]) -> int:
    """Of its first partition, once it is one of the nodes: with ZooKeeper brokers are told a moment later."""
    for _ in range(TIMEOUT_S * 20):
        answer = await asked(endpoint, ApiKey.METADATA, metadata_of(topic))
        (leader,) = [p.leader_id for p in answer.topics[0].partitions if p.partition_index == 0] or [-1]
        if leader in nodes:
            return int(leader)
        await asyncio.sleep(0.05)
    raise AssertionError(f"the leader is {leader}")


@pytest.mark.spec("A7", "O4")
def test_a_fresh_java_producer_has_no_batch_rejected_at_any_proxy(
    three: ThreeBrokers, three_admin: ClusterAdmin, carol: User
) -> None:
    topic = replicated_topic(three_admin, "all-fresh")

    # No retries: what is rejected is lost. Far more than one batch for each of the six partitions.
    load = ["--topic", topic, "--num-records", "3000", "--record-size", "2000", "--throughput", "-1"]
    run = three.stack.tools(carol.name).run(
        "kafka-producer-perf-test", *load, "--command-property", "retries=0", "enable.idempotence=false"
    )

    assert run.returncode == 0, run.said
    assert "3000 records sent" in run.stdout, run.said
    assert [line for line in run.said.splitlines() if "WARN" in line or "UNKNOWN" in line] == []
    assert _taken_records(three, topic) == 3000
    # Its Metadata came through one proxy: the others had to look the topic up.
    for node in three.stack.nodes:
        assert node.metrics()["penstock_topic_ids_unknown_total"] == 0


def _taken_records(three: ThreeBrokers, topic: str) -> int:
    offsets = three.stack.tools("admin").run("kafka-get-offsets", "--topic", topic)
    return sum(int(line.rpartition(":")[2]) for line in offsets.stdout.split())


@pytest.mark.spec("A7", "O4")
def test_a_java_consumer_goes_on_after_the_proxy_that_it_fetches_from_was_restarted(
    three: ThreeBrokers, three_admin: ClusterAdmin, carol: User, tmp_path: Path
) -> None:
    topic, node = "all-restarted", three.stack.nodes[0]
    new_topic = admin.NewTopic(
        topic, num_partitions=1, replica_assignment=[[node.number]], config=ONE_REPLICA
    )
    for future in three_admin.client.create_topics([new_topic]).values():
        future.result(TIMEOUT_S)
    # Past the proxies, so that nobody but the consumer could tell them of the topic.
    producer = Producer({"bootstrap.servers": node.broker.plaintext})
    command = three.stack.tools(carol.name, number=2).command(
        "kafka-console-consumer", "--topic", topic, "--group", topic, "--from-beginning"
    )
    taken, said = tmp_path / "taken", tmp_path / "said"

    with ExitStack() as down:
        stdout, stderr = down.enter_context(taken.open("w")), down.enter_context(said.open("w"))
        consumer = down.enter_context(subprocess.Popen(command, stdout=stdout, stderr=stderr))
        down.callback(consumer.kill)
        _sent(producer, topic, b"before")
        _until_it_has(consumer, taken, "before", said)
        assert node.proxy.stop()
        node.start_proxy()
        _sent(producer, topic, b"after")
        _until_it_has(consumer, taken, "after", said)

    metrics = node.metrics()
    assert "nknown topic" not in said.read_text(), said.read_text()
    assert metrics["penstock_topic_lookups_total"] >= int(three.stack.release.has(Feature.TOPIC_IDS))
    assert metrics["penstock_topic_ids_unknown_total"] == 0
    # Each waits for half a second at the broker; a client in a loop sends thousands a second.
    assert metrics['penstock_requests_total{api="Fetch",listener="SASL_PLAINTEXT"}'] < 500


def _sent(producer: Producer, topic: str, value: bytes) -> None:
    producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0


def _until_it_has(consumer: subprocess.Popen[bytes], taken: Path, line: str, said: Path) -> None:
    for _ in range(TIMEOUT_S * 10):
        if line in taken.read_text().splitlines():
            return
        with suppress(subprocess.TimeoutExpired):
            consumer.wait(0.1)
            raise AssertionError(f"the consumer has ended: {said.read_text()}")
    raise AssertionError(f"{line} has not come: {said.read_text()[-5_000:]}")


@pytest.mark.spec("O1", "O4")
def test_clients_go_on_while_a_proxy_and_then_a_broker_are_killed_and_started_again(
    three: ThreeBrokers, three_admin: ClusterAdmin, carol: User
) -> None:
    topic = replicated_topic(three_admin, "all-killed")
    clients = steady_clients(three, carol, topic)
    _, second, third = three.stack.nodes

    with clients.at_work():
        second.proxy.kill()
        second.start_proxy()
        clients.wait_for_progress()
        third.broker.process.kill()
        clients.wait_for_progress()
        third.broker.start()
        clients.wait_for_progress()

    assert clients.refused == []
    assert set(clients.acknowledged) <= set(clients.read)


@pytest.mark.spec("O4", "O1")
def test_a_proxy_that_restarts_costs_clients_a_reconnect_and_nothing_else(
    three: ThreeBrokers, three_admin: ClusterAdmin
) -> None:
    """The short form of `make rolling`."""
    told: list[str] = []
    rolling = Rolling(three.stack, three_admin, KINDS, told.append)

    rolling.play([rolling.proxy(three.stack.nodes[1])])

    assert rolling.faults == [], "\n".join(told)
