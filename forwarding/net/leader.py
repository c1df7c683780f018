"""How long this process is the active controller: claims the log, and again when it has lost track of it.

`run` belongs in the process's TaskGroup. Once fenced it stands by: another controller has claimed the log,
and to claim it back would only start a quarrel. What an active controller does is writer's.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from forwarding.net.broker import Broker
from forwarding.net.log import LogUnavailable
from forwarding.net.writer import Writer
from forwarding.retry import Backoff
from proxy.net.channel import ChannelError
from proxy.net.metadata_feed import FeedTimeout

BACKOFF = Backoff(initial_ms=200, maximum_ms=5_000)

log = structlog.get_logger(__name__)


class Leader:
    """Makes `writer` active, and active again."""

    def __init__(self, writer: Writer, broker: Broker, topic: str) -> None:
        self._writer = writer
        self._broker = broker
        self._topic = topic

    async def run(self) -> None:
        """Claim the log; whenever its end is no longer known, claim it again; stop when fenced."""
        await self._until_done(self._ensure_topic)
        while not self._writer.fenced:
            await self._until_done(self._writer.activate)
            await self._writer.lost.wait()
        log.warning("controller stands by: another one has claimed the metadata log", topic=self._topic)

    async def _ensure_topic(self) -> None:
        await self._broker.ensure_topic(self._topic)

    async def _until_done(self, attempt: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            try:
                await attempt()
            except (LogUnavailable, ChannelError, FeedTimeout) as error:
                failures += 1
                log.warning("metadata log not available yet", topic=self._topic, error=str(error))
                await asyncio.sleep(BACKOFF.pause_ms(failures, 0.5, BACKOFF.maximum_ms) / 1000)
            else:
                return
