"""Decodes Kafka rows into table rows. Each row goes to its table or to quarantine; none is dropped.

Takes rows of Spark's Kafka source (key, value, topic, partition, offset, timestamp, headers), or of
quarantine, which have the signature in place of the headers. `check_*` adds the
decoded record and a `reason`, which is null for a good row. `audit_rows` and `log_rows` take the good rows,
`quarantine_rows` the others. Knows no storage and no streams.
"""

from collections.abc import Callable

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.kraft import metadata_records, secrets

# The executors of a cluster need not have this package: the decoder is pickled with the plan.
for module in (metadata_records, secrets):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # not typed there

Step = Callable[[DataFrame], DataFrame]
"""One step of decoding the rows of a topic."""
_LINK = 64
_TAIL = len(',"chain":"') + _LINK + len('"}')
"""Length of the end of a chained line: `,"chain":"<64 hex>"}`."""


def check_audit(kafka: DataFrame) -> DataFrame:
    """Add `data` (the record) and `reason`."""
    line = F.col("value").cast("string")
    # FAILFAST would stop the stream at the first bad line. PERMISSIVE stores it in the corrupt column.
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": S.CORRUPT}
    read = kafka.withColumn("envelope", F.from_json(line, S.ENVELOPE, options))
    checked = read.withColumn(S.REASON, F.coalesce(*_reasons()))
    link = F.when(_is_chained(), F.unhex(F.substring(_tail(), -_LINK - 2, _LINK)))
    body = F.when(_is_chained(), F.substring("value", F.lit(1), F.length("value") - _TAIL).cast("string"))
    data = F.col("envelope.data").alias("data")
    none = F.lit(None).cast("binary").alias(S.SIGNATURE)
    return checked.select(
        *_place(), "key", "value", data, link.alias(S.CHAIN), body.alias(S.LINE), S.REASON, none
    )


def audit_rows(checked: DataFrame) -> DataFrame:
    """Return the good rows as rows of table `audit`."""
    good, time_ms = checked.where(F.col(S.REASON).isNull()), F.col(f"data.{S.TIME_MS}")
    # For a time outside, Spark has no date: an overflow would stop the stream.
    within = F.when(time_ms.between(0, S.LAST_TIME_MS), time_ms)
    return good.select(
        F.to_date(F.timestamp_millis(within)).alias(S.DATE),
        "data.*",
        S.KAFKA_TOPIC,
        S.KAFKA_PARTITION,
        S.KAFKA_OFFSET,
        S.KAFKA_TIMESTAMP,
        F.unhex(F.sha2("value", 256)).alias(S.BODY_SHA256),
        S.CHAIN,
        S.LINE,
    )


def check_log(kafka: DataFrame) -> DataFrame:
    """Add `decoded` (the metadata record) and `reason`."""
    # Arrow would need PyArrow and pandas, also where the executors are.
    decode_row = F.udf(metadata_records.decode_row, S.struct(*S.DECODED), useArrow=False)
    hide = F.udf(secrets.hidden, "binary", useArrow=False)
    decoded = kafka.withColumns({"decoded": decode_row("value"), S.HIDDEN: hide("value")})
    headers = F.filter("headers", lambda header: header["key"] == S.SIGNATURE_HEADER)
    signature = F.col(S.SIGNATURE) if S.SIGNATURE in kafka.columns else F.get(headers, 0)["value"]
    # The log has one partition. Somebody may have added another one, in which offsets begin at 0 again.
    elsewhere = F.when(F.col("partition") != 0, "in another partition than that of the metadata log")
    reason = F.coalesce(elsewhere, "decoded.reason").alias(S.REASON)
    return decoded.select(
        *_place(), "key", "value", "decoded", S.HIDDEN, signature.alias(S.SIGNATURE), reason
    )


