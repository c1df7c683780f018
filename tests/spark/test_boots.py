"""(g) How boots of one process follow each other."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_audit import schema as S
from spark_audit.reconcile.chain import boots, proven_ends, successions
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.tables.delta import empty_frame
from tests.spark.audit_trail import NOON_MS, Clock, Process
from tests.spark.frames import audit_frame
from tests.spark.sealed import Line, end_of, seal, table

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D2", "D5")]


def a_boot(proxy_id: str, number: int, previous: str | None = None) -> list[Line]:
    """One that ends without `stopped`."""
    process = Process(proxy_id, Clock(NOON_MS + number * 60_000), boot_id=f"{proxy_id}-{number}")
    process.start()
    for _ in range(4):
        process.high_water()
    return seal(process, previous=previous)


def written_anew(lines: list[Line]) -> list[Line]:
    process = Process(lines[0].record["proxy_id"], Clock(), boot_id=lines[0].record["boot_id"])
    process.records = [line.record for line in lines]
    process.records[1] = process.records[1] | {"message": "forged"}
    return seal(process)


def three_boots(proxy_id: str) -> list[list[Line]]:
    """Each crashed but the last; spoiled in the way that the id says."""
    one = a_boot(proxy_id, 1)
    two = a_boot(proxy_id, 2, end_of(one[:-2] if proxy_id == "later" else one))
    third_follows = {"fork": end_of(one), "unnamed": None}.get(proxy_id, end_of(two))
    three = a_boot(proxy_id, 3, third_follows)
    if proxy_id == "cut":
        one = one[:-2]
    if proxy_id == "rewritten":
        one = written_anew(one)
    return [one, [] if proxy_id == "removed" else two, three]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    ways = "whole", "cut", "later", "rewritten", "removed", "fork", "unnamed"
    lines = [line for way in ways for boot in three_boots(way) for line in boot]
    old = audit_frame(spark, [line.record | {"proxy_id": "renamed"} for line in a_boot("upgraded", 0)])
    new = table(spark, [*lines, *a_boot("upgraded", 1, "upgraded-0/4/")])
    return new.unionByName(old).persist()


@pytest.mark.long
def test_what_a_boot_names_is_compared_with_what_is_there(rows: DataFrame) -> None:
    found = boots(successions(rows)).collect()

    said = {row["explanation"]: (row["check"], row["severity"]) for row in found}
    follows = "process {0}/{0}-2 follows boot {0}-1, which".format
    assert said == {
        f"{follows('cut')} ended at sequence 4: the last record in the table is 2": (
            "chain.tail_missing",
            "critical",
        ),
        f"{follows('later')} ended at sequence 2 on its disk, but there are records up to 4: the machine"
        " crashed before it had synced records that it had sent, or they are forged": (
            "chain.after_the_end",
            "medium",
        ),
        f"{follows('rewritten')} has another link at sequence 4 in the table: its records were rewritten": (
            "chain.other_end",
            "critical",
        ),
        "process removed/removed-3 follows boot removed-2, which ended at sequence 4: none of its records is"
        " in the table": ("chain.boot_missing", "critical"),
        f"{follows('fork')} can have only one successor, but several name it: fork-2, fork-3": (
            "chain.forked",
            "critical",
        ),
        "process fork/fork-3 follows boot fork-1, which can have only one successor, but several name it:"
        " fork-2, fork-3": ("chain.forked", "critical"),
        "process unnamed/unnamed-3 names no previous boot, but there was unnamed-2: its spool was lost, with"
        " all records that were not shipped": ("chain.unnamed", "medium"),
    }


def test_a_crash_is_proven_to_have_lost_nothing(rows: DataFrame) -> None:
    proven = {row["boot_id"] for row in proven_ends(successions(rows)).collect()}

    assert proven == {
        *(f"{way}-1" for way in ("whole", "later", "fork", "unnamed")),
        *(f"{way}-2" for way in ("whole", "cut", "later", "rewritten")),
        "upgraded-0",
    }


@pytest.mark.spec("D15")
def test_a_boot_of_another_process_with_the_same_id_blames_nobody_and_hides_nothing(
    spark: SparkSession,
) -> None:
    """Who has the key of a proxy chooses the ids of its boots."""
    one = a_boot("whole", 1)
    two = a_boot("whole", 2, end_of(one))
    other = Process("other", Clock(), boot_id="whole-1")
    other.start()
    for _ in range(9):
        other.high_water()
    forged = seal(other)

    def found(first: list[Line]) -> tuple[set[str], set[str]]:
        followed = successions(table(spark, [*first, *two, *forged]))
        checks = {row["check"] for row in boots(followed).collect()}
        return checks, {row["boot_id"] for row in proven_ends(followed).collect()}

    assert found(one) == (set(), {"whole-1"})
    assert found(one[:-2]) == ({"chain.tail_missing"}, set())


@pytest.mark.long
@pytest.mark.spec("D15")
def test_a_boot_beside_another_one_of_its_id_has_not_lost_its_spool(spark: SparkSession) -> None:
    one, two = a_boot("twin", 1), a_boot("twin", 2)
    audit = table(spark, [*one[:2], *two[:2], *one[2:], *two[2:]])
    log = empty_frame(spark, S.METADATA_LOG)

    found = reconcile(audit, empty_frame(spark, S.QUARANTINE), log).findings

    assert [row["check"] for row in found] == ["gaps.same_id_twice"]
