"""The streams: two Kafka topics into three Delta tables, with each record of a topic in the tables once.

A restart neither loses nor repeats records. The checkpoint of a stream holds the offsets of a batch before
the batch runs, so a batch that a crash interrupted runs again with the same records. Each write carries the
stream's id and the batch's number, so Delta skips the part of the batch that was already written. The id is
in the checkpoint: a stream without its checkpoint gets a new id and reads everything again.

Kafka itself holds records twice if a proxy shipped its spool again after a crash. These stay in the table:
a MERGE would read the table for each batch, and two different records with one sequence are evidence
(reconcile/gaps.py). Readers remove duplicates (trail/audit_records.py).

Why a stream ended and how to go on is explained in place of Spark's long messages. Causes are recognized by
names in the message, because Spark wraps a cause many times, also as text.
"""

from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any, Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_audit.failures import is_unreachable, reason
from spark_audit.ingest import decode
from spark_audit.ingest.topics import (
    COMMITTED,
    UNCOMMITTED,
    KafkaUnavailable,
    ends_of_topic,
    for_a_new_topic,
    kafka_stream,
    require_reachable,
    require_same_topic,
    topic_ids,
)
from spark_audit.progress import INTERVAL_MS
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables, sole_writer
from spark_audit.tables.files import AuditError

_NO_OFFSET = {None, "None", "null"}
"""A missing offset. PySpark turns Java's null into a word."""


class Progress:
    """Counts the progress of one stream, over all of its queries in this process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._last_batch = -1
        self.batches = self.records = 0
        self._end: str | None = None
        self.offsets_behind: int | None = None
        """The number of offsets that were left at the last batch. None if it is not known yet."""
        self._last_line = ""
        self.last_poll: str | None = None
        """When the stream last looked for new records, in UTC as ISO 8601. None if it has not yet."""

    def update(self, query: StreamingQuery) -> None:
        """Add the batches since the last call."""
        for batch in query.recentProgress:
            source = batch["sources"][0]
            if batch["numInputRows"] and batch["batchId"] > self._last_batch:
                self._last_batch = batch["batchId"]
                self.batches += 1
                self.records += batch["numInputRows"]
                self._end = source["endOffset"]
            self.offsets_behind = behind(source["endOffset"], source["latestOffset"], self.offsets_behind)
            self.last_poll = batch["timestamp"]

    def line(self) -> str:
        """Return how far the stream is."""
        if not self.batches and self.offsets_behind is None:
            return f"{self.name}: the first batch is running"
        return self._counted() + (
            "" if self.offsets_behind is None else f", {self.offsets_behind} offsets left"
        )

    def changed_line(self) -> str | None:
        """Return `line`, or None if it is the same as at the last call."""
        before, self._last_line = self._last_line, self.line()
        return self._last_line if self._last_line != before else None

    def summary(self) -> str:
        """Return what the stream has done at its end."""
        return f"{self._counted()}, read up to {self._end if self._end is not None else 'as before'}"

    def _counted(self) -> str:
        return f"{self.name}: {self.records} records in {self.batches} batches"


def behind(end: str | None, latest: str | None, unknown: int | None = None) -> int | None:
    """Return the number of offsets between two positions, each JSON of {"topic": {"partition": offset}}.

    There may be fewer records: compaction leaves gaps, and transaction markers take offsets. Return
    `unknown` if Spark does not report a position: for a batch that it repeats, it does not request the end of
    the topic.
    """
    if _NO_OFFSET & {end, latest}:
        return unknown
    read = dict(_partitions(end))
    return sum(max(0, offset - read.get(place, 0)) for place, offset in _partitions(latest))


def _partitions(offsets: str | None) -> Iterator[tuple[tuple[str, str], int]]:
    # PySpark 4.0 has made a dict's text of the JSON. Names of topics and numbers are the same in both.
    for topic, partitions in literal_eval(offsets or "{}").items():
        for partition, offset in partitions.items():
            yield (topic, partition), int(offset)


_DATA_LOSS = (
    "KAFKA_DATA_LOSS",
    "OffsetOutOfRange",
    "offset was changed from",
    "Some data may have been lost",
)
_OTHER_WRITER = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
)
_UNAVAILABLE = (
    "org.apache.kafka.common.errors.TimeoutException",
    "org.apache.kafka.common.errors.DisconnectException",
    "java.util.concurrent.TimeoutException",
)


@contextmanager
def explained_errors(topic: str, checkpoint: str) -> Iterator[None]:
    """Raise AuditError in place of a StreamingQueryException of a known cause."""
    try:
        yield
    except StreamingQueryException as error:
        known = explanation(str(error), topic, checkpoint)
        if known is None:
            raise
        raise known from error


def explanation(message: str, topic: str, checkpoint: str) -> AuditError | None:
    """Return the error that explains an exception's message, None if the cause is not known."""
    if any(sign in message for sign in _DATA_LOSS):
        return AuditError(
            f"topic {topic} no longer has the next offsets: retention deleted them, or it was recreated."
            " To continue with the records that are left, set failOnDataLoss=false in --kafka-options; lost"
            f" records are then reported as gaps. {for_a_new_topic(checkpoint)}"
        )
    if any(sign in message for sign in _OTHER_WRITER):
        return AuditError(
            f"another job wrote to these tables or to {checkpoint} at the same time. Nothing is lost or"
            " duplicated. Run one job at a time; this one continues where it stopped"
        )
    if any(sign in message for sign in _UNAVAILABLE):
        return KafkaUnavailable(
            f"no Kafka broker is available for topic {topic}; the next run continues from the checkpoint"
        )
    return None


