"""Every record that a stack has made tells what its kind has to, and is an event as CloudEvents has it."""

import json
import threading
from dataclasses import replace

import pytest
from confluent_kafka import KafkaException, Producer

from tests.contract.audit_rules import faults
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.audit_topic import lines
from tests.support.cluster_admin import ClusterAdmin, admin

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("D1", "D2")]

EVENTS = {
    "started",
    "authentication",
    "authentication_failed",
    "authorization",
    "authorization_summary",
    "forwarded",
    "forwarded_received",
    "quota_changed",
    "throttled",
}
"""What the test brings about itself; tests before it have brought more."""
NOT_ENABLED = {
    "sasl.mechanism": "OAUTHBEARER",
    "enable.sasl.oauthbearer.unsecure.jwt": True,
    "sasl.oauthbearer.config": "principal=anybody",
}
"""A mechanism that the listener does not offer: its failure is recorded without one."""


@pytest.mark.usefixtures("our_controller")
def test_every_record_of_the_trail_tells_what_its_kind_has_to(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    tool = stack.tools("admin")
    quota = ("--alter", "--add-config", "producer_byte_rate=1000", "--entity-type", "users", "--entity-name")
    assert tool.run("kafka-configs", *quota, alice.name).returncode == 0
    client = Producer(librdkafka_settings(alice, stack.entrance()))
    for _ in range(3):
        client.produce(topic, b"v" * 8_000)
        assert client.flush(60) == 0
    with pytest.raises(KafkaException):
        ClusterAdmin(stack, alice.name).topic("not-for-alice")
    stranger = replace(alice, password="not hers")
    with pytest.raises(KafkaException):
        admin.AdminClient(librdkafka_settings(stranger, stack.entrance())).list_topics(timeout=5)
    of_another_house = librdkafka_settings(alice, stack.entrance()) | NOT_ENABLED
    with pytest.raises(KafkaException):
        admin.AdminClient(of_another_house).list_topics(timeout=5)

    found = trail_with(stack, EVENTS)

    assert faults(found) == []


def trail_with(stack: Stack, wanted: set[str]) -> list[bytes]:
    """The whole topic, once it has all of these events."""
    pause, have = threading.Event(), set[str]()
    for _ in range(120):
        found = lines(stack.broker.plaintext)
        have = {json.loads(line)["data"]["event"] for line in found}
        if wanted <= have:
            return found
        pause.wait(0.5)
    raise AssertionError(f"without {wanted - have} after a minute")


@pytest.mark.spec("D12")
@pytest.mark.usefixtures("our_controller")
def test_what_kafkas_tools_change_is_named_with_its_outcome(stack: Stack) -> None:
    tool = stack.tools("admin")
    calls = [
        "kafka-topics --create --topic payroll --partitions 2 --config retention.ms=5000",
        "kafka-configs --alter --entity-type broker-loggers --entity-name 1"
        " --add-config kafka.server.KafkaApis=DEBUG",
        "kafka-configs --alter --entity-type brokers --entity-name 1"
        " --add-config listener.name.x.ssl.keystore.password=hunter2",
        "kafka-consumer-groups --group payroll-readers --topic payroll:1 --reset-offsets"
        " --to-earliest --execute",
        "kafka-consumer-groups --group payroll-readers --delete",
    ]
    for call in calls:
        run = tool.run(*call.split())
        assert run.returncode == 0 or "hunter2" in call, run.said

    key = "kafka.server.KafkaApis"
    wanted = {
        ("CreateTopics", "TOPIC", "payroll", "CREATE", None, None, "NONE"),
        ("CreateTopics", "TOPIC", "payroll", "SET_CONFIG", "retention.ms", "5000", "NONE"),
        ("IncrementalAlterConfigs", "BROKER_LOGGER", "1", "SET_CONFIG", key, "DEBUG", "NONE"),
        ("OffsetCommit", "GROUP", "payroll-readers", "ALTER_OFFSETS", None, None, "NONE"),
        ("DeleteGroups", "GROUP", "payroll-readers", "DELETE", None, None, "NONE"),
    }
    members = ("type", "name", "operation", "key", "new_value", "error")
    found = trail_with(stack, EVENTS | {"broker_responded", "admin_request"})
    for _ in range(60):
        named = {
            (fact["method"], *(each.get(member) for member in members))
            for fact in (json.loads(line)["data"] for line in found)
            for each in fact["objects"] or ()
        }
        if wanted <= named:
            break
        threading.Event().wait(0.5)
        found = lines(stack.broker.plaintext)
    assert wanted <= named, wanted - named
    hidden = {each[5] for each in named if (each[4] or "").endswith("keystore.password")}
    assert hidden == {"[hidden]"}
    assert not any(b"hunter2" in line for line in found)
    assert faults(found) == []
