"""What comes on a day is found by the run that judges that day, also if it is about an earlier one.

The audit service judges one day at a time. Each test is somebody who knows that.
"""

import json
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.behind import behind
from spark_audit.reconcile.clocks import clocks, skews
from spark_audit.reconcile.forwarded import forwarded
from spark_audit.reconcile.gaps import gaps, records_after_stop
from spark_audit.reconcile.named_objects import named_differently
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.reconcile.settings import known_settings
from spark_audit.reconcile.unsigned import NotInEffect, VerifiedSignatures, unsigned
from spark_audit.tables import delta, manifest
from spark_audit.tables.delta import Tables, empty_frame
from spark_audit.tables.retention import days_to_reconcile, reconciled_days
from spark_audit.trail.audit_records import (
    ALWAYS,
    boots,
    complete_until_ms,
    days_to_judge_with,
    first_open_day,
    sequence_index,
)
from tests.lab.tampering import judging, matrix, scene
from tests.lab.tampering.topics import DENIAL, untouched, variants
from tests.spark import test_boots, test_checkpoints, test_kraft_changes
from tests.spark.audit_trail import NOON_MS, Clock, Process, Record, Trail, acl_id, an_acl
from tests.spark.frames import audit_frame, log_frame
from tests.spark.sealed import MINUTE_MS, Line, Signing, seal, table
from tests.spark.test_forwarded import named_acl, planted

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D8", "D15")]

DAY_MS = 86_400_000
BEFORE, DAY = "2026-11-23", "2026-11-24"
MIDNIGHT_MS = NOON_MS + DAY_MS // 2
SECRET = bytes(range(40))
ADD = (18, "AccessControlEntryRecord")
LATER = (
    ("forwarded_received", "CreateAcls", 500),
    ("forwarded_received", "CreateAcls", 502),
    ("acls_ended", "DeleteAcls", 504),
)
"""Claims: event, method, offset."""
WRITTEN_LATER = ADD, (14, "ClientQuotaRecord"), (19, "RemoveAccessControlEntryRecord")


def two_days() -> tuple[Trail, list[Line]]:
    """True processes on the first day; on the second one, those who want to be found by nobody."""
    trail = Trail()
    ended = Process("ended", trail.clock)
    ended.start()
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL t")
    told, _ = trail.forward("CreateAcls", [(*ADD, an_acl(2, "ALLOW User:bob * READ TOPIC LITERAL t"))])
    ended.stop()
    honest = Signing("honest", Clock(NOON_MS)).run()
    # Claims of what the log has only on the next day, in the name of a process that starts then, too.
    pretender = Process("pretender", Clock(NOON_MS), role="controller")
    for process in (trail.controller, pretender):
        for event, method, offset in LATER:
            claim = {"method": method, "first_offset": offset, "last_offset": offset, "error_code": 0}
            claim |= {"forward_id": f"later-{offset}", "principal": "User:admin"} if offset < 504 else {}
            objects = [named_acl(7)] if offset == 500 else None
            process.write(event, objects=objects, **claim)
    # A session that has ended, and one that ends in the night.
    served = {"method": "Fetch", "connection_id": "c", "principal": "User:alice"}
    serving = Process("serving", Clock(NOON_MS))
    serving.start()
    serving.write("authentication", session_lifetime_ms=MINUTE_MS, error_code=0, **served)
    serving.clock.now_ms += 2 * MINUTE_MS
    serving.write("authorization", **served)
    # Two boots of one process, one after the other.
    twins = [Process("twice", Clock(NOON_MS + at * MINUTE_MS), boot_id=f"twin-{at}") for at in (1, 2)]
    for twin in twins:
        twin.start()
        twin.high_water()

    trail.clock.now_ms = NOON_MS + DAY_MS
    serving.clock.now_ms = twins[0].clock.now_ms = NOON_MS + DAY_MS
    serving.write("authorization", **served)
    twins[0].high_water()
    starting = Process("pretender", Clock(NOON_MS + DAY_MS), boot_id="boot-2")
    starting.start()
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
    lines += [
        line for each in (honest, misled, pretender, starting, serving, *twins) for line in seal(each, SECRET)
    ]
    changes = (
        an_acl(8, "ALLOW User:mallory * ALL TOPIC LITERAL *"),
        {"entity": {}, "key": "k"},
        {"id": acl_id(1)},
    )
    for (_, _, offset), (api_key, record), body in zip(LATER, WRITTEN_LATER, changes, strict=True):
        text = json.dumps(body)
        trail.log.append(
            trail.log[-1]
            | {"offset": offset, "api_key": api_key, "record": record, "body": text, "entity": ""}
        )
    # Another content of yesterday's record.
    other = Process(told["proxy_id"], Clock(), boot_id=told["boot_id"])
    other.records = [dict(record) for record in trail.proxy.records]
    other.records[told["sequence"]] |= {"principal": "User:dave", "time_ms": NOON_MS + DAY_MS}
    lines.append(seal(other, SECRET)[told["sequence"]])
    return trail, sorted(lines, key=lambda line: int(json.loads(line.value)["data"]["time_ms"]))


