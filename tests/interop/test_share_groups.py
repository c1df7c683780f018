"""Share groups (KIP-932) with Kafka's own tools, and a Streams member (KIP-1071) spoken by hand."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from proxy.net.kafka.channel import Channel
from proxy.net.runtime.clock import now_ms
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.release import Feature
from tests.lab.cluster.users import User, channel_settings
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.needs(Feature.SHARE_GROUPS)]

TIMEOUT_MS = 30_000
LIMIT, WINDOW_S = 10_000, 10
RECORD_BYTES, COUNT = 2_000, 150
RECORDS = [f"order-{number}" for number in range(20)]


@pytest.fixture
def group(gate: Gate, topic: str) -> str:
    """A share group that begins with a topic's first record."""
    name = f"share-{topic}"
    changed = gate.tools("admin").run(
        "kafka-configs", "--alter", "--entity-type", "groups", "--entity-name", name, "--add-config", EARLIEST
    )
    assert changed.returncode == 0, changed.said
    return name


EARLIEST = "share.auto.offset.reset=earliest"


def filled(gate: Gate, topic: str) -> None:
    produced = gate.tools("admin").run(
        "kafka-console-producer", "--topic", topic, stdin="".join(f"{record}\n" for record in RECORDS)
    )
    assert produced.returncode == 0, produced.said


def consume(gate: Gate, user: User, topic: str, group: str) -> Any:
    return gate.tools(user.name).run(
        "kafka-console-share-consumer",
        *("--topic", topic, "--group", group, "--max-messages", str(len(RECORDS)), "--timeout-ms", "20000"),
    )


@pytest.mark.spec("A7", "O1")
def test_a_share_group_reads_and_is_described_with_the_rights_it_needs(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str, group: str
) -> None:
    cluster_admin.allow_consume(alice, topic, group)
    filled(gate, topic)

    read = consume(gate, alice, topic, group)
    described = gate.tools(alice.name).run("kafka-share-groups", "--describe", "--group", group, "--offsets")
    listed = gate.tools(alice.name).run("kafka-share-groups", "--list")

    assert sorted(read.stdout.splitlines()) == sorted(RECORDS), read.said
    assert f"{group} {topic} 0" in " ".join(described.stdout.split()), described.said
    assert group in listed.stdout.split(), listed.said


@pytest.mark.long
@pytest.mark.spec("Q14")
def test_share_consumers_with_a_quota_read_everything_and_no_faster(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str, group: str, tmp_path: Path
) -> None:
    """Many of their requests are not sent, so their sessions at the broker are behind."""
    cluster_admin.allow_consume(alice, topic, group)
    limited = gate.tools("admin").run(
        *("kafka-configs", "--alter", "--entity-type", "users", "--entity-name", alice.name),
        *("--add-config", f"consumer_byte_rate={LIMIT}"),
    )
    assert limited.returncode == 0, limited.said
    tool = "kafka-console-share-consumer"
    command = gate.tools(alice.name).command(tool, "--topic", topic, "--group", group)
    consumers = [
        ChildProcess(f"share consumer {number}", command, tmp_path / f"consumer-{number}.log")
        for number in range(2)
    ]
    records = [f"order-{number}-".ljust(RECORD_BYTES, "x") for number in range(COUNT)]
    produced = gate.tools("admin").run(
        *("kafka-console-producer", "--topic", topic, "--command-property", "batch.size=8000"),
        stdin="".join(f"{record}\n" for record in records),
    )
    assert produced.returncode == 0, produced.said

    def read() -> list[str]:
        texts = "\n".join(consumer.log_text() for consumer in consumers)
        return [line for line in texts.splitlines() if line.startswith("order-")]

    for consumer in consumers:
        consumer.start()
    try:
        consumers[0].wait_until(lambda: bool(read()), 3 * TIMEOUT_MS)
        began_ms = now_ms()
        consumers[0].wait_until(lambda: len(read()) >= COUNT, 2 * TIMEOUT_MS)
        took_s = (now_ms() - began_ms) / 1_000
    finally:
        for consumer in consumers:
            consumer.stop()

    assert sorted(read()) == sorted(records)
    assert took_s > COUNT * RECORD_BYTES / LIMIT - 2 * WINDOW_S


