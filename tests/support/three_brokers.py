"""Three brokers, a proxy before each, and three more proxies that keep the addresses their brokers tell.

Both sets of proxies stand before the same brokers: the second before a listener that advertises it (SPEC O1).
In the first set the second and the third proxy find their broker by its node id.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaException, TopicPartition

from proxy.config import split_host_port
from proxy.net.kafka.channel import EndpointSettings
from tests.lab.cluster import probe
from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.node import READY_TIMEOUT_MS, Node, penstock
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import Entrance, User, channel_settings
from tests.support.cluster_admin import ClusterAdmin, admin, done
from tests.support.waiting import until

REWRITING, KEEPING = "rewriting", "keeping"


@dataclass
class KeepingProxy:
    """A proxy with `addresses: passthrough`."""

    address: str
    http: str
    process: ChildProcess

    def start(self) -> None:
        self.process.start()
        self.process.wait_until(lambda: probe.is_ready(self.http), READY_TIMEOUT_MS)


@dataclass
class ThreeBrokers:
    stack: Stack
    keeping: dict[int, KeepingProxy]

    def entrances(self, proxies: str) -> dict[int, str]:
        """Node id -> where clients reach it by one of the two sets of proxies."""
        if proxies == KEEPING:
            return {number: proxy.address for number, proxy in self.keeping.items()}
        return {each.number: each.wiring.listeners["SASL_PLAINTEXT"] for each in self.stack.nodes}

    def broker_ports(self) -> set[int]:
        """What no client should ever be told."""
        return {split_host_port(at)[1] for each in self.stack.nodes for at in each.broker.addresses}

    def controller_ports(self) -> set[int]:
        return {split_host_port(each.broker.controller)[1] for each in self.stack.nodes}

    def requests(self, proxies: str, api: str) -> dict[int, float]:
        """How many each proxy has taken, by node id."""
        series = f'penstock_requests_total{{api="{api}",listener="SASL_PLAINTEXT"}}'
        https = {
            REWRITING: {each.number: each.wiring.proxy_http for each in self.stack.nodes},
            KEEPING: {number: proxy.http for number, proxy in self.keeping.items()},
        }[proxies]
        return {number: probe.series(at).get(series, 0.0) for number, at in https.items()}

    def endpoint(self, user: User, proxies: str, number: int) -> EndpointSettings:
        return channel_settings(user, self.entrances(proxies)[number])

    def entrance(self, proxies: str, number: int) -> Entrance:
        return Entrance(self.entrances(proxies)[number])


def _keeping_proxy(node: Node, logs: Path, address: str, http: str) -> KeepingProxy:
    """The files of the node's other proxy, but for how it reaches the broker and what it calls itself."""
    document: dict[str, Any] = yaml.safe_load(node.proxy_file.read_text(encoding="utf-8"))
    name = f"keeping-{node.number}"
    assert node.broker.behind is not None
    listener = {
        "name": "SASL_PLAINTEXT",
        "bind": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ["PLAIN", "SCRAM-SHA-256"],
    }
    upstream = {key: document["upstream"][key] for key in ("security.protocol", "sasl")}
    document |= {
        "proxy.id": name,
        "listeners": [listener],
        "upstream": upstream
        | {
            "addresses": "passthrough",
            "bootstrap": node.broker.behind[0],
            "internal.bootstrap": node.broker.sasl_plaintext,
        },
        "audit": document["audit"] | {"spool.dir": f"{name}-spool"},
        "http": {"bind": http},
    }
    file = node.proxy_file.with_name(f"{name}.yaml")
    file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return KeepingProxy(address, http, penstock("proxy", name, file, logs))


def _find_by_node_id(node: Node, bootstrap: str) -> None:
    """The node's proxy gets no address of its broker any more."""
    document: dict[str, Any] = yaml.safe_load(node.proxy_file.read_text(encoding="utf-8"))
    document["upstream"]["internal.bootstrap"] = bootstrap
    del document["upstream"]["bootstrap"]
    node.proxy_file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


@pytest.fixture(scope="module")
def three(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    directory = tmp_path_factory.mktemp("three")
    stack = Stack(StackSettings(directory=directory, libs=kafka_libs, brokers=3))
    keeping = {}
    for node in stack.nodes:
        inside, address, http = free_addresses(3)
        node.broker.behind = inside, address
        keeping[node.number] = _keeping_proxy(node, stack.logs, address, http)
    bootstrap = ",".join(node.broker.sasl_plaintext for node in stack.nodes[:2])
    for node in stack.nodes[1:]:
        _find_by_node_id(node, bootstrap)
    try:
        stack.start()
        at_once([proxy.start for proxy in keeping.values()])
        yield ThreeBrokers(stack, keeping)
    finally:
        killed = [name for name in at_once([partial(_stop, proxy) for proxy in keeping.values()]) if name]
        assert [*killed, *stack.stop()] == [], "these did not stop by themselves"


def _stop(proxy: KeepingProxy) -> str | None:
    return None if proxy.process.stop() else proxy.process.name


@pytest.fixture(scope="module")
def three_admin(three: ThreeBrokers) -> ClusterAdmin:
    return ClusterAdmin(three.stack)


@pytest.fixture(scope="module")
def carol(three_admin: ClusterAdmin) -> User:
    """May produce to and consume from whatever begins with `all-`."""
    user = three_admin.user("carol")
    three_admin.allow(user, "READ", "WRITE", topic="all-", prefixed=True)
    three_admin.allow(user, "READ", group="all-", prefixed=True)
    return user


def replicated_topic(three_admin: ClusterAdmin, name: str) -> str:
    """Six partitions in three replicas: each broker leads two of them, and has opened them.

    Brokers apply the controller's record one after the other. A consumer of librdkafka that meets one which
    has not applied it yet is assigned nothing until it refreshes its metadata, five minutes later, or it
    reports UNKNOWN_TOPIC_OR_PARTITION and reads no further.
    """
    done(three_admin.client.create_topics([admin.NewTopic(name, 6, 3)]))
    beginning = {TopicPartition(name, partition): admin.OffsetSpec.earliest() for partition in range(6)}
    until(lambda: _is_listed(three_admin, beginning), f"{name} at all brokers", every_s=0.2)
    return name


def _is_listed(three_admin: ClusterAdmin, offsets: Mapping[TopicPartition, Any]) -> bool:
    # A client that has met a broker without the topic finds no leaders of its partitions any more.
    fresh = three_admin.afresh()
    try:
        done(fresh.client.list_offsets(dict(offsets)))
    except KafkaException:
        return False
    return True
