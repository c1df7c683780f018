"""A KRaft snapshot -> rows of table `metadata_log` that replace records that were deleted from the log.

Used by log_import.py if the log's segments start after the end of the table. The rows have the last offset
that the snapshot covers. They are marked, so that no check requires an audit record for them.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.kraft import log_directory
from spark_audit.kraft.commit import Slice
from spark_audit.kraft.log_directory import LogDirectoryError
from spark_audit.kraft.rows import frame, log_rows
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.trail.acl_history import NEVER, REMOVED, acl_intervals


def import_snapshot(spark: SparkSession, snapshot: Slice, log: DataFrame, tables: Tables) -> None:
    """Adds the content of the snapshot, and removals of what was in effect in the table but is not in it."""
    rows = frame(spark, [snapshot])
    try:
        _import(snapshot, rows, log, tables)
    finally:
        rows.unpersist()


def _import(snapshot: Slice, rows: DataFrame, log: DataFrame, tables: Tables) -> None:
    bad = rows.where(F.col(S.REASON).isNotNull()).first()
    if bad is not None:
        # An entry that cannot be decoded would count as removed.
        raise LogDirectoryError(f"{snapshot.path}: a record of the snapshot cannot be read: {bad[S.REASON]}")
    content = log_rows(rows).persist()
    last = snapshot.snapshot_offset
    assert last is not None
    ended = _removed_acls(log, content).unionByName(_removed_quotas(log, content))
    moment = content.agg(F.max(S.LOG_TIMESTAMP).alias(S.LOG_TIMESTAMP))
    removals = ended.crossJoin(moment).select(
        F.to_date(S.LOG_TIMESTAMP).alias(S.DATE),
        F.lit(last).cast("long").alias(S.LOG_OFFSET),
        S.LOG_TIMESTAMP,
        S.API_KEY,
        S.RECORD,
        F.lit(0).alias(S.RECORD_VERSION),
        S.BODY,
        F.lit(None).cast("string").alias(S.ENTITY),
        F.lit(True).alias(S.FROM_SNAPSHOT),
    )
    delta.append_once(
        content.unionByName(removals), tables.metadata_log, f"{log_directory.TOPIC} snapshot {last}", 1
    )
    content.unpersist()


def _removed_acls(log: DataFrame, content: DataFrame) -> DataFrame:
    in_effect = acl_intervals(log).where(F.col(REMOVED) == NEVER).select(S.ACL_ID)
    removed = in_effect.join(acl_intervals(content).select(S.ACL_ID), S.ACL_ID, "left_anti")
    return removed.select(
        F.lit(S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD).alias(S.API_KEY),
        F.lit("RemoveAccessControlEntryRecord").alias(S.RECORD),
        F.to_json(F.struct(F.col(S.ACL_ID).alias(S.ID))).alias(S.BODY),
    )


def _removed_quotas(log: DataFrame, content: DataFrame) -> DataFrame:
    in_effect = _limits(log).where(~F.col("removed"))
    removed = in_effect.join(_limits(content), ["entity", "key"], "left_anti")
    body = F.concat(
        F.lit('{"entity":'), "entity", F.lit(',"key":"'), "key", F.lit('","remove":true,"value":0.0}')
    )
    return removed.select(
        F.lit(S.CLIENT_QUOTA_RECORD).alias(S.API_KEY),
        F.lit("ClientQuotaRecord").alias(S.RECORD),
        body.alias(S.BODY),
    )


def _limits(log: DataFrame) -> DataFrame:
    """Returns the last record of each entity and key: whether it removes the limit."""
    quotas = log.where(F.col(S.API_KEY) == S.CLIENT_QUOTA_RECORD).select(
        S.LOG_OFFSET,
        *(F.get_json_object(S.BODY, f"$.{name}").alias(name) for name in ("entity", "key", "remove")),
    )
    removes = F.col("remove") == "true"
    return quotas.groupBy("entity", "key").agg(F.max_by(removes, S.LOG_OFFSET).alias("removed"))
