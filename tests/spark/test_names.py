"""`--tables CATALOG.SCHEMA`: where its tables are, and that they are in the catalog afterwards."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.tables import delta
from spark_audit.tables.files import AuditError
from spark_audit.tables.names import located
from tests.support.hive_metastore import metastore

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("D16")]

LAKE = "spark_catalog.lake"
ALL_JOBS = """
import sys
from pyspark.sql import SparkSession
from spark_audit import __main__ as command_line
from spark_audit.session import open_session
from spark_audit.tables.delta import create_tables
from spark_audit.tables.names import located

root, uri, step = sys.argv[1:]
hive = {"spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": uri}
if step == "create":
    spark = open_session("local[1]", settings=hive)
    spark.sql(f"CREATE SCHEMA lake LOCATION '{root}/lake'")
    create_tables(spark, located(spark, "spark_catalog.lake"))
else:
    settings = [each for name, value in hive.items() for each in ("--conf", f"{name}={value}")]
    command = ["reconcile", "--tables", "spark_catalog.lake", "--out", f"{root}/out", "--master", "local[1]"]
    code = command_line.main([*command, *settings])
    if code == 2:
        sys.exit(code)
    spark = SparkSession.getActiveSession()
    names = [row["tableName"] for row in spark.sql("SHOW TABLES IN lake").collect()]
    print("tables:", *sorted(names))
"""


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The location of a schema without tables."""
    spark.sql(f"CREATE SCHEMA {LAKE} LOCATION '{tmp_path}/lake'")
    yield tmp_path / "lake"
    spark.sql(f"DROP SCHEMA {LAKE} CASCADE")


def test_tables_are_made_at_the_location_of_the_schema_and_registered(
    spark: SparkSession, lake: Path
) -> None:
    tables = located(spark, LAKE)
    delta.create_tables(spark, tables)

    names = {row["tableName"] for row in spark.sql(f"SHOW TABLES IN {LAKE}").collect()}
    commented = {
        name: {row[0]: row[2] for row in spark.sql(f"DESCRIBE TABLE {LAKE}.{name}").collect()}
        for name in names
    }
    (comment,) = spark.sql(f"DESCRIBE TABLE EXTENDED {LAKE}.audit").where("col_name = 'Comment'").collect()
    assert tables == delta.Tables(str(lake), LAKE)
    assert (lake / "audit" / "_delta_log").is_dir()
    assert names == {"audit", "quarantine", "metadata_log"}
    for name, schema in (("audit", S.AUDIT), ("quarantine", S.QUARANTINE), ("metadata_log", S.METADATA_LOG)):
        assert [commented[name][column] for column in schema.names] == [S.COMMENTS[c] for c in schema.names]
    assert comment[1] == delta.COMMENTS["audit"]
    assert located(spark, LAKE) == tables


def test_tables_are_beside_table_audit_wherever_the_schema_is(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    delta.create_tables(spark, delta.Tables(str(tmp_path / "older")))
    spark.sql(f"CREATE TABLE {LAKE}.audit USING delta LOCATION '{tmp_path}/older/audit'")

    tables = located(spark, LAKE)
    delta.create_tables(spark, tables)

    assert tables.root == str(tmp_path / "older")
    assert spark.table(f"{LAKE}.metadata_log").count() == 0
    assert not lake.exists() or not list(lake.iterdir())


def test_a_table_of_another_place_is_an_error(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    for name in ("this", "other"):
        delta.create_tables(spark, delta.Tables(str(tmp_path / name)))
    spark.sql(f"CREATE TABLE {LAKE}.audit USING delta LOCATION '{tmp_path}/this/audit'")
    spark.sql(f"CREATE TABLE {LAKE}.quarantine USING delta LOCATION '{tmp_path}/other/quarantine'")

    with pytest.raises(AuditError, match=f"table quarantine is at {tmp_path}/other/quarantine, not at"):
        located(spark, LAKE)


def test_a_schema_that_does_not_exist_is_an_error(spark: SparkSession) -> None:
    with pytest.raises(AuditError, match=r"--tables spark_catalog\.absent: .*cannot be found"):
        located(spark, "spark_catalog.absent")


def test_another_process_finds_the_tables_in_a_hive_metastore_and_says_if_it_is_away(tmp_path: Path) -> None:
    def run(uri: str, step: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", ALL_JOBS, str(tmp_path), uri, step]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)

    with metastore(tmp_path / "metastore") as catalog:
        made, reconciled = run(catalog.uri, "create"), run(catalog.uri, "reconcile")
    away = run(catalog.uri, "reconcile")

    assert made.returncode == 0, made.stderr[-3_000:]
    assert reconciled.returncode == 0, reconciled.stderr[-3_000:]
    assert "tables: audit metadata_log quarantine reconciled" in reconciled.stdout
    assert (away.returncode, away.stdout) == (2, "")
    [line] = away.stderr.splitlines()
    assert line.startswith("penstock audit: "), line
    assert "the Hive metastore of spark.hadoop.hive.metastore.uris is not available" in line
