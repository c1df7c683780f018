"""The topics: a client's properties file, who answers, which topic it is, its records as a stream.

Fed by the command line and by ingest. Knows nothing of tables, save where a checkpoint lies.
"""

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from spark_audit.tables import files
from spark_audit.tables.files import AuditError, Java

_REACH_TIMEOUT_S = 5.0
LAST_PORT = 65_535
MAX_OFFSETS_PER_TRIGGER = 200_000
"""Without it all of a topic is one batch, kept in memory and on disk until both of its tables are written."""


def kafka_options(path: str | None) -> dict[str, str]:
    """A Kafka client's properties file as options of Spark's source, whose own may stand in it too."""
    if path is None:
        return {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise AuditError(f"--kafka-options {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AuditError(f"--kafka-options {path}: not UTF-8 text") from error
    return dict(_option(path, number, line) for number, line in enumerate(lines, 1) if _says_something(line))


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


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _option(path: str, number: int, line: str) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    key = key.strip()
    if not equals or not key:
        raise AuditError(f"--kafka-options {path}, line {number}: not of the form key=value")
    as_it_is = key in _SPARK_KAFKA_OPTIONS or key.startswith("kafka.")
    return (key if as_it_is else f"kafka.{key}"), value.strip()


def require_reachable(bootstrap: str) -> None:
    """Kafka's own client tries for a minute before it says that nobody is there."""
    refused = []
    for address in bootstrap.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not colon or not port.isdecimal() or int(port) > LAST_PORT:
            raise AuditError(f"--bootstrap {address!r} is not HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_TIMEOUT_S).close()
        except (OSError, UnicodeError) as error:
            refused.append(f"{address}: {error}")
        else:
            return
    raise AuditError(f"no Kafka broker answers at {'; '.join(refused)}")


def kafka_stream(spark: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str]) -> DataFrame:
    """The committed records of a topic from its beginning, key and value as bytes."""
    reader: DataStreamReader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        # A transaction the controller did not commit never happened.
        .option("kafka.isolation.level", "read_committed")
        # Records that retention took before we read them must stop the job, not pass unseen.
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", str(MAX_OFFSETS_PER_TRIGGER))
    )
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def topic_ids(
    spark: SparkSession, bootstrap: str, names: Sequence[str], options: Mapping[str, str]
) -> dict[str, str]:
    """Name -> id (KIP-516), which a topic that was made anew has not kept. AuditError for one not there."""
    # Spark's source has no way to ask; the client that it brings along has.
    jvm: Java = spark.sparkContext._jvm
    prefix = "kafka."
    settings = {key.removeprefix(prefix): text for key, text in options.items() if key.startswith(prefix)}
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(
            jvm.java.util.HashMap(settings | {"bootstrap.servers": bootstrap})
        )
        try:
            asked = admin.describeTopics(jvm.java.util.ArrayList(list(names))).topicNameValues()
            return {name: _topic_id(name, asked.get(name)) for name in names}
        finally:
            admin.close()
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        raise AuditError(f"Kafka at {bootstrap}: {cause.getMessage()}") from error


def _topic_id(name: str, answer: Java) -> str:
    try:
        return str(answer.get().topicId())
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        raise AuditError(f"topic {name}: {cause.getMessage()}") from error


def require_same_topic(spark: SparkSession, checkpoint: str, topic: str, topic_id: str) -> None:
    """That a checkpoint goes on with the topic it was begun with: offsets of another mean nothing in it.

    Which topic that is stands beside the offsets, and is written down when there is nothing yet.
    """
    note = f"{checkpoint}/topic.json"
    before = _noted(spark, note)
    if before is None:
        files.write_text(spark, note, json.dumps({"topic": topic, "topic_id": topic_id}) + "\n")
    elif before.get("topic") != topic:
        raise AuditError(f"{checkpoint} goes on with topic {before.get('topic')}, not with {topic}")
    elif before.get("topic_id") != topic_id:
        raise AuditError(
            f"topic {topic} was deleted and made anew: its id is {topic_id}, that of the one read so far"
            f" {before.get('topic_id')}. {made_anew(checkpoint)}"
        )


def made_anew(checkpoint: str) -> str:
    """How to go on with a topic that was made anew."""
    return f"For a new topic begin new --tables, or remove {checkpoint} and keep the old tables apart"


def _noted(spark: SparkSession, note: str) -> dict[str, str] | None:
    """None also for half a note, of a process that was killed before it read its first record."""
    try:
        noted: dict[str, str] = json.loads(files.read_text(spark, note))
    except (FileNotFoundError, ValueError):
        return None
    return noted
