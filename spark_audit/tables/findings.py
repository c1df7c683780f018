"""What `reconcile` writes and `report` reads: findings.json, and table `findings` of all runs.

Rows in memory have moments in microseconds since the epoch: Spark turns timestamps into local times.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from delta.tables import DeltaTable
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_audit import schema as S
from spark_audit.tables.delta import frame_of, read_table
from spark_audit.tables.files import AuditError, read_text, write_text

_MOMENTS = (S.FIRST_SEEN, S.LAST_SEEN)
_IN_MEMORY = T.StructType(
    [
        T.StructField(field.name, T.LongType() if field.name in _MOMENTS else field.dataType)
        for field in S.FOUND
    ]
)


class Finding(TypedDict):
    """One row of table `findings`, with its evidence as a JSON value."""

    id: str
    check: str
    severity: str
    date: str
    what: NotRequired[str]
    """What this kind of finding is, and what to do next. Older releases do not write them."""
    next: NotRequired[str]
    explanation: str
    evidence: object
    acknowledged: NotRequired[dict[str, str]]
    """`why`, and `by` (a person). It is no open finding."""


class FindingsSummary(TypedDict):
    """What was checked, and how many findings there are."""

    schema_version: int
    records: int
    metadata_records: int
    decisions: dict[str, int]
    """Outcome of checking a decision -> records."""
    findings: dict[str, int]
    """Severity -> open findings."""
    acknowledged: NotRequired[int]
    days: NotRequired[list[str]]
    """YYYY-MM-DD; empty for the whole trail."""
    tables: NotRequired[str]
    versions: NotRequired[dict[str, int]]
    """Table -> the version that was read."""
    cosignatures: NotRequired[dict[str, int]]
    """Verdict -> cosignatures of checkpoints that were verified, if the job has public keys."""
    signatures: NotRequired[str]
    """What is known of the signatures of the metadata log, if it has any."""
    run: NotRequired[int]
    """The number of this run in the manifest."""


class FindingsDocument(TypedDict):
    """The content of findings.json."""

    summary: FindingsSummary
    findings: list[Finding]


def as_text(
    findings: Sequence[Row],
    summary: FindingsSummary,
    kinds: Mapping[str, tuple[str, str]],
    acknowledged: Mapping[str, tuple[str, str]],
) -> str:
    """Return the content of findings.json.

    `kinds`: check -> what it is, and what to do next. `acknowledged`: id -> why, and who says so.
    """
    each = [_plain(row, *kinds[row[S.CHECK]]) | marked(row[S.ID], acknowledged) for row in findings]
    document = {"summary": summary, "findings": each}
    return json.dumps(document, indent=1) + "\n"


def write_findings(spark: SparkSession, out: str, table: str, rows: Sequence[Row], text: str) -> None:
    """Write `findings.json` for readers without Spark, and the Delta table `findings` for those with it."""
    frame = frame_of(spark, rows, _IN_MEMORY)
    frame = frame.withColumns({name: F.timestamp_micros(name) for name in _MOMENTS})
    written = frame.coalesce(1).write.format("delta").mode("overwrite").option("mergeSchema", "true")
    written.save(table)
    write_text(spark, f"{out.rstrip('/')}/findings.json", text)


def read_table_of_findings(spark: SparkSession, table: str) -> list[Row]:
    """Return the rows of table `findings`, none if there is no table. An older table lacks columns."""
    if not DeltaTable.isDeltaTable(spark, table):
        return []
    rows = read_table(spark, table, S.FOUND).withColumns({name: F.unix_micros(name) for name in _MOMENTS})
    return rows.select(*S.FOUND.names).collect()


def seen(
    before: Sequence[Row],
    findings: Sequence[Row],
    now_us: int,
    acknowledged: Mapping[str, tuple[str, str]],
) -> list[Row]:
    """Return the rows of table `findings` after a run at `now_us` that has found `findings`.

    `before` are its rows. `acknowledged`: id -> why, and who says so.
    """
    since = {row[S.ID]: row for row in before}
    rows = {row[S.ID]: row.asDict() for row in before}
    for row in findings:
        first_us = since[row[S.ID]][S.FIRST_SEEN] if row[S.ID] in since else None
        moments = {S.FIRST_SEEN: now_us if first_us is None else first_us, S.LAST_SEEN: now_us}
        rows[row[S.ID]] = {name: row[name] for name in S.FINDING.names} | moments
    for id_, fields in rows.items():
        fields[S.ACKNOWLEDGED], fields[S.ACKNOWLEDGED_BY] = acknowledged.get(id_, (None, None))
    return [Row(**{name: each[name] for name in S.FOUND.names}) for _, each in sorted(rows.items())]


def digested(rows: Sequence[Row]) -> str:
    """Return text that is the same for the same rows. Older releases had the columns of FINDING only."""
    added = S.FOUND.names[len(S.FINDING) :]
    return json.dumps(
        sorted(
            [str(row[name]) for name in S.FINDING.names]
            + [f"{name}={row[name]}" for name in added if row[name] is not None]
            for row in rows
        )
    )


def read_findings(spark: SparkSession, directory: str) -> FindingsDocument:
    """Read `findings.json`. AuditError if `reconcile` has not written it."""
    path = f"{directory.rstrip('/')}/findings.json"
    try:
        document: FindingsDocument = json.loads(read_text(spark, path))
    except (OSError, ValueError) as error:
        raise AuditError(f"{path} cannot be read ({error}): run `reconcile` first") from error
    parts: tuple[object, ...] = ()
    if isinstance(document, dict):
        parts = document.get("summary"), document.get("findings")
    is_document = [isinstance(part, kind) for part, kind in zip(parts, (dict, list), strict=False)]
    if is_document != [True, True] or type(document["summary"].get("run", 0)) is not int:
        raise AuditError(f"{path} was not written by `reconcile`: it has no summary and findings")
    return document


def marked(id_: str, acknowledged: Mapping[str, tuple[str, str]]) -> dict[str, object]:
    """Return the field of an acknowledged finding in findings.json."""
    if id_ not in acknowledged:
        return {}
    why, by = acknowledged[id_]
    return {S.ACKNOWLEDGED: {"why": why, "by": by}}


def _plain(row: Row, what: str, then: str) -> dict[str, object]:
    fields = row.asDict()
    evidence = json.loads(fields[S.EVIDENCE])
    return fields | {S.DATE: str(fields[S.DATE]), S.EVIDENCE: evidence, "what": what, "next": then}
