"""What comes on a day is found by the run that judges that day, also if it is about an earlier one.

The audit service judges one day at a time. Each test is somebody who knows that.
"""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.reconcile.forwarded import forwarded
from spark_audit.reconcile.gaps import gaps, records_after_stop
from spark_audit.reconcile.named_objects import named_differently
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.reconcile.unsigned import NotInEffect, VerifiedSignatures, unsigned
from spark_audit.tables import delta, manifest
from spark_audit.tables.delta import Tables, empty_frame
from spark_audit.tables.retention import days_to_reconcile, reconciled_days
from spark_audit.trail.audit_records import (
    ALWAYS,
    boots,
    complete_until_ms,
    first_open_day,
    sequence_index,
)
from tests.spark.audit_trail import NOON_MS, Clock, Process, Record, Trail, an_acl
from tests.spark.frames import audit_frame, log_frame
from tests.spark.sealed import MINUTE_MS, Line, Signing, seal, table

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D8", "D15")]

DAY_MS = 86_400_000
BEFORE, DAY = "2026-11-23", "2026-11-24"
MIDNIGHT_MS = NOON_MS + DAY_MS // 2
SECRET = bytes(range(40))
ADD = (18, "AccessControlEntryRecord")


def two_days() -> tuple[Trail, list[Line]]:
    """True processes on the first day; on the second one, those who want to be found by nobody."""
    trail = Trail()
    ended = Process("ended", trail.clock)
    ended.start()
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL t")
    told, _ = trail.forward("CreateAcls", [(*ADD, an_acl(2, "ALLOW User:bob * READ TOPIC LITERAL t"))])
    ended.stop()
    honest = Signing("honest", Clock(NOON_MS)).run()

    trail.clock.now_ms = NOON_MS + DAY_MS
    shared = {"principal": "User:admin", "host": "10.0.0.5", "method": "CreateAcls", "error_code": 0}
    # The controller makes a change of its own, and gives it the forward id of yesterday's request.
    first, last = trail._commit([(*ADD, an_acl(3, "ALLOW User:mallory * ALL TOPIC LITERAL t"))])
    own = {"forwarding_principal": "User:proxy-1", "first_offset": first, "last_offset": last}
    trail.controller.write("forwarded_received", forward_id="proxy-1-1", **own, **shared)
    # Another one's request has written what yesterday's has.
    own |= {"first_offset": told["last_offset"], "last_offset": told["last_offset"]}
    blamed = shared | {"principal": "User:carol", "forward_id": "proxy-1-9"}
    trail.controller.write("forwarded_received", **own, **blamed)
    trail.proxy.write("forwarded", last_offset=told["last_offset"], envelope_error_code=0, **blamed)
    # More records of a boot that has no key, after its end.
    ended.write("request_refused", message="added")
    # A state that differs from the one that has been in effect since yesterday.
    misled = Signing("misled", Clock(NOON_MS + DAY_MS))
    misled.digest = b"e" * 32
    misled.run()
    trail.stop()

    lines = [*seal(trail.controller, SECRET), *seal(trail.proxy, SECRET), *seal(ended)]
    lines += [*seal(honest, SECRET), *seal(misled, SECRET)]
    # Another content of yesterday's record.
    other = Process(told["proxy_id"], Clock(), boot_id=told["boot_id"])
    other.records = [dict(record) for record in trail.proxy.records]
    other.records[told["sequence"]] |= {"principal": "User:dave", "time_ms": NOON_MS + DAY_MS}
    lines.append(seal(other, SECRET)[told["sequence"]])
    return trail, sorted(lines, key=lambda line: int(json.loads(line.value)["data"]["time_ms"]))


