"""A real broker with its own controller, a proxy in kraft mode, and Spark: what is found, and what is not."""

import asyncio
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from proxy.demo.settings import AUDIT_TOPIC
from proxy.demo.stack import Stack
from proxy.wire.api_keys import ApiKey
from spark_audit import ingest, sources
from spark_audit import schema as S
from spark_audit.copies import each_record_once
from spark_audit.ingest import Topics
from spark_audit.kraft_import import import_kraft_log
from spark_audit.kraft_quorum import voters_told
from spark_audit.reconcile.decisions import decision_findings, verdicts
from spark_audit.reconcile.kraft_changes import kraft_changes
from spark_audit.reconciliation import Result, reconcile
from spark_audit.sources import Tables
from tests.support.every_change import change_everything, change_tokens, topic_request
from tests.support.gates import a_stack
from tests.support.two_sides import allow_request, doors, until, user_request

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("D5", "D6")]

USER, PASSWORD = "carol", "secret"
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


async def go_past_the_proxies(stack: Stack) -> None:
    broker, _ = doors(stack)
    await broker.ask(ApiKey.CREATE_ACLS, allow_request(BY_HAND, "mallory"))
    await broker.ask(ApiKey.CREATE_TOPICS, topic_request(BY_HAND))


def take_in(
    spark: SparkSession, stack: Stack, tables: Tables, told: list[str], log: Path | None = None
) -> None:
    """Without `log` the directory that the broker is writing."""
    ingest.ingest(spark, Topics(stack.broker.plaintext, AUDIT_TOPIC, ""), tables, told.append)
    end = sources.offset_named(spark, tables) + 1
    place = str(log or stack.broker.metadata_log)
    import_kraft_log(spark, [place], tables, told.append, wanted_end=end)


def of(spark: SparkSession, tables: Tables) -> tuple[DataFrame, DataFrame, DataFrame]:
    return (
        sources.read_table(spark, tables.audit, S.AUDIT),
        sources.read_table(spark, tables.quarantine),
        sources.read_table(spark, tables.metadata_log, S.METADATA_LOG),
    )


@pytest.fixture(scope="module")
def evidence(
    spark: SparkSession, kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Evidence]:
    directory = tmp_path_factory.mktemp("kraft-audit")
    tables = Tables(str(directory / "tables"))
    told: list[str] = []
    with a_stack(kafka_libs, directory / "stack", "kraft") as stack:
        asyncio.run(work(stack))
        take_in(spark, stack, tables, told)
        audit, quarantine, log = of(spark, tables)
        clean = reconcile(audit, quarantine, log)
        spark.catalog.clearCache()
        asyncio.run(go_past_the_proxies(stack))
        stack.proxy.stop()
        copy = directory / "copy"
        shutil.copytree(stack.broker.metadata_log, copy)
        take_in(spark, stack, tables, told, copy)
        audit, _, log = of(spark, tables)
        kept = each_record_once(audit).drop(S.LINE).persist(), log.persist()
        yield Evidence(stack, tables, told, clean, copy, *kept)


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


def test_every_record_is_what_kafkas_own_decoder_reads(evidence: Evidence) -> None:
    """kafka-dump-log's offsets and kinds, of all segments."""
    segments = sorted(evidence.copy.glob("*.log"))
    tools = evidence.stack.tools_at_the_broker()
    arguments = ["--cluster-metadata-decoder", "--files", ",".join(map(str, segments))]
    said = tools.run("kafka-dump-log", *arguments).stdout

    ours = {
        (row[S.LOG_OFFSET], None if row[S.API_KEY] is None else row[S.RECORD])
        for row in evidence.log.select(S.LOG_OFFSET, S.API_KEY, S.RECORD).collect()
    }
    assert ours == dumped(said)
    assert len(ours) == evidence.log.count() > 100


def dumped(said: str) -> set[tuple[int, str | None]]:
    """Offset and kind of each record; None of a control record."""
    found = set()
    for line in said.splitlines():
        if line.startswith("| offset: "):
            offset = int(line.split()[2])
            payload = line.partition(" payload: ")[2]
            kind = json.loads(payload)["type"] if payload.startswith('{"type"') else None
            words = None if kind is None else "".join(word.capitalize() for word in kind.split("_"))
            found.add((offset, words))
    return found


def test_nothing_is_read_twice_and_no_secret_at_all(evidence: Evidence, spark: SparkSession) -> None:
    before = evidence.log.count()
    told: list[str] = []

    import_kraft_log(spark, [str(evidence.copy)], evidence.tables, told.append)

    after = sources.read_table(spark, evidence.tables.metadata_log, S.METADATA_LOG)
    assert after.count() == before == after.select(S.LOG_OFFSET).distinct().count()
    assert told[0].startswith("metadata log: 0 records, read up to offset ")
    bodies = after.where("record = 'UserScramCredentialRecord'").select(S.BODY).distinct().collect()
    assert {tuple(sorted(json.loads(row[0]))) for row in bodies} == {("iterations", "mechanism", "name")}
    assert voters_told(evidence.copy) == {1}
