"""A controller that is cut off from its brokers in the middle of its work, for a moment and for long.

Its only way to the broker, for the log, the feed and the election, is a listener that is advertised behind a
relay. What was acknowledged meanwhile is in the log once.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forwarding.net.forwarder import Forwarder
from tests.lab.cluster.broker import Broker, BrokerSettings
from tests.lab.cluster.ports import free_addresses
from tests.support.controller_processes import everything_in
from tests.support.controllers import (
    a_controller,
    a_forwarder,
    acl_names,
    create_acls,
    endpoint_of,
    login,
    plaintext,
)
from tests.support.relay import Relay

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LOGIN = ("penstock", "penstock-secret")
CHANGE_TIMEOUT_MS = 90_000
COMMIT_TIMEOUT_MS = 2_000
CUTS = 5
AT_LEAST = 5


@asynccontextmanager
async def a_broker_behind_a_relay(libs: Path, directory: Path) -> AsyncIterator[tuple[Broker, Relay]]:
    broker = Broker(libs, BrokerSettings(directory=directory, scram_users=dict([LOGIN])))
    (behind,) = free_addresses(1)
    async with Relay(behind) as relay:
        broker.behind = behind, relay.endpoint.address
        try:
            await asyncio.to_thread(broker.start)
            yield broker, relay
        finally:
            relay.refuse()
            await asyncio.to_thread(broker.stop)


class Stream:
    """One ACL after another; `acknowledged` grows."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self._news = asyncio.Event()
        self.acknowledged: list[str] = []
        self.over = False

    async def run(self) -> None:
        while not self.over:
            name = f"t{len(self.acknowledged):05}"
            await create_acls(self._forwarder, name, timeout_ms=CHANGE_TIMEOUT_MS)
            self.acknowledged.append(name)
            self._news.set()

    async def goes_on(self) -> None:
        wanted = len(self.acknowledged) + AT_LEAST
        async with asyncio.timeout(CHANGE_TIMEOUT_MS / 1_000):
            while len(self.acknowledged) < wanted:
                self._news.clear()
                await self._news.wait()


@pytest.mark.spec("E5", "E12")
async def test_a_cut_between_controller_and_broker_loses_and_doubles_no_change(
    kafka_libs: Path, topic_name: str, tmp_path: Path
) -> None:
    async with a_broker_behind_a_relay(kafka_libs, tmp_path) as (broker, relay):
        endpoint = endpoint_of(relay.endpoint.address, sasl=login(*LOGIN, "SCRAM-SHA-256"))
        async with (
            a_controller(endpoint, topic_name) as controller,
            a_forwarder(controller.endpoint) as forwarder,
            asyncio.TaskGroup() as tasks,
        ):
            processor = controller.process.processor
            # Soon enough that the test need not wait for it.
            processor._log._timeout_ms = COMMIT_TIMEOUT_MS
            stream = Stream(forwarder)
            streaming = tasks.create_task(stream.run())
            for _ in range(CUTS):
                await stream.goes_on()
                relay.cut()
            await stream.goes_on()

            relay.refuse()
            async with asyncio.timeout(CHANGE_TIMEOUT_MS / 1_000):
                await processor.lost.wait()
            relay.accept()
            await stream.goes_on()
            stream.over = True
            await streaming
        image, steps = await everything_in(plaintext(broker), topic_name)

    assert acl_names(image) == stream.acknowledged
    assert set(Counter(value for step in steps for value in step.values).values()) == {1}
    assert len(steps) == len(stream.acknowledged), "one transaction each"
