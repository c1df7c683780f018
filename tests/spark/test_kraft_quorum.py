"""Three Kafka nodes with proxies before them: a leader that dies with a tail nobody else has, and then Spark.

Takes some ten minutes, so it is left to `make kraft-quorum`: what of it one node can show is in
test_kraft_audit.py, and what proves that a record is committed in test_kraft_commit.py.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from proxy.net.runtime.clock import now_ms
from spark_audit import schema as S
from spark_audit.kraft.log_directory import files_of
from spark_audit.kraft.log_import import import_kraft_log
from spark_audit.reconcile.decisions import decision_findings, verdicts
from spark_audit.reconcile.kraft_changes import kraft_changes
from spark_audit.reconcile.quotas import quotas
from spark_audit.reconcile.reconciliation import Result, reconcile
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.trail.audit_records import deduplicate
from tests.lab.cluster.broker import Broker
from tests.lab.cluster.stack import Stack
from tests.spark.kraft_state import dumped, in_table, state_in
from tests.spark.test_kraft_audit import BY_HAND, go_past_the_proxies, of, take_in, work
from tests.support.every_change import change_everything
from tests.support.gates import a_stack
from tests.support.kraft_directories import Lost, in_time, lose
from tests.support.told_state import ToldState, leader_by, told_by
from tests.support.two_sides import doors

LONG = os.environ.get("PENSTOCK_KRAFT_QUORUM") == "all"
pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.spec("D5", "D6"),
    pytest.mark.skipif(not LONG, reason="takes some ten minutes: make kraft-quorum"),
]

SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "4000",
    "internal.metadata.log.segment.bytes": "60000",
}
CLEANING = {
    "metadata.max.retention.bytes": "1000",
    "internal.metadata.log.segment.bytes": "20000",
    "internal.metadata.delete.delay.millis": "1000",
}
"""Of a node that looks once a minute for what it may delete."""


@dataclass
class Evidence:
    stack: Stack
    tables: Tables
    early: Tables
    """A copy from before the leader was lost."""
    lost: Lost
    old: Broker
    """The leader that was lost, and is back."""
    clean: Result
    audit: DataFrame
    log: DataFrame
    state: ToldState


def until_deleted(broker: Broker, offset: int) -> None:
    """Until the node itself has deleted the segments that held it."""
    since_ms = now_ms()
    while not in_time(files_of(broker.metadata_log).segments[0].base_offset > offset, since_ms, "deletion"):
        pass


@pytest.fixture(scope="module")
def evidence(
    spark: SparkSession, kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Evidence]:
    directory = tmp_path_factory.mktemp("kraft-quorum")
    tables, early = Tables(str(directory / "tables")), Tables(str(directory / "early"))
    told: list[str] = []
    properties = dict(SNAPSHOTS)
    with a_stack(kafka_libs, directory / "stack", "kraft", brokers=3, broker_properties=properties) as stack:
        brokers = {each.number: each.broker for each in stack.nodes}
        asyncio.run(work(stack))
        leader = asyncio.run(leader_by(doors(stack)[0]))
        take_in(spark, stack, tables, told, brokers[leader].metadata_log)
        shutil.copytree(tables.root, early.root)
        old = brokers[leader]
        lost = lose(old, [each for each in brokers.values() if each is not old], directory / "old-leader")
        survivor = next(number for number in brokers if number != leader)
        broker, proxy = doors(stack, survivor)
        asyncio.run(leader_by(broker, but=leader))
        asyncio.run(change_everything(proxy, "after"))
        properties |= CLEANING
        old.start()
        asyncio.run(change_everything(proxy, "last"))
        take_in(spark, stack, tables, told, brokers[survivor].metadata_log)
        clean = reconcile(*of(spark, tables))
        spark.catalog.clearCache()
        asyncio.run(go_past_the_proxies(stack, survivor))
        state = asyncio.run(told_by(broker))
        for each in stack.nodes:
            each.proxy.stop()
        until_deleted(old, max(lost.taken) + 1)
        take_in(spark, stack, tables, told, *(each.metadata_log for each in brokers.values()))
        audit, _, log = of(spark, tables)
        kept = deduplicate(audit).drop(S.LINE).persist(), log.persist()
        yield Evidence(stack, tables, early, lost, old, clean, *kept, state)


def test_a_clean_trail_has_no_finding_after_the_leader_was_lost(evidence: Evidence) -> None:
    assert [(row[S.CHECK], row[S.EXPLANATION]) for row in evidence.clean.findings] == []
    assert set(evidence.clean.summary["decisions"]) == {"evaluated"}


def test_nothing_was_taken_that_the_next_leader_took_back(evidence: Evidence) -> None:
    """Though the old leader's disk had such records, and they are not in the log that the quorum has."""
    own = evidence.log.where("not from_snapshot").select(
        S.LOG_OFFSET, F.unix_millis(S.LOG_TIMESTAMP), S.RECORD, S.BODY
    )
    ours = {row[0]: (row[1], row[2], row[3]) for row in own.collect()}
    taken_back = [offset for offset, told in evidence.lost.tail.items() if told != ours.get(offset)]

    assert len(evidence.lost.taken) > 100
    assert evidence.lost.taken.items() <= ours.items()
    assert max(evidence.lost.taken) < min(taken_back)


