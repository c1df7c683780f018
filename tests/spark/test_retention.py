"""Old days leave the tables, and are not missed: compaction, expiry, and what reconciliation makes of it."""

from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_audit import __main__ as command_line
from spark_audit import schema as S
from spark_audit.ingest import decode
from spark_audit.reconcile.chain import boots, chain, not_to_sign, successions
from spark_audit.reconcile.changes import changes
from spark_audit.reconcile.gaps import gaps
from spark_audit.tables import delta, manifest
from spark_audit.tables.delta import Tables
from spark_audit.tables.retention import NEVER_EXPIRED, days_to_reconcile, expire, reconciled_days
from tests.spark.audit_trail import NOON_MS, Trail
from tests.spark.frames import kafka_frame, log_frame
from tests.spark.sealed import Line, end_of, seal, table

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D4", "D7")]

DAY_MS = 86_400_000


def a_long_trail() -> tuple[Trail, list[Line]]:
    """Three days of a proxy that crashed in the middle of the second, and of a controller."""
    trail = Trail()
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL orders")
    lines: list[Line] = []
    for number, days in ((1, (0, 1)), (2, (1, 2))):
        boot = trail.process("long-lived", boot_id=f"long-lived-{number}")
        boot.change_settings(super_users="User:bob")
        for day in days:
            trail.clock.now_ms = NOON_MS + day * DAY_MS + number * 60_000
            for _ in range(5):
                trail.ask("User:alice 10.0.0.1 READ TOPIC orders", boot, method="Fetch")
                boot.high_water()
        lines += seal(boot, previous=end_of(lines) if lines else None)
    trail.add_acl(2, "ALLOW User:bob * READ TOPIC LITERAL orders")
    trail.controller.stop()
    trail.proxy.stop()
    return trail, [*lines, *seal(trail.controller), *seal(trail.proxy)]


def run(*arguments: object) -> int:
    return command_line.main([str(argument) for argument in arguments])


def reconciled(
    spark: SparkSession, tables: Tables, findings: int, only: str | None = None, ahead: str = "0 days"
) -> None:
    """As if every day had just been reconciled, with so many findings each, or on one day only.

    The clock of the job's host is `ahead`.
    """
    paths = tables.audit, tables.quarantine, tables.metadata_log
    audit, bad, log = (delta.read_table(spark, path) for path in paths)
    of_days = audit if only is None else audit.where(F.col(S.DATE) == only)
    found = of_days.select(S.DATE).distinct().collect() * findings
    version = delta.version(spark, tables.audit)
    runs = manifest.check(spark, tables, None)
    days = reconciled_days(audit, bad, log, found, version)
    days = days.withColumn("checked_at", F.col("checked_at") + F.expr(f"INTERVAL {ahead}"))
    delta.append_state(days, tables.reconciled, S.RECONCILED)
    manifest.end(spark, tables, runs, "reconcile")


@pytest.mark.spec("D4")
def test_what_explains_the_metadata_log_never_expires() -> None:
    claims = {"forwarded_received", "tokens_expired", "acls_ended", "topics_gone", "log_written_again"}

    assert claims <= set(NEVER_EXPIRED)


