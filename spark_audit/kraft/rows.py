"""A KRaft node's files -> rows of table `metadata_log`, decoded on executors and merged by offset.

log_import.py knows what is new and committed. Records that cannot be decoded go to table `quarantine`. A
record that differs from another directory or from the table is an error. If the log's segments start after
the end of the table, a snapshot replaces records that were deleted from the log. Its rows have the last
offset that the snapshot covers. They are marked, so that no check requires an audit record for them.
"""

from collections.abc import Sequence

from delta.tables import DeltaTable
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_audit import schema as S
from spark_audit.kraft import commit, log_directory, metadata_records, record_batches, secrets
from spark_audit.kraft.commit import Slice
from spark_audit.kraft.log_directory import FileGoneError, LogDirectoryError
from spark_audit.policy.acl_history import NEVER, REMOVED, acl_intervals
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError

# The executors of a cluster need not have this package: the decoder is pickled with the plan.
for _module in (commit, log_directory, metadata_records, record_batches, secrets):
    cloudpickle.register_pickle_by_value(_module)  # type: ignore[no-untyped-call]  # not typed there

PATH, TIME_MS, EPOCH, VALUE = "path", "time_ms", "leader_epoch", "value"
_ROW = S.struct(
    (PATH, T.StringType()),
    (S.LOG_OFFSET, T.LongType()),
    (TIME_MS, T.LongType()),
    (EPOCH, T.IntegerType()),
    *S.DECODED,
    (VALUE, T.BinaryType()),
    (S.FROM_SNAPSHOT, T.BooleanType()),
    (S.RECEIVED, T.BinaryType()),
    (S.HIDDEN, T.BinaryType()),
)


def frame(spark: SparkSession, slices: Sequence[Slice]) -> DataFrame:
    """Return the decoded records of the slices, persisted. The caller has to unpersist them.

    LogDirectoryError if a slice cannot be read. AuditError for a record of a later Kafka: without it, checks
    would use a wrong state.
    """
    distributed = spark.sparkContext.parallelize(slices, len(slices))
    rows = spark.createDataFrame(distributed.flatMap(log_directory.rows_or_fault), _ROW).persist()
    newer = F.col(S.REASON).startswith(metadata_records.NEWER)
    fault = rows.where(F.col(S.LOG_OFFSET).isNull() | newer).orderBy(S.LOG_OFFSET).first()
    if fault is None:
        return rows
    rows.unpersist()
    if fault[S.LOG_OFFSET] is not None:
        raise AuditError(
            f"{fault[PATH]}, metadata offset {fault[S.LOG_OFFSET]}: {fault[S.REASON]}. Nothing was imported;"
            " use a release that knows it"
        )
    gone = fault[S.REASON].startswith(log_directory.GONE)
    raise (FileGoneError if gone else LogDirectoryError)(fault[S.REASON].removeprefix(log_directory.GONE))


def import_slices(
    spark: SparkSession, slices: Sequence[Slice], log: DataFrame, tables: Tables, *, several: bool
) -> int:
    """Add the records that `log` lacks, and return their number. AuditError if sources disagree."""
    first, end = min(each.first for each in slices), max(each.end for each in slices)
    read = frame(spark, slices)
    try:
        if several:
            _require_agreement(read)
        rows = read.dropDuplicates([S.LOG_OFFSET]) if several else read
        there = log.where(~F.col(S.FROM_SNAPSHOT) & F.col(S.LOG_OFFSET).between(first, end - 1))
        _require_unchanged(rows, there)
        new = rows.join(there.select(S.LOG_OFFSET), S.LOG_OFFSET, "left_anti")
        good = new.where(F.col(S.REASON).isNull())
        count = good.count()
        if count:
            _merge(spark, good, tables.metadata_log, first, end)
        _quarantine(spark, new.where(F.col(S.REASON).isNotNull()), tables)
        return count
    finally:
        read.unpersist()


def _require_agreement(rows: DataFrame) -> None:
    """Raise AuditError unless all directories have the same record at each offset."""
    content = F.struct(TIME_MS, EPOCH, S.RECORD, S.BODY, S.REASON, VALUE, S.RECEIVED, S.HIDDEN)
    by_offset = rows.groupBy(S.LOG_OFFSET).agg(
        F.count_distinct(content).alias("contents"),
        F.sort_array(F.collect_set(F.concat_ws(": ", PATH, S.RECORD))).alias("places"),
    )
    different = by_offset.where("contents > 1").orderBy(S.LOG_OFFSET).first()
    if different is not None:
        raise AuditError(
            f"the directories disagree on the record at metadata offset {different[S.LOG_OFFSET]}:"
            f" {'; '.join(different['places'])}. They are not of the same cluster, or one was altered"
        )


