"""What an older release put into quarantine leaves it once a later one can read it: each record once."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_audit import __main__ as command_line
from spark_audit import schema as S
from spark_audit.ingest import decode, reprocess
from spark_audit.kraft import metadata_records
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from tests.spark import kraft_bytes
from tests.spark.audit_trail import Trail, acl_id
from tests.spark.frames import kafka_frame, key, line
from tests.spark.sealed import seal

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D4")]

AUDIT, LOG = "audit", "metadata"
Places = Counter[tuple[str, int]]


def audit_topic(spark: SparkSession) -> DataFrame:
    """A line of version 1, some of version 2, and two that are none."""
    sealed = [(each.key, each.value) for each in seal(Trail().proxy)]
    first = Trail().audit[0]
    bad = [(b"k", b"garbage"), (None, None)]
    return kafka_frame(spark, [(key(first), line(first)), *sealed, *bad], AUDIT)


def metadata_topic(spark: SparkSession) -> DataFrame:
    values = kraft_bytes.remove_access_control_entry(acl_id(7)), kraft_bytes.no_op(), b"?"
    return kafka_frame(spark, [(b"k", value) for value in values], LOG)


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tables:
    """As a release left them that knew version 1 of lines, and of metadata records another frame."""
    made = Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, made)
    with monkeypatch.context() as older:
        older.setattr(S, "READABLE_VERSIONS", (1,))
        older.setattr(metadata_records, "FRAME_VERSION", 0)
        audit = audit_topic(spark).transform(decode.check_audit)
        log = metadata_topic(spark).transform(decode.check_log)
        for number, (judged, rows, path) in enumerate(
            ((audit, decode.audit_rows, made.audit), (log, decode.log_rows, made.metadata_log))
        ):
            delta.append_once(judged.transform(rows), path, "older", number)
            delta.append_once(judged.transform(decode.quarantine_rows), made.quarantine, "older", number)
    return made


def places(spark: SparkSession, tables: Tables) -> tuple[Places, Places]:
    """Readable and quarantined: topic and offset."""
    audit = delta.read_table(spark, tables.audit).select(S.KAFKA_TOPIC, S.KAFKA_OFFSET)
    log = delta.read_table(spark, tables.metadata_log).select(S.LOG_OFFSET)
    bad = delta.read_table(spark, tables.quarantine).select(S.KAFKA_TOPIC, S.KAFKA_OFFSET)
    good = Counter(
        [*((row[0], row[1]) for row in audit.collect()), *((LOG, row[0]) for row in log.collect())]
    )
    return good, Counter((row[0], row[1]) for row in bad.collect())


def readable(spark: SparkSession) -> tuple[Places, Places]:
    """What the tables of one who always had this release hold."""
    last = audit_topic(spark).count()
    good = [*((AUDIT, offset) for offset in range(last - 2)), (LOG, 0), (LOG, 1)]
    return Counter(good), Counter([(AUDIT, last - 2), (AUDIT, last - 1), (LOG, 2)])


def run(tables: Tables, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    topics = "--audit-topic", AUDIT, "--metadata-topic", LOG
    assert command_line.main(["reprocess", "--tables", tables.root, *topics, *more]) == 0
    return capsys.readouterr().out.strip()


@pytest.mark.long
def test_what_can_be_read_now_leaves_the_quarantine_and_the_rest_stays(
    spark: SparkSession, tables: Tables, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = readable(spark)
    before, quarantined = places(spark, tables)
    assert (before, quarantined) == (Counter([(AUDIT, 0)]), good + bad - before)

    assert run(tables, capsys) == "moved out of quarantine: 1 audit records, 2 metadata log records; 3 left"
    assert run(tables, capsys) == "moved out of quarantine: 0 audit records, 0 metadata log records; 3 left"

    assert places(spark, tables) == (good, bad)
    [row] = delta.read_table(spark, tables.audit).where(S.CHAIN + " IS NOT NULL").collect()
    [sealed] = seal(Trail().proxy)
    assert {name: row[name] for name in S.DATA.names if name != S.TIME_MS} == {
        name: value for name, value in sealed.record.items() if name != S.TIME_MS
    } | {S.RECORD_SCHEMA_VERSION: 2}
    assert sealed.value.startswith(row[S.LINE].encode())


@pytest.mark.long
def test_one_that_was_cut_off_between_its_steps_is_made_good(
    spark: SparkSession, tables: Tables, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = audit_topic(spark).transform(decode.check_audit)
    everything = judged.transform(decode.audit_rows).where(S.CHAIN + " IS NOT NULL")
    # Killed after the rows were inserted and before they left the quarantine.
    reprocess.insert_absent(everything, tables.audit, reprocess.AUDIT_PLACE)

    told = run(tables, capsys)

    assert told.startswith("moved out of quarantine: 1 audit records")
    assert places(spark, tables) == readable(spark)


@pytest.mark.long
def test_what_was_read_twice_leaves_the_quarantine_once(
    spark: SparkSession, tables: Tables, capsys: pytest.CaptureFixture[str]
) -> None:
    # A checkpoint was removed, and all of the topic read again by the older release.
    held = delta.read_table(spark, tables.quarantine)
    delta.append_once(held, tables.quarantine, "again", 0)

    run(tables, capsys)

    good, bad = readable(spark)
    assert places(spark, tables) == (good, bad + bad)


@pytest.mark.long
def test_records_of_other_topics_stay(
    spark: SparkSession, tables: Tables, capsys: pytest.CaptureFixture[str]
) -> None:
    before = places(spark, tables)

    told = run(tables, capsys, "--audit-topic", "another", "--metadata-topic", "one-more")

    assert (
        told == f"moved out of quarantine: 0 audit records, 0 metadata log records; {before[1].total()} left"
    )
    assert places(spark, tables) == before