def test_exactly_what_was_made_past_the_proxies_is_found(evidence: Evidence) -> None:
    found = kraft_changes(evidence.audit, evidence.log).collect()

    assert {row[S.CHECK] for row in found} == {"changes.unexplained"}
    assert [BY_HAND in row[S.EVIDENCE] for row in found] == [True, True]


def test_the_log_comes_to_what_the_brokers_tell(evidence: Evidence) -> None:
    assert state_in(evidence.log) == evidence.state


def test_each_nodes_directory_is_what_kafkas_own_decoder_reads(evidence: Evidence) -> None:
    tools = evidence.stack.tools_at_the_broker()
    ours = in_table(evidence.log)
    for each in evidence.stack.nodes:
        segments = [segment.path for segment in files_of(each.broker.metadata_log).segments]
        said = {read for of_file in dumped(tools, segments).values() for read in of_file}
        first = min(offset for offset, _ in said)
        last = max(offset for offset, _ in ours)
        assert {read for read in said if read[0] <= last} == {read for read in ours if read[0] >= first}


def test_what_the_node_itself_deleted_is_lost_and_nothing_is_accused(
    evidence: Evidence, spark: SparkSession
) -> None:
    told: list[str] = []
    before = delta.read_table(spark, evidence.early.metadata_log, S.METADATA_LOG).count()

    import_kraft_log(spark, [str(evidence.old.metadata_log)], evidence.early, told.append)

    log = delta.read_table(spark, evidence.early.metadata_log, S.METADATA_LOG)
    assert told[0].startswith("metadata log: state before offset ")
    assert log.count() > before
    assert state_in(log) == evidence.state
    found = kraft_changes(evidence.audit, log).collect()
    assert "changes.incomplete_log" in {row[S.CHECK] for row in found}
    others = [row for row in found if row[S.CHECK] != "changes.incomplete_log"]
    assert [BY_HAND in row[S.EVIDENCE] for row in others] == [True for _ in others]
    judged = decision_findings(verdicts(evidence.audit, log)).collect()
    assert {row[S.CHECK] for row in judged} <= {"decisions.unverifiable"}
    assert quotas(evidence.audit, log).collect() == []


def test_a_directory_of_the_old_leader_beside_the_others_changes_nothing(
    evidence: Evidence, spark: SparkSession, tmp_path: Path
) -> None:
    """Its disk as it was when it was killed."""
    tables, told = Tables(str(tmp_path / "tables")), list[str]()
    alive = [each.broker for each in evidence.stack.nodes if each.broker is not evidence.old]

    import_kraft_log(
        spark,
        [str(evidence.lost.disk), *(str(each.metadata_log) for each in alive)],
        tables,
        told.append,
    )

    again = in_table(delta.read_table(spark, tables.metadata_log, S.METADATA_LOG))
    assert in_table(evidence.log) <= again
