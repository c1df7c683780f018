"""Which log a row of table `metadata_log` is of, and the offsets of Kafka's own log that are missing.

Used by the histories of ACLs and quotas and by the checks with controller.mode kraft. Knows no audit records.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S

HOLE_FIRST, HOLE_LAST = "hole_first", "hole_last"
UNKNOWN_FIRST, UNKNOWN_LAST = "unknown_first", "unknown_last"


def of_kafka(metadata_log: DataFrame) -> DataFrame:
    """Returns the records of Kafka's own log and of its snapshots."""
    return metadata_log.where(F.col(S.FROM_SNAPSHOT).isNotNull())


def of_topic(metadata_log: DataFrame) -> DataFrame:
    """Returns the records of the topic in which Penstock's controllers store the log."""
    return metadata_log.where(F.col(S.FROM_SNAPSHOT).isNull())


def without_snapshots(metadata_log: DataFrame) -> DataFrame:
    """Returns the records of Kafka's own log, without its snapshots."""
    return metadata_log.where(~F.col(S.FROM_SNAPSHOT))


def any_hole(log: DataFrame) -> bool:
    """Returns whether an offset of Kafka's own log has no record. False for the log of a topic."""
    row = without_snapshots(log).agg(F.max(S.LOG_OFFSET), F.count_distinct(S.LOG_OFFSET)).first()
    return row is not None and row[0] is not None and bool(row[0] + 1 != row[1])


def holes(log: DataFrame) -> DataFrame:
    """Returns the ranges of missing offsets: hole_first, hole_last, date and time of the next record.

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
    """Returns where the state is unknown, from a hole to the next snapshot: unknown_first, unknown_last.

    Segments between a hole and the snapshot after it may refer by id to what only the hole could show.
    Without a snapshot after it, the range is the hole itself.
    """
    snapshots = log.where(F.col(S.FROM_SNAPSHOT)).select(F.col(S.LOG_OFFSET).alias("snapshot")).distinct()
    followed = holes(log).join(snapshots, F.col("snapshot") >= F.col(HOLE_LAST), "left")
    ends = followed.groupBy(HOLE_FIRST, HOLE_LAST).agg(F.min("snapshot").alias("snapshot"))
    return ends.select(
        F.col(HOLE_FIRST).alias(UNKNOWN_FIRST), F.coalesce("snapshot", HOLE_LAST).alias(UNKNOWN_LAST)
    )