@pytest.mark.long
def test_days_expire_once_they_are_done_with_and_are_not_missed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trail, lines = a_long_trail()
    tables = Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, tables)
    delta.append_once(table(spark, lines[1:]), tables.audit, "test", 0)
    expire = "expire", "--tables", tables.root, "--before", "2026-11-25", "--confirm"

    def refused() -> str:
        assert run(*expire) == 2
        return capsys.readouterr().err

    assert "2026-11-23: never reconciled" in refused()
    reconciled(spark, tables, findings=3)
    assert "2026-11-23: 3 open finding(s)" in refused()
    reconciled(spark, tables, findings=0, ahead="365 days")
    delta.append_once(table(spark, lines[:1]), tables.audit, "test", 1)
    assert "2026-11-23: records arrived after it was reconciled" in refused()
    reconciled(spark, tables, findings=0)
    garbage = kafka_frame(spark, [(b"k", b"garbage")], first_offset=len(lines)).transform(decode.check_audit)
    of_a_day = garbage.transform(decode.quarantine_rows).withColumn(S.DATE, F.lit("2026-11-01").cast("date"))
    delta.append_once(of_a_day, tables.quarantine, "test", 0)
    assert run(*expire) == 0
    assert capsys.readouterr().out.endswith(
        "days; not these, which are not settled, nor the days beside them: 2026-11-01: never reconciled\n"
    )
    assert delta.read_table(spark, tables.quarantine).count() == 1
    reconciled(spark, tables, findings=0)
    assert run(*expire) == 0
    assert delta.read_table(spark, tables.quarantine).count() == 0
    audit, log = delta.read_table(spark, tables.audit), log_frame(spark, trail.log)
    old = [row[S.EVENT] for row in audit.where(f"{S.DATE} < '2026-11-25'").collect()]
    assert set(old) == {"started", "settings_changed", "forwarded", "forwarded_received", "high_water"}
    assert old.count("high_water") == 2
    expired = delta.read_state(spark, tables.expired, S.EXPIRED)
    for check in (gaps(audit, expired=expired), chain(audit), boots(successions(audit)), changes(audit, log)):
        assert [row[S.EXPLANATION] for row in check.collect()] == []
    assert not gaps(audit).isEmpty()


def test_thousands_of_acknowledged_days_can_expire(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, tables)
    delta.append_once(table(spark, a_long_trail()[1]), tables.audit, "test", 0)
    reconciled(spark, tables, findings=1)
    first = date.fromisoformat("2020-01-01")
    found = {str(number): str(first + timedelta(days=number)) for number in range(3_000)}
    runs = manifest.check(spark, tables, None)
    known = [{"id": id_, "why": "known", "by": "erin"} for id_ in found]
    judged = {"days": [], "open": found}
    manifest.sign(spark, runs, "reconcile", runs.signed, judged=judged, acknowledged=known)

    done = expire(spark, tables, date.fromisoformat("2026-11-25"), None, not_to_sign)

    assert done.unsettled == ""


def a_week() -> list[Line]:
    """A process that ran all the time, and one before and one after the fourth day, each a record a day."""
    trail = Trail()
    lines: list[Line] = []
    for name, days in (("spanning", range(7)), ("earlier", range(3)), ("later", range(5, 7))):
        trail.clock.now_ms = NOON_MS + days[0] * DAY_MS
        process = trail.process(name, boot_id=f"{name}-1")
        for day in days:
            trail.clock.now_ms = NOON_MS + day * DAY_MS
            process.high_water()
            process.high_water()
        process.stop()
        lines += seal(process)
    return lines


