"""Penstock before a quorum of a newer Kafka: a proxy that knows Kafka 4.2 only follows a quorum of 4.4.

What it does not know is taken from its tables when it starts. The quorum is real, and so are its records.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from proxy.net.telemetry.log_lines import PAUSE_S
from tests.lab.cluster import probe
from tests.lab.cluster.node import CHECKOUT
from tests.lab.cluster.release import Feature
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.tools import ToolRun
from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.cluster_admin import TIMEOUT_S, ClusterAdmin, admin

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.needs(Feature.KRAFT, Feature.NETWORKS),
    pytest.mark.spec("S13", "O10"),
]

WITHIN_S = 60
CUT_BACK = """
from proxy.metadata import delta
from proxy.wire import catalog, errors

delta.FEATURES["metadata.version"] = 29
delta.FIRST_WITH_NETWORKS = 10_000
known = catalog.record


def record(api_key):
    if api_key == catalog.record_key("ClientQuotaRecord"):
        raise errors.WireError(f"no metadata record has the api key {api_key}")
    return known(api_key)


catalog.record = record
"""
"""Kafka 4.2's level of metadata.version, no networks as hosts, and a record that a later Kafka has."""


@pytest.fixture(scope="module")
def gate(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("newer")
    changed = directory / "cut-back"
    changed.mkdir()
    (changed / "sitecustomize.py").write_text(CUT_BACK, encoding="utf-8")
    environment = {"PYTHONPATH": f"{changed}:{CHECKOUT}"}
    settings = StackSettings(
        directory=directory, libs=kafka_libs, controller="kraft", proxy_environment=environment
    )
    with Stack(settings).running() as stack:
        yield stack


@pytest.fixture(scope="module")
def cluster_admin(gate: Stack) -> ClusterAdmin:
    return ClusterAdmin(gate)


def until(holds: Callable[[], bool], what: Callable[[], object]) -> None:
    for _ in range(WITHIN_S * 10):
        if holds():
            return
        Event().wait(0.1)
    raise AssertionError(what())


def not_understood(stack: Stack) -> float:
    return stack.metrics()["penstock_metadata_not_understood"]


def reported(stack: Stack) -> list[dict[str, Any]]:
    Event().wait(2 * PAUSE_S)  # For a line that is still in the process's queue.
    rows = [json.loads(line) for line in stack.proxy.log_text().splitlines() if line.startswith("{")]
    return [row for row in rows if row["event"] == "metadata log not understood"]


def error_of_a_producer(stack: Stack, user: User, topic: str) -> str | None:
    """The error of a record sent through the proxy, from 127.0.0.1."""
    errors: list[str | None] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        errors.append(None if error is None else error.name())

    producer = Producer(librdkafka_settings(user, stack.entrance()))
    producer.produce(topic, b"record", on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    (error,) = errors
    return error


def is_served(stack: Stack, user: User) -> bool:
    try:
        client = admin.AdminClient(librdkafka_settings(user, stack.entrance()))
        client.describe_acls(_EVERYTHING, request_timeout=TIMEOUT_S).result()
    except KafkaException:
        return False
    return True


_EVERYTHING = admin.AclBindingFilter(
    *(admin.ResourceType.ANY, None, admin.ResourcePatternType.ANY, None, None),
    *(admin.AclOperation.ANY, admin.AclPermissionType.ANY),
)


def test_a_proxy_that_knows_kafka_4_2_fails_closed_before_a_quorum_of_4_4(
    gate: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    bob = cluster_admin.user("bob-of-networks")
    cluster_admin.allow_produce(alice, topic)
    cluster_admin.allow(alice, "DESCRIBE", cluster=True)

    def at_the_broker(tool: str, *arguments: str) -> ToolRun:
        run = gate.tools_at_the_broker().run(tool, *arguments)
        assert run.returncode == 0, run.said
        return run

    def ready() -> str:
        return probe.get(gate.wiring.proxy_http, "/readyz")[1]

    def counted(count: int) -> None:
        until(lambda: not_understood(gate) == count, ready)

    # The level of metadata.version: reported, and everyone is served.
    counted(1)
    assert "metadata.version 33, known: 29" in ready()
    (level,) = reported(gate)
    assert f"FeatureLevelRecord at offset {level['metadata_offset']}: " in level["what"]
    assert error_of_a_producer(gate, alice, topic) is None
    assert is_served(gate, alice)

    # A network as a host: a DENY is for every client, an ALLOW for none.
    denial = ("--topic", topic, "--deny-principal", f"User:{alice.name}", "--deny-host", "10.0.0.0/8")
    at_the_broker("kafka-acls", "--add", *denial, "--operation", "Write")
    counted(2)
    assert error_of_a_producer(gate, alice, topic) == "TOPIC_AUTHORIZATION_FAILED"
    grant = ("--topic", topic, "--allow-principal", f"User:{bob.name}", "--allow-host", "127.0.0.0/8")
    at_the_broker("kafka-acls", "--add", *grant, "--operation", "Write")
    counted(3)
    assert error_of_a_producer(gate, bob, topic) == "TOPIC_AUTHORIZATION_FAILED"
    assert [row["what"].partition(" at ")[0] for row in reported(gate)[1:]] == [
        "AccessControlEntryRecord"
    ] * 2
    assert "degraded: 3 records of the metadata log are not understood and fail closed" in ready()
    at_the_broker("kafka-acls", "--remove", "--force", *denial, "--operation", "Write")
    counted(2)
    assert error_of_a_producer(gate, alice, topic) is None

    # A record of an unknown type: it may restrict anyone.
    entity = ("--entity-type", "users", "--entity-name", "someone")
    at_the_broker("kafka-configs", "--alter", "--add-config", "producer_byte_rate=1000000", *entity)
    counted(3)
    assert "not ready: the metadata log has a record that cannot be applied" in ready()
    assert "no metadata record has the api key 14" in reported(gate)[-1]["what"]
    assert [is_served(gate, user) for user in (alice, gate.users["admin"])] == [False, True]
