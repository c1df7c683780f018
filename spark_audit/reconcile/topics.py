"""Compares the tables with the topics that ingest has read them from, as far as the topics have the records.

Takes the tables, and the records of both topics as ingest decodes them now. The command line reads the topics
(`penstock audit verify --bootstrap`). So a row that was edited, inserted, deleted or repeated in a table is
found even by somebody who knows the chain key, unless that person can write to the topics as well.

A record may be gone from its topic: retention deletes the oldest records of the audit topic, and compaction
removes a metadata record once a later record has its key (docs/decisions/0005). Penstock writes no
tombstones.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_audit import schema as S
from spark_audit.reconcile.finding import fault, findings, register, sample, sentence, with_first_fault
from spark_audit.tables.expired import IS_EXPIRED, expired_offsets, expired_sequences, with_expired
from spark_audit.tables.files import AuditError
from spark_audit.trail.audit_records import of_partition
from spark_audit.trail.metadata_log import of_topic, placed

register(
    """
topics.altered (critical): A record is in the table otherwise than in the topic.
    Find out who can write to the tables, and ingest them again.
topics.added (critical): A record is in the table, but not in the topic.
    Find out who can write to the tables, and ingest them again.
topics.removed (critical): A record is in the topic, but not in the table.
    Find out who can write to the tables, and ingest them again.
topics.repeated (critical): A record of the topic is in the table twice.
    Find out who can write to the tables, and ingest them again.
