"""The report of given days: which findings, which records, and that no files of long before are opened."""

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_audit import __main__ as command_line
from spark_audit import schema as S
from spark_audit.tables import delta, manifest
from spark_audit.tables.delta import Tables
from tests.spark.audit_trail import DAY, NOON_MS, Clock, Trail
from tests.spark.frames import audit_frame, log_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("D6", "D7")]

DAY_BEFORE = "2026-11-01"
DAY_MS = 86_400_000


def finding(day: str) -> dict[str, object]:
    told = {"id": day, "check": "gaps.hole", "severity": "high", "date": day}
    return told | {"explanation": f"a hole on {day}", "evidence": {}}


def write_findings(
    spark: SparkSession, tables: Path, out: Path, days: list[str], checked_days: list[str]
) -> None:
    """As a reconciliation writes them, and signs in the manifest."""
    summary = {
        "schema_version": S.SCHEMA_VERSION,
        "records": 8,
        "metadata_records": 1,
        "decisions": {"evaluated": 2},
        "findings": {"critical": 0, "high": len(days), "medium": 0},
        "days": checked_days,
    }
    out.mkdir(exist_ok=True)
    document = {"summary": summary, "findings": [finding(day) for day in days]}
    (out / "findings.json").write_text(json.dumps(document), encoding="utf-8")
    runs = manifest.check(spark, Tables(str(tables)), None, manifest.NO_FILE)
    outputs = manifest.outputs_of(spark, str(out), f"{out}/findings", runs)
    manifest.sign(spark, runs, "reconcile", runs.checked, outputs=outputs)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days, of which the files of the first are closed, and gone: whoever opens them fails."""
    directory = tmp_path_factory.mktemp("days")
    trail = Trail(Clock(NOON_MS - 22 * DAY_MS))
    removed = trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL orders")
    trail.ask("User:yesterday 10.0.0.1 READ TOPIC orders", method="Fetch")
    trail.clock.now_ms = NOON_MS
    trail.ask("User:today 10.0.0.1 READ TOPIC orders", method="Fetch")
    trail.remove_acl(removed)
    there = Tables(str(directory))
    delta.create_tables(spark, there)
    delta.append_once(audit_frame(spark, trail.stop().audit), there.audit, "test", 0)
    delta.append_once(log_frame(spark, trail.log), there.metadata_log, "test", 0)
    manifest.end(spark, there, manifest.check(spark, there, None), "compact")
    shutil.rmtree(directory / "audit" / f"date={DAY_BEFORE}")
    return directory


def report(tables: Path, out: Path, *days: str) -> int:
    wanted = [argument for day in days for argument in ("--date", day)]
    places = ["--tables", str(tables), "--findings", str(out), "--out", str(out / "report.html")]
    return command_line.main(["report", *places, *wanted])


def test_the_page_of_a_day_is_made_from_its_files_alone(
    spark: SparkSession, tables: Path, tmp_path: Path
) -> None:
    write_findings(spark, tables, tmp_path, [DAY_BEFORE, DAY], [])

    code = report(tables, tmp_path, DAY)

    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert code == 0
    assert ("1 finding: 1 high" in page, f"a hole on {DAY}" in page) == (True, True)
    assert (f"a hole on {DAY_BEFORE}" in page, "User:yesterday" in page) == (False, False)
    assert "User:today" in page


def test_the_page_of_all_days_needs_all_files(
    spark: SparkSession, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_findings(spark, tables, tmp_path, [], [])

    assert report(tables, tmp_path) == 2
    assert DAY_BEFORE in capsys.readouterr().err


def test_the_page_of_one_days_findings_is_of_that_day(
    spark: SparkSession, tables: Path, tmp_path: Path
) -> None:
    write_findings(spark, tables, tmp_path, [DAY], [DAY])

    assert report(tables, tmp_path) == 0
    assert "User:yesterday" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_day_that_was_not_reconciled_is_refused(
    spark: SparkSession, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_findings(spark, tables, tmp_path, [DAY], [DAY])

    assert report(tables, tmp_path, DAY_BEFORE) == 2
    assert f"its findings are for {DAY}, not for {DAY_BEFORE}" in capsys.readouterr().err
