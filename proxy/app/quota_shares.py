"""The quotas that this proxy shares with all others (quota.scope: cluster, Q13), over a Kafka topic.

proxy.quota.cluster decides on shares. This module sends what it returns at each tick, reads the partitions
that it names, and probes proxies that have become silent; and it has what metrics, /quotas and the audit
trail show. Records are of use only for a moment, so nothing is sent again: the next tick has newer ones. Made
by proxy.app if a quota may have that scope.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.config import ProxyConfig, split_host_port
from proxy.error_text import text_of
from proxy.net.kafka.broker_watch import BrokerFacts
from proxy.net.kafka.channel import ChannelError, EndpointSettings
from proxy.net.metadata.live_topic import SEND_TIMEOUT_S, LiveTopic
from proxy.net.runtime.chunked import iterate_in_slices
from proxy.net.runtime.clock import monotonic_ms, now_ms
from proxy.net.runtime.merged_metrics import GaugeMetricFamily
from proxy.net.runtime.reachability import Reachability
from proxy.quota.cluster.holdings import ShareOrigin
from proxy.quota.cluster.member import ClusterMember, Outgoing, Used
from proxy.quota.cluster.timing import TICK_MS
from proxy.quota.keys import KEYS
from proxy.quota.rate import Rate
from proxy.quota.throttle import Bucket
from proxy.session.accounting.summaries import OBSERVE

PROBE_TIMEOUT_S = 1.0

log = structlog.get_logger(__name__)


class QuotaShares(Collector):
    """This process among those that share quotas."""

    def __init__(
        self, config: ProxyConfig, broker: EndpointSettings, boot_id: str, registry: CollectorRegistry
    ) -> None:
        """`broker`: its internal listener, for the topic of shares; `boot_id`: 16 hexadecimal digits."""
        quota = config.quota
        self._workers = config.workers
        self._configured = quota.quota_cluster_proxies
        self._member = ClusterMember(
            config.proxy_id,
            bytes.fromhex(boot_id),
            _probed_address(config),
            quota.quota_cluster_partitions,
            (self._configured or 1) * config.workers,
            monotonic_ms(),
            (quota.quota_window_num - 1) * quota.quota_window_size_seconds * 1000,
        )
        self._exchange = ShareExchange(
            broker,
            quota.quota_cluster_topic,
            quota.quota_cluster_partitions,
            self._member,
            _addresses_of_proxies(config),
        )
        registry.register(self)

    def rate(self, name: tuple[str, ...], window_ms: int, samples: int) -> Rate:
        """Return the rate of a quota-id whose limit holds for the cluster; see proxy.quota.rate.Rates."""
        return self._member.rate(name, window_ms, samples)

    async def run(self) -> None:
        """Exchange shares until cancelled."""
        await self._exchange.run()

    def update_brokers(self, facts: BrokerFacts) -> None:
        """Without quota.cluster.proxies there is a proxy for each broker."""
        if self._configured is None:
            self._member.membership.configured = max(len(facts.nodes), 1) * self._workers

    @property
    def falls_back(self) -> str | None:
        """Why quotas are limited to a fixed part for now; None if the proxies agree on all shares."""
        states = [holdings.state for holdings in self._member.shards()]
        if ShareOrigin.FALLBACK not in states:
            return None
        cause = self._exchange.reachability.cause
        return "no other proxy or coordinator is heard" if cause is None else cause.reason

    def events(self, *, enforced: bool) -> Iterator[AuditEvent]:
        """Yield what was let through since the last call, a record for each quota-id."""
        # Moments of the member are those of another clock.
        behind_ms = now_ms() - monotonic_ms()
        for used in self._member.take_used():
            if used.amount > 0:
                yield _event(used, behind_ms, enforced=enforced)

    def page(self) -> dict[str, object]:
        """Return the state of the exchange for /quotas."""
        shards = self._member.shards()
        return {
            "proxies": self._member.membership.count,
            "live": len(self._member.membership.live(monotonic_ms())),
            "fallback": self.falls_back,
            "coordinates": self._member.coordinated(),
            "shards": [
                {"state": str(each.state), "coordinator": each.coordinator or None} for each in shards
            ],
        }

    def row(self, bucket: Bucket) -> dict[str, str | float] | None:
        """Return the share of a quota-id for /quotas; None if the proxy has the quota for itself."""
        if not bucket.is_shared:
            return None
        status = self._member.status(bucket.name)
        return {
            "state": str(status.state),
            "share": round(status.share, 4),
            "demand": round(status.demand, 4),
        }

    def collect(self) -> Iterable[Metric]:
        # Each worker is a member of its own, with all shards.
        shards, counts = self._member.shards(), self._member.counts
        live = len(self._member.membership.live(monotonic_ms()))
        yield GaugeMetricFamily(
            "penstock_quota_cluster_live_proxies",
            "Processes that share quotas and were heard lately, with this one",
            live,
            merge="max",
        )
        fallen = sum(each.state is ShareOrigin.FALLBACK for each in shards)
        yield GaugeMetricFamily(
            "penstock_quota_cluster_fallback_shards",
            "Shards of the quotas that are limited to a fixed part: no coordinator is heard",
            fallen,
            merge="max",
        )
        yield GaugeMetricFamily(
            "penstock_quota_cluster_shards",
            "Shards of the quotas: quota.cluster.partitions",
            len(shards),
            merge="max",
        )
        yield GaugeMetricFamily(
            "penstock_quota_cluster_coordinated_shards",
            "Shards that this process divides among all",
            len(self._member.coordinated()),
            merge="sum",
        )
        yield CounterMetricFamily(
            "penstock_quota_cluster_lost_leases_total",
            "Shards whose coordinator was lost",
            counts.leases_ended,
        )
        yield CounterMetricFamily(
            "penstock_quota_cluster_malformed_records_total",
            "Records that are of no known version",
            counts.malformed,
        )
        yield CounterMetricFamily(
            "penstock_quota_cluster_sent_bytes_total", "Bytes of records that were sent", counts.written_bytes
        )
        yield CounterMetricFamily(
            "penstock_quota_cluster_received_bytes_total",
            "Bytes of record batches that were read",
            self._exchange.topic.received_bytes,
        )


class ShareExchange:
    """The connection of one process to the topic of quota shares."""

    def __init__(
        self,
        broker: EndpointSettings,
        topic: str,
        partitions: int,
        member: ClusterMember,
        probed: Collection[str] = (),
    ) -> None:
        """`partitions`: of the topic; `member`: the state of this process among the proxies.

        `probed`: the addresses to which it connects to find out whether a silent proxy is gone.
        """
        self.member = member
        self.topic = LiveTopic(broker, topic, partitions)
        self.reachability = Reachability("exchanging quota shares", "quota shares cannot be exchanged")
        self._partitions = partitions
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._probed = probed
        self._probes: set[bytes] = set()

    async def run(self) -> None:
        """Exchange shares until cancelled; then say goodbye, so that the others get this process's shares."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as tasks:
                sending: asyncio.Task[None] | None = None
                while True:
                    next_s = loop.time() + TICK_MS / 1000
                    steps = iterate_in_slices(self.member.steps(monotonic_ms))
                    records = [record async for record in steps if record is not None]
                    # What a slow broker would get late is left out: the next tick has newer records.
                    if sending is None or sending.done():
                        sending = tasks.create_task(self._deliver(records))
                    self._read_wanted(tasks)
                    self._probe_silent(tasks)
                    await asyncio.sleep(max(next_s - loop.time(), 0))
        finally:
            goodbye = self.member.leave(monotonic_ms())
            with suppress(ChannelError, TimeoutError):
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await self.topic.locate()
                    await self._send(goodbye)
            await self.topic.close()

    async def _deliver(self, records: Sequence[Outgoing]) -> None:
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                count = len(await self.topic.locate())
                # All proxies divide the quota-ids by this number.
                if count != self._partitions:
                    raise ChannelError(
                        f"topic {self.topic.topic} has {count} partitions, not {self._partitions}; write"
                        f" quota.cluster.partitions: {count} in the files of all proxies"
                    )
                await self._send(records)
        except (ChannelError, TimeoutError) as error:
            self.topic.forget()
            self.reachability.failed(error, topic=self.topic.topic)
        else:
            self.reachability.reached(topic=self.topic.topic)

    def _probe_silent(self, tasks: asyncio.TaskGroup) -> None:
        for key, address in self.member.probes(monotonic_ms()).items():
            # The topic may name any address. Without a probe, the share is free after a minute.
            if key not in self._probes and address in self._probed:
                self._probes.add(key)
                tasks.create_task(self._probe(key, address))

    async def _send(self, records: Iterable[Outgoing]) -> None:
        values: dict[int, list[bytes]] = {}
        for record in records:
            values.setdefault(record.partition, []).append(record.value)
        await self.topic.send(values)

    def _read_wanted(self, tasks: asyncio.TaskGroup) -> None:
        """Read the partitions that the member needs now, and no others."""
        wanted = self.member.partitions()
        for partition in self._readers.keys() - wanted:
            self._readers.pop(partition).cancel()
        for partition in wanted - self._readers.keys():
            self._readers[partition] = tasks.create_task(self._follow(partition))

    async def _follow(self, partition: int) -> None:
        """Pass the records of one partition to the member, from its end on, until cancelled."""
        reachability = Reachability("reading quota shares", "quota shares cannot be read")

        def receive(value: bytes) -> None:
            self.member.receive(partition, value, monotonic_ms())

        await self.topic.follow(partition, receive, reachability)

    async def _probe(self, key: bytes, address: str) -> None:
        """Find out whether a silent proxy's process is gone: then nothing listens there."""
        refused = False
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                _, writer = await asyncio.open_connection(*split_host_port(address))
            writer.close()
        except ConnectionRefusedError:
            refused = True
        except (OSError, TimeoutError, ValueError) as error:
            log.debug("silent proxy not reached", address=address, error=text_of(error))
        self._probes.discard(key)
        self.member.probed(key, refused)


def _event(used: Used, behind_ms: int, *, enforced: bool) -> AuditEvent:
    key, *tags = used.name
    units = KEYS[key].units_of_one if key in KEYS else 1
    return events.quota_share(
        quota_key=key,
        quota_id=":".join(tags),
        quota_limit=used.limit,
        quota_share=used.share,
        count=int(used.amount * units),
        rule=None if enforced else OBSERVE,
        interval_start_ms=int(used.from_ms) + behind_ms,
        interval_end_ms=int(used.to_ms) + behind_ms,
    )


def _addresses_of_proxies(config: ProxyConfig) -> frozenset[str]:
    """Return the addresses of the proxies that the configuration names."""
    others = config.upstream.advertised_brokers.values()
    named = {_probed_address(config), *(address for by_name in others for address in by_name.values())}
    return frozenset(named - {""})


def _probed_address(config: ProxyConfig) -> str:
    """Return where others find out whether this process lives: at the first listener, as clients do."""
    first = config.listeners[0]
    return "" if split_host_port(first.bind)[1] == 0 else first.advertised or first.bind
