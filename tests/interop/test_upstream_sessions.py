"""A broker that ends sessions (connections.max.reauth.ms) behind a proxy whose clients know nothing of it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import librdkafka_settings
from tests.support.cluster_admin import ClusterAdmin

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BROKER_REAUTH_MS = 2_000
LOAD_S = 11.0
"""Five sessions of the broker and a little."""
TIMEOUT_S = 30


@pytest.fixture(scope="module")
def ending_sessions(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    properties = {"listener.name.sasl_plaintext.connections.max.reauth.ms": str(BROKER_REAUTH_MS)}
    directory = tmp_path_factory.mktemp("ending-sessions")
    stack = Stack(StackSettings(directory=directory, libs=kafka_libs, broker_properties=properties))
    with stack.running():
        yield stack


@pytest.mark.spec("R10", "R5")
def test_our_sessions_at_the_broker_are_renewed_and_no_client_notices(ending_sessions: Stack) -> None:
    stack = ending_sessions
    cluster = ClusterAdmin(stack)
    alice = cluster.user("alice-all-day")
    topic = cluster.topic("all-day")
    cluster.allow_produce(alice, topic)
    cluster.allow_consume(alice, topic, "all-day")
    settings = librdkafka_settings(alice, stack.entrance())
    trouble: list[KafkaError] = []
    producer = Producer({**settings, "acks": "all", "linger.ms": 0, "error_cb": trouble.append})
    consumer = Consumer(
        {**settings, "group.id": "all-day", "auto.offset.reset": "earliest", "error_cb": trouble.append}
    )
    consumer.subscribe([topic])
    before = stack.metrics()
    sent, acknowledged, read = _under_load(producer, consumer, topic)
    after = stack.metrics()
    consumer.close()

    assert trouble == []
    assert acknowledged == sent
    assert set(read) == set(sent)
    grown = {series for series, value in after.items() if value > before.get(series, 0.0)}
    cut = [series for series in grown if "connections_closed" in series and "upstream" in series]
    assert cut == []


def _under_load(
    producer: Producer, consumer: Consumer, topic: str
) -> tuple[list[bytes], list[bytes], list[bytes]]:
    sent: list[bytes] = []
    acknowledged: list[bytes] = []
    read: list[bytes] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acknowledged.append(message.value() or b"")

    over = threading.Event()
    timer = threading.Timer(LOAD_S, over.set)
    timer.start()
    while not over.is_set():
        sent.append(b"%d" % len(sent))
        producer.produce(topic, sent[-1], on_delivery=delivered)
        producer.poll(0)
        read += [message.value() or b"" for message in consumer.consume(100, timeout=0.005)]
    assert producer.flush(TIMEOUT_S) == 0
    while len(read) < len(sent):
        more = consumer.consume(1_000, timeout=TIMEOUT_S)
        assert more, f"{len(read)} of {len(sent)} records read"
        read += [message.value() or b"" for message in more]
    return sent, acknowledged, read