@pytest.mark.long
def test_what_is_added_to_something_of_yesterday_is_found_today(spark: SparkSession) -> None:
    trail, lines = two_days()
    audit, log = table(spark, lines).persist(), log_frame(spark, trail.log)
    nothing = empty_frame(spark, S.QUARANTINE)

    def found(*days: str) -> dict[str, str]:
        rows = reconcile(audit, nothing, log, days=days, chain_key=SECRET).findings
        return {row[S.CHECK]: str(row[S.DATE]) for row in rows if row[S.CHECK] != "chain.process_missing"}

    today = dict.fromkeys(
        (
            *("forwarded.applied_twice", "forwarded.claimed_twice", "gaps.different_copies"),
            *("gaps.after_stop", "chain.unkeyed", "checkpoints.different_states"),
        ),
        DAY,
    )
    assert {check: day for check, day in found(DAY).items() if check in today} == today
    # Without days each is found once, on the newest of its days.
    assert {check: day for check, day in found().items() if check in today} == today


def test_a_record_with_a_time_of_before_midnight_is_found_on_its_own_day(spark: SparkSession) -> None:
    """The boot has ended on the next day. Its clock was not set back by more than an hour."""
    process = Process("ended", Clock(MIDNIGHT_MS + MINUTE_MS))
    process.start()
    process.stop()
    process.clock.now_ms = MIDNIGHT_MS - MINUTE_MS
    process.write("request_refused", message="added")

    found = records_after_stop(boots(sequence_index(table(spark, seal(process))))).collect()

    assert {str(row[S.DATE]) for row in found} == {BEFORE, DAY}
    assert len({row[S.ID] for row in found}) == 1


def test_who_records_a_forward_again_and_again_does_not_put_off_that_it_is_judged(
    spark: SparkSession,
) -> None:
    """By the time of its newest record, one side of it would always be on its way."""
    trail = Trail()
    _, received = trail.forward("CreateAcls", [(*ADD, an_acl(1, "ALLOW User:a * READ TOPIC LITERAL t"))])
    fields = ("forward_id", "method", "principal", "error_code")
    for _ in range(12):
        trail.clock.now_ms += MINUTE_MS
        trail.proxy.high_water()
        trail.controller.write("forwarded_received", **{name: received[name] for name in fields})
    audit = audit_frame(spark, [record for record in trail.audit if record["event"] != "forwarded"])
    until_ms = complete_until_ms(sequence_index(audit))

    def found(until_ms: int) -> list[str]:
        rows = forwarded(audit, log_frame(spark, trail.log), until_ms).collect()
        return [row[S.CHECK] for row in rows]

    assert until_ms < ALWAYS
    assert found(until_ms) == ["forwarded.unknown_to_proxy"]
    # What is on its way is not judged.
    assert found(received["time_ms"] + MINUTE_MS) == []


@pytest.mark.parametrize("stopped", [False, True])
def test_a_clock_that_is_ahead_makes_no_change_of_this_moment_unexplained(
    spark: SparkSession, stopped: bool
) -> None:
    """The log is read after the trail. A process that has stopped makes no other one silent."""
    trail = Trail()
    ahead = trail.process("proxy-2")
    for _ in range(2):
        trail.clock.now_ms += MINUTE_MS
        trail.proxy.high_water()
        trail.controller.high_water()
        ahead.high_water()
    if stopped:
        ahead.stop()
    now_ms = trail.clock.now_ms
    for record in ahead.records:
        record["appended_ms"] = record["time_ms"]
        record["time_ms"] += 7 * MINUTE_MS if stopped else MINUTE_MS

    assert complete_until_ms(sequence_index(audit_frame(spark, trail.audit))) < now_ms


