"""All checks over one audit trail: the findings in their order, and how much could be checked.

Fed with the three tables; feeds sources.write_findings and the report. Same tables, same result: findings
are sorted, and nothing in them tells when the check was run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.boots import boots
from spark_audit.reconcile.chain import chain
from spark_audit.reconcile.changes import changes
from spark_audit.reconcile.decisions import coverage, decision_findings, verdicts
from spark_audit.reconcile.forwarded import forwarded
from spark_audit.reconcile.gaps import gaps
from spark_audit.reconcile.kraft_changes import kraft_changes
from spark_audit.reconcile.kraft_claims import to_our_controllers
from spark_audit.reconcile.quarantined import quarantined
from spark_audit.reconcile.quotas import quotas
from spark_audit.reconcile.sessions import TRAFFIC, sessions
from spark_audit.reconcile.settings import known_settings
from spark_audit.tables.findings import Summary
from spark_audit.tables.frames import coalesce_small
from spark_audit.trail.deduplicate import each_record_once, later_copies
from spark_audit.trail.log_changes import of_kafka, of_topic
from spark_audit.trail.metadata_transactions import in_force
from spark_audit.trail.processes import TELLS_SETTINGS
from spark_audit.trail.sequence_index import judged_until_ms, survey


@dataclass(frozen=True, slots=True)
class Result:
    """`findings` are rows of S.FINDING, worst first; `summary` is of what was looked at."""

    findings: Sequence[Row]
    summary: Summary


def reconcile(
    audit: DataFrame,
    quarantine: DataFrame,
    metadata_log: DataFrame,
    *,
    log_end: int | None = None,
    days: Sequence[str] = (),
    chain_key: bytes | None = None,
    expired: DataFrame | None = None,
    told: Callable[[str], None] = lambda name: None,
) -> Result:
    """`days` (YYYY-MM-DD) limits the findings to faults that show on these days; none: all days.

    With days, lines, decisions and traffic are read of these days and their neighbours. What may have begun
    on any day before is looked for in the whole trail, in few columns: sequences, logins, administration.
    `log_end` is the offset behind the last one read from the metadata topic, None where it is not known.
    `chain_key` is the key of the hash chains, where processes have one; `expired` table `expired`. `told`
    hears the name of each check when it is done.
    """
    stretches = survey(audit).persist()
    with_lines = each_record_once(audit, later_copies(audit, stretches).persist())
    # Not kept: a table of millions is read again sooner than it is found in memory, a few columns at a time.
    records = with_lines.drop(S.LINE, S.BODY_SHA256)
    few = records.where(~F.col(S.EVENT).isin(*TRAFFIC)).persist()
    wanted = [date.fromisoformat(day) for day in days]
    of_days, near = records, records
    if wanted:
        of_days, near = _of(records, few, wanted), _of(records, few, _neighbours(wanted))
    log = in_force(coalesce_small(metadata_log))
    judged = verdicts(of_days, log, log_end, few).persist()
    until_ms = judged_until_ms(stretches)
    checks = {
        "gaps": gaps(audit, stretches, expired),
        "chain": chain(with_lines, chain_key, days=wanted),
        "boots": boots(records),
        "decisions": decision_findings(judged),
        "forwarded": forwarded(to_our_controllers(few), of_topic(log), until_ms),
        "quotas": quotas(near, log),
        "sessions": sessions(records),
        "settings": known_settings(stretches, few),
        "changes": changes(few, of_topic(log), until_ms),
        "quarantined": quarantined(quarantine),
    }
    if not of_kafka(log).isEmpty():
        checks["kraft"] = kraft_changes(records, log)
    found: dict[str, Row] = {}
    # One after the other: as one union, Spark plans all of it again after each of its stages.
    for name, check in checks.items():
        found |= {row[S.ID]: row for row in check.transform(_on, days).collect()}
        told(name)
    rows = sorted(found.values(), key=_order)
    return Result(rows, _summary(rows, records, log, judged))


def _of(records: DataFrame, few: DataFrame, days: Sequence[date]) -> DataFrame:
    """The records of some days; and those of all days that tell the settings of a process."""
    there = F.col(S.DATE).isin(*days)
    # Two reads, not one condition: only a condition on the date alone keeps Spark from opening other days.
    return records.where(there).unionByName(few.where(~there & F.col(S.EVENT).isin(*TELLS_SETTINGS)))


def _neighbours(days: Sequence[date]) -> list[date]:
    """What a summary counts may have begun on the day before it was written."""
    return sorted({day + timedelta(days=shift) for day in days for shift in (-1, 0, 1)})


def _on(found: DataFrame, days: Sequence[str]) -> DataFrame:
    return found.where(F.col(S.DATE).cast("string").isin(*days)) if days else found


def _order(row: Row) -> tuple[int, str, str, str]:
    return S.SEVERITIES.index(row[S.SEVERITY]), row[S.CHECK], str(row[S.DATE]), row[S.ID]


def _summary(rows: Sequence[Row], records: DataFrame, log: DataFrame, judged: DataFrame) -> Summary:
    decisions = {row["outcome"]: row["records"] for row in coverage(judged).orderBy("outcome").collect()}
    return {
        "schema_version": S.SCHEMA_VERSION,
        "records": records.count(),
        "metadata_records": log.count(),
        "decisions": decisions,
        "findings": {severity: sum(row[S.SEVERITY] == severity for row in rows) for severity in S.SEVERITIES},
    }
