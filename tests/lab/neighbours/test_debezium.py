"""Debezium's connector for PostgreSQL in a Connect worker, with the ACLs that docs/tested-with.md lists."""

import json
from collections.abc import Iterator
from threading import Event

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.lab.cluster import kafka
from tests.lab.cluster.users import User, java_properties, librdkafka_settings
from tests.lab.neighbours.connect import GROUP, Worker
from tests.lab.neighbours.postgres import DATABASE, USER, Postgres, postgres
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("O11", "A7")]

DEBEZIUM = "3.4.3.Final"
WITHIN_S = 90
RIGHTS = {"CREATE", "WRITE"}
"""On the connector's topics."""
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as server:
        server.run("CREATE TABLE orders (id int PRIMARY KEY, article text)")
        server.run("INSERT INTO orders VALUES (1, 'before')")
        yield server


@pytest.fixture(scope="module")
def debezium(cluster_admin: ClusterAdmin) -> User:
    """With the ACLs of a Connect worker, but none on the connector's topics."""
    user = cluster_admin.user("debezium")
    cluster_admin.allow(user, "CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS", topic="connect-", prefixed=True)
    cluster_admin.allow(user, "READ", group=GROUP)
    return user


@pytest.fixture(scope="module")
def worker(
    gate: Gate, debezium: User, database: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    login, bootstrap = java_properties(debezium, gate.entrance()), gate.entrance().bootstrap
    plugin = kafka.libs(DEBEZIUM, what="debezium")
    worker = Worker(tmp_path_factory.mktemp("debezium"), login, bootstrap, plugin)
    try:
        worker.start()
        yield worker
    finally:
        worker.process.stop()


def connector(database: Postgres, prefix: str) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": USER,
        "database.dbname": DATABASE,
        "plugin.name": "pgoutput",
        "slot.name": prefix,
        "publication.name": prefix,
        "topic.prefix": prefix,
        "table.include.list": "public.orders",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
        **{
            f"{part}.converter{setting}": value
            for part in ("key", "value")
            for setting, value in (("", JSON), (".schemas.enable", "false"))
        },
    }


def changes(gate: Gate, topic: str, count: int) -> list[tuple[str, str]]:
    """Operation and article of the first changes in the topic, as many as there are after WITHIN_S."""
    login = librdkafka_settings(gate.users["admin"], gate.entrance())
    consumer = Consumer(login | {"group.id": "looks", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[str, str]] = []
    try:
        for _ in range(WITHIN_S * 2):
            for message in consumer.consume(10, timeout=0.5):
                # The topic may still have to be created.
                if message.error() is None:
                    change = json.loads(message.value() or b"")
                    found.append((change["op"], change["after"]["article"]))
            if len(found) >= count:
                break
    finally:
        consumer.close()
    return found


def failure(worker: Worker, name: str) -> str:
    """Why the connector's task has failed; empty if it has not after WITHIN_S."""
    for _ in range(WITHIN_S * 2):
        status = worker.get(f"/connectors/{name}/status")
        if status and (failed := [task for task in status["tasks"] if task["state"] == "FAILED"]):
            return str(failed[0]["trace"])
        Event().wait(0.5)
    return ""


def test_a_row_is_in_its_topic_once_it_is_in_the_table(
    gate: Gate, cluster_admin: ClusterAdmin, debezium: User, database: Postgres, worker: Worker
) -> None:
    cluster_admin.allow(debezium, *RIGHTS, topic="shop", prefixed=True)

    worker.put("shop", connector(database, "shop"))
    before = changes(gate, "shop.public.orders", 1)
    database.run("INSERT INTO orders VALUES (2, 'after')")

    assert before == [("r", "before")], worker.process.log_text()[-3000:]
    assert changes(gate, "shop.public.orders", 2) == [*before, ("c", "after")], worker.process.log_text()[
        -3000:
    ]
    assert "AuthorizationException" not in worker.process.log_text()


@pytest.mark.parametrize(
    ("missing", "cause"),
    [("CREATE", "Task failed to create new topic"), ("WRITE", "AuthorizationException")],
)
def test_the_connector_fails_with_one_right_less(
    cluster_admin: ClusterAdmin, debezium: User, database: Postgres, worker: Worker, missing: str, cause: str
) -> None:
    prefix = f"without_{missing.lower()}"
    cluster_admin.allow(debezium, *RIGHTS - {missing}, topic=prefix, prefixed=True)

    worker.put(prefix, connector(database, prefix))

    assert cause in failure(worker, prefix)