@pytest.mark.spec("D7", "D8")
def test_a_day_is_judged_once_more_when_it_is_known_how_it_ended(spark: SparkSession, tmp_path: Path) -> None:
    """A process is killed, or its end is cut off, a minute before midnight. The service is early."""
    tables = Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, tables)
    killed, running = (Process(name, Clock(MIDNIGHT_MS - 2 * MINUTE_MS)) for name in ("killed", "running"))
    killed.start()
    running.start()
    for _ in range(4):
        running.clock.now_ms += MINUTE_MS
        running.high_water()
    until = len(running.records)
    for _ in range(4):
        running.clock.now_ms += MINUTE_MS
        running.high_water()
    lines = seal(killed) + seal(running)
    batches = lines[: until + 1], lines[until + 1 :]

    def ingested(batch: int) -> tuple[list[str], set[str]]:
        there = delta.read_table(spark, tables.audit).count()
        delta.append_once(table(spark, batches[batch], there), tables.audit, "test", batch)
        audit = delta.read_table(spark, tables.audit)
        open_days = days_to_reconcile(spark, tables)
        bad, log = (delta.read_table(spark, path) for path in (tables.quarantine, tables.metadata_log))
        runs, open_since = manifest.check(spark, tables, None), first_open_day(sequence_index(audit))
        judged = reconciled_days(
            *(audit, bad, log, [], delta.version(spark, tables.audit), open_days), open_since=open_since
        )
        delta.append_state(judged, tables.reconciled, S.RECONCILED)
        manifest.end(spark, tables, runs, "reconcile")
        return open_days, {row[S.CHECK] for row in gaps(audit).collect()}

    assert ingested(0) == ([BEFORE, DAY], set())
    assert ingested(1) == ([BEFORE, DAY], {"gaps.unfinished"})
    assert days_to_reconcile(spark, tables) == [DAY]


@pytest.mark.spec("S14")
def test_a_record_with_an_offset_that_nobody_can_have_applied_moves_no_unsigned_record_to_its_day(
    spark: SparkSession,
) -> None:
    """Who has the key of a proxy writes it once, and nobody looks at that day again."""
    process = Process("proxy-1", Clock(NOON_MS))
    process.start()
    process.write("request_refused", metadata_offset=2**60)
    process.clock.now_ms = NOON_MS + DAY_MS
    process.write("authentication", metadata_offset=11)
    verified = VerifiedSignatures(1, records=12, last=11, signed=3, missing_since=11)
    verified.not_in_effect.append(
        NotInEffect(11, "it has no signature", "AccessControlEntryRecord", "{}", "x")
    )

    found = unsigned(verified, audit_frame(spark, process.records)).collect()

    assert {(row[S.CHECK], str(row[S.DATE])) for row in found} == {
        ("log.unsigned", DAY),
        ("log.missing", DAY),
    }


def test_a_time_to_come_makes_no_other_process_a_crashed_one(spark: SparkSession) -> None:
    """Who has the key of a process writes one record of it a year ahead."""
    ahead, running = Process("ahead", Clock()), Process("running", Clock())
    for process in (ahead, running):
        process.start()
        for _ in range(3):
            process.clock.now_ms += MINUTE_MS
            process.high_water()
    ahead.stop()
    for record in (*ahead.records, *running.records):
        record["appended_ms"] = record["time_ms"]
    ahead.records[-1]["time_ms"] += 365 * DAY_MS

    assert gaps(audit_frame(spark, ahead.records + running.records)).collect() == []


def test_objects_that_differ_are_one_finding_for_each_difference(spark: SparkSession) -> None:
    """Of two records of one forward, it was left to chance which one was compared."""

    def named(name: str) -> list[Record]:
        details = dict.fromkeys(("resource_type", "principal"))
        return [{"type": "TOPIC", "name": name, "details": details}]

    process, controller = Process("proxy-1", Clock()), Process("controller-1", Clock(), role="controller")
    process.start()
    controller.start()
    process.write("forwarded", forward_id="one", method="CreateTopics", objects=named("a"))
    for name, day in (("b", 0), ("c", 1)):
        controller.clock.now_ms = NOON_MS + day * DAY_MS
        controller.write("forwarded_received", forward_id="one", method="CreateTopics", objects=named(name))
    audit = table(spark, seal(process) + seal(controller))

    found = [
        (json.loads(row[S.EVIDENCE])["received"], str(row[S.DATE]))
        for row in named_differently(audit).collect()
    ]

    assert sorted(found) == [(["TOPIC:b"], BEFORE), (["TOPIC:c"], BEFORE), (["TOPIC:c"], DAY)]
