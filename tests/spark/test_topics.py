"""The tables against the topics: an edit by somebody who cannot write to the topic is found."""

import json
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit import __main__ as command_line
from spark_audit import schema as S
from spark_audit.ingest import decode, streams
from spark_audit.reconcile.topics import ComparedTopic, differences_of_audit, differences_of_log
from spark_audit.tables.delta import AUDIT_STREAM, Tables, empty_frame
from tests.lab.cluster.broker import Broker
from tests.spark import kraft_bytes
from tests.spark.audit_trail import Trail, acl_id
from tests.spark.frames import kafka_frame
from tests.spark.ingesting import Source, log_records
from tests.spark.sealed import seal

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D8")]

Edit = Callable[[DataFrame], DataFrame]
Found = dict[tuple[str, str], list[int]]


def audit_topic(spark: SparkSession) -> ComparedTopic:
    """Records of two processes, one that cannot be read, and a last one that ingest has not read yet."""
    trail = Trail()
    trail.ask("User:alice 10.0.0.1 READ TOPIC orders", quota_share=0.25)
    lines = [line for process in trail.stop().processes for line in seal(process)]
    pairs: list[tuple[bytes | None, bytes | None]] = [(line.key, line.value) for line in lines]
    pairs.insert(1, (b"k", b"garbage"))
    checked = kafka_frame(spark, [*pairs, pairs[-1]]).transform(decode.check_audit)
    unreadable = checked.transform(decode.quarantine_rows).localCheckpoint()
    return ComparedTopic(
        "audit", checked.transform(decode.audit_rows).localCheckpoint(), unreadable, {"0": 6}
    )


def found(differences: DataFrame) -> Found:
    rows = differences.collect()
    evidence = [json.loads(row[S.EVIDENCE]) for row in rows]
    return {(row[S.CHECK], e["table"]): e["kafka_offsets"] for row, e in zip(rows, evidence, strict=True)}


def read(rows: DataFrame) -> DataFrame:
    """The rows that ingest has read."""
    return rows.where(F.col(S.KAFKA_OFFSET) < 6)


def at(offset: int, **others: str) -> Edit:
    """The row of this place with other values, in SQL."""
    return lambda rows: rows.withColumns(
        {
            name: F.when(
                F.col(S.KAFKA_OFFSET) == offset, F.expr(value).cast(rows.schema[name].dataType)
            ).otherwise(F.col(name))
            for name, value in others.items()
        }
    )


def also(offset: int, **others: str) -> Edit:
    return lambda rows: rows.unionByName(
        rows.where(F.col(S.KAFKA_OFFSET) == offset).withColumns(
            {name: F.expr(value).cast(rows.schema[name].dataType) for name, value in others.items()}
        )
    )


def without(offset: int) -> Edit:
    return lambda rows: rows.where(F.col(S.KAFKA_OFFSET) != offset)


EDITS: dict[str, tuple[Edit, Found]] = {
    "untouched": (lambda rows: rows, {}),
    "edited": (at(3, host="'10.9.9.9'"), {("topics.altered", "audit"): [3]}),
    "a microsecond later": (
        at(3, kafka_timestamp="timestamp_micros(unix_micros(kafka_timestamp) + 1)"),
        {("topics.altered", "audit"): [3]},
    ),
    "deleted": (without(3), {("topics.removed", "audit"): [3]}),
    "inserted": (also(3, kafka_offset="99"), {("topics.added", "audit"): [99]}),
    "inserted in another partition": (also(3, kafka_partition="8"), {("topics.added", "audit"): [3]}),
    "twice": (also(3), {("topics.repeated", "audit"): [3]}),
    "moved": (
        at(3, kafka_offset="50"),
        {("topics.removed", "audit"): [3], ("topics.added", "audit"): [50]},
    ),
    "read by an older release": (at(4, quota_share="null"), {}),
}


@pytest.mark.parametrize("kind", EDITS)
def test_an_edited_table_differs_from_its_topic(spark: SparkSession, kind: str) -> None:
    topic, expired = audit_topic(spark), empty_frame(spark, S.EXPIRED)
    edit, expected = EDITS[kind]

    audit = read(topic.records).transform(edit)

    assert found(differences_of_audit(audit, topic.unreadable, expired, topic)) == expected


