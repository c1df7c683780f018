"""docs/second-day.md: from the last release to this tree and back, under clients that notice nothing."""

import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.lab.cluster import probe
from tests.lab.cluster.node import CHECKOUT
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import User, librdkafka_settings
from tests.lab.rolling import changing
from tests.support.cluster_admin import TIMEOUT_S, ClusterAdmin, admin, done
from tests.support.earlier_release import audit_with, code_of, installed, last_release
from tests.support.steady_clients import SteadyClients

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

RECONNECTS = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)
"""librdkafka reports them, for information, when the connection to its only broker is opened again."""
QUOTA = "producer_byte_rate=10000000"


class Upgraded:
    """A stack whose proxy and controller each run what their link leads to, as after an installation."""

    def __init__(self, directory: Path, libs: Path, code: Path) -> None:
        self._links = {role: directory / role for role in ("proxy", "controller")}
        for link in self._links.values():
            link.symlink_to(code)
        self.stack = Stack(
            StackSettings(
                directory=directory / "stack",
                libs=libs,
                proxy_environment=code_of(self._links["proxy"]),
                controller_environment=code_of(self._links["controller"]),
            )
        )

    def replace_proxy(self, code: Path) -> None:
        self._install("proxy", code)
        node = self.stack.nodes[0]
        node.proxy.continue_as(changing.restart(node))
        node.wait_until_ready()

    def replace_controller(self, code: Path) -> None:
        self._install("controller", code)
        assert self.stack.controller.stop()
        self.stack.start_controller()

    def _install(self, role: str, code: Path) -> None:
        self._links[role].unlink()
        self._links[role].symlink_to(code)

    def versions(self) -> set[str]:
        """What the processes say they are."""
        ports = (self.stack.wiring.proxy_http, self.stack.wiring.controller_http)
        return {
            series
            for port in ports
            for series in probe.series(port)
            if series.startswith("penstock_build_info")
        }


@pytest.mark.spec("O16")
def test_upgrade_and_rollback_lose_nothing_and_no_client_sees_an_error(
    kafka_libs: Path, tmp_path: Path
) -> None:
    release = last_release()
    old, tree = installed(release, tmp_path / release.version), CHECKOUT
    upgraded = Upgraded(tmp_path, kafka_libs, old)
    stack = upgraded.stack
    places = ("--tables", str(tmp_path / "tables"), "--out", str(tmp_path / "out"))
    keys = ("--public-keys", str(stack.proxy_file.parent / "controllers.pub"))
    run = ("run", "--bootstrap", stack.broker.plaintext, *places, *keys)

    with stack.running():
        assert all(f'"{release.version}"' in version for version in upgraded.versions())
        mary, olga = set_up(stack)
        made = in_effect(stack, mary)
        assert "name=orders" in made
        assert "permissionType=DENY" in made
        assert "producer_byte_rate=1.0E7" in made
        clients = SteadyClients(librdkafka_settings(mary, stack.entrance()), "orders", group="readers")
        with clients.at_work():
            audit_with(old, *run)

            upgraded.replace_proxy(tree)
            clients.wait_for_progress()
            upgraded.replace_controller(tree)
            clients.wait_for_progress()
            assert not any(f'"{release.version}"' in version for version in upgraded.versions())
            assert in_effect(stack, mary) == made
            assert refusals(stack, olga) == {"ledger": None, "secret": "TOPIC_AUTHORIZATION_FAILED"}
            ClusterAdmin(stack, "admin").allow_produce(olga, "secret")

            upgraded.replace_controller(old)
            clients.wait_for_progress()
            upgraded.replace_proxy(old)
            clients.wait_for_progress()
            assert in_effect(stack, mary) == made
            assert refusals(stack, olga) == {"ledger": None, "secret": None}
            ClusterAdmin(stack, "admin").topic("made-after-the-rollback")
        audit_with(tree, *run)

    found = json.loads((tmp_path / "out" / "findings.json").read_text(encoding="utf-8"))
    assert found["findings"] == []
    assert set(found["summary"]["decisions"]) == {"evaluated"}
    assert [error for error in clients.trouble if error.code() not in RECONNECTS] == []
    assert clients.refused == []


def set_up(stack: Stack) -> tuple[User, User]:
    """mary has ACLs, a DENY and a quota; olga owns a topic, and has no ACL."""
    by_admin = ClusterAdmin(stack, "admin")
    mary, olga = by_admin.user("mary"), by_admin.user("olga")
    for topic in ("orders", "secret"):
        by_admin.topic(topic)
    done(by_admin.client.create_topics([admin.NewTopic("ledger", 1, 1, config={"owner": "User:olga"})]))
    by_admin.allow_produce(mary, "orders")
    by_admin.allow_consume(mary, "orders", "readers")
    by_admin.deny(mary, "READ", topic="secret")
    entity = ("--entity-type", "users", "--entity-name", mary.name)
    altered = stack.tools("admin").run("kafka-configs", "--alter", *entity, "--add-config", QUOTA)
    assert altered.returncode == 0, altered.said
    return mary, olga


def in_effect(stack: Stack, user: User) -> str:
    """The ACLs and quotas of a user, as Kafka's tools list them."""
    tools = stack.tools("admin")
    listed = tools.run("kafka-acls", "--list", "--principal", f"User:{user.name}")
    described = tools.run("kafka-configs", "--describe", "--entity-type", "users", "--entity-name", user.name)
    assert (listed.returncode, described.returncode) == (0, 0), listed.said + described.said
    return "\n".join(sorted((listed.stdout + described.stdout).splitlines()))


def refusals(stack: Stack, user: User) -> dict[str, str | None]:
    """The error that a record of this user got, for each topic."""
    errors: dict[str, str | None] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        errors[message.topic() or ""] = None if error is None else error.name()

    producer = Producer(librdkafka_settings(user, stack.entrance()))
    for topic in ("ledger", "secret"):
        producer.produce(topic, b"a record", on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    return errors
