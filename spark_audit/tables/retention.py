"""Deletes old days from the tables, and compacts small files. Used by the command line.

`expire` deletes whole days that were reconciled without an open finding. A day that is not, and the days
beside it, stay until it is. It also leaves the records that the rest of the trail depends on: administrative
requests, which explain the metadata log; the settings of each process; and the last record of each range that
it deletes of a boot, because the next link is hashed from it. It first writes to table `expired` what it is
going to delete, so that these records are not reported as missing later.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.tables import delta, manifest
from spark_audit.tables.acknowledgements import acknowledged_by_day
from spark_audit.tables.delta import Tables, empty_frame, frame_of, sole_writer
from spark_audit.tables.expired import FIRST, IS_EXPIRED, LAST, expired_sequences, with_expired
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
_EXPLAINED = S.struct((S.DATE, S.RECONCILED[S.DATE].dataType), ("explained", S.AUDIT[S.COUNT].dataType))
_PLACE = (S.KAFKA_TOPIC, S.KAFKA_PARTITION, S.KAFKA_OFFSET)
DAYS_NAMED = 5
"""An error message names at most this many days."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The number of whole days and of audit records that were deleted, and the days that are not settled."""

    days: int
    records: int
    unsettled: str
    """Some of them, and why. Empty if all are settled."""

    def said(self) -> str:
        """Return the result as a sentence."""
        kept = f"; not these, which are not settled, nor the days beside them: {self.unsettled}"
        return f"expired: {self.records} records of {self.days} days" + (kept if self.unsettled else "")


def expire(
    spark: SparkSession,
    tables: Tables,
    before: date,
    key: Key,
    compare: manifest.Compare,
    *,
    force: bool = False,
) -> Expired:
    """Delete the days before `before`, and signs in the manifest what was deleted.

    Days that are not settled stay, and the days beside them: a day is judged with the traffic of its
    neighbours. With `force` no day stays. AuditError if all of them would, or if the tables contradict the
    manifest.
    """
    with sole_writer(spark, tables):
        audit, quarantine, log = _trail(spark, tables, F.col(S.DATE) <= F.lit(before))
        expired = delta.read_state(spark, tables.expired, S.EXPIRED)
        days = _days(_stretches(audit), quarantine, log, expired).persist()
        unsettled = {} if force else _unsettled(spark, tables, days, key)
        named = "; ".join(f"{day}: {why}" for day, why in list(unsettled.items())[:DAYS_NAMED])
        goes = _goes(before, unsettled)
        number = days.where(goes & (F.col("unexpired") > 0)).count()
        if unsettled and not number:
            raise AuditError(f"nothing was expired, because some days are not settled ({named}): see --force")
        gone, records, delete = _deletion(spark, tables, before, audit, goes)
        closed = manifest.before_day(before)
        begun = manifest.begin(spark, tables, key, compare, manifest.EXPIRE, closed, {manifest.EXPIRED: gone})
        # Written before anything is deleted. Writing it twice, after a crash, does no harm.
        delta.append_state(gone, tables.expired, S.EXPIRED)
        delete()
        removed = {"before": str(before), "days": number, "records": records}
        manifest.end(spark, tables, begun, manifest.EXPIRE, removed=removed)
        return Expired(number, records, named)