Rows = tuple[DataFrame, DataFrame, DataFrame]
"""Tables `audit`, `quarantine` and `metadata_log`."""
Judge = Callable[[Rows, Sequence[str]], set[tuple[str, ...]]]
"""What is found of some days, or of all, and of whom."""
LATER_MS = 2 * 3_600_000


class Ingested(NamedTuple):
    """A trail of two days. The second one begins at `midnight_ms`, whatever its times say."""

    rows: Rows
    judge: Judge
    midnight_ms: int

    def by_days(self) -> Rows:
        times = (
            F.col(S.TIME_MS),
            F.unix_millis(S.KAFKA_TIMESTAMP),
            F.unix_millis(S.LOG_TIMESTAMP),
        )
        audit, bad, log = (
            rows.withColumn(
                S.DATE, F.when(time_ms < self.midnight_ms, BEFORE).otherwise(DAY).cast("date")
            ).persist()
            for rows, time_ms in zip(self.rows, times, strict=True)
        )
        return audit, bad, log


def of_whom(row: Row) -> tuple[str, ...]:
    """The check, and the names in the evidence that do not change as more comes."""
    proof = json.loads(row[S.EVIDENCE])
    names = (S.PROXY_ID, S.BOOT_ID, S.FORWARD_ID, S.LOG_OFFSET, "process", S.CONNECTION_ID)
    return row[S.CHECK], *(str(proof[name]) for name in names if name in proof)


def of_each(spark: SparkSession, audit: DataFrame, log: DataFrame, **more: Any) -> tuple[Rows, Judge]:
    """A trail, and a process that runs two hours later, so that what was before is over."""
    end_ms = audit.agg(F.max(S.TIME_MS)).collect()[0][0]
    later = Process("later", Clock(end_ms + LATER_MS))
    later.start()
    later.stop()
    rows = audit.unionByName(table(spark, seal(later), first_offset=100_000))

    def judge(rows: Rows, days: Sequence[str]) -> set[tuple[str, ...]]:
        return {of_whom(row) for row in reconcile(*rows, days=days, **more).findings}

    return (rows, empty_frame(spark, S.QUARANTINE), log), judge


def of_edits(spark: SparkSession, _: int) -> Ingested:
    """Each edit of topics and spool once. The second day begins with a decision in a boot."""
    edits = dict(enumerate({variant.cell: variant for variant in variants()}.values()))
    last = len(edits) + 1
    made = {number: variant.make(number) for number, variant in edits.items()}
    rows = judging.tables(spark, made | {last + 1: untouched(last + 1)} | matrix.late(last))

    def judge(rows: Rows, days: Sequence[str]) -> set[tuple[str, ...]]:
        found = judging.found_in(rows, days)
        return {(check, *edits[each].cell) for each in found if each in edits for check in found[each]}

    return Ingested(rows, judge, scene.scene(0).first.records[DENIAL]["time_ms"])


def of_checkpoints(spark: SparkSession, minutes: float) -> Ingested:
    lines = [line for each in test_checkpoints.a_trail().values() for line in each]
    audit = table(spark, lines)
    more = of_each(spark, audit, empty_frame(spark, S.METADATA_LOG), public_keys=test_checkpoints.KEYS)
    return Ingested(*more, NOON_MS + int(minutes * MINUTE_MS))


def of_kafka(spark: SparkSession, _: int) -> Ingested:
    """What nobody has asked Kafka's controller for, what is lost, and what names other objects."""
    cluster = test_kraft_changes.Cluster()
    fields, alice = test_kraft_changes.acl(1)
    named = test_kraft_changes.an_object("USER", "carol", "UPSERT", details={"mechanism": "SCRAM-SHA-256"})
    told: test_kraft_changes.Change = ["UserScramCredentialRecord", "alice", "SCRAM-SHA-256", "4096"]
    cluster.done("add", [(18, fields)], test_kraft_changes.added(alice))
    cluster.done("other user", [test_kraft_changes.CREDENTIAL], told, objects=[named])
    test_kraft_changes.go_past_the_proxy(cluster)
    middle_ms = cluster.clock.now_ms
    test_kraft_changes.lose(cluster)
    cluster.proxy.stop()
    # A part of the log that no segment has.
    del cluster.log[-1]
    rows = audit_frame(spark, cluster.proxy.records)
    more = of_each(spark, rows, log_frame(spark, cluster.log))
    return Ingested(*more, middle_ms)


