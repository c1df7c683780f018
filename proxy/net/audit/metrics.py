"""Metrics of the audit trail of a process, collected from its parts at each scrape (SPEC O2)."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.audit.classes import CLASSES
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.spool_loss import FAULTS
from proxy.net.runtime.merged_metrics import GaugeMetricFamily, with_series

DAMAGED = "damaged"
"""Reason for lines of the spool that could not be read. Their class is unknown."""


class AuditCollector(Collector):
    """The audit metrics of a proxy or a controller."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def collect(self) -> Iterable[Metric]:
        audit, shipper = self._audit, self._audit.shipper
        yield GaugeMetricFamily(
            "penstock_audit_spool_bytes",
            "Size of the audit spool on disk",
            audit.spool.size_bytes,
            merge="sum",
        )
        yield GaugeMetricFamily(
            "penstock_audit_spool_ratio",
            "Used share of the audit spool, for the class with the least room; 1: none left",
            audit.capacity.spool_ratio,
            merge="max",
        )
        yield CounterMetricFamily(
            "penstock_audit_shipped_total", "Records delivered to the audit topic", shipper.shipped_count
        )
        yield GaugeMetricFamily(
            "penstock_audit_unshipped_records",
            "Records that the audit topic does not have yet",
            audit.unshipped_count,
            merge="sum",
        )
        yield GaugeMetricFamily(
            "penstock_audit_oldest_unshipped_seconds",
            "Age of the next record to ship",
            shipper.oldest_age_ms / 1000,
            merge="max",
        )
        yield GaugeMetricFamily(
            "penstock_audit_queue_bytes",
            "Records that are not written to the spool yet",
            audit.writer.queued_bytes,
            merge="sum",
        )
        yield GaugeMetricFamily(
            "penstock_audit_disk_wait_seconds",
            "Duration of the disk operation in progress, in seconds",
            audit.writer.waits_ms / 1000,
            merge="max",
        )
        yield CounterMetricFamily(
            "penstock_audit_ship_throttled_seconds_total",
            "Throttling of audit deliveries by a quota on Penstock's own login",
            audit.delivery.throttled_ms / 1000,
        )
        yield with_series(
            CounterMetricFamily(
                "penstock_audit_ship_failures_total",
                "Failed deliveries to the audit topic, by error",
                labels=["reason"],
            ),
            failures := dict(sorted(audit.delivery.failures.items())),
        )
        failure = audit.delivery.failure
        yield with_series(
            GaugeMetricFamily(
                "penstock_audit_ship_failing",
                "Whether deliveries to the audit topic fail now, by error",
                labels=["reason"],
                merge="max",
            ),
            {reason: float(failure is not None and failure.reason == reason) for reason in failures},
        )
        yield with_series(
            CounterMetricFamily(
                "penstock_audit_faults_total",
                "Failed operations: write, sync, watch, read, checkpoint (disk), send (topic), witness",
                labels=["at"],
            ),
            audit.faults,
        )
        yield with_series(
            CounterMetricFamily(
                "penstock_audit_collapsed_total",
                "Events counted instead of recorded, because their principal or address caused too many",
                labels=["class"],
            ),
            {name: audit.noise.collapsed_counts.get(name, 0) for name in CLASSES},
        )
        losses = audit.spool.losses
        yield with_series(
            CounterMetricFamily(
                "penstock_audit_segment_faults_total",
                "Spool segments that another process removed, replaced or truncated",
                labels=["fault"],
            ),
            {fault: sum(loss.fault == fault for loss in losses) for fault in FAULTS},
        )
        yield CounterMetricFamily(
            "penstock_audit_lost_records_total",
            "Records of this boot that were lost with such segments",
            sum(loss.count for loss in losses),
        )
        rejected = audit.capacity.rejected_classes()
        yield with_series(
            GaugeMetricFamily(
                "penstock_audit_refusing",
                "Whether requests are rejected because their records cannot be written",
                labels=["class"],
                merge="max",
            ),
            {name: float(name in rejected) for name in CLASSES},
        )
        dropped = CounterMetricFamily(
            "penstock_audit_dropped_total",
            "Events without a record, by reason and class",
            labels=["reason", "class"],
        )
        for reason_and_class, count in audit.drops.counts.items():
            dropped.add_metric(list(reason_and_class), count)
        dropped.add_metric([DAMAGED, ""], audit.spool.damaged_count)
        yield dropped
