"""A whole stack: `penstock acl` grants until a time, a producer that stays connected meets the end."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from proxy.net.runtime.clock import now_ms
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.cluster_admin import ClusterAdmin

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.spec("A11"),
    pytest.mark.usefixtures("our_controller"),
]

GRANTED_S = 15
AFTERWARDS_MS = 3_000


def acl(stack: Stack, *words: str, user: str = "admin") -> subprocess.CompletedProcess[str]:
    tools = stack.tools(user)
    connection = ["--bootstrap-server", tools.bootstrap, "--command-config", str(tools.properties)]
    return subprocess.run(
        [sys.executable, "-m", "proxy", "acl", *connection, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.spec("E13")
def test_a_producer_writes_until_the_end_of_its_grant_and_no_longer(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    grant = "--allow-principal", f"User:{alice.name}", "--operation", "Write", "--topic", topic

    denied = acl(stack, "--add", *grant, user=alice.name)
    end = datetime.now(UTC) + timedelta(seconds=GRANTED_S)
    added = acl(stack, "--add", *grant, "--until", end.isoformat())
    listed = acl(stack, "--list", "--topic", topic)

    end_ms = end.timestamp() * 1000
    results: list[tuple[int, KafkaError | None]] = []

    def delivered(error: KafkaError | None, _message: Message | None = None) -> None:
        results.append((now_ms(), error))

    producer = Producer(
        {**librdkafka_settings(alice, stack.entrance()), "linger.ms": 0, "retries": 0, "acks": 1}
    )
    while now_ms() < end_ms + AFTERWARDS_MS:
        try:
            producer.produce(topic, b"x", on_delivery=delivered)
        except KafkaException as error:
            # The client knows of the denial from the broker's metadata.
            delivered(error.args[0])
        producer.poll(0.02)
    producer.flush(20)

    assert (denied.returncode, "CLUSTER_AUTHORIZATION_FAILED" in denied.stderr) == (1, True), denied
    assert added.returncode == 0, added
    written = f"until={end:%Y-%m-%dT%H:%M:%S}"
    assert written in added.stdout
    assert written in listed.stdout, listed
    allowed = [moment for moment, error in results if error is None]
    rejected = [moment for moment, error in results if error is not None]
    assert len(allowed) > 50
    assert len(rejected) > 50
    assert {error.code() for _, error in results if error is not None} == {
        KafkaError.TOPIC_AUTHORIZATION_FAILED
    }
    assert max(allowed) < end_ms + 500
    assert min(rejected) >= end_ms - 1
    assert topic not in acl(stack, "--list", "--topic", topic).stdout


def test_an_end_is_extended_and_taken_away_and_what_cannot_be_is_rejected(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    grant = "--allow-principal", f"User:{alice.name}", "--operation", "Read", "--topic", topic

    acl(stack, "--add", *grant, "--until", "2040-01-01T00:00Z")
    extended = acl(stack, "--add", *grant, "--until", "2041-01-01T00:00+01:00")
    by_kafka = stack.tools("admin").run("kafka-acls", "--list", "--topic", topic)
    past = acl(stack, "--add", *grant, "--until", "2020-01-01T00:00Z")
    for_ever = acl(stack, "--add", *grant)
    removed = acl(stack, "--remove", "--force", *grant)
    no_zone = acl(stack, "--add", *grant, "--until", "2041-01-01T00:00")

    assert extended.stdout.count("until=2040-12-31T23:00:00.000Z") == 1, extended
    assert f"principal=User:{alice.name}, host=*, operation=READ" in by_kafka.stdout, by_kafka.said
    assert (past.returncode, "in the past" in past.stderr) == (1, True), past
    assert (for_ever.returncode, "operation=READ" in for_ever.stdout, "until" in for_ever.stdout) == (
        0,
        True,
        False,
    )
    assert (removed.returncode, removed.stdout) == (0, "")
    assert (no_zone.returncode, "no time with a zone" in no_zone.stderr) == (2, True)
