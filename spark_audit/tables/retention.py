"""Deletes old days from the tables, and compacts small files. Used by the command line.

`expire` deletes whole days that were reconciled without an open finding. It leaves the records that the rest
of the trail depends on: administrative requests, which explain the metadata log; the settings of each
process; and the last record of each boot, because the next link is hashed from it. It first writes to table
`expired` what it is going to delete, so that these records are not reported as missing later.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.tables import delta, manifest
from spark_audit.tables.acknowledgements import acknowledged_by_day
from spark_audit.tables.delta import Tables, frame_of, sole_writer
from spark_audit.tables.files import AuditError
from spark_audit.tables.keys import Key

NEVER_EXPIRED = (
    "started",
    "settings_changed",
    "forwarded",
    "forwarded_received",
    "quota_changed",
    *S.UNREQUESTED,
)
DAYS_NAMED = 5
"""An error message names at most this many days."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The number of whole days and of audit records that were deleted."""

    days: int
    records: int


def expire(
    spark: SparkSession,
    tables: Tables,
    before: date,
    key: Key,
    compare: manifest.Compare,
    *,
    force: bool = False,
) -> Expired:
    """Deletes the days before `before`, and signs in the manifest what was deleted.

    AuditError if one of them is not reconciled or has findings, or if the tables contradict the manifest.
    """
    with sole_writer(spark, tables):
        old, days = _before(spark, tables, before)
        days = days.persist()
        if not force:
            settled = acknowledged_by_day(manifest.runs_of(spark, tables, key))
            _require_settled(spark, tables, days, settled)
        begun = manifest.begin(spark, tables, key, compare, "expire")
        done = _delete_days(spark, tables, before, old, days)
        removed = {"before": str(before), "days": done.days, "records": done.records}
        manifest.end(spark, tables, begun, "expire", removed=removed)
        return done


def days_to_reconcile(spark: SparkSession, tables: Tables) -> list[str]:
    """Returns the days (YYYY-MM-DD) that have records which were not there when they were reconciled."""
    _, days = _before(spark, tables)
    open_days = _newest(spark, tables, days).where(~F.col("then.records").eqNullSafe(F.col("records")))
    return [str(row[S.DATE]) for row in open_days.select(S.DATE).orderBy(S.DATE).collect()]


def _before(spark: SparkSession, tables: Tables, before: date = date.max) -> tuple[DataFrame, DataFrame]:
    """Returns the records of table `audit` before a day, and what `_days` says of them."""
    audit, quarantine = (
        delta.read_table(spark, path, schema).where(F.col(S.DATE) < F.lit(before))
        for path, schema in ((tables.audit, S.AUDIT), (tables.quarantine, S.QUARANTINE))
    )
    return audit, _days(audit, quarantine, delta.read_state(spark, tables.expired, S.EXPIRED))


def _delete_days(
    spark: SparkSession, tables: Tables, before: date, old: DataFrame, days: DataFrame
) -> Expired:
    counted = days.agg(F.count_if(F.col("unexpired") > 0), F.sum("audited")).first()
    if counted is None or counted[1] is None:
        return Expired(0, 0)
    ends = old.groupBy(*S.BOOT_KEY).agg(F.max(S.SEQUENCE).alias("last_sequence")).persist()
    # Written before anything is deleted. Writing it twice, after a crash, does no harm.
    delta.append_state(ends.withColumn("before", F.lit(before)), tables.expired, S.EXPIRED)
    _delete(spark, tables.audit, ends, before)
    DeltaTable.forPath(spark, tables.quarantine).delete(F.col(S.DATE) < F.lit(before))
    left = delta.read_table(spark, tables.audit).where(F.col(S.DATE) < F.lit(before)).count()
    return Expired(int(counted[0]), int(counted[1]) - left)


def _days(old: DataFrame, quarantine: DataFrame, expired: DataFrame) -> DataFrame:
    """Returns per day the records in both tables, those in table `audit`, and those that are `unexpired`.

    Unexpired records were not there at an earlier expiry. What that one has left needs no new reconciliation.
    """
    expired_up_to = expired.groupBy(*S.BOOT_KEY).agg(F.max("last_sequence").alias("expired_up_to"))
    known = old.join(F.broadcast(expired_up_to), list(S.BOOT_KEY), "left")
    unexpired = F.col(S.SEQUENCE) > F.coalesce("expired_up_to", F.lit(-1))
    each = known.select(S.DATE, unexpired.alias("unexpired"), F.lit(1).alias("audited"))
    bad = quarantine.select(S.DATE, F.lit(True).alias("unexpired"), F.lit(0).alias("audited"))
    return (
        each.unionByName(bad)
        .groupBy(S.DATE)
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.sum("audited").alias("audited"),
            F.count_if("unexpired").alias("unexpired"),
        )
    )


