"""The metadata topic, followed by Fetch (read_committed), into a Loader.

Run by the proxy and by the controller, one for a process; `run` belongs in the process's TaskGroup. While
it has fallen behind (at start, after a lost connection) everything up to the log's end is applied in one
piece: compaction may have taken records out of what lies between, and no request may be decided on that.
"""

import asyncio
from collections.abc import Callable

import structlog

from proxy.metadata.loader import Loader, MetadataError
from proxy.net.kafka.channel import ChannelError, EndpointSettings
from proxy.net.metadata.offset_waiters import FeedTimeout, OffsetWaiters
from proxy.net.metadata.topic_partition import Partition, PartitionError, Place, at_leader
from proxy.net.metadata.transactions import BrokenBatch, Committed, TransactionReader
from proxy.net.runtime.chunked import in_pieces
from proxy.net.runtime.garbage_collector import apply_image
from proxy.net.runtime.reachability import Reach

__all__ = ["FeedTimeout", "TopicFeed"]

log = structlog.get_logger(__name__)


class TopicFeed:
    """Keeps `loader` at the end of the topic's one partition."""

    def __init__(
        self,
        endpoint: EndpointSettings,
        topic: str,
        loader: Loader,
        on_read: Callable[[Committed], None] = lambda _step: None,
    ) -> None:
        """`on_read`: told of each step before the loader is."""
        self._endpoint = endpoint
        self._on_read = on_read
        self._topic = topic
        self._loader = loader
        self._reader = TransactionReader(loader.next_offset)
        self._unapplied: list[Committed] = []
        """Read while catching up; a connection that ends in between must not take it along."""
        self._topic_id: bytes | None = None
        self._waiters = OffsetWaiters(lambda: loader.image.offset if loader.ready else None)
        self.reach = Reach("metadata feed caught up", "metadata feed interrupted")
        self.loaded = asyncio.Event()
        """Set once the loader is ready (KIP-801: before that no listener opens)."""
        self.connected = False
        """Following the log from its end on; False while it is being looked for or caught up with."""

    async def run(self) -> None:
        """Follow the topic until cancelled; MetadataError when the log holds what cannot be applied."""
        while True:
            try:
                async with at_leader(self._endpoint, self._topic) as (partition, place):
                    await self._catch_up(partition, place)
                    while True:
                        await self._apply(await self._read(partition))
            except (ChannelError, BrokenBatch, PartitionError) as error:
                self.reach.lost(error, topic=self._topic)
                await self.reach.pause()
            finally:
                self.connected = False

    async def wait_for(self, offset: int, timeout_ms: int) -> None:
        """Until an image with this offset or a later one serves (E13); FeedTimeout if not in time."""
        with self.reach.wanted():
            await self._waiters.wait_for(offset, timeout_ms)

    def tell(self, watcher: Callable[[int], None]) -> None:
        """Call it with each offset that is in force from now on."""
        self._waiters.tell(watcher)

    async def stable_offset(self) -> int:
        """The log's end now, asked of its leader: everything before it is decided."""
        try:
            async with at_leader(self._endpoint, self._topic) as (partition, _):
                return await partition.stable_offset()
        except PartitionError as error:
            raise ChannelError(f"{self._endpoint.address}: {error}") from error

    async def _catch_up(self, partition: Partition, place: Place) -> None:
        """Go on where we stood, or from the beginning if this is no longer the log we knew."""
        start, end = await partition.start_offset(), await partition.stable_offset()
        self._begin(place, start, end)
        while self._reader.position < end:
            self._unapplied += await self._read(partition)
        steps = self._unapplied
        last_offset = max([self._reader.settled_offset, *(step.last_offset for step in steps)])
        values: list[bytes] = []
        async for step in in_pieces(steps):
            values += step.values
        try:
            await self._apply([Committed(last_offset, tuple(values))])
        except MetadataError:
            _find_fault(steps)
            raise
        self._unapplied = []
        self.connected = True
        self.reach.reached(topic=self._topic, offset=self._loader.image.offset)

    async def _read(self, partition: Partition) -> list[Committed]:
        records = await partition.fetch(self._reader.position)
        steps: list[Committed] = []
        try:
            async for step in in_pieces(self._reader.steps(records)):
                steps += [] if step is None else [step]
        except BrokenBatch:
            # What came before it counts: it is not fetched again. The broken batch is, and then comes first.
            if not steps:
                raise
        for step in steps:
            self._on_read(step)
        return steps

    def _begin(self, place: Place, start: int, end: int) -> None:
        recreated = self._topic_id not in (None, place.topic_id)
        self._topic_id = place.topic_id
        if not recreated and start <= self._reader.position <= end:
            self._loader.load_until(end)
            return
        if self._reader.position > 0:
            log.warning(
                "metadata log is read again from its beginning",
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
    """MetadataError that names the transaction at fault, of many that were applied as one."""
    loader = Loader(lambda _image, _changed: None)
    for step in steps:
        loader.batch(step.last_offset, step.values)
