"""A whole stack whose proxy decides by an ACL file that changes while a producer stays connected (A4)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.cluster_admin import ClusterAdmin

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("A4", "A5")]

TIMEOUT_S = 30
TOPIC = "orders"
OPEN: dict[str, Any] = {"version": 1, "acls": []}
CLOSED_TO_ALICE = {
    **OPEN,
    "topics": {
        TOPIC: {
            "acls": [
                {"principal": "Anonymous", "permissionType": "ALLOW", "operations": ["ALL"], "hosts": ["*"]},
                {"principal": "alice", "permissionType": "DENY", "operations": ["WRITE"], "hosts": ["*"]},
            ]
        }
    },
}


class AclFile:
    """The file that the proxy watches."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, content: str) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(content, encoding="utf-8")
        new.rename(self.path)


@pytest.fixture
def acl_file(tmp_path: Path) -> AclFile:
    file = AclFile(tmp_path / "acls.json")
    file.put(json.dumps(OPEN))
    return file


@pytest.fixture
def stack(acl_file: AclFile, kafka_libs: Path, tmp_path: Path) -> Iterator[Stack]:
    authorizer = {
        "class.name": "proxy.security.simple.SimpleAclAuthorizer",
        "broker.acl.file.path": str(acl_file.path),
        "super.users": "User:admin",
    }
    stack = Stack(
        StackSettings(directory=tmp_path / "stack", libs=kafka_libs, proxy_changes={"authorizer": authorizer})
    )
    with stack.running():
        yield stack


class Sender:
    """alice's one producer, from the first record to the last."""

    def __init__(self, stack: Stack) -> None:
        alice = User("alice", "PLAIN", stack.users["alice"].password)
        settings = librdkafka_settings(alice, stack.entrance())
        self._producer = Producer({**settings, "linger.ms": 0, "topic.metadata.refresh.interval.ms": 200})
        self._outcome: list[KafkaError | None] = []

    def send(self) -> KafkaError | None:
        """What became of one record."""
        self._outcome.clear()
        try:
            self._producer.produce(TOPIC, b"record", on_delivery=self._delivered)
        except KafkaException as refused:
            # librdkafka has read in an answer to Metadata that the topic is closed to it.
            self._producer.poll(0.05)
            error: KafkaError = refused.args[0]
            return error
        assert self._producer.flush(TIMEOUT_S) == 0
        return self._outcome[0]

    def until(self, allowed: bool) -> KafkaError | None:
        """The first outcome of that kind."""
        for _ in range(1_000):
            error = self.send()
            if (error is None) == allowed:
                return error
        raise AssertionError("the file made no difference")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._outcome.append(error)


def reloads(stack: Stack, outcome: str) -> float:
    return stack.metrics()[f'penstock_file_reloads_total{{file_kind="authorizer",outcome="{outcome}"}}']


def connections(stack: Stack) -> float:
    return stack.metrics()['penstock_connections_accepted_total{listener="SASL_PLAINTEXT"}']


def wait_for_reload(stack: Stack, outcome: str, count: int, sender: Sender) -> None:
    for _ in range(1_000):
        if reloads(stack, outcome) >= count:
            return
        sender.send()
    raise AssertionError(f"no reload that {outcome}")


def test_a_changed_file_counts_for_a_connected_producer_and_a_broken_one_does_not(
    stack: Stack, acl_file: AclFile
) -> None:
    cluster = ClusterAdmin(stack)
    cluster.topic(TOPIC)
    sender = Sender(stack)
    assert sender.send() is None
    before = connections(stack)

    acl_file.put(json.dumps(CLOSED_TO_ALICE))
    denied = sender.until(allowed=False)
    acl_file.put('{"version": 1, "acls": ')
    wait_for_reload(stack, "failed", 1, sender)
    still_denied = sender.send()
    acl_file.put(json.dumps(OPEN))
    sender.until(allowed=True)

    assert denied is not None
    assert still_denied is not None
    assert {denied.code(), still_denied.code()} == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    assert connections(stack) == before
    assert (reloads(stack, "loaded"), reloads(stack, "failed")) == (2, 1)
    with pytest.raises(KafkaException) as disabled:
        cluster.allow_produce(stack.users["alice"], TOPIC)
    assert disabled.value.args[0].code() == KafkaError.SECURITY_DISABLED
