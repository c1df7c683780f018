"""The metadata log as a history of ACLs: each ACL with the offsets between which it was in effect.

An image at offset n has replayed record n. So an ACL that was added at a and removed at r is in effect for
images with a <= n < r. All images between two changes hold the same ACLs. Such a range is an epoch; its name
is the offset of the change that it begins with, -1 before the first change.

An ACL may also end at a time (decision 0141). So each question has the latest end that had passed when it was
decided, and all ACLs that end by then have no effect on it.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.trail.metadata_log import UNKNOWN_FIRST, UNKNOWN_LAST, any_hole, unknown_ranges

ADDED, REMOVED = "added_offset", "removed_offset"
PATTERN_NAME = "pattern_name"
ACL_PRINCIPAL, ACL_HOST, ACL_OPERATION = "acl_principal", "acl_host", "acl_operation"
EPOCH = "epoch"
ENDED = "ended_ms"
"""The latest end of an ACL that had passed, in ms since the epoch; NONE_ENDED: none had."""
NONE_ENDED = -1
NEVER = 2**63 - 1
BEFORE_THE_FIRST = -1
UNKNOWN = "unknown"
_RANGES = f"array<struct<{UNKNOWN_FIRST}: bigint, {UNKNOWN_LAST}: bigint>>"


def acl_changes(metadata_log: DataFrame) -> DataFrame:
    """Return each ACL record: id, offset, and the ACL's fields, which are null in a removal."""
    of_acls = F.col(S.API_KEY).isin(S.ACCESS_CONTROL_ENTRY_RECORD, S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD)
    read = metadata_log.where(of_acls).withColumn("acl", F.from_json(S.BODY, S.ACL_BODY))
    return read.select(
        S.DATE,
        S.LOG_OFFSET,
        F.col("acl.id").alias(S.ACL_ID),
        (F.col(S.API_KEY) == S.ACCESS_CONTROL_ENTRY_RECORD).alias("adds"),
        f"acl.{S.RESOURCE_TYPE}",
        F.col(f"acl.{S.RESOURCE_NAME}").alias(PATTERN_NAME),
        f"acl.{S.PATTERN_TYPE}",
        F.col(f"acl.{S.PRINCIPAL}").alias(ACL_PRINCIPAL),
        F.col(f"acl.{S.HOST}").alias(ACL_HOST),
        F.col(f"acl.{S.OPERATION}").alias(ACL_OPERATION),
        f"acl.{S.PERMISSION_TYPE}",
        f"acl.{S.UNTIL_MS}",
    )


def acl_intervals(metadata_log: DataFrame) -> DataFrame:
    """Return one row per ACL and interval in which it was in effect: [added_offset, removed_offset)."""
    of_one_acl = Window.partitionBy(S.ACL_ID).orderBy(S.LOG_OFFSET)
    changes = acl_changes(metadata_log)
    ended = changes.withColumn(REMOVED, F.coalesce(F.lead(S.LOG_OFFSET).over(of_one_acl), F.lit(NEVER)))
    return ended.where("adds").select(
        F.col(S.LOG_OFFSET).alias(ADDED),
        REMOVED,
        S.ACL_ID,
        S.RESOURCE_TYPE,
        PATTERN_NAME,
        S.PATTERN_TYPE,
        ACL_PRINCIPAL,
        ACL_HOST,
        ACL_OPERATION,
        S.PERMISSION_TYPE,
        S.UNTIL_MS,
    )


def ended_by(moment_ms: Column, metadata_log: DataFrame) -> Column:
    """Return ENDED for a moment, by the ends that the log has."""
    known = acl_changes(metadata_log).where(F.col(S.UNTIL_MS) >= 0).select(S.UNTIL_MS).distinct().collect()
    if not known:
        return F.lit(NONE_ENDED).cast("long")
    ends = F.array(*(F.lit(until_ms).cast("long") for (until_ms,) in sorted(known)))
    return F.coalesce(F.array_max(F.filter(ends, lambda end: end <= moment_ms)), F.lit(NONE_ENDED))


def ended_by_the_end(metadata_log: DataFrame) -> Column:
    """Return ENDED for the time of the last record of the log."""
    last = metadata_log.agg(F.unix_millis(F.max(S.LOG_TIMESTAMP))).first()
    return ended_by(F.lit(None if last is None else last[0]).cast("long"), metadata_log)


def epochs(metadata_offsets: DataFrame, metadata_log: DataFrame, changes: DataFrame) -> DataFrame:
    """Return each distinct `metadata_offset` of the first DataFrame with its epoch.

    `changes` has the offsets of whatever begins an epoch besides the ACL records of the log.

    One window over both, sorted by offset, is enough: distinct offsets are few, since many decisions are
    made on one image. A range join would compare each offset with each change.
    """
    seen = metadata_offsets.select(S.METADATA_OFFSET).where(F.col(S.METADATA_OFFSET).isNotNull()).distinct()
    wanted = seen.select(S.METADATA_OFFSET, F.lit(None).cast("long").alias("change"))
    begins = acl_changes(metadata_log).select(S.LOG_OFFSET).unionByName(changes.select(S.LOG_OFFSET))
    changed = begins.select(F.col(S.LOG_OFFSET).alias(S.METADATA_OFFSET), F.col(S.LOG_OFFSET).alias("change"))
    # An image at the offset of a change has replayed it, so changes sort before the wanted offsets.
    in_order = Window.orderBy(S.METADATA_OFFSET, F.col("change").asc_nulls_last())
    last_change = F.last("change", ignorenulls=True).over(in_order)
    placed = wanted.unionByName(changed).withColumn(EPOCH, F.coalesce(last_change, F.lit(BEFORE_THE_FIRST)))
    return placed.where(F.col("change").isNull()).select(S.METADATA_OFFSET, EPOCH)


def orphan_removals(metadata_log: DataFrame) -> DataFrame:
    """Return ACLs that the log removes but never added: acl_id, offset, date.

    The log is compacted: of an ACL that was added and removed before ingest first read the log, only the
    removal is left.
    """
    of_one_acl = Window.partitionBy(S.ACL_ID).orderBy(S.LOG_OFFSET)
    changes = acl_changes(metadata_log).withColumn("added_before", F.lag("adds").over(of_one_acl))
    orphans = changes.where(~F.col("adds") & F.col("added_before").isNull())
    return orphans.select(S.ACL_ID, S.LOG_OFFSET, S.DATE)


def missing_history(metadata_log: DataFrame) -> DataFrame:
    """Return one row that says where an ACL may be missing from the log.

    `lost_before`: below this offset; -1 if nowhere. `unknown`: ranges (first, last) of Kafka's own log, which
    a snapshot ends.
    """
    lost = orphan_removals(metadata_log)
    before = F.coalesce(F.max(S.LOG_OFFSET), F.lit(BEFORE_THE_FIRST)).alias("lost_before")
    if not any_hole(metadata_log):
        return lost.agg(before).withColumn(UNKNOWN, F.array().cast(_RANGES))
    ranges = unknown_ranges(metadata_log)
    within = F.col(S.LOG_OFFSET).between(F.col(UNKNOWN_FIRST), F.col(UNKNOWN_LAST))
    known = lost.join(F.broadcast(ranges), within, "left_anti").agg(before)
    collected = ranges.agg(F.collect_list(F.struct(UNKNOWN_FIRST, UNKNOWN_LAST)).alias(UNKNOWN))
    return known.crossJoin(collected)
