"""A broker that takes produces slowly, by a quota of its own for the proxy: what a drain waits for."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.net.runtime.clock import monotonic_ms
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import User
from tests.lab.hostile.asking_broker import at, set_quotas
from tests.lab.hostile.client import Client, frame
from tests.lab.pipelines.clients import VERSIONS, produce
from tests.support.cluster_admin import ClusterAdmin

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]

IN_FLIGHT, BROKER_BYTES_A_SECOND = 1_000, 20_000.0
DRAIN_MS = 2_000
ENDED_MS = 1_000
"""What the end of the process takes besides."""
TOPIC = "slow"


@pytest.fixture
def slow(kafka_libs: Path, tmp_path: Path) -> Iterator[Stack]:
    with Stack(StackSettings(directory=tmp_path, libs=kafka_libs)).running() as stack:
        admin = ClusterAdmin(stack)
        admin.topic(TOPIC)
        admin.allow_produce(stack.users["alice"], TOPIC)
        with at(stack.broker.plaintext) as broker:
            set_quotas(broker, "penstock", {None: {"producer_byte_rate": BROKER_BYTES_A_SECOND}})
        yield stack


async def _in_flight(stack: Stack, alice: User) -> float:
    """How long a drain takes with so many produces in flight."""
    data = frame(ApiKey.PRODUCE, VERSIONS[ApiKey.PRODUCE], produce(TOPIC))
    async with await Client.logged_in(stack.entrance().bootstrap, alice, "127.0.0.1") as client:
        client.writer.write(data * IN_FLIGHT)
        await client.answers(20)
        began_ms = monotonic_ms()
        assert await asyncio.to_thread(stack.proxy.stop)
        return monotonic_ms() - began_ms


@pytest.mark.spec("Q14", "R9")
def test_a_drain_behind_a_slow_broker_ends_within_two_seconds(slow: Stack) -> None:
    alice = replace(slow.users["alice"], mechanism="PLAIN")

    drained_ms = asyncio.run(_in_flight(slow, alice))

    assert drained_ms < DRAIN_MS + ENDED_MS
