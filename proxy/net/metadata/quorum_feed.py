"""Follows Kafka's own metadata log, `__cluster_metadata`, at the leader of the quorum; and its metrics.

The proxy runs it if `controller.mode` is kraft; it has the interface of TopicFeed. Only committed records are
applied, and a snapshot at once. If the leader is lost, the feed looks for the new one. KRaft's log needs a
Loader with `compacted=False, every_offset=False`.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

import structlog
from prometheus_client.metrics_core import Metric

from proxy.metadata.loader import Loader
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.net.metadata.feed import FeedTimeout, MetadataFeed
from proxy.net.metadata.quorum import (
    CLUSTER_METADATA,
    UNKNOWN_OFFSET,
    ControllerNode,
    FetchedRecords,
    FetchPosition,
    NotQuorumLeader,
    QuorumError,
    QuorumLeader,
    SnapshotId,
)
from proxy.net.metadata.transactions import BrokenBatch, QuorumLog, SnapshotReader
from proxy.net.runtime.garbage_collector import apply_image
from proxy.net.runtime.merged_metrics import GaugeMetricFamily

RESPONSE_TIMEOUT_MS = 5_000
"""A controller that is silent for so much longer than the requested wait is frozen or cut off."""
RETRY_S = 0.1

log = structlog.get_logger(__name__)


class QuorumFeed(MetadataFeed):
    """Applies the records before the quorum's high watermark to `loader`; `endpoints` are its controllers."""

    def __init__(self, endpoints: Sequence[EndpointSettings], loader: Loader) -> None:
        super().__init__(loader, len(endpoints))
        self.leader = QuorumLeader([_with_timeout(endpoint) for endpoint in endpoints])
        self._log = QuorumLog()
        self._high_watermark = UNKNOWN_OFFSET
        self._rereading = False
        """Whether the image is of another log, and is in effect only until this log has been read."""
        self._redirected = False
        """Whether a controller named another leader since the feed was last connected."""
        self._end_requests = _EndRequests()

    def reconfigure(self, endpoints: Sequence[EndpointSettings]) -> None:
        """Replace the controllers that are tried while the leader is unknown."""
        self.leader.reconfigure([_with_timeout(endpoint) for endpoint in endpoints])
        self.reachability.replace_addresses(len(endpoints))

    async def run(self) -> None:
        """Follow the quorum until cancelled. MetadataError when a record of its log cannot be applied."""
        try:
            while True:
                await self._follow_once()
        finally:
            await self._end_requests.close()

    async def stable_offset(self, endpoint: EndpointSettings | None = None) -> int:
        """Request the high watermark from the leader; ChannelError while there is none.

        `endpoint`: the leader, if the caller knows it.
        """
        endpoint = endpoint or self.leader.endpoint
        if endpoint is None:
            raise ChannelError("the quorum's leader is not known")
        try:
            fetched = await self._end_requests.fetch(endpoint, self._position())
        except NotQuorumLeader as error:
            # The feed may still be at a controller that does not know the new epoch; with it, it is
            # redirected.
            if error.leadership.epoch > self.leader.epoch:
                self.leader.update(error.leadership)
            raise ChannelError(f"{endpoint.address}: {error}") from error
        except QuorumError as error:
            raise ChannelError(f"{endpoint.address}: {error}") from error
        if fetched.high_watermark < 0:
            raise ChannelError(f"{endpoint.address}: the leader has committed nothing yet")
        return fetched.high_watermark

    async def wait_for_end(self, timeout_ms: int, endpoint: EndpointSettings | None = None) -> int:
        """Wait until all that is committed now is applied (E13). Return the offset after it.

        FeedTimeout if it is not in time. `endpoint`: the controller that acknowledged the change; a former
        leader may not know it.
        """
        try:
            with self.reachability.wanted():
                async with asyncio.timeout(timeout_ms / 1000):
                    end = await self._known_stable_offset(endpoint)
                await self.wait_for(end - 1, timeout_ms)
                return end
        except TimeoutError:
            raise FeedTimeout(f"the quorum returned no high watermark within {timeout_ms} ms") from None

    async def _known_stable_offset(self, endpoint: EndpointSettings | None) -> int:
        while True:
            try:
                return await self.stable_offset(endpoint)
            except ChannelError as error:
                log.debug("Leader returned no high watermark", error=str(error))
                # This controller is down or no longer the leader.
                endpoint = None
                await asyncio.sleep(RETRY_S)

    async def _follow_once(self) -> None:
        """Follow one controller until it is lost or names another leader."""
        endpoint = self.leader.candidate()
        try:
            async with await Channel.open(endpoint) as channel:
                await self._follow(ControllerNode(channel), endpoint)
        except NotQuorumLeader as redirect:
            if self.leader.update(redirect.leadership) and not self._redirected:
                # Without a pause only once: two controllers may each name the other.
                self._redirected = True
                log.info("metadata feed is redirected", address=endpoint.address, error=str(redirect))
                return
            self.reachability.failed(redirect, endpoint.address, topic=CLUSTER_METADATA)
            await self.reachability.pause()
        except (ChannelError, BrokenBatch, QuorumError) as error:
            self.leader.lost()
            self.reachability.failed(
                error, endpoint.address, topic=CLUSTER_METADATA, offset=self._log.position
            )
            await self.reachability.pause()
        finally:
            self.connected = False

    async def _follow(self, node: ControllerNode, endpoint: EndpointSettings) -> None:
        fetched = await self._fetch(node, wait=False)
        self.leader.found(endpoint)
        end = fetched.high_watermark
        while True:
            await self._process(node, fetched)
            if not self.connected and 0 <= end <= self.loader.next_offset:
                self.connected, self._redirected = True, False
                self.reachability.reached(
                    topic=CLUSTER_METADATA,
                    offset=self.loader.next_offset - 1,
                    leader=endpoint.address,
                    leader_epoch=self.leader.epoch,
                )
            fetched = await self._fetch(node)
            end = fetched.high_watermark if end < 0 else end

    async def _fetch(self, node: ControllerNode, *, wait: bool = True) -> FetchedRecords:
        try:
            return await node.fetch(self._position(), wait=wait, uncommitted=self._log.has_uncommitted)
        except NotQuorumLeader as error:
            if error.leadership.epoch <= self.leader.epoch:
                raise
            # It may lead in the epoch that it reports.
            self.leader.update(error.leadership)
            return await node.fetch(self._position(), wait=False)

    def _position(self) -> FetchPosition:
        return FetchPosition(
            self._log.position, self._log.last_epoch, self.leader.epoch, self._high_watermark
        )

    async def _process(self, node: ControllerNode, fetched: FetchedRecords) -> None:
        if fetched.snapshot is not None:
            await self._load_snapshot(node, fetched.snapshot, fetched.high_watermark)
        elif fetched.diverging:
            self._truncate()
        else:
            await self._log.read(fetched.records)
            await self._advance(fetched.high_watermark)

    def _truncate(self) -> None:
        """Drop records, because the leader's log differs from ours."""
        if self._log.has_uncommitted:
            log.info("truncating uncommitted metadata records", position=self._log.position)
            self._log.truncate()
            return
        # Committed records are never truncated: this is another quorum.
        log.warning("reading the metadata log from its beginning", position=self._log.position)
        self._start_over()

    def _start_over(self) -> None:
        self._log.start_at(0, 0)
        self._high_watermark = UNKNOWN_OFFSET
        self._rereading = True

    async def _advance(self, high_watermark: int) -> None:
        if high_watermark < 0:
            return
        self._hide_until(high_watermark)
        # A new leader may report a lower high watermark; what was committed stays committed.
        self._high_watermark = max(self._high_watermark, high_watermark)
        for batch in self._log.committed(self._high_watermark):
            await apply_image(self.loader.batch_steps(batch.last_offset, batch.values))
        self.applied()

    def _hide_until(self, high_watermark: int) -> None:
        """Show no image before this offset, at start and when the log is read from its beginning."""
        if self._high_watermark >= 0:
            return
        if self._rereading:
            self.loader.reload_until(high_watermark)
        else:
            self.loader.load_until(high_watermark)
        self._rereading = False

    async def _load_snapshot(self, node: ControllerNode, wanted: SnapshotId, high_watermark: int) -> None:
        log.info("fetching metadata snapshot", end_offset=wanted.end_offset, epoch=wanted.epoch)
        reader = SnapshotReader()
        position, size = 0, 1
        while position < size:
            chunk, size = await node.snapshot_chunk(wanted, position, self.leader.epoch)
            await reader.read(chunk)
            position += len(chunk)
        await self._apply_snapshot(wanted, reader.values(), max(high_watermark, wanted.end_offset))

    async def _apply_snapshot(self, snapshot: SnapshotId, values: list[bytes], high_watermark: int) -> None:
        if snapshot.end_offset < self.loader.next_offset and not self._rereading:
            log.warning("metadata snapshot ends before the applied offset", end_offset=snapshot.end_offset)
            self._start_over()
        # The snapshot is shown with what was committed since: an old image may be in effect, but none may go
        # back.
        self._high_watermark = UNKNOWN_OFFSET
        self._hide_until(high_watermark)
        await apply_image(self.loader.snapshot_steps(snapshot.end_offset - 1, values))
        self._log.start_at(snapshot.end_offset, snapshot.epoch)
        self._high_watermark = high_watermark
        self.applied()


