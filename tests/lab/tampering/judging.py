"""Runs the real jobs over the trails of many cells at once, and says whose finding is whose.

Each scene has a partition of the audit topic, a range of offsets of the log, and names of its own.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, Row, SparkSession

from spark_audit import schema as S
from spark_audit.ingest import decode
from spark_audit.reconcile import finding
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.tables.delta import empty_frame
from tests.lab.tampering.scene import OFFSETS, SECRET
from tests.lab.tampering.topics import Topics
from tests.spark.audit_trail import NOON_MS
from tests.spark.frames import KAFKA, frame, log_frame, moment
from tests.spark.sealed import Line

Found = dict[int, set[str]]
"""Number of a scene -> the checks that found something in it."""
_TOKEN = re.compile(r"k(\d{4})")


def audit_topic(spark: SparkSession, scenes: Mapping[int, Topics]) -> DataFrame:
    """The rows of Spark's Kafka source for the audit topic: one partition for each scene."""
    rows = [
        (line.key, line.value, "audit", number, offset, moment(_appended_ms(line)), None)
        for number, topics in scenes.items()
        for offset, line in enumerate(topics.lines)
    ]
    return frame(spark, rows, KAFKA)


def _appended_ms(line: Line) -> int:
    record: dict[str, int] = {"time_ms": NOON_MS} | line.record
    return record.get("appended_ms", record["time_ms"])


def judged(spark: SparkSession, scenes: Mapping[int, Topics]) -> Found:
    """What reconciliation finds in each scene. AssertionError for a finding that is of no scene."""
    return found_in(tables(spark, scenes))


def tables(spark: SparkSession, scenes: Mapping[int, Topics]) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Tables `audit`, `quarantine` and `metadata_log` of the scenes."""
    checked = audit_topic(spark, scenes).transform(decode.check_audit).persist()
    audit = checked.transform(decode.audit_rows).persist()
    quarantine = checked.transform(decode.quarantine_rows).persist()
    return (
        audit,
        quarantine,
        log_frame(spark, [record for topics in scenes.values() for record in topics.log]),
    )


def found_in(tables: tuple[DataFrame, DataFrame, DataFrame], days: Sequence[str] = ()) -> Found:
    """What reconciliation of these days, or of all, finds in each scene."""
    most, finding.MOST_ALIKE = finding.MOST_ALIKE, 1_000_000
    try:  # Each scene has findings of its own.
        return by_scene(reconcile(*tables, days=days, chain_key=SECRET).findings)
    finally:
        finding.MOST_ALIKE = most


def by_scene(findings: Iterable[Row]) -> Found:
    found: Found = {}
    for row in findings:
        numbers = scenes_of(row)
        assert numbers, f"of no scene: {row}"
        for number in numbers:
            found.setdefault(number, set()).add(row[S.CHECK])
    return found


def scenes_of(found: Row) -> set[int]:
    evidence = json.loads(found[S.EVIDENCE])
    if evidence.get(S.KAFKA_TOPIC) == "audit":
        return {evidence[S.KAFKA_PARTITION]}
    named = {int(number) for number in _TOKEN.findall(f"{found[S.EXPLANATION]} {found[S.EVIDENCE]}")}
    offsets: Sequence[int] = (
        [evidence[S.LOG_OFFSET]]
        if S.LOG_OFFSET in evidence
        else evidence.get("missing_offsets", [each["first"] for each in evidence.get("ranges", [])])
    )
    return named or {offset // OFFSETS for offset in offsets}


def nothing(spark: SparkSession) -> DataFrame:
    return empty_frame(spark, S.QUARANTINE)