def log_rows(checked: DataFrame) -> DataFrame:
    """Return the good rows as rows of table `metadata_log`."""
    good = checked.where(F.col(S.REASON).isNull())
    return good.select(
        F.to_date(S.KAFKA_TIMESTAMP).alias(S.DATE),
        F.col(S.KAFKA_OFFSET).alias(S.LOG_OFFSET),
        F.col(S.KAFKA_TIMESTAMP).alias(S.LOG_TIMESTAMP),
        f"decoded.{S.API_KEY}",
        f"decoded.{S.RECORD}",
        f"decoded.{S.RECORD_VERSION}",
        f"decoded.{S.BODY}",
        F.col("key").cast("string").alias(S.ENTITY),
        F.lit(None).cast("boolean").alias(S.FROM_SNAPSHOT),
        S.SIGNATURE,
        F.when(F.col(S.HIDDEN).isNull(), F.col("value")).alias(S.RECEIVED),
        S.HIDDEN,
    )


def quarantine_rows(checked: DataFrame) -> DataFrame:
    """Return the bad rows as rows of table `quarantine`, with the reason and the bytes as received."""
    return as_quarantined(checked.where(F.col(S.REASON).isNotNull()))


def as_quarantined(checked: DataFrame) -> DataFrame:
    """Return checked rows as rows of table `quarantine`."""
    return checked.select(
        F.to_date(S.KAFKA_TIMESTAMP).alias(S.DATE),
        S.REASON,
        F.col("key").alias(S.RAW_KEY),
        F.col("value").alias(S.RAW_VALUE),
        S.KAFKA_TOPIC,
        S.KAFKA_PARTITION,
        S.KAFKA_OFFSET,
        S.KAFKA_TIMESTAMP,
        S.SIGNATURE,
    )


def _place() -> list[Column]:
    return [
        F.col("topic").alias(S.KAFKA_TOPIC),
        F.col("partition").alias(S.KAFKA_PARTITION),
        F.col("offset").alias(S.KAFKA_OFFSET),
        F.col("timestamp").alias(S.KAFKA_TIMESTAMP),
    ]


def _reasons() -> list[Column]:
    """Return the conditions in order: the first that holds gives the reason."""
    author = F.concat_ws("/", _data(S.PROXY_ID), _data(S.BOOT_ID))
    identity = F.concat_ws("/", author, _data(S.SEQUENCE).cast("string"))
    known = " and ".join(str(version) for version in S.READABLE_VERSIONS)
    return [
        F.when(F.col("value").isNull(), "no value"),
        F.when(~F.is_valid_utf8(F.col("value").cast("string")), "not UTF-8"),
        F.when(
            F.col("envelope").isNull() | F.col(f"envelope.{S.CORRUPT}").isNotNull(),
            "not an audit line of JSON",
        ),
        F.when(_data(S.RECORD_SCHEMA_VERSION).isNull(), f"data.{S.RECORD_SCHEMA_VERSION} is missing"),
        F.when(
            ~_data(S.RECORD_SCHEMA_VERSION).isin(*S.READABLE_VERSIONS),
            F.format_string(f"schema version %d, known are {known}", _data(S.RECORD_SCHEMA_VERSION)),
        ),
        F.when(
            (_data(S.RECORD_SCHEMA_VERSION) >= S.CHAINED_SINCE) & ~_is_chained(),
            "no chain at the end of the line",
        ),
        *(
            F.when(_data(field.name).isNull(), f"data.{field.name} is missing")
            for field in S.FIELDS
            if field.is_required
        ),
        *(
            F.when(~_data(field.name).between(*field.range), f"data.{field.name} is out of range")
            for field in S.FIELDS
            if field.range is not None
        ),
        # Key and id name the process of a record. If they disagree, the record belongs to no process.
        _unlike(F.col("envelope.id"), identity, "id"),
        _unlike(F.col("envelope.type"), F.concat(F.lit(S.EVENT_TYPE_PREFIX), _data(S.EVENT)), "type"),
        _unlike(F.col("key").cast("string"), author, "key"),
    ]


def _is_chained() -> Column:
    return F.coalesce(_tail().rlike('^,"chain":"[0-9a-f]{64}"\\}$'), F.lit(False))


def _tail() -> Column:
    """Return the last _TAIL bytes. In bytes: Spark would count the characters of the line at each use."""
    return F.substring("value", -_TAIL, _TAIL).cast("string")


def _data(name: str) -> Column:
    return F.col(f"envelope.data.{name}")


def _unlike(actual: Column, expected: Column, what: str) -> Column:
    return F.when(~actual.eqNullSafe(expected), f"{what} does not match data")
