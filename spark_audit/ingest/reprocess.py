"""Decodes again what an older release could not: moves rows from table `quarantine` to their own tables.

Used by the command line. The result is the same if it is interrupted or run twice: a row is first inserted
into its table, unless it is there already, and then deleted from the quarantine. Rows are identified by their
place in Kafka and their bytes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.ingest import decode
from spark_audit.tables import delta, manifest
from spark_audit.tables.delta import Tables, sole_writer
from spark_audit.tables.keys import Key

AUDIT_PLACE = (S.DATE, S.KAFKA_TOPIC, S.KAFKA_PARTITION, S.KAFKA_OFFSET, S.BODY_SHA256)
LOG_PLACE = (S.DATE, S.LOG_OFFSET, S.LOG_TIMESTAMP)
QUARANTINED_AS = (S.DATE, S.KAFKA_TOPIC, S.KAFKA_PARTITION, S.KAFKA_OFFSET, S.RAW_KEY, S.RAW_VALUE)


@dataclass(frozen=True, slots=True)
class Reprocessed:
    """The number of rows that left the quarantine, by table, and of rows that are left in it."""

    audit: int
    metadata_log: int
    left: int


def reprocess(
    spark: SparkSession,
    tables: Tables,
    audit_topic: str,
    metadata_topic: str,
    key: Key,
    compare: manifest.Compare,
) -> Reprocessed:
    """Decode each quarantined record of these topics again. Records of other topics are left alone.

    Sign the tables in the manifest. AuditError if they contradict it.
    """
    with sole_writer(spark, tables):
        delta.create_tables(spark, tables)
        begun = manifest.begin(spark, tables, key, compare, "reprocess", "name = 'quarantine'")
        quarantine = delta.read_table(spark, tables.quarantine, S.QUARANTINE)
        audit = quarantine.where(F.col(S.KAFKA_TOPIC) == audit_topic).transform(_as_received)
        log = quarantine.where(F.col(S.KAFKA_TOPIC) == metadata_topic).transform(_as_received)
        done = Reprocessed(
            _moved(audit.transform(decode.check_audit), decode.audit_rows, tables, tables.audit, AUDIT_PLACE),
            _moved(log.transform(decode.check_log), decode.log_rows, tables, tables.metadata_log, LOG_PLACE),
            delta.read_table(spark, tables.quarantine).count(),
        )
        moved = {"audit": done.audit, "metadata_log": done.metadata_log}
        manifest.end(spark, tables, begun, "reprocess", moved=moved)
        return done


def _as_received(quarantine: DataFrame) -> DataFrame:
    return quarantine.select(
        S.RAW_KEY,
        S.RAW_VALUE,
        F.col(S.KAFKA_TOPIC).alias("topic"),
        F.col(S.KAFKA_PARTITION).alias("partition"),
        F.col(S.KAFKA_OFFSET).alias("offset"),
        F.col(S.KAFKA_TIMESTAMP).alias("timestamp"),
        S.SIGNATURE,
    )


def _moved(
    checked: DataFrame,
    rows: Callable[[DataFrame], DataFrame],
    tables: Tables,
    path: str,
    place: Sequence[str],
) -> int:
    """Move the readable rows into the table at `path`. Return their number."""
    readable = checked.where(F.col(S.REASON).isNull()).persist()
    try:
        count = readable.count()
        if count:
            insert_absent(readable.transform(rows).dropDuplicates(list(place)), path, place)
            delete(readable.transform(decode.as_quarantined), tables.quarantine, QUARANTINED_AS)
        return count
    finally:
        readable.unpersist()


def insert_absent(rows: DataFrame, path: str, place: Sequence[str]) -> None:
    """Insert the rows whose place the table does not have, in one commit."""
    merge = DeltaTable.forPath(rows.sparkSession, path).alias("t").merge(rows.alias("r"), _same(rows, place))
    merge.whenNotMatchedInsertAll().execute()


def delete(rows: DataFrame, path: str, place: Sequence[str]) -> None:
    """Delete the rows of the table that have the place of one of `rows`, in one commit."""
    merge = DeltaTable.forPath(rows.sparkSession, path).alias("t").merge(rows.alias("r"), _same(rows, place))
    merge.whenMatchedDelete().execute()


def _same(rows: DataFrame, place: Sequence[str]) -> str:
    # The days as literals let Delta skip the files of other days; it cannot derive them from the join.
    days = [f"DATE'{row[S.DATE]}'" for row in rows.select(S.DATE).distinct().collect()]
    return " AND ".join([*(f"t.`{name}` <=> r.`{name}`" for name in place), f"t.date IN ({', '.join(days)})"])
