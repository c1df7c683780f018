"""How the audit trail of a process fares, for Prometheus: read off its parts at each scrape (SPEC O2)."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.audit.classes import CLASSES
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.spool_loss import FAULTS

DAMAGED = "damaged"
"""A line of the spool that could not be read back: of which class it was, nobody can tell."""


class AuditCollector(Collector):
    """Of a proxy or a controller."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def collect(self) -> Iterable[Metric]:
        audit, shipping = self._audit, self._audit.shipping
        yield GaugeMetricFamily("penstock_audit_spool_bytes", "Audit spool on disk", shipping.spool_bytes)
        yield GaugeMetricFamily(
            "penstock_audit_spool_ratio",
            "How full the audit spool is for the class that has the least room; 1: it has none",
            audit.spool_ratio,
        )
        yield CounterMetricFamily(
            "penstock_audit_shipped_total", "Records in the topic", shipping.shipped_count
        )
        yield GaugeMetricFamily(
            "penstock_audit_unshipped_records",
            "Records that the audit topic does not have yet",
            audit.unshipped_count,
        )
        yield GaugeMetricFamily(
            "penstock_audit_oldest_unshipped_seconds",
            "Age of the record that is to be shipped next",
            shipping.oldest_age_ms / 1000,
        )
        yield GaugeMetricFamily(
            "penstock_audit_queue_bytes", "Records that the disk has not taken yet", audit.queued_bytes
        )
        yield GaugeMetricFamily(
            "penstock_audit_disk_wait_seconds",
            "For how long the disk has not come back from what it was last asked",
            audit.disk_waits_ms / 1000,
        )
        yield CounterMetricFamily(
            "penstock_audit_ship_throttled_seconds_total",
            "For how long a quota on our own login has kept records back",
            shipping.ship_throttled_ms / 1000,
        )
        yield from self._ship_failures()
        yield self._faults()
        yield self._collapsed()
        yield from self._segment_faults()
        yield self._refusing()
        yield self._dropped()

    def _faults(self) -> Metric:
        faults = CounterMetricFamily(
            "penstock_audit_faults_total",
            "How often records did not get on: write, sync, watch, read, checkpoint (disk), send (topic)",
            labels=["at"],
        )
        for at, count in self._audit.faults.items():
            faults.add_metric([at], count)
        return faults

    def _collapsed(self) -> Metric:
        collapsed = CounterMetricFamily(
            "penstock_audit_collapsed_total",
            "Events counted instead of recorded one by one: their principal or address caused too many",
            labels=["class"],
        )
        for name in CLASSES:
            collapsed.add_metric([name], self._audit.collapsed_counts.get(name, 0))
        return collapsed

    def _segment_faults(self) -> Iterable[Metric]:
        losses = self._audit.losses
        faults = CounterMetricFamily(
            "penstock_audit_segment_faults_total",
            "Spool segments that others have removed, replaced or truncated while they were in use",
            labels=["fault"],
        )
        for fault in FAULTS:
            faults.add_metric([fault], sum(loss.fault == fault for loss in losses))
        yield faults
        yield CounterMetricFamily(
            "penstock_audit_lost_records_total",
            "Records of this boot that were lost with such a segment",
            sum(loss.count for loss in losses),
        )

    def _ship_failures(self) -> Iterable[Metric]:
        shipping = self._audit.shipping
        failures = CounterMetricFamily(
            "penstock_audit_ship_failures_total",
            "How often the audit topic took nothing; the reason is the name of Kafka's error",
            labels=["reason"],
        )
        failing = GaugeMetricFamily(
            "penstock_audit_ship_failing",
            "Why the audit topic takes nothing now",
            labels=["reason"],
        )
        for reason, count in sorted(shipping.ship_failures.items()):
            failures.add_metric([reason], count)
            now = shipping.trouble is not None and shipping.trouble.reason == reason
            failing.add_metric([reason], float(now))
        yield failures
        yield failing

    def _refusing(self) -> Metric:
        refusing = GaugeMetricFamily(
            "penstock_audit_refusing",
            "Whether requests are refused because their records cannot be kept",
            labels=["class"],
        )
        for name in CLASSES:
            refusing.add_metric([name], float(name in self._audit.refused))
        return refusing

    def _dropped(self) -> Metric:
        dropped = CounterMetricFamily(
            "penstock_audit_dropped_total", "Records that could not be kept", labels=["reason", "class"]
        )
        for reason_and_class, count in self._audit.drops.counts.items():
            dropped.add_metric(list(reason_and_class), count)
        dropped.add_metric([DAMAGED, ""], self._audit.shipping.damaged_count)
        return dropped
