"""MirrorMaker 2 in a distributed Connect worker, from one cluster behind Penstock to another.

The user has the ACLs that docs/tested-with.md lists, at either cluster, and no others.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition

from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import User, java_properties, librdkafka_settings
from tests.lab.neighbours.connect import GROUP, TOPICS, Worker
from tests.support.cluster_admin import TIMEOUT_S, ClusterAdmin, admin, done

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]

WITHIN_S = 120
RECORDS = [f"order-{number}".encode() for number in range(200)]
RETENTION = "123456789"
ACLS = "User:bob:READ:allow"
FROM, TO = "west", "east"


@pytest.fixture(scope="module")
def clusters(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Stack]]:
    directory = tmp_path_factory.mktemp("neighbours")
    stacks = {name: Stack(StackSettings(directory=directory / name, libs=kafka_libs)) for name in (FROM, TO)}
    try:
        at_once([stack.start for stack in stacks.values()])
        yield stacks
    finally:
        assert [name for stack in stacks.values() for name in stack.stop()] == []


@pytest.fixture(scope="module")
def mirror(clusters: dict[str, Stack]) -> dict[str, User]:
    """The user of MirrorMaker at either cluster, with the ACLs of docs/tested-with.md."""
    west, east = (ClusterAdmin(clusters[name]) for name in (FROM, TO))
    users = {FROM: west.user("mirror"), TO: east.user("mirror")}
    west.allow(users[FROM], "READ", "DESCRIBE_CONFIGS", topic="orders")
    west.allow(users[FROM], "DESCRIBE", group="shop")
    east.allow(users[TO], "CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS", topic="connect-", prefixed=True)
    east.allow(users[TO], "READ", group=GROUP)
    for topic, prefixed in ((f"{FROM}.", True), ("mm2-offset-syncs.", True), ("heartbeats", False)):
        east.allow(
            users[TO],
            *("CREATE", "READ", "WRITE", "ALTER", "ALTER_CONFIGS", "DESCRIBE_CONFIGS"),
            topic=topic,
            prefixed=prefixed,
        )
    east.allow(users[TO], "READ", group="shop")
    return users


def until(holds: Callable[[], bool], what: Callable[[], object]) -> None:
    for _ in range(WITHIN_S * 2):
        if holds():
            return
        Event().wait(0.5)
    raise AssertionError(what())


def connector(clusters: dict[str, Stack], mirror: dict[str, User], name: str) -> dict[str, str]:
    """One of MirrorMaker's connectors, by what its class is called."""
    logins = {
        f"{side}.cluster.{line.partition('=')[0]}": line.partition("=")[2]
        for side, cluster in (("source", FROM), ("target", TO))
        for line in java_properties(mirror[cluster], clusters[cluster].entrance()).splitlines()
    }
    return {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{name}Connector",
        "tasks.max": "1",
        "source.cluster.alias": FROM,
        "target.cluster.alias": TO,
        "source.cluster.bootstrap.servers": clusters[FROM].entrance().bootstrap,
        "target.cluster.bootstrap.servers": clusters[TO].entrance().bootstrap,
        **logins,
        "topics": "orders",
        "groups": "shop",
        "offset-syncs.topic.location": "target",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "sync.group.offsets.enabled": "true",
        "refresh.topics.interval.seconds": "2",
        "refresh.groups.interval.seconds": "2",
        "sync.topic.configs.interval.seconds": "2",
        "emit.checkpoints.interval.seconds": "2",
        "sync.group.offsets.interval.seconds": "2",
        "offset.lag.max": "0",
    }


