"""Directories of KRaft nodes into table metadata_log: each record once, snapshots, contradictions."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.kraft.log_import import import_kraft_log
from spark_audit.policy.acl_history import acl_intervals, missing_history
from spark_audit.policy.quota_limits import quota_intervals
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from tests.spark.audit_trail import acl_id, an_acl
from tests.spark.kraft_bytes import access_control_entry, client_quota, framed, no_op, user_scram_credential
from tests.spark.kraft_files import Node

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D4", "D5")]

ALICE = an_acl(1, "ALLOW User:alice * READ TOPIC LITERAL orders")
BOB = an_acl(2, "ALLOW User:bob * READ TOPIC LITERAL orders")


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(str(tmp_path / "tables"))


def take_in(spark: SparkSession, tables: Tables, *nodes: Node, settle_ms: int = 5_000) -> str:
    """What was told last."""
    told: list[str] = []
    import_kraft_log(spark, [str(node.path) for node in nodes], tables, told.append, settle_ms=settle_ms)
    return told[-1]


def offsets(spark: SparkSession, tables: Tables) -> list[int]:
    rows = delta.read_table(spark, tables.metadata_log, S.METADATA_LOG).select(S.LOG_OFFSET).collect()
    return sorted(row[0] for row in rows)


@pytest.mark.long
def test_a_log_that_grows_is_read_on_and_what_is_there_stays_once(
    spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    node = Node(tmp_path / "node")
    node.append(access_control_entry(ALICE), no_op())
    torn = len(node.segment.read_bytes())
    node.append(no_op())
    whole = node.segment.read_bytes()
    node.segment.write_bytes(whole[:-3])

    left = f"{len(whole[torn:-3].rstrip(bytes(1)))} bytes of an unfinished batch left"
    assert take_in(spark, tables, node) == f"metadata log: 3 records, read up to offset 3, {left}"
    node.segment.write_bytes(whole)
    node.roll()
    node.append(framed(19, b"too short"))
    assert take_in(spark, tables, node) == "metadata log: 1 records, read up to offset 5"
    assert take_in(spark, tables, node) == "metadata log: 0 records, read up to offset 5"

    assert offsets(spark, tables) == [0, 1, 2, 3]
    [bad] = delta.read_table(spark, tables.quarantine).collect()
    assert (bad[S.KAFKA_TOPIC], bad[S.KAFKA_OFFSET]) == ("__cluster_metadata", 4)


@pytest.mark.long
def test_an_older_copy_fills_what_was_missing_and_other_logs_are_refused(
    spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    archived, node = Node(tmp_path / "archived"), Node(tmp_path / "node")
    for each in (archived, node):
        each.append(access_control_entry(ALICE))
        each.roll()
    first = sorted(node.path.glob("*.log"))[0]
    first.unlink()
    node.snapshot(access_control_entry(ALICE))
    node.append(no_op())
    archived.append(no_op())

    take_in(spark, tables, node)
    log = delta.read_table(spark, tables.metadata_log, S.METADATA_LOG)
    assert [(row[S.LOG_OFFSET], row[S.FROM_SNAPSHOT]) for row in log.orderBy(S.LOG_OFFSET).collect()] == [
        (1, True),
        (2, False),
    ]
    assert take_in(spark, tables, archived, node).startswith("metadata log: 2 records")
    assert offsets(spark, tables) == [0, 1, 1, 2]

    stranger = Node(tmp_path / "stranger")
    stranger.append(no_op(), later_ms=77)
    stranger.append(no_op())
    with pytest.raises(AuditError, match=r"metadata offset 1 of .*stranger.* is a NoOpRecord"):
        take_in(spark, tables, stranger)
    with pytest.raises(AuditError, match="disagree on the record at metadata offset 1"):
        take_in(spark, Tables(f"{tables.root}-new"), archived, stranger)


@pytest.mark.spec("D13", "D15")
def test_a_secret_that_differs_between_nodes_or_was_edited_since_is_refused(
    spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    """No column has it in clear. Which of the nodes has the true one, nobody knows."""
    true, edited = Node(tmp_path / "true"), Node(tmp_path / "edited")
    for node, key in ((true, b"stored"), (edited, b"STORED")):
        node.append(user_scram_credential("alice", b"salt", key, b"server", 4096))
        node.append(no_op())

    with pytest.raises(AuditError, match=r"disagree on the record at metadata offset 1: .*UserScram"):
        take_in(spark, tables, true, edited)
    assert take_in(spark, tables, true).startswith("metadata log: 3 records")
    with pytest.raises(AuditError, match=r"metadata offset 1 of .*edited.* of another time or content"):
        take_in(spark, tables, edited)


@pytest.mark.long
def test_a_snapshot_ends_what_it_does_not_hold(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    node = Node(tmp_path / "node")
    node.append(access_control_entry(ALICE))
    node.append(client_quota({"user": "alice"}, "producer_byte_rate", 1000.0))
    take_in(spark, tables, node)
    node.append(*[no_op()] * 5)
    for segment in node.path.glob("*.log"):
        segment.unlink()
    node.roll()
    node.snapshot(access_control_entry(BOB))
    node.append(no_op())

    assert take_in(spark, tables, node) == "metadata log: 1 records, read up to offset 9"
    assert take_in(spark, tables, node) == "metadata log: 0 records, read up to offset 9"

    log = delta.read_table(spark, tables.metadata_log, S.METADATA_LOG)
    in_force = {
        row[S.ACL_ID]: (row["added_offset"], row["removed_offset"]) for row in acl_intervals(log).collect()
    }
    assert in_force == {acl_id(1): (1, 7), acl_id(2): (7, 2**63 - 1)}
    [limit] = quota_intervals(log).collect()
    assert (limit["set_offset"], limit["unset_offset"]) == (2, 7)
    [lost] = missing_history(log).collect()
    assert (lost[0], [tuple(each) for each in lost[1]]) == (-1, [(3, 7)])
    marked = log.where(S.FROM_SNAPSHOT).select(S.LOG_OFFSET, S.RECORD, S.BODY).collect()
    assert sorted((row[0], row[1]) for row in marked) == [
        (7, "AccessControlEntryRecord"),
        (7, "ClientQuotaRecord"),
        (7, "RemoveAccessControlEntryRecord"),
    ]
    assert {json.loads(row[2])["id"] for row in marked if "id" in json.loads(row[2])} == {
        acl_id(1),
        acl_id(2),
    }


@pytest.mark.long
def test_of_several_voters_only_what_is_settled_is_taken(
    spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    nodes = [Node(tmp_path / name, voters=(1, 2, 3)) for name in ("one", "two")]
    for node in nodes:
        for _ in range(9):
            node.append(no_op())
    # What only the first has may be taken back.
    nodes[0].append(access_control_entry(ALICE))

    take_in(spark, tables, *nodes)
    assert offsets(spark, tables) == [0, 1, 2, 3, 4, 5]
    assert take_in(spark, tables, nodes[1], settle_ms=0) == "metadata log: 4 records, read up to offset 10"


def test_a_table_of_a_topic_takes_no_log_of_kafkas(
    spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    delta.create_tables(spark, tables)
    row = (None, 0, None, 20, "NoOpRecord", 0, "{}", "key", None)
    spark.createDataFrame([row], S.LOG).write.format("delta").mode("append").save(tables.metadata_log)

    with pytest.raises(AuditError, match="holds the log of a topic"):
        take_in(spark, tables, Node(tmp_path / "node"))
