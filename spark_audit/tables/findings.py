"""What `reconcile` writes and `report` reads: findings.json, and the table `findings` beside it."""

import json
from collections.abc import Sequence
from typing import NotRequired, TypedDict

from pyspark.sql import Row, SparkSession

from spark_audit import schema as S
from spark_audit.tables.delta import frame_of
from spark_audit.tables.files import AuditError, read_text, write_text


class Finding(TypedDict):
    """One row of table `findings`, with its evidence as a JSON value."""

    id: str
    check: str
    severity: str
    date: str
    explanation: str
    evidence: object


class Summary(TypedDict):
    """What was checked, and how many findings there are."""

    schema_version: int
    records: int
    metadata_records: int
    decisions: dict[str, int]
    """Outcome of checking a decision -> records."""
    findings: dict[str, int]
    """Severity -> findings."""
    days: NotRequired[list[str]]
    """YYYY-MM-DD; empty for the whole trail."""
    tables: NotRequired[str]
    versions: NotRequired[dict[str, int]]
    """Table -> the version that was read."""
    signatures: NotRequired[str]
    """What is known of the signatures of the metadata log, if it has any."""
    run: NotRequired[int]
    """The number of this run in the manifest."""


class Document(TypedDict):
    """The content of findings.json."""

    summary: Summary
    findings: list[Finding]


def as_text(findings: Sequence[Row], summary: Summary) -> str:
    """Returns the content of findings.json."""
    document = {"summary": summary, "findings": [_plain(row) for row in findings]}
    return json.dumps(document, indent=1) + "\n"


def write_findings(spark: SparkSession, out: str, findings: Sequence[Row], text: str) -> None:
    """Writes `findings.json` for readers without Spark, and the Delta table `findings` for those with it."""
    frame = frame_of(spark, findings, S.FINDING)
    frame.coalesce(1).write.format("delta").mode("overwrite").save(f"{out.rstrip('/')}/findings")
    write_text(spark, f"{out.rstrip('/')}/findings.json", text)


def read_findings(spark: SparkSession, directory: str) -> Document:
    """Reads `findings.json`. AuditError if `reconcile` has not written it."""
    path = f"{directory.rstrip('/')}/findings.json"
    try:
        document: Document = json.loads(read_text(spark, path))
    except (OSError, ValueError) as error:
        raise AuditError(f"{path} cannot be read ({error}): run `reconcile` first") from error
    if not isinstance(document, dict) or not {"summary", "findings"} <= document.keys():
        raise AuditError(f"{path} was not written by `reconcile`: it has no summary and findings")
    return document


def _plain(row: Row) -> dict[str, object]:
    fields = row.asDict()
    return fields | {S.DATE: str(fields[S.DATE]), S.EVIDENCE: json.loads(fields[S.EVIDENCE])}
