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
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
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
_PLACE = (S.KAFKA_TOPIC, S.KAFKA_PARTITION, S.KAFKA_OFFSET)
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
        wanted = manifest.before_day(before)
        begun = manifest.begin(spark, tables, key, compare, manifest.EXPIRE, wanted)
        done = _delete_days(spark, tables, before, old, days)
        removed = {"before": str(before), "days": done.days, "records": done.records}
        manifest.end(spark, tables, begun, manifest.EXPIRE, removed=removed)
        return done


def days_to_reconcile(spark: SparkSession, tables: Tables) -> list[str]:
    """Returns the days (YYYY-MM-DD) that have records which were not there when they were reconciled.

    The days are those that the writers of the records have chosen. So a record of a day long ago, or of the
    future, is judged when it comes.
    """
    _, days = _before(spark, tables)
    then = _newest(spark, tables, days)
    same = F.col("then.records").eqNullSafe(F.col("records")) | (F.col("unexpired") == 0)
    open_days = then.where(~(same & _same_log()))
    return [str(row[S.DATE]) for row in open_days.select(S.DATE).orderBy(S.DATE).collect()]


def _same_log() -> Column:
    # A reconciliation by an older release did not count the records of the log.
    known = F.coalesce("then.log_records", F.when(F.col("then").isNotNull(), F.col("log_records")))
    return known.eqNullSafe(F.col("log_records")) | (F.col("log_records") == 0)


def _before(spark: SparkSession, tables: Tables, before: date = date.max) -> tuple[DataFrame, DataFrame]:
    """Returns the records of table `audit` before a day, and what `_days` says of them."""
    audit, quarantine, log = (
        delta.read_table(spark, path, schema).where(F.col(S.DATE) < F.lit(before))
        for path, schema in (
            (tables.audit, S.AUDIT),
            (tables.quarantine, S.QUARANTINE),
            (tables.metadata_log, S.METADATA_LOG),
        )
    )
    return audit, _days(audit, quarantine, log, delta.read_state(spark, tables.expired, S.EXPIRED))


def _delete_days(
    spark: SparkSession, tables: Tables, before: date, old: DataFrame, days: DataFrame
) -> Expired:
    counted = days.agg(F.count_if(F.col("unexpired") > 0), F.sum("audited")).first()
    if counted is None or counted[1] is None:
        return Expired(0, 0)
    ends = old.groupBy(*S.BOOT_KEY).agg(F.max(S.SEQUENCE).alias("last_sequence")).persist()
    quarantine = delta.read_table(spark, tables.quarantine, S.QUARANTINE).where(F.col(S.DATE) < F.lit(before))
    places = old.join(F.broadcast(ends), list(S.BOOT_KEY)).where(~_remains("last_sequence")).select(*_PLACE)
    ranges = _ranges_of_offsets(places.unionByName(quarantine.select(*_PLACE)))
    gone = ends.unionByName(ranges, allowMissingColumns=True)
    # Written before anything is deleted. Writing it twice, after a crash, does no harm.
    delta.append_state(gone.withColumn("before", F.lit(before)), tables.expired, S.EXPIRED)
    _delete(spark, tables.audit, ends, before)
    DeltaTable.forPath(spark, tables.quarantine).delete(F.col(S.DATE) < F.lit(before))
    left = delta.read_table(spark, tables.audit).where(F.col(S.DATE) < F.lit(before)).count()
    return Expired(int(counted[0]), int(counted[1]) - left)


def _ranges_of_offsets(places: DataFrame) -> DataFrame:
    """Returns these places of Kafka as ranges of offsets without a gap."""
    partition = S.KAFKA_TOPIC, S.KAFKA_PARTITION
    number = F.row_number().over(Window.partitionBy(*partition).orderBy(S.KAFKA_OFFSET))
    grouped = (
        places.distinct()
        .withColumn("range", F.try_subtract(S.KAFKA_OFFSET, number))
        .groupBy(*partition, "range")
    )
    bounds = F.min(S.KAFKA_OFFSET).alias(S.FIRST_OFFSET), F.max(S.KAFKA_OFFSET).alias(S.LAST_OFFSET)
    return grouped.agg(*bounds).drop("range")


