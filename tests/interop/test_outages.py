"""One of the three processes is away for a while: what goes on, what waits, what clients are told."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from tests.lab.cluster import probe
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.cluster_admin import ClusterAdmin, admin

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_S = 60


class _SteadyProducer:
    """Sends numbered records all the while, and knows which were acknowledged."""

    def __init__(self, stack: Stack, user: User, topic: str) -> None:
        self.acknowledged: set[bytes] = set()
        self.refused: list[KafkaError] = []
        self._over = threading.Event()
        self._topic = topic
        settings = {
            "linger.ms": 0,
            "acks": "all",
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 200,
        }
        self._producer = Producer({**librdkafka_settings(user, stack.entrance()), **settings})
        self._thread = threading.Thread(target=self._send)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Until the end, when all that was sent is acknowledged or refused."""
        self._thread.start()
        try:
            self.wait_for(50)
            yield
            self.wait_for(len(self.acknowledged) + 50)
        finally:
            self._over.set()
            self._thread.join()
        assert self._producer.flush(TIMEOUT_S) == 0

    def wait_for(self, count: int) -> None:
        pause = threading.Event()
        for _ in range(TIMEOUT_S * 20):
            if len(self.acknowledged) >= count:
                return
            pause.wait(0.05)
        raise AssertionError(
            f"{len(self.acknowledged)} of {count} acknowledged after {TIMEOUT_S} s: {self.refused}"
        )

    def _send(self) -> None:
        number = 0
        while not self._over.wait(0.005):
            self._producer.produce(self._topic, b"%d" % number, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.add(message.value() or b"")
        else:
            self.refused.append(error)


def _stored(stack: Stack, topic: str, count: int) -> list[bytes]:
    """What the broker itself holds."""
    settings = {
        "bootstrap.servers": stack.broker.plaintext,
        "group.id": "stored",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    stored: list[bytes] = []
    try:
        while len(stored) < count:
            messages = consumer.consume(1000, timeout=10)
            assert messages, f"{len(stored)} of {count} records are there"
            stored += [message.value() or b"" for message in messages if message.error() is None]
        return stored
    finally:
        consumer.close()


@pytest.mark.spec("O4")
def test_a_proxy_that_drains_and_starts_again_loses_no_accepted_record(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    producer = _SteadyProducer(stack, alice, topic)

    with producer.sending():
        stopped_by_itself = stack.proxy.stop()
        returncode = stack.proxy.returncode
        stack.start_proxy()

    stored = _stored(stack, topic, len(producer.acknowledged))
    assert (stopped_by_itself, returncode) == (True, 0)
    assert producer.refused == []
    assert producer.acknowledged <= set(stored)
    assert len(stored) == len(set(stored))


@pytest.mark.spec("O4", "S3", "D3")
def test_a_broker_that_restarts_is_found_again(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    producer = _SteadyProducer(stack, alice, topic)

    with producer.sending():
        stack.broker.stop()
        stack.broker.start()

    assert producer.refused == []
    assert producer.acknowledged <= set(_stored(stack, topic, len(producer.acknowledged)))
    # The controller has claimed its log anew, and the proxy follows it again.
    cluster_admin.topic(f"{topic}-after")
    cluster_admin.allow_produce(alice, f"{topic}-after")
    assert probe.is_ready(stack.wiring.proxy_http)


@pytest.mark.spec("E5", "E13")
@pytest.mark.usefixtures("our_controller")
def test_without_a_controller_data_flows_and_changes_are_refused_in_time(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    producer = _SteadyProducer(stack, alice, topic)
    client = cluster_admin.client

    stack.controller.kill()
    try:
        with producer.sending():
            (creating,) = client.create_topics(
                [admin.NewTopic("nobody-there", 1, 1)], request_timeout=4
            ).values()
            with pytest.raises(KafkaException):
                creating.result(TIMEOUT_S)
    finally:
        stack.start_controller()

    assert producer.refused == []
    (creating,) = client.create_topics([admin.NewTopic(f"{topic}-again", 1, 1)], request_timeout=30).values()
    creating.result(TIMEOUT_S)
