"""A KRaft snapshot -> rows of table `metadata_log`, in place of all the records that are gone.

Fed by kraft_import where the log's segments begin behind what the table has. The rows stand at the last
offset that the snapshot covers and are marked, so that nobody asks who made these changes.
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
    """All that it holds, and the end of what the table had in force and it does not hold."""
    rows = frame(spark, [snapshot])
    try:
        _import(snapshot, rows, log, tables)
    finally:
        rows.unpersist()


def _import(snapshot: Slice, rows: DataFrame, log: DataFrame, tables: Tables) -> None:
    bad = rows.where(F.col(S.REASON).isNotNull()).first()
    if bad is not None:
        # What it does not tell would count as removed.
        raise LogDirectoryError(f"{snapshot.path}: a record of the snapshot is {bad[S.REASON]}")
    held = log_rows(rows).persist()
    last = snapshot.snapshot_offset
    assert last is not None
    ended = _acls_gone(log, held).unionByName(_quotas_gone(log, held))
    moment = held.agg(F.max(S.LOG_TIMESTAMP).alias(S.LOG_TIMESTAMP))
    gone = ended.crossJoin(moment).select(
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
        held.unionByName(gone), tables.metadata_log, f"{log_directory.TOPIC} snapshot {last}", 1
    )
    held.unpersist()


def _acls_gone(log: DataFrame, held: DataFrame) -> DataFrame:
    in_force = acl_intervals(log).where(F.col(REMOVED) == NEVER).select(S.ACL_ID)
    gone = in_force.join(acl_intervals(held).select(S.ACL_ID), S.ACL_ID, "left_anti")
    return gone.select(
        F.lit(S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD).alias(S.API_KEY),
        F.lit("RemoveAccessControlEntryRecord").alias(S.RECORD),
        F.to_json(F.struct(F.col(S.ACL_ID).alias(S.ID))).alias(S.BODY),
    )


def _quotas_gone(log: DataFrame, held: DataFrame) -> DataFrame:
    in_force = _limits(log).where(~F.col("removed"))
    gone = in_force.join(_limits(held), ["entity", "key"], "left_anti")
    body = F.concat(
        F.lit('{"entity":'), "entity", F.lit(',"key":"'), "key", F.lit('","remove":true,"value":0.0}')
    )
    return gone.select(
        F.lit(S.CLIENT_QUOTA_RECORD).alias(S.API_KEY),
        F.lit("ClientQuotaRecord").alias(S.RECORD),
        body.alias(S.BODY),
    )


def _limits(log: DataFrame) -> DataFrame:
    """The last record of each entity and key."""
    told = log.where(F.col(S.API_KEY) == S.CLIENT_QUOTA_RECORD).select(
        S.LOG_OFFSET,
        *(F.get_json_object(S.BODY, f"$.{name}").alias(name) for name in ("entity", "key", "remove")),
    )
    removes = F.col("remove") == "true"
    return told.groupBy("entity", "key").agg(F.max_by(removes, S.LOG_OFFSET).alias("removed"))
