"""The quotas that this proxy shares with all others (quota.scope: cluster, SPEC Q13): member, exchange, metrics.

Made by proxy.process if a quota may have that scope. proxy.quota.cluster decides on shares and
proxy.net.kafka.share_exchange carries the records.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.config import ProxyConfig, split_host_port
from proxy.net.kafka.broker_watch import BrokerFacts
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.kafka.share_exchange import ShareExchange
from proxy.net.runtime.clock import monotonic_ms, now_ms
from proxy.quota.cluster.holdings import State
from proxy.quota.cluster.member import Member, Used
from proxy.quota.rate import Rate
from proxy.quota.request_time import REQUEST_PERCENTAGE
from proxy.quota.throttle import Bucket
from proxy.session.accounting.summaries import OBSERVE

_MICROSECONDS_OF_A_PERCENT = 10_000


class QuotaShares(Collector):
    """This process among those that share quotas."""

    def __init__(
        self, config: ProxyConfig, broker: EndpointSettings, boot_id: str, registry: CollectorRegistry
    ) -> None:
        """`broker`: its internal listener, for the topic of shares; `boot_id`: 16 hexadecimal digits."""
        quota = config.quota
        self._workers = config.workers
        self._configured = quota.quota_cluster_proxies
        self._member = Member(
            config.proxy_id,
            bytes.fromhex(boot_id),
            _probed_address(config),
            quota.quota_cluster_partitions,
            (self._configured or 1) * config.workers,
            monotonic_ms(),
        )
        self._exchange = ShareExchange(
            broker, quota.quota_cluster_topic, quota.quota_cluster_partitions, self._member
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
        if State.FALLBACK not in states:
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
        shards, counts = self._member.shards(), self._member.counts
        live = len(self._member.membership.live(monotonic_ms()))
        yield _gauge("live_proxies", "Processes that share quotas and were heard lately, with this one", live)
        fallen = sum(each.state is State.FALLBACK for each in shards)
        yield _gauge(
            "fallback_shards",
            "Shards of the quotas that are limited to a fixed part: no coordinator is heard",
            fallen,
        )
        yield _gauge("shards", "Shards of the quotas: quota.cluster.partitions", len(shards))
        yield _gauge(
            "coordinated_shards",
            "Shards that this process divides among all",
            len(self._member.coordinated()),
        )
        yield _counter("lost_leases_total", "Shards whose coordinator was lost", counts.leases_ended)
        yield _counter("malformed_records_total", "Records that are of no known version", counts.malformed)
        yield _counter("sent_bytes_total", "Bytes of records that were sent", counts.written_bytes)
        yield _counter(
            "received_bytes_total", "Bytes of record batches that were read", self._exchange.received_bytes
        )


def _event(used: Used, behind_ms: int, *, enforced: bool) -> AuditEvent:
    key, *tags = used.name
    units = _MICROSECONDS_OF_A_PERCENT if key == REQUEST_PERCENTAGE else 1
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


def _probed_address(config: ProxyConfig) -> str:
    """Return where others find out whether this process lives: at the first listener, as clients do."""
    first = config.listeners[0]
    return "" if split_host_port(first.bind)[1] == 0 else first.advertised or first.bind


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"penstock_quota_cluster_{name}", text, value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"penstock_quota_cluster_{name}", text, value)