def _require_unchanged(rows: DataFrame, there: DataFrame) -> None:
    """Raise AuditError unless the directory still has the records that the table has."""
    known = there.select(
        S.LOG_OFFSET,
        F.unix_millis(S.LOG_TIMESTAMP).alias("known_ms"),
        F.col(S.RECORD).alias("known_record"),
        F.col(S.BODY).alias("known_body"),
        F.coalesce(S.RECEIVED, S.HIDDEN).alias("known_bytes"),
    )
    # Earlier releases stored only the name of a set of voters.
    without_body = (F.col(S.RECORD) == log_directory.VOTERS) & (F.col("known_body") == "{}")
    same = (
        (F.col(TIME_MS) == F.col("known_ms"))
        & F.col(S.RECORD).eqNullSafe(F.col("known_record"))
        & (F.col(S.BODY).eqNullSafe(F.col("known_body")) | without_body)
        # Bodies have no secrets. Earlier releases did not store what stands for these.
        & F.coalesce(F.coalesce(S.RECEIVED, S.HIDDEN) == F.col("known_bytes"), F.lit(True))
    )
    different = rows.join(known, S.LOG_OFFSET).where(~same).orderBy(S.LOG_OFFSET).first()
    if different is not None:
        raise AuditError(
            f"metadata offset {different[S.LOG_OFFSET]} of {different[PATH]} is a {different[S.RECORD]},"
            f" but table metadata_log has a {different['known_record']} of another time or content."
            " Either it is the log of another cluster, or one of them was altered, or the record in the table"
            " was not committed (docs/decisions/0039). Compare with another node's directory, and import that"
            " into new --tables"
        )


def log_rows(rows: DataFrame) -> DataFrame:
    """Return the records as rows of table `metadata_log`."""
    moment = F.timestamp_millis(TIME_MS)
    return rows.select(
        F.to_date(moment).alias(S.DATE),
        S.LOG_OFFSET,
        moment.alias(S.LOG_TIMESTAMP),
        S.API_KEY,
        S.RECORD,
        S.RECORD_VERSION,
        S.BODY,
        F.lit(None).cast("string").alias(S.ENTITY),
        S.FROM_SNAPSHOT,
        S.RECEIVED,
        S.HIDDEN,
    )


def _merge(spark: SparkSession, rows: DataFrame, path: str, first: int, end: int) -> None:
    # The bounds as literals let Delta skip files that cannot have these offsets.
    same = f"t.offset = s.offset and not t.from_snapshot and t.offset between {first} and {end - 1}"
    table = DeltaTable.forPath(spark, path).alias("t")
    # Kafka's own log is not signed.
    unsigned = log_rows(rows).withColumn(S.SIGNATURE, F.lit(None).cast("binary"))
    table.merge(unsigned.alias("s"), same).whenNotMatchedInsertAll().execute()


def _quarantine(spark: SparkSession, bad: DataFrame, tables: Tables) -> None:
    if bad.isEmpty():
        return
    moment = F.timestamp_millis(TIME_MS)
    rows = bad.select(
        F.to_date(moment).alias(S.DATE),
        S.REASON,
        F.lit(None).cast("binary").alias(S.RAW_KEY),
        F.col(VALUE).alias(S.RAW_VALUE),
        F.lit(log_directory.TOPIC).alias(S.KAFKA_TOPIC),
        F.lit(0).alias(S.KAFKA_PARTITION),
        F.col(S.LOG_OFFSET).alias(S.KAFKA_OFFSET),
        moment.alias(S.KAFKA_TIMESTAMP),
        F.lit(None).cast("binary").alias(S.SIGNATURE),
    )
    table = DeltaTable.forPath(spark, tables.quarantine).alias("t")
    same = "t.kafka_topic = s.kafka_topic and t.kafka_offset = s.kafka_offset"
    table.merge(rows.alias("s"), same).whenNotMatchedInsertAll().execute()


def import_snapshot(spark: SparkSession, snapshot: Slice, log: DataFrame, tables: Tables) -> None:
    """Add the content of the snapshot, and removals of what was in effect in the table but is not in it."""
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
        content.unionByName(removals, allowMissingColumns=True),
        tables.metadata_log,
        f"{log_directory.TOPIC} snapshot {last}",
        1,
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
    """Return the last record of each entity and key: whether it removes the limit."""
    quotas = log.where(F.col(S.API_KEY) == S.CLIENT_QUOTA_RECORD).select(
        S.LOG_OFFSET,
        *(F.get_json_object(S.BODY, f"$.{name}").alias(name) for name in ("entity", "key", "remove")),
    )
    removes = F.col("remove") == "true"
    return quotas.groupBy("entity", "key").agg(F.max_by(removes, S.LOG_OFFSET).alias("removed"))
