"""What the reconciliation looked at: the document of findings -> the head of the page. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_audit.tables.findings import Document, Finding, Summary


class NotChecked(Exception):
    """A page was asked for of days that were not reconciled; the text names them."""


QUESTIONS = {
    "gaps": "Each process's sequence runs from 0 to its end: no hole, no number twice with other contents.",
    "chain": "Each line's hash follows from the line before it, and each boot from the one before.",
    "decisions": "Each decision made again gives the same answer, by the ACLs of its metadata offset.",
    "forwarded": "Proxy, controller and metadata log say the same of each forwarded request.",
    "changes": "Each record of the metadata log was written by an audited request.",
    "quotas": "Nobody used more than the quota in force, and the quota applied was the one in force.",
    "sessions": "No request came after its session's deadline.",
    "quarantine": "Each line of the topics can be read as what its topic carries.",
}
"""Family of checks (what stands before the dot) -> what holds when it has no finding."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One family of checks; `worst` is a severity, None without a finding."""

    family: str
    question: str
    findings: int
    worst: str | None


def checked(findings: Sequence[Finding], severities: Sequence[str]) -> list[Checked]:
    """All families, in the order of QUESTIONS; one that this version does not know comes last."""
    of: dict[str, list[str]] = {family: [] for family in QUESTIONS}
    for finding in findings:
        of.setdefault(finding["check"].partition(".")[0], []).append(finding["severity"])
    return [
        Checked(family, QUESTIONS.get(family, ""), len(found), min(found, key=severities.index, default=None))
        for family, found in of.items()
    ]


def verdict(document: Document, severities: Sequence[str], records: int) -> str:
    """`clean`, the worst severity there is, or `empty`: where nothing was looked at, nothing is clean.

    `records` are those of the page: of its days alone, where the document is of the whole trail.
    """
    worst = [severity for severity in severities if document["summary"]["findings"].get(severity)]
    if worst:
        return worst[0]
    return "clean" if document["summary"]["records"] and records else "empty"


def of_days(document: Document, days: Sequence[str]) -> Document:
    """The document with the findings of these days, all where none is named; else NotChecked."""
    done = document["summary"].get("days") or []
    missing = sorted(set(days) - set(done)) if done else []
    if missing:
        raise NotChecked(f"its findings are of {', '.join(done)}, not of {', '.join(missing)}")
    findings = [found for found in document["findings"] if not days or found["date"] in days]
    counts = dict.fromkeys(document["summary"]["findings"], 0)
    for found in findings:
        counts[found["severity"]] += 1
    summary: Summary = {**document["summary"], "findings": counts}
    return {"summary": summary, "findings": findings}


def newer(document: Document, versions: Mapping[str, int]) -> list[str]:
    """The tables that have been written since they were reconciled: not all that they show is checked."""
    then = document["summary"].get("versions") or {}
    return [name for name, now in versions.items() if name in then and then[name] != now]
