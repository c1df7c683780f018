"""A real broker with its own controller, a proxy in kraft mode, and Spark: what is found, and what is not."""

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from proxy.wire.api_keys import ApiKey
from spark_audit import schema as S
from spark_audit.ingest import streams
from spark_audit.ingest.streams import IngestTopics
from spark_audit.kraft import log_directory
from spark_audit.kraft.log_import import import_kraft_log
from spark_audit.kraft.quorum import static_voters
from spark_audit.reconcile.decisions import decision_findings, verdicts
from spark_audit.reconcile.kraft_changes import kraft_changes
from spark_audit.reconcile.reconciliation import Result, reconcile
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.trail.audit_records import deduplicate
from tests.lab.cluster.settings import AUDIT_TOPIC
from tests.lab.cluster.stack import Stack
from tests.spark.kraft_state import dumped, in_table, kinds_in_snapshots, state_in
from tests.support.every_change import change_everything, change_tokens, topic_request
from tests.support.gates import a_stack
from tests.support.told_state import ToldState, told_by
from tests.support.two_sides import allow_request, doors, until, user_request

pytestmark = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.spec("D5", "D6"),
]

USER, PASSWORD = "carol", "secret"
EAGER = {
    "metadata.log.max.record.bytes.between.snapshots": "1500",
    "internal.metadata.log.segment.bytes": "3000",
}
"""A snapshot and another segment every few changes."""
BY_HAND = "made-past-the-proxies"
ACL = "AccessControlEntryRecord"


@dataclass
class Evidence:
    """Two states of one trail: before and after somebody went past the proxies."""

    stack: Stack
    tables: Tables
    told: list[str]
    clean: Result
    copy: Path
    audit: DataFrame
    log: DataFrame
    state: ToldState
    """As the broker told it in the end."""

    def findings(self, audit: DataFrame, log: DataFrame | None = None) -> list[tuple[str, Mapping[str, Any]]]:
        rows = kraft_changes(audit, self.log if log is None else log).collect()
        found = [(row[S.CHECK], json.loads(row[S.EVIDENCE])) for row in rows]
        return sorted(found, key=lambda each: (each[0], each[1].get("offset", 0)))


async def work(stack: Stack) -> None:
    """All through the proxy: every kind of change, and a user who may do nothing and then something."""
    _, door = doors(stack)
    await change_everything(door, "orders")
    await door.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, user_request(USER, PASSWORD))
    as_user = door.as_user(USER, PASSWORD)
    await until(lambda: door.lets_in(as_user))
    assert not await door.shows("orders-stays", as_user)
    await door.ask(ApiKey.CREATE_ACLS, allow_request("orders-stays", USER))
    assert await door.shows("orders-stays", as_user)
    await door.ask(ApiKey.CREATE_TOPICS, topic_request("not-hers"), as_user)
    await change_tokens(door, as_user)


async def go_past_the_proxies(stack: Stack, number: int = 1) -> None:
    broker, _ = doors(stack, number)
    await broker.ask(ApiKey.CREATE_ACLS, allow_request(BY_HAND, "mallory"))
    await broker.ask(ApiKey.CREATE_TOPICS, topic_request(BY_HAND))


def take_in(spark: SparkSession, stack: Stack, tables: Tables, told: list[str], *logs: Path) -> None:
    """Without `logs` the directory that the broker is writing."""
    streams.ingest(spark, IngestTopics(stack.broker.plaintext, AUDIT_TOPIC, ""), tables, told.append)
    end = delta.highest_metadata_offset(spark, tables) + 1
    places = [str(each) for each in logs or [stack.broker.metadata_log]]
    import_kraft_log(spark, places, tables, told.append, wanted_end=end)


def of(spark: SparkSession, tables: Tables) -> tuple[DataFrame, DataFrame, DataFrame]:
    return (
        delta.read_table(spark, tables.audit, S.AUDIT),
        delta.read_table(spark, tables.quarantine),
        delta.read_table(spark, tables.metadata_log, S.METADATA_LOG),
    )


@pytest.fixture(scope="module")
def evidence(
    spark: SparkSession, kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Evidence]:
    directory = tmp_path_factory.mktemp("kraft-audit")
    tables = Tables(str(directory / "tables"))
    told: list[str] = []
    with a_stack(kafka_libs, directory / "stack", "kraft", broker_properties=EAGER) as stack:
        asyncio.run(work(stack))
        take_in(spark, stack, tables, told)
        audit, quarantine, log = of(spark, tables)
        clean = reconcile(audit, quarantine, log)
        spark.catalog.clearCache()
        asyncio.run(go_past_the_proxies(stack))
        state = asyncio.run(told_by(doors(stack)[0]))
        stack.proxy.stop()
        copy = directory / "copy"
        shutil.copytree(stack.broker.metadata_log, copy)
        take_in(spark, stack, tables, told, copy)
        audit, _, log = of(spark, tables)
        kept = deduplicate(audit).drop(S.LINE).persist(), log.persist()
        yield Evidence(stack, tables, told, clean, copy, *kept, state)


def test_a_clean_trail_has_no_finding_while_the_cluster_runs(evidence: Evidence) -> None:
    assert [(row[S.CHECK], row[S.EXPLANATION]) for row in evidence.clean.findings] == []
    assert set(evidence.clean.summary["decisions"]) == {"evaluated"}


def test_exactly_what_was_made_past_the_proxies_is_found(evidence: Evidence) -> None:
    found = evidence.findings(evidence.audit)

    assert [(check, proof["record"], BY_HAND in str(proof["body"])) for check, proof in found] == [
        ("changes.unexplained", "AccessControlEntryRecord", True),
        ("changes.unexplained", "TopicRecord", True),
    ]


