"""The broker that the proxy stands in front of: what it speaks, its cluster's nodes, whether it is up.

Run in the process's TaskGroup; asks over a channel of its own and asks again after the connection was lost,
so that ApiVersions follows a broker that was upgraded. What is made of the answers is the caller's.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from proxy.admin.configs import BROKER
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.net.runtime.reachability import Reach
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey

REFRESH_INTERVAL_S = 10.0

_AUTO_CREATE = "auto.create.topics.enable"

Ranges = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What the broker told of itself and its cluster."""

    api_versions: Mapping[int, tuple[int, int]]
    nodes: Mapping[int, tuple[str, int]]
    """Node id -> host and port as the broker advertises them."""
    supported_features: Ranges
    finalized_features: Ranges
    finalized_features_epoch: int
    auto_creates_topics: bool = False
    """Whether it makes a missing topic that a client asks after, as far as it tells us."""


class BrokerWatch:
    """Keeps `on_facts` told."""

    def __init__(self, endpoint: EndpointSettings, on_facts: Callable[[BrokerFacts], None]) -> None:
        self._endpoint = endpoint
        self._on_facts = on_facts
        self.known = asyncio.Event()
        """Set once the broker has told its versions."""
        self.up = False
        self.reach = Reach("broker reached", "broker not reached")

    async def run(self) -> None:
        """Ask now, and again at each interval; until cancelled."""
        while True:
            try:
                async with await Channel.open(self._endpoint) as channel:
                    while True:
                        self._on_facts(await _ask(channel))
                        if not self.up:
                            self.reach.reached(address=self._endpoint.address)
                        self.up = True
                        self.known.set()
                        await asyncio.sleep(REFRESH_INTERVAL_S)
            except ChannelError as error:
                self.up = False
                self.reach.lost(error)
            await self.reach.pause()


async def _ask(channel: Channel) -> BrokerFacts:
    version = channel.version(ApiKey.API_VERSIONS, (0, 4))
    ours = types.ApiVersionsRequest(client_software_name="penstock", client_software_version="0.1")
    told = await channel.request(ApiKey.API_VERSIONS, version, ours)
    cluster_version = channel.version(ApiKey.DESCRIBE_CLUSTER, _range(ApiKey.DESCRIBE_CLUSTER))
    cluster = await channel.request(ApiKey.DESCRIBE_CLUSTER, cluster_version, types.DescribeClusterRequest())
    return BrokerFacts(
        {api.api_key: (api.min_version, api.max_version) for api in told.api_keys},
        {broker.broker_id: (broker.host, broker.port) for broker in cluster.brokers},
        {f.name: (f.min_version, f.max_version) for f in told.supported_features},
        {f.name: (f.min_version_level, f.max_version_level) for f in told.finalized_features},
        told.finalized_features_epoch,
        await _auto_creates_topics(channel, [broker.broker_id for broker in cluster.brokers]),
    )


async def _auto_creates_topics(channel: Channel, node_ids: Iterable[int]) -> bool:
    """A broker tells its own settings only, and not which of the nodes it is: so all are asked for."""
    if ApiKey.DESCRIBE_CONFIGS not in channel.api_versions:
        return False
    resource = types.DescribeConfigsRequest.DescribeConfigsResource
    question = types.DescribeConfigsRequest(
        resources=[
            resource(resource_type=BROKER, resource_name=str(node_id), configuration_keys=[_AUTO_CREATE])
            for node_id in node_ids
        ]
    )
    version = channel.version(ApiKey.DESCRIBE_CONFIGS, _range(ApiKey.DESCRIBE_CONFIGS))
    answer = await channel.request(ApiKey.DESCRIBE_CONFIGS, version, question)
    told = [config for result in answer.results if not result.error_code for config in result.configs]
    return any(config.name == _AUTO_CREATE and config.value == "true" for config in told)


def _range(api_key: int) -> tuple[int, int]:
    versions = codecs.request_versions(api_key)
    return versions[0], versions[-1]