@pytest.fixture(scope="module")
def mirrored(
    clusters: dict[str, Stack], mirror: dict[str, User], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    """Records, a topic config and committed offsets at the first cluster, and MirrorMaker at work."""
    west = ClusterAdmin(clusters[FROM])
    configs = {"retention.ms": RETENTION, "owner": "User:olga", "acls": ACLS}
    done(west.client.create_topics([admin.NewTopic("orders", 1, 1, config=configs)]))
    at_west = librdkafka_settings(clusters[FROM].users["admin"], clusters[FROM].entrance())
    producer = Producer(at_west)
    for record in RECORDS:
        producer.produce("orders", record)
    assert producer.flush(TIMEOUT_S) == 0
    reader = Consumer(at_west | {"group.id": "shop", "enable.auto.commit": False})
    reader.commit(offsets=[TopicPartition("orders", 0, 150)], asynchronous=False)
    reader.close()
    login = java_properties(mirror[TO], clusters[TO].entrance())
    worker = Worker(tmp_path_factory.mktemp("connect"), login, clusters[TO].entrance().bootstrap)
    with ExitStack() as down:
        down.callback(worker.process.stop)
        worker.start()
        for name in ("Source", "Checkpoint", "Heartbeat"):
            worker.put(name, connector(clusters, mirror, name))
        yield worker


@pytest.mark.spec("O11")
def test_records_are_copied_by_mirror_maker_byte_for_byte(
    clusters: dict[str, Stack], mirrored: Worker
) -> None:
    login = librdkafka_settings(clusters[TO].users["admin"], clusters[TO].entrance())
    consumer = Consumer(login | {"group.id": "looks", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(f"{FROM}.orders", 0, 0)])
    taken: list[bytes] = []

    def all_taken() -> bool:
        messages = consumer.consume(500, timeout=0.5)
        taken.extend(message.value() or b"" for message in messages if message.error() is None)
        return len(taken) >= len(RECORDS)

    try:
        until(all_taken, lambda: f"{len(taken)} records; {mirrored.process.log_text()[-3000:]}")
    finally:
        consumer.close()

    assert taken == RECORDS


@pytest.mark.spec("O11")
def test_topic_configs_are_copied_without_those_of_penstock(
    clusters: dict[str, Stack], mirrored: Worker
) -> None:
    at_east = ClusterAdmin(clusters[TO]).client
    resource = admin.ConfigResource(admin.ResourceType.TOPIC, f"{FROM}.orders")

    def configs() -> dict[str, str]:
        try:
            (described,) = at_east.describe_configs([resource]).values()
            return {name: entry.value for name, entry in described.result(TIMEOUT_S).items()}
        except KafkaException:
            return {}

    until(lambda: configs().get("retention.ms") == RETENTION, lambda: mirrored.process.log_text()[-3000:])

    assert {"owner", "acls"}.isdisjoint(configs())


@pytest.mark.spec("O11")
def test_the_offsets_of_groups_are_copied(clusters: dict[str, Stack], mirrored: Worker) -> None:
    at_east = ClusterAdmin(clusters[TO]).client
    found: list[int] = []

    def committed() -> bool:
        wanted = [ConsumerGroupTopicPartitions("shop", [TopicPartition(f"{FROM}.orders", 0)])]
        (listed,) = at_east.list_consumer_group_offsets(wanted).values()
        found[:] = [each.offset for each in listed.result(TIMEOUT_S).topic_partitions]
        return found[0] > 0

    until(committed, lambda: f"{found}; {mirrored.process.log_text()[-3000:]}")

    # MirrorMaker commits what it knows an offset of: never one that the group has not read.
    assert 0 < found[0] <= 150


@pytest.mark.spec("O11", "A7")
def test_a_worker_and_its_connectors_run_without_a_denial(
    clusters: dict[str, Stack], mirrored: Worker
) -> None:
    def running() -> list[str]:
        status = [
            mirrored.get(f"/connectors/{name}/status") for name in ("Source", "Checkpoint", "Heartbeat")
        ]
        return [task["state"] for each in status if each for task in [each["connector"], *each["tasks"]]]

    until(lambda: running() == ["RUNNING"] * 6, running)
    topics = ClusterAdmin(clusters[TO]).client.list_topics(timeout=TIMEOUT_S).topics

    assert {*TOPICS, f"{FROM}.orders", f"{FROM}.checkpoints.internal", "heartbeats"} <= topics.keys()
    assert "AuthorizationException" not in mirrored.process.log_text()


@pytest.mark.spec("O11")
def test_a_lag_exporter_reads_all_groups_with_describe(clusters: dict[str, Stack], mirrored: Worker) -> None:
    west = ClusterAdmin(clusters[FROM])
    exporter = west.user("lag-exporter")
    west.allow(exporter, "DESCRIBE", group="*")
    west.allow(exporter, "DESCRIBE", topic="*")

    run = clusters[FROM].tools("lag-exporter").run("kafka-consumer-groups", "--describe", "--all-groups")

    assert run.returncode == 0, run.said
    assert "shop orders 0 150 200 50" in " ".join(run.stdout.split()), run.said