def reconciled_days(
    audit: DataFrame, quarantine: DataFrame, found: Sequence[Row], version: int, wanted: Sequence[str] = ()
) -> DataFrame:
    """Returns rows of table `reconciled`, one per day of the trail or of the days `wanted`.

    A day may have only quarantined records. `found` are the findings, `version` is the checked version of
    table `audit`.
    """
    each = audit.select(S.DATE).unionByName(quarantine.select(S.DATE))
    if wanted:
        each = each.where(F.col(S.DATE).cast("string").isin(*wanted))
    counted = each.groupBy(S.DATE).agg(F.count(F.lit(1)).alias("records")).orderBy(S.DATE).collect()
    open_findings = Counter(row[S.DATE] for row in found)
    now = datetime.now(UTC).isoformat()
    rows = [(row[S.DATE], row["records"], open_findings[row[S.DATE]], version, now) for row in counted]
    return frame_of(audit.sparkSession, rows, S.RECONCILED)


def compact(
    spark: SparkSession, tables: Tables, retain_hours: float, key: Key, compare: manifest.Compare
) -> None:
    """Replaces many small files by a few large ones, and deletes files that no newer version needs.

    Signs the new files in the manifest. AuditError if the tables contradict it.
    """
    with sole_writer(spark, tables):
        begun = manifest.begin(spark, tables, key, compare, "compact")
        for path in (tables.audit, tables.quarantine, tables.metadata_log):
            delta.read_table(spark, path)
            table = DeltaTable.forPath(spark, path)
            table.optimize().executeCompaction()
            table.vacuum(retain_hours)
        manifest.end(spark, tables, begun, "compact")


def _newest(spark: SparkSession, tables: Tables, days: DataFrame) -> DataFrame:
    """Adds `then`, the newest reconciliation, to the days of `_days` that have unexpired records."""
    reconciled = delta.read_state(spark, tables.reconciled, S.RECONCILED)
    newest = reconciled.groupBy(S.DATE).agg(
        F.max_by(F.struct("records", "findings"), "checked_at").alias("then")
    )
    return days.where("unexpired > 0").join(newest, S.DATE, "left")


def _require_settled(
    spark: SparkSession, tables: Tables, days: DataFrame, acknowledged: Mapping[date, int]
) -> None:
    """Raises AuditError unless the newest reconciliation of each day has all its records and no findings.

    `acknowledged`: day -> the number of its findings that were acknowledged since.
    """
    explained = F.lit(0)
    for day, number in acknowledged.items():
        explained = F.when(F.col(S.DATE) == F.lit(day), F.lit(number)).otherwise(explained)
    still_open = F.col("then.findings") - explained
    why = F.coalesce(
        F.when(F.col("then").isNull(), "never reconciled"),
        F.when(still_open > 0, F.concat(still_open, F.lit(" open finding(s)"))),
        F.when(F.col("then.records") != F.col("records"), "records arrived after it was reconciled"),
    )
    joined = _newest(spark, tables, days)
    open_days = joined.withColumn("why", why).where(F.col("why").isNotNull()).orderBy(S.DATE)
    named = [f"{row[S.DATE]}: {row['why']}" for row in open_days.limit(DAYS_NAMED).collect()]
    if named:
        raise AuditError(
            f"nothing was expired, because some days are not settled ({'; '.join(named)}): see --force"
        )


def _delete(spark: SparkSession, path: str, ends: DataFrame, before: date) -> None:
    same_boot = (F.col("t.proxy_id") == F.col("e.proxy_id")) & (F.col("t.boot_id") == F.col("e.boot_id"))
    old = F.col(f"t.{S.DATE}") < F.lit(before)
    remains = F.col(f"t.{S.EVENT}").isin(*NEVER_EXPIRED) | (
        F.col(f"t.{S.SEQUENCE}") == F.col("e.last_sequence")
    )
    merge = DeltaTable.forPath(spark, path).alias("t").merge(F.broadcast(ends).alias("e"), old & same_boot)
    merge.whenMatchedDelete(~remains).execute()
