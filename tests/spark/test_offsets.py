"""Places in Kafka: each offset is in the tables once, and no time or version that a writer chose counts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from spark_audit import schema as S
from spark_audit.ingest import decode
from spark_audit.reconcile.offsets import offsets, times, unchained
from spark_audit.tables import delta, manifest
from spark_audit.tables.delta import OffsetsRead, Tables, empty_frame
from spark_audit.trail.audit_records import sequence_index
from tests.spark.audit_trail import NOON_MS, Clock, Process, Trail
from tests.spark.frames import KAFKA, frame, log_frame, moment
from tests.spark.sealed import Line, seal

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D8", "D13")]

HOUR_MS = 3_600_000
MANY = 200
Rows = list[tuple[Any, ...]]


def lines() -> list[Line]:
    """Those of one process: more than fit into one span of offsets."""
    proxy = Process("proxy-1", Clock())
    proxy.start()
    for _ in range(MANY - 2):
        proxy.high_water()
    proxy.stop()
    return seal(proxy)


def at(partition: int, offset: int, value: bytes | None = None, number: int | None = None) -> tuple[Any, ...]:
    """A row of Spark's Kafka source with one of the lines: that of its offset."""
    line = LINES[(offset if number is None else number) % MANY]
    record_at = moment(line.record["time_ms"])
    return line.key, line.value if value is None else value, "audit", partition, offset, record_at, None


LINES = lines()
ALL = range(MANY)
EDITS: dict[str, list[tuple[Any, ...]]] = {
    "none": [at(0, offset) for offset in ALL],
    "one gone": [at(1, offset) for offset in ALL if offset != 5],
    "a range gone": [at(2, offset) for offset in ALL if not 60 <= offset < 140],
    "the first gone": [at(3, offset) for offset in ALL if offset > 1],
    "the last gone": [at(4, offset) for offset in ALL if offset < MANY - 3],
    "all gone": [],
    "copied": [*(at(6, offset) for offset in ALL), at(6, 7)],
    "two contents": [*(at(7, offset) for offset in ALL), at(7, 7, number=8)],
    "before the first": [*(at(8, offset) for offset in ALL), at(8, -1, number=4)],
    "after the end": [*(at(9, offset) for offset in ALL), at(9, 999, number=4)],
    "of no partition": [at(-1, 0)],
    "of a partition that is unknown": [at(77, 0)],
    "unreadable": [at(10, offset, b"garbage" if offset % 9 == 0 else None) for offset in ALL],
    "unreadable and readable": [*(at(11, offset) for offset in ALL), at(11, 3, b"garbage")],
    "expired": [at(12, offset) for offset in ALL if not 10 <= offset <= 20],
    "expired and one more": [at(13, offset) for offset in ALL if not 10 <= offset <= 21],
    "before what was read": [at(14, offset) for offset in ALL if offset == 4 or offset >= 10],
}
"""What was done -> the rows of a partition. Ingest has read offsets 0 to 199 of partitions 0 to 13, and
those from 10 on of partition 14."""
FOUND = {
    (1, "offsets.missing"): [[5, 5]],
    (2, "offsets.missing"): [[60, 139]],
    (3, "offsets.missing"): [[0, 1]],
    (4, "offsets.missing"): [[197, 199]],
    (5, "offsets.missing"): [[0, 199]],
    (6, "offsets.repeated"): [[7, 7]],
    (7, "offsets.two_contents"): [[7, 7]],
    (8, "offsets.impossible"): [[-1, -1]],
    (9, "offsets.impossible"): [[999, 999]],
    (-1, "offsets.impossible"): [[0, 0]],
    (77, "offsets.impossible"): [[0, 0]],
    (11, "offsets.two_contents"): [[3, 3]],
    (13, "offsets.missing"): [[21, 21]],
    (14, "offsets.impossible"): [[4, 4]],
}
EXPIRED = [
    (None, None, None, None, None, "audit", partition, *bounds)
    for partition in (12, 13)
    for bounds in ((10, 15), (16, 20))
]


