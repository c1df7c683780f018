"""(a) Sequence gaps."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from spark_audit.reconcile.gaps import gaps
from spark_audit.trail.audit_records import SILENCE_MS, SPAN_BITS
from tests.spark.audit_trail import Clock, Process, Record, Trail
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
