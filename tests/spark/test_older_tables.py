"""Tables of an older release, of a later one, and lines that say more than this one knows."""

import json
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from proxy.audit.chain import Chain, sealed
from spark_audit import __main__ as command_line
from spark_audit import schema as S
from spark_audit.ingest import decode
from spark_audit.reconcile.chain import chain
from spark_audit.reconcile.gaps import gaps
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from tests.spark.audit_trail import Trail
from tests.spark.frames import audit_frame, kafka_frame, log_frame
from tests.spark.sealed import seal, table

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D4")]

SINCE_VERSION_2 = (S.CHAIN, S.LINE, S.ENVELOPE_ERROR_CODE, S.SETTINGS_GENERATION)


def of_version_1(spark: SparkSession, tables: Tables, trail: Trail) -> None:
    """As the first release made and filled them."""
    columns = StructType([field for field in S.AUDIT if field.name not in SINCE_VERSION_2])
    unsigned = StructType([field for field in S.QUARANTINE if field.name != S.SIGNATURE])
    for path, schema in ((tables.audit, columns), (tables.quarantine, unsigned)):
        creation = DeltaTable.create(spark).location(path).addColumns(schema)
        creation.partitionedBy(S.DATE).execute()
    rows = audit_frame(spark, trail.audit).drop(*SINCE_VERSION_2)
    delta.append_once(rows, tables.audit, "first-release", 0)
    log = log_frame(spark, trail.log).select(*S.LOG.names)
    DeltaTable.create(spark).location(tables.metadata_log).addColumns(S.LOG).execute()
    delta.append_once(log, tables.metadata_log, "first-release", 0)


@pytest.mark.long
def test_tables_of_version_1_are_read_as_they_are_and_take_what_is_written_now(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables, out = Tables(str(tmp_path / "tables")), str(tmp_path / "out")
    old, new = Trail(), Trail()
    old.ask("User:alice 10.0.0.1 READ TOPIC orders")
    new.proxy.boot_id = new.controller.boot_id = "boot-2"
    for process in new.processes:
        process.records.clear()
        process.start()
    of_version_1(spark, tables, old.stop())

    assert command_line.main(["reconcile", "--tables", tables.root, "--out", out]) == 0
    delta.create_tables(spark, tables)
    delta.create_tables(spark, tables)
    # What the spools say of records that had no chain yet.
    ends = [f"{process.boot_id}/{len(process.records) - 1}/" for process in old.processes]
    pairs = zip(new.stop().processes, ends, strict=True)
    lines = [line for process, end in pairs for line in seal(process, previous=end)]
    delta.append_once(table(spark, lines, first_offset=len(old.audit)), tables.audit, "now", 0)

    rows = delta.read_table(spark, tables.audit)
    assert set(rows.columns) == set(S.AUDIT.names)
    assert rows.where(f"{S.CHAIN} IS NULL").count() == len(old.audit)
    assert rows.where(f"{S.LINE} IS NOT NULL").count() == len(lines)
    assert chain(rows).collect() == gaps(rows).collect() == []
    page = ["report", "--tables", tables.root, "--findings", out, "--out", f"{out}/page.html"]
    assert command_line.main(page) == 0


def changed(spark: SparkSession, tables: Tables, *changes: str) -> None:
    delta.create_tables(spark, tables)
    delta.append_once(audit_frame(spark, Trail().audit), tables.audit, "now", 0)
    for change in changes:
        spark.sql(f"ALTER TABLE delta.`{tables.audit}` {change}")


def test_a_table_with_a_column_of_another_type_is_read_and_not_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(str(tmp_path / "tables"))
    widening = "SET TBLPROPERTIES ('delta.enableTypeWidening'='true')"
    changed(spark, tables, widening, "ALTER COLUMN error_code TYPE BIGINT")
    version = delta.version(spark, tables.audit)

    with pytest.raises(AuditError, match="cannot be written: column error_code is bigint, not int"):
        delta.create_tables(spark, tables)

    assert delta.version(spark, tables.audit) == version
    assert delta.read_table(spark, tables.audit, S.AUDIT).count() == len(Trail().audit)


@pytest.mark.long
@pytest.mark.spec("D8")
def test_columns_of_others_are_ignored_and_deletion_vectors_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(str(tmp_path / "tables"))
    changed(
        spark,
        tables,
        "ADD COLUMNS (region STRING)",
        "SET TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
    )
    spark.sql(f"DELETE FROM delta.`{tables.audit}` WHERE kafka_offset = 1")

    delta.create_tables(spark, tables)
    delta.append_once(audit_frame(spark, Trail().audit, 10), tables.audit, "now", 1)

    number, version = len(Trail().audit), delta.version(spark, tables.audit)
    for as_of, left in ((None, 2 * number - 1), (version, 2 * number - 1), (version - 2, number)):
        rows = delta.read_table(spark, tables.audit, S.AUDIT, as_of)
        assert (rows.columns, rows.count()) == (S.AUDIT.names, left)
    delta.append_once(log_frame(spark, Trail().stop().log), tables.metadata_log, "now", 0)
    out = str(tmp_path / "out")
    assert command_line.main(["reconcile", "--tables", tables.root, "--out", out]) == 1
    found = json.loads(Path(out, "findings.json").read_text(encoding="utf-8"))["findings"]
    assert "offsets.missing" in {each["check"] for each in found}


def test_a_line_that_says_more_than_is_known_is_kept_whole(spark: SparkSession) -> None:
    [line] = seal(Trail().proxy)
    said = json.loads(line.value)
    said["data"]["region"] = "eu-west-1"
    said["traceparent"] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    said.pop("chain")
    body = json.dumps(said, separators=(",", ":")).encode()[:-1]
    value = sealed(body, Chain(line.key, None).after(body))

    rows = kafka_frame(spark, [(line.key, value)]).transform(decode.check_audit).transform(decode.audit_rows)

    [row] = rows.collect()
    assert json.loads(row[S.LINE] + "}") == said
    assert chain(rows).collect() == []