@pytest.mark.long
@pytest.mark.spec("D15")
def test_an_unsettled_day_keeps_itself_and_the_days_beside_it_and_all_others_expire(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, tables)
    lines = a_week()
    # A hole on the first day, which somebody has acknowledged.
    delta.append_once(table(spark, [*lines[:1], *lines[2:]]), tables.audit, "test", 0)
    expire = "expire", "--tables", tables.root, "--before", "2026-11-30", "--confirm"

    def left() -> dict[str, list[str]]:
        """Process -> the days of its records."""
        rows = delta.read_table(spark, tables.audit).where(F.col(S.EVENT) != "started")
        found: dict[str, set[str]] = {}
        for row in rows.select(S.PROXY_ID, S.DATE).collect():
            found.setdefault(row[0], set()).add(str(row[1])[-2:])
        return {name: sorted(days) for name, days in found.items()}

    def found(*missing: str) -> set[str]:
        audit = delta.read_table(spark, tables.audit)
        for condition in missing:
            audit = audit.where(f"NOT ({condition})")
        expired = delta.read_state(spark, tables.expired, S.EXPIRED)
        checks = gaps(audit, expired=expired), chain(audit), boots(successions(audit))
        return {row[S.CHECK] for check in checks for row in check.collect()}

    assert found() == {"gaps.hole"}
    reconciled(spark, tables, findings=1, only="2026-11-26")
    assert run(*expire) == 0
    assert capsys.readouterr().out.endswith(
        " of 4 days; not these, which are not settled, nor the days beside them:"
        " 2026-11-26: 1 open finding(s)\n"
    )
    # The last record of each range stays: the next link is hashed from it.
    assert left() == {
        "spanning": ["24", "25", "26", "27", "29"],
        "earlier": ["24", "25"],
        "later": ["29"],
    }
    assert found() == set(), "nor is the hole a new finding"
    assert days_to_reconcile(spark, tables) == []
    assert found("proxy_id = 'spanning' AND date = '2026-11-26'") == {"gaps.hole"}, "what stays is evidence"
    assert run(*expire) == 2, "the others are gone"
    assert "nothing was expired, because some days are not settled" in capsys.readouterr().err

    reconciled(spark, tables, findings=0)
    assert run(*expire) == 0
    assert capsys.readouterr().out.endswith(" of 3 days\n")
    assert left() == {"spanning": ["29"], "earlier": ["25"], "later": ["29"]}
    assert found() == set()


@pytest.mark.long
def test_tables_are_compacted_to_few_files_with_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, tables)
    _, lines = a_long_trail()
    for number, line in enumerate(lines[:3]):
        delta.append_once(table(spark, [line]), tables.audit, "test", number)

    assert run("compact", "--tables", tables.root) == 0

    detail = spark.sql(f"DESCRIBE DETAIL delta.`{tables.audit}`").first()
    assert detail is not None
    assert detail["numFiles"] == 1
    assert delta.read_table(spark, tables.audit).count() == 3


@pytest.mark.long
@pytest.mark.spec("D7", "D8", "D9")
@pytest.mark.parametrize(("name", "edit"), [("reconciled", "findings = 7"), ("expired", "last_sequence = 7")])
def test_a_table_of_the_jobs_is_compacted_and_a_kill_before_it_was_signed_is_no_finding(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, edit: str
) -> None:
    tables = Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, tables)
    delta.append_once(table(spark, a_long_trail()[1]), tables.audit, "test", 0)
    for before in ("2026-11-24", "2026-11-25"):
        reconciled(spark, tables, findings=0)
        assert run("expire", "--tables", tables.root, "--before", before, "--confirm") == 0
    path = getattr(tables, name)
    rows = sorted(map(str, delta.read_table(spark, path).collect()))

    def files() -> int:
        return delta.files_of(spark, path).count()

    def killed(*_arguments: object, **_more: object) -> None:
        raise KeyboardInterrupt

    def found() -> list[str]:
        return [fault.check for fault in manifest.check(spark, tables, None).faults]

    assert (files(), days_to_reconcile(spark, tables)) == (2, [])
    with monkeypatch.context() as killing:
        killing.setattr(manifest, "end", killed)
        assert run("compact", "--tables", tables.root) == 2
    assert (files(), found()) == (1, ["manifest.unfinished"])
    # Somebody uses the time until it is run again.
    version = delta.version(spark, path)
    spark.sql(f"UPDATE delta.`{path}` SET {edit}")
    assert found() == ["manifest.table_altered", "manifest.unfinished"]
    spark.sql(f"RESTORE delta.`{path}` TO VERSION AS OF {version}")
    assert found() == ["manifest.unfinished"]

    assert run("compact", "--tables", tables.root) == 0
    assert (files(), found(), days_to_reconcile(spark, tables)) == (1, [], [])
    assert sorted(map(str, delta.read_table(spark, path).collect())) == rows


def test_without_being_confirmed_nothing_is_deleted(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        run("expire", "--tables", tmp_path, "--before", "2026-11-25")
