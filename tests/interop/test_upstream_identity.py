"""The broker sees the end user: its own ACLs decide on produce and fetch, though the proxy connects."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.cluster_admin import ClusterAdmin, admin

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("O7")]

TIMEOUT_S = 30
TOKEN_MS, TOKEN_MAX_MS = 6_000, 10_000
LOAD_S = 16.0
"""Renewals of a token, the end of its time, and another one in its place."""


@pytest.fixture(scope="module")
def stack(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:penstock;User:admin;User:ANONYMOUS",
        "delegation.token.secret.key": "a-secret-of-the-brokers",
        "delegation.token.expiry.time.ms": str(TOKEN_MS),
        "delegation.token.max.lifetime.ms": str(TOKEN_MAX_MS),
    }
    directory = tmp_path_factory.mktemp("identity")
    stack = Stack(StackSettings(directory=directory, libs=kafka_libs, broker_properties=properties))
    document = yaml.safe_load(stack.proxy_file.read_text())
    document["upstream"] |= {"identity": "user"}
    stack.proxy_file.write_text(yaml.safe_dump(document))
    with stack.running():
        yield stack


@pytest.fixture(scope="module")
def alice(stack: Stack) -> User:
    """She may do everything at the proxy; at the broker she may use one topic, and her group."""
    cluster = ClusterAdmin(stack)
    alice = cluster.user("alice-herself")
    for topic in ("hers", "not-hers"):
        cluster.topic(topic)
        cluster.allow_produce(alice, topic)
        cluster.allow_consume(alice, topic, "her-group")
    at_the_broker = admin.AdminClient({"bootstrap.servers": stack.broker.plaintext})
    literal, allow = admin.ResourcePatternType.LITERAL, admin.AclPermissionType.ALLOW
    wanted = [
        admin.AclBinding(kind, name, literal, f"User:{alice.name}", "*", operation, allow)
        for kind, name, operation in (
            (admin.ResourceType.TOPIC, "hers", admin.AclOperation.WRITE),
            (admin.ResourceType.TOPIC, "hers", admin.AclOperation.READ),
            (admin.ResourceType.GROUP, "her-group", admin.AclOperation.READ),
        )
    ]
    for future in at_the_broker.create_acls(wanted).values():
        future.result(TIMEOUT_S)
    return alice


def produced_to(stack: Stack, user: User, topic: str) -> KafkaError | None:
    outcome: list[KafkaError | None] = []
    settings = {"message.timeout.ms": 10_000, "acks": "all"}
    producer = Producer({**librdkafka_settings(user, stack.entrance()), **settings})
    producer.produce(topic, b"a record", on_delivery=lambda error, _message: outcome.append(error))
    producer.flush(TIMEOUT_S)
    (error,) = outcome
    return error


def test_the_brokers_own_acls_decide_on_what_the_user_writes(stack: Stack, alice: User) -> None:
    assert produced_to(stack, alice, "hers") is None

    refused = produced_to(stack, alice, "not-hers")

    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_broker_knows_the_user_for_as_long_as_she_is_there(stack: Stack, alice: User) -> None:
    settings: dict[str, Any] = {**librdkafka_settings(alice, stack.entrance())}
    trouble: list[KafkaError] = []
    producer = Producer({**settings, "acks": "all", "linger.ms": 0, "error_cb": trouble.append})
    acknowledged: list[bytes] = []
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.append(message.value() or b"")
        else:
            refused.append(error)

    over = threading.Event()
    threading.Timer(LOAD_S, over.set).start()
    sent = 0
    while not over.wait(0.01):
        producer.produce("hers", b"%d" % sent, on_delivery=delivered)
        producer.poll(0)
        sent += 1
    assert producer.flush(TIMEOUT_S) == 0

    assert (trouble, refused) == ([], [])
    assert len(acknowledged) == sent
    consumer = Consumer({**settings, "group.id": "her-group", "auto.offset.reset": "earliest"})
    consumer.subscribe(["hers"])
    read = {message.value() for message in consumer.consume(sent + 1, timeout=TIMEOUT_S)}
    consumer.close()
    assert {b"%d" % number for number in range(sent)} <= read | {b"a record"}


def test_the_tokens_are_the_users_and_go_when_the_proxy_goes(stack: Stack, alice: User) -> None:
    assert produced_to(stack, alice, "hers") is None
    log = stack.logs / "proxy.log"
    assert f'"principal": "User:{alice.name}"' in log.read_text()
    assert "delegation token created" in log.read_text()

    assert stack.proxy.stop(), "it did not stop by itself"

    assert "Failed to expire delegation token" not in log.read_text()
    stack.start_proxy()