@pytest.mark.long
@pytest.mark.spec("A7")
@pytest.mark.parametrize(
    ("missing", "error"),
    [("group", "GroupAuthorizationException"), ("topic", "TopicAuthorizationException")],
)
def test_a_share_consumer_without_read_gets_no_record(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str, group: str, missing: str, error: str
) -> None:
    cluster_admin.allow(alice, "DESCRIBE", topic=topic)
    if missing == "topic":
        cluster_admin.allow(alice, "READ", group=group)
    else:
        cluster_admin.allow(alice, "READ", topic=topic)
    filled(gate, topic)

    read = consume(gate, alice, topic, group)

    assert error in read.said
    assert "order-" not in read.stdout


@pytest.mark.long
@pytest.mark.spec("A7", "S5")
def test_a_share_consumer_that_may_read_no_more_is_told_and_another_gets_what_it_missed(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str, group: str, tmp_path: Path
) -> None:
    cluster_admin.allow_consume(alice, topic, group)
    filled(gate, topic)
    tool = "kafka-console-share-consumer"
    command = gate.tools(alice.name).command(tool, "--topic", topic, "--group", group)
    reading = ChildProcess("the share consumer", command, tmp_path / "consumer.log")

    reading.start()
    try:
        reading.wait_until(lambda: RECORDS[-1] in reading.log_text(), TIMEOUT_MS)
        described = gate.tools("admin").run("kafka-share-groups", "--describe", "--group", group, "--offsets")
        *_, lag = described.stdout.split()
        assert lag == "0", described.said
        cluster_admin.deny(alice, "READ", topic=topic)
        reading.wait(TIMEOUT_MS)
        assert "TopicAuthorizationException" in reading.log_text()
    finally:
        reading.stop()
    filled(gate, topic)
    bob = cluster_admin.user(f"bob-{topic}")
    cluster_admin.allow_consume(bob, topic, group)

    assert sorted(consume(gate, bob, topic, group).stdout.splitlines()) == sorted(RECORDS)


async def streams_heartbeat(gate: Gate, user: User, group: str, source: str) -> Any:
    """A member that brings a topology of one topic and one changelog."""
    endpoint = channel_settings(user, gate.entrance().bootstrap, client_id="streams")
    request = t.StreamsGroupHeartbeatRequest
    part = request.Subtopology(
        subtopology_id="0",
        source_topics=[source],
        state_changelog_topics=[request.TopicInfo(name=f"{group}-store-changelog", replication_factor=1)],
    )
    async with await Channel.open(endpoint) as channel:
        while True:
            answer = await channel.request(
                ApiKey.STREAMS_GROUP_HEARTBEAT,
                0,
                request(
                    group_id=group,
                    member_id="one",
                    process_id="p",
                    rebalance_timeout_ms=10_000,
                    topology=request.Topology(epoch=1, subtopologies=[part]),
                    active_tasks=[],
                    standby_tasks=[],
                    warmup_tasks=[],
                ),
            )
            if answer.error_code not in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                return answer
            await asyncio.sleep(0.2)


@pytest.mark.spec("A7")
def test_a_streams_member_is_taken_with_its_topics_allowed_and_else_refused(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    group, changelog = f"app-{topic}", f"app-{topic}-store-changelog"

    def heard() -> Any:
        return asyncio.run(streams_heartbeat(gate, alice, group, topic))

    assert heard().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    cluster_admin.allow(alice, "READ", group=group)
    cluster_admin.allow(alice, "READ", topic=topic)
    assert heard().error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    cluster_admin.allow(alice, "DESCRIBE", topic=changelog)
    without_create = heard()
    cluster_admin.allow(alice, "CREATE", topic=changelog)
    taken = heard()

    told = (
        f"{without_create.error_message} {[status.status_detail for status in without_create.status or ()]}"
    )
    assert f"Unauthorized to CREATE on topics {changelog}." in told
    assert (taken.error_code, taken.member_id) == (ErrorCode.NONE, "one")
