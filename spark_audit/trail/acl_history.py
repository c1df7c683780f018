"""The metadata log as a history of ACLs: each ACL with the offsets between which it was in force.

An image at offset n has replayed record n: an ACL added at a and removed at r is in force for images with
a <= n < r. Between two changes all images hold the same ACLs; such a stretch is an epoch, named by the
offset of the change it begins with (-1 before the first).
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.trail.log_changes import BLIND_FIRST, BLIND_LAST, any_hole, blind

ADDED, REMOVED = "added_offset", "removed_offset"
PATTERN_NAME, PERMISSION = "pattern_name", "permission_type"
ACL_PRINCIPAL, ACL_HOST, ACL_OPERATION = "acl_principal", "acl_host", "acl_operation"
EPOCH = "epoch"
NEVER = 2**63 - 1
BEFORE_THE_FIRST = -1
BLIND = "blind"
_STRETCHES = f"array<struct<{BLIND_FIRST}: bigint, {BLIND_LAST}: bigint>>"


def acl_changes(metadata_log: DataFrame) -> DataFrame:
    """Each ACL record: id, offset, and the ACL's fields (null where it removes)."""
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
        f"acl.{PERMISSION}",
    )


def acl_intervals(metadata_log: DataFrame) -> DataFrame:
    """One row per ACL and stretch of time in which it was in force: [added_offset, removed_offset)."""
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
        PERMISSION,
    )


def epochs(metadata_offsets: DataFrame, metadata_log: DataFrame, changes: DataFrame) -> DataFrame:
    """Takes a column `metadata_offset`; gives each distinct one with the epoch it falls into.

    `changes`: the offsets of what else begins an epoch, besides the ACLs of the log.

    One window over both, sorted by offset: the distinct offsets are few, since an image serves many
    decisions, and a join on a range would compare each with each.
    """
    seen = metadata_offsets.select(S.METADATA_OFFSET).where(F.col(S.METADATA_OFFSET).isNotNull()).distinct()
    asked = seen.select(S.METADATA_OFFSET, F.lit(None).cast("long").alias("change"))
    begins = acl_changes(metadata_log).select(S.LOG_OFFSET).unionByName(changes.select(S.LOG_OFFSET))
    changed = begins.select(F.col(S.LOG_OFFSET).alias(S.METADATA_OFFSET), F.col(S.LOG_OFFSET).alias("change"))
    # An image at the very offset of a change has replayed it: changes sort before questions.
    in_order = Window.orderBy(S.METADATA_OFFSET, F.col("change").asc_nulls_last())
    last_change = F.last("change", ignorenulls=True).over(in_order)
    placed = asked.unionByName(changed).withColumn(EPOCH, F.coalesce(last_change, F.lit(BEFORE_THE_FIRST)))
    return placed.where(F.col("change").isNull()).select(S.METADATA_OFFSET, EPOCH)


def orphan_removals(metadata_log: DataFrame) -> DataFrame:
    """ACLs that the log removes but never added (acl_id, offset, date).

    The log is compacted: what was added and removed before ingest first read it has left only its removal.
    """
    of_one_acl = Window.partitionBy(S.ACL_ID).orderBy(S.LOG_OFFSET)
    begun = acl_changes(metadata_log).withColumn("added_before", F.lag("adds").over(of_one_acl))
    orphans = begun.where(~F.col("adds") & F.col("added_before").isNull())
    return orphans.select(S.ACL_ID, S.LOG_OFFSET, S.DATE)


def history_lost(metadata_log: DataFrame) -> DataFrame:
    """One row of where an ACL may be missing from the log.

    `lost_before`: below this offset, -1 if nowhere. `blind`: in these stretches (first, last) of Kafka's own
    log, which ends them with a snapshot.
    """
    lost = orphan_removals(metadata_log)
    before = F.coalesce(F.max(S.LOG_OFFSET), F.lit(BEFORE_THE_FIRST)).alias("lost_before")
    if not any_hole(metadata_log):
        return lost.agg(before).withColumn(BLIND, F.array().cast(_STRETCHES))
    stretches = blind(metadata_log)
    within = F.col(S.LOG_OFFSET).between(F.col(BLIND_FIRST), F.col(BLIND_LAST))
    known = lost.join(F.broadcast(stretches), within, "left_anti").agg(before)
    told = stretches.agg(F.collect_list(F.struct(BLIND_FIRST, BLIND_LAST)).alias(BLIND))
    return known.crossJoin(told)
