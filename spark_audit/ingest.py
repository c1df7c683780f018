"""The streams: two Kafka topics into three Delta tables, each record into the tables once.

How a restart neither loses nor repeats: the checkpoint of a stream holds the offsets of a batch before it
is run, so a batch cut off by a crash is run again with the same records; and each write carries the
stream's id and the batch's number, so Delta skips the half of a batch that had been written already. The
stream's id lives in the checkpoint: a checkpoint that was deleted begins a new id, and reads all again.

What is left are records that Kafka itself holds twice, because a proxy sent its spool again after a
crash. They stay in the table: appending costs the same for every record, a MERGE would read the table for
each batch, and two records of one sequence that differ are evidence (reconcile/gaps.py). Readers take them
out by (proxy_id, boot_id, sequence): spark_audit.trail.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_audit import decode, sources
from spark_audit.sources import SourceError, Tables

CONTINUOUS_TRIGGER = "10 seconds"
STOP_CHECK_S = 1
Write = Callable[[DataFrame, int], None]


@dataclass(frozen=True, slots=True)
class Topics:
    """Where to read. `options` are those of Spark's Kafka source."""

    bootstrap: str
    audit: str
    metadata: str
    options: Mapping[str, str] = field(default_factory=dict)


def ingest(spark: SparkSession, topics: Topics, tables: Tables, report: Callable[[str], None]) -> None:
    """Reads what the topics hold now, then returns."""
    sources.require_reachable(topics.bootstrap)
    sources.create_tables(spark, tables)
    # The audit first: the log is then at least as far as the decisions that name its offsets.
    for name, topic, write in _streams(spark, topics, tables):
        query = _start(spark, topics, tables, name, topic, write, {"availableNow": True})
        with _data_loss_explained(topic, tables.checkpoint(name)):
            query.awaitTermination()
        report(_told(name, query))


def ingest_continuously(
    spark: SparkSession, topics: Topics, tables: Tables, report: Callable[[str], None], stop_wanted: Event
) -> None:
    """Reads until `stop_wanted` is set, or a stream fails: its exception is raised."""
    sources.require_reachable(topics.bootstrap)
    sources.create_tables(spark, tables)
    queries = [
        _start(spark, topics, tables, name, topic, write, {"processingTime": CONTINUOUS_TRIGGER})
        for name, topic, write in _streams(spark, topics, tables)
    ]
    report(f"reading {topics.audit} and {topics.metadata} every {CONTINUOUS_TRIGGER}")
    try:
        # In short waits: a signal is handled between two calls into the JVM.
        with _data_loss_explained(f"{topics.audit} or {topics.metadata}", tables.checkpoint("")):
            while not stop_wanted.is_set() and not spark.streams.awaitAnyTermination(STOP_CHECK_S):
                pass
    finally:
        for query in queries:
            query.stop()
    report("stopped; the next run goes on from the checkpoints")


_DATA_LOSS = (
    "KAFKA_DATA_LOSS",
    "OffsetOutOfRange",
    "offset was changed from",
    "Some data may have been lost",
)


@contextmanager
def _data_loss_explained(topic: str, checkpoint: str) -> Iterator[None]:
    """Spark's long story of offsets that are not there, as what happened and how to go on."""
    try:
        yield
    except StreamingQueryException as error:
        if not any(sign in str(error) for sign in _DATA_LOSS):
            raise
        raise SourceError(
            f"topic {topic} no longer has what is to be read next: retention took it, or the topic was made"
            " anew. Read on from what is there with failOnDataLoss=false in"
            " --kafka-options (what is lost is then found as gaps); for a new topic begin new --tables, or"
            f" remove {checkpoint} and keep the old tables apart"
        ) from error


def _streams(spark: SparkSession, topics: Topics, tables: Tables) -> list[tuple[str, str, Write]]:
    return [
        (sources.AUDIT_STREAM, topics.audit, audit_batch(tables)),
        (sources.METADATA_STREAM, topics.metadata, log_batch(tables)),
    ]


def _start(
    spark: SparkSession,
    topics: Topics,
    tables: Tables,
    name: str,
    topic: str,
    write: Write,
    trigger: dict[str, Any],
) -> StreamingQuery:
    stream = sources.kafka_stream(spark, topics.bootstrap, topic, topics.options)
    writer = stream.writeStream.queryName(name).foreachBatch(write)
    return writer.option("checkpointLocation", tables.checkpoint(name)).trigger(**trigger).start()


def audit_batch(tables: Tables) -> Write:
    """Writes one batch of the audit topic: good rows into `audit`, the others into `quarantine`."""

    def write(batch: DataFrame, batch_id: int) -> None:
        _write_judged(batch.transform(decode.judge_audit), decode.audit_rows, tables.audit, tables, batch_id)

    return write


def log_batch(tables: Tables) -> Write:
    """Writes one batch of the metadata topic: good rows into `metadata_log`, the others into `quarantine`."""

    def write(batch: DataFrame, batch_id: int) -> None:
        _write_judged(
            batch.transform(decode.judge_log), decode.log_rows, tables.metadata_log, tables, batch_id
        )

    return write


def _write_judged(
    judged: DataFrame, good_rows: Callable[[DataFrame], DataFrame], path: str, tables: Tables, batch_id: int
) -> None:
    app_id = _stream_id(judged.sparkSession)
    # Two tables are written from one batch: without this each would read Kafka for itself.
    kept = judged.persist()
    try:
        sources.append_once(kept.transform(good_rows), path, app_id, batch_id)
        bad = kept.transform(decode.quarantine_rows)
        if not bad.isEmpty():
            sources.append_once(bad, tables.quarantine, app_id, batch_id)
    finally:
        kept.unpersist()


def _stream_id(spark: SparkSession) -> str:
    stream_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not stream_id:
        raise RuntimeError(
            "a batch was written outside of a stream: it could not be told from a repeated one"
        )
    return stream_id


def _told(name: str, query: StreamingQuery) -> str:
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    records = sum(progress["numInputRows"] for progress in batches)
    end = batches[-1]["sources"][0]["endOffset"] if batches else "as before"
    return f"{name}: {records} records in {len(batches)} batches, read up to {end}"
