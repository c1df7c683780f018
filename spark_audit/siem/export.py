"""Exports table `audit` to files, a topic or HTTP: what is new since the last export, or the records of days.

What is new is what Spark's checkpoint in the directory `--position` has not read: a batch that fails is
exported again as a whole, so that each record arrives at least once, with the same id each time. A record
gets the link of the record before it and the checkpoint that covers it from the rows around it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from threading import Event as Flag
from typing import Protocol

from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.ingest.topics import require_reachable, topic_ids
from spark_audit.report.history import KINDS, matches
from spark_audit.siem import mapping
from spark_audit.siem.receiver import Event, Receiver
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError

# The executors of a cluster need not have this package.
cloudpickle.register_pickle_by_value(mapping)  # type: ignore[no-untyped-call]  # not typed there

UID, DOCUMENT = "uid", "document"
_PREVIOUS, _COVER = "previous", "cover"
_SHOWN_HEX = 16
_TRIGGER = "10 seconds"
_WAIT_S = 1


class Destination(Protocol):
    """Takes rows of `uid`, `time_ms` and `document`. Returns when they have arrived."""

    def __call__(self, rows: DataFrame) -> None:
        """AuditError if they do not arrive."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records are exported, and as what. An empty list stands for all."""

    schema: str
    principals: Sequence[str]
    resources: Sequence[tuple[str, str]]
    """Each a kind (report.history.KINDS) and a name."""
    classes: Sequence[str]


def to_files(directory: str) -> Destination:
    """Append files of JSON lines to a directory or URI. A file appears when it is complete."""

    def write(rows: DataFrame) -> None:
        documents = rows.select(DOCUMENT).persist()
        # Spark writes a file for no rows too.
        if not documents.isEmpty():
            documents.write.mode("append").text(directory)
        documents.unpersist()

    return write


def to_topic(spark: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str]) -> Destination:
    """Send them from the executors, and wait for all replicas in sync. The key of a record is its `uid`.

    `options` are those of `kafka_options`. AuditError if the topic does not exist.
    """
    require_reachable(bootstrap)
    topic_ids(spark, bootstrap, [topic], options)
    # Whatever the file says: with other acks a record that was counted as exported may get lost.
    settings = {**options, "kafka.acks": "all", "kafka.bootstrap.servers": bootstrap, "topic": topic}

    def write(rows: DataFrame) -> None:
        records = rows.select(F.col(UID).alias("key"), F.col(DOCUMENT).alias("value"))
        records.write.format("kafka").options(**settings).save()

    return write


def to_receiver(receiver: Receiver) -> Destination:
    """Send them from the driver, which has the token."""

    def write(rows: DataFrame) -> None:
        receiver.send(Event(*row) for row in rows.toLocalIterator())

    return write


def export_days(
    spark: SparkSession, tables: Tables, days: Sequence[str], selection: Selection, destination: Destination
) -> None:
    """Export the records of days (YYYY-MM-DD)."""
    audit = delta.read_table(spark, tables.audit, S.AUDIT, delta.version(spark, tables.audit))
    destination(events(audit.where(F.col(S.DATE).isin(*days)), audit, selection))


def export_new(
    spark: SparkSession,
    tables: Tables,
    position: str,
    selection: Selection,
    destination: Destination,
    stop_requested: Flag | None = None,
    trigger: str = _TRIGGER,
) -> int:
    """Export what the table has and directory `position` does not count as exported.

    Return the number of records that were read. With `stop_requested` it looks again at each
    `trigger`, until that is set.
    """
    failed, counts = list[AuditError](), list[int]()

    def write(batch: DataFrame, _number: int) -> None:
        rows = batch.persist()
        try:
            audit = delta.read_table(spark, tables.audit, S.AUDIT)
            destination(events(delta.with_columns(rows, S.AUDIT), audit, selection))
            counts.append(rows.count())
        except AuditError as error:
            # Spark would make a text of it.
            failed.append(error)
            raise
        finally:
            rows.unpersist()

    delta.version(spark, tables.audit)
    # Rows go away when days expire, and move when they are compacted: neither is new.
    source = spark.readStream.format("delta").option("skipChangeCommits", "true").load(tables.audit)
    writer = source.writeStream.foreachBatch(write).option("checkpointLocation", position).queryName("export")
    once = stop_requested is None
    query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=trigger)).start()
    try:
        while not query.awaitTermination(_WAIT_S):
            if stop_requested is not None and stop_requested.is_set():
                break
    except StreamingQueryException:
        if failed:
            raise failed[0] from None
        raise
    finally:
        query.stop()
    return sum(counts)


