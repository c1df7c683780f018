"""Turns the content of findings.json into the head of the page: what was checked, and the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_audit.reconcile.finding import FAMILIES
from spark_audit.reconcile.reconciliation import ORDER
from spark_audit.reconcile.unsigned import NOT_VERIFIED
from spark_audit.tables.findings import Finding, FindingsDocument, FindingsSummary


class NotReconciled(Exception):
    """The page was requested for days that were not reconciled. The message names them."""


@dataclass(frozen=True, slots=True)
class CheckedFamily:
    """One family of checks. `worst` is the highest severity of its findings, None if it has none."""

    family: str
    question: str
    findings: int
    worst: str | None
    is_done: bool = True


def checked(
    findings: Sequence[Finding], severities: Sequence[str], summary: FindingsSummary
) -> list[CheckedFamily]:
    """Return all families in their ORDER. A family of a later release comes last."""
    signatures = summary.get("signatures")
    is_verified = {"log": signatures is not None and not signatures.startswith(NOT_VERIFIED)}
    of: dict[str, list[str]] = {family: [] for family in ORDER}
    for finding in _open(findings):
        of.setdefault(finding["check"].partition(".")[0], []).append(finding["severity"])
    return [
        CheckedFamily(
            family,
            FAMILIES.get(family, ""),
            len(found),
            min(found, key=severities.index, default=None),
            is_verified.get(family, True),
        )
        for family, found in of.items()
    ]


def verdict(document: FindingsDocument, severities: Sequence[str], records: int) -> str:
    """Return the highest severity, or `clean` without a finding, or `empty` if nothing was checked.

    `records` is the number of records on the page. A page may cover fewer days than the document.
    """
    worst = [severity for severity in severities if document["summary"]["findings"].get(severity)]
    if worst:
        return worst[0]
    return "clean" if document["summary"]["records"] and records else "empty"


def _open(findings: Sequence[Finding]) -> list[Finding]:
    return [found for found in findings if not found.get("acknowledged")]


def of_days(document: FindingsDocument, days: Sequence[str]) -> FindingsDocument:
    """Return the document with the findings of these days only. NotReconciled if it does not cover them."""
    done = document["summary"].get("days") or []
    missing = sorted(set(days) - set(done)) if done else []
    if missing:
        raise NotReconciled(f"its findings are for {', '.join(done)}, not for {', '.join(missing)}")
    of_these = [found for found in document["findings"] if not days or found["date"] in days]
    findings = sorted(of_these, key=lambda found: "acknowledged" in found)
    counts = dict.fromkeys(document["summary"]["findings"], 0)
    for found in _open(findings):
        counts[found["severity"]] += 1
    summary: FindingsSummary = {**document["summary"], "findings": counts}
    return {"summary": summary, "findings": findings}


def newer(document: FindingsDocument, versions: Mapping[str, int]) -> list[str]:
    """Return the tables that were written after they were reconciled: they hold unchecked records."""
    then = document["summary"].get("versions") or {}
    return [name for name, now in versions.items() if name in then and then[name] != now]
