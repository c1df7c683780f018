"""What an older release could not read, read again: out of table `quarantine`, into the table it belongs to.

Fed by the command line. Done twice, or cut off anywhere, it comes to the same: a row is first put where it
belongs unless it is there, and leaves the quarantine in a second step. Rows are known by their place in
Kafka and their bytes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.ingest import decode
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.writer_lock import sole_writer

AUDIT_PLACE = (S.DATE, S.KAFKA_TOPIC, S.KAFKA_PARTITION, S.KAFKA_OFFSET, S.BODY_SHA256)
LOG_PLACE = (S.DATE, S.LOG_OFFSET, S.LOG_TIMESTAMP)
QUARANTINED_AS = (S.DATE, S.KAFKA_TOPIC, S.KAFKA_PARTITION, S.KAFKA_OFFSET, S.RAW_KEY, S.RAW_VALUE)


@dataclass(frozen=True, slots=True)
class Reprocessed:
    """Rows that left the quarantine, by where they went, and how many stay."""

    audit: int
    metadata_log: int
    left: int


def reprocess(spark: SparkSession, tables: Tables, audit_topic: str, metadata_topic: str) -> Reprocessed:
    """Judges each quarantined record of these topics anew; those of other topics stay where they are."""
    with sole_writer(spark, tables):
        delta.create_tables(spark, tables)
        held = delta.read_table(spark, tables.quarantine, S.QUARANTINE)
        audit = held.where(F.col(S.KAFKA_TOPIC) == audit_topic).transform(_as_kafka_gave_it)
        log = held.where(F.col(S.KAFKA_TOPIC) == metadata_topic).transform(_as_kafka_gave_it)
        return Reprocessed(
            _moved(audit.transform(decode.judge_audit), decode.audit_rows, tables, tables.audit, AUDIT_PLACE),
            _moved(log.transform(decode.judge_log), decode.log_rows, tables, tables.metadata_log, LOG_PLACE),
            delta.read_table(spark, tables.quarantine).count(),
        )


def _as_kafka_gave_it(quarantine: DataFrame) -> DataFrame:
    return quarantine.select(
        S.RAW_KEY,
        S.RAW_VALUE,
        F.col(S.KAFKA_TOPIC).alias("topic"),
        F.col(S.KAFKA_PARTITION).alias("partition"),
        F.col(S.KAFKA_OFFSET).alias("offset"),
        F.col(S.KAFKA_TIMESTAMP).alias("timestamp"),
    )


def _moved(
    judged: DataFrame,
    rows: Callable[[DataFrame], DataFrame],
    tables: Tables,
    path: str,
    place: Sequence[str],
) -> int:
    """How many rows of the quarantine went into the table at `path`."""
    readable = judged.where(F.col(S.REASON).isNull()).persist()
    try:
        count = readable.count()
        if count:
            insert_absent(readable.transform(rows).dropDuplicates(list(place)), path, place)
            delete(readable.transform(decode.as_quarantined), tables.quarantine, QUARANTINED_AS)
        return count
    finally:
        readable.unpersist()


def insert_absent(rows: DataFrame, path: str, place: Sequence[str]) -> None:
    """Inserts those of `rows` whose place the table does not have; atomic."""
    merge = DeltaTable.forPath(rows.sparkSession, path).alias("t").merge(rows.alias("r"), _same(rows, place))
    merge.whenNotMatchedInsertAll().execute()


def delete(rows: DataFrame, path: str, place: Sequence[str]) -> None:
    """Deletes the rows of the table that have the place of one of `rows`; atomic."""
    merge = DeltaTable.forPath(rows.sparkSession, path).alias("t").merge(rows.alias("r"), _same(rows, place))
    merge.whenMatchedDelete().execute()


def _same(rows: DataFrame, place: Sequence[str]) -> str:
    # Days by name: of a join alone Delta does not see that it need not open the others.
    days = [f"DATE'{row[S.DATE]}'" for row in rows.select(S.DATE).distinct().collect()]
    return " AND ".join([*(f"t.`{name}` <=> r.`{name}`" for name in place), f"t.date IN ({', '.join(days)})"])
