"""Quotas that were never approached: the peak use of each against its limit at the end of the log.

Use is spread over slots as in what_if.throttling. A quota for which a client was throttled in the period was
reached.
"""

from collections.abc import Mapping
from math import ceil, floor, log10
from urllib.parse import unquote

from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.least_privilege.commands import quota_command
from spark_audit.least_privilege.grants import Plain
from spark_audit.policy import quota_limits as Q
from spark_audit.policy import quota_use as U
from spark_audit.proposal import CLIENT_ID, USER, Entity, Quota, principal_of
from spark_audit.trail.processes import SETTINGS_EVENTS
from spark_audit.what_if.recorded import RecordedDays

UNREACHED = "unreached-quota"
APPROACHED = 0.5
"""The part of a limit at which it counts as approached."""
Peaks = Mapping[Quota, float]
"""The highest use of a quota in one slot, as a part of its limit; at least 1 if it throttled a client."""


def peaks(of: RecordedDays) -> dict[Quota, float]:
    """Return the peaks of the quotas that limited a client of the period."""
    used = Q.with_key(of.period.where(U.is_use() & ~U.of_several_clients()))
    now = used.withColumn(S.METADATA_OFFSET, F.lit(of.state.now).cast("long"))
    measured = now.withColumn(U.USED, U.counted())
    settings = of.records.where(F.col(S.EVENT).isin(*SETTINGS_EVENTS))
    limited = Q.governed(measured, settings, of.log).where(F.col(Q.EXPECTED_LIMIT).isNotNull())
    spread = limited.withColumn(U.SLOT, F.explode(U.slots())).withColumn(U.USED, U.share())
    bucket = (S.QUOTA_KEY, Q.ENTITY, Q.EXPECTED_ID, Q.EXPECTED_LIMIT)
    per_slot = spread.groupBy(*bucket, U.proxy_of_bucket().alias("proxy"), U.SLOT).agg(
        F.sum(U.USED).alias(U.USED), F.max(F.col(S.EVENT) == "throttled").alias("throttled")
    )
    part = F.col(U.USED) / (F.col(Q.EXPECTED_LIMIT) * U.units() * (U.SLOT_MS / 1_000))
    reached = F.when(F.col("throttled"), F.greatest(part, F.lit(1.0))).otherwise(part)
    highest = per_slot.where(F.col(Q.ENTITY).isNotNull()).groupBy(S.QUOTA_KEY, Q.ENTITY)
    rows = highest.agg(F.max(reached).alias("peak")).collect()
    return {(_entity(row[Q.ENTITY]), row[S.QUOTA_KEY]): float(row["peak"] or 0.0) for row in rows}


def quota_rows(limits: Mapping[Quota, float], found: Peaks) -> list[Plain]:
    """Return one row for each quota whose peak is below APPROACHED of its limit."""
    rows = []
    for (entity, key), limit in sorted(limits.items(), key=str):
        peak = found.get((entity, key))
        if peak is None or peak < APPROACHED:
            rows.append(_row(entity, key, limit, peak))
    return rows


def _row(entity: Entity, key: str, limit: float, peak: float | None) -> Plain:
    named = ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)
    # Twice the peak: as far from it as APPROACHED says.
    proposed = _rounded_up(2 * peak * limit) if peak else None
    is_narrower = proposed is not None and proposed < limit
    return {
        "kind": UNREACHED,
        "subject": f"{key} {limit:.15g} of {named}",
        "principal": principal_of(entity),
        "limit": limit,
        "peak": peak,
        "quota_key": key,
        "proposed": proposed if is_narrower else None,
        "commands": [quota_command(entity, key, proposed)] if is_narrower and proposed else [],
    }


def _rounded_up(limit: float) -> float:
    """Round up to two digits."""
    unit = 10.0 ** (floor(log10(limit)) - 1)
    return float(f"{ceil(limit / unit) * unit:.12g}")


def _entity(path: str) -> Entity:
    words = path.split("/")
    parts = {words[place]: words[place + 1] for place in range(0, len(words) - 1, 2)}
    kinds = ((CLIENT_ID, "clients"), (USER, "users"))
    return tuple(
        (kind, None if parts[word] == Q.DEFAULT else unquote(parts[word]))
        for kind, word in kinds
        if word in parts
    )
