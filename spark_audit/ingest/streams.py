"""The streams: two Kafka topics into three Delta tables, with each record of a topic in the tables once.

A restart neither loses nor repeats records. The checkpoint of a stream holds the offsets of a batch before
the batch runs, so a batch that a crash interrupted runs again with the same records. Each write carries the
stream's id and the batch's number, so Delta skips the part of the batch that was already written. The id is
in the checkpoint: a stream without its checkpoint gets a new id and reads everything again.

Kafka itself holds records twice if a proxy shipped its spool again after a crash. These stay in the table:
a MERGE would read the table for each batch, and two different records with one sequence are evidence
(reconcile/gaps.py). Readers remove duplicates (trail/deduplicate.py).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_audit.ingest import decode
from spark_audit.ingest.progress import Progress
from spark_audit.ingest.stream_errors import KafkaUnavailable, explained_errors
from spark_audit.ingest.topics import kafka_stream, require_reachable, require_same_topic, topic_ids
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.writer_lock import sole_writer

CONTINUOUS_TRIGGER = "10 seconds"
INTERVAL_MS = 10_000
RETRY_MS = 10_000
STOP_CHECK_MS = 1_000
Write = Callable[[DataFrame, int], None]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics to read. `options` are those of Spark's Kafka source."""

    bootstrap: str
    audit: str
    metadata: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    """One topic that is read into the tables."""

    name: str
    topic: str
    checkpoint: str
    write: Write
    progress: Progress


def ingest(
    spark: SparkSession, topics: Topics, tables: Tables, report: Report, interval_ms: int = INTERVAL_MS
) -> None:
    """Reads what the topics hold now, then returns. Calls `report` with the progress every `interval_ms`."""
    with _ready(spark, topics, tables) as streams:
        # The audit topic first: then the log is complete up to the offsets that its decisions name.
        for stream in streams:
            query = _start(spark, topics, stream, {"availableNow": True})
            with explained_errors(stream.topic, stream.checkpoint), _stopped_at_end([query]):
                while not query.awaitTermination(max(1, interval_ms // 1000)):
                    stream.progress.update(query)
                    report(stream.progress.line())
            stream.progress.update(query)
            report(stream.progress.summary())


def ingest_continuously(
    spark: SparkSession,
    topics: Topics,
    tables: Tables,
    report: Report,
    interval_ms: int,
    stop_requested: Event,
) -> None:
    """Reads until `stop_requested` is set. Retries if no broker is available; raises any other error."""
    with _ready(spark, topics, tables) as streams:
        report(f"reading {topics.audit} and {topics.metadata} every {CONTINUOUS_TRIGGER}")
        while not stop_requested.is_set():
            try:
                _read_until_end(spark, topics, streams, report, interval_ms, stop_requested)
            except KafkaUnavailable as unavailable:
                report(f"{unavailable}; retrying every {RETRY_MS // 1000} seconds")
                stop_requested.wait(RETRY_MS / 1000)
    report("stopped; the next run continues from the checkpoints")


def _read_until_end(
    spark: SparkSession,
    topics: Topics,
    streams: list[Stream],
    report: Report,
    interval_ms: int,
    stop_requested: Event,
) -> None:
    """Runs all streams at once, until one ends or a stop is requested."""
    trigger = {"processingTime": CONTINUOUS_TRIGGER}
    queries = [_start(spark, topics, stream, trigger) for stream in streams]
    waited_ms = 0
    with _stopped_at_end(queries):
        # Short waits, because Python handles a signal only between two calls into the JVM.
        while not stop_requested.wait(STOP_CHECK_MS / 1000):
            waited_ms += STOP_CHECK_MS
            for stream, query in zip(streams, queries, strict=True):
                if not query.isActive:
                    with explained_errors(stream.topic, stream.checkpoint):
                        query.awaitTermination()
                    return
                stream.progress.update(query)
                if waited_ms % interval_ms < STOP_CHECK_MS and (line := stream.progress.changed_line()):
                    report(line)


@contextmanager
def _ready(spark: SparkSession, topics: Topics, tables: Tables) -> Iterator[list[Stream]]:
    """Yields the streams when they can run, and locks the tables meanwhile. AuditError if they cannot."""
    require_reachable(topics.bootstrap)
    with sole_writer(spark, tables):
        streams = _streams(topics, tables)
        ids = topic_ids(spark, topics.bootstrap, [stream.topic for stream in streams], topics.options)
        for stream in streams:
            require_same_topic(spark, stream.checkpoint, stream.topic, ids[stream.topic])
        delta.create_tables(spark, tables)
        yield streams


def _streams(topics: Topics, tables: Tables) -> list[Stream]:
    kinds = (
        (delta.AUDIT_STREAM, topics.audit, audit_batch(tables)),
        (delta.METADATA_STREAM, topics.metadata, log_batch(tables)),
    )
    return [
        Stream(name, topic, tables.checkpoint(name), write, Progress(name))
        for name, topic, write in kinds
        # Without a metadata topic the log is Kafka's own, which kraft/log_import.py reads.
        if topic
    ]


def _start(spark: SparkSession, topics: Topics, stream: Stream, trigger: Mapping[str, Any]) -> StreamingQuery:
    records = kafka_stream(spark, topics.bootstrap, stream.topic, topics.options)
    writer = records.writeStream.queryName(stream.name).foreachBatch(stream.write)
    return writer.option("checkpointLocation", stream.checkpoint).trigger(**trigger).start()


@contextmanager
def _stopped_at_end(queries: list[StreamingQuery]) -> Iterator[None]:
    try:
        yield
    finally:
        for query in queries:
            query.stop()


def audit_batch(tables: Tables) -> Write:
    """Returns a function that writes one batch of the audit topic, bad rows into `quarantine`."""

    def write(batch: DataFrame, batch_id: int) -> None:
        _write_batch(batch.transform(decode.check_audit), decode.audit_rows, tables.audit, tables, batch_id)

    return write


def log_batch(tables: Tables) -> Write:
    """Returns a function that writes one batch of the metadata topic, bad rows into `quarantine`."""

    def write(batch: DataFrame, batch_id: int) -> None:
        _write_batch(
            batch.transform(decode.check_log), decode.log_rows, tables.metadata_log, tables, batch_id
        )

    return write


def _write_batch(
    checked: DataFrame, good_rows: Callable[[DataFrame], DataFrame], path: str, tables: Tables, batch_id: int
) -> None:
    app_id = _stream_id(checked.sparkSession)
    # Two tables are written from one batch. Without this, each write would read Kafka again.
    rows = checked.persist()
    try:
        delta.append_once(rows.transform(good_rows), path, app_id, batch_id)
        bad = rows.transform(decode.quarantine_rows)
        if not bad.isEmpty():
            delta.append_once(bad, tables.quarantine, app_id, batch_id)
    finally:
        rows.unpersist()


def _stream_id(spark: SparkSession) -> str:
    stream_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not stream_id:
        raise RuntimeError(
            "a batch was written outside a stream, so a repeated batch could not be recognized"
        )
    return stream_id
