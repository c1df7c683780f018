"""What is measured, set up on loopback: a broker, and before it the relay, the whole of Penstock, its peers.

The proxy decides by ACLs on a PLAINTEXT listener, charges the buckets of quotas that nobody reaches, and
writes its audit trail. It has a listener for each way to log in, and so have the broker and the relay, which
passes logins on to the broker. Bulk traffic of real clients uses PLAINTEXT and SSL, whose listeners at the
broker advertise the addresses of the target.
"""

import importlib
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from tests.lab.bench.peers import PEERS, SPLICE, Place
from tests.lab.bench.target import MTLS, PLAIN, SASL, SASL_TLS, TLS, Target, port
from tests.lab.cluster import kafka
from tests.lab.cluster.ports import LOOPBACK, free_addresses
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import User, librdkafka_settings

SMALL_TOPIC, BULK_TOPIC = "bench-small", "bench-bulk"
PARTITIONS = 4
USER = "bench"
"""Known by SCRAM, PLAIN (with the same password) and a certificate."""
OTHER_USERS = tuple(f"user-{number}" for number in range(1_000))
"""Whose ACLs say nothing of the client, so that there is something to look through."""
_OUT_OF_REACH = 1e12  # Bytes per second.
_TIMEOUT_S = 30
_ALL_COMPILERS = ("-XX:TieredStopAtLevel=4",)
"""Tests start faster with the first one only. But without the second one, TLS costs Java 30 times as much."""

_admin: Any = importlib.import_module("confluent_kafka.admin")  # Its names are not exported in mypy's sense.


NULL = "NULL"
"""The place of null_broker.py, and the listener behind it."""


@contextmanager
def targets(
    directory: Path,
    report: Callable[[str], None],
    workers: int = 1,
    *,
    before_null_broker: bool = False,
    beside: Mapping[str, Path | None] = MappingProxyType({}),
) -> Iterator[list[Target]]:
    """`direct`, `relay`, `proxy` and the peers `beside` them, up and ready; everything is stopped at the end.

    With `before_null_broker` the proxy's broker is null_broker.py.
    """
    places = iter(free_addresses(16))
    relayed = {name: next(places) for name in (PLAIN, TLS, MTLS, SASL, SASL_TLS, NULL, SPLICE)}
    behind = {name: next(places) for name in (PLAIN, TLS, NULL, SPLICE)}
    own = {name: next(places) for name in (MTLS, SASL_TLS)}
    opened = {name: next(places) for name in (PLAIN, TLS, MTLS)}
    properties: dict[str, str] = {}
    settings = StackSettings(
        directory=directory, libs=kafka.libs(), broker_properties=properties, broker_flags=_ALL_COMPILERS
    )
    stack = Stack(settings)
    broker, tls = stack.broker, stack.tls
    own |= {PLAIN: broker.plaintext, TLS: broker.ssl, SASL: broker.sasl_plaintext}
    # The broker's own addresses are known only now; it reads the properties when it starts.
    properties |= _properties(stack, own, behind, relayed)
    _open(stack, opened, relayed[NULL] if before_null_broker else broker.plaintext, workers)
    helpers = [_relay(stack, own, behind, relayed)]
    if before_null_broker:
        helpers.append(_null_broker(stack, relayed[NULL], behind[NULL]))
    relay, by_proxy = helpers[0], stack.wiring.listeners
    with ExitStack() as cleanup:
        cleanup.callback(stack.stop)
        for helper in helpers:
            cleanup.callback(helper.stop)
            helper.start()
            helper.wait_until(partial(_listens, helper), _TIMEOUT_S * 1000)
        stack.start(report)
        report("making topics and ACLs")
        user = User(USER, "SCRAM-SHA-256", stack.users["admin"].password)
        _make_topics_users_and_acls(stack, user)
        found = [
            Target("direct", own, [broker.process], user, tls, java=True),
            Target("relay", relayed, [relay], user, tls),
            Target("proxy", {**by_proxy, **opened}, [stack.proxy], user, tls),
        ]
        place = Place(
            directory=directory / "peers",
            broker=broker,
            behind_splice=behind[SPLICE],
            splice=relayed[SPLICE],
            user=user,
            tls=tls,
            other_users=OTHER_USERS,
        )
        for name, where in beside.items():
            peer = PEERS[name](place, where)
            for process in peer.processes:
                cleanup.callback(process.stop)
                process.start()
            for process in peer.processes:
                process.wait_until(partial(_all_listen, peer), _TIMEOUT_S * 1000)
            found.append(peer)
        yield found


def _relay(
    stack: Stack, own: Mapping[str, str], behind: Mapping[str, str], relayed: Mapping[str, str]
) -> ChildProcess:
    files = [str(stack.tls.key_and_certificate), str(stack.tls.ca)]
    ways = [
        (PLAIN, behind[PLAIN], []),
        (TLS, behind[TLS], files[:1]),
        (MTLS, behind[TLS], files),
        (SASL, own[SASL], []),
        (SASL_TLS, own[SASL], files[:1]),
    ]
    words = [",".join([port(relayed[name]), port(to), *more]) for name, to, more in ways]
    command = [sys.executable, str(Path(__file__).with_name("relay.py")), *words]
    return ChildProcess("the relay", command, stack.logs / "relay.log")


