"""Records that come late: into their own day, which then has to be looked at again before it may expire."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_audit import __main__ as command_line
from spark_audit import schema as S
from spark_audit.ingest import decode
from spark_audit.reconcile.chain import boots, chain, successions
from spark_audit.reconcile.gaps import gaps
from spark_audit.tables import delta, manifest
from spark_audit.tables.delta import Tables
from spark_audit.tables.retention import reconciled_days
from tests.spark.audit_trail import NOON_MS, Trail
from tests.spark.frames import kafka_frame
from tests.spark.sealed import Line, altered, end_of, seal

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D4")]

DAY_MS = 86_400_000
YESTERDAY, TODAY, TOMORROW = "2026-11-23", "2026-11-24", "2026-11-25"
Command = Callable[..., int]


def two_days() -> list[Line]:
    """A proxy that ran over midnight, and the next one, which says that it crashed and lost nothing."""
    trail = Trail()
    first = trail.process("proxy-7", boot_id="boot-7")
    for now_ms in (NOON_MS, NOON_MS + DAY_MS):
        trail.clock.now_ms = now_ms
        for _ in range(3):
            trail.ask("User:alice 10.0.0.1 READ TOPIC orders", first, method="Fetch")
    lines = seal(first)
    trail.clock.now_ms = NOON_MS + DAY_MS + 60_000
    second = trail.process("proxy-7", boot_id="boot-8")
    second.stop()
    return [*lines, *seal(second, previous=end_of(lines))]


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    made = Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, made)
    return made


@pytest.fixture
def run(tables: Tables) -> Command:
    def command(name: str, *arguments: str) -> int:
        return command_line.main([name, "--tables", tables.root, *arguments])

    return command


def send(spark: SparkSession, tables: Tables, lines: list[Line], batch: int) -> None:
    """They come to the topic after all that came before, today."""
    there = delta.read_table(spark, tables.audit).count()
    kafka = kafka_frame(spark, [(None, None)] * there + [(line.key, line.value) for line in lines])
    new = kafka.where(F.col("offset") >= there)
    rows = new.transform(decode.check_audit).transform(decode.audit_rows)
    delta.append_once(rows, tables.audit, "stream", batch)


def reconciled(spark: SparkSession, tables: Tables) -> None:
    """As if every day had just been reconciled, without a finding."""
    paths = tables.audit, tables.quarantine, tables.metadata_log
    audit, bad, log = (delta.read_table(spark, path) for path in paths)
    version = delta.version(spark, tables.audit)
    runs = manifest.check(spark, tables, None)
    delta.append_state(reconciled_days(audit, bad, log, [], version), tables.reconciled, S.RECONCILED)
    manifest.end(spark, tables, runs, "reconcile")


def days(spark: SparkSession, tables: Tables) -> Counter[str]:
    rows = delta.read_table(spark, tables.audit).select(S.DATE).collect()
    return Counter(str(row[0]) for row in rows)


@pytest.mark.long
def test_a_record_sent_again_a_day_later_goes_to_its_day_which_is_then_reconciled_before_it_expires(
    spark: SparkSession, tables: Tables, run: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = two_days()
    send(spark, tables, lines, 0)
    assert days(spark, tables) == Counter({YESTERDAY: 4, TODAY: 5})
    reconciled(spark, tables)

    # The proxy was killed before it knew that the topic had it: it is shipped again.
    send(spark, tables, [lines[2]], 1)
    assert days(spark, tables) == Counter({YESTERDAY: 5, TODAY: 5})
    capsys.readouterr()
    assert run("expire", "--before", TODAY, "--confirm") == 2
    assert f"{YESTERDAY}: records arrived after it was reconciled" in capsys.readouterr().err
    # Twice the same is no finding.
    assert gaps(delta.read_table(spark, tables.audit)).collect() == []
    reconciled(spark, tables)
    assert run("expire", "--before", TODAY, "--confirm") == 0
    assert days(spark, tables) == Counter({YESTERDAY: 2, TODAY: 5})


@pytest.mark.long
@pytest.mark.spec("D8")
def test_what_comes_among_expired_records_is_signed_by_no_job_before_somebody_has_looked(
    spark: SparkSession, tables: Tables, run: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process has sent an old record again, or somebody has forged one: the link before it is gone."""
    lines = two_days()
    send(spark, tables, lines, 0)
    reconciled(spark, tables)
    assert run("expire", "--before", TODAY, "--confirm") == 0

    # And one more day that was looked at: yesterday never again.
    forged = altered(lines[1], host="10.9.9.9")
    send(spark, tables, [forged], 1)
    assert days(spark, tables) == Counter({YESTERDAY: 3, TODAY: 5})
    capsys.readouterr()
    assert run("verify") == 1
    assert capsys.readouterr().err == (
        "penstock audit: 1 record(s) of process proxy-7/boot-7 came after those around them had expired: no"
        " link proves them (sequences 1)\n"
    )
    for job in (["compact"], ["expire", "--before", TOMORROW, "--confirm"]):
        assert run(*job) == 2
    assert run("verify", "--accept") == 0
    assert run("expire", "--before", TOMORROW, "--confirm") == 0

    left = delta.read_table(spark, tables.audit).orderBy(S.TIME_MS).select(S.BOOT_ID, S.EVENT).collect()
    assert [tuple(row) for row in left] == [
        ("boot-7", "started"),
        ("boot-7", "authorization"),
        ("boot-8", "started"),
        ("boot-8", "stopped"),
    ]
    audit, expired = delta.read_table(spark, tables.audit), tables.expired
    assert gaps(audit, expired=delta.read_state(spark, expired, S.EXPIRED)).collect() == []
    assert chain(audit).collect() == boots(successions(audit)).collect() == []