def _days(old: DataFrame, quarantine: DataFrame, log: DataFrame, expired: DataFrame) -> DataFrame:
    """Returns per day the records by table, those in table `audit`, and those that are `unexpired`.

    Unexpired records were not there at an earlier expiry. What that one has left needs no new reconciliation.
    """
    expired_up_to = expired.groupBy(*S.BOOT_KEY).agg(F.max("last_sequence").alias("expired_up_to"))
    known = old.join(F.broadcast(expired_up_to), list(S.BOOT_KEY), "left")
    unexpired = F.col(S.SEQUENCE) > F.coalesce("expired_up_to", F.lit(-1))
    each = known.select(S.DATE, unexpired.alias("unexpired"), F.lit("audit").alias("of"))
    bad = quarantine.select(S.DATE, F.lit(True).alias("unexpired"), F.lit("quarantine").alias("of"))
    in_log = log.select(S.DATE, F.lit(False).alias("unexpired"), F.lit("log").alias("of"))
    return (
        each.unionByName(bad)
        .unionByName(in_log)
        .groupBy(S.DATE)
        .agg(
            F.count_if(F.col("of") != "log").alias("records"),
            F.count_if(F.col("of") == "audit").alias("audited"),
            F.count_if("unexpired").alias("unexpired"),
            F.count_if(F.col("of") == "log").alias("log_records"),
        )
    )


def reconciled_days(
    audit: DataFrame,
    quarantine: DataFrame,
    log: DataFrame,
    found: Sequence[Row],
    version: int,
    wanted: Sequence[str] = (),
) -> DataFrame:
    """Returns rows of table `reconciled`, one per day of the trail or of the days `wanted`.

    A day may have records in one of the tables only. `found` are the findings, `version` is the checked
    version of table `audit`.
    """
    of_trail = [rows.select(S.DATE, F.lit(False).alias("in_log")) for rows in (audit, quarantine)]
    each = of_trail[0].unionByName(of_trail[1]).unionByName(log.select(S.DATE, F.lit(True).alias("in_log")))
    if wanted:
        each = each.where(F.col(S.DATE).cast("string").isin(*wanted))
    counts = F.count_if(~F.col("in_log")).alias("records"), F.count_if("in_log").alias("log_records")
    open_findings = Counter(row[S.DATE] for row in found)
    now = datetime.now(UTC).isoformat()
    rows = [
        (row[S.DATE], row["records"], open_findings[row[S.DATE]], version, now, row["log_records"])
        for row in each.groupBy(S.DATE).agg(*counts).orderBy(S.DATE).collect()
    ]
    return frame_of(audit.sparkSession, rows, S.RECONCILED)


def compact(
    spark: SparkSession, tables: Tables, retain_hours: float, key: Key, compare: manifest.Compare
) -> None:
    """Replaces many small files by a few large ones, and deletes files that no newer version needs.

    Signs the new files in the manifest. AuditError if the tables contradict it.
    """
    with sole_writer(spark, tables):
        begun = manifest.begin(spark, tables, key, compare, "compact", manifest.MAY_BE_COMPACTED)
        for path in (tables.audit, tables.quarantine, tables.metadata_log):
            delta.read_table(spark, path)
            table = DeltaTable.forPath(spark, path)
            table.optimize().executeCompaction()
            table.vacuum(retain_hours)
        manifest.end(spark, tables, begun, "compact")


def _newest(spark: SparkSession, tables: Tables, days: DataFrame) -> DataFrame:
    """Adds `then`, the newest reconciliation, to the days of `_days` that have unexpired or log records."""
    reconciled = delta.read_state(spark, tables.reconciled, S.RECONCILED)
    newest = reconciled.groupBy(S.DATE).agg(
        F.max_by(F.struct("records", "findings", "log_records"), "checked_at").alias("then")
    )
    return days.where("unexpired > 0 OR log_records > 0").join(newest, S.DATE, "left")


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
        F.when(
            (F.col("then.records") != F.col("records")) | ~_same_log(),
            "records arrived after it was reconciled",
        ),
    )
    joined = _newest(spark, tables, days).where("unexpired > 0")
    open_days = joined.withColumn("why", why).where(F.col("why").isNotNull()).orderBy(S.DATE)
    named = [f"{row[S.DATE]}: {row['why']}" for row in open_days.limit(DAYS_NAMED).collect()]
    if named:
        raise AuditError(
            f"nothing was expired, because some days are not settled ({'; '.join(named)}): see --force"
        )


def _delete(spark: SparkSession, path: str, ends: DataFrame, before: date) -> None:
    same_boot = (F.col("t.proxy_id") == F.col("e.proxy_id")) & (F.col("t.boot_id") == F.col("e.boot_id"))
    old = F.col(f"t.{S.DATE}") < F.lit(before)
    merge = DeltaTable.forPath(spark, path).alias("t").merge(F.broadcast(ends).alias("e"), old & same_boot)
    merge.whenMatchedDelete(~_remains("e.last_sequence", "t.")).execute()


def _remains(last_sequence: str, of_table: str = "") -> Column:
    event, sequence = F.col(f"{of_table}{S.EVENT}"), F.col(f"{of_table}{S.SEQUENCE}")
    return event.isin(*NEVER_EXPIRED) | (sequence == F.col(last_sequence))
