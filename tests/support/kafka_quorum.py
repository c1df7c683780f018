"""Three Kafka nodes that are brokers and a quorum, guarded as docs/kraft.md says; and who logs in at it.

The controllers ask for a login (PLAIN): `proxy-1` is a super user there, `proxy-2` is known and has no right.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.net.kafka.channel import Channel, EndpointSettings
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.broker import BROKER_AT_CONTROLLER, Broker, BrokerSettings, guard, join
from tests.support.controllers import endpoint_of, login
from tests.support.two_sides import Door

TOKEN_KEY = "of the cluster"
PASSWORDS = {BROKER_AT_CONTROLLER: "kafka-secret", "proxy-1": "one", "proxy-2": "two"}
TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class KafkaQuorum:
    brokers: Sequence[Broker]

    def controllers(self, user: str = "proxy-1") -> list[EndpointSettings]:
        """The controller listeners, and our login there."""
        return [endpoint_of(each.controller, sasl=login(user, PASSWORDS[user])) for each in self.brokers]

    def node_of(self, controller: EndpointSettings) -> Broker:
        return next(each for each in self.brokers if each.controller == controller.address)

    def door(self, broker: Broker) -> Door:
        """Past everything of ours."""
        return Door("broker", endpoint_of(broker.plaintext), endpoint_of(broker.sasl_plaintext))

    async def ask(self, api_key: int, request: Any, broker: Broker | None = None) -> Any:
        """A request to a broker, past everything of ours."""
        async with await Channel.open(endpoint_of((broker or self.brokers[0]).plaintext)) as channel:
            version = channel.api_versions[api_key][1]
            return await channel.request(api_key, version, request)

    async def metadata(self, topic: str, broker: Broker | None = None) -> Any:
        """What a broker tells of the topic."""
        wanted = types.MetadataRequest.MetadataRequestTopic(name=topic)
        return (await self.ask(ApiKey.METADATA, types.MetadataRequest(topics=[wanted]), broker)).topics[0]

    async def until(self, topic: str, holds: Any) -> Any:
        """Until it holds of what a broker tells of the topic: brokers hear of a change a moment later."""
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            told = await self.metadata(topic)
            while not holds(told):
                told = await self.metadata(topic)
        return told


@contextmanager
def a_quorum(libs: Path, directory: Path) -> Iterator[KafkaQuorum]:
    brokers = [
        Broker(
            libs,
            BrokerSettings(
                directory=directory / f"node-{number}",
                node_id=number,
                properties=guard(("admin", "proxy-1"), TOKEN_KEY),
                controller_users=PASSWORDS,
                heap_mb=256,
            ),
        )
        for number in (1, 2, 3)
    ]
    join(brokers)
    try:
        at_once([each.start for each in brokers])
        yield KafkaQuorum(brokers)
    finally:
        at_once([each.process.kill for each in brokers])