def tables(spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> tuple[DataFrame, DataFrame]:
    checked = frame(spark, rows, KAFKA).transform(decode.check_audit)
    return checked.transform(decode.audit_rows), checked.transform(decode.quarantine_rows)


def evidence(row: Row) -> Any:
    return json.loads(row[S.EVIDENCE])


def ranges(row: Row) -> list[list[int]]:
    return [list(each.values()) for each in evidence(row)["ranges"]]


def test_each_offset_that_was_read_is_in_the_tables_once_or_named(spark: SparkSession) -> None:
    whole = {str(partition): (0, MANY) for partition in range(14)}
    read = OffsetsRead("audit", {**whole, "14": (10, MANY)})
    audit, quarantine = tables(spark, [row for rows in EDITS.values() for row in rows])
    log = empty_frame(spark, S.METADATA_LOG)

    found = offsets(audit, quarantine, log, frame(spark, EXPIRED, S.EXPIRED), read, None).collect()

    assert {(evidence(row)[S.KAFKA_PARTITION], row[S.CHECK]): ranges(row) for row in found} == FOUND


def test_without_a_checkpoint_only_what_lies_between_the_rows_is_compared(spark: SparkSession) -> None:
    kept = [
        *EDITS["one gone"],
        *EDITS["the last gone"],
        *EDITS["before the first"],
        *EDITS["after the end"][:-1],
    ]
    audit, quarantine = tables(spark, kept)
    log = empty_frame(spark, S.METADATA_LOG)

    found = offsets(audit, quarantine, log, empty_frame(spark, S.EXPIRED), None, None).collect()

    assert {(evidence(row)[S.KAFKA_PARTITION], row[S.CHECK]) for row in found} == {
        (1, "offsets.missing"),
        (8, "offsets.impossible"),
    }


def test_places_of_the_metadata_topic_have_gaps_but_are_no_two_records_and_none_that_was_not_read(
    spark: SparkSession,
) -> None:
    trail = Trail()
    for number in range(1, 5):
        trail.add_acl(number, f"ALLOW User:a{number} * READ TOPIC LITERAL orders")
    other = trail.log[1] | {"body": '{"id":"x"}'}
    read = OffsetsRead("meta", {"0": (0, trail.log[-1]["offset"])})
    log = log_frame(spark, [*trail.log, trail.log[0], other])
    nothing = empty_frame(spark, S.AUDIT), empty_frame(spark, S.QUARANTINE)

    found = offsets(*nothing, log, empty_frame(spark, S.EXPIRED), None, read).collect()

    assert {row[S.CHECK]: ranges(row) for row in found} == {
        "offsets.repeated": [[trail.log[0]["offset"]] * 2],
        "offsets.two_contents": [[other["offset"]] * 2],
        "offsets.impossible": [[trail.log[-1]["offset"]] * 2],
    }


def test_an_open_transaction_is_reported_with_what_it_withholds(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(str(tmp_path))
    delta.note_withheld(spark, tables, "metadata_log", {"0": {"stable": 788, "end": 945}})
    streams = "audit", "metadata_log"

    [fault] = manifest.withheld_faults(spark, tables, streams)
    delta.note_withheld(spark, tables, "metadata_log", {})

    assert fault.explanation == (
        "metadata_log: a transaction is open in partition 0: ingest cannot read from offset 788 on, and the"
        " topic had records up to offset 945"
    )
    assert list(manifest.withheld_faults(spark, tables, streams)) == []


def moved(process: str, sequences: range, by_ms: int) -> Rows:
    """A process of five records of which some have another time than the broker's, which is true."""
    proxy = Process(process, Clock())
    proxy.start()
    for _ in range(4):
        proxy.high_water()
    arrived = [moment(record["time_ms"]) for record in proxy.records]
    for sequence in sequences:
        proxy.records[sequence]["time_ms"] += by_ms
    return [
        (line.key, line.value, "audit", 0, offset, arrived[offset], None)
        for offset, line in enumerate(seal(proxy))
    ]


def test_a_time_that_cannot_be_is_a_finding_of_its_own(spark: SparkSession) -> None:
    audit, _ = tables(
        spark,
        [
            *moved("true", range(0), 0),
            *moved("in-the-future", range(2, 3), 400 * 24 * HOUR_MS),
            *moved("ahead", range(5), 2 * HOUR_MS),
            *moved("a-little-ahead", range(5), 60_000),
            *moved("of-last-week", range(3, 4), -168 * HOUR_MS),
            *moved("from-the-spool", range(5), -168 * HOUR_MS),
            *moved("after-summer-time", range(2, 5), -HOUR_MS),
        ],
    )

    found = times(audit, sequence_index(audit), empty_frame(spark, S.METADATA_LOG)).collect()

    assert {row[S.CHECK] for row in found} == {"offsets.impossible_time"}
    assert sorted((evidence(row)[S.PROXY_ID], evidence(row)["sequences"]) for row in found) == [
        ("ahead", [0, 1, 2, 3, 4]),
        ("in-the-future", [2]),
        ("in-the-future", [3]),
        ("of-last-week", [3]),
    ]


@pytest.mark.parametrize(
    ("by_ms", "at", "expected"),
    [
        (-72 * HOUR_MS, 2, [2]),
        (400 * 24 * HOUR_MS, 1, [1, 2]),
        (58 * 60_000, 3, [3]),
        (60_000, 3, []),
    ],
    ids=["days ago", "next year", "in an hour, at the end", "a minute ahead"],
)
def test_a_record_of_the_log_with_a_time_far_from_its_neighbours_is_found_by_its_offset(
    spark: SparkSession, by_ms: int, at: int, expected: list[int]
) -> None:
    trail = Trail()
    for number in range(1, 5):
        trail.add_acl(number, f"ALLOW User:a{number} * READ TOPIC LITERAL orders")
    places = [record["offset"] for record in trail.log]
    trail.log[at]["time_ms"] += by_ms
    audit, _ = tables(spark, moved("true", range(0), 0))

    found = times(audit, sequence_index(audit), log_frame(spark, trail.log)).collect()

    assert [evidence(row)[S.LOG_OFFSET] for row in found] == [places[number] for number in expected]


def old(partition: int, first: int, boot: str) -> Rows:
    """Records as of the first release, which say of themselves that they are older than everything."""
    process = Process("proxy-9", Clock(NOON_MS - 24 * HOUR_MS), boot_id=boot)
    process.start()
    process.stop()
    values = [json.loads(line.value) for line in seal(process)]
    for value in values:
        del value["chain"]
        value["data"]["schema_version"] = 1
    key = f"proxy-9/{boot}".encode()
    return [
        (key, json.dumps(value).encode(), "audit", partition, first + number, moment(NOON_MS), None)
        for number, value in enumerate(values)
    ]


def test_a_record_without_a_link_is_old_by_its_offset_only(spark: SparkSession) -> None:
    chained = [at(partition, 10 + number, number=number) for partition in (0, 1) for number in range(5)]
    before, after = old(0, 0, "before"), old(0, 20, "after")
    alone = old(2, 0, "in a partition of its own")

    def boots(rows: Rows, has_key: bool, until: dict[int, int]) -> list[str]:
        audit, _ = tables(spark, rows)
        return sorted(evidence(row)[S.BOOT_ID] for row in unchained(audit, has_key, until).collect())

    everything = [*chained, *before, *after, *alone]
    assert (
        boots(everything, True, {}) == boots(everything, False, {}) == ["after", "in a partition of its own"]
    )
    assert boots(everything, True, {0: 20, 2: 1}) == ["after"]
    assert boots(everything, True, {0: 21, 2: 1}) == []
    assert boots([*before, *alone], True, {}) == ["before", "in a partition of its own"]
    assert boots([*before, *alone], False, {}) == []
