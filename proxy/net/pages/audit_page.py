"""How the audit trail of a process fares, for operators: `/audit` as JSON, and what /readyz has to say of it.

Read off proxy.net.audit.audit_log whenever it is asked for. None of it makes a process unready by itself: who
is turned away does not depend on the trail, save where `audit.policy` says so (`not_ready`).
"""

import json
from collections.abc import Iterable, Mapping

from proxy.audit.classes import ADMIN
from proxy.net.audit.audit_log import AuditLog
from proxy.net.pages.readiness import Note, Readiness

BEHIND_AFTER_MS = 60_000
LOUD_TOLD = 5
LOSSES_TOLD = 3
"""The latest ones; the log has all of them."""
NEARLY_FULL = 0.8
"""Of audit.spool.max.bytes."""


def concerns(audit: AuditLog) -> list[str]:
    """What an operator should know, in words; empty when all is well."""
    shipping = audit.shipping
    trouble, age_ms = shipping.trouble, shipping.oldest_age_ms
    told = []
    if audit.refused:
        told.append(f"refused, for want of a record: {', '.join(sorted(audit.refused))}")
    dropped = audit.drops.total + shipping.damaged_count
    if audit.losses:
        told.append("; ".join(loss.in_words() for loss in audit.losses[-LOSSES_TOLD:]))
    if dropped:
        told.append(f"{dropped} records dropped since the start")
    if audit.loud:
        told.append(f"too many records, counted only: {', '.join(audit.loud[:LOUD_TOLD])}")
    if trouble is not None:
        told.append(f"not shipping: {trouble.reason}")
    if age_ms > BEHIND_AFTER_MS:
        told.append(f"behind by {age_ms // 1000} s, {audit.unshipped_count} records")
    if audit.spool_ratio > NEARLY_FULL:
        told.append(f"the spool is full to {audit.spool_ratio:.0%} for some records")
    if audit.disk_error is not None:
        told.append(f"the disk takes nothing: {audit.disk_error}")
    return told


def not_ready(audit: AuditLog) -> str | None:
    """Why no client can be served; None when they can. Changes that are refused alone are answered so."""
    refused = audit.refused - {ADMIN}
    return f"the audit trail takes no records: {', '.join(sorted(refused))}" if refused else None


def readiness(audit: AuditLog, blocked: Iterable[Note] = (), others: Iterable[Note] = ()) -> Readiness:
    """What /readyz says, of the trail and of what else the process knows."""
    refused = not_ready(audit)
    told = [] if refused is None else [Note(refused, refused)]
    details = (Note("audit: see /audit", f"audit: {concern}") for concern in concerns(audit))
    return Readiness((*blocked, *told), (*others, *details))


async def audit_page(audit: AuditLog) -> bytes:
    """The page `/audit` of one process."""
    return json.dumps(_page(audit), indent=1).encode() + b"\n"


def _page(audit: AuditLog) -> Mapping[str, object]:
    shipping = audit.shipping
    trouble = shipping.trouble
    return {
        "proxy_id": audit.author.proxy_id,
        "boot_id": audit.author.boot_id,
        "sequence": audit.sequence,
        "concerns": concerns(audit),
        "unshipped_records": audit.unshipped_count,
        "oldest_unshipped_ms": shipping.oldest_age_ms,
        "shipped_records": shipping.shipped_count,
        "not_shipping": None
        if trouble is None
        else {"reason": trouble.reason, "detail": trouble.detail, "since_ms": trouble.since_ms},
        "ship_failures": dict(shipping.ship_failures),
        "ship_throttled_ms": shipping.ship_throttled_ms,
        "spool_bytes": shipping.spool_bytes,
        "spool_max_bytes": shipping.spool_max_bytes,
        "queue_bytes": audit.queued_bytes,
        "disk_wait_ms": audit.disk_waits_ms,
        "disk_error": audit.disk_error,
        "refused_classes": sorted(audit.refused),
        "dropped": [
            {"reason": reason, "class": name, "count": count}
            for (reason, name), count in audit.drops.counts.items()
            if count
        ],
        "segment_faults": [
            {"segment": str(loss.path), "fault": loss.fault, "first_lost": loss.first, "last_lost": loss.last}
            for loss in audit.losses
        ],
        "collapsed": dict(audit.collapsed_counts),
        "damaged_records": shipping.damaged_count,
    }