"""
)

KIND = "kind"
ALTERED, ADDED, REMOVED, REPEATED = "altered", "added", "removed", "repeated"
_SAID = {
    ALTERED: "are not as the topic has them: they were edited",
    ADDED: "are not in the topic: they were inserted or moved",
    REMOVED: "are in the topic, but not in the table: they were deleted",
    REPEATED: "are in the table more than once",
}


class ComparedTopic(NamedTuple):
    """What a topic has now, as ingest decodes it."""

    name: str
    records: DataFrame
    """As rows of table `audit` or `metadata_log`."""
    unreadable: DataFrame
    """As rows of table `quarantine`."""
    ends: Mapping[str, int]
    """Partition -> the offset after the last record that ingest has read."""


def require_positions(root: str, topic: ComparedTopic) -> None:
    """Raise AuditError if the tables in `root` do not say what of the topic was read, and it has records."""
    if not topic.ends and not (topic.records.isEmpty() and topic.unreadable.isEmpty()):
        raise AuditError(
            f"{root}/_checkpoints does not have what ingest has read of topic {topic.name}, so nothing shows"
            " what is missing from the tables: restore it, or ingest into new tables"
        )


def differences_of_audit(
    audit: DataFrame, quarantine: DataFrame, expired: DataFrame, topic: ComparedTopic
) -> DataFrame:
    """Return the differences between the audit topic and its rows in both tables, as findings.

    `expired` is table `expired`: the records that were deleted on purpose.
    """
    return _findings("audit", audit_places(audit, expired, topic)).unionByName(
        _findings("quarantine", quarantine_places(quarantine, expired, topic))
    )


def differences_of_log(
    metadata_log: DataFrame, quarantine: DataFrame, expired: DataFrame, topic: ComparedTopic
) -> DataFrame:
    """Return the same for the metadata topic."""
    return _findings("metadata_log", log_places(metadata_log, topic)).unionByName(
        _findings("quarantine", quarantine_places(quarantine, expired, topic, compacted=True))
    )


def audit_places(audit: DataFrame, expired: DataFrame, topic: ComparedTopic) -> DataFrame:
    """Return one row per place at which table `audit` and the topic differ: PLACE, date, kind."""
    known = with_expired(topic.records, expired_sequences(expired), S.BOOT_KEY, S.SEQUENCE, S.SEQUENCE)
    return _differences(_retained(audit, topic), known, topic)


def quarantine_places(
    quarantine: DataFrame, expired: DataFrame, topic: ComparedTopic, compacted: bool = False
) -> DataFrame:
    """Return the same for the rows of table `quarantine` that are of this topic."""
    rows = quarantine.where(F.col(S.KAFKA_TOPIC) == topic.name)
    present = _not_compacted(rows, topic) if compacted else _retained(rows, topic)
    gone = expired_offsets(expired)
    known = with_expired(topic.unreadable, gone, S.PARTITION, S.KAFKA_OFFSET, S.KAFKA_OFFSET)
    return _differences(present, known, topic)


def log_places(metadata_log: DataFrame, topic: ComparedTopic) -> DataFrame:
    """Return the same for the rows of table `metadata_log`."""
    present = _not_compacted(placed(of_topic(metadata_log), topic.name), topic)
    known = placed(topic.records, topic.name).withColumn(IS_EXPIRED, F.lit(False))
    return _differences(present, known, topic)


def _findings(table: str, differences: DataFrame) -> DataFrame:
    """Return one finding per day, partition and kind of difference."""
    grouped = differences.groupBy(*S.PARTITION, S.DATE, KIND).agg(
        F.count(F.lit(1)).alias("records"), sample(S.KAFKA_OFFSET).alias("kafka_offsets")
    )
    where = sentence(
        "table {table}: {records} record(s) of topic {kafka_topic}, partition {kafka_partition}, "
    )
    which = sentence(" (offsets {kafka_offsets})", kafka_offsets=F.array_join("kafka_offsets", ", "))
    faults = [
        fault(F.col(KIND) == kind, f"topics.{kind}", where, F.lit(said), which)
        for kind, said in _SAID.items()
    ]
    return findings(
        with_first_fault(grouped.withColumn("table", F.lit(table)), faults),
        evidence=["table", *S.PARTITION, "records", "kafka_offsets"],
    )


def _not_compacted(table: DataFrame, topic: ComparedTopic) -> DataFrame:
    """Return the rows of the table that no later record with their key has replaced in the topic."""
    keys = [
        rows.select(F.col(key).cast("string").alias("its_key"), F.col(offset).alias(S.KAFKA_OFFSET))
        for rows, key, offset in (
            (topic.records, S.ENTITY, S.LOG_OFFSET),
            (topic.unreadable, S.RAW_KEY, S.KAFKA_OFFSET),
        )
    ]
    there = keys[0].unionByName(keys[1])
    newest = there.groupBy("its_key").agg(F.max(S.KAFKA_OFFSET).alias("newest"))
    own_key = F.col(S.RAW_KEY if S.RAW_KEY in table.columns else S.ENTITY).cast("string")
    replaced = table.withColumn("its_key", own_key).join(newest, "its_key")
    gone = replaced.where(F.col(S.KAFKA_OFFSET) < F.col("newest")).join(there, S.KAFKA_OFFSET, "left_anti")
    return table.join(gone.select(S.KAFKA_OFFSET), S.KAFKA_OFFSET, "left_anti")


def _retained(table: DataFrame, topic: ComparedTopic) -> DataFrame:
    """Return the rows of the table whose records retention cannot have deleted from the topic."""
    there = topic.records.select(*S.PLACE).unionByName(topic.unreadable.select(*S.PLACE))
    first = there.groupBy(*S.PARTITION).agg(F.min(S.KAFKA_OFFSET).alias("begin"))
    placed = table.join(F.broadcast(first), list(S.PARTITION), "left")
    # A partition without any record may have lost all that ingest has read.
    begin = F.coalesce("begin", of_partition(topic.ends, 0))
    return placed.where(F.col(S.KAFKA_OFFSET) >= begin).drop("begin")


def _differences(table: DataFrame, known: DataFrame, topic: ComparedTopic) -> DataFrame:
    """Compare by place. The table need not have the records that are IS_EXPIRED."""
    names = [name for name in table.columns if name in known.columns]
    # An older release of ingest did not read some columns.
    later = {*S.ADDED_LATER, *(name for name, _ in S.EVIDENCE_OF_LOG)}
    older = [name for name in names if name not in later]
    in_table = table.groupBy(*S.PLACE).agg(
        F.count(F.lit(1)).alias("rows"),
        F.first(_row(table, names)).alias("in_table"),
        F.min(S.DATE).alias("table_date"),
    )
    in_topic = known.select(
        *S.PLACE,
        IS_EXPIRED,
        S.DATE,
        _row(known, names).alias("in_topic"),
        _row(known, older).alias("older"),
    )
    both = in_table.join(in_topic, list(S.PLACE), "full")
    same = F.col("in_table").isin(F.col("in_topic"), F.col("older"))
    was_read = F.col(S.KAFKA_OFFSET) < of_partition(topic.ends, 0)
    kind = (
        F.when(F.col("in_topic").isNull(), ADDED)
        .when(F.col("in_table").isNull(), F.when(was_read & ~F.col(IS_EXPIRED), REMOVED))
        .when(~same, ALTERED)
        .when(F.col("rows") > 1, REPEATED)
    )
    day = F.coalesce("table_date", S.DATE).alias(S.DATE)
    return both.select(*S.PLACE, day, kind.alias(KIND)).where(F.col(KIND).isNotNull())


def _row(rows: DataFrame, names: Sequence[str]) -> Column:
    """Return the row as text. Maps cannot be compared, and JSON has moments in ms only."""
    moments = {field.name for field in rows.schema if isinstance(field.dataType, T.TimestampType)}
    return F.to_json(
        F.struct(*(F.unix_micros(name).alias(name) if name in moments else F.col(name) for name in names))
    )