GONE = ("AlterClientQuotas", "AlterUserScramCredentials", "CreateTopics", "DeleteAcls", "DeleteTopics")


@pytest.mark.long
def test_audit_records_taken_away_and_a_record_of_the_log_altered_are_found(evidence: Evidence) -> None:
    forwarded = evidence.audit.where((F.col(S.EVENT) == "forwarded") & F.col(S.METHOD).isin(*GONE))
    first = forwarded.groupBy(S.METHOD).agg(F.min_by(F.struct("*"), S.SEQUENCE).alias("gone")).collect()
    gone = [row["gone"] for row in first]
    left = evidence.audit.where(~F.col(S.SEQUENCE).isin([each[S.SEQUENCE] for each in gone]))
    altered = evidence.log.withColumn(S.BODY, F.regexp_replace(S.BODY, "User:another", "User:mallory"))

    found = evidence.findings(left, altered)

    unexplained = [proof for check, proof in found if check == "changes.unexplained"]
    own = {proof["offset"]: proof["record"] for proof in unexplained if BY_HAND not in proof["body"]}
    for each in gone:
        window = range(each[S.FIRST_OFFSET], each[S.LAST_OFFSET] + 1)
        assert {record for offset, record in own.items() if offset in window} == {each[S.CHANGES][0][0]}
    assert sorted(own.values()) == sorted([*(each[S.CHANGES][0][0] for each in gone), ACL])
    [lost] = [proof for check, proof in found if check == "forwarded.not_in_the_log"]
    assert lost["method"] == "CreateAcls"
    assert "User:another" in str(lost["missing_changes"])


def test_a_decision_that_was_flipped_is_found(evidence: Evidence) -> None:
    denied = F.col(S.RESOURCE_NAME) == "orders-stays"
    flipped = evidence.audit.withColumn(
        S.GRANTED, F.when(denied, ~F.col(S.GRANTED)).otherwise(F.col(S.GRANTED))
    )

    found = decision_findings(verdicts(flipped, evidence.log)).collect()

    assert {row[S.CHECK] for row in found} >= {"decisions.wrongly_granted"}


def test_every_record_and_snapshot_is_what_kafkas_own_decoder_reads(evidence: Evidence) -> None:
    """kafka-dump-log's offsets and kinds, of all segments, and the kinds in snapshots."""
    files = sorted([*evidence.copy.glob("*.log"), *evidence.copy.glob("*-*.checkpoint")])
    said = dumped(evidence.stack.tools_at_the_broker(), files)

    ours = in_table(evidence.log)
    assert ours == {each for name in said if name.endswith(".log") for each in said[name]}
    assert len(ours) == evidence.log.count() > 50
    snapshots = kinds_in_snapshots(evidence.copy)
    assert snapshots == {
        name: Counter(kind for _, kind in said[name] if kind is not None) for name in snapshots
    }
    assert (len(snapshots) > 1, len(list(evidence.copy.glob("*.log"))) > 2) == (True, True)


def test_the_log_comes_to_what_the_broker_tells(evidence: Evidence) -> None:
    assert state_in(evidence.log) == evidence.state
    assert {len(evidence.state.acls) > 2, len(evidence.state.users) > 1} == {True}


@pytest.mark.long
def test_what_was_deleted_behind_a_snapshot_is_lost_and_nothing_is_accused(
    evidence: Evidence, spark: SparkSession, tmp_path: Path
) -> None:
    """As Kafka cleans up: segments that lie wholly before a snapshot, when nobody had imported them yet."""
    directory = shutil.copytree(evidence.copy, tmp_path / "cleaned")
    middle = log_directory.files_of(directory).snapshots[-2]
    for segment in log_directory.files_of(directory).segments:
        if segment.end_offset is not None and segment.end_offset <= middle.end_offset:
            segment.path.unlink()
    for each in log_directory.files_of(directory).snapshots:
        if each.end_offset < middle.end_offset:
            each.path.unlink()
    begin = log_directory.files_of(directory).segments[0].base_offset
    tables, told = Tables(str(tmp_path / "tables")), list[str]()

    import_kraft_log(spark, [str(directory)], tables, told.append)

    log = delta.read_table(spark, tables.metadata_log, S.METADATA_LOG)
    assert told[0].startswith(f"metadata log: state before offset {middle.end_offset} read from ")
    assert state_in(log) == evidence.state
    found = evidence.findings(evidence.audit, log)
    assert [proof for check, proof in found if check == "changes.incomplete_log"] == [
        {"hole_first": 0, "hole_last": begin - 1}
    ]
    others = [(check, proof) for check, proof in found if check != "changes.incomplete_log"]
    assert {check for check, _ in others} <= {"changes.unexplained"}
    assert all(BY_HAND in proof["body"] for _, proof in others)
    judged = decision_findings(verdicts(evidence.audit, log)).select(S.CHECK).distinct().collect()
    assert {row[0] for row in judged} <= {"decisions.unverifiable"}


def test_nothing_is_read_twice_and_no_secret_at_all(evidence: Evidence, spark: SparkSession) -> None:
    before = evidence.log.count()
    told: list[str] = []

    import_kraft_log(spark, [str(evidence.copy)], evidence.tables, told.append)

    after = delta.read_table(spark, evidence.tables.metadata_log, S.METADATA_LOG)
    assert after.count() == before == after.select(S.LOG_OFFSET).distinct().count()
    assert told[0].startswith("metadata log: 0 records, read up to offset ")
    bodies = after.where("record = 'UserScramCredentialRecord'").select(S.BODY).distinct().collect()
    assert {tuple(sorted(json.loads(row[0]))) for row in bodies} == {("iterations", "mechanism", "name")}
    assert static_voters(evidence.copy) == frozenset({1})
