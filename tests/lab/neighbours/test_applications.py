"""Applications with Spring Kafka and with Flink, with the ACLs that docs/tested-with.md lists."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.lab.cluster import kafka
from tests.lab.cluster.users import User, librdkafka_settings
from tests.lab.neighbours.program import program
from tests.support.cluster_admin import TIMEOUT_S, ClusterAdmin
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("O11", "A7")]

SPRING, FLINK = "4.1.2", "5.0.0-2.2"
WITHIN_S = 90


def send(gate: Gate, topic: str, values: Sequence[bytes]) -> None:
    producer = Producer(librdkafka_settings(gate.users["admin"], gate.entrance()))
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0


def committed(gate: Gate, expected: Mapping[str, Sequence[bytes]]) -> dict[str, list[bytes]]:
    """The records of these topics in committed transactions, once they are as expected, or after WITHIN_S."""
    settings = {"group.id": "looks", "isolation.level": "read_committed"}
    consumer = Consumer(librdkafka_settings(gate.users["admin"], gate.entrance()) | settings)
    consumer.assign([TopicPartition(topic, 0, 0) for topic in expected])
    found: dict[str, list[bytes]] = {topic: [] for topic in expected}
    try:
        for _ in range(WITHIN_S * 2):
            for message in consumer.consume(100, timeout=0.5):
                # The topic may still have to be created.
                if message.error() is None:
                    found[message.topic() or ""].append(message.value() or b"")
            if found == expected:
                break
            Event().wait(0.1)
    finally:
        consumer.close()
    return found


def test_spring_copies_records_in_transactions_and_sends_failed_ones_to_its_dead_letter_topic(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, tmp_path: Path
) -> None:
    expected = {"shop-done": [b"first", b"last"], "orders-dlt": [b"bad"]}
    cluster_admin.topic("orders")
    cluster_admin.allow(alice, "READ", topic="orders")
    cluster_admin.allow(alice, "READ", group="shop")
    for topic in expected:
        cluster_admin.allow(alice, "CREATE", "WRITE", topic=topic)
    cluster_admin.allow(alice, "WRITE", transactional_id="shop-", prefixed=True)
    send(gate, "orders", [b"first", b"bad", b"last"])

    libs = kafka.libs(SPRING, what="spring")
    with program("Shop", libs, tmp_path, (alice, gate.entrance())) as application:
        found = committed(gate, expected)

    assert found == expected, application.log_text()[-3000:]
    assert "AuthorizationException" not in application.log_text()


def test_a_job_of_flink_copies_records_exactly_once(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, tmp_path: Path
) -> None:
    expected = {"capitals": [b"ONE", b"TWO"]}
    for topic in ("events", "capitals"):
        cluster_admin.topic(topic)
    cluster_admin.allow(alice, "READ", topic="events")
    cluster_admin.allow(alice, "READ", group="capitals")
    cluster_admin.allow(alice, "WRITE", topic="capitals")
    cluster_admin.allow(alice, "WRITE", transactional_id="capitals", prefixed=True)
    send(gate, "events", [b"one", b"two"])

    libs = kafka.libs(FLINK, what="flink")
    with program("Capitals", libs, tmp_path, (alice, gate.entrance())) as job:
        found = committed(gate, expected)

    assert found == expected, job.log_text()[-3000:]
    assert "AuthorizationException" not in job.log_text()
