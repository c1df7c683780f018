"""With summaries of days what-if says the same, and summarises only days that are new or have changed."""

import random
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.proposal import parse_proposal
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from spark_audit.what_if.result import WhatIfDocument, document
from spark_audit.what_if.summaries import Summaries
from tests.spark.audit_trail import DAY, Record, Trail
from tests.spark.frames import audit_frame, log_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D10")]

DAY_MS = 86_400_000
FIRST = date.fromisoformat(DAY)
DAYS = [FIRST + timedelta(days=n) for n in range(5)]
PROPOSAL = parse_proposal(
    "kafka-acls --remove --allow-principal User:u0 --operation All --topic '*'\n"
    "kafka-acls --add --allow-principal User:u3 --operation Read --topic t1\n"
    "kafka-acls --add --deny-principal User:u1 --operation Write --topic t2\n"
    "kafka-configs --alter --add-config producer_byte_rate=10 --entity-type users --entity-name u1\n"
    "super.users=User:u2",
    "p",
)


def a_week(seed: int) -> Trail:
    """Five users and topics, and connections that last for days and fetch some topics on one of them only."""
    chance, trail = random.Random(seed), Trail()
    trail.add_acl(1, "ALLOW User:u0 * ALL TOPIC LITERAL *")
    trail.add_acl(2, "ALLOW User:u1 * WRITE TOPIC PREFIXED t")
    trail.add_acl(3, "ALLOW User:u1 * READ TOPIC LITERAL t1")
    for _ in DAYS:
        for _ in range(12):
            user, topic = chance.randrange(4), chance.randrange(4)
            method, operation = chance.choice((("Fetch", "READ"), ("Produce", "WRITE"), ("Fetch", "READ")))
            trail.ask(
                f"User:u{user} 10.0.0.{user} {operation} TOPIC t{topic}",
                event=chance.choice(("authorization_summary", "authorization_summary", "authorization")),
                method=method,
                client_id="app",
                connection_id=f"c{user}",
                count=chance.randrange(1, 9),
                request_bytes=chance.randrange(10_000),
                interval_start_ms=trail.clock.now_ms,
                interval_end_ms=trail.clock.now_ms + 60_000,
            )
            trail.clock.now_ms += chance.randrange(1, 4_000_000)
        trail.proxy.write("authorization_collapsed", principal="User:u3", granted=False, count=7)
        trail.proxy.write("request_summary", principal="User:u1", method="InitProducerId", count=2)
        trail.clock.now_ms += DAY_MS - (trail.clock.now_ms + 43_200_000) % DAY_MS
    return trail


def tried(
    audit: DataFrame, log: DataFrame, days: Iterable[date | None], where: Summaries | None
) -> WhatIfDocument:
    first, last = days
    return document(audit, log, PROPOSAL, first, last, where)


def summarised(spark: SparkSession, where: Summaries) -> dict[date, str]:
    rows = delta.read_table(spark, where.root).select(S.DATE, "state").distinct().collect()
    return {row[S.DATE]: row["state"] for row in rows}


def changed(before: dict[date, str], after: dict[date, str]) -> list[date]:
    return sorted(day for day, state in after.items() if before.get(day) != state)


@pytest.mark.long
def test_with_summaries_what_if_says_the_same_and_summarises_new_days_only(
    spark: SparkSession, tmp_path: Path
) -> None:
    trail = a_week(1)
    frames = audit_frame(spark, trail.audit), log_frame(spark, trail.log)
    where = Summaries(str(tmp_path / "summaries"), "audit")
    middle, everything = (DAYS[1], DAYS[2]), (None, None)
    expected = tried(*frames, everything, None)

    # The plots of two days have columns of half an hour, and the summaries have hours.
    by_hour: dict[str, object] = {"bucket_ms": 3_600_000, "over_time": []}
    assert tried(*frames, middle, where) | by_hour == tried(*frames, middle, None) | by_hour
    assert set(summarised(spark, where)) == {DAYS[1], DAYS[2]}
    assert tried(*frames, everything, where) == expected
    assert set(summarised(spark, where)) == set(DAYS)
    assert min(expected["requests"].values()) > 0
    assert {row["outcome"] for row in expected["access"]} >= {
        "newly_denied",
        "newly_allowed",
        "cannot_be_said",
    }

    written = delta.version(spark, where.root)
    rows(where, frames[0])
    assert delta.version(spark, where.root) == written


def rows(where: Summaries, audit: DataFrame, day: date | None = None) -> int:
    """Summarise this day, or all; the number of their requests."""
    return int(where.rows(audit, day, day).agg(F.sum("requests")).collect()[0][0])


def of_day(records: Iterable[Record], day: date) -> list[Record]:
    begin = (day - date(1970, 1, 1)).days * DAY_MS
    return [record for record in records if begin <= record["time_ms"] < begin + DAY_MS]


def test_days_are_summarised_again_when_records_arrive_late(spark: SparkSession, tmp_path: Path) -> None:
    where = Summaries(str(tmp_path / "summaries"), "audit")
    trail = a_week(2)
    late = of_day(trail.audit, DAYS[3])[-1]
    early = [record for record in trail.audit if record is not late]

    rows(where, audit_frame(spark, early))
    before = summarised(spark, where)
    rows(where, audit_frame(spark, trail.audit))

    # The day before may have a copy of it, and later days what its connection has fetched.
    assert changed(before, summarised(spark, where)) == DAYS[2:]


def test_a_copy_of_the_next_day_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    trail = a_week(3)
    once = audit_frame(spark, trail.audit)
    copied = once.where(F.col(S.DATE) == DAYS[1]).withColumns(
        {S.KAFKA_OFFSET: F.col(S.KAFKA_OFFSET) + 1_000, S.DATE: F.lit(DAYS[2])}
    )

    with_copies = rows(Summaries(str(tmp_path / "a"), "audit"), once.unionByName(copied), DAYS[2])

    assert with_copies == rows(Summaries(str(tmp_path / "b"), "audit"), once, DAYS[2])


def test_summaries_of_another_trail_do_not_count(spark: SparkSession, tmp_path: Path) -> None:
    audit, root = audit_frame(spark, a_week(4).audit), str(tmp_path / "summaries")

    rows(Summaries(root, "one"), audit)
    before = summarised(spark, Summaries(root, "one"))
    rows(Summaries(root, "another"), audit)

    assert changed(before, summarised(spark, Summaries(root, "another"))) == DAYS


def test_a_day_without_decisions_is_summarised_once(spark: SparkSession, tmp_path: Path) -> None:
    trail, where = Trail(), Summaries(str(tmp_path / "summaries"), "audit")
    audit = audit_frame(spark, trail.audit)

    assert where.rows(audit, None, None).collect() == []
    assert set(summarised(spark, where)) == {FIRST}
    assert where.rows(audit, DAYS[1], None).collect() == []


@pytest.mark.spec("D4")
def test_one_process_at_a_time_writes_summaries(spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "summaries")
    audit = audit_frame(spark, a_week(5).audit)

    with delta.sole_writer(spark, Tables(root)), ThreadPoolExecutor(1) as another:
        rows = another.submit(Summaries(root, "audit").rows, audit, None, None)
        with pytest.raises(AuditError, match="another job is writing to"):
            rows.result()
