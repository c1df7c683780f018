"""An application of Kafka Streams, exactly once, with the ACLs that docs/tested-with.md lists."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.lab.cluster import kafka
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.users import User, librdkafka_settings
from tests.lab.neighbours.program import program
from tests.support.cluster_admin import TIMEOUT_S, ClusterAdmin
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]

WITHIN_S = 90
WORDS = ["proxy", "broker", "proxy", "client", "proxy"]
COUNTS = {"proxy": "3", "broker": "1", "client": "1"}
APP = "counts"


@pytest.fixture
def app(gate: Gate, cluster_admin: ClusterAdmin, alice: User, tmp_path: Path) -> Iterator[ChildProcess]:
    for topic in ("words", "totals"):
        cluster_admin.topic(topic)
    cluster_admin.allow(alice, "READ", topic="words")
    cluster_admin.allow(alice, "WRITE", topic="totals")
    cluster_admin.allow(alice, "READ", group=APP)
    cluster_admin.allow(
        alice, "CREATE", "DELETE", "READ", "WRITE", "DESCRIBE_CONFIGS", topic=f"{APP}-", prefixed=True
    )
    cluster_admin.allow(alice, "WRITE", "DESCRIBE", transactional_id=f"{APP}-", prefixed=True)
    settings = {
        "application.id": APP,
        "processing.guarantee": "exactly_once_v2",
        "replication.factor": "1",
        "state.dir": str(tmp_path / "state"),
        "commit.interval.ms": "200",
    }
    login = alice, gate.entrance()
    topics = ("words", "totals")
    with program("Counts", kafka.connect_libs(), tmp_path, login, settings, topics) as process:
        yield process


@pytest.mark.spec("O11", "A7")
def test_a_streams_application_counts_exactly_once(gate: Gate, app: ChildProcess) -> None:
    login = librdkafka_settings(gate.users["admin"], gate.entrance())
    producer = Producer(login)
    for word in WORDS:
        producer.produce("words", word)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer(login | {"group.id": "looks", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition("totals", 0, 0)])
    totals: dict[str, str] = {}
    try:
        for _ in range(WITHIN_S * 2):
            for message in consumer.consume(100, timeout=0.5):
                assert message.error() is None
                totals[(message.key() or b"").decode()] = (message.value() or b"").decode()
            if totals == COUNTS:
                break
            Event().wait(0.1)
    finally:
        consumer.close()

    assert totals == COUNTS, app.log_text()[-3000:]
    assert "AuthorizationException" not in app.log_text()
