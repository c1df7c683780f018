"""Directories of KRaft nodes -> table `metadata_log`: each committed record once, whatever is run again.

The driver looks at the heads of batches, executors decode them; both have to see the directories at the same
path. What is new is merged by its offset, in one commit of Delta, so a run that was cut off leaves nothing
half done. Where segments are gone, the oldest snapshot that is left stands for what was before. Why it is
done like this: docs/decisions/0032, and what is taken for committed 0039.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.kraft import log_directory, quorum
from spark_audit.kraft.commit import SETTLE_MS, Scan, Slice
from spark_audit.kraft.log_directory import (
    LEADER_CHANGE,
    VOTERS,
    Directory,
    FileGoneError,
    LogDirectoryError,
    Segment,
)
from spark_audit.kraft.rows import import_slices
from spark_audit.kraft.snapshot import import_snapshot
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError

COMPARED = 100
POLL_S, STILL_POLLS, PATIENCE_MS = 0.5, 6, 5_000
ATTEMPTS = 3
CLUSTER_ID = "penstock.kafka.cluster.id"
"""A property of the table: of which cluster's log it is."""


@dataclass(frozen=True, slots=True)
class Held:
    """What the table has: the offset behind its last record, and the voters that it tells of."""

    end: int
    voters: frozenset[int] | None


def import_kraft_log(
    spark: SparkSession,
    directories: Sequence[str],
    tables: Tables,
    report: Callable[[str], None],
    *,
    settle_ms: int = SETTLE_MS,
    wanted_end: int = 0,
) -> None:
    """Reads what is new and committed. AuditError when directories contradict each other or the table.

    `wanted_end`: while the log grows it is waited for what lies before this offset to be settled.
    """
    delta.create_tables(spark, tables)
    for attempt in range(ATTEMPTS):
        try:
            _import(spark, directories, tables, report, settle_ms, wanted_end)
            return
        except FileGoneError as error:
            # A node deletes segments and snapshots while it runs; what is left is as good.
            if attempt + 1 == ATTEMPTS:
                raise AuditError(f"--log-dir {error}") from error
        except LogDirectoryError as error:
            raise AuditError(f"--log-dir {error}") from error


def _import(
    spark: SparkSession,
    directories: Sequence[str],
    tables: Tables,
    report: Callable[[str], None],
    settle_ms: int,
    wanted_end: int,
) -> None:
    log = delta.read_table(spark, tables.metadata_log, S.METADATA_LOG)
    found = [log_directory.files_of(Path(path)) for path in directories]
    cluster_id = _require_its_cluster(spark, found, tables)
    held = _held(log)
    scans = _settled(found, log, held, settle_ms, wanted_end)
    snapshot = _snapshot_needed(found, held)
    if snapshot is not None:
        import_snapshot(spark, snapshot, log, tables)
        report(
            f"metadata log: what was before offset {(snapshot.snapshot_offset or 0) + 1} from {snapshot.path}"
        )
    slices = [piece for each in scans for piece in each.slices]
    count = import_slices(spark, slices, log, tables, several=len(found) > 1) if slices else 0
    if cluster_id is not None:
        delta.set_table_property(spark, tables.metadata_log, CLUSTER_ID, cluster_id)
    end = max([held.end, *(each.committed_end for each in scans)])
    left = sum(each.unfinished_bytes for each in scans)
    torn = f", {left} bytes of an unfinished batch left" if left else ""
    report(f"metadata log: {count} records, read up to offset {end}{torn}")


def _require_its_cluster(spark: SparkSession, found: Sequence[Directory], tables: Tables) -> str | None:
    """The cluster's id where the table does not say yet that it is of that one."""
    cluster_id = quorum.one_cluster(found)
    known = delta.table_property(spark, tables.metadata_log, CLUSTER_ID)
    if cluster_id is None or cluster_id == known:
        return None
    if known is not None:
        raise AuditError(
            f"--log-dir {found[0].path}: is of cluster {cluster_id}, and the tables hold the metadata log of"
            f" cluster {known}: give it --tables of its own"
        )
    return cluster_id


def _held(log: DataFrame) -> Held:
    topics_own = log.where(F.col(S.FROM_SNAPSHOT).isNull())
    if not topics_own.isEmpty():
        raise AuditError(
            "table metadata_log holds the log of a topic (controller.mode penstock): Kafka's own has other"
            " offsets, give it --tables of its own"
        )
    voters = F.get_json_object(S.BODY, "$.voters")
    told = F.when(F.col(S.RECORD).isin(LEADER_CHANGE, VOTERS), voters)
    row = log.agg(
        F.coalesce(F.max(S.LOG_OFFSET) + 1, F.lit(0)).alias("end"),
        F.max_by(told, F.when(told.isNotNull(), F.col(S.LOG_OFFSET))).alias("voters"),
    ).first()
    assert row is not None
    return Held(int(row["end"]), None if row["voters"] is None else frozenset(json.loads(row["voters"])))


def _settled(
    found: Sequence[Directory], log: DataFrame, held: Held, settle_ms: int, wanted_end: int
) -> list[Scan]:
    """The directories as they are, or as they are a moment later, when what is wanted is settled too."""
    ends: list[int] = []
    while True:
        scans = [_scan(directory, log, held, settle_ms) for directory in found]
        quorum.commit_what_is_proven(found, scans)
        settled = max(each.committed_end for each in scans)
        ends.append(max(each.end for each in scans))
        # A node that runs writes something twice a second; what does not grow is a copy.
        still = len(ends) > STILL_POLLS and ends[-1] == ends[-1 - STILL_POLLS]
        if settled >= wanted_end or still or len(ends) * POLL_S * 1000 > settle_ms + PATIENCE_MS:
            return scans
        time.sleep(POLL_S)


def _scan(directory: Directory, log: DataFrame, held: Held, settle_ms: int) -> Scan:
    """From the first segment on of which the table lacks something."""
    known = _known_of(directory.segments, log)
    absent = [
        segment
        for segment, count in zip(directory.segments, known, strict=True)
        if segment.end_offset is None or count < segment.end_offset - segment.base_offset
    ]
    begin = directory.segments.index(absent[0])
    base = absent[0].base_offset
    # A little of what is known is read again, to see that it is the log of this table.
    first = max(base, held.end - COMPARED) if known[begin] == held.end - base else base
    voters = held.voters or quorum.voters_told(directory.path)
    return log_directory.scan(directory.segments[begin:], first, settle_ms, voters)


def _known_of(segments: Sequence[Segment], log: DataFrame) -> list[int]:
    """How many offsets of each segment are in the table."""
    there = log.where(~F.col(S.FROM_SNAPSHOT) & (F.col(S.LOG_OFFSET) >= segments[0].base_offset))
    within = [
        F.col(S.LOG_OFFSET).between(each.base_offset, (each.end_offset or 2**63 - 1) - 1) for each in segments
    ]
    row = there.agg(*(F.count_if(each) for each in within)).first()
    assert row is not None
    return [int(count) for count in row]


def _snapshot_needed(found: Sequence[Directory], held: Held) -> Slice | None:
    """The oldest that stands for what is neither in the table nor in a segment; None if nothing is lost."""
    longest = min(found, key=lambda directory: directory.segments[0].base_offset)
    begin = longest.segments[0].base_offset
    if begin <= held.end:
        return None
    fitting = [each for each in longest.snapshots if each.end_offset >= begin]
    if not fitting:
        raise LogDirectoryError(
            f"{longest.path}: the log begins at offset {begin}, and no snapshot tells what was before"
        )
    return log_directory.snapshot_slice(fitting[0])
