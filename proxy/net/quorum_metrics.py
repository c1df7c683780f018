"""What operators see of Kafka's quorum, as Prometheus metrics: penstock_quorum_*.

Registered where a quorum is followed, and nowhere else; read off the feed and its loader at each scrape.
"""

from collections.abc import Iterable

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from proxy.metadata.loader import Loader
from proxy.net.quorum_feed import QuorumFeed


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
