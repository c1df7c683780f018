"""What the proxy learns of the broker behind it, and keeps asking for; where it finds it by node id."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from proxy.app.process import ProxyProcess
from proxy.config import ProxyConfig, load
from proxy.net.kafka import broker_watch
from proxy.net.kafka.broker_watch import BrokerFacts, BrokerWatch
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.runtime.reachability import Cause
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.ports import free_addresses
from tests.support.edges import Client, cut_off
from tests.support.fake_broker import Answer, FakeBroker, Request
from tests.support.waiting import turns_until

OWN_NODE = "2"


def cluster(_: Request) -> Any:
    broker = t.MetadataResponse.MetadataResponseBroker
    return t.MetadataResponse(
        brokers=[broker(node_id=node, host=f"broker-{node}", port=9092) for node in (1, 2)]
    )


def settings_of_node_2(value: str, error_code: int = 0) -> Answer:
    """As a broker does, of itself only."""

    def describe(request: Request) -> Any:
        response = t.DescribeConfigsResponse
        config = response.DescribeConfigsResourceResult(name="auto.create.topics.enable", value=value)
        return response(
            results=[
                response.DescribeConfigsResult(
                    error_code=error_code if asked.resource_name == OWN_NODE else ErrorCode.INVALID_REQUEST,
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    configs=[config] if asked.resource_name == OWN_NODE and not error_code else [],
                )
                for asked in request.message.resources
            ]
        )

    return describe


async def facts_of(answers: Mapping[int, Answer]) -> BrokerFacts:
    told: list[BrokerFacts] = []
    async with FakeBroker({ApiKey.METADATA: cluster, **answers}) as broker:
        host, port = broker.address.split(":")
        watch = BrokerWatch(EndpointSettings(host=host, port=int(port)), told.append)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(watch.run())
            await watch.known.wait()
            running.cancel()
    return told[0]


@pytest.mark.spec("A7")
@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({ApiKey.DESCRIBE_CONFIGS: settings_of_node_2("true")}, True),
        ({ApiKey.DESCRIBE_CONFIGS: settings_of_node_2("false")}, False),
        ({ApiKey.DESCRIBE_CONFIGS: settings_of_node_2("", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)}, False),
        ({}, False),
    ],
    ids=["on", "off", "not for us to know", "not to be asked"],
)
async def test_a_broker_is_asked_whether_it_makes_topics(
    answers: Mapping[int, Answer], expected: bool
) -> None:
    facts = await facts_of(answers)

    assert facts.auto_creates_topics is expected
    assert facts.nodes == {1: ("broker-1", 9092), 2: ("broker-2", 9092)}


@pytest.mark.spec("O10")
async def test_the_nodes_are_known_of_a_broker_without_describe_cluster() -> None:
    facts = await facts_of({})

    assert ApiKey.DESCRIBE_CLUSTER not in facts.api_versions
    assert facts.nodes == {1: ("broker-1", 9092), 2: ("broker-2", 9092)}


@pytest.mark.spec("R9", "O2")
@pytest.mark.parametrize(
    ("versions", "checks"),
    [
        ({ApiKey.FETCH: (0, 12)}, False),  # Kafka 2.8
        ({ApiKey.FETCH: (0, 15)}, False),  # Kafka 3.6
        ({ApiKey.FETCH: (0, 16)}, False),  # Kafka 3.7 and 3.8, of which the last ones do
        ({ApiKey.FETCH: (0, 17)}, True),  # Kafka 3.9
        ({ApiKey.FETCH: (4, 18)}, True),  # Kafka 4.2
        ({}, True),
    ],
)
def test_the_versions_of_a_broker_say_whether_it_checks_the_nonce_of_scram_clients(
    versions: Mapping[int, tuple[int, int]], checks: bool
) -> None:
    assert BrokerFacts(versions, {}, {}, {}, 0).checks_scram_nonce is checks


def at(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


class Cluster:
    """Brokers in memory that all report the same nodes, which a test sets."""

    def __init__(self) -> None:
        self.nodes: dict[int, str] = {}
        self.told: list[BrokerFacts] = []

    def broker(self, tls: ssl.SSLContext | None = None) -> FakeBroker:
        return FakeBroker({ApiKey.METADATA: self._metadata}, tls=tls)

    def _metadata(self, _: Request) -> Any:
        broker = t.MetadataResponse.MetadataResponseBroker
        nodes = {node_id: at(address) for node_id, address in self.nodes.items()}
        return t.MetadataResponse(
            brokers=[broker(node_id=node_id, host=host, port=port) for node_id, (host, port) in nodes.items()]
        )

    @asynccontextmanager
    async def watched(
        self, bootstrap: FakeBroker, node_id: int, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[BrokerWatch]:
        endpoint = EndpointSettings(host=host, port=at(bootstrap.address)[1], ssl=tls)
        watch = BrokerWatch(endpoint, self.told.append, node_id)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(watch.run())
            try:
                yield watch
            finally:
                running.cancel()


@pytest.mark.spec("O1")
async def test_the_broker_with_a_node_id_is_where_the_cluster_says() -> None:
    cluster = Cluster()
    async with cluster.broker() as bootstrap, cluster.broker() as one, cluster.broker() as two:
        cluster.nodes = {1: one.address, 2: two.address}
        async with cluster.watched(bootstrap, 2) as watch:
            await watch.known.wait()
            found = watch.broker

    assert found.addresses == (two.address,)
    assert [each.header.api_key for each in bootstrap.requests] == [ApiKey.API_VERSIONS, ApiKey.METADATA]
    assert one.requests == []
    assert cluster.told[0].nodes == {1: at(one.address), 2: at(two.address)}


@pytest.mark.spec("O1", "O5", "O4")
async def test_without_a_broker_of_this_node_id_there_is_none_until_it_comes() -> None:
    cluster = Cluster()
    async with cluster.broker() as bootstrap, cluster.broker() as one, cluster.broker() as two:
        cluster.nodes = {3: one.address, 1: bootstrap.address}
        async with cluster.watched(bootstrap, 2) as watch:
            await turns_until(lambda: watch.reachability.cause is not None)
            cause, was_known = watch.reachability.cause, watch.known.is_set()
            cluster.nodes[2] = two.address
            await watch.known.wait()
            found, up = watch.broker, watch.up

    assert cause == Cause(
        "no broker has this node.id",
        f"{bootstrap.address}: no broker has node.id 2; the cluster has [1, 3]",
    )
    assert not was_known
    assert one.requests == []
    assert (found.addresses, up) == ((two.address,), True)


@pytest.mark.spec("O1", "O4")
async def test_a_broker_that_comes_back_elsewhere_is_found_there() -> None:
    cluster = Cluster()
    async with cluster.broker() as bootstrap, cluster.broker() as elsewhere, cluster.broker() as first:
        cluster.nodes = {2: first.address}
        async with cluster.watched(bootstrap, 2) as watch:
            await watch.known.wait()
            # The cluster does not list a broker that is down.
            cluster.nodes = {}
            first.hang_up()
            await turns_until(lambda: not watch.up)
            stayed = watch.broker
            await turns_until(lambda: watch.reachability.cause is not None)
            cluster.nodes = {2: elsewhere.address}
            await turns_until(lambda: watch.up)
            found = watch.broker

    assert stayed.addresses == (first.address,)
    assert found.addresses == (elsewhere.address,)


@pytest.mark.spec("O1")
async def test_an_address_that_changes_under_an_open_connection_is_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by a dynamic advertised.listeners of a broker with ZooKeeper."""
    monkeypatch.setattr(broker_watch, "REFRESH_INTERVAL_S", 0.01)
    cluster = Cluster()
    async with cluster.broker() as first, cluster.broker() as elsewhere:
        cluster.nodes = {2: first.address}
        async with cluster.watched(first, 2) as watch:
            await watch.known.wait()
            cluster.nodes = {2: elsewhere.address}
            await turns_until(lambda: watch.broker.addresses == (elsewhere.address,))
            asked = len(first.requests)
            await turns_until(lambda: len(first.requests) > asked + 4)
            stayed = first.connections, elsewhere.connections
            cluster.nodes = {}
            await turns_until(lambda: not watch.up)
            cause, last = watch.reachability.cause, watch.broker

    # The first one asked where the broker is; the second one stays.
    assert stayed == (2, 0)
    # A broker that its own cluster does not list serves nobody.
    assert cause is not None
    assert (cause.reason, last.addresses) == ("no broker has this node.id", (elsewhere.address,))


