"""Findings that somebody has explained: signed in the manifest, which takes the key.

A run of job ACKNOWLEDGE names findings, reasons and persons. Which findings there are, a reconciliation
has signed in its run. Takes the runs of a manifest and touches no storage.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from spark_audit.tables.files import AuditError
from spark_audit.tables.runs import RECONCILE, SUMMARIZE, Run

ACKNOWLEDGE = "acknowledge"
OPEN = "open"
"""In a run of RECONCILE, below `judged`: id -> day of each finding that is not acknowledged.

In a summary, all days on which it was found, with commas between them.
"""


class Acknowledgement(NamedTuple):
    """Why a finding is explained, and who says so."""

    why: str
    by: str


_SHORT = 16
"""Digits of an id in release 0.9.0. For so few, somebody can make two findings of one id."""


def of_findings(
    acknowledged: Mapping[str, Acknowledgement], ids: Iterable[str]
) -> dict[str, Acknowledgement]:
    """Return those of findings with these ids, by id. What was acknowledged with a short id still counts."""
    each = ((id_, acknowledged.get(id_) or acknowledged.get(id_[:_SHORT])) for id_ in ids)
    return {id_: said for id_, said in each if said is not None}


def acknowledgements(runs: Sequence[Run]) -> dict[str, Acknowledgement]:
    """Return those of all runs that are signed, by id of the finding. The newest one counts."""
    each = (entry for run in runs if run.fits for entry in run.content.get("acknowledged", ()))
    return {entry["id"]: Acknowledgement(entry["why"], entry["by"]) for entry in each}


def entries(acknowledged: Mapping[str, Acknowledgement]) -> list[dict[str, str]]:
    """Return the content of a run: its field `acknowledged`."""
    return [{"id": id_, "why": why, "by": by} for id_, (why, by) in acknowledged.items()]


def day_of(runs: Sequence[Run], id_: str) -> str:
    """Return the newest day of a finding. AuditError if no reconciliation has found it."""
    for run in reversed(runs):
        if id_ in (found := _open(run)):
            return found[id_][-1]
    raise AuditError(f"no reconciliation of these tables has found {id_!r}: findings.json has the ids")


def acknowledged_by_day(runs: Sequence[Run]) -> Mapping[date, int]:
    """Return how many findings of the newest reconciliation of each day were acknowledged after it."""
    acknowledged = acknowledgements(runs)
    counts: Counter[date] = Counter()
    for day, found in _open_by_day(runs).items():
        counts[date.fromisoformat(day)] = len(of_findings(acknowledged, found))
    return counts


def what_counts(runs: Sequence[Run]) -> dict[str, object]:
    """Return the content of a summary: what these runs say of findings that still counts."""
    by_day = _open_by_day(runs)
    each = sorted({id_ for ids in by_day.values() for id_ in ids})
    found = {id_: ",".join(sorted(day for day, ids in by_day.items() if id_ in ids)) for id_ in each}
    return {"acknowledged": entries(acknowledgements(runs)), "judged": {"days": [], OPEN: found}}


def _open_by_day(runs: Sequence[Run]) -> dict[str, set[str]]:
    """Return day -> the findings that its newest reconciliation has left open."""
    by_day: dict[str, set[str]] = {}
    for run in runs:
        if run.fits and run.content.get("job") in (RECONCILE, SUMMARIZE) and "judged" in run.content:
            found = _open(run)
            for day in run.content["judged"]["days"] or {day for days in found.values() for day in days}:
                by_day[day] = {id_ for id_, days in found.items() if day in days}
    return by_day


def _open(run: Run) -> Mapping[str, Sequence[str]]:
    found: Mapping[str, str] = run.content.get("judged", {}).get(OPEN, {}) if run.fits else {}
    return {id_: days.split(",") for id_, days in found.items()}
