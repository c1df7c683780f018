"""Snapshots of a real KRaft quorum: where a proxy begins, and what one takes that has fallen far behind.

Its controller listener asks for TLS and a client's certificate. Kafka looks once a minute for what it may cut
off, so the second is left to `make interop TARGET=kraft`.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.metadata.image import MetadataImage
from proxy.net.files.tls import ClientTls
from proxy.net.kafka.channel import Channel, EndpointSettings
from proxy.net.metadata.quorum import ControllerNode, FetchPosition
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.broker import Broker, BrokerSettings
from tests.support.controllers import a_forwarder, endpoint_of, forward
from tests.support.office_certificates import Issued, OfficeCertificates
from tests.support.quorum import Follower, following
from tests.support.relay import Relay
from tests.support.two_sides import limit_request

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EAGER = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "metadata.max.retention.bytes": "1000",
}
LONG = os.environ.get("PENSTOCK_INTEROP_TARGET") == "kraft"
USERS = [f"user-{number}" for number in range(60)]
CUT_TIMEOUT_MS = 200_000


@dataclass(frozen=True, slots=True)
class Eager:
    """A node that makes a snapshot every few records."""

    broker: Broker
    ca: Path
    ours: Issued

    def endpoint(self, address: str | None = None) -> EndpointSettings:
        """Its controller listener, with our certificate."""
        client = ClientTls(self.ca, self.ours.certificate, self.ours.key, True)
        return endpoint_of(address or self.broker.controller, ssl=client.context, tls=client)


def mutual_tls(ca: Path, its_own: Issued) -> dict[str, str]:
    """What the controller listener is told."""
    settings = {
        "keystore.type": "PEM",
        "keystore.location": str(its_own.key_store),
        "truststore.type": "PEM",
        "truststore.location": str(ca),
        "client.auth": "required",
    }
    return {
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SSL"
        ),
        **{f"listener.name.controller.ssl.{key}": value for key, value in settings.items()},
    }


@pytest.fixture(scope="module")
def eager(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Eager]:
    directory = tmp_path_factory.mktemp("eager")
    office = OfficeCertificates(directory / "tls")
    properties = EAGER | mutual_tls(office.ca, office.issue("controller"))
    broker = Broker(kafka_libs, BrokerSettings(directory=directory, properties=properties, heap_mb=256))
    with broker.running():
        yield Eager(broker, office.ca, office.issue("proxy", "proxy-1"))


def limited(image: MetadataImage) -> dict[str, Any]:
    return {str(entity.user): limits["producer_byte_rate"] for entity, limits in image.quotas.limits.items()}


async def limit(eager: Eager, bytes_per_second: float) -> None:
    """Every one of USERS, one request for each."""
    async with a_forwarder(eager.endpoint()) as forwarder:
        for user in USERS:
            await forward(forwarder, ApiKey.ALTER_CLIENT_QUOTAS, limit_request(user, bytes_per_second))


@asynccontextmanager
async def asking(eager: Eager) -> AsyncIterator[ControllerNode]:
    async with await Channel.open(eager.endpoint()) as channel:
        yield ControllerNode(channel)


async def until_due_at(eager: Eager, offset: int, epoch: int) -> None:
    """Until the leader would send whoever stands there to a snapshot."""
    async with asyncio.timeout(CUT_TIMEOUT_MS / 1000), asking(eager) as node:
        fetched = await node.fetch(FetchPosition(offset, epoch, epoch))
        while fetched.snapshot is None:
            fetched = await node.fetch(FetchPosition(offset, epoch, epoch))


async def caught_up(follower: Follower) -> int:
    await follower.loaded()
    await follower.feed.wait_for_end(CUT_TIMEOUT_MS)
    return follower.feed.leader.epoch


@pytest.mark.spec("S3", "S5", "O3")
async def test_a_proxy_that_starts_late_begins_with_a_snapshot(eager: Eager) -> None:
    async with following(eager.endpoint()) as follower:
        epoch = await caught_up(follower)
        await limit(eager, 1_000.0)
        await until_due_at(eager, 0, epoch)

    with capture_logs() as lines:
        async with following(eager.endpoint()) as late:
            image = await late.loaded()

    assert [line["event"] for line in lines].count("fetching metadata snapshot") == 1
    assert limited(image) == dict.fromkeys(USERS, 1_000.0)
    assert late.images == [image]


@pytest.mark.skipif(not LONG, reason="takes minutes: make interop TARGET=kraft")
@pytest.mark.spec("S5")
async def test_a_proxy_that_fell_behind_the_logs_start_takes_a_snapshot_in_one_piece(eager: Eager) -> None:
    await limit(eager, 1_000.0)
    async with (
        Relay(eager.broker.controller) as relay,
        following(eager.endpoint(relay.endpoint.address)) as follower,
    ):
        epoch = await caught_up(follower)
        relay.refuse()
        stood_at, before = (follower.loader.applied_offset or 0) + 1, len(follower.images)
        await limit(eager, 2_000.0)
        await until_due_at(eager, stood_at, epoch)
        serving = follower.loader.image
        relay.accept()
        await follower.until(lambda image: image is not serving)

    assert limited(serving) == dict.fromkeys(USERS, 1_000.0)
    assert limited(follower.images[before]) == dict.fromkeys(USERS, 2_000.0)
