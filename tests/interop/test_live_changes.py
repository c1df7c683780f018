"""librdkafka while rights and topics change, and with a pattern that matches topics."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from tests.lab.cluster.release import Feature
from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.cluster_admin import ClusterAdmin, admin, error_name
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_S = 30


@contextmanager
def _consumer(gate: Gate, user: User, topic: str, pattern: str = "", **more: str) -> Iterator[Consumer]:
    """Of the group that has the topic's name; reads that topic, or those that the pattern matches."""
    settings = {
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": 1000,
        **more,
    }
    consumer = Consumer({**librdkafka_settings(user, gate.entrance()), **settings})
    consumer.subscribe([pattern or topic])
    try:
        yield consumer
    finally:
        consumer.close()


def _produce(gate: Gate, topic: str, *values: bytes) -> None:
    producer = Producer({**librdkafka_settings(gate.users["admin"], gate.entrance()), "linger.ms": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0


def _next(consumer: Consumer) -> bytes | KafkaError:
    """The next record or the next error that is not only a matter of time."""
    for _ in range(TIMEOUT_S * 10):
        message = consumer.poll(0.1)
        if message is None:
            continue
        error = message.error()
        return error if error is not None else message.value() or b""
    raise AssertionError(f"nothing in {TIMEOUT_S} s")


def _remove_acls(cluster_admin: ClusterAdmin, topic: str) -> None:
    wanted = admin.AclBindingFilter(
        admin.ResourceType.TOPIC,
        topic,
        admin.ResourcePatternType.LITERAL,
        None,
        None,
        admin.AclOperation.ANY,
        admin.AclPermissionType.ANY,
    )
    for future in cluster_admin.client.delete_acls([wanted]).values():
        future.result(TIMEOUT_S)


@pytest.mark.spec("E13", "A7")
def test_a_consumer_whose_right_is_withdrawn_in_the_middle_gets_nothing_more(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_consume(alice, topic, topic)
    _produce(gate, topic, b"before")
    with _consumer(gate, alice, topic) as consumer:
        assert _next(consumer) == b"before"

        _remove_acls(cluster_admin, topic)
        # A fetch that waits at the broker was authorised when it came; the next one is refused.
        refused = _next(consumer)
        _produce(gate, topic, b"after")
        taken = [message.value() for message in consumer.consume(10, timeout=2) if message.error() is None]
    cluster_admin.allow_consume(alice, topic, topic)

    assert isinstance(refused, KafkaError), refused
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert taken == []
    with _consumer(gate, alice, topic) as consumer:
        # Its offset was not committed: that needs READ on the topic too.
        assert [_next(consumer), _next(consumer)] == [b"before", b"after"]


@pytest.mark.needs(Feature.CONSUMER_GROUPS)
@pytest.mark.spec("A7")
def test_a_pattern_matches_only_topics_that_may_be_described(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    seen, hidden = (cluster_admin.topic(f"{topic}-{name}") for name in ("seen", "hidden"))
    cluster_admin.allow_consume(alice, seen, topic)
    for name in (seen, hidden):
        _produce(gate, name, name.encode())

    with _consumer(gate, alice, topic, f"^{topic}-.*", **{"group.protocol": "consumer"}) as consumer:
        taken = _next(consumer)
        assigned = {partition.topic for partition in consumer.assignment()}

    assert (taken, assigned) == (seen.encode(), {seen})


@pytest.mark.spec("A7")
def test_a_topic_that_is_made_anew_under_its_name_is_produced_to_and_read(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    cluster_admin.allow_consume(alice, topic, topic)
    _produce(gate, topic, b"of the first")
    for future in cluster_admin.client.delete_topics([topic]).values():
        future.result(TIMEOUT_S)
    _create_anew(cluster_admin, topic)

    _produce(gate, topic, b"of the second")
    with _consumer(gate, alice, topic) as consumer:
        assert _next(consumer) == b"of the second"


def _create_anew(cluster_admin: ClusterAdmin, topic: str) -> None:
    """With ZooKeeper the old topic exists until its replicas are gone."""
    for _ in range(TIMEOUT_S * 10):
        try:
            cluster_admin.topic(topic)
            return
        except KafkaException as failure:
            if error_name(failure) != "TOPIC_ALREADY_EXISTS":
                raise
            threading.Event().wait(0.1)
    raise AssertionError(f"{topic} still exists")


def _transaction(gate: Gate, user: User, transactional_id: str, topic: str) -> Any:
    settings = {"transactional.id": transactional_id, "transaction.timeout.ms": 20_000}
    producer = Producer({**librdkafka_settings(user, gate.entrance()), **settings})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"in a transaction")
    producer.commit_transaction(TIMEOUT_S)
    return producer


@pytest.mark.spec("A7")
def test_a_transaction_commits_for_one_who_may_write_under_its_id(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    cluster_admin.allow_consume(alice, topic, topic)
    cluster_admin.allow(alice, "WRITE", "DESCRIBE", transactional_id=topic)

    _transaction(gate, alice, topic, topic)

    with _consumer(gate, alice, topic) as consumer:
        assert _next(consumer) == b"in a transaction"


@pytest.mark.spec("A7")
def test_a_transaction_is_refused_to_one_who_may_not_use_its_id(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)

    with pytest.raises(KafkaException) as refused:
        _transaction(gate, alice, topic, topic)

    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
