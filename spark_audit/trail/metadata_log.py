"""Table `metadata_log`: which log a row is of, missing offsets of Kafka's own log, aborted transactions.

A transaction that was aborted, or has not ended yet, has no effect (KIP-868). Its records stay in the log as
NoOpRecord, because a missing offset would count as a hole. The reconciliation removes them before any check.
Knows no audit records.
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S

HOLE_FIRST, HOLE_LAST = "hole_first", "hole_last"
UNKNOWN_FIRST, UNKNOWN_LAST = "unknown_first", "unknown_last"


def of_kafka(metadata_log: DataFrame) -> DataFrame:
    """Return the records of Kafka's own log and of its snapshots."""
    return metadata_log.where(F.col(S.FROM_SNAPSHOT).isNotNull())


def of_topic(metadata_log: DataFrame) -> DataFrame:
    """Return the records of the topic in which Penstock's controllers store the log."""
    return metadata_log.where(F.col(S.FROM_SNAPSHOT).isNull())


def placed(metadata_log: DataFrame, topic: str) -> DataFrame:
    """Add the places of the records in the metadata topic, which has one partition."""
    return metadata_log.withColumns(
        {S.KAFKA_TOPIC: F.lit(topic), S.KAFKA_PARTITION: F.lit(0), S.KAFKA_OFFSET: F.col(S.LOG_OFFSET)}
    )


def without_snapshots(metadata_log: DataFrame) -> DataFrame:
    """Return the records of Kafka's own log, without its snapshots."""
    return metadata_log.where(~F.col(S.FROM_SNAPSHOT))


def any_hole(log: DataFrame) -> bool:
    """Return whether an offset of Kafka's own log has no record. False for the log of a topic."""
    row = without_snapshots(log).agg(F.max(S.LOG_OFFSET), F.count_distinct(S.LOG_OFFSET)).first()
    return row is not None and row[0] is not None and bool(row[0] + 1 != row[1])


def holes(log: DataFrame) -> DataFrame:
    """Return the ranges of missing offsets: hole_first, hole_last, date and time of the next record.

    The log is sorted only if the number of its records shows that there is a hole.
    """
    records = without_snapshots(log).select(S.LOG_OFFSET, S.DATE, S.LOG_TIMESTAMP)
    if not any_hole(log):
        records = records.limit(0)
    before = F.coalesce(F.lag(S.LOG_OFFSET).over(Window.orderBy(S.LOG_OFFSET)), F.lit(-1))
    followed = records.withColumn("before", before).where(F.col(S.LOG_OFFSET) > F.col("before") + 1)
    return followed.select(
        (F.col("before") + 1).alias(HOLE_FIRST),
        (F.col(S.LOG_OFFSET) - 1).alias(HOLE_LAST),
        S.DATE,
        S.LOG_TIMESTAMP,
    )


def unknown_ranges(log: DataFrame) -> DataFrame:
    """Return where the state is unknown, from a hole to the next snapshot: unknown_first, unknown_last.

    Segments between a hole and the snapshot after it may refer by id to what only the hole could show.
    Without a snapshot after it, the range is the hole itself.
    """
    snapshots = log.where(F.col(S.FROM_SNAPSHOT)).select(F.col(S.LOG_OFFSET).alias("snapshot")).distinct()
    followed = holes(log).join(snapshots, F.col("snapshot") >= F.col(HOLE_LAST), "left")
    ends = followed.groupBy(HOLE_FIRST, HOLE_LAST).agg(F.min("snapshot").alias("snapshot"))
    return ends.select(
        F.col(HOLE_FIRST).alias(UNKNOWN_FIRST), F.coalesce("snapshot", HOLE_LAST).alias(UNKNOWN_LAST)
    )


def without_aborted(log: DataFrame) -> DataFrame:
    """Return the same rows. Records of aborted or open transactions are NoOpRecords.

    Only Kafka's own log has such transactions. In the topic of Penstock's controllers, which write none, a
    mark hides nothing.
    """
    spans = [(row["first"], row["last"]) for row in _aborted(log).collect()]
    if not spans:
        return log
    offset = F.col(S.LOG_OFFSET)
    each = (offset >= first if last is None else offset.between(first, last) for first, last in spans)
    return without_effect(log, reduce(or_, each) & _of_segments())


def without_effect(log: DataFrame, which: Column) -> DataFrame:
    """Return the same rows; those for which `which` is true are NoOpRecords."""
    nothing = {S.API_KEY: F.lit(S.NO_OP_RECORD), S.RECORD: F.lit("NoOpRecord"), S.BODY: F.lit("{}")}
    return log.withColumns(
        {name: F.when(which, value).otherwise(F.col(name)) for name, value in nothing.items()}
    )


def _aborted(log: DataFrame) -> DataFrame:
    """Return the first and last offset of each such transaction. `last` is null if it has no end."""
    kinds = (S.BEGIN_TRANSACTION_RECORD, S.END_TRANSACTION_RECORD, S.ABORT_TRANSACTION_RECORD)
    marks = log.where(F.col(S.API_KEY).isin(*kinds) & _of_segments())
    in_order = Window.orderBy(S.LOG_OFFSET)
    spans = marks.select(
        S.API_KEY,
        F.col(S.LOG_OFFSET).alias("first"),
        F.lead(S.LOG_OFFSET).over(in_order).alias("last"),
        F.lead(S.API_KEY).over(in_order).alias("ended_by"),
    )
    aborted = F.col("ended_by").isNull() | (F.col("ended_by") != S.END_TRANSACTION_RECORD)
    return spans.where((F.col(S.API_KEY) == S.BEGIN_TRANSACTION_RECORD) & aborted).select("first", "last")


def _of_segments() -> Column:
    return F.col(S.FROM_SNAPSHOT).eqNullSafe(F.lit(False))