def of_forwards(spark: SparkSession, share: float) -> Ingested:
    trail, left = planted()
    more = of_each(spark, audit_frame(spark, left), log_frame(spark, trail.log))
    return Ingested(*more, int(NOON_MS + share * (trail.clock.now_ms - NOON_MS)))


def of_boots(spark: SparkSession, minutes: float) -> Ingested:
    ways = "whole", "cut", "later", "rewritten", "removed", "fork", "unnamed"
    lines = [line for way in ways for boot in test_boots.three_boots(way) for line in boot]
    more = of_each(spark, table(spark, lines), empty_frame(spark, S.METADATA_LOG))
    return Ingested(*more, NOON_MS + int(minutes * MINUTE_MS))


def of_additions(spark: SparkSession, _: int) -> Ingested:
    """What somebody adds on the second day to something of the first one."""
    trail, lines = two_days()
    more = of_each(spark, table(spark, lines), log_frame(spark, trail.log), chain_key=SECRET)
    return Ingested(*more, MIDNIGHT_MS)


TRAILS: dict[str, tuple[Callable[..., Ingested], Any, set[str]]] = {
    "edits": (of_edits, 0, {"changes.unexplained", "chain.altered", "decisions.wrongly_granted"}),
    "checkpoints": (of_checkpoints, 1.5, {"checkpoints.not_valid", "checkpoints.after_the_last"}),
    "boots": (of_boots, 2.005, {"chain.forked", "chain.other_end"}),
    "Kafka's controller": (of_kafka, 0, {"changes.not_made", "changes.unexplained"}),
    "forwards": (of_forwards, 0.5, {"forwarded.not_in_the_log", "forwarded.sent_twice"}),
    "additions": (
        of_additions,
        0,
        {
            *("forwarded.not_a_controller", "changes.unnamed"),
            *("changes.foreign_kind", "changes.not_by_itself", "sessions.overrun", "gaps.same_id_twice"),
            *("forwarded.applied_twice", "forwarded.claimed_twice", "gaps.different_copies"),
            *("gaps.after_stop", "chain.unkeyed", "checkpoints.different_states"),
        },
    ),
}
"""Name -> how it is made, where its midnight is, some of what is found in it."""
IN_ORDER = {"Kafka's controller"}
"""If the first day comes later, findings of these are dropped (decision 0196, "Not solved")."""


@pytest.mark.long
@pytest.mark.parametrize("name", TRAILS)
def test_what_is_found_of_a_whole_trail_is_found_day_by_day(spark: SparkSession, name: str) -> None:
    """One day comes after the other, or before it, as the partitions of a topic may.

    The run of a day judges that day, by all that has come. What comes second comes an hour or more later.
    """
    make, midnight, some = TRAILS[name]
    made = make(spark, midnight)
    rows = made.by_days()
    whole = made.judge(rows, ())
    lost = {}
    orders = ((BEFORE, DAY),) if name in IN_ORDER else ((BEFORE, DAY), (DAY, BEFORE))
    for first, then in orders:
        has_come = F.col(S.DATE) == first
        # What runs long after that has come at once.
        is_later = F.col(S.TIME_MS) > made.midnight_ms + LATER_MS * 3 // 4
        audit, quarantine, log = (each.where(has_come) for each in rows)
        early = audit.unionByName(rows[0].where(~has_come & is_later)), quarantine, log
        came_ms = F.unix_millis(S.KAFKA_TIMESTAMP) + F.when(F.col(S.DATE) == then, LATER_MS).otherwise(0)
        came = rows[0].withColumn(S.KAFKA_TIMESTAMP, F.timestamp_millis(came_ms))
        judged = days_to_judge_with(sequence_index(came, by_day=True), [then])
        found = made.judge(early, [first]).union(*(made.judge(rows, [day]) for day in judged))
        lost[then] = whole - found

    assert lost == {then: set() for _, then in orders}
    assert some <= {check for check, *_ in whole}


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


