"""Kafka's own metadata log, `__cluster_metadata`, followed at the leader of the quorum; its metrics.

Run by the proxy where `controller.mode` is kraft; it has the interface of TopicFeed. Only committed records
are applied, a snapshot appears in one piece, and whenever the leader is gone the feed looks for the new one.
The Loader is one for KRaft's log: `Loader(on_image, compacted=False, every_offset=False)`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import structlog
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from proxy.metadata.loader import Loader
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.net.metadata.offset_waiters import FeedTimeout, OffsetWaiters
from proxy.net.metadata.quorum import (
    CLUSTER_METADATA,
    UNKNOWN_OFFSET,
    ControllerNode,
    Fetched,
    NotLeader,
    Place,
    QuorumError,
    QuorumLeader,
    SnapshotId,
)
from proxy.net.metadata.quorum_log import QuorumLog, SnapshotReader
from proxy.net.metadata.transactions import BrokenBatch
from proxy.net.runtime.chunked import done_in_pieces
from proxy.net.runtime.garbage_collector import apply_image
from proxy.net.runtime.reachability import Reach

ANSWER_TIMEOUT_MS = 5_000
"""A controller that is silent for so much longer than it was asked to wait is frozen or cut off."""
ASK_AGAIN_S = 0.1

log = structlog.get_logger(__name__)


class QuorumFeed:
    """Keeps `loader` at the high watermark of the quorum that `endpoints` are controllers of."""

    def __init__(self, endpoints: Sequence[EndpointSettings], loader: Loader) -> None:
        self.leader = QuorumLeader([_impatient(endpoint) for endpoint in endpoints])
        self._loader = loader
        self._log = QuorumLog()
        self._high_watermark = UNKNOWN_OFFSET
        self._waiters = OffsetWaiters(lambda: loader.applied_offset)
        self.reach = Reach("metadata feed caught up", "metadata feed interrupted", addresses=len(endpoints))
        self._anew = False
        """What was known is not of this log, and serves only until it has been read."""
        self._sent_elsewhere = False
        """Since the feed was connected last."""
        self._inquiry = _Inquiry()
        self.loaded = asyncio.Event()
        """Set once the loader is ready (KIP-801: before that no listener opens)."""
        self.connected = False
        """At the leader, and caught up with what was committed when it was found."""

    def follow(self, endpoints: Sequence[EndpointSettings]) -> None:
        """These controllers are tried from now on while the leader is not known."""
        self.leader.follow([_impatient(endpoint) for endpoint in endpoints])
        self.reach.follow(len(endpoints))

    async def run(self) -> None:
        """Follow the quorum until cancelled; MetadataError when its log holds what cannot be applied."""
        try:
            while True:
                await self._follow_once()
        finally:
            await self._inquiry.close()

    async def wait_for(self, offset: int, timeout_ms: int) -> None:
        """Until this offset or a later one is in force (E13); FeedTimeout if not in time."""
        with self.reach.wanted():
            await self._waiters.wait_for(offset, timeout_ms)

    def tell(self, watcher: Callable[[int], None]) -> None:
        """Call it with each offset that is in force from now on."""
        self._waiters.tell(watcher)

    async def stable_offset(self, endpoint: EndpointSettings | None = None) -> int:
        """The high watermark now, asked of the leader; ChannelError while there is none.

        `endpoint`: who is known to lead, where that is not left to the feed.
        """
        endpoint = endpoint or self.leader.endpoint
        if endpoint is None:
            raise ChannelError("the quorum's leader is not known")
        try:
            answer = await self._inquiry.fetch(endpoint, self._place())
        except NotLeader as told:
            # The feed may still be at one that does not know it yet; with the new epoch it is sent on.
            if told.leadership.epoch > self.leader.epoch:
                self.leader.learn(told.leadership)
            raise ChannelError(f"{endpoint.address}: {told}") from told
        except QuorumError as error:
            raise ChannelError(f"{endpoint.address}: {error}") from error
        if answer.high_watermark < 0:
            raise ChannelError(f"{endpoint.address}: the leader has committed nothing yet")
        return answer.high_watermark

    async def wait_until_now(self, timeout_ms: int, endpoint: EndpointSettings | None = None) -> int:
        """Until all that was committed when this was called is in force (E13); FeedTimeout if not in time.

        Gives the offset behind the last of it.
        `endpoint`: the controller that acknowledged what is waited for; one that led before may not know it.
        """
        try:
            with self.reach.wanted():
                async with asyncio.timeout(timeout_ms / 1000):
                    end = await self._stable_offset_at_last(endpoint)
                await self.wait_for(end - 1, timeout_ms)
                return end
        except TimeoutError:
            raise FeedTimeout(f"the quorum did not tell its high watermark within {timeout_ms} ms") from None

    async def _stable_offset_at_last(self, endpoint: EndpointSettings | None) -> int:
        while True:
            try:
                return await self.stable_offset(endpoint)
            except ChannelError as error:
                log.debug("high watermark not known", error=str(error))
                # Whoever it was leads no more, or is gone.
                endpoint = None
                await asyncio.sleep(ASK_AGAIN_S)

    async def _follow_once(self) -> None:
        """At one controller, until it is gone or says that another one leads."""
        endpoint = self.leader.candidate()
        try:
            async with await Channel.open(endpoint) as channel:
                await self._follow(ControllerNode(channel), endpoint)
        except NotLeader as elsewhere:
            if self.leader.learn(elsewhere.leadership) and not self._sent_elsewhere:
                # Whoever is sent from one to the other and back must not do so without a pause.
                self._sent_elsewhere = True
                log.info("metadata feed is sent elsewhere", address=endpoint.address, error=str(elsewhere))
                return
            self.reach.lost(elsewhere, endpoint.address, topic=CLUSTER_METADATA)
            await self.reach.pause()
        except (ChannelError, BrokenBatch, QuorumError) as error:
            self.leader.lost()
            self.reach.lost(error, endpoint.address, topic=CLUSTER_METADATA, offset=self._log.position)
            await self.reach.pause()
        finally:
            self.connected = False

    async def _follow(self, node: ControllerNode, endpoint: EndpointSettings) -> None:
        fetched = await self._fetch(node, wait=False)
        self.leader.found(endpoint)
        end = fetched.high_watermark
        while True:
            await self._take(node, fetched)
            if not self.connected and 0 <= end <= self._loader.next_offset:
                self._caught_up(endpoint)
            fetched = await self._fetch(node)
            end = fetched.high_watermark if end < 0 else end

    def _caught_up(self, endpoint: EndpointSettings) -> None:
        self.connected, self._sent_elsewhere = True, False
        self.reach.reached(
            topic=CLUSTER_METADATA,
            offset=self._loader.next_offset - 1,
            leader=endpoint.address,
            leader_epoch=self.leader.epoch,
        )

    async def _fetch(self, node: ControllerNode, *, wait: bool = True) -> Fetched:
        try:
            return await node.fetch(self._place(), wait=wait, uncommitted=self._log.has_uncommitted)
        except NotLeader as told:
            if told.leadership.epoch <= self.leader.epoch:
                raise
            # It may well lead in the epoch that it tells.
            self.leader.learn(told.leadership)
            return await node.fetch(self._place(), wait=False)

    def _place(self) -> Place:
        return Place(self._log.position, self._log.last_epoch, self.leader.epoch, self._high_watermark)

    async def _take(self, node: ControllerNode, fetched: Fetched) -> None:
        if fetched.snapshot is not None:
            await self._take_snapshot(node, fetched.snapshot, fetched.high_watermark)
        elif fetched.diverging:
            self._step_back()
        else:
            await done_in_pieces(self._log.steps(fetched.records))
            await self._advance(fetched.high_watermark)

    def _step_back(self) -> None:
        """The leader's log is another one than ours: what was not committed is taken back."""
        if self._log.has_uncommitted:
            log.info("uncommitted metadata records are taken back", position=self._log.position)
            self._log.forget_uncommitted()
            return
        # What was committed is never taken back: this is a quorum that was set up anew.
        log.warning("metadata log is read again from its beginning", position=self._log.position)
        self._start_over()

    def _start_over(self) -> None:
        self._log.start_at(0, 0)
        self._high_watermark = UNKNOWN_OFFSET
        self._anew = True

    async def _advance(self, high_watermark: int) -> None:
        if high_watermark < 0:
            return
        self._show_until(high_watermark)
        # A new leader may know less of what is committed than the one before; what was committed stays so.
        self._high_watermark = max(self._high_watermark, high_watermark)
        for batch in self._log.committed(self._high_watermark):
            await apply_image(self._loader.batch_steps(batch.last_offset, batch.values))
        self._applied()

    def _show_until(self, high_watermark: int) -> None:
        """Nothing is shown before this is reached: the first time, and when all is read again."""
        if self._high_watermark >= 0:
            return
        if self._anew:
            self._loader.reload_until(high_watermark)
        else:
            self._loader.load_until(high_watermark)
        self._anew = False

    async def _take_snapshot(self, node: ControllerNode, wanted: SnapshotId, high_watermark: int) -> None:
        log.info("metadata snapshot is fetched", end_offset=wanted.end_offset, epoch=wanted.epoch)
        reader = SnapshotReader()
        position, size = 0, 1
        while position < size:
            chunk, size = await node.snapshot_chunk(wanted, position, self.leader.epoch)
            await done_in_pieces(reader.steps(chunk))
            position += len(chunk)
        await self._replace_by(wanted, reader.values(), max(high_watermark, wanted.end_offset))

    async def _replace_by(self, snapshot: SnapshotId, values: list[bytes], high_watermark: int) -> None:
        if snapshot.end_offset < self._loader.next_offset and not self._anew:
            log.warning("metadata snapshot ends before what is known", end_offset=snapshot.end_offset)
            self._start_over()
        # Also with what was committed since then in it: an old image may serve, one of the past may not.
        self._high_watermark = UNKNOWN_OFFSET
        self._show_until(high_watermark)
        await apply_image(self._loader.snapshot_steps(snapshot.end_offset - 1, values))
        self._log.start_at(snapshot.end_offset, snapshot.epoch)
        self._high_watermark = high_watermark
        self._applied()

    def _applied(self) -> None:
        if self._loader.ready:
            self.loaded.set()
            self._waiters.wake()


