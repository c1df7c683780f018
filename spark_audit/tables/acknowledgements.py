"""Findings that somebody has explained: signed in the manifest, which takes the key.

A run of job ACKNOWLEDGE names findings, reasons and persons. Which findings there are, a reconciliation
has signed in its run. Takes the runs of a manifest and touches no storage.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

from spark_audit.tables.files import AuditError
from spark_audit.tables.manifest import RECONCILE, Run

ACKNOWLEDGE = "acknowledge"
OPEN = "open"
"""In a run of RECONCILE, below `judged`: id -> day of each finding that is not acknowledged."""


class Acknowledgement(NamedTuple):
    """Why a finding is explained, and who says so."""

    why: str
    by: str


def acknowledgements(runs: Sequence[Run]) -> dict[str, Acknowledgement]:
    """Returns those of all runs that are signed, by id of the finding. The newest one counts."""
    each = (entry for run in runs if run.fits for entry in run.content.get("acknowledged", ()))
    return {entry["id"]: Acknowledgement(entry["why"], entry["by"]) for entry in each}


def entries(acknowledged: Mapping[str, Acknowledgement]) -> list[dict[str, str]]:
    """Returns the content of a run: its field `acknowledged`."""
    return [{"id": id_, "why": why, "by": by} for id_, (why, by) in acknowledged.items()]


def day_of(runs: Sequence[Run], id_: str) -> str:
    """Returns the day of a finding. AuditError if no reconciliation has found it."""
    for run in reversed(runs):
        if id_ in (found := _open(run)):
            return found[id_]
    raise AuditError(f"no reconciliation of these tables has found {id_!r}: findings.json has the ids")


def acknowledged_by_day(runs: Sequence[Run]) -> Mapping[date, int]:
    """Returns how many findings of the newest reconciliation of each day were acknowledged after it."""
    acknowledged, newest = acknowledgements(runs), dict[str, int]()
    for number, run in enumerate(runs):
        if run.fits and run.content.get("job") == RECONCILE and "judged" in run.content:
            newest |= dict.fromkeys(run.content["judged"]["days"] or _open(run).values(), number)
    counts: Counter[date] = Counter()
    for day, number in newest.items():
        found = _open(runs[number])
        counts[date.fromisoformat(day)] = sum(found[id_] == day for id_ in found.keys() & acknowledged.keys())
    return counts


def _open(run: Run) -> Mapping[str, str]:
    found: Mapping[str, str] = run.content.get("judged", {}).get(OPEN, {}) if run.fits else {}
    return found
