"""Metadata transactions that were aborted, or never ended (KIP-868): what they hold was never in force."""

import pytest
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.tables.delta import empty_frame
from spark_audit.trail.metadata_log import without_aborted
from tests.spark.audit_trail import Record, Trail
from tests.spark.frames import audit_frame, log_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5")]

NAMES = {23: "BeginTransactionRecord", 24: "EndTransactionRecord", 25: "AbortTransactionRecord"}
BEGIN, END, ABORT, ACL = 23, 24, 25, 18
SCRAM, FEATURE, PARTITION = 11, 12, 3


def a_log(*kinds: int, from_snapshot: bool | None = False) -> list[Record]:
    return [
        {
            "time_ms": 1_000 + offset,
            "offset": offset,
            "api_key": kind,
            "record": NAMES.get(kind, "AccessControlEntryRecord"),
            "version": 0,
            "body": '{"id":"x"}',
            "entity": None,
            "from_snapshot": from_snapshot,
        }
        for offset, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize(
    ("kinds", "left"),
    [
        ((ACL, BEGIN, ACL, ACL, END, ACL), [0, 2, 3, 5]),
        ((ACL, BEGIN, ACL, ACL, ABORT, ACL), [0, 5]),
        ((ACL, BEGIN, ACL, ABORT, BEGIN, ACL, END, BEGIN, ACL), [0, 5]),
        # A controller that died in one, and its successor, which begins another.
        ((BEGIN, ACL, BEGIN, ACL, END), [3]),
        ((ACL, ACL), [0, 1]),
    ],
)
def test_records_of_a_transaction_are_in_force_when_it_has_ended(
    spark: SparkSession, kinds: tuple[int, ...], left: list[int]
) -> None:
    log = a_log(*kinds)

    rows = without_aborted(log_frame(spark, log)).orderBy(S.LOG_OFFSET).collect()

    assert [row[S.LOG_OFFSET] for row in rows] == list(range(len(kinds)))
    assert [row[S.LOG_OFFSET] for row in rows if row[S.API_KEY] == ACL] == left
    assert {row[S.BODY] for row in rows if row[S.RECORD] == "NoOpRecord"} <= {"{}"}


def test_what_a_snapshot_has_was_in_force(spark: SparkSession) -> None:
    told = [each | {"offset": 2} for each in a_log(ACL, from_snapshot=True)]

    rows = without_aborted(log_frame(spark, [*told, *a_log(ACL, BEGIN, ACL, ABORT)])).collect()

    assert sorted(row[S.LOG_OFFSET] for row in rows if row[S.API_KEY] == ACL) == [0, 2]


@pytest.mark.long
@pytest.mark.spec("D8")
def test_records_that_no_controller_writes_hide_nothing_in_the_topic_and_are_found(
    spark: SparkSession,
) -> None:
    """A broker's administrator adds a user, between marks by which nobody would see the record.

    And a level of features at which networks are no hosts of ACLs, and a partition.
    """
    trail = Trail()
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL orders")
    trail.ask("User:alice 10.0.0.1 READ TOPIC orders", method="Fetch", client_id="a", connection_id="c")
    trail.stop()
    audit, quarantine = audit_frame(spark, trail.audit), empty_frame(spark, S.QUARANTINE)
    last = trail.log[-1]
    names = {
        **NAMES,
        SCRAM: "UserScramCredentialRecord",
        FEATURE: "FeatureLevelRecord",
        PARTITION: "PartitionRecord",
    }
    kinds = BEGIN, SCRAM, BEGIN, ABORT, FEATURE, PARTITION
    forged = [
        last | {"offset": last["offset"] + shift, "api_key": kind, "record": names[kind], "body": "{}"}
        for shift, kind in enumerate(kinds, 1)
    ]

    found = reconcile(audit, quarantine, log_frame(spark, [*trail.log, *forged])).findings

    told = sorted((row[S.CHECK], row[S.EXPLANATION].partition(" ")[0]) for row in found)
    assert told == sorted(("changes.unexplained", each["record"]) for each in forged)
