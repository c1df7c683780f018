"""Watches the broker behind the proxy: its supported versions, its cluster's nodes, whether it is up.

Runs in the process's TaskGroup, with a connection of its own. It requests the versions again after each lost
connection, because the broker may have been upgraded. The address of the broker is configured, or that of a
node id, which the watch asks the cluster for; nothing else asks.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import structlog

from proxy.admin.configs import BROKER
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.net.runtime.reachability import NO_BROKER, Reachability
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey

REFRESH_INTERVAL_S = 10.0

_FETCH_OF_KAFKA_3_9 = 17
_AUTO_CREATE = "auto.create.topics.enable"

Ranges = Mapping[str, tuple[int, int]]
Nodes = Mapping[int, tuple[str, int]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What the broker reports of itself and its cluster."""

    api_versions: Mapping[int, tuple[int, int]]
    nodes: Nodes
    """Node id -> host and port as the broker advertises them."""
    supported_features: Ranges
    finalized_features: Ranges
    finalized_features_epoch: int
    auto_creates_topics: bool = False
    """Whether the broker creates missing topics on request; False if it does not report it."""
    cluster_id: str | None = None

    @property
    def checks_scram_nonce(self) -> bool:
        """Whether the broker rejects SCRAM clients that do not repeat the server's nonce.

        Kafka does since 3.7.2, 3.8.1 and 3.9.0. The versions of the first two are those of 3.7.0 and 3.8.0,
        which do not: decision 0117.
        """
        return self.api_versions.get(ApiKey.FETCH, (0, _FETCH_OF_KAFKA_3_9))[1] >= _FETCH_OF_KAFKA_3_9


class BrokerWatch:
    """Calls `on_facts` with each new description of the broker."""

    def __init__(
        self, endpoint: EndpointSettings, on_facts: Callable[[BrokerFacts], None], node_id: int | None = None
    ) -> None:
        """`endpoint`: the broker; with a `node_id` the cluster, whose node with this id is the broker."""
        self._endpoint = endpoint
        self._on_facts = on_facts
        self._node_id = node_id
        self.broker = endpoint
        """The broker. With a node id, its address from `known` on, and another one after it has moved."""
        self.known = asyncio.Event()
        """Set when the broker has reported its versions."""
        self.up = False
        self.reachability = Reachability("broker reached", "broker not reached")

    async def run(self) -> None:
        """Request the facts now and at each interval, until cancelled."""
        while True:
            try:
                if self._node_id is not None:
                    async with await Channel.open(self._endpoint) as channel:
                        _, nodes = await _cluster(channel)
                    self._follow(nodes)
                async with await Channel.open(self.broker) as channel:
                    while True:
                        facts = await _request(channel)
                        self._follow(facts.nodes)
                        self._on_facts(facts)
                        if not self.up:
                            self.reachability.reached(address=channel.endpoint.address)
                        self.up = True
                        self.known.set()
                        with suppress(TimeoutError):
                            async with asyncio.timeout(REFRESH_INTERVAL_S):
                                await channel.wait_closed()
            except ChannelError as error:
                self.up = False
                self.reachability.failed(error)
            await self.reachability.pause()

    def _follow(self, nodes: Nodes) -> None:
        """Take the address that the node id has now; ChannelError if no node has it.

        Connections that are open stay where they are.
        """
        if self._node_id is None:
            return
        if self._node_id not in nodes:
            text = f"no broker has node.id {self._node_id}; the cluster has {sorted(nodes)}"
            raise ChannelError(f"{self._endpoint.address}: {text}", NO_BROKER)
        found = self._endpoint.at(*nodes[self._node_id])
        if found != self.broker:
            self.broker = found
            log.info("broker found", node_id=self._node_id, address=found.address)


async def _cluster(channel: Channel) -> tuple[str | None, Nodes]:
    """Return the id of the cluster, and its nodes."""
    # Metadata of no topics, because some brokers have no DescribeCluster: Kafka before 2.8, and others'.
    response = await channel.send(types.MetadataRequest(topics=[]), (1, _range(ApiKey.METADATA)[1]))
    return response.cluster_id, {node.node_id: (node.host, node.port) for node in response.brokers}


async def _request(channel: Channel) -> BrokerFacts:
    request = types.ApiVersionsRequest(client_software_name="penstock", client_software_version="0.1")
    response = await channel.send(request, (0, 4))
    cluster_id, nodes = await _cluster(channel)
    return BrokerFacts(
        {api.api_key: (api.min_version, api.max_version) for api in response.api_keys},
        nodes,
        {f.name: (f.min_version, f.max_version) for f in response.supported_features},
        {f.name: (f.min_version_level, f.max_version_level) for f in response.finalized_features},
        response.finalized_features_epoch,
        await _auto_creates_topics(channel, nodes),
        cluster_id,
    )


async def _auto_creates_topics(channel: Channel, node_ids: Iterable[int]) -> bool:
    # A broker describes only its own configs, and not which node it is: so request those of all nodes.
    if ApiKey.DESCRIBE_CONFIGS not in channel.api_versions:
        return False
    resource = types.DescribeConfigsRequest.DescribeConfigsResource
    request = types.DescribeConfigsRequest(
        resources=[
            resource(resource_type=BROKER, resource_name=str(node_id), configuration_keys=[_AUTO_CREATE])
            for node_id in node_ids
        ]
    )
    response = await channel.send(request, _range(ApiKey.DESCRIBE_CONFIGS))
    configs = [config for result in response.results if not result.error_code for config in result.configs]
    return any(config.name == _AUTO_CREATE and config.value == "true" for config in configs)


def _range(api_key: int) -> tuple[int, int]:
    versions = codecs.request_versions(api_key)
    return versions[0], versions[-1]