def days_to_reconcile(
    spark: SparkSession, tables: Tables, known: DataFrame | None = None, days_known: Collection[date] = ()
) -> list[str]:
    """Return the days (YYYY-MM-DD) that have records which were not there when they were reconciled.

    The days are those that the writers of the records have chosen. So a record of a day long ago, or of the
    future, is judged when it comes. Table `audit` is not read for `days_known`: `known` has date, BOOT_KEY,
    bounds and number of their `records`, in stretches.
    """

    def open_days(which: Column, expired: DataFrame) -> list[date]:
        audit, quarantine, log = _trail(spark, tables, which)
        stretches = _stretches(audit.where(~F.col(S.DATE).isin(*days_known)))
        if known is not None:
            stretches = stretches.unionByName(known.where(which))
        days = _newest(spark, tables, _days(stretches, quarantine, log, expired))
        same = F.col("then.records").eqNullSafe(F.col("records")) | (F.col("unexpired") == 0)
        changed = days.where(~(same & _same_log())).select(S.DATE).orderBy(S.DATE)
        return [row[S.DATE] for row in changed.collect()]

    # To count the records of a day takes no column of them. Only those of other numbers are looked at.
    found = open_days(F.col(S.DATE).isNotNull(), empty_frame(spark, S.EXPIRED))
    if found and DeltaTable.isDeltaTable(spark, tables.expired):
        of_these = F.col(S.DATE).isin(*found)
        found = open_days(of_these, delta.read_state(spark, tables.expired, S.EXPIRED))
    return [str(day) for day in found]


def _same_log() -> Column:
    # A reconciliation by an older release did not count the records of the log.
    known = F.coalesce("then.log_records", F.when(F.col("then").isNotNull(), F.col("log_records")))
    return known.eqNullSafe(F.col("log_records")) | (F.col("log_records") == 0)


