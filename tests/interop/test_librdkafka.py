"""librdkafka (kcat, confluent-kafka) through the gate: produce, consume, administer, stay logged in."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.cluster_admin import ClusterAdmin, admin, error_name
from tests.support.gates import REAUTH_MS, Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_S = 30


def _producer(gate: Gate, user: User, listener: str = "SASL_PLAINTEXT", **settings: Any) -> Producer:
    return Producer({**librdkafka_settings(user, gate.entrance(listener)), "linger.ms": 0, **settings})


@contextmanager
def _consumer(gate: Gate, user: User, topic: str, group: str, **settings: Any) -> Iterator[Consumer]:
    chosen = {"group.id": group, "auto.offset.reset": "earliest", **settings}
    consumer = Consumer({**librdkafka_settings(user, gate.entrance()), **chosen})
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def _deliver(producer: Producer, topic: str, values: list[bytes]) -> list[KafkaError | None]:
    """Produce and wait: what the broker said to each."""
    said: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        said.append(error)

    for value in values:
        producer.produce(topic, value, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    return said


def _take(consumer: Consumer, count: int) -> list[bytes]:
    taken: list[bytes] = []
    while len(taken) < count:
        messages = consumer.consume(count - len(taken), timeout=TIMEOUT_S)
        assert messages, f"{len(taken)} of {count} messages after {TIMEOUT_S} s"
        for message in messages:
            if error := message.error():
                raise KafkaException(error)
            taken.append(message.value() or b"")
    return taken


@pytest.mark.spec("A7", "O1")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_of_either_protocol_reads_what_was_produced_and_goes_on_where_it_stopped(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str, protocol: str
) -> None:
    group = f"{protocol}-{topic}"
    cluster_admin.allow_produce(alice, topic)
    cluster_admin.allow_consume(alice, topic, group)
    values = [f"value {number}".encode() for number in range(1000)]

    said = _deliver(_producer(gate, alice), topic, values)
    with _consumer(gate, alice, topic, group, **{"group.protocol": protocol}) as consumer:
        first = _take(consumer, 600)
        consumer.commit(offsets=[TopicPartition(topic, 0, 600)], asynchronous=False)
    with _consumer(gate, alice, topic, group, **{"group.protocol": protocol}) as consumer:
        rest = _take(consumer, 400)

    assert said == [None] * 1000
    assert first + rest == values


@pytest.mark.spec("A7")
def test_a_producer_is_denied_topic_by_topic_within_one_session(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    forbidden = cluster_admin.topic(f"{topic}-forbidden")
    cluster_admin.allow(alice, "DESCRIBE", topic=forbidden)
    producer = _producer(gate, alice)

    allowed = _deliver(producer, topic, [b"one"])
    (denied,) = _deliver(producer, forbidden, [b"two"])

    assert allowed == [None]
    assert denied is not None
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.spec("A7", "E13")
def test_an_acl_holds_from_its_acknowledgement_on_and_no_longer_than_it_stands(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    producer = _producer(gate, alice)
    assert _deliver(producer, topic, [b"one"]) == [None]

    cluster_admin.deny(alice, "WRITE", topic=topic)
    (denied,) = _deliver(producer, topic, [b"two"])

    assert denied is not None
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.spec("S8", "E2")
def test_acls_are_created_described_by_a_matching_filter_and_deleted(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User
) -> None:
    cluster_admin.allow(alice, "ALTER", "DESCRIBE", cluster=True)
    client = ClusterAdmin(gate, alice.name).client
    topic, literal, match = (
        admin.ResourceType.TOPIC,
        admin.ResourcePatternType.LITERAL,
        admin.ResourcePatternType.MATCH,
    )
    any_operation, any_permission = admin.AclOperation.ANY, admin.AclPermissionType.ANY
    # A host of their own: a matching filter finds the wildcard ACLs of other tests as well.
    name, host = f"pay-{alice.name}", "10.1.2.3"
    wanted = [
        admin.AclBinding(
            topic, name, literal, f"User:u{n}", host, admin.AclOperation.READ, admin.AclPermissionType.ALLOW
        )
        for n in range(20)
    ]
    everything = admin.AclBindingFilter(topic, name, match, None, host, any_operation, any_permission)

    created = [future.result(TIMEOUT_S) for future in client.create_acls(wanted).values()]
    described = client.describe_acls(everything).result(TIMEOUT_S)
    deleted = client.delete_acls([everything])[everything].result(TIMEOUT_S)

    assert created == [None] * 20
    assert sorted(acl.principal for acl in described) == sorted(acl.principal for acl in wanted)
    assert len(deleted) == 20
    assert client.describe_acls(everything).result(TIMEOUT_S) == []


@pytest.mark.spec("S8", "E3")
def test_an_admin_call_without_rights_gets_the_error_a_broker_gives(
    gate: Gate, alice: User, topic: str
) -> None:
    client = ClusterAdmin(gate, alice.name).client
    (creating,) = client.create_topics([admin.NewTopic("forbidden", 1, 1)]).values()
    (deleting,) = client.delete_topics([topic]).values()

    with pytest.raises(KafkaException) as created:
        creating.result(TIMEOUT_S)
    with pytest.raises(KafkaException) as deleted:
        deleting.result(TIMEOUT_S)

    assert error_name(created.value) == "TOPIC_AUTHORIZATION_FAILED"
    assert error_name(deleted.value) == "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.spec("O3", "R9")
def test_eight_mebibyte_messages_pass_unchanged_through_tls(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    cluster_admin.allow_consume(alice, topic, topic)
    values = [random.Random(number).randbytes(8 << 20) for number in range(4)]
    producer = _producer(gate, alice, "SASL_SSL", **{"message.max.bytes": 16 << 20})

    said = _deliver(producer, topic, values)
    with _consumer(gate, alice, topic, topic, **{"fetch.message.max.bytes": 16 << 20}) as consumer:
        taken = _take(consumer, 4)

    assert said == [None] * 4
    assert [hashlib.sha256(value).digest() for value in taken] == [hashlib.sha256(v).digest() for v in values]


@pytest.mark.spec("R2", "R5")
def test_a_session_that_reauthenticates_goes_on_on_the_same_connection(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    lost: list[KafkaError] = []
    producer = _producer(gate, alice, "REAUTH", error_cb=lost.append)

    said = _deliver(producer, topic, [b"before"])
    for _ in range(int(REAUTH_MS * 2.2 / 200)):
        producer.poll(0.2)
        said += _deliver(producer, topic, [b"while"])

    assert set(said) == {None}
    assert lost == []


@pytest.mark.spec("Q6", "Q7", "Q8")
def test_a_produce_quota_throttles_a_live_session_once_it_is_set(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    throttled: list[float] = []
    producer = _producer(gate, alice, throttle_cb=lambda event: throttled.append(event.throttle_time))
    assert _deliver(producer, topic, [bytes(50_000)]) == [None]
    assert throttled == []

    gate.tools("admin").run(
        *("kafka-configs", "--alter", "--entity-type", "users", "--entity-name", alice.name),
        *("--add-config", "producer_byte_rate=10000"),
    )
    _deliver(producer, topic, [bytes(100_000)])
    producer.poll(1)

    # 100 kB and more in a window of 10 to 11 s are over 10 kB/s by a little, and the 50 kB before count too.
    assert throttled
    assert 0 < max(throttled) < 11


@pytest.mark.spec("A7")
def test_a_regular_expression_of_a_consumer_group_brings_topics_that_may_be_described(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    seen, hidden = (cluster_admin.topic(f"{topic}-{name}") for name in ("seen", "hidden"))
    cluster_admin.allow_consume(alice, seen, topic)
    producer = _producer(gate, gate.users["admin"])
    for name in (seen, hidden):
        _deliver(producer, name, [name.encode()] * 3)

    with _consumer(gate, alice, f"^{topic}-.*", topic, **{"group.protocol": "consumer"}) as consumer:
        taken = _take(consumer, 3)
        assigned = {partition.topic for partition in consumer.assignment()}

    assert taken == [seen.encode()] * 3
    assert assigned == {seen}


@pytest.mark.spec("A7")
def test_who_may_describe_a_topic_hears_whether_it_is_missing_or_not_to_be_deleted(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    missing, hidden = f"{topic}-missing", f"{topic}-hidden"
    for name in (topic, missing):
        cluster_admin.allow(alice, "DESCRIBE", topic=name)

    client = ClusterAdmin(gate, alice.name).client
    futures = client.delete_topics([topic, missing, hidden])

    heard = {}
    for name, future in futures.items():
        with pytest.raises(KafkaException) as failure:
            future.result(timeout=TIMEOUT_S)
        heard[name] = error_name(failure.value)
    assert heard == {
        topic: "TOPIC_AUTHORIZATION_FAILED",
        missing: "UNKNOWN_TOPIC_OR_PART",
        hidden: "TOPIC_AUTHORIZATION_FAILED",
    }
