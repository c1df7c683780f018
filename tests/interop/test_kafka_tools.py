"""Kafka's own command-line tools through the gate: each works when allowed, else fails as at a broker.

Quotas are set with them in test_quota_types, records sent and read in the demo.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.lab.cluster.tools import KafkaTools, ToolRun
from tests.lab.cluster.users import User
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def _together(tools: KafkaTools, *calls: tuple[str, ...]) -> list[ToolRun]:
    """Run that do not depend on one another, two at a time: each is mostly a JVM's start."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(lambda call: tools.run(*call), calls))


@pytest.mark.spec("A7", "E2", "O1")
def test_topics_are_created_listed_described_and_deleted_by_one_who_may(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User
) -> None:
    cluster_admin.allow(alice, "CREATE", "DESCRIBE", "DELETE", topic="orders")
    cluster_admin.allow(alice, "DESCRIBE_CONFIGS", topic="orders")
    tools = gate.tools(alice.name)

    created = tools.run(
        "kafka-topics",
        "--create",
        "--topic",
        "orders",
        "--partitions",
        "3",
        "--config",
        "retention.ms=86400000",
    )
    listed, described = _together(
        tools, ("kafka-topics", "--list"), ("kafka-topics", "--describe", "--topic", "orders")
    )
    deleted = tools.run("kafka-topics", "--delete", "--topic", "orders")

    assert created.stdout == "Created topic orders.\n", created.said
    assert listed.stdout == "orders\n", listed.said
    assert "PartitionCount: 3" in described.stdout, described.said
    assert "retention.ms=86400000" in described.stdout
    assert deleted.returncode == 0, deleted.said
    assert tools.run("kafka-topics", "--list").stdout.strip() == ""


@pytest.mark.spec("A7", "E3")
def test_topics_are_hidden_from_and_refused_to_one_who_may_not(gate: Gate, alice: User, topic: str) -> None:
    created, listed, described, deleted = _together(
        gate.tools(alice.name),
        ("kafka-topics", "--create", "--topic", "forbidden"),
        ("kafka-topics", "--list"),
        ("kafka-topics", "--describe", "--topic", topic),
        ("kafka-topics", "--delete", "--topic", topic),
    )

    assert "Authorization failed" in created.said or "TopicAuthorizationException" in created.said
    assert created.returncode == 1
    assert listed.stdout.strip() == ""
    assert f"Topic '{topic}' does not exist as expected" in described.said
    assert f"Topic '{topic}' does not exist as expected" in deleted.said


@pytest.mark.spec("A7")
def test_console_producer_and_consumer_are_refused_as_a_broker_refuses_them(
    gate: Gate, alice: User, topic: str
) -> None:
    tools = gate.tools(alice.name)

    produced = tools.run("kafka-console-producer", "--topic", topic, stdin="one\n")
    consumed = tools.run("kafka-console-consumer", "--topic", topic)

    for run in (produced, consumed):
        assert f"Not authorized to access topics: [{topic}]" in run.said


@pytest.mark.spec("S8", "E2")
def test_acls_are_added_listed_and_removed_by_one_who_may(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User
) -> None:
    cluster_admin.allow(alice, "ALTER", "DESCRIBE", cluster=True)
    tools = gate.tools(alice.name)
    acl = ("--topic", "acl-", "--resource-pattern-type", "prefixed", "--allow-principal", "User:carol")

    added = tools.run("kafka-acls", "--add", *acl, "--operation", "Read", "--operation", "Write")
    listed = tools.run("kafka-acls", "--list", "--principal", "User:carol")
    matching = tools.run("kafka-acls", "--list", "--topic", "acl-orders", "--resource-pattern-type", "match")
    removed = tools.run("kafka-acls", "--remove", "--force", *acl, "--operation", "Read")
    left = tools.run("kafka-acls", "--list", "--principal", "User:carol")

    assert added.returncode == 0, added.said
    for run in (listed, matching):
        assert "resourceType=TOPIC, name=acl-, patternType=PREFIXED" in run.stdout, run.said
        assert "principal=User:carol, host=*, operation=READ, permissionType=ALLOW" in run.stdout
        assert "principal=User:carol, host=*, operation=WRITE, permissionType=ALLOW" in run.stdout
    assert removed.returncode == 0, removed.said
    assert "operation=WRITE" in left.stdout
    assert "operation=READ" not in left.stdout


