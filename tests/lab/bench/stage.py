"""What is measured, set up on loopback: a broker, and before it the relay and the whole of Penstock.

The proxy decides by ACLs on a PLAINTEXT listener, charges the buckets of quotas that nobody reaches, and
writes its audit trail. Each of the three targets has a listener at the broker that tells clients its address,
so that real clients stay on the path they came in by.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.lab.cluster import kafka
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import librdkafka_settings

SMALL_TOPIC, BULK_TOPIC = "bench-small", "bench-bulk"
PARTITIONS = 4
OTHER_ACLS = 1_000
"""That say nothing of the client, so that there is something to look through."""
_OUT_OF_REACH = 1e12  # Bytes per second.
_TIMEOUT_S = 30

_admin: Any = importlib.import_module("confluent_kafka.admin")  # Its names are not exported in mypy's sense.


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    address: str
    process: ChildProcess
    """Whose CPU is counted: for `direct` the broker's own."""

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


@contextmanager
def targets(directory: Path, report: Callable[[str], None]) -> Iterator[list[Target]]:
    """`direct`, `relay` and `proxy`, up and ready; everything is stopped at the end."""
    relay_address, behind_relay, anonymous = free_addresses(3)
    properties: dict[str, str] = {}
    stack = Stack(StackSettings(directory=directory, libs=kafka.libs(), broker_properties=properties))
    # The broker's own addresses are known only now; it reads the properties when it starts.
    properties |= _listeners(stack, behind_relay, relay_address)
    _open_to_anonymous(stack, anonymous)
    relay = ChildProcess(
        "the relay",
        [
            sys.executable,
            str(Path(__file__).with_name("relay.py")),
            *map(_port, (relay_address, behind_relay)),
        ],
        stack.logs / "relay.log",
    )
    with ExitStack() as cleanup:
        cleanup.callback(stack.stop)
        cleanup.callback(relay.stop)
        stack.start(report)
        relay.start()
        relay.wait_until(lambda: "listening" in relay.log_text(), _TIMEOUT_S * 1000)
        report("making topics and ACLs")
        _make_topics_and_acls(stack)
        yield [
            Target("direct", stack.broker.plaintext, stack.broker.process),
            Target("relay", relay_address, relay),
            Target("proxy", anonymous, stack.proxy),
        ]


def _port(address: str) -> str:
    return address.rpartition(":")[2]


def _listeners(stack: Stack, behind_relay: str, relay_address: str) -> dict[str, str]:
    broker = stack.broker
    own = f"PLAINTEXT://{broker.plaintext},SASL_PLAINTEXT://{broker.sasl_plaintext}"
    return {
        "listeners": f"{own},RELAY://{behind_relay},CONTROLLER://{broker.controller}",
        "advertised.listeners": f"{own},RELAY://{relay_address}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,RELAY:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
    }


def _open_to_anonymous(stack: Stack, address: str) -> None:
    document = yaml.safe_load(stack.proxy_file.read_text(encoding="utf-8"))
    document["listeners"].append(
        {"name": "ANONYMOUS", "bind": address, "security.protocol": "PLAINTEXT"},
    )
    document["upstream"] = {"bootstrap": stack.broker.plaintext, "security.protocol": "PLAINTEXT"}
    document["quota"] = {"producer.default": _OUT_OF_REACH, "consumer.default": _OUT_OF_REACH}
    del document["audit"]["summary.interval.ms"]  # The demo's is short; here the default is to be measured.
    stack.proxy_file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def _make_topics_and_acls(stack: Stack) -> None:
    admin = _admin.AdminClient(librdkafka_settings(stack.users["admin"], stack.entrance()))
    topics = [_admin.NewTopic(name, PARTITIONS, 1) for name in (SMALL_TOPIC, BULK_TOPIC)]
    rules = [
        _rule("ANONYMOUS", "TOPIC", "bench", "WRITE"),
        _rule("ANONYMOUS", "TOPIC", "bench", "READ"),
        _rule("ANONYMOUS", "GROUP", "bench", "READ"),
    ]
    rules += [_rule(f"user-{i}", "TOPIC", f"bench-small-{i}", "WRITE") for i in range(OTHER_ACLS)]
    for futures in (admin.create_topics(topics), admin.create_acls(rules)):
        for future in futures.values():
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
