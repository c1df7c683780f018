"""Batches of the streams into Delta tables: each record once, whatever is run again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_audit.ingest import streams
from spark_audit.tables import delta, findings
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from spark_audit.tables.findings import FindingsDocument
from tests.spark import kraft_bytes
from tests.spark.audit_trail import Trail, acl_id
from tests.spark.frames import kafka_frame, key, line

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D4")]

QUERY_ID = "sql.streaming.queryId"


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Iterator[Tables]:
    made = Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, made)
    spark.sparkContext.setLocalProperty(QUERY_ID, "stream-1")
    yield made
    spark.sparkContext.setLocalProperty(QUERY_ID, None)  # type: ignore[arg-type]  # None takes it away


def counts(spark: SparkSession, tables: Tables) -> tuple[int, int]:
    return delta.read_table(spark, tables.audit).count(), delta.read_table(spark, tables.quarantine).count()


@pytest.mark.long
def test_a_batch_that_is_run_again_is_in_the_tables_once(spark: SparkSession, tables: Tables) -> None:
    records = Trail().stop().audit
    batch = kafka_frame(spark, [*((key(r), line(r)) for r in records), (b"k", b"garbage")])
    write = streams.audit_batch(tables)

    write(batch, 0)
    write(batch, 0)
    write(batch.limit(1), 1)

    assert counts(spark, tables) == (len(records) + 1, 1)


def test_the_half_of_a_batch_that_a_crash_left_out_is_made_good(spark: SparkSession, tables: Tables) -> None:
    [record, *_] = Trail().audit
    good = kafka_frame(spark, [(key(record), line(record))])
    both = kafka_frame(spark, [(key(record), line(record)), (b"k", b"garbage")])
    write = streams.audit_batch(tables)

    # The first run reached the audit table only, as if the process had died before the quarantine.
    write(good, 0)
    write(both, 0)

    assert counts(spark, tables) == (1, 1)


@pytest.mark.spec("D8", "D13")
@pytest.mark.parametrize("forged", [0, 1_000_000])
def test_a_batch_that_a_table_says_it_has_without_its_records_is_an_error(
    spark: SparkSession, tables: Tables, forged: int
) -> None:
    """As after a commit that has the number of a batch and no rows. Delta would skip the batch."""
    first = Path(tables.audit, "_delta_log", f"{0:020}.json")
    action = {"txn": {"appId": "stream-1", "version": forged, "lastUpdated": 0}}
    first.with_name(f"{1:020}.json").write_text(json.dumps(action) + "\n", encoding="utf-8")
    [record, *_] = Trail().audit

    with pytest.raises(
        AuditError, match=f"has batch {forged} of stream stream-1, but it does not have the rec"
    ):
        streams.audit_batch(tables)(kafka_frame(spark, [(key(record), line(record))]), 0)

    assert counts(spark, tables) == (0, 0)


@pytest.mark.long
def test_a_stream_whose_checkpoint_was_lost_begins_anew(spark: SparkSession, tables: Tables) -> None:
    [record, *_] = Trail().audit
    batch = kafka_frame(spark, [(key(record), line(record))])

    streams.audit_batch(tables)(batch, 0)
    spark.sparkContext.setLocalProperty(QUERY_ID, "stream-2")
    streams.audit_batch(tables)(batch, 0)

    assert counts(spark, tables) == (2, 0)


def test_the_log_and_its_quarantine_are_written(spark: SparkSession, tables: Tables) -> None:
    values = kraft_bytes.remove_access_control_entry(acl_id(7)), b"?"
    batch = kafka_frame(spark, [(b"k", value) for value in values], "metadata")

    streams.log_batch(tables)(batch, 0)

    [row] = delta.read_table(spark, tables.metadata_log).collect()
    [bad] = delta.read_table(spark, tables.quarantine).collect()
    assert (row["offset"], row["record"]) == (0, "RemoveAccessControlEntryRecord")
    assert (bad["kafka_topic"], bad["kafka_offset"]) == ("metadata", 1)


def test_the_audit_table_is_partitioned_by_day(spark: SparkSession, tables: Tables) -> None:
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{tables.audit}`").first()

    assert detail is not None
    assert detail["partitionColumns"] == ["date"]


def test_a_batch_outside_of_a_stream_is_refused(spark: SparkSession, tables: Tables) -> None:
    spark.sparkContext.setLocalProperty(QUERY_ID, None)  # type: ignore[arg-type]  # None takes it away

    with pytest.raises(RuntimeError, match="outside a stream"):
        streams.audit_batch(tables)(kafka_frame(spark, []), 0)


@pytest.mark.spec("D7")
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_the_end_of_the_log_is_read_from_the_last_batch_that_was_done(
    spark: SparkSession, tables: Tables, scheme: str
) -> None:
    assert delta.log_end(spark, Tables(scheme + tables.root)) is None
    checkpoint = Path(tables.checkpoint(delta.METADATA_STREAM))
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
    for batch, end in ((9, 90), (10, 106), (11, 120)):
        (checkpoint / "offsets" / str(batch)).write_text(
            f'v1\n{{"batchWatermarkMs":0}}\n{{"meta":{{"0":{end},"1":999}}}}'
        )
    for batch in (9, 10):
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")

    assert delta.log_end(spark, Tables(scheme + tables.root)) == 106


@pytest.mark.spec("D7")
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_results_can_be_written_to_a_path_and_to_a_uri(
    spark: SparkSession, tmp_path: Path, scheme: str
) -> None:
    out = f"{scheme}{tmp_path}/out"

    summary: Any = {"records": 3, "text": "prüfen"}

    findings.write_findings(spark, out, f"{out}/findings", [], findings.as_text([], summary, {}, {}))

    assert findings.read_findings(spark, out) == FindingsDocument(summary=summary, findings=[])
    with pytest.raises(AuditError, match="run `reconcile` first"):
        findings.read_findings(spark, f"{out}/elsewhere")


def test_a_missing_table_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="nowhere/audit is not a Delta table: run `ingest`"):
        delta.read_table(spark, Tables(f"{tmp_path}/nowhere/").audit)
