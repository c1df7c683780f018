"""The term of the active controller: it claims the log when elected, and releases it when it was replaced.

`run` belongs in the process's TaskGroup. forwarding.net.election decides which controller should be active;
the claim makes it so. forwarding.net.request_processor serves requests meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable

from forwarding.net.broker import Broker
from forwarding.net.election import Election
from forwarding.net.log import LogUnavailable
from forwarding.net.request_processor import RequestProcessor
from proxy.net.kafka.channel import ChannelError
from proxy.net.metadata.offset_waiters import FeedTimeout
from proxy.net.runtime.reachability import Reachability


class Leader:
    """Activates the request processor while this process is elected."""

    def __init__(self, processor: RequestProcessor, election: Election, broker: Broker, topic: str) -> None:
        self._processor = processor
        self._election = election
        self._broker = broker
        self._topic = topic
        self.reachability = Reachability("metadata log available", "metadata log not available yet", 50)

    async def run(self) -> None:
        """Create the topic, take part in the election, lead whenever elected; until cancelled."""
        await self._until_done(self._ensure_topic, lambda: True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._election.run())
            while True:
                await self._election.won.wait()
                while await self._until_done(self._processor.activate, self._election.won.is_set):
                    if not await self._lead():
                        break
                    if self._processor.fenced:
                        tasks.create_task(self._election.report_fenced())

    async def _lead(self) -> bool:
        """Wait for the end of the election or of the claim; return whether to claim the log again at once."""
        async with asyncio.TaskGroup() as tasks:
            ends = [
                tasks.create_task(self._election.lost.wait()),
                tasks.create_task(self._processor.lost.wait()),
            ]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        # After being fenced or cut off, another controller may have been elected: to claim the log without
        # asking the group would fence it.
        if self._processor.lost.is_set() and await self._election.confirmed():
            return True
        await self._processor.resign()
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
