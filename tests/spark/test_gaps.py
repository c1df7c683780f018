"""(a) Sequence gaps."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.clocks import clocks, skews
from spark_audit.reconcile.gaps import RETIRED_MS, gaps
from spark_audit.trail.audit_records import SILENCE_MS, SPAN_BITS, sequence_index
from tests.spark.audit_trail import NOON_MS, Clock, Process, Record, Trail
from tests.spark.frames import audit_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "D6")]

SPAN = 1 << SPAN_BITS
HUGE = 2**63 - 1

Found = Mapping[tuple[str, str], Mapping[str, Any]]
"""(check, proxy id) -> evidence and explanation."""


def a_process(proxy_id: str, clock: Clock, boot_id: str = "boot-1", marks: int = 6) -> list[Record]:
    process = Process(proxy_id, clock, boot_id=boot_id)
    process.start()
    for _ in range(marks):
        process.high_water()
    process.stop()
    return process.records


def by_check(rows: Sequence[Row]) -> Found:
    evidence = [json.loads(row["evidence"]) | {"explanation": row["explanation"]} for row in rows]
    return {(row["check"], proof["proxy_id"]): proof for row, proof in zip(rows, evidence, strict=True)}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Sequence[Row]:
    """What is found in one table, with one process for each fault in it."""
    clock = Clock()
    records = a_process("whole", clock)
    records += a_process("restarted", clock, "boot-1") + a_process("restarted", clock, "boot-2")
    records += [r for r in a_process("holed", clock) if r["sequence"] not in (3, 4)]
    records += a_process("headless", clock)[2:]
    twice = a_process("twice", clock)
    records += [*twice, twice[3]]
    forged = a_process("forged", clock)
    records += [*forged, forged[3] | {"message": "another"}]
    stopped = a_process("revived", clock)
    records += [
        *stopped,
        stopped[-1] | {"sequence": len(stopped), "event": "high_water", "count": len(stopped)},
    ]
    miscounted = a_process("miscounted", clock)
    records += [*miscounted[:4], miscounted[4] | {"count": 9}, *miscounted[5:]]
    dropping = Process("dropping", clock)
    dropping.start()
    dropping.write("records_dropped", count=17, message="the spool was full")
    dropping.stop()
    records += dropping.records
    crashed = a_process("crashed", clock, "boot-1")[:-1]
    records += crashed + a_process("crashed", clock, "boot-2")
    silent = a_process("silent", clock)[:-1]
    records += silent
    running = a_process("running", Clock(clock.now_ms + SILENCE_MS + 60_000))[:-1]
    long = [
        running[1] | {"proxy_id": "long", "sequence": n, "count": n}
        for n in (SPAN - 2, SPAN - 1, SPAN + 1, 3 * SPAN, 3 * SPAN + 1, HUGE)
    ]
    return gaps(audit_frame(spark, records + running + long)).collect()


@pytest.fixture(scope="module")
def found(rows: Sequence[Row]) -> Found:
    return by_check(rows)


@pytest.fixture(scope="module")
def holes_of_long(rows: Sequence[Row]) -> list[tuple[int, int]]:
    proofs = [json.loads(row["evidence"]) for row in rows if row["check"] == "gaps.hole"]
    return sorted((p["first_missing"], p["last_missing"]) for p in proofs if p["proxy_id"] == "long")


def test_a_whole_trail_has_no_gap(spark: SparkSession) -> None:
    trail = Trail()
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL orders")
    trail.ask("User:alice 10.0.0.1 READ TOPIC orders")
    trail.proxy.high_water()

    assert gaps(audit_frame(spark, trail.stop().audit)).collect() == []


def test_missing_records_are_named_with_their_neighbours(found: Found) -> None:
    hole = found["gaps.hole", "holed"]

    assert (hole["first_missing"], hole["last_missing"]) == (3, 4)
    assert hole["explanation"] == (
        "process holed/boot-1: 2 record(s) are missing, sequences 3 to 4; the next record, 5, is present"
    )


def test_records_missing_before_the_first_are_a_hole_too(found: Found) -> None:
    hole = found["gaps.hole", "headless"]

    assert (hole["first_missing"], hole["last_missing"]) == (0, 1)


def test_holes_are_found_across_and_inside_spans_of_sequences(holes_of_long: list[tuple[int, int]]) -> None:
    assert holes_of_long == [(0, SPAN - 3), (SPAN, SPAN), (SPAN + 2, 3 * SPAN - 1), (3 * SPAN + 2, HUGE - 1)]


def test_a_record_that_came_twice_is_no_finding(found: Found) -> None:
    assert not [check for check, proxy_id in found if proxy_id in ("twice", "whole", "restarted", "running")]


@pytest.mark.spec("D13", "D15")
@pytest.mark.parametrize("at_once", [False, True])
def test_a_clock_that_is_set_back_between_two_boots_of_two_partitions_is_no_second_process(
    spark: SparkSession, at_once: bool
) -> None:
    """The topic has got more partitions, and the clock of the machine was ten minutes ahead."""
    minutes = {"boot-1": range(10), "boot-2": range(5 if at_once else 10, 20)}
    records = []
    for boot_id, of_boot in minutes.items():
        process = Process("proxy-1", Clock(), boot_id=boot_id)
        process.start()
        for _ in of_boot:
            process.high_water()
        process.stop()
        for record, minute in zip(process.records, (of_boot[0], *of_boot, of_boot[-1]), strict=True):
            appended_ms = NOON_MS + minute * 60_000
            ahead_ms = 600_000 if boot_id == "boot-1" else 0
            records.append(record | {"appended_ms": appended_ms, "time_ms": appended_ms + ahead_ms})
    audit = audit_frame(spark, records)
    partition = F.when(F.col("boot_id") == "boot-2", 1).otherwise(0)

    found = gaps(audit.withColumn("kafka_partition", partition)).collect()

    assert [row["check"] for row in found] == ["gaps.same_id_twice"] * at_once


@pytest.mark.long
@pytest.mark.spec("D13")
def test_copies_in_another_partition_are_in_no_order_and_a_record_out_of_order_everywhere_is_named(
    spark: SparkSession,
) -> None:
    once = audit_frame(spark, Trail().stop().audit)
    reversed_ones = once.withColumns(
        {S.KAFKA_PARTITION: F.lit(1), S.KAFKA_OFFSET: 1_000 - F.col(S.KAFKA_OFFSET)}
    )

    assert gaps(once.unionByName(reversed_ones)).collect() == []
    assert {row[S.CHECK] for row in gaps(reversed_ones).collect()} == {"gaps.reordered"}


def test_two_records_of_one_sequence_that_differ_are_named(found: Found) -> None:
    forged = found["gaps.different_copies", "forged"]

    assert (forged["sequence"], forged["versions"], len(forged["kafka_offsets"])) == (3, 2, 2)


def test_a_record_after_the_last_one_is_named(found: Found) -> None:
    assert found["gaps.after_stop", "revived"]["last_sequence"] == 8


def test_a_process_that_counts_otherwise_than_its_sequence_is_named(found: Found) -> None:
    assert found["gaps.miscounted", "miscounted"]["count"] == 9


def test_what_a_process_says_it_dropped_is_a_finding(found: Found) -> None:
    assert found["gaps.dropped", "dropping"]["count"] == 17


def test_a_boot_without_an_end_is_named_once_another_has_begun(found: Found) -> None:
    # Not which: it may begin a day later, and the finding has to be the same one then.
    assert found["gaps.unfinished", "crashed"].keys() >= {"boot_id", "last_sequence", "last_time_ms"}
    assert "next_boot" not in found["gaps.unfinished", "crashed"]


def test_a_process_that_fell_silent_is_named(found: Found) -> None:
    assert "last_sequence" in found["gaps.unfinished", "silent"]


def test_nothing_else_is_found(found: Found) -> None:
    expected = {
        ("gaps.hole", "holed"),
        ("gaps.hole", "headless"),
        ("gaps.hole", "long"),
        ("gaps.different_copies", "forged"),
        ("gaps.after_stop", "revived"),
        ("gaps.miscounted", "miscounted"),
        ("gaps.dropped", "dropping"),
        ("gaps.unfinished", "crashed"),
        ("gaps.unfinished", "silent"),
    }
    assert set(found) == expected


MINUTE_MS, HOUR_MS = 60_000, 3_600_000
ALL_DAY = ("controller", "proxy-1", "proxy-2")
STAMPS: dict[str, Callable[[int], int | None]] = {
    "the broker's": lambda now_ms: now_ms,
    "none": lambda _: NOON_MS,
    "the process's": lambda _: None,
}


def mixed_up(stamp: Callable[[int], int | None]) -> list[Record]:
    """Processes that write a mark each minute, in the order in which the broker appends them.

    `fast` and `slow` have clocks that are two hours off. `twice` runs as two boots at once. `retired` and
    `late` end on the day before; the spool of `late` was shipped only now.
    """
    clock, records = Clock(NOON_MS - RETIRED_MS - HOUR_MS, step_ms=1), list[Record]()
    off_ms = {"fast": 2 * HOUR_MS, "slow": -2 * HOUR_MS}

    def write(process: Process, event: str = "high_water") -> None:
        record = process.write(event, count=len(process.records) + 1)
        stamped_ms = stamp(clock.now_ms)
        record["time_ms"] += off_ms.get(process.proxy_id, 0)
        records.append(record | ({} if stamped_ms is None else {"appended_ms": stamped_ms}))

    def begin(proxy_id: str, boot_id: str = "boot-1") -> Process:
        process = Process(proxy_id, clock, boot_id=boot_id)
        process.settings = {"audit.host": f"host of {boot_id}"}
        write(process, "started")
        record = records[-1]
        record["settings"], record["count"] = process.settings, None
        return process

    running = [begin(name) for name in ALL_DAY]
    retired, late = begin("retired"), Process("late", clock)
    for process in (*running, retired) * 4:
        clock.now_ms += MINUTE_MS // 4
        write(process)
        if process is retired:
            late.high_water()
    for process in running:
        write(process, "stopped")
    clock.now_ms = NOON_MS
    running = [begin(name, "boot-2") for name in (*ALL_DAY, "fast", "slow", "twice")]
    for minute in range(12):
        clock.now_ms += MINUTE_MS
        if minute == 3:
            running.append(begin("twice", "boot-3"))
            stamped = {"appended_ms": clock.now_ms} if stamp(0) == 0 else {}
            records.extend(record | stamped for record in late.records)
        for process in running:
            write(process)
    for process in running:
        write(process, "stopped")
    return records


@pytest.mark.long
@pytest.mark.spec("D15")
@pytest.mark.parametrize("stamps", sorted(STAMPS))
def test_a_skewed_clock_an_id_that_runs_twice_and_a_retired_process_are_named_as_such(
    spark: SparkSession, stamps: str
) -> None:
    audit = audit_frame(spark, mixed_up(STAMPS[stamps]))

    rows = gaps(audit).unionByName(clocks(skews(sequence_index(audit)))).collect()

    told = {(row["check"], json.loads(row["evidence"])["proxy_id"]): row["explanation"] for row in rows}
    assert told == {
        ("clocks.skewed", "fast"): "the clock of process fast/boot-2 is 120 minutes ahead of the broker's and"
        " the other processes' clocks",
        (
            "clocks.skewed",
            "slow",
        ): "the clock of process slow/boot-2 is 120 minutes behind the broker's and"
        " the other processes' clocks",
        ("gaps.same_id_twice", "twice"): "two processes ran under the id twice at the same time: boot boot-2"
        " (host host of boot-2) and boot boot-3 (host host of boot-3); their records are mixed in the topic,"
        " or one of them is forged",
        ("gaps.unfinished", "late"): UNFINISHED.format("late", 3),
        ("gaps.unfinished", "retired"): UNFINISHED.format("retired", 4),
    }


UNFINISHED = (
    "process {}/boot-1 ends at sequence {} without `stopped`: it was killed and did not come back, or its"
    " tail is missing; acknowledge it if it was retired"
)
