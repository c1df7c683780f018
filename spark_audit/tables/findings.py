"""What `reconcile` writes and `report` reads: findings.json."""

from typing import NotRequired, TypedDict


class Finding(TypedDict):
    """A row of the table of findings, with its evidence as JSON has it."""

    id: str
    check: str
    severity: str
    date: str
    explanation: str
    evidence: object


class Summary(TypedDict):
    """What was looked at, and how much was found."""

    schema_version: int
    records: int
    metadata_records: int
    decisions: dict[str, int]
    """Outcome of a check of a decision -> records."""
    findings: dict[str, int]
    """Severity -> findings."""
    days: NotRequired[list[str]]
    """YYYY-MM-DD; empty for the whole trail."""
    tables: NotRequired[str]
    versions: NotRequired[dict[str, int]]
    """Table -> its version when it was read."""


class Document(TypedDict):
    summary: Summary
    findings: list[Finding]
