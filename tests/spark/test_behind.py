"""(b) Processes that decided by an older metadata log than others had: withheld, or put back."""

import json

import pytest
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.reconcile.behind import behind, behind_either
from spark_audit.reconcile.clocks import skews
from spark_audit.tables.delta import empty_frame
from spark_audit.trail.audit_records import sequence_index
from tests.spark.audit_trail import DAY, NOON_MS, Clock, Process, Trail
from tests.spark.frames import audit_frame, frame, log_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("S14", "D13", "D15")]

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
SKEWS = S.struct(("proxy_id", S.AUDIT["proxy_id"].dataType), ("boot_id", S.AUDIT["boot_id"].dataType))


def at(process: Process, minute: float, offset: int, event: str = "checkpoint") -> None:
    process.clock.now_ms = NOON_MS + int(minute * MINUTE_MS)
    process.write(event, metadata_offset=offset)


def started(proxy_id: str, boot_id: str = "boot-1") -> Process:
    process = Process(proxy_id, Clock(), boot_id=f"{proxy_id}-{boot_id}")
    process.start()
    return process


def a_removal() -> tuple[Trail, int, int]:
    """A trail in which an ACL is removed at minute 1, and the offsets before and after that."""
    trail = Trail()
    acl = trail.add_acl(1, "ALLOW User:mallory * READ TOPIC LITERAL payroll")
    before = trail.offset
    trail.clock.now_ms = NOON_MS + MINUTE_MS
    trail.remove_acl(acl)
    return trail, before, trail.offset


def found(spark: SparkSession, trail: Trail, *processes: Process, **days: object) -> dict[str, str]:
    records = [record for each in (trail.controller, trail.proxy, *processes) for record in each.records]
    few = audit_frame(spark, records)
    rows = behind(few, log_frame(spark, trail.log), skews(sequence_index(few)), **days).collect()  # type: ignore[arg-type]
    assert {row["check"] for row in rows} <= {"decisions.behind"}
    return {json.loads(row["evidence"])["boot_id"]: row["explanation"] for row in rows}


def test_a_log_that_is_withheld_or_put_back_is_found_and_what_happens_to_true_processes_is_not(
    spark: SparkSession,
) -> None:
    trail, before, after = a_removal()
    follows = started("follows")
    withheld = started("withheld")
    for minute in range(15):
        at(follows, minute + 0.01, before if minute < 1 else after)
        at(withheld, minute + 0.02, before)
    # Its first boot had the removal, its second one did not. It ends at once.
    put_back = [started("put-back"), started("put-back", "boot-2")]
    at(put_back[0], 2, after)
    at(put_back[1], 20, before, "authentication")
    # The machine was suspended for ten minutes, and the broker was away from another one for four.
    suspended, away = started("suspended"), started("away")
    at(suspended, 0.5, before)
    at(suspended, 11, before, "authentication")
    at(suspended, 11.02, before)
    at(suspended, 12, after)
    for minute in range(5):
        at(away, minute, before)
    at(away, 5.5, after)
    # An offset that is not the one in effect there.
    other = started("other")
    for minute in range(15):
        at(other, minute, 0, "log_not_signed")

    removed = f"controller-1/boot-1 had applied RemoveAccessControlEntryRecord at offset {after}"
    assert found(spark, trail, follows, withheld, *put_back, suspended, away, other) == {
        f"{name}-{boot}": f"process {name}/{name}-{boot} had applied the metadata log up to offset {before}"
        f" only, {minutes} minutes after {removed}: it decided by an older log"
        for name, boot, minutes in (("withheld", "boot-1", 13), ("put-back", "boot-2", 18))
    }


def test_a_log_that_all_processes_got_of_yesterday_is_found_on_each_day(spark: SparkSession) -> None:
    trail, before, after = a_removal()
    alone = [started("alone"), started("alone", "boot-2")]
    at(alone[0], 3, after)
    for day in (1, 2):
        for minute in (0, 2):
            at(alone[1], day * DAY_MS / MINUTE_MS + minute, before)
    days = [row["date"] for row in audit_frame(spark, alone[1].records).select(S.DATE).distinct().collect()]
    assert str(min(days)) == DAY

    assert list(found(spark, trail, *alone)) == ["alone-boot-2"]
    # On the first one, too: what had been applied then may come to the trail later.
    assert [list(found(spark, trail, *alone, days=[day])) for day in sorted(days)] == [["alone-boot-2"]] * 3


def test_of_kafkas_own_log_only_what_always_changes_an_image_is_due(spark: SparkSession) -> None:
    trail, before, removed = a_removal()
    trail.clock.now_ms = NOON_MS + 2 * MINUTE_MS
    trail.set_quota({"user": "alice"}, "producer_byte_rate", 1.0)
    log = log_frame(spark, [record | {"from_snapshot": False} for record in trail.log])
    lines = {name: started(name) for name in ("follows", "ahead", "withheld", "of-a-topic")}
    note = "penstock.audit/x/y\n1\n=\n\nmetadata {} {} A=\n"
    for minute in range(15):
        had = {
            "follows": before if minute < 1 else removed,
            "ahead": trail.offset,
            "withheld": before,
            "of-a-topic": 0,
        }
        for name, process in lines.items():
            at(process, minute + 0.01, had[name])
            topic = "__penstock_metadata" if name == "of-a-topic" else "__cluster_metadata"
            process.records[-1]["message"] = note.format(topic, had[name])
    few = audit_frame(spark, [record for process in lines.values() for record in process.records])

    rows = behind_either(few, log, skews(sequence_index(few))).collect()

    late = [json.loads(row["evidence"]) for row in rows]
    assert [(each["proxy_id"], each["next_offset"]) for each in late] == [("withheld", removed)]


def test_one_false_time_makes_no_process_late(spark: SparkSession) -> None:
    """A record that was applied before the topic had it, or that the topic had before any one applied it."""
    trail, before, after = a_removal()
    liar, follows = started("liar"), started("follows")
    at(liar, -60, after)
    for minute in range(2):
        at(follows, minute * 0.5 - 50, before)
        at(follows, minute * 0.5 + 2, after)

    assert found(spark, trail, liar, follows) == {}

    # The clock of the broker was behind.
    trail.log[-1]["time_ms"] -= 60 * MINUTE_MS
    assert found(spark, trail, follows) == {}


def test_nothing_is_behind_an_empty_log(spark: SparkSession) -> None:
    few = audit_frame(spark, started("alone").records)
    log, skewed = empty_frame(spark, S.METADATA_LOG), frame(spark, [], SKEWS)

    assert behind(few, log, skewed.selectExpr("*", "0L AS skew_ms")).collect() == []
