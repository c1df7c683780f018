"""Kafka rows into table rows, and into quarantine."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.ingest import decode
from tests.spark import kraft_bytes
from tests.spark.audit_trail import DAY, NOON_MS, Record, Trail, acl_id
from tests.spark.frames import kafka_frame, key, line

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D4")]

Pair = tuple[bytes | None, bytes | None]


def a_record() -> Record:
    return Trail().ask("User:alice 10.0.0.1 READ TOPIC orders")


def spoiled(envelope: dict[str, Any] | None = None, **data: Any) -> Pair:
    """A good line with some of it replaced, under the key of the good one."""
    good = a_record()
    text = json.loads(line(good)) | (envelope or {})
    text["data"] |= data
    return key(good), json.dumps(text).encode()


BAD: dict[str, Pair] = {
    "no value": (b"k", None),
    "not UTF-8": (b"k", b'{"a":"\xff\xfe"}'),
    "not an audit line of JSON": (b"k", b"hello"),
    "data.schema_version is missing": (b"k", b'{"data":{}}'),
    "schema version 3, known are 1 and 2": spoiled(schema_version=3),
    "no chain at the end of the line": spoiled(schema_version=2),
    "data.proxy_id is missing": spoiled(proxy_id=None),
    "data.sequence is missing": spoiled(sequence=None),
    "data.event is missing": spoiled(event=None),
    "data.time_ms is out of range": spoiled(time_ms=10**18),
    # Added to anything they would overflow, and one line would end each reconciliation.
    "data.sequence is out of range": spoiled(sequence=-1),
    "data.count is out of range": spoiled(count=2**63 - 1),
    "data.last_offset is out of range": spoiled(last_offset=-(2**63)),
    "data.interval_start_ms is out of range": spoiled(interval_start_ms=-1),
    "id does not match data": spoiled({"id": "proxy-1/boot-1/99"}),
    "type does not match data": spoiled({"type": "io.penstock.stopped"}),
    "key does not match data": (b"proxy-9/boot-1", line(a_record())),
}


def test_a_good_line_becomes_a_row_with_every_field(spark: SparkSession) -> None:
    record = a_record() | {"settings": {"super.users": "User:admin"}, "quota_limit": 12.5}
    kafka = kafka_frame(spark, [(key(record), line(record))])

    [row] = kafka.transform(decode.check_audit).transform(decode.audit_rows).collect()

    assert {name: row[name] for name in S.DATA.names} == record
    assert (str(row[S.DATE]), row[S.KAFKA_TOPIC], row[S.KAFKA_OFFSET]) == (DAY, "audit", 0)


def test_the_rows_have_the_schema_of_the_table(spark: SparkSession) -> None:
    judged = kafka_frame(spark, []).transform(decode.check_audit)
    log = kafka_frame(spark, []).transform(decode.check_log)

    assert names_and_types(judged.transform(decode.audit_rows).schema) == names_and_types(S.AUDIT)
    assert names_and_types(judged.transform(decode.quarantine_rows).schema) == names_and_types(S.QUARANTINE)
    assert names_and_types(log.transform(decode.log_rows).schema) == names_and_types(S.METADATA_LOG)


def names_and_types(schema: Any) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def test_each_bad_line_goes_to_quarantine_with_its_reason_and_its_bytes(spark: SparkSession) -> None:
    judged = kafka_frame(spark, list(BAD.values())).transform(decode.check_audit)

    quarantined = judged.transform(decode.quarantine_rows).orderBy(S.KAFKA_OFFSET).collect()

    assert [row[S.REASON] for row in quarantined] == list(BAD)
    assert [row[S.RAW_VALUE] and bytes(row[S.RAW_VALUE]) for row in quarantined] == [
        pair[1] for pair in BAD.values()
    ]
    assert judged.transform(decode.audit_rows).isEmpty()


def test_an_event_of_a_later_version_is_kept(spark: SparkSession) -> None:
    record = a_record() | {"event": "invented_next_year"}
    kafka = kafka_frame(spark, [(key(record), line(record))])

    [row] = kafka.transform(decode.check_audit).transform(decode.audit_rows).collect()

    assert row[S.EVENT] == "invented_next_year"


def test_log_records_are_decoded_and_what_is_none_goes_to_quarantine(spark: SparkSession) -> None:
    values = kraft_bytes.remove_access_control_entry(acl_id(7)), b"\x09", kraft_bytes.no_op()
    judged = kafka_frame(spark, [(b"/acl/7", value) for value in values], "metadata").transform(
        decode.check_log
    )

    log = judged.transform(decode.log_rows).orderBy(S.LOG_OFFSET).collect()
    [bad] = judged.transform(decode.quarantine_rows).collect()

    assert [(row.offset, row.record, row.body, row.entity) for row in log] == [
        (0, "RemoveAccessControlEntryRecord", f'{{"id":"{acl_id(7)}"}}', "/acl/7"),
        (2, "NoOpRecord", "{}", "/acl/7"),
    ]
    assert (bad[S.KAFKA_OFFSET], bad[S.KAFKA_TOPIC]) == (1, "metadata")
    assert bad[S.REASON].startswith("not a metadata record: ")


@pytest.mark.spec("D8")
def test_records_in_a_second_partition_are_none_of_the_log(spark: SparkSession) -> None:
    """An administrator of the brokers may add one: its offsets would be those of other records."""
    value = kraft_bytes.remove_access_control_entry(acl_id(7))
    rows = kafka_frame(spark, [(b"/acl/7", value)], "metadata")
    judged = rows.unionByName(rows.withColumn("partition", F.lit(1))).transform(decode.check_log)

    assert [row[S.LOG_OFFSET] for row in judged.transform(decode.log_rows).collect()] == [0]
    [bad] = judged.transform(decode.quarantine_rows).collect()
    assert (bad[S.KAFKA_PARTITION], bad[S.REASON]) == (
        1,
        "in another partition than that of the metadata log",
    )


def test_dates_are_utc_days(spark: SparkSession) -> None:
    record = a_record() | {"time_ms": NOON_MS + 12 * 3_600_000 - 1}
    kafka = kafka_frame(spark, [(key(record), line(record))])

    [row] = kafka.transform(decode.check_audit).transform(decode.audit_rows).collect()

    assert str(row[S.DATE]) == DAY
