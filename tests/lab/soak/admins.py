"""Several administrators at work through both proxies: ACLs, quotas, configs, topics, users, tokens.

What `admin` (a super user) and the operator (by ACLs) change here is never what another client needs, save
the reader's ACL, which is taken away and given back.
"""

from collections.abc import Callable
from random import Random
from threading import Event
from typing import Any

from confluent_kafka import KafkaException

from tests.lab.cluster.users import librdkafka_settings
from tests.lab.soak import place as P
from tests.lab.soak.place import Place, Side
from tests.lab.soak.tokens import use_tokens
from tests.lab.soak.working import QUIET, Work, quiet
from tests.support.cluster_admin import admin

ASKED_S = 20
_ALTER = ("kafka-configs", "--alter", "--entity-type")
TOOLS = (
    ("kafka-acls", "--list"),
    ("kafka-configs", "--describe", "--entity-type", "users"),
    ("kafka-topics", "--describe"),
    ("kafka-consumer-groups", "--describe", "--all-groups"),
    (*_ALTER, "topics", "--entity-name", P.ORDERS, "--add-config", "retention.ms=86400000"),
    (*_ALTER, "clients", "--entity-name", "of-a-tool", "--add-config", "producer_byte_rate=100000"),
    (*_ALTER, "clients", "--entity-name", "of-a-tool", "--delete-config", "producer_byte_rate"),
)


def administer(place: Place, over: Event) -> None:
    """Two who change this and that, each through a proxy of their own."""
    random = Random(f"{place.seed}/administer")
    clients = [_client(place.first, "admin"), _client(place.second, P.OPERATOR)]
    changes: list[Callable[[Any, Random], None]] = [_acl, _topic, _config, _user, _look]
    while not over.wait(random.uniform(1, 4)):
        with quiet():
            random.choice(changes)(random.choice(clients), random)


def withdraw_and_restore(place: Place, over: Event) -> None:
    """The reader may not read for a while: live sessions feel it."""
    binding = _binding(P.KCAT, "alice", admin.AclOperation.READ)
    client = _client(place.second, "admin")
    while not over.wait(45):
        for change in (client.delete_acls, client.create_acls):
            wanted = _filter(binding) if change == client.delete_acls else binding
            with quiet():
                _done(change([wanted], request_timeout=ASKED_S))
            if over.wait(15):
                break


def mutate(place: Place, over: Event) -> None:
    """One who makes more topics than the controller_mutation_rate allows, asked again as clients are."""
    client = _client(place.first, P.MAKER)
    number = 0
    while not over.wait(60):
        for _ in range(14):
            number += 1
            with quiet():
                _done(
                    client.create_topics(
                        [admin.NewTopic(f"soak-made-{number}", 1, 1)], request_timeout=ASKED_S
                    )
                )
        with quiet():
            made = [name for name in client.list_topics(timeout=20).topics if name.startswith("soak-made-")]
            if made:
                _done(_client(place.first, "admin").delete_topics(made, request_timeout=ASKED_S))


def use_kafkas_tools(place: Place, over: Event) -> None:
    """Kafka's own tools, one after the other: each a JVM, so not often."""
    number = 0
    while not over.wait(150):
        place.sides[number % 2].tools("admin").run(*TOOLS[number % len(TOOLS)])
        number += 1


def _client(side: Side, user: str) -> Any:
    return admin.AdminClient(librdkafka_settings(side.users[user], side.entrance()) | QUIET)


def _acl(client: Any, random: Random) -> None:
    binding = _binding(
        f"soak-acl-{random.randrange(20)}",
        random.choice(("alice", "x")),
        random.choice((admin.AclOperation.READ, admin.AclOperation.WRITE, admin.AclOperation.ALL)),
    )
    if random.random() < 0.5:
        _done(client.create_acls([binding], request_timeout=ASKED_S))
    else:
        _done(client.delete_acls([_filter(binding)], request_timeout=ASKED_S))


def _topic(client: Any, random: Random) -> None:
    name = f"soak-topic-{random.randrange(8)}"
    if random.random() < 0.5:
        _done(client.create_topics([admin.NewTopic(name, 2, 1)], request_timeout=ASKED_S))
    elif random.random() < 0.5:
        _done(
            client.create_partitions(
                [admin.NewPartitions(name, random.randrange(3, 6))], request_timeout=ASKED_S
            )
        )
    else:
        _done(client.delete_topics([name], request_timeout=ASKED_S))


def _config(client: Any, random: Random) -> None:
    entry = admin.ConfigEntry(
        "retention.ms",
        str(random.randrange(10_000_000, 90_000_000)),
        incremental_operation=random.choice((admin.AlterConfigOpType.SET, admin.AlterConfigOpType.DELETE)),
    )
    resource = admin.ConfigResource(admin.ResourceType.TOPIC, P.BULK, incremental_configs=[entry])
    _done(client.incremental_alter_configs([resource], request_timeout=ASKED_S))


def _user(client: Any, random: Random) -> None:
    name, mechanism = f"soak-user-{random.randrange(5)}", admin.ScramMechanism.SCRAM_SHA_256
    wanted = (
        admin.UserScramCredentialUpsertion(name, admin.ScramCredentialInfo(mechanism, 4096), b"secret")
        if random.random() < 0.6
        else admin.UserScramCredentialDeletion(name, mechanism)
    )
    _done(client.alter_user_scram_credentials([wanted], request_timeout=ASKED_S))


def _look(client: Any, random: Random) -> None:
    client.describe_acls(
        _filter(_binding(f"soak-acl-{random.randrange(20)}", "x", admin.AclOperation.READ)),
        request_timeout=ASKED_S,
    ).result(ASKED_S)
    client.list_topics(timeout=ASKED_S)


def _binding(topic: str, user: str, operation: Any) -> Any:
    literal, allow = admin.ResourcePatternType.LITERAL, admin.AclPermissionType.ALLOW
    return admin.AclBinding(admin.ResourceType.TOPIC, topic, literal, f"User:{user}", "*", operation, allow)


def _filter(binding: Any) -> Any:
    return admin.AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )


def _done(futures: dict[Any, Any]) -> None:
    failed: KafkaException | None = None
    for future in futures.values():
        try:
            future.result(timeout=ASKED_S * 2)
        except KafkaException as error:
            failed = error
    if failed is not None:
        raise failed


ADMINISTRATION: tuple[Work, ...] = (administer, withdraw_and_restore, mutate, use_kafkas_tools, use_tokens)
