"""aiokafka and kafka-python through the gate: produce, consume with a group, be refused."""

import importlib
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError

from tests.lab.cluster.users import User, aiokafka_settings
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_MS = 30_000

# kafka-python reads its schemas, as it is imported, by a call that Python 3.11 calls deprecated.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka: Any = importlib.import_module("kafka")
    kafka_admin: Any = importlib.import_module("kafka.admin")


@asynccontextmanager
async def _started(client: Any) -> AsyncIterator[Any]:
    try:
        await client.start()
        yield client
    finally:
        await client.stop()


@pytest.mark.spec("A7", "O1")
async def test_aiokafka_produces_and_consumes_with_a_group(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    cluster_admin.allow_consume(alice, topic, topic)
    login = aiokafka_settings(alice, gate.entrance())
    values = [b"%d" % number for number in range(500)]

    async with _started(AIOKafkaProducer(**login, enable_idempotence=True)) as producer:
        for value in values:
            await producer.send(topic, value)
    async with _started(
        AIOKafkaConsumer(topic, **login, group_id=topic, auto_offset_reset="earliest")
    ) as consumer:
        taken = [(await consumer.getone()).value for _ in values]
        await consumer.commit()

    assert taken == values


@pytest.mark.spec("A7")
async def test_aiokafka_is_told_that_a_topic_is_not_for_it(gate: Gate, alice: User, topic: str) -> None:
    async with _started(AIOKafkaProducer(**aiokafka_settings(alice, gate.entrance()))) as producer:
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait(topic, b"one")


@pytest.mark.spec("A7", "O1", "O3")
def test_kafka_python_produces_and_consumes_with_a_group_over_tls(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    cluster_admin.allow_consume(alice, topic, topic)
    login = aiokafka_settings(alice, gate.entrance("SASL_SSL"))

    producer = kafka.KafkaProducer(**login)
    sent = [producer.send(topic, b"%d" % number) for number in range(100)]
    offsets = [future.get(TIMEOUT_MS / 1000).offset for future in sent]
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic, **login, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_MS
    )
    taken = [record.value for _, record in zip(range(100), consumer, strict=False)]
    consumer.close()

    assert offsets == list(range(100))
    assert taken == [b"%d" % number for number in range(100)]


@pytest.mark.spec("A7", "S8")
def test_kafka_python_is_refused_what_it_may_not_do(gate: Gate, alice: User, topic: str) -> None:
    client = kafka.KafkaAdminClient(**aiokafka_settings(alice, gate.entrance()))
    try:
        with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
            client.delete_topics([topic])
        with pytest.raises(kafka.errors.ClusterAuthorizationFailedError):
            client.describe_acls(_any_acl())
    finally:
        client.close()


def _any_acl() -> Any:
    anything = kafka_admin.ResourcePatternFilter(
        kafka_admin.ResourceType.ANY, None, kafka_admin.ACLResourcePatternType.ANY
    )
    return kafka_admin.ACLFilter(
        None, None, kafka_admin.ACLOperation.ANY, kafka_admin.ACLPermissionType.ANY, anything
    )