def events(rows: DataFrame, audit: DataFrame, selection: Selection) -> DataFrame:
    """Return `uid`, `time_ms` and `document` of the selected rows, in the order of the topic.

    `audit` is the table that they are of.
    """
    linked = _linked(rows.where(_selects(selection)), audit)
    line, of_columns = F.concat(S.LINE, F.lit("}")), F.struct(*S.DATA.names)
    body = F.coalesce(line, F.to_json(F.struct(of_columns.alias("data"))))
    record = F.coalesce(F.to_json(F.from_json(line, S.ENVELOPE)["data"]), F.to_json(of_columns))
    digest = _hex(F.col(S.BODY_SHA256))
    uid = F.concat_ws("/", *S.RECORD_KEY, F.substring(digest, 1, _SHOWN_HEX))
    # Not deterministic for Spark, so that it is not evaluated again in the condition below.
    export = F.udf(mapping.exported_row, "string", useArrow=False).asNondeterministic()
    schema, classes = F.lit(selection.schema), F.lit(",".join(selection.classes))
    document = export(
        schema, classes, body, record, uid, _hex(F.col(S.CHAIN)), F.col(_PREVIOUS), F.col(_COVER), digest
    )
    ordered = linked.orderBy(S.KAFKA_PARTITION, S.KAFKA_OFFSET)
    made = ordered.select(uid.alias(UID), S.TIME_MS, document.alias(DOCUMENT))
    return made.where(F.col(DOCUMENT).isNotNull())


def _selects(selection: Selection) -> Column:
    """Return whether a row is selected by principal and resource. Checkpoints always are."""
    wanted = F.lit(True)
    if selection.principals:
        wanted = wanted & F.coalesce(F.col(S.PRINCIPAL).isin(*selection.principals), F.lit(False))
    if selection.resources:
        wanted = wanted & reduce(or_, (_is_about(kind, name) for kind, name in selection.resources))
    return wanted | (F.col(S.EVENT) == "checkpoint")


def _is_about(kind: str, name: str) -> Column:
    named = (F.col(S.RESOURCE_NAME) == name) & F.col(S.RESOURCE_TYPE).isin(*KINDS[kind])
    objects = F.exists(S.OBJECTS, lambda each: matches(each, kind, name))
    return F.coalesce(named, F.lit(False)) | F.coalesce(objects, F.lit(False))


def _linked(rows: DataFrame, audit: DataFrame) -> DataFrame:
    """Add the link before each row, and the sequence of the first checkpoint that covers it."""
    [(first, last)] = rows.agg(F.date_sub(F.min(S.DATE), 1), F.date_add(F.max(S.DATE), 1)).collect()
    # A process signs each minute. Without rows the bounds are null, and so nothing is near.
    near = audit.where(F.col(S.DATE).between(F.lit(first), F.lit(last)))
    after = (F.col(S.SEQUENCE) + 1).alias(S.SEQUENCE)
    shifted = near.select(*S.BOOT_KEY, after, _hex(F.col(S.CHAIN)).alias(_PREVIOUS))
    before = shifted.groupBy(*S.RECORD_KEY).agg(F.min(_PREVIOUS).alias(_PREVIOUS))
    of_boot = near.where(F.col(S.EVENT) == "checkpoint").groupBy(*S.BOOT_KEY)
    signed = of_boot.agg(F.sort_array(F.collect_set(S.SEQUENCE)).alias("signed"))
    later = F.filter("signed", lambda sequence: sequence > F.col(S.SEQUENCE))
    joined = rows.join(before, list(S.RECORD_KEY), "left").join(signed, list(S.BOOT_KEY), "left")
    return joined.withColumn(_COVER, F.get(later, 0)).drop("signed")


def _hex(value: Column) -> Column:
    return F.lower(F.hex(value))