def _trail(spark: SparkSession, tables: Tables, which: Column) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Return the records of table `audit`, the quarantine and the metadata log for which `which` is true."""
    return (
        delta.read_table(spark, tables.audit, S.AUDIT).where(which),
        delta.read_table(spark, tables.quarantine, S.QUARANTINE).where(which),
        delta.read_table(spark, tables.metadata_log, S.METADATA_LOG).where(which),
    )


def _goes(before: date, unsettled: Iterable[date]) -> Column:
    """Return whether a day is deleted. A day is judged with the traffic of the days beside it."""
    kept = [F.date_add(F.lit(day), shift) for day in unsettled for shift in (-1, 0, 1)]
    return (F.col(S.DATE) < F.lit(before)) & ~F.col(S.DATE).isin(*kept)


def _deletion(
    spark: SparkSession, tables: Tables, before: date, audit: DataFrame, goes: Column
) -> tuple[DataFrame, int, Callable[[], None]]:
    """Return rows for table `expired`, how many audit records they stand for, and what deletes these.

    `audit` has those up to the day `before`.
    """
    expired = delta.read_state(spark, tables.expired, S.EXPIRED)
    new = _new_ranges(audit, expired_sequences(expired), goes).persist()
    ranges = expired_sequences(expired.unionByName(new, allowMissingColumns=True))
    of_boot = [F.col(name).alias(f"expired_{name}") for name in S.BOOT_KEY]
    ranges = F.broadcast(ranges.select(*of_boot, FIRST, LAST).persist())
    within = goes & F.col(S.SEQUENCE).between(F.col(FIRST), F.col(LAST))
    for name in S.BOOT_KEY:
        within &= F.col(name) == F.col(f"expired_{name}")
    stays = F.col(S.EVENT).isin(*NEVER_EXPIRED) | (F.col(S.SEQUENCE) == F.col(LAST))
    deleted = audit.join(ranges, within).where(~stays).select(*_PLACE).persist()
    quarantine = delta.read_table(spark, tables.quarantine, S.QUARANTINE).where(goes)
    places = _ranges_of_offsets(deleted.unionByName(quarantine.select(*_PLACE)))
    gone = new.unionByName(places, allowMissingColumns=True).withColumn("before", F.lit(before))

    def delete() -> None:
        merge = DeltaTable.forPath(spark, tables.audit).merge(ranges, within)
        merge.whenMatchedDelete(~stays).execute()
        DeltaTable.forPath(spark, tables.quarantine).delete(goes)

    return gone.persist(), deleted.count(), delete


def _new_ranges(audit: DataFrame, expired: DataFrame, goes: Column) -> DataFrame:
    """Return the ranges of sequences of each boot that go now: from one record that stays to the next.

    A range has what is missing in it, so that a hole which was acknowledged is no new finding afterwards.
    """
    known = with_expired(audit, expired, S.BOOT_KEY, S.SEQUENCE, S.SEQUENCE).withColumn("goes", goes)
    stayed = F.count_if(~F.col("goes")).over(Window.partitionBy(*S.BOOT_KEY).orderBy(S.SEQUENCE))
    ranges = known.withColumn("stayed", stayed).where("goes").groupBy(*S.BOOT_KEY, "stayed")
    bounds = F.min(S.SEQUENCE).alias(S.FIRST_SEQUENCE), F.max(S.SEQUENCE).alias(S.LAST_SEQUENCE)
    is_new = ~F.bool_and(IS_EXPIRED)
    return ranges.agg(*bounds, is_new.alias("is_new")).where("is_new").drop("stayed", "is_new")


def _ranges_of_offsets(places: DataFrame) -> DataFrame:
    """Return these places of Kafka as ranges of offsets without a gap."""
    partition = S.KAFKA_TOPIC, S.KAFKA_PARTITION
    number = F.row_number().over(Window.partitionBy(*partition).orderBy(S.KAFKA_OFFSET))
    grouped = (
        places.distinct()
        .withColumn("range", F.try_subtract(S.KAFKA_OFFSET, number))
        .groupBy(*partition, "range")
    )
    bounds = F.min(S.KAFKA_OFFSET).alias(S.FIRST_OFFSET), F.max(S.KAFKA_OFFSET).alias(S.LAST_OFFSET)
    return grouped.agg(*bounds).drop("range")


def _stretches(audit: DataFrame) -> DataFrame:
    """Return one stretch for each record."""
    bounds = F.col(S.SEQUENCE).alias(S.FIRST_SEQUENCE), F.col(S.SEQUENCE).alias(S.LAST_SEQUENCE)
    return audit.select(S.DATE, *S.BOOT_KEY, *bounds, F.lit(1).alias("records"))


def _days(old: DataFrame, quarantine: DataFrame, log: DataFrame, expired: DataFrame) -> DataFrame:
    """Return per day the records of the trail and of the log, and those that are `unexpired`.

    Unexpired records were not there at an earlier expiry. What that one has left needs no new reconciliation.
    `old` has stretches of records of one boot and day.
    """
    known = with_expired(old, expired_sequences(expired), S.BOOT_KEY, S.FIRST_SEQUENCE, S.LAST_SEQUENCE)
    unexpired, one = (~F.col(IS_EXPIRED)).alias("unexpired"), F.lit(1).alias("records")
    each = known.select(S.DATE, unexpired, "records", F.lit("audit").alias("of"))
    bad = quarantine.select(S.DATE, F.lit(True).alias("unexpired"), one, F.lit("quarantine").alias("of"))
    in_log = log.select(S.DATE, F.lit(False).alias("unexpired"), one, F.lit("log").alias("of"))

    def number(condition: Column) -> Column:
        return F.sum(F.when(condition, F.col("records")).otherwise(0))

    return (
        each.unionByName(bad)
        .unionByName(in_log)
        .groupBy(S.DATE)
        .agg(
            number(F.col("of") != "log").alias("records"),
            number(F.col("unexpired")).alias("unexpired"),
            number(F.col("of") == "log").alias("log_records"),
        )
    )


def reconciled_days(
    audit: DataFrame,
    quarantine: DataFrame,
    log: DataFrame,
    found: Sequence[Row],
    version: int,
    wanted: Sequence[str] = (),
    open_since: date | None = None,
) -> DataFrame:
    """Return rows of table `reconciled`, one per day of the trail or of the days `wanted`.

    A day may have records in one of the tables only. `found` are the findings, `version` is the checked
    version of table `audit`. Days from `open_since` on (`first_open_day`) have to be reconciled once more,
    also if no record of theirs comes: they have no number of records.
    """
    of_trail = [rows.select(S.DATE, F.lit(False).alias("in_log")) for rows in (audit, quarantine)]
    each = of_trail[0].unionByName(of_trail[1]).unionByName(log.select(S.DATE, F.lit(True).alias("in_log")))
    if wanted:
        each = each.where(F.col(S.DATE).cast("string").isin(*wanted))
    counts = F.count_if(~F.col("in_log")).alias("records"), F.count_if("in_log").alias("log_records")
    open_findings = Counter(row[S.DATE] for row in found)
    now = datetime.now(UTC).isoformat()
    over = F.lit(True) if open_since is None else F.coalesce(F.col(S.DATE) < F.lit(open_since), F.lit(True))
    counted = each.groupBy(S.DATE).agg(*counts).withColumn("records", F.when(over, F.col("records")))
    rows = [
        (row[S.DATE], row["records"], open_findings[row[S.DATE]], version, now, row["log_records"])
        for row in counted.orderBy(S.DATE).collect()
    ]
    return frame_of(audit.sparkSession, rows, S.RECONCILED)


def compact(
    spark: SparkSession, tables: Tables, retain_hours: float, key: Key, compare: manifest.Compare
) -> None:
    """Replace many small files by a few large ones, and deletes files that no newer version needs.

    Sign the new files in the manifest. AuditError if the tables contradict it.
    """
    with sole_writer(spark, tables):
        begun = manifest.begin(spark, tables, key, compare, manifest.COMPACT, manifest.MAY_BE_COMPACTED)
        for path in (tables.audit, tables.quarantine, tables.metadata_log):
            delta.read_table(spark, path)
            table = DeltaTable.forPath(spark, path)
            table.optimize().executeCompaction()
            table.vacuum(retain_hours)
        for path in (tables.reconciled, tables.expired):
            # Each reconciliation, and each expiry, adds a file. Later ones read all of them.
            if DeltaTable.isDeltaTable(spark, path):
                DeltaTable.forPath(spark, path).optimize().executeCompaction()
        manifest.end(spark, tables, begun, manifest.COMPACT)


def _newest(spark: SparkSession, tables: Tables, days: DataFrame) -> DataFrame:
    """Add `then`, the newest reconciliation, to the days of `_days` that have unexpired or log records.

    The version of table `audit` decides, not the time: the clock of a job's host may have been ahead once.
    """
    reconciled = delta.read_state(spark, tables.reconciled, S.RECONCILED)
    newest = reconciled.groupBy(S.DATE).agg(
        F.max_by(
            F.struct("records", "findings", "log_records"), F.struct("audit_version", "checked_at")
        ).alias("then")
    )
    return days.where("unexpired > 0 OR log_records > 0").join(newest, S.DATE, "left")


def _unsettled(spark: SparkSession, tables: Tables, days: DataFrame, key: Key) -> dict[date, str]:
    """Return the days whose newest reconciliation lacks records or has open findings, and why."""
    acknowledged = acknowledged_by_day(manifest.runs_of(spark, tables, key))
    explained = F.broadcast(frame_of(spark, acknowledged.items(), _EXPLAINED))
    still_open = F.col("then.findings") - F.coalesce("explained", F.lit(0))
    why = F.coalesce(
        F.when(F.col("then").isNull(), "never reconciled"),
        F.when(still_open > 0, F.concat(still_open, F.lit(" open finding(s)"))),
        F.when(F.col("then.records").isNull(), "reconciled before it was over"),
        F.when(
            (F.col("then.records") != F.col("records")) | ~_same_log(),
            "records arrived after it was reconciled",
        ),
    )
    joined = _newest(spark, tables, days).where("unexpired > 0").join(explained, S.DATE, "left")
    open_days = joined.withColumn("why", why).where(F.col("why").isNotNull()).orderBy(S.DATE)
    return {row[S.DATE]: row["why"] for row in open_days.select(S.DATE, "why").collect()}