@pytest.mark.parametrize(
    ("minutes_later", "changed", "judged"),
    [
        (1, DAY, [DAY]),
        (60, DAY, [BEFORE, DAY]),
        (60, "2026-11-20", ["2026-11-20"]),
        (-60, BEFORE, [BEFORE, DAY]),
    ],
)
def test_a_day_is_judged_with_the_one_on_which_a_boot_that_was_taken_for_gone_goes_on(
    spark: SparkSession, minutes_later: int, changed: str, judged: list[str]
) -> None:
    """Whoever holds its records back chooses when they come."""
    process = Process("held back", Clock(MIDNIGHT_MS - MINUTE_MS))
    process.start()
    process.clock.now_ms = MIDNIGHT_MS + MINUTE_MS
    process.high_water()
    later_ms = F.when(F.col(S.DATE) == DAY, minutes_later * MINUTE_MS).otherwise(0)
    audit = table(spark, seal(process)).withColumn(S.KAFKA_TIMESTAMP, F.timestamp_millis(NOON_MS + later_ms))

    assert days_to_judge_with(sequence_index(audit, by_day=True), [changed]) == judged


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


@pytest.mark.long
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

    found = unsigned(verified, audit_frame(spark, process.records), log_frame(spark, [])).collect()

    assert {(row[S.CHECK], str(row[S.DATE])) for row in found} == {
        ("log.unsigned", DAY),
        ("log.missing", DAY),
    }


@pytest.mark.spec("S14")
def test_a_process_that_names_an_offset_in_advance_moves_no_unsigned_record_to_that_day(
    spark: SparkSession,
) -> None:
    """Once the log reaches that offset, it is one that the process can have applied, by its own word."""
    process = Process("proxy-1", Clock(NOON_MS))
    process.start()
    process.write("request_refused", metadata_offset=11)
    verified = VerifiedSignatures(1, records=12, last=11, signed=3, missing_since=11)
    verified.not_in_effect.append(NotInEffect(11, "it has no signature", ADD[1], "{}", "x"))
    written = {"offset": 11, "time_ms": NOON_MS + DAY_MS, "api_key": ADD[0], "record": ADD[1], "version": 0}
    log = log_frame(spark, [written | {"body": "{}", "entity": ""}])

    found = unsigned(verified, audit_frame(spark, process.records), log).collect()

    assert sorted((row[S.CHECK], str(row[S.DATE])) for row in found) == [
        (check, day) for check in ("log.missing", "log.unsigned") for day in (BEFORE, DAY)
    ]


@pytest.mark.spec("S14")
def test_what_one_process_had_applied_may_come_to_the_trail_when_the_others_were_judged(
    spark: SparkSession,
) -> None:
    """Who withholds the log from a process also withholds what another one has recorded, until tomorrow."""
    trail = Trail(Clock(MIDNIGHT_MS - 10 * MINUTE_MS))
    trail.add_acl(1, "ALLOW User:a * READ TOPIC LITERAL t")
    before = trail.offset
    trail.add_acl(2, "DENY User:a * READ TOPIC LITERAL t")
    withheld = Process("withheld", Clock(MIDNIGHT_MS), boot_id="withheld-1")
    withheld.start()
    for _ in range(9):
        withheld.clock.now_ms += MINUTE_MS
        withheld.write("checkpoint", metadata_offset=before)
    few = audit_frame(spark, [*trail.controller.records, *withheld.records])
    skewed = skews(sequence_index(few))

    def found(*days: str) -> list[str]:
        wanted = [date.fromisoformat(day) for day in days]
        return [
            str(row[S.DATE]) for row in behind(few, log_frame(spark, trail.log), skewed, wanted).collect()
        ]

    assert sorted(found(BEFORE)) == sorted(found(DAY)) == sorted(found()) == [BEFORE, DAY]


def test_what_is_wrong_with_a_boot_shows_on_each_of_its_days(spark: SparkSession) -> None:
    """One record with a time to come would be its last day, and of all that it does until then."""
    process = Process("ahead", Clock(MIDNIGHT_MS - MINUTE_MS))
    process.start()
    for _ in range(3):
        process.clock.now_ms += MINUTE_MS
        process.write("request_refused", settings_generation=1)
    for record in process.records:
        record["appended_ms"] = record["time_ms"] - 10 * MINUTE_MS
    few = audit_frame(spark, process.records)
    index = sequence_index(few)

    found = known_settings(index, few).unionByName(clocks(skews(index))).collect()

    assert sorted((row[S.CHECK], str(row[S.DATE])) for row in found) == [
        (check, day) for check in ("clocks.skewed", "settings.missing") for day in (BEFORE, DAY)
    ]


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