CONTINUOUS_TRIGGER = "10 seconds"
RETRY_MS = 10_000
STOP_CHECK_MS = 1_000
WITHHELD_CHECK_MS = 60_000
SET_BACK = timedelta(seconds=10)
"""A stream would wait until the clock shows the time of its next batch again, for hours perhaps."""
Write = Callable[[DataFrame, int], None]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class IngestTopics:
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
    isolation: str


def ingest(
    spark: SparkSession, topics: IngestTopics, tables: Tables, report: Report, interval_ms: int = INTERVAL_MS
) -> None:
    """Read what the topics hold now, then returns. Call `report` with the progress every `interval_ms`."""
    with _ready(spark, topics, tables) as streams:
        # The audit topic first: then the log is complete up to the offsets that its decisions name.
        ends = [_Ends(spark, topics, tables, stream) for stream in streams]
        for stream, end in zip(streams, ends, strict=True):
            query = _start(spark, topics, stream, {"availableNow": True})
            with explained_errors(stream.topic, stream.checkpoint), _stopped_at_end([query]):
                while not query.awaitTermination(max(1, interval_ms // 1000)):
                    stream.progress.update(query)
                    report(stream.progress.line())
            stream.progress.update(query)
            report(stream.progress.summary())
            end.require_reached()
            end.report_withheld(report)


class _Ends:
    """The ends of a topic at one moment, with all records that are in open transactions.

    Kafka returns no record from the first one of an open transaction on, if only committed ones are read. A
    transaction of Penstock's takes milliseconds. What is withheld for longer is noted beside the checkpoint,
    and the reconciliation reports it.
    """

    def __init__(self, spark: SparkSession, topics: IngestTopics, tables: Tables, stream: Stream) -> None:
        self._spark, self._topics, self._tables, self._stream = spark, topics, tables, stream
        self._ends = self._now(UNCOMMITTED)

    def report_withheld(self, report: Report) -> None:
        """Report what cannot be read, although it was written before these ends. Then take those of now."""
        stable = self._now(self._stream.isolation)
        withheld = {
            partition: {"stable": stable.get(partition, 0), "end": end}
            for partition, end in self._ends.items()
            if stable.get(partition, 0) < end
        }
        for partition, each in withheld.items():
            report(
                f"{self._stream.name}: a transaction is open in partition {partition} of topic"
                f" {self._stream.topic}, so that no record from offset {each['stable']} on can be read; the"
                f" topic ends at {each['end']}"
            )
        delta.note_withheld(self._spark, self._tables, self._stream.name, withheld)
        self._ends = self._now(UNCOMMITTED)

    def require_reached(self) -> None:
        """Raise AuditError if the stream, which has ended, has not read up to these ends."""
        read = delta.ends_read(self._spark, self._tables, self._stream.name)
        for partition, end in self._ends.items():
            if self._stream.isolation == UNCOMMITTED and read.get(partition, end) < end:
                raise AuditError(
                    f"stream {self._stream.name} has ended at offset {read[partition]} of partition"
                    f" {partition} of topic {self._stream.topic}, which had records up to {end}: run it again"
                )

    def _now(self, isolation: str) -> dict[str, int]:
        topics = self._topics
        return ends_of_topic(self._spark, topics.bootstrap, self._stream.topic, topics.options, isolation)


class Companion(Protocol):
    """What a process does beside the streams. Both functions run in the thread that started the streams."""

    def while_reading(self, progress: Sequence[Progress]) -> bool:
        """Called each second. Returns whether the streams are to be stopped for `while_stopped`."""

    def while_stopped(self) -> None:
        """Called while no stream runs, and no other process writes to the tables."""


class Alone(Companion):
    """Does nothing beside the streams."""

    def while_reading(self, progress: Sequence[Progress]) -> bool:
        return False

    def while_stopped(self) -> None:
        """The streams end only if there is an error."""


def ingest_continuously(
    spark: SparkSession,
    topics: IngestTopics,
    tables: Tables,
    report: Report,
    interval_ms: int,
    stop_requested: Event,
    companion: Companion,
) -> None:
    """Read until `stop_requested` is set. Retries while the brokers or the storage of the tables are away.

    Raises any other error.
    """
    with _ready(spark, topics, tables) as streams:
        named = f"{topics.audit} and {topics.metadata}" if topics.metadata else topics.audit
        report(f"reading {named} every {CONTINUOUS_TRIGGER}")
        while not stop_requested.is_set():
            try:
                ends = [_Ends(spark, topics, tables, stream) for stream in streams]
                if _read_until_end(
                    spark, topics, streams, ends, report, interval_ms, stop_requested, companion
                ):
                    companion.while_stopped()
                continue
            except KafkaUnavailable as error:
                why = str(error)
            except (PySparkException, Py4JError) as error:
                if not is_unreachable(error):
                    raise
                why = reason(error)
            report(f"{why}; retrying every {RETRY_MS // 1000} seconds")
            stop_requested.wait(RETRY_MS / 1000)
    report("stopped; the next run continues from the checkpoints")


def _read_until_end(
    spark: SparkSession,
    topics: IngestTopics,
    streams: list[Stream],
    ends: list[_Ends],
    report: Report,
    interval_ms: int,
    stop_requested: Event,
    companion: Companion,
) -> bool:
    """Run all streams at once until a stop is requested, or the clock is set back.

    Return whether `companion` has requested it.
    """
    trigger = {"processingTime": CONTINUOUS_TRIGGER}
    clock = datetime.now(UTC)
    queries = list[StreamingQuery]()
    waited_ms = 0
    with _stopped_at_end(queries):
        for stream in streams:
            queries.append(_start(spark, topics, stream, trigger))
        # Short waits, because Python handles a signal only between two calls into the JVM.
        while not stop_requested.wait(STOP_CHECK_MS / 1000):
            waited_ms += STOP_CHECK_MS
            for stream, query in zip(streams, queries, strict=True):
                if not query.isActive:
                    with explained_errors(stream.topic, stream.checkpoint):
                        query.awaitTermination()
                    raise AuditError(f"the stream of topic {stream.topic} has ended without an error")
                stream.progress.update(query)
                if waited_ms % interval_ms < STOP_CHECK_MS and (line := stream.progress.changed_line()):
                    report(line)
            before, clock = clock, datetime.now(UTC)
            if before - clock > SET_BACK:
                report(f"the clock was set back by {before - clock}; the streams start again")
                return False
            if waited_ms % WITHHELD_CHECK_MS < STOP_CHECK_MS:
                for end in ends:
                    end.report_withheld(report)
            if companion.while_reading([stream.progress for stream in streams]):
                return True
    return False


@contextmanager
def _ready(spark: SparkSession, topics: IngestTopics, tables: Tables) -> Iterator[list[Stream]]:
    """Yield the streams when they can run, and locks the tables meanwhile. AuditError if they cannot."""
    require_reachable(topics.bootstrap)
    with sole_writer(spark, tables):
        streams = _streams(topics, tables)
        ids = topic_ids(spark, topics.bootstrap, [stream.topic for stream in streams], topics.options)
        for stream in streams:
            require_same_topic(spark, stream.checkpoint, stream.topic, ids[stream.topic])
        delta.create_tables(spark, tables)
        yield streams


def _streams(topics: IngestTopics, tables: Tables) -> list[Stream]:
    kinds = (
        (delta.AUDIT_STREAM, topics.audit, audit_batch(tables), UNCOMMITTED),
        (delta.METADATA_STREAM, topics.metadata, log_batch(tables), COMMITTED),
    )
    return [
        Stream(name, topic, tables.checkpoint(name), write, Progress(name), isolation)
        for name, topic, write, isolation in kinds
        # Without a metadata topic the log is Kafka's own, which kraft/log_import.py reads.
        if topic
    ]


def _start(
    spark: SparkSession, topics: IngestTopics, stream: Stream, trigger: Mapping[str, Any]
) -> StreamingQuery:
    records = kafka_stream(spark, topics.bootstrap, stream.topic, topics.options, stream.isolation)
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
    """Return a function that writes one batch of the audit topic, bad rows into `quarantine`."""

    def write(batch: DataFrame, batch_id: int) -> None:
        _write_batch(batch.transform(decode.check_audit), decode.audit_rows, tables.audit, tables, batch_id)

    return write


def log_batch(tables: Tables) -> Write:
    """Return a function that writes one batch of the metadata topic, bad rows into `quarantine`."""

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
