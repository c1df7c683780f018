"""Owners of topics with Kafka's own tools and librdkafka, through proxy, controller and broker."""

import pytest

from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User
from tests.support.cluster_admin import TIMEOUT_S, ClusterAdmin, admin
from tests.support.gates import Gate
from tests.support.named_configs import topic_configs

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.spec("A6"),
    pytest.mark.usefixtures("our_controller"),
]


@pytest.fixture
def olga(cluster_admin: ClusterAdmin) -> User:
    return cluster_admin.user("olga")


def created(cluster_admin: ClusterAdmin, name: str, **configs: str) -> None:
    wanted = admin.NewTopic(name, num_partitions=1, replication_factor=1, config=configs)
    for future in cluster_admin.client.create_topics([wanted]).values():
        future.result(timeout=TIMEOUT_S)


def _configs(described: str) -> str:
    """The topic's configs, as kafka-topics prints them."""
    return described.partition("Configs:")[2].partition("\n")[0].strip()


@pytest.mark.spec("O11")
def test_an_owner_named_at_creation_does_all_with_the_topic_until_it_is_deleted(
    gate: Gate, stack: Stack, cluster_admin: ClusterAdmin, olga: User, topic_name: str
) -> None:
    created(
        cluster_admin, topic_name, owner="User:olga", acls="User:eve:READ:deny", **{"retention.ms": "600000"}
    )
    tools = gate.tools(olga.name)

    produced = tools.run("kafka-console-producer", "--topic", topic_name, stdin="one\n")
    named = topic_configs(stack, olga, topic_name, "owner", "acls")
    described = tools.run("kafka-topics", "--describe", "--topic", topic_name)
    broker_says = stack.tools_at_the_broker().run("kafka-topics", "--describe", "--topic", topic_name)
    deleted = tools.run("kafka-topics", "--delete", "--topic", topic_name)

    assert produced.returncode == 0, produced.said
    assert named == {"owner": "User:olga", "acls": "User:eve:READ:deny:*"}
    assert "retention.ms=600000" in described.stdout, described.said
    assert _configs(described.stdout) == _configs(broker_says.stdout)
    assert deleted.returncode == 0, deleted.said


def test_kafka_configs_changes_owner_and_acls_with_a_config_of_the_brokers(
    gate: Gate, stack: Stack, cluster_admin: ClusterAdmin, olga: User, topic: str
) -> None:
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    as_admin, as_olga = gate.tools("admin"), gate.tools(olga.name)

    changed = as_admin.run(
        "kafka-configs",
        "--alter",
        *of_topic,
        "--add-config",
        "owner=User:olga,acls=[User:bob:READ+DESCRIBE:allow:*;User:eve:ALL:deny:10.0.0.9],retention.ms=700000",
    )
    named = topic_configs(stack, olga, topic, "owner", "acls", "retention.ms")
    described = as_olga.run("kafka-configs", "--describe", *of_topic)
    denied = as_olga.run("kafka-configs", "--alter", *of_topic, "--add-config", "acls=User:bob:READ:allow")
    handed_over = as_olga.run("kafka-configs", "--alter", *of_topic, "--add-config", "owner=User:bob")

    assert changed.returncode == 0, changed.said
    acls = "User:eve:ALL:deny:10.0.0.9;User:bob:READ+DESCRIBE:allow:*"
    assert named == {"owner": "User:olga", "acls": acls, "retention.ms": "700000"}
    assert "retention.ms=700000" in described.stdout, described.said
    assert "owner=" not in described.stdout
    assert "acls=" not in described.stdout
    assert "that needs ALTER on the cluster" in denied.said
    assert handed_over.returncode == 0, handed_over.said


def test_kafka_topics_ends_before_it_connects(gate: Gate, topic_name: str) -> None:
    """When this fails Kafka's tool has come to let `owner` through, and the page says so no longer."""
    refused = gate.tools("admin").run(
        "kafka-topics", "--create", "--topic", topic_name, "--config", "owner=User:olga"
    )

    assert "Unknown topic config name: owner" in refused.said
