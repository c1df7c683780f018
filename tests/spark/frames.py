"""Trails as DataFrames, in the shapes that Kafka and the tables have."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from spark_audit import schema as S
from spark_audit.tables.delta import empty_frame
from tests.spark.audit_trail import NOON_MS, Record, Trail

LAST_TIME_MS = 32_503_680_000_000

KAFKA = T.StructType(
    [
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("timestamp", T.TimestampType()),
        T.StructField(
            "headers",
            T.ArrayType(
                T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())])
            ),
        ),
    ]
)
"""The columns of Spark's Kafka source, as far as they are read."""


def line(record: Record) -> bytes:
    """The CloudEvents line a process wrote for a record before there was a hash chain."""
    envelope = {
        "specversion": "1.0",
        "id": f"{record['proxy_id']}/{record['boot_id']}/{record['sequence']}",
        "source": f"penstock://{record['role']}/{record['proxy_id']}",
        "type": f"io.penstock.{record['event']}",
        "time": moment(record["time_ms"]).isoformat(),
        "subject": record["principal"],
        "datacontenttype": "application/json",
        "dataschema": "penstock:audit:1",
        "data": record,
    }
    return json.dumps(envelope, separators=(",", ":")).encode()


def key(record: Record) -> bytes:
    return f"{record['proxy_id']}/{record['boot_id']}".encode()


def moment(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: T.StructType) -> DataFrame:
    """Rows of Python's, the JVM's from now on as those of a table are: else each look asks Python anew."""
    return spark.createDataFrame(rows, schema).localCheckpoint() if rows else empty_frame(spark, schema)


def kafka_frame(
    spark: SparkSession,
    pairs: Sequence[tuple[bytes | None, bytes | None]],
    topic: str = "audit",
    first_offset: int = 0,
) -> DataFrame:
    """Keys and values as rows of a topic. The broker has each line when it was written."""
    numbered = enumerate(pairs, first_offset)
    rows = [(k, v, topic, 0, offset, moment(_written_ms(v)), None) for offset, (k, v) in numbered]
    return frame(spark, rows, KAFKA)


def _written_ms(value: bytes | None) -> int:
    try:
        return min(int(json.loads(value or b"")["data"]["time_ms"]), LAST_TIME_MS)
    except (ValueError, KeyError, TypeError):
        return NOON_MS


def audit_frame(spark: SparkSession, records: Sequence[Record], first_offset: int = 0) -> DataFrame:
    """Records as table `audit`, as if Kafka had them in this order.

    `appended_ms` of a record is the broker's time, if that is not the time of the record.
    """
    rows = [
        (
            moment(record["time_ms"]).date(),
            *(record[name] for name in S.DATA.names),
            "audit",
            0,
            offset,
            moment(record["appended_ms"] if "appended_ms" in record else record["time_ms"]),
            sha256(line(record)).digest(),
            None,
            None,
        )
        for offset, record in enumerate(records, first_offset)
    ]
    return frame(spark, rows, S.AUDIT)


def log_frame(spark: SparkSession, log: Sequence[Record]) -> DataFrame:
    """Log records as table `metadata_log`."""
    rows: list[tuple[Any, ...]] = [
        (
            moment(record["time_ms"]).date(),
            record["offset"],
            moment(record["time_ms"]),
            record["api_key"],
            record["record"],
            record["version"],
            record["body"],
            record["entity"],
            record.get("from_snapshot"),
            *(record.get(name) for name, _ in S.EVIDENCE_OF_LOG),
        )
        for record in log
    ]
    return frame(spark, rows, S.METADATA_LOG)


def frames(spark: SparkSession, trail: Trail) -> tuple[DataFrame, DataFrame]:
    return audit_frame(spark, trail.audit), log_frame(spark, trail.log)
