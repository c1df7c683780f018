"""The stack of a soak: one broker, two proxies before it, our controller, and listeners of every kind.

Makes the users, topics and ACLs that the clients of tests.lab.soak work with. Knows nothing of what they do.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from proxy.net.kafka.channel import EndpointSettings
from tests.lab.cluster import settings
from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.node import Node, node
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.stack import LISTENERS, Stack, StackSettings
from tests.lab.cluster.tools import KafkaTools
from tests.lab.cluster.users import Entrance, User, channel_settings, java_properties
from tests.support.cluster_admin import ClusterAdmin
from tests.support.identity_provider import AUDIENCE, ISSUER
from tests.support.office_certificates import OfficeCertificates
from tests.support.running_provider import RunningProvider

REAUTH_MS = 15_000
TOKEN_S = 30
TOKENS, MUTUAL = "TOKENS", "MUTUAL"
ORDERS, BULK, KCAT, COUNTED = "soak-orders", "soak-bulk", "soak-kcat", "soak-counted"
GROUP, TRANSACTIONS = "soak-readers", "soak-transactions"
BEARER, MEMBER = "soak-bearer", "soak-member"
OPERATOR, MAKER, HEAVY, BUSY, STRANGER = "olga", "maker", "heavy", "busy", "stranger"
HEAVY_BYTE_RATE = 40_000
BUSY_PERCENTAGE = 2
MAKER_RATE = 1


@dataclass
class Side:
    """One of the two proxies: a gate as tests.support.gates has it."""

    stack: Stack
    node: Node
    tokens: str
    mutual: str
    users: dict[str, User]

    def entrance(self, listener: str = "SASL_PLAINTEXT") -> Entrance:
        bootstrap = self.node.wiring.listeners[listener]
        return Entrance(bootstrap, self.stack.tls.ca if listener == "SASL_SSL" else None)

    def add_user(self, name: str, mechanism: str = "SCRAM-SHA-256") -> User:
        return self.stack.add_user(name, mechanism)

    def tools(self, user: str, listener: str = "SASL_PLAINTEXT") -> KafkaTools:
        path = self.stack.directory / "clients" / f"{user}-{self.node.number}-{listener}.properties"
        path.parent.mkdir(exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(java_properties(self.users[user], self.entrance(listener)), encoding="utf-8")
        return KafkaTools(self.stack.libs, self.entrance(listener).bootstrap, path)

    def endpoint(
        self, user: User, listener: str = "SASL_PLAINTEXT", client_id: str = "soak"
    ) -> EndpointSettings:
        return channel_settings(user, self.entrance(listener).bootstrap, client_id=client_id)


@dataclass(frozen=True)
class Place:
    """Both sides, and what clients need besides a password."""

    stack: Stack
    sides: tuple[Side, Side]
    provider: RunningProvider
    certificates: OfficeCertificates
    seed: int

    @property
    def first(self) -> Side:
        return self.sides[0]

    @property
    def second(self) -> Side:
        return self.sides[1]


@contextmanager
def a_place(directory: Path, libs: Path, seed: int) -> Iterator[Place]:
    """Everything up, with its users and topics; down again at the end."""
    stack = Stack(StackSettings(directory=directory, libs=libs, reauth_ms=REAUTH_MS))
    provider = RunningProvider(TOKEN_S)
    certificates = OfficeCertificates(directory / "certificates")
    with provider.running():
        sides = _side(stack, stack.nodes[0], provider, certificates), _second(stack, provider, certificates)
        place = Place(stack, sides, provider, certificates, seed)
        try:
            stack.start()
            sides[1].node.start_proxy()
            _furnish(place)
            yield place
        finally:
            for stop in (sides[1].node.proxy.stop, stack.stop):
                stop()


def _second(stack: Stack, provider: RunningProvider, certificates: OfficeCertificates) -> Side:
    """A proxy more before the only broker; the controller is told of it."""
    *entrances, http = free_addresses(len(LISTENERS) + 1)
    wiring = replace(
        stack.wiring,
        node_id=2,
        listeners=dict(zip(LISTENERS, entrances, strict=True)),
        proxy_http=http,
        proxy=User("proxy-2", "PLAIN", secrets.token_urlsafe(16)),
    )
    proxies = [stack.wiring.proxy, wiring.proxy]
    settings.write_controller(stack.controller_file.parent, stack.wiring, proxies, {})
    other = node(stack.directory, stack.broker, wiring, stack.tls, {})
    return _side(stack, other, provider, certificates)


def _side(stack: Stack, node: Node, provider: RunningProvider, certificates: OfficeCertificates) -> Side:
    """With two listeners more: for tokens, and for certificates."""
    tokens, mutual = free_addresses(2)
    document = yaml.safe_load(node.proxy_file.read_text(encoding="utf-8"))
    issued = certificates.issue(f"listener-{node.number}")
    tls = {"certificate": str(issued.certificate), "key": str(issued.key), "ca": str(certificates.ca)}
    document["listeners"] += [
        {
            "name": TOKENS,
            "bind": tokens,
            "connections.max.reauth.ms": REAUTH_MS,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ["OAUTHBEARER"],
            "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/certs",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": [AUDIENCE],
        },
        {
            "name": MUTUAL,
            "bind": mutual,
            "security.protocol": "SSL",
            "ssl": tls | {"client.auth": "required", "principal.mapping.rules": "RULE:^CN=([^,]*),.*$/$1/"},
        },
    ]
    node.proxy_file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return Side(stack, node, tokens, mutual, stack.users)


def _furnish(place: Place) -> None:
    place.stack.create_users("alice", "bob")
    admin = ClusterAdmin(place.first)
    for name, partitions in ((ORDERS, 3), (BULK, 1), (KCAT, 1), (COUNTED, 1)):
        admin.topic(name, partitions)
    users = {name: admin.user(name) for name in (OPERATOR, MAKER, HEAVY, BUSY, STRANGER, "counted")}
    alice, bob = place.stack.users["alice"], place.stack.users["bob"]
    for user in (alice, _named(BEARER), _named(MEMBER)):
        admin.allow_produce(user, ORDERS)
    for topic in (ORDERS, BULK, KCAT):
        admin.allow_consume(bob, topic, GROUP)
    admin.allow(alice, "READ", topic=KCAT)
    admin.allow_produce(alice, KCAT)
    admin.allow(alice, "WRITE", "DESCRIBE", transactional_id=TRANSACTIONS)
    admin.allow_produce(users[HEAVY], BULK)
    admin.allow_consume(users[HEAVY], BULK, "soak-heavy")
    admin.allow(users[BUSY], "DESCRIBE", topic=ORDERS)
    admin.allow_produce(users["counted"], COUNTED)
    admin.allow(users["counted"], "READ", topic=COUNTED)
    admin.allow(users[MAKER], "CREATE", cluster=True)
    admin.allow(
        users[OPERATOR], "ALTER", "DESCRIBE", "CREATE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS", cluster=True
    )
    _limit(place, {HEAVY: {"producer_byte_rate": HEAVY_BYTE_RATE, "consumer_byte_rate": HEAVY_BYTE_RATE}})
    _limit(
        place,
        {BUSY: {"request_percentage": BUSY_PERCENTAGE}, MAKER: {"controller_mutation_rate": MAKER_RATE}},
    )


def _limit(place: Place, limits: Mapping[str, Mapping[str, float]]) -> None:
    def alter(user: str, values: Mapping[str, float]) -> Any:
        wanted = ",".join(f"{key}={value}" for key, value in values.items())
        entity = ("--entity-type", "users", "--entity-name", user)
        return place.first.tools("admin").run("kafka-configs", "--alter", *entity, "--add-config", wanted)

    for done in at_once([partial(alter, user, values) for user, values in limits.items()]):
        assert done.returncode == 0, done.said


def _named(name: str) -> User:
    """For ACLs; who they are is told by a token or a certificate."""
    return User(name, "", "")
