"""The service `run --continuous`, as a process with its own JVM, before a real broker."""

import json
import os
import random
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_audit import __main__ as command_line
from spark_audit.jobs import reconcile_tables, table_in
from spark_audit.reconcile.past import Past
from spark_audit.service.exposition import Metrics
from spark_audit.service.schedule import DAY_S, Schedule
from spark_audit.service.service import Service, now_s
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from spark_audit.tables.findings import FindingsDocument
from tests.lab.cluster.broker import Broker
from tests.spark.audit_trail import DAY, NOON_MS, Clock, Process, Trail
from tests.spark.frames import audit_frame
from tests.spark.ingesting import Source, in_tables, log_records
from tests.spark.serving import PATIENCE_MS, get, metrics, service, wait_for
from tests.spark.stopping import kill
from tests.spark.test_manifest import appended_and_killed
from tests.support.set_clock import SetClock
from tests.support.waiting import until

MINUTES = float(os.environ.get("PENSTOCK_SERVICE_MINUTES", "0"))
"""Of the long form, `make service-kills`; 0 in `make test`."""
SEED = int(os.environ.get("PENSTOCK_SERVICE_SEED", "1"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "disk"
    mount.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(mount)]
    if (done := subprocess.run(mounting, check=False, capture_output=True, text=True)).returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr}")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def document(directory: Path) -> FindingsDocument:
    read: FindingsDocument = json.loads((directory / "out" / DAY / "findings.json").read_text())
    return read


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.spec("D9")
def test_the_service_reconciles_a_day_again_when_late_records_arrive_and_shows_how_fresh_it_is(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    source, tables = Source(broker.plaintext, "service"), Tables(str(tmp_path / "tables"))
    source.create()
    source.send_audit(source.records[:3])
    source.send_log(log_records(1, bad=0))

    begun_s = now_s()
    with service(source, tables, tmp_path) as process:
        wait_for(process, rf"reconciled {DAY}: .*; 3 records; manifest: run \d+")
        assert 'href="../index.html"' in (tmp_path / "out" / DAY / "report.html").read_text("utf-8")
        process.wait_until((tmp_path / "out" / "index.html").exists, PATIENCE_MS)
        assert f'href="{DAY}/report.html#changes"' in (tmp_path / "out" / "index.html").read_text("utf-8")
        source.send_audit(source.records[3:])
        wait_for(process, rf"reconciled {DAY}: .*; {len(source.records)} records; manifest: run \d+")
        process.wait_until(lambda: metrics(process)["penstock_reconciliation_open_days"] == 0, PATIENCE_MS)
        found = metrics(process)
        assert found['penstock_ingest_records_total{table="audit"}'] == len(source.records)
        assert found['penstock_ingest_offsets_behind{table="metadata_log"}'] == 0
        assert found['penstock_ingest_last_poll_timestamp_seconds{table="audit"}'] > begun_s
        assert found["penstock_reconciliation_last_success_timestamp_seconds"] > begun_s
        assert found["penstock_reconciliation_failures_total"] == 0
        by_severity = {
            severity: found[f'penstock_reconciliation_findings{{severity="{severity}"}}']
            for severity in ("critical", "high", "medium")
        }
        # Those of all days: the log's record is of today.
        of_days = [json.loads(each.read_text()) for each in (tmp_path / "out").glob("*/findings.json")]
        assert by_severity == {
            severity: sum(each["summary"]["findings"][severity] for each in of_days)
            for severity in by_severity
        }
        # On a slow machine the reconciliation keeps the streams waiting for more than a minute.
        process.wait_until(lambda: get(process, "/readyz") == (200, "ok\n"), PATIENCE_MS)
        assert get(process, "/livez") == (200, "ok\n")
        assert get(process, "/other")[0] == 404
        process.signal(signal.SIGTERM)
        assert process.wait(PATIENCE_MS) == 0

    assert in_tables(spark, tables, source.topics) == source.held()
    assert command_line.main(["verify", "--tables", tables.root]) == 0


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.spec("D9")
def test_the_service_is_not_ready_while_no_broker_is_there_and_goes_on_when_one_is(
    broker: Broker, tmp_path: Path
) -> None:
    source, tables = Source(broker.plaintext, "away"), Tables(str(tmp_path / "tables"))
    source.create()
    source.send_audit(source.records[:3])
    impatient = {"default.api.timeout.ms": 4000, "request.timeout.ms": 2000}

    with service(source, tables, tmp_path, **impatient) as process:
        wait_for(process, rf"reconciled {DAY}: .*; 3 records")
        broker.process.kill()
        # A stream finds out first, or what looks at the topics between two of its batches.
        wait_for(process, r"retrying every \d+ seconds")
        process.wait_until(lambda: get(process, "/readyz")[0] == 503, PATIENCE_MS)
        assert "stream audit has not looked for records for 60 s\n" in get(process, "/readyz")[1]
        assert get(process, "/livez")[0] == 200
        broker.start()
        source.send_audit(source.records[3:])
        wait_for(process, rf"reconciled {DAY}: .*; {len(source.records)} records")
        process.wait_until(lambda: get(process, "/readyz")[0] == 200, PATIENCE_MS)


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.spec("D9")
@pytest.mark.skipif(not MINUTES, reason="its long form is `make service-kills`")
def test_a_service_that_is_killed_at_random_moments_loses_and_doubles_nothing(
    spark: SparkSession, kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    source, tables = Source(kafka.plaintext, topic_name), Tables(str(tmp_path / "tables"))
    source.create()
    source.send_log(log_records(1, bad=0))
    moments, stopped = random.Random(SEED), threading.Event()
    proxy = Process("proxy-1", Clock())
    proxy.start()

    def send() -> None:
        sent = 0
        while not stopped.wait(0.5):
            proxy.high_water()
            source.send_audit(proxy.records[sent:])
            sent = len(proxy.records)

    sending = threading.Thread(target=send)
    sending.start()
    killed, until_s = 0, now_s() + MINUTES * 60
    try:
        while now_s() < until_s:
            with service(source, tables, tmp_path) as process:
                wait_for(process, "reading ")
                stopped.wait(moments.uniform(0, 40))
                assert process.returncode is None, process.log_text()
                kill(process)
                killed += 1
    finally:
        stopped.set()
        sending.join()
    source.send_audit([proxy.stop()])
    with service(source, tables, tmp_path) as process:
        wait_for(process, rf"reconciled {DAY}: .*; {len(proxy.records)} records")
        process.signal(signal.SIGTERM)
        assert process.wait(PATIENCE_MS) == 0

    assert killed > 0
    assert in_tables(spark, tables, source.topics) == source.held()
    assert command_line.main(["verify", "--tables", tables.root]) == 0
    found = {each["check"] for each in document(tmp_path)["findings"]}
    assert not any(check.startswith(("manifest.", "gaps.", "chain.")) for check in found), found


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.spec("D9")
def test_a_clock_that_is_set_back_stops_no_stream_and_one_that_is_set_forward_deletes_no_day(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, tables = Source(broker.plaintext, "clock"), Tables(str(tmp_path / "tables"))
    source.create()
    source.send_log(log_records(1, bad=0))
    clock, proxy = SetClock(tmp_path), Process("proxy-1", Clock())
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    proxy.start()
    proxy.high_water()
    source.send_audit(proxy.records)

    with service(source, tables, tmp_path, "--retain-days", "300") as process:
        wait_for(process, rf"reconciled {DAY}: .*; 2 records")
        clock.set_by(-7_200)
        wait_for(process, r"the clock was set back by 1:59:5\S+; the streams start again")
        source.send_audit([proxy.high_water(), proxy.stop()])
        wait_for(process, rf"reconciled {DAY}: .*; 4 records")
        clock.set_by(400 * DAY_S)
        wait_for(process, "expired: 0 records of 0 days\n")
        wait_for(process, "\ncompacted\n")
        process.signal(signal.SIGTERM)
        assert process.wait(PATIENCE_MS) == 0

    assert in_tables(spark, tables, source.topics) == source.held()
    # That the clock was set back is all that is found (0181).
    assert command_line.main(["verify", "--tables", tables.root]) == 1
    said = capsys.readouterr()
    assert "differences: 1\n" in said.out
    assert "the clock of the first one's host was ahead, or that of the second one's behind" in (
        said.out + said.err
    )


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.spec("D9", "D4")
def test_a_full_disk_ends_the_service_and_a_second_service_is_none(
    spark: SparkSession, broker: Broker, tmp_path: Path, small_disk: Path
) -> None:
    """Both end with code 2 and one line that says why; nothing is lost, and nothing is there twice."""
    source, tables = Source(broker.plaintext, "full"), Tables(str(small_disk / "tables"))
    source.create()
    source.send_audit(source.records[:3])
    source.send_log(log_records(1, bad=0))
    filler = small_disk / "filler"

    with service(source, tables, tmp_path) as process:
        wait_for(process, rf"reconciled {DAY}: .*; 3 records")
        with service(source, tables, tmp_path / "second") as second:
            assert second.wait(PATIENCE_MS) == 2
        assert second.log_text().splitlines()[-1] == (
            f"penstock audit: another job is writing to {tables.root}: wait for it or stop it"
        )
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(1024)):
                pass
        source.send_audit(source.records[3:])
        assert process.wait(PATIENCE_MS) == 2
    last = process.log_text().splitlines()[-1]
    assert last.startswith("penstock audit: ")
    assert "No space left on device" in last

    filler.unlink()
    with service(source, tables, tmp_path / "again") as process:
        wait_for(process, rf"reconciled {DAY}: .*; {len(source.records)} records")
        process.signal(signal.SIGTERM)
        assert process.wait(PATIENCE_MS) == 0
    assert in_tables(spark, tables, source.topics) == source.held()
    assert command_line.main(["verify", "--tables", tables.root]) == 0


@pytest.mark.spec("D9")
def test_reconciliations_follow_the_ends_of_intervals_and_maintenance_the_end_of_the_day() -> None:
    hourly, often = Schedule(3600), Schedule(60)
    midnight = 20_000 * DAY_S

    assert hourly.next_after(midnight + 600) == midnight + 3600 + 120
    assert hourly.next_after(midnight + 3600 + 60) == midnight + 3600 + 120
    assert hourly.next_after(midnight + 3600 + 120) == midnight + 7200 + 120
    assert often.next_after(midnight) == midnight + 6
    assert (hourly.retry_after(midnight), often.retry_after(midnight)) == (midnight + 300, midnight + 60)
    assert (hourly.late_s, often.late_s) == (7200, 300)
    assert hourly.maintenance_after(midnight + 1) == midnight + DAY_S + 120


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.spec("D9", "D15")
def test_tables_are_compacted_although_a_finding_keeps_old_days_from_being_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables, told = Tables(str(tmp_path / "tables")), list[str]()
    delta.create_tables(spark, tables)
    for number, record in enumerate(Trail(Clock(NOON_MS - 400 * 86_400_000)).audit):
        arrived = record | {"appended_ms": NOON_MS}
        delta.append_once(audit_frame(spark, [arrived]), tables.audit, "test", number)
    service = Service(
        *(spark, tables, str(tmp_path / "out"), None, None, Schedule(3600, retain_days=1), Metrics()),
        *(told.append, threading.Event(), lambda: None, str, {}),
    )

    service.while_stopped()
    service.close()

    [refused, done] = told
    assert refused.startswith("no day was deleted: nothing was expired, because some days are not settled")
    assert done == "compacted"


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.spec("D8", "D9")
def test_findings_that_no_run_has_written_are_not_shown_again(spark: SparkSession, tmp_path: Path) -> None:
    tables, out, told = Tables(str(tmp_path / "tables")), tmp_path / "out", list[str]()
    delta.create_tables(spark, tables)
    delta.append_once(audit_frame(spark, Trail().stop().audit), tables.audit, "test", 0)
    reconcile_tables(spark, tables, str(out / DAY), [DAY], None, table=table_in(str(out)))
    forged = out / "2026-11-24" / "findings.json"
    forged.parent.mkdir()
    forged.write_text((out / DAY / "findings.json").read_text().replace(DAY, "2026-11-24"))

    Service(
        *(spark, tables, str(out), None, None, Schedule(3600), Metrics()),
        *(told.append, threading.Event(), lambda: None, str, {}),
    ).close()

    assert told == [f"not shown: {forged} was written by no run of the manifest"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.spec("D9")
@pytest.mark.parametrize("failure", [AuditError("the directory of the log is away"), KeyError("a defect")])
def test_the_service_reads_the_past_again_once_a_day_and_after_a_failure(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    forgot, told = list[str](), list[str]()
    monkeypatch.setattr(Past, "forget", lambda past: forgot.append("all"))

    def away() -> None:
        raise failure

    tables = Tables(str(tmp_path / "tables"))
    service = Service(
        *(spark, tables, str(tmp_path / "out"), None, None, Schedule(3600), Metrics()),
        *(told.append, threading.Event(), away, str, {}),
    )
    assert forgot == ["all"], "it starts without a memory"
    service.while_reading([])
    until(lambda: service.while_reading([]) or told != [])
    assert forgot == ["all"] * 2
    assert told[0].startswith(f"reconciliation failed: {failure}")

    service.while_stopped()
    service.close()
    assert forgot == ["all"] * 3


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.spec("D9")
@pytest.mark.parametrize("killed_before", ["the page", "the page without an end", "the findings were signed"])
def test_a_day_whose_page_was_not_written_is_judged_once_more(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_before: str
) -> None:
    """The disk was full, or the process was killed. Meanwhile records of an earlier day came."""
    tables, out, told = Tables(str(tmp_path / "tables")), tmp_path / "out", list[str]()
    delta.create_tables(spark, tables)
    records = Trail().stop().audit
    delta.append_once(audit_frame(spark, records), tables.audit, "test", 0)

    def a_service() -> Service:
        return Service(
            *(spark, tables, str(out), None, None, Schedule(3600), Metrics()),
            *(told.append, threading.Event(), lambda: None, str, {}),
        )

    page, service = out / DAY / "report.html", a_service()
    if killed_before.startswith("the page"):
        page.mkdir(parents=True)
        with pytest.raises(AuditError, match=re.escape(f"{page} cannot be written: Is a directory")):
            service._reconcile_open_days()
        page.rmdir()
    else:
        with monkeypatch.context() as patched:
            patched.setattr(delta, "append_state", appended_and_killed)
            with pytest.raises(SystemExit):
                reconcile_tables(spark, tables, str(out / DAY), [DAY], None, table=table_in(str(out)))
    earlier = Trail(Clock(NOON_MS - 5 * DAY_S * 1000), prefix="old-").stop().audit
    delta.append_once(audit_frame(spark, earlier, len(records)), tables.audit, "test", 1)

    if restarted := killed_before != "the page without an end":
        service = a_service()
    service._reconcile_open_days()
    count = len(told)
    days = [line.split(":")[0].split()[-1] for line in told[-2:]]
    # A page that failed in this process may fail again.
    assert days == ([DAY, "2026-11-18"] if restarted else ["2026-11-18", DAY])
    assert page.exists()
    assert command_line.main(["verify", "--tables", tables.root]) == 0
    service._reconcile_open_days()
    assert len(told) == count
