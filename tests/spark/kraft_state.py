"""What table metadata_log comes to in the end, and what Kafka's own tool reads in the same files."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.kraft import log_directory
from spark_audit.kraft.log_directory import files_of, rows_of
from spark_audit.kraft.metadata_records import SCRAM_MECHANISMS
from spark_audit.policy.acl_history import NEVER, REMOVED, acl_intervals
from spark_audit.reconcile.kraft_states import OF_STATE
from tests.lab.cluster.tools import KafkaTools
from tests.support.told_state import ToldState

Read = tuple[int, str | None]
"""Offset and kind of a record; None of a control record."""
KEPT = {14: ("entity", "key"), 11: ("name", "mechanism"), 22: ("name", "mechanism")}
"""Of quotas and SCRAM users: the fields that tell which one a record is about."""


def state_in(log: DataFrame) -> ToldState:
    """ACLs as the checks' intervals have them at the end; quotas and users as their last records say."""
    acls = (
        acl_intervals(log).where(F.col(REMOVED) == NEVER).drop("added_offset", REMOVED, S.ACL_ID, S.UNTIL_MS)
    )
    fields = (
        S.RESOURCE_TYPE,
        "pattern_name",
        S.PATTERN_TYPE,
        "acl_principal",
        "acl_host",
        "acl_operation",
        "permission_type",
    )
    rows = log.where(F.col(S.API_KEY).isin(*KEPT)).orderBy(S.LOG_OFFSET).collect()
    last = {}
    for row in rows:
        body = json.loads(row[S.BODY])
        gone = row[S.API_KEY] == 22 or body.get("remove")
        about = json.dumps([body[name] for name in KEPT[row[S.API_KEY]]], sort_keys=True)
        last[about] = None if gone else body
    held = [body for body in last.values() if body is not None]
    return ToldState(
        frozenset(tuple(row) for row in acls.select(*fields).collect()),
        frozenset(
            (tuple(sorted(body["entity"].items())), body["key"], body["value"])
            for body in held
            if "entity" in body
        ),
        frozenset(
            (body["name"], SCRAM_MECHANISMS.index(body["mechanism"]), body["iterations"])
            for body in held
            if "mechanism" in body
        ),
    )


def in_table(log: DataFrame) -> set[Read]:
    """Without what snapshots hold."""
    rows = log.where(~F.col(S.FROM_SNAPSHOT)).select(S.LOG_OFFSET, S.API_KEY, S.RECORD).collect()
    return {(row[S.LOG_OFFSET], None if row[S.API_KEY] is None else row[S.RECORD]) for row in rows}


def dumped(tools: KafkaTools, files: Sequence[Path]) -> dict[str, list[Read]]:
    """By file name, what kafka-dump-log reads in segments and snapshots."""
    names = ",".join(map(str, files))
    said = tools.run("kafka-dump-log", "--cluster-metadata-decoder", "--files", names).stdout
    found: dict[str, list[Read]] = {}
    for line in said.splitlines():
        if line.startswith("Dumping "):
            of_file = found.setdefault(Path(line.removeprefix("Dumping ")).name, [])
        elif line.startswith("| offset: "):
            kind = re.search(r' payload: {"type":"(\w+)"', line)
            words = kind and "".join(word.capitalize() for word in kind[1].split("_"))
            of_file.append((int(line.split()[2]), words or None))
    return found


def kinds_in_snapshots(directory: Path) -> dict[str, Counter[str | None]]:
    """By file name, how many of each kind we read."""
    return {
        each.path.name: Counter(row[5] for row in rows_of(log_directory.snapshot_slice(each)))
        for each in files_of(directory).snapshots
    }


def rows_of_state(directory: Path) -> list[Row]:
    """The rows of OF_STATE in the files of a node, as the import makes them, those of a snapshot too."""
    decoded = (name for name, _ in S.DECODED)
    names = "path", S.LOG_OFFSET, "time", "epoch", *decoded, "bytes", S.FROM_SNAPSHOT, S.RECEIVED, S.HIDDEN
    listed = files_of(directory)
    slices = [log_directory.snapshot_slice(each) for each in listed.snapshots]
    slices += log_directory.scan(listed.segments, 0, 0, frozenset({1})).slices
    found = [Row(**dict(zip(names, row, strict=True))) for each in slices for row in rows_of(each)]
    in_order = sorted(found, key=lambda row: (row[S.LOG_OFFSET], row[S.FROM_SNAPSHOT]))
    return [row for row in in_order if row[S.API_KEY] in OF_STATE]
