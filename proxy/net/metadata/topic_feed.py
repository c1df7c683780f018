"""Follows the metadata topic by Fetch (read_committed), into a Loader.

Proxies and controllers have one feed each; `run` belongs in the process's TaskGroup. While the feed catches
up, at start and after a lost connection, everything up to the log's end is applied at once: compaction may
have removed records in between, and no request may be decided on such a state.
"""

import asyncio
from collections.abc import Callable

import structlog

from proxy.metadata.delta import MetadataError
from proxy.metadata.loader import Loader
from proxy.net.kafka.channel import ChannelError, EndpointSettings
from proxy.net.metadata.offset_waiters import FeedTimeout, OffsetWaiters
from proxy.net.metadata.topic_partition import Partition, PartitionError, PartitionLeader, at_leader
from proxy.net.metadata.transactions import BrokenBatch, Committed, TransactionReader
from proxy.net.runtime.chunked import iterate_in_slices
from proxy.net.runtime.garbage_collector import apply_image
from proxy.net.runtime.reachability import Reachability

__all__ = ["FeedTimeout", "TopicFeed"]

log = structlog.get_logger(__name__)


class TopicFeed:
    """Applies the records of the topic's only partition to `loader`."""

    def __init__(
        self,
        endpoint: EndpointSettings,
        topic: str,
        loader: Loader,
        on_read: Callable[[Committed], None] = lambda _step: None,
    ) -> None:
        """`on_read` is called with each step before it is applied."""
        self._endpoint = endpoint
        self._on_read = on_read
        self._topic = topic
        self._loader = loader
        self._reader = TransactionReader(loader.next_offset)
        self._unapplied: list[Committed] = []
        """Steps that were read while catching up; they survive a lost connection."""
        self._topic_id: bytes | None = None
        self._waiters = OffsetWaiters(lambda: loader.image.offset if loader.ready else None)
        self.reachability = Reachability("metadata feed caught up", "metadata feed interrupted")
        self.loaded = asyncio.Event()
        """Set when the loader is ready. No listener opens before (KIP-801)."""
        self.connected = False
        """Whether the feed follows the end of the log; False while it connects or catches up."""

    async def run(self) -> None:
        """Follow the topic until cancelled. MetadataError when a record of the log cannot be applied."""
        while True:
            try:
                async with at_leader(self._endpoint, self._topic) as (partition, leader):
                    await self._catch_up(partition, leader)
                    while True:
                        await self._apply(await self._read(partition))
            except (ChannelError, BrokenBatch, PartitionError) as error:
                self.reachability.failed(error, topic=self._topic)
                await self.reachability.pause()
            finally:
                self.connected = False

    async def wait_for(self, offset: int, timeout_ms: int) -> None:
        """Wait until this offset is applied (E13); FeedTimeout if it is not in time."""
        with self.reachability.wanted():
            await self._waiters.wait_for(offset, timeout_ms)

    def on_applied(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with each offset that is applied from now on."""
        self._waiters.on_applied(listener)

    async def stable_offset(self) -> int:
        """Request the last stable offset from the leader: everything before it is committed or aborted."""
        try:
            async with at_leader(self._endpoint, self._topic) as (partition, _):
                return await partition.stable_offset()
        except PartitionError as error:
            raise ChannelError(f"{self._endpoint.address}: {error}") from error

    async def _catch_up(self, partition: Partition, leader: PartitionLeader) -> None:
        """Continue at our position, or at the beginning if this is another log."""
        start, end = await partition.start_offset(), await partition.stable_offset()
        self._begin(leader, start, end)
        while self._reader.position < end:
            self._unapplied += await self._read(partition)
        steps = self._unapplied
        last_offset = max([self._reader.settled_offset, *(step.last_offset for step in steps)])
        values: list[bytes] = []
        async for step in iterate_in_slices(steps):
            values += step.values
        try:
            await self._apply([Committed(last_offset, tuple(values))])
        except MetadataError:
            _find_fault(steps)
            raise
        self._unapplied = []
        self.connected = True
        self.reachability.reached(topic=self._topic, offset=self._loader.image.offset)

    async def _read(self, partition: Partition) -> list[Committed]:
        records = await partition.fetch(self._reader.position)
        steps: list[Committed] = []
        try:
            async for step in iterate_in_slices(self._reader.steps(records)):
                steps += [] if step is None else [step]
        except BrokenBatch:
            # The steps before the broken batch count. The batch is fetched again, and then is the first one.
            if not steps:
                raise
        for step in steps:
            self._on_read(step)
        return steps

    def _begin(self, leader: PartitionLeader, start: int, end: int) -> None:
        recreated = self._topic_id not in (None, leader.topic_id)
        self._topic_id = leader.topic_id
        if not recreated and start <= self._reader.position <= end:
            self._loader.load_until(end)
            return
        if self._reader.position > 0:
            log.warning(
                "reading the metadata log from its beginning",
                topic=self._topic,
                position=self._reader.position,
                log_start_offset=start,
                last_stable_offset=end,
                recreated=recreated,
            )
        self._reader, self._unapplied = TransactionReader(start), []
        self._loader.reload_until(end)

    async def _apply(self, steps: list[Committed]) -> None:
        for step in steps:
            await apply_image(self._loader.batch_steps(step.last_offset, step.values))
        if self._loader.ready:
            self.loaded.set()
            self._waiters.wake()


def _find_fault(steps: list[Committed]) -> None:
    """Raise MetadataError for the first of these steps that cannot be applied; they were applied as one."""
    loader = Loader(lambda _image, _changed: None)
    for step in steps:
        loader.batch(step.last_offset, step.values)