def _null_broker(stack: Stack, address: str, broker: str) -> ChildProcess:
    program = str(Path(__file__).with_name("null_broker.py"))
    command = [sys.executable, program, port(address), port(broker)]
    return ChildProcess("the null broker", command, stack.logs / "null_broker.log")


def _all_listen(peer: Target) -> bool:
    for address in peer.addresses.values():
        with socket.socket() as client:
            if client.connect_ex((LOOPBACK, int(port(address)))) != 0:
                return False
    return True


def _listens(helper: ChildProcess) -> bool:
    return "listening" in helper.log_text()


def _properties(
    stack: Stack, own: Mapping[str, str], behind: Mapping[str, str], relayed: Mapping[str, str]
) -> dict[str, str]:
    """Those of the broker: its listeners for the three targets, and how to log in to them."""
    known = f'user_{USER}="{stack.users["admin"].password}"'
    module = "org.apache.kafka.common.security"
    logins = {
        f"listener.name.{listener.lower()}.{mechanism}.sasl.jaas.config": f"{module}.{login} required {more};"
        for listener in (SASL, SASL_TLS)
        for mechanism, login, more in (
            ("scram-sha-256", "scram.ScramLoginModule", ""),
            ("scram-sha-512", "scram.ScramLoginModule", ""),
            ("plain", "plain.PlainLoginModule", known),
        )
    }
    listeners = [f"{name}://{address}" for name, address in own.items()]
    addresses = [f"BEHIND_{name}://{address}" for name, address in behind.items()]
    advertised = [f"BEHIND_{name}://{relayed[name]}" for name in behind]
    protocols = {MTLS: TLS, "CONTROLLER": PLAIN} | {f"BEHIND_{name}": PLAIN for name in behind}
    protocols |= {name: name for name in (PLAIN, TLS, SASL, SASL_TLS)}
    return {
        "listeners": ",".join([*listeners, *addresses, f"CONTROLLER://{stack.broker.controller}"]),
        "advertised.listeners": ",".join([*listeners, *advertised]),
        "listener.security.protocol.map": ",".join(f"{name}:{to}" for name, to in protocols.items()),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(stack.tls.key_and_certificate),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.truststore.type": "PEM",
        "listener.name.mtls.ssl.truststore.location": str(stack.tls.ca),
        # With the default of 50, the kernel drops most of a storm, and what is measured are its retries.
        "socket.listen.backlog.size": "4096",
        **logins,
    }


def _open(stack: Stack, addresses: Mapping[str, str], upstream: str, workers: int) -> None:
    """Add listeners without SASL to the proxy, and name its broker."""
    document = yaml.safe_load(stack.proxy_file.read_text(encoding="utf-8"))
    files = {"certificate": str(stack.tls.certificate), "key": str(stack.tls.key)}
    more = {PLAIN: {}, TLS: {"ssl": files}}
    mapped = {"principal.mapping.rules": f"RULE:^.*$/{USER}/"}
    more[MTLS] = {"ssl": files | {"ca": str(stack.tls.ca), "client.auth": "required"} | mapped}
    document["listeners"] += [
        {"name": name, "bind": addresses[name], "security.protocol": TLS if ssl else PLAIN, **ssl}
        for name, ssl in more.items()
    ]
    document["upstream"] = {"bootstrap": upstream, "security.protocol": "PLAINTEXT"}
    document["workers"] = workers
    document["quota"] = {"producer.default": _OUT_OF_REACH, "consumer.default": _OUT_OF_REACH}
    del document["audit"]["summary.interval.ms"]  # The demo's is short; here the default is to be measured.
    stack.proxy_file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    users_file = stack.proxy_file.with_name("users.yaml")
    users = yaml.safe_load(users_file.read_text(encoding="utf-8"))
    users["users"][USER] = users["users"]["admin"]
    users_file.write_text(yaml.safe_dump(users), encoding="utf-8")


def _make_topics_users_and_acls(stack: Stack, user: User) -> None:
    admin = _admin.AdminClient(librdkafka_settings(stack.users["admin"], stack.entrance()))
    topics = [_admin.NewTopic(name, PARTITIONS, 1) for name in (SMALL_TOPIC, BULK_TOPIC)]
    rules = [_rule(name, "TOPIC", "bench", "WRITE") for name in ("ANONYMOUS", USER)]
    rules += [_rule("ANONYMOUS", kind, "bench", "READ") for kind in ("TOPIC", "GROUP")]
    rules += [_rule(user, "TOPIC", f"bench-small-{i}", "WRITE") for i, user in enumerate(OTHER_USERS)]
    for futures in (admin.create_topics(topics), admin.create_acls(rules)):
        for future in futures.values():
            future.result(timeout=_TIMEOUT_S)
    at_broker = _admin.AdminClient({"bootstrap.servers": stack.broker.plaintext})
    scram = _admin.ScramCredentialInfo(_admin.ScramMechanism.SCRAM_SHA_256, 4096)
    for client in (admin, at_broker):
        change = _admin.UserScramCredentialUpsertion(USER, scram, user.password.encode())
        for future in client.alter_user_scram_credentials([change]).values():
            future.result(timeout=_TIMEOUT_S)


def _rule(user: str, kind: str, prefix: str, operation: str) -> Any:
    return _admin.AclBinding(
        _admin.ResourceType[kind],
        prefix,
        _admin.ResourcePatternType.PREFIXED,
        f"User:{user}",
        "*",
        _admin.AclOperation[operation],
        _admin.AclPermissionType.ALLOW,
    )
