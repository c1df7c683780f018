"""Each kind of tampering is found and named, all in one trail; and the same trail without them is clean."""

from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.reconciliation import reconcile
from tests.spark.audit_trail import Trail
from tests.spark.frames import log_frame
from tests.spark.sealed import Line, table
from tests.spark.tampered import a_true_trail, lie, sealed_boots, tamper

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "D6")]

Found = Mapping[str, set[str]]
"""check -> what its findings tell, in words."""


def checked(spark: SparkSession, lines: list[Line], trail: Trail) -> Found:
    nothing = spark.createDataFrame([], S.QUARANTINE)
    rows = reconcile(table(spark, lines), nothing, log_frame(spark, trail.log)).findings
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["check"], set()).add(row["explanation"])
    return found


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Found:
    trail, boots = a_true_trail()
    trail.forward("CreateAcls", [(18, "AccessControlEntryRecord", {"id": "unaudited"})], trail.proxy)
    del trail.controller.records[-1], trail.proxy.records[-1]
    _, lost = trail.forward("CreateTopics", [(18, "AccessControlEntryRecord", {"id": "lost"})], trail.proxy)
    trail.log = [record for record in trail.log if record["offset"] != lost["first_offset"]]
    lie(boots)
    return checked(spark, tamper(sealed_boots(trail, boots)), trail)


def test_a_true_trail_with_crashes_in_it_has_no_finding(spark: SparkSession) -> None:
    trail, boots = a_true_trail()
    lines = [line for boots in sealed_boots(trail, boots).values() for boot in boots for line in boot]

    assert checked(spark, lines, trail) == {}


KINDS: dict[str, tuple[str, str]] = {
    "a record removed": ("gaps.hole", "removed/removed-1: records 3 to 3 are not in the table"),
    "a record altered": ("chain.altered", "records 2 to 2 of process altered/altered-1 do not fit"),
    "a record repeated otherwise": ("gaps.different_copies", "repeated/repeated-1 wrote sequence 3 in 2"),
    "a record moved to another boot": ("chain.altered", "records 4 to 5 of process moved/moved-2 do not fit"),
    "a record taken from another boot": ("gaps.hole", "moved/moved-1: records 4 to 4 are not in the table"),
    "a decision flipped": ("decisions.wrongly_granted", "flipped/flipped-1 granted READ on TOPIC orders"),
    "an admin change without audit": ("changes.unexplained", '"unaudited"'),
    "an audited change without log": ("forwarded.not_in_the_log", "committed a CreateTopics at metadata"),
    "a quota overrun": (
        "quotas.exceeded",
        "overrun (overrun/overrun-1, overrun/overrun-2) let 1010000 bytes",
    ),
    "traffic after expiry": ("sessions.overrun", "expired/expired-1 served 1 request(s) of User:alice"),
    "a boot removed": (
        "chain.boot_missing",
        "boot-removed-1, which ended at sequence 7: none of its records",
    ),
    "a tail cut": ("chain.tail_missing", "tail-cut-1, which ended at sequence 7: its tail is missing"),
    "a boot written anew": ("chain.other_end", "rewritten-1, which has another link now at sequence 7"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_tampering_is_named(found: Found, kind: str) -> None:
    check, words = KINDS[kind]

    assert [text for text in found.get(check, ()) if words in text], found.get(check)
