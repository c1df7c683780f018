"""How long this process is the active controller: elected, it claims the log; losing track, it asks again.

`run` belongs in the process's TaskGroup. The election says who should write, the claim makes it so; what
an active controller does is writer's.
"""

import asyncio
from collections.abc import Awaitable, Callable

from forwarding.net.broker import Broker
from forwarding.net.election import Election
from forwarding.net.log import LogUnavailable
from forwarding.net.writer import Writer
from proxy.net.kafka.channel import ChannelError
from proxy.net.metadata.topic_feed import FeedTimeout
from proxy.net.runtime.reachability import Reachability


class Leader:
    """Makes `writer` active while this process is elected."""

    def __init__(self, writer: Writer, election: Election, broker: Broker, topic: str) -> None:
        self._writer = writer
        self._election = election
        self._broker = broker
        self._topic = topic
        self.reachability = Reachability("metadata log available", "metadata log not available yet", 50)

    async def run(self) -> None:
        """Make the topic, take part in the election, lead whenever elected; until cancelled."""
        await self._until_done(self._ensure_topic, lambda: True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._election.run())
            while True:
                await self._election.won.wait()
                while await self._until_done(self._writer.activate, self._election.won.is_set):
                    if not await self._lead():
                        break
                    if self._writer.fenced:
                        tasks.create_task(self._election.tell_fenced())

    async def _lead(self) -> bool:
        """Until the election or the log says otherwise; whether the log is to be claimed again at once."""
        async with asyncio.TaskGroup() as tasks:
            ends = [
                tasks.create_task(self._election.lost.wait()),
                tasks.create_task(self._writer.lost.wait()),
            ]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        # Fenced, or cut off for a while: either way another may have been elected meanwhile, and
        # claiming the log back without asking would fence it.
        if self._writer.lost.is_set() and await self._election.confirmed():
            return True
        await self._writer.resign()
        return False

    async def _ensure_topic(self) -> None:
        await self._broker.ensure_topic(self._topic)

    async def _until_done(self, attempt: Callable[[], Awaitable[None]], wanted: Callable[[], bool]) -> bool:
        while wanted():
            try:
                await attempt()
            except (LogUnavailable, ChannelError, FeedTimeout) as error:
                self.reachability.failed(error, topic=self._topic)
                await self.reachability.pause()
            else:
                self.reachability.reached(topic=self._topic)
                return True
        return False
