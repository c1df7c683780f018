"""Processes killed at a bad moment: what was acknowledged before is there afterwards."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.lab.cluster.settings import AUDIT_TOPIC
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User
from tests.support.cluster_admin import ClusterAdmin, admin

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_S = 30
Fact = dict[str, Any]
_names = (f"killed-{number}" for number in itertools.count())


def _create_acl(client: Any, name: str) -> bool:
    """Whether it was acknowledged."""
    topic, literal = admin.ResourceType.TOPIC, admin.ResourcePatternType.LITERAL
    read, allow = admin.AclOperation.READ, admin.AclPermissionType.ALLOW
    (creating,) = client.create_acls(
        [admin.AclBinding(topic, name, literal, "User:x", "*", read, allow)]
    ).values()
    try:
        creating.result(TIMEOUT_S)
    except KafkaException:
        return False
    return True


def _acl_names(client: Any) -> set[str]:
    everything = admin.AclBindingFilter(
        admin.ResourceType.TOPIC,
        None,
        admin.ResourcePatternType.ANY,
        "User:x",
        None,
        admin.AclOperation.ANY,
        admin.AclPermissionType.ANY,
    )
    return {acl.name for acl in client.describe_acls(everything).result(TIMEOUT_S)}


def _facts(stack: Stack, least: int, wanted: Callable[[Fact], bool]) -> list[Fact]:
    """The whole audit topic, once it holds that many of the wanted facts (or 20 s have passed)."""
    consumer = Consumer(
        {"bootstrap.servers": stack.broker.plaintext, "group.id": "t", "enable.auto.commit": False}
    )
    facts: list[Fact] = []
    try:
        consumer.assign([TopicPartition(AUDIT_TOPIC, 0, 0)])
        for _ in range(40):
            if sum(map(wanted, facts)) >= least:
                break
            for message in consumer.consume(5000, timeout=0.5):
                assert message.error() is None
                facts.append(json.loads(message.value() or b"")["data"])
        return facts
    finally:
        consumer.close()


@pytest.mark.spec("E5", "E12")
@pytest.mark.usefixtures("our_controller")
def test_a_killed_controller_loses_no_acknowledged_change(stack: Stack, cluster_admin: ClusterAdmin) -> None:
    client = cluster_admin.client
    before = [name for name in itertools.islice(_names, 20) if _create_acl(client, name)]

    stack.controller.kill()
    stack.controller.start()
    # The proxy goes on looking for a controller until the request's own time-out.
    during = [name for name in itertools.islice(_names, 20) if _create_acl(client, name)]
    stack.wait_for_controller()
    after = [name for name in itertools.islice(_names, 5) if _create_acl(client, name)]

    assert len(before) == 20
    assert len(after) == 5
    assert set(before + during + after) - _acl_names(client) == set()


@pytest.mark.spec("E12", "S3")
def test_a_proxy_that_starts_again_knows_all_acknowledged_changes(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User
) -> None:
    names = [name for name in itertools.islice(_names, 5) if _create_acl(cluster_admin.client, name)]

    stack.proxy.kill()
    stack.start_proxy()

    assert len(names) == 5
    assert set(names) - _acl_names(cluster_admin.client) == set()
    assert stack.tools(alice.name).run("kafka-topics", "--list").returncode == 0


@pytest.mark.spec("D1", "D2", "D3")
@pytest.mark.usefixtures("our_controller")
def test_a_killed_proxy_loses_no_acknowledged_audit_record(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User
) -> None:
    cluster_admin.allow(alice, "ALTER", cluster=True)
    client = ClusterAdmin(stack, alice.name).client
    acknowledged = [name for name in itertools.islice(_names, 50) if _create_acl(client, name)]

    stack.proxy.kill()
    stack.start_proxy()

    principal = f"User:{alice.name}"
    events = ("forwarded", "forwarded_received")
    facts = _facts(stack, 100, lambda fact: fact["principal"] == principal and fact["event"] in events)
    forwarded, received = (
        {fact["forward_id"] for fact in facts if (fact["event"], fact["principal"]) == (event, principal)}
        for event in events
    )
    assert len(acknowledged) == 50
    assert len(forwarded) == 50
    assert forwarded == received
    assert _gaps(facts) == []


def _gaps(facts: list[Fact]) -> list[tuple[str, int]]:
    """Sequence numbers that are missing before the last one of a boot."""
    seen: dict[str, set[int]] = {}
    for fact in facts:
        seen.setdefault(f"{fact['proxy_id']}/{fact['boot_id']}", set()).add(fact["sequence"])
    return [
        (boot, number) for boot, have in seen.items() for number in range(max(have)) if number not in have
    ]