def test_records_that_expire_has_deleted_or_retention_are_no_difference(spark: SparkSession) -> None:
    topic = audit_topic(spark)
    first = topic.records.orderBy(S.KAFKA_OFFSET).first()
    assert first is not None
    day, bad = date.fromisoformat("2026-11-24"), topic.unreadable.limit(0)
    of_boot = (first[S.PROXY_ID], first[S.BOOT_ID], 0, 1, day, None, None, None, None)
    lines = [
        (None, None, None, None, day, *place, place[-1])
        for place in topic.unreadable.select(*S.PLACE).collect()
    ]
    expired = spark.createDataFrame([of_boot, *lines], S.EXPIRED)
    its_own = (F.col(S.PROXY_ID) == of_boot[0]) & (F.col(S.SEQUENCE) <= 1)
    left = read(topic.records).where(~its_own)
    assert found(differences_of_audit(left, bad, expired, topic)) == {}
    kept = spark.createDataFrame([of_boot], S.EXPIRED)
    assert set(found(differences_of_audit(left, bad, kept, topic))) == {("topics.removed", "quarantine")}, (
        "a quarantined line of a day that has not expired"
    )

    later = topic._replace(
        records=topic.records.where(F.col(S.KAFKA_OFFSET) >= 3), unreadable=topic.unreadable.limit(0)
    )
    everything = read(topic.records), topic.unreadable
    assert found(differences_of_audit(*everything, expired, later)) == {}
    emptied = later._replace(records=topic.records.limit(0))
    assert found(differences_of_audit(*everything, expired, emptied)) == {}


LOG: dict[str, tuple[Edit, Found]] = {
    "untouched": (lambda rows: rows, {}),
    "edited": (
        lambda rows: rows.withColumn("body", F.expr("if(offset = 1, '{}', body)")),
        {("topics.altered", "metadata_log"): [1]},
    ),
    "of an earlier release": (
        lambda rows: rows.withColumns({name: F.lit(None).cast("binary") for name, _ in S.EVIDENCE_OF_LOG}),
        {},
    ),
    "with another value": (
        lambda rows: rows.withColumn(S.RECEIVED, F.expr("if(offset = 1, X'01', received)")),
        {("topics.altered", "metadata_log"): [1]},
    ),
    "deleted": (lambda rows: rows.where("offset != 1"), {("topics.removed", "metadata_log"): [1]}),
    "inserted": (
        lambda rows: rows.unionByName(
            rows.where("offset = 1").withColumns({"offset": F.lit(9), "entity": F.lit("x")})
        ),
        {("topics.added", "metadata_log"): [9]},
    ),
}


@pytest.mark.parametrize("kind", LOG)
def test_a_compacted_record_is_no_difference_and_an_edited_one_is(spark: SparkSession, kind: str) -> None:
    """Offsets 0 and 2 have one key: compaction has removed the first. Ingest has read it before."""
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (b"a", kraft_bytes.remove_access_control_entry(acl_id(1))),
        (b"b", kraft_bytes.remove_access_control_entry(acl_id(2))),
        (b"a", kraft_bytes.remove_access_control_entry(acl_id(3))),
        (b"c", b"?"),
    ]
    checked = kafka_frame(spark, pairs, "metadata").transform(decode.check_log).localCheckpoint()
    log, bad = checked.transform(decode.log_rows), checked.transform(decode.quarantine_rows)
    topic = ComparedTopic("metadata", log.where("offset > 0"), bad, {"0": 4})
    edit, expected = LOG[kind]

    assert (
        found(differences_of_log(log.transform(edit), bad, empty_frame(spark, S.EXPIRED), topic)) == expected
    )


@pytest.mark.long
@pytest.mark.kafka
def test_verify_compares_with_the_topics_of_a_broker(
    spark: SparkSession, kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, tables = Source(kafka.plaintext, "verified"), Tables(str(tmp_path / "tables"))
    source.create()
    source.send_audit(source.records, spoil_every=2)
    source.send_log(log_records(2, bad=1))
    names = "--audit-topic", source.topics.audit, "--metadata-topic", source.topics.metadata
    verify = "verify", "--tables", tables.root, "--bootstrap", kafka.plaintext, *names
    streams.ingest(spark, source.topics, tables, lambda line: None)
    source.send_audit(source.records[:1])
    assert command_line.main(verify) == 0

    spark.sql(f"UPDATE delta.`{tables.metadata_log}` SET body = '{{}}' WHERE offset = 1")
    assert command_line.main(verify) == 1
    assert capsys.readouterr().err == (
        f"penstock audit: table metadata_log: 1 record(s) of topic {source.topics.metadata}, partition 0,"
        " are not as the topic has them: they were edited (offsets 1)\n"
    )

    source.delete(source.topics.audit)
    source.create_again(source.topics.audit)
    source.send_audit(source.records)
    assert command_line.main(verify) == 2
    assert f"topic {source.topics.audit} was deleted and recreated" in capsys.readouterr().err

    spark.sql(f"DELETE FROM delta.`{tables.audit}`")
    shutil.rmtree(tables.checkpoint(AUDIT_STREAM))
    assert command_line.main(verify) == 2
    assert f"does not have what ingest has read of topic {source.topics.audit}" in capsys.readouterr().err