@pytest.mark.spec("S12", "S8")
def test_a_network_that_is_denied_with_kafka_acls_is_denied_to_a_producer_in_it(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    tools, admin_tools = gate.tools(alice.name), gate.tools("admin")
    acl = ("--topic", topic, "--deny-principal", f"User:{alice.name}", "--operation", "Write")

    def produce(*options: str) -> ToolRun:
        return tools.run("kafka-console-producer", "--topic", topic, *options, stdin="one\n")

    elsewhere = admin_tools.run("kafka-acls", "--add", *acl, "--deny-host", "10.0.0.0/8")
    allowed = produce()
    here = admin_tools.run("kafka-acls", "--add", *acl, "--deny-host", "127.0.0.0/8")
    # The defaults since 3.0.
    idempotent = ("--producer-property", "enable.idempotence=true", "--producer-property", "acks=all")
    denied_by_type = produce(*idempotent)
    denied = produce("--producer-property", "enable.idempotence=false")
    listed = admin_tools.run("kafka-acls", "--list", "--topic", topic)
    removed = admin_tools.run("kafka-acls", "--remove", "--force", *acl, "--deny-host", "127.0.0.0/8")
    again = produce()

    assert (elsewhere.returncode, here.returncode, removed.returncode) == (0, 0, 0), here.said
    assert "host=127.0.0.0/8, operation=WRITE, permissionType=DENY" in listed.stdout, listed.said
    for run in (allowed, again):
        assert "Not authorized" not in run.said
        assert run.returncode == 0, run.said
    assert f"Not authorized to access topics: [{topic}]" in denied.said
    # An idempotent producer needs WRITE on some topic, and has it on none now.
    assert "ClusterAuthorizationException" in denied_by_type.said


@pytest.mark.spec("S8", "E3")
def test_acls_are_refused_to_one_who_may_not(gate: Gate, alice: User) -> None:
    acl = ("--topic", "acl", "--allow-principal", "User:carol", "--operation", "Read")
    runs = _together(
        gate.tools(alice.name),
        ("kafka-acls", "--add", *acl),
        ("kafka-acls", "--list"),
        ("kafka-acls", "--remove", "--force", *acl),
    )

    for run in runs:
        assert "ClusterAuthorizationException" in run.said
        assert run.returncode == 1


@pytest.mark.spec("R9", "E2")
def test_scram_users_are_added_described_used_and_deleted_by_one_who_may(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User
) -> None:
    cluster_admin.allow(alice, "ALTER", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS", cluster=True)
    tools = gate.tools(alice.name)
    dave = gate.add_user(f"dave-of-{alice.name}", "SCRAM-SHA-512")
    entity = ("--entity-type", "users", "--entity-name", dave.name)
    secret = f"SCRAM-SHA-512=[iterations=8192,password={dave.password}]"

    added = tools.run("kafka-configs", "--alter", *entity, "--add-config", secret)
    described = tools.run("kafka-configs", "--describe", *entity)
    logged_in = gate.tools(dave.name).run("kafka-topics", "--list")
    tools.run("kafka-configs", "--alter", *entity, "--delete-config", "SCRAM-SHA-512")
    refused = gate.tools(dave.name).run("kafka-topics", "--list")

    assert added.returncode == 0, added.said
    assert "SCRAM-SHA-512=iterations=8192" in described.stdout, described.said
    assert logged_in.returncode == 0, logged_in.said
    assert "Authentication failed" in refused.said


@pytest.mark.spec("Q8", "R9", "E3")
def test_quotas_and_scram_users_are_refused_to_one_who_may_not(gate: Gate, alice: User) -> None:
    entity = ("--entity-type", "users", "--entity-name", "carol")
    quota = ("--add-config", "producer_byte_rate=1024")
    secret = ("--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")

    runs = _together(
        gate.tools(alice.name),
        ("kafka-configs", "--alter", *entity, *quota),
        ("kafka-configs", "--describe", *entity),
        ("kafka-configs", "--alter", *entity, *secret),
    )

    for run in runs:
        assert "ClusterAuthorizationException" in run.said
        assert run.returncode == 1


@pytest.mark.spec("E2", "A7")
def test_topic_configs_are_changed_and_described_by_one_who_may_and_by_nobody_else(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tools = gate.tools(alice.name)

    refused = tools.run("kafka-configs", "--alter", *entity, "--add-config", "retention.ms=3600000")
    cluster_admin.allow(alice, "ALTER_CONFIGS", "DESCRIBE_CONFIGS", "DESCRIBE", topic=topic)
    changed = tools.run("kafka-configs", "--alter", *entity, "--add-config", "retention.ms=3600000")
    described = tools.run("kafka-configs", "--describe", *entity)

    assert "TopicAuthorizationException" in refused.said
    assert changed.returncode == 0, changed.said
    assert "retention.ms=3600000" in described.stdout


@pytest.mark.spec("R9")
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(gate: Gate, alice: User) -> None:
    gate.users["alice-with-a-guess"] = User(alice.name, alice.mechanism, "guessed")
    gate.add_user("nobody")

    wrong = gate.tools("alice-with-a-guess").run("kafka-topics", "--list")
    unknown = gate.tools("nobody").run("kafka-topics", "--list")

    for run in (wrong, unknown):
        assert "Authentication failed during authentication due to invalid credentials" in run.said
        assert run.returncode == 1


@pytest.mark.spec("O1", "A7")
def test_api_versions_are_told_for_the_one_address_that_clients_know(gate: Gate, alice: User) -> None:
    told = gate.tools(alice.name).run("kafka-broker-api-versions")

    assert told.stdout.startswith(gate.entrance().bootstrap), told.said
    assert "Produce(0)" in told.stdout
    assert "UNSUPPORTED" not in told.stdout.split("Fetch(1)")[0]