class _EndRequests:
    """A second connection to the leader: on the feed's own one a response may take as long as a poll."""

    def __init__(self) -> None:
        self._channel: Channel | None = None
        self._lock = asyncio.Lock()

    async def fetch(self, endpoint: EndpointSettings, position: FetchPosition) -> FetchedRecords:
        """Fetch without waiting. Any error closes the connection."""
        async with self._lock:
            try:
                return await ControllerNode(await self._open(endpoint)).fetch(position, wait=False)
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


def _with_timeout(endpoint: EndpointSettings) -> EndpointSettings:
    return replace(endpoint, request_timeout_ms=min(endpoint.request_timeout_ms, RESPONSE_TIMEOUT_MS))


def quorum_series(feed: QuorumFeed, loader: Loader) -> Iterator[Metric]:
    """Yield penstock_quorum_*; only for a proxy that follows a quorum."""
    yield GaugeMetricFamily(
        "penstock_quorum_connected",
        "Whether the feed follows the leader of Kafka's quorum",
        int(feed.connected),
        merge="min",
    )
    yield GaugeMetricFamily(
        "penstock_quorum_leader_epoch",
        "Epoch of the quorum's leader",
        feed.leader.epoch,
        merge="max",
    )
    if loader.applied_offset is not None:
        yield GaugeMetricFamily(
            "penstock_quorum_applied_offset",
            "Offset of Kafka's metadata log up to which everything is applied",
            loader.applied_offset,
            merge="min",
        )
