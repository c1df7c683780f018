"""Imports the directories of KRaft nodes into table `metadata_log`: each committed record once.

The driver reads the heads of batches and executors decode them, so both need the directories at the same
path. New records are merged by offset in one Delta commit, so an interrupted run leaves nothing incomplete.
If segments were deleted, the oldest snapshot that is left replaces what was before. The design is explained
in docs/decisions/0032, what counts as committed in 0039.
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
    LogSegment,
)
from spark_audit.kraft.rows import import_slices, import_snapshot
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from spark_audit.trail.metadata_log import of_topic

COMPARED = 100
POLL_S, STILL_POLLS, PATIENCE_MS = 0.5, 6, 5_000
ATTEMPTS = 3
CLUSTER_ID = "penstock.kafka.cluster.id"
"""A property of the table: the cluster whose log it holds."""


@dataclass(frozen=True, slots=True)
class TableState:
    """The content of the table: the offset after its last record, and the last voters in it."""

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
    """Import what is new and committed. AuditError if directories contradict each other or the table.

    While the log grows, waits until everything before `wanted_end` is committed.
    """
    delta.create_tables(spark, tables)
    for attempt in range(ATTEMPTS):
        try:
            _import(spark, directories, tables, report, settle_ms, wanted_end)
            return
        except FileGoneError as error:
            # A running node deletes segments and snapshots. The ones that are left are enough.
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
    cluster_id = _require_same_cluster(spark, found, tables)
    state = _table_state(log)
    scans = _committed_scans(found, log, state, settle_ms, wanted_end)
    snapshot = _needed_snapshot(found, state)
    if snapshot is not None:
        import_snapshot(spark, snapshot, log, tables)
        covered_end = (snapshot.snapshot_offset or 0) + 1
        report(f"metadata log: state before offset {covered_end} read from {snapshot.path}")
    slices = [piece for each in scans for piece in each.slices]
    count = import_slices(spark, slices, log, tables, several=len(found) > 1) if slices else 0
    if cluster_id is not None:
        delta.set_table_property(spark, tables.metadata_log, CLUSTER_ID, cluster_id)
    end = max([state.end, *(each.committed_end for each in scans)])
    left = sum(each.unfinished_bytes for each in scans)
    unfinished = f", {left} bytes of an unfinished batch left" if left else ""
    report(f"metadata log: {count} records, read up to offset {end}{unfinished}")


def _require_same_cluster(spark: SparkSession, found: Sequence[Directory], tables: Tables) -> str | None:
    """Return the cluster id if the table does not have it yet. AuditError if it is of another cluster."""
    cluster_id = quorum.one_cluster(found)
    known = delta.table_property(spark, tables.metadata_log, CLUSTER_ID)
    if cluster_id is None or cluster_id == known:
        return None
    if known is not None:
        raise AuditError(
            f"--log-dir {found[0].path}: it is of cluster {cluster_id}, but the tables hold the metadata"
            f" log of cluster {known}: use other --tables"
        )
    return cluster_id


def _table_state(log: DataFrame) -> TableState:
    if not of_topic(log).isEmpty():
        raise AuditError(
            "table metadata_log holds the log of a topic (controller.mode penstock). Kafka's own log has"
            " other offsets: use other --tables"
        )
    voters = F.get_json_object(S.BODY, "$.voters")
    named = F.when(F.col(S.RECORD).isin(LEADER_CHANGE, VOTERS), voters)
    row = log.agg(
        F.coalesce(F.max(S.LOG_OFFSET) + 1, F.lit(0)).alias("end"),
        F.max_by(named, F.when(named.isNotNull(), F.col(S.LOG_OFFSET))).alias("voters"),
    ).first()
    assert row is not None
    return TableState(
        int(row["end"]), None if row["voters"] is None else frozenset(json.loads(row["voters"]))
    )


def _committed_scans(
    found: Sequence[Directory], log: DataFrame, state: TableState, settle_ms: int, wanted_end: int
) -> list[Scan]:
    """Scan the directories until everything before `wanted_end` is committed, or the log stops growing."""
    ends: list[int] = []
    while True:
        scans = [_scan(directory, log, state, settle_ms) for directory in found]
        quorum.mark_committed(found, scans)
        committed_end = max(each.committed_end for each in scans)
        ends.append(max(each.end for each in scans))
        # A running node writes twice a second. A directory that does not grow is a copy.
        still = len(ends) > STILL_POLLS and ends[-1] == ends[-1 - STILL_POLLS]
        if committed_end >= wanted_end or still or len(ends) * POLL_S * 1000 > settle_ms + PATIENCE_MS:
            return scans
        time.sleep(POLL_S)


def _scan(directory: Directory, log: DataFrame, state: TableState, settle_ms: int) -> Scan:
    """Scan from the first segment that is not complete in the table."""
    known = _known_offsets(directory.segments, log)
    absent = [
        segment
        for segment, count in zip(directory.segments, known, strict=True)
        if segment.end_offset is None or count < segment.end_offset - segment.base_offset
    ]
    begin = directory.segments.index(absent[0])
    base = absent[0].base_offset
    # The last known records are read again, to check that it is the log of this table.
    first = max(base, state.end - COMPARED) if known[begin] == state.end - base else base
    voters = state.voters or quorum.static_voters(directory.path)
    return log_directory.scan(directory.segments[begin:], first, settle_ms, voters)


def _known_offsets(segments: Sequence[LogSegment], log: DataFrame) -> list[int]:
    """Return how many offsets of each segment are in the table."""
    present = log.where(~F.col(S.FROM_SNAPSHOT) & (F.col(S.LOG_OFFSET) >= segments[0].base_offset))
    within = [
        F.col(S.LOG_OFFSET).between(each.base_offset, (each.end_offset or 2**63 - 1) - 1) for each in segments
    ]
    row = present.agg(*(F.count_if(each) for each in within)).first()
    assert row is not None
    return [int(count) for count in row]


def _needed_snapshot(found: Sequence[Directory], state: TableState) -> Slice | None:
    """Return the oldest snapshot with what neither the table nor a segment has, None if nothing is lost."""
    longest = min(found, key=lambda directory: directory.segments[0].base_offset)
    begin = longest.segments[0].base_offset
    if begin <= state.end:
        return None
    fitting = [each for each in longest.snapshots if each.end_offset >= begin]
    if not fitting:
        raise LogDirectoryError(
            f"{longest.path}: the log starts at offset {begin}, and there is no snapshot of what was before"
        )
    return log_directory.snapshot_slice(fitting[0])
