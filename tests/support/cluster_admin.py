"""Sets the stage for an interop test through the gate, as `admin` with librdkafka: users, ACLs, topics.

A JVM tool takes a second for each of these; here they take milliseconds, so each test has users of its own.
"""

import importlib
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaException

from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.gates import Gate

TIMEOUT_S = 20

# Its names are not exported in mypy's sense.
admin: Any = importlib.import_module("confluent_kafka.admin")


class ClusterAdmin:
    def __init__(self, gate: Gate, user: str = "admin", broker: str | None = None) -> None:
        """`broker`: the address of a broker's listener without logins, in place of the gate's entrance."""
        self._gate, self._user, self._broker = gate, user, broker
        entrance = librdkafka_settings(gate.users[user], gate.entrance())
        self.client = admin.AdminClient(entrance if broker is None else {"bootstrap.servers": broker})

    def afresh(self) -> "ClusterAdmin":
        """The same with a client that has nothing cached."""
        return ClusterAdmin(self._gate, self._user, self._broker)

    def user(self, name: str, mechanism: str = "SCRAM-SHA-256") -> User:
        """A new user of the cluster, without rights."""
        user = self._gate.add_user(name, mechanism)
        done(self.client.alter_user_scram_credentials([upsertion(user)]))
        return user

    def topic(self, name: str, partitions: int = 1) -> str:
        done(
            self.client.create_topics([admin.NewTopic(name, num_partitions=partitions, replication_factor=1)])
        )
        return name

    def allow(
        self, user: User, *operations: str, cluster: bool = False, prefixed: bool = False, **resource: str
    ) -> None:
        """ALLOW from any host on one resource (topic=, group=, transactional_id=) or the cluster."""
        on = {"broker": "kafka-cluster"} if cluster else resource
        self._create_acls(user, operations, on, "ALLOW", "PREFIXED" if prefixed else "LITERAL")

    def deny(self, user: User, *operations: str, **resource: str) -> None:
        self._create_acls(user, operations, resource, "DENY")

    def allow_produce(self, user: User, topic: str) -> None:
        self.allow(user, "WRITE", "DESCRIBE", topic=topic)

    def allow_consume(self, user: User, topic: str, group: str) -> None:
        self.allow(user, "READ", "DESCRIBE", topic=topic)
        self.allow(user, "READ", group=group)

    def _create_acls(
        self,
        user: User,
        operations: Iterable[str],
        resource: dict[str, str],
        permission: str,
        pattern: str = "LITERAL",
    ) -> None:
        ((kind, name),) = resource.items()
        bindings = [
            admin.AclBinding(
                admin.ResourceType[kind.upper()],
                name,
                admin.ResourcePatternType[pattern],
                f"User:{user.name}",
                "*",
                admin.AclOperation[operation],
                admin.AclPermissionType[permission],
            )
            for operation in operations
        ]
        done(self.client.create_acls(bindings))


def upsertion(user: User) -> Any:
    """The SCRAM credential of that user."""
    mechanism = admin.ScramMechanism[user.mechanism.replace("-", "_")]
    info = admin.ScramCredentialInfo(mechanism, 4096)
    return admin.UserScramCredentialUpsertion(user.name, info, user.password.encode())


def done(futures: Mapping[Any, Any]) -> None:
    """Wait for each; raise the first error."""
    for future in futures.values():
        future.result(timeout=TIMEOUT_S)


def error_name(failure: KafkaException) -> str:
    """Kafka's name of the error that a broker (or the gate) gave, as librdkafka tells it."""
    name: str = failure.args[0].name()
    return name


@pytest.fixture(scope="session")
def cluster_admin(gate: Gate) -> ClusterAdmin:
    return ClusterAdmin(gate)


_numbers = itertools.count(1)


@pytest.fixture
def alice(cluster_admin: ClusterAdmin) -> User:
    """A user of this test alone, without rights."""
    return cluster_admin.user(f"alice-{next(_numbers)}")


@pytest.fixture
def topic(cluster_admin: ClusterAdmin) -> str:
    """A topic of this test alone."""
    return cluster_admin.topic(f"topic-{next(_numbers)}")
