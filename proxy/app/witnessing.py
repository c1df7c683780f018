"""Proxies witness each other's audit trail over a topic, where no controller does (`controller.mode: kraft`).

proxy.audit.witnesses decides which processes this one witnesses. This module sends the end of its trail,
hears those of the others, and records what is due: each minute, and soon after a process was heard for the
first time. Made by proxy.app.
"""

import asyncio
from collections.abc import Callable

from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.audit.witnesses import Witness
from proxy.config import ProxyConfig
from proxy.net.audit.audit_log import AuditLog
from proxy.net.kafka.channel import ChannelError, EndpointSettings
from proxy.net.metadata.live_topic import SEND_TIMEOUT_S, LiveTopic
from proxy.net.runtime.clock import monotonic_ms, now_ms, set_within
from proxy.net.runtime.reachability import Reachability

INTERVAL_S = 60.0
NEWCOMER_S = 1.0
"""The shortest time between two messages. A process that is new is to hear the others soon."""
RETRY_S = 5.0
PARTITION = 0


class Witnessing:
    """The exchange of one process with the others."""

    def __init__(
        self,
        witness: Witness,
        broker: EndpointSettings,
        topic: str,
        record: Callable[[AuditEvent], None],
        on_same_id: Callable[[str | None], None],
    ) -> None:
        """`on_same_id`: called with the other process that runs under this one's id; None: there is none."""
        self._witness = witness
        self._topic = LiveTopic(broker, topic, partitions=1)
        self._record = record
        self._on_same_id = on_same_id
        self._newcomer = asyncio.Event()
        self._is_reading = asyncio.Event()
        self._sending = Reachability("audit trail is witnessed", "audit trail cannot be witnessed")
        self._reading = Reachability("witnessing audit trails", "audit trails cannot be witnessed")

    async def run(self) -> None:
        """Exchange until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(
                    self._topic.follow(PARTITION, self._hear, self._reading, self._is_reading.set)
                )
                while True:
                    await self._pause(INTERVAL_S if await self._sent() else RETRY_S)
                    for end in self._witness.due(monotonic_ms()):
                        self._record(events.witnessed(message=end))
                    self._on_same_id(self._witness.same_id(monotonic_ms()))
        finally:
            await self._topic.close()

    def _hear(self, message: bytes) -> None:
        if self._witness.hear(message, monotonic_ms(), now_ms()):
            self._newcomer.set()

    async def _sent(self) -> bool:
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._topic.locate()
                # The others respond to the first message only.
                await self._is_reading.wait()
                # Not later: who begins while this message is sent may not get it.
                self._newcomer.clear()
                await self._topic.send({PARTITION: [self._witness.message()]})
        except (ChannelError, TimeoutError) as error:
            self._topic.forget()
            self._sending.failed(error, topic=self._topic.topic)
            return False
        self._sending.reached(topic=self._topic.topic)
        return True

    async def _pause(self, wait_s: float) -> None:
        await asyncio.sleep(NEWCOMER_S)
        if await set_within(self._newcomer, (wait_s - NEWCOMER_S) * 1000):
            await asyncio.sleep(NEWCOMER_S)


def witnessing(
    config: ProxyConfig, broker: EndpointSettings, audit: AuditLog, on_same_id: Callable[[str | None], None]
) -> Witnessing | None:
    """Return the exchange of a proxy, None if Penstock's controller is the witness."""
    if config.controller.mode != "kraft":
        return None
    witness = Witness(audit.author.key.decode(), lambda: audit.end, config.audit.policy().chain_key)
    return Witnessing(witness, broker, config.audit.witnesses_topic, audit.append, on_same_id)