@pytest.mark.spec("O1", "O3")
async def test_the_certificate_of_a_broker_has_to_have_the_name_that_the_cluster_says() -> None:
    authority, of_brokers = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(of_brokers)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    cluster = Cluster()
    async with cluster.broker(of_brokers) as bootstrap, cluster.broker(of_brokers) as two:
        cluster.nodes = {2: two.address}
        async with cluster.watched(bootstrap, 2, "localhost", trusting) as watch:
            await turns_until(lambda: watch.reachability.cause is not None)
            cause = watch.reachability.cause
            cluster.nodes = {2: two.address.replace("127.0.0.1", "localhost")}
            await watch.known.wait()

    assert cause is not None
    assert (cause.reason, two.address in cause.detail) == ("certificate not trusted", True)


@pytest.mark.spec("O1", "O5")
async def test_clients_of_a_proxy_that_found_its_broker_reach_it_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new connection goes to the new address, one that is open stays where it is."""
    monkeypatch.setattr(broker_watch, "REFRESH_INTERVAL_S", 0.01)
    cluster, (bind,) = Cluster(), free_addresses(1)
    async with cluster.broker() as bootstrap, cluster.broker() as first, cluster.broker() as elsewhere:
        cluster.nodes = {1: bootstrap.address, 2: first.address}
        document = {
            "proxy.id": "proxy-2",
            "listeners": [{"name": "ONE", "bind": bind, "security.protocol": "PLAINTEXT"}],
            "upstream": {"internal.bootstrap": bootstrap.address, "node.id": 2},
            "controller": {"endpoints": ["127.0.0.1:1"]},
            "authorizer": {"authorizer.class.name": ""},
            "audit": {"spool.dir": "spool"},
        }
        (tmp_path / "proxy.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
        process = ProxyProcess(load(tmp_path / "proxy.yaml", ProxyConfig))
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(process._watch.run())
            await process._watch.known.wait()
            await process._listeners.start(tasks, early=False)
            one = Client(*await asyncio.open_connection(*at(bind)))
            nodes = [await nodes_told(one)]
            before = elsewhere.connections
            cluster.nodes[2] = elsewhere.address
            await turns_until(lambda: process._watch.broker.addresses == (elsewhere.address,))
            other = Client(*await asyncio.open_connection(*at(bind)))
            nodes += [await nodes_told(one), await nodes_told(other)]
            connections = before, elsewhere.connections
            cut_off(process._listeners._listeners(), (one, other))
            watching.cancel()

    # Node 1 has no proxy that this one knows.
    assert nodes == [{2: at(bind)}] * 3
    assert connections == (0, 1)


async def nodes_told(client: Client) -> dict[int, tuple[str, int]]:
    client.asks(ApiKey.METADATA, 9, t.MetadataRequest(topics=[]))
    response = await client.hears(ApiKey.METADATA, 9)
    return {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
