"""The state of a process's audit trail for operators: `/audit` as JSON, and its lines in /readyz.

Read from proxy.net.audit.audit_log for each request. The trail makes a process unready only if `audit.policy`
rejects requests that cannot be recorded (`not_ready`).
"""

import json
from collections.abc import Iterable, Mapping

from proxy.audit.classes import ADMIN
from proxy.net.audit.audit_log import AuditLog
from proxy.net.pages.readiness import Note, Readiness

BEHIND_AFTER_MS = 60_000
MAX_LOUD_SHOWN = 5
MAX_LOSSES_SHOWN = 3
"""The latest ones; the log has all."""
NEARLY_FULL = 0.8
"""Share of audit.spool.max.bytes."""


def concerns(audit: AuditLog) -> list[str]:
    """Return what an operator should know, in sentences; empty when all is well."""
    failure, age_ms = audit.delivery.failure, audit.shipper.oldest_age_ms
    rejected, losses, loud = audit.capacity.rejected_classes(), audit.spool.losses, audit.noise.loud
    found = []
    if rejected:
        found.append(f"rejecting requests that cannot be recorded: {', '.join(sorted(rejected))}")
    dropped = audit.drops.total + audit.spool.damaged_count
    if losses:
        found.append("; ".join(loss.description() for loss in losses[-MAX_LOSSES_SHOWN:]))
    if dropped:
        found.append(f"{dropped} records dropped since the start")
    if loud:
        found.append(f"too many events, only counted: {', '.join(loud[:MAX_LOUD_SHOWN])}")
    if failure is not None:
        found.append(f"not shipping: {failure.reason}")
    if age_ms > BEHIND_AFTER_MS:
        found.append(f"behind by {age_ms // 1000} s, {audit.unshipped_count} records")
    if audit.capacity.spool_ratio > NEARLY_FULL:
        found.append(f"the spool is {audit.capacity.spool_ratio:.0%} full for some records")
    if audit.witness.cause is not None:
        found.append(f"the witness does not get the checkpoints: {audit.witness.cause.reason}")
    if audit.writer.error is not None:
        found.append(f"disk error: {audit.writer.error}")
    return found


def not_ready(audit: AuditLog) -> str | None:
    """Return why no client can be served; None if clients can. Rejected changes alone do not count."""
    rejected = audit.capacity.rejected_classes() - {ADMIN}
    return f"audit records cannot be written: {', '.join(sorted(rejected))}" if rejected else None


def readiness(audit: AuditLog, blocked: Iterable[Note] = (), others: Iterable[Note] = ()) -> Readiness:
    """Return the text of /readyz, with lines about the trail and the given notes."""
    fault = not_ready(audit)
    faults = [] if fault is None else [Note("audit records cannot be written", fault, fault)]
    details = (Note("audit", "audit: see /audit", f"audit: {concern}") for concern in concerns(audit))
    return Readiness((*blocked, *faults), (*others, *details))


async def audit_page(audit: AuditLog) -> bytes:
    """Return the page `/audit` of one process."""
    return json.dumps(_page(audit)).encode() + b"\n"


def _page(audit: AuditLog) -> Mapping[str, object]:
    shipper, delivery, writer = audit.shipper, audit.delivery, audit.writer
    failure = delivery.failure
    return {
        "proxy_id": audit.author.proxy_id,
        "boot_id": audit.author.boot_id,
        "sequence": audit.sequence,
        "concerns": concerns(audit),
        "unshipped_records": audit.unshipped_count,
        "oldest_unshipped_ms": shipper.oldest_age_ms,
        "shipped_records": shipper.shipped_count,
        "not_shipping": None
        if failure is None
        else {"reason": failure.reason, "detail": failure.detail, "since_ms": failure.since_ms},
        "ship_failures": dict(delivery.failures),
        "ship_throttled_ms": delivery.throttled_ms,
        "spool_bytes": audit.spool.size_bytes,
        "spool_max_bytes": audit.spool.max_bytes,
        "queue_bytes": writer.queued_bytes,
        "disk_wait_ms": writer.waits_ms,
        "disk_error": writer.error,
        "refused_classes": sorted(audit.capacity.rejected_classes()),
        "dropped": [
            {"reason": reason, "class": name, "count": count}
            for (reason, name), count in audit.drops.counts.items()
            if count
        ],
        "segment_faults": [
            {"segment": str(loss.path), "fault": loss.fault, "first_lost": loss.first, "last_lost": loss.last}
            for loss in audit.spool.losses
        ],
        "collapsed": dict(audit.noise.collapsed_counts),
        "damaged_records": audit.spool.damaged_count,
    }
