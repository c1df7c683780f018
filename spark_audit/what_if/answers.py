"""The answers beside recorded traffic: what the logic says can change, and what a candidate saw.

The first is the output of `penstock policy diff --json`, a file. The second is in the trail: records of
proxies with `authorizer.candidate`. Neither depends on the proposal; who runs what-if sees to it that all
three are about one change.
"""

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.tables.files import AuditError
from spark_audit.trail.audit_records import deduplicate
from spark_audit.what_if.access import NEWLY_ALLOWED, NEWLY_DENIED, OUTCOME
from spark_audit.what_if.traffic import of_period

COMPARED, DIFFERS = "candidate_compared", "candidate_differs"
CANDIDATE, CANDIDATES, DECISIONS = "candidate", "candidates", "decisions"
_NAMED = S.PRINCIPAL, S.HOST, S.OPERATION, S.RESOURCE_TYPE, S.RESOURCE_NAME, S.GRANTED, S.RULE
_MESSAGE = r"^candidate (\w+)(?:: (.*))?$"


class Regions(TypedDict):
    """All requests there can be that change: `effect`, `text` and a `witness` of each region."""

    newly_denied: int
    newly_allowed: int
    regions: list[dict[str, str]]


class ShadowSeen(TypedDict):
    """What candidates decided in these days. `compared`: decisions by the digest of the candidate."""

    compared: dict[str, int]
    newly_denied: int
    newly_allowed: int
    rows: list[dict[str, object]]
    """Those without an outcome stand for differences without a record of their own."""


NOTHING_SEEN: ShadowSeen = {"compared": {}, "newly_denied": 0, "newly_allowed": 0, "rows": []}


def read_regions(path: str) -> Regions:
    """Read the output of `penstock policy diff --json`. AuditError if it is something else."""
    try:
        regions = [
            {"effect": each["effect"], "text": each["text"], "witness": each["witness"]["text"]}
            for each in json.loads(Path(path).read_text(encoding="utf-8"))["regions"]
        ]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise AuditError(f"{path}: this is no output of penstock policy diff --json: {error!r}") from error
    return {
        "newly_denied": sum(each["effect"] == NEWLY_DENIED for each in regions),
        "newly_allowed": sum(each["effect"] == NEWLY_ALLOWED for each in regions),
        "regions": regions,
    }


def seen(audit: DataFrame, first: date | None, last: date | None) -> ShadowSeen:
    """Return what candidates decided otherwise in these days. `audit` may have copies of records."""
    of_candidates = of_period(audit, first, last).where(F.col(S.EVENT).isin(COMPARED, DIFFERS))
    parts = {part: F.regexp_extract(S.MESSAGE, _MESSAGE, n) for n, part in ((1, CANDIDATE), (2, CANDIDATES))}
    records = deduplicate(of_candidates).withColumns(parts)
    compared = records.where(F.col(S.EVENT) == COMPARED).groupBy(CANDIDATE).agg(F.sum(S.COUNT)).collect()
    differs = (
        records.where(F.col(S.EVENT) == DIFFERS)
        .groupBy(CANDIDATE, CANDIDATES, *_NAMED)
        .agg(
            F.sum(S.COUNT).alias(DECISIONS),
            F.min(S.INTERVAL_START_MS).alias("first_ms"),
            F.max(S.INTERVAL_END_MS).alias("last_ms"),
        )
        .orderBy(F.desc(DECISIONS), CANDIDATE, *_NAMED)
    )
    outcomes = {True: NEWLY_DENIED, False: NEWLY_ALLOWED}
    rows = [row.asDict() | {OUTCOME: outcomes.get(row[S.GRANTED])} for row in differs.collect()]
    return {
        "compared": dict(sorted((row[0], row[1]) for row in compared)),
        "newly_denied": _decisions(rows, NEWLY_DENIED),
        "newly_allowed": _decisions(rows, NEWLY_ALLOWED),
        "rows": rows,
    }


def _decisions(rows: Sequence[dict[str, object]], outcome: str) -> int:
    return sum(int(str(row[DECISIONS])) for row in rows if row[OUTCOME] == outcome)
