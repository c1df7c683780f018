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

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_audit.ingest import decode
from spark_audit.ingest.progress import Progress
from spark_audit.ingest.stream_errors import KafkaAway, explained
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
    """Where to read. `options` are those of Spark's Kafka source."""

    bootstrap: str
    audit: str
    metadata: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    """One topic on its way into the tables."""

    name: str
    topic: str
    checkpoint: str
    write: Write
    progress: Progress


def ingest(
    spark: SparkSession, topics: Topics, tables: Tables, report: Report, interval_ms: int = INTERVAL_MS
) -> None:
    """Reads what the topics hold now, then returns. `report` hears how far it is, at that interval."""
    with _ready(spark, topics, tables) as streams:
        # The audit first: the log is then at least as far as the decisions that name its offsets.
        for stream in streams:
            query = _start(spark, topics, stream, {"availableNow": True})
            with explained(stream.topic, stream.checkpoint), _stopped_at_last([query]):
                while not query.awaitTermination(max(1, interval_ms // 1000)):
                    stream.progress.hear(query)
                    report(stream.progress.line())
            stream.progress.hear(query)
            report(stream.progress.end())


def ingest_continuously(
    spark: SparkSession,
    topics: Topics,
    tables: Tables,
    report: Report,
    interval_ms: int,
    stop_wanted: Event,
) -> None:
    """Reads until `stop_wanted` is set; what ends a stream is raised, save that no broker answers."""
    with _ready(spark, topics, tables) as streams:
        report(f"reading {topics.audit} and {topics.metadata} every {CONTINUOUS_TRIGGER}")
        while not stop_wanted.is_set():
            try:
                _read_on(spark, topics, streams, report, interval_ms, stop_wanted)
            except KafkaAway as away:
                report(f"{away}; it is tried again every {RETRY_MS // 1000} seconds")
                stop_wanted.wait(RETRY_MS / 1000)
    report("stopped; the next run goes on from the checkpoints")


def _read_on(
    spark: SparkSession,
    topics: Topics,
    streams: list[Stream],
    report: Report,
    interval_ms: int,
    stop_wanted: Event,
) -> None:
    """All streams side by side, until one ends or the stop is wanted."""
    trigger = {"processingTime": CONTINUOUS_TRIGGER}
    queries = [_start(spark, topics, stream, trigger) for stream in streams]
    waited_ms = 0
    with _stopped_at_last(queries):
        # In short waits: a signal is handled between two calls into the JVM.
        while not stop_wanted.wait(STOP_CHECK_MS / 1000):
            waited_ms += STOP_CHECK_MS
            for stream, query in zip(streams, queries, strict=True):
                if not query.isActive:
                    with explained(stream.topic, stream.checkpoint):
                        query.awaitTermination()
                    return
                stream.progress.hear(query)
                if waited_ms % interval_ms < STOP_CHECK_MS and (news := stream.progress.news()):
                    report(news)


@contextmanager
def _ready(spark: SparkSession, topics: Topics, tables: Tables) -> Iterator[list[Stream]]:
    """The streams, once nothing stands in their way; nobody else writes these tables meanwhile."""
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
        # Without one the log is Kafka's own, which kraft_import reads.
        if topic
    ]


def _start(spark: SparkSession, topics: Topics, stream: Stream, trigger: Mapping[str, Any]) -> StreamingQuery:
    records = kafka_stream(spark, topics.bootstrap, stream.topic, topics.options)
    writer = records.writeStream.queryName(stream.name).foreachBatch(stream.write)
    return writer.option("checkpointLocation", stream.checkpoint).trigger(**trigger).start()


@contextmanager
def _stopped_at_last(queries: list[StreamingQuery]) -> Iterator[None]:
    try:
        yield
    finally:
        for query in queries:
            query.stop()


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
        delta.append_once(kept.transform(good_rows), path, app_id, batch_id)
        bad = kept.transform(decode.quarantine_rows)
        if not bad.isEmpty():
            delta.append_once(bad, tables.quarantine, app_id, batch_id)
    finally:
        kept.unpersist()


def _stream_id(spark: SparkSession) -> str:
    stream_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not stream_id:
        raise RuntimeError(
            "a batch was written outside of a stream: it could not be told from a repeated one"
        )
    return stream_id
