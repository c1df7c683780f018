"""Kafka: a client's properties file, reachable brokers, topic ids, the records of a topic as a stream.

Used by the command line and by streams.py. Of the tables it knows only the path of a checkpoint.
"""

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from spark_audit.tables import files
from spark_audit.tables.files import AuditError, Java

_REACH_TIMEOUT_S = 5.0
LAST_PORT = 65_535
METADATA_TOPIC = "__penstock_metadata"
"""By default."""
_SOON = {"default.api.timeout.ms": "10000", "request.timeout.ms": "10000"}
"""Kafka's own timeout is a minute."""
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
"""Kafka's isolation levels. No process of Penstock writes the audit topic in transactions, so uncommitted
records are read too: else a transaction that somebody leaves open would hide all records after it."""
_ISOLATION = "kafka.isolation.level"
MAX_OFFSETS_PER_TRIGGER = 200_000
"""Limits a batch, which is held in memory and on disk until both of its tables are written."""


class KafkaUnavailable(AuditError):
    """Kafka does not respond, or not as expected. The job can be repeated."""


def kafka_options(path: str | None) -> dict[str, str]:
    """Return the options of Spark's source in a Kafka client's properties file, or Spark's own."""
    if path is None:
        return {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise AuditError(f"--kafka-options {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AuditError(f"--kafka-options {path}: not UTF-8 text") from error
    return dict(_option(path, number, line) for number, line in enumerate(lines, 1) if _is_option(line))


_SPARK_KAFKA_OPTIONS = (
    "startingOffsets",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)


def _is_option(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _option(path: str, number: int, line: str) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    key = key.strip()
    if not equals or not key:
        raise AuditError(f"--kafka-options {path}, line {number}: not of the form key=value")
    unchanged = key in _SPARK_KAFKA_OPTIONS or key.startswith("kafka.")
    return (key if unchanged else f"kafka.{key}"), value.strip()


def require_reachable(bootstrap: str) -> None:
    """Raise AuditError if no broker is reachable. Kafka's own client needs a minute to find out."""
    failed = []
    for address in bootstrap.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not colon or not port.isdecimal() or int(port) > LAST_PORT:
            raise AuditError(f"--bootstrap {address!r} is not HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_TIMEOUT_S).close()
        except (OSError, UnicodeError) as error:
            failed.append(f"{address}: {error}")
        else:
            return
    raise AuditError(f"no Kafka broker is reachable at {'; '.join(failed)}")


def kafka_stream(
    spark: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str], isolation: str
) -> DataFrame:
    """Return the records of a topic from its beginning, with key and value as bytes."""
    reader: DataStreamReader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        # If retention deletes records before they are read, the job must stop.
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", str(MAX_OFFSETS_PER_TRIGGER))
    )
    for name, value in ({**options, _ISOLATION: isolation}).items():
        reader = reader.option(name, value)
    return reader.load()


def kafka_records(
    spark: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str], isolation: str
) -> DataFrame:
    """Return the records that a topic has now, as `kafka_stream` does."""
    settings = {name: value for name, value in options.items() if name.startswith("kafka.")}
    own = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}
    own |= settings | {_ISOLATION: isolation}
    return spark.read.format("kafka").options(**own).load()


@contextmanager
def _admin(spark: SparkSession, bootstrap: str, options: Mapping[str, str]) -> Iterator[tuple[Java, Java]]:
    """Yield a Kafka client for administration, and the JVM. KafkaUnavailable in place of Kafka's errors."""
    # Spark's source cannot describe a topic, but the client that it uses can.
    jvm: Java = spark.sparkContext._jvm
    prefix = "kafka."
    settings = {key.removeprefix(prefix): text for key, text in options.items() if key.startswith(prefix)}
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(
            jvm.java.util.HashMap(_SOON | settings | {"bootstrap.servers": bootstrap})
        )
        try:
            yield admin, jvm
        finally:
            admin.close()
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        raise KafkaUnavailable(f"Kafka at {bootstrap}: {cause.getMessage()}") from error


def topic_ids(
    spark: SparkSession, bootstrap: str, names: Sequence[str], options: Mapping[str, str]
) -> dict[str, str]:
    """Return name -> id (KIP-516). A recreated topic has a new id. AuditError for a missing topic."""
    with _admin(spark, bootstrap, options) as (admin, jvm):
        described = admin.describeTopics(jvm.java.util.ArrayList(list(names))).topicNameValues()
        return {name: _topic_id(name, described.get(name)) for name in names}


def ends_of_topic(
    spark: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str], isolation: str
) -> dict[str, int]:
    """Return partition -> the offset after the last record: of the last committed one, or of any."""
    with _admin(spark, bootstrap, options) as (admin, jvm):
        described = admin.describeTopics(jvm.java.util.ArrayList([topic])).allTopicNames().get().get(topic)
        latest = jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
        places = {
            jvm.org.apache.kafka.common.TopicPartition(topic, each.partition()): latest
            for each in described.partitions()
        }
        level = getattr(jvm.org.apache.kafka.common.IsolationLevel, isolation.upper())
        settings = jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(level)
        found = admin.listOffsets(jvm.java.util.HashMap(places), settings).all().get()
        return {str(place.partition()): int(end.offset()) for place, end in found.items()}


def _topic_id(name: str, future: Java) -> str:
    try:
        return str(future.get().topicId())
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        raise AuditError(f"topic {name}: {cause.getMessage()}") from error


def require_same_topic(spark: SparkSession, checkpoint: str, topic: str, topic_id: str) -> None:
    """Raise AuditError if a checkpoint was created for another topic: its offsets would be wrong.

    The topic's name and id are stored beside the offsets; the first run writes them.
    """
    note = f"{checkpoint}/topic.json"
    before = _read_note(spark, note)
    if before is None:
        files.write_text(spark, note, json.dumps({"topic": topic, "topic_id": topic_id}) + "\n")
    elif before.get("topic") != topic:
        raise AuditError(f"{checkpoint} is for topic {before.get('topic')}, not for {topic}")
    elif before.get("topic_id") != topic_id:
        raise AuditError(
            f"topic {topic} was deleted and recreated: its id is {topic_id}, and was"
            f" {before.get('topic_id')}. {for_a_new_topic(checkpoint)}"
        )


def topic_of(spark: SparkSession, checkpoint: str) -> str | None:
    """Return the topic that a checkpoint was created for, None if there is none yet."""
    return (_read_note(spark, f"{checkpoint}/topic.json") or {}).get("topic")


def for_a_new_topic(checkpoint: str) -> str:
    """Return the advice for a recreated topic."""
    return (
        f"For a new topic start with new --tables, or delete {checkpoint} and keep a copy of the old tables"
    )


def _read_note(spark: SparkSession, note: str) -> dict[str, str] | None:
    """Return None also for an incomplete file, of a process that was killed before its first batch."""
    try:
        content: dict[str, str] = json.loads(files.read_text(spark, note))
    except (FileNotFoundError, ValueError):
        return None
    return content