class _Inquiry:
    """A second connection to the leader: on the feed's own an answer may take as long as a poll."""

    def __init__(self) -> None:
        self._channel: Channel | None = None
        self._lock = asyncio.Lock()

    async def fetch(self, endpoint: EndpointSettings, place: Place) -> Fetched:
        """What the endpoint answers at once; whatever goes wrong ends the connection."""
        async with self._lock:
            try:
                return await ControllerNode(await self._open(endpoint)).fetch(place, wait=False)
            except (ChannelError, QuorumError):
                await self.close()
                raise

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def _open(self, endpoint: EndpointSettings) -> Channel:
        if self._channel is None or self._channel.closed or self._channel.endpoint != endpoint:
            await self.close()
            self._channel = await Channel.open(endpoint)
        return self._channel


def _impatient(endpoint: EndpointSettings) -> EndpointSettings:
    return replace(endpoint, request_timeout_ms=min(endpoint.request_timeout_ms, ANSWER_TIMEOUT_MS))


class QuorumCollector(Collector):
    """penstock_quorum_*, read off the feed at each scrape; only where there is a quorum to follow."""

    def __init__(self, feed: QuorumFeed, loader: Loader) -> None:
        self._feed = feed
        self._loader = loader

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "penstock_quorum_connected",
            "1 while the leader of Kafka's quorum is followed",
            int(self._feed.connected),
        )
        yield GaugeMetricFamily(
            "penstock_quorum_leader_epoch", "Epoch of the quorum's leader", self._feed.leader.epoch
        )
        if self._loader.applied_offset is not None:
            yield GaugeMetricFamily(
                "penstock_quorum_applied_offset",
                "Offset of Kafka's metadata log up to which everything is in force",
                self._loader.applied_offset,
            )
