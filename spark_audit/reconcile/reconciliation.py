"""Runs all checks over one audit trail and returns the findings, sorted, and what was checked.

Takes the three tables. The same tables give the same result: findings are sorted, and nothing in them depends
on the time of the run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.behind import behind, behind_either
from spark_audit.reconcile.chain import algorithms, boots, chain, successions, witnesses
from spark_audit.reconcile.changes import changes
from spark_audit.reconcile.checkpoints import checkpoints
from spark_audit.reconcile.clocks import clocks, skews
from spark_audit.reconcile.cosignatures import cosignatures
from spark_audit.reconcile.decisions import coverage, decision_findings, left_out, verdicts
from spark_audit.reconcile.finding import collected, register
from spark_audit.reconcile.forwarded import forwarded
from spark_audit.reconcile.gaps import gaps, with_twins
from spark_audit.reconcile.kraft_changes import kraft_changes
from spark_audit.reconcile.kraft_claims import to_penstock_controllers
from spark_audit.reconcile.offsets import times
from spark_audit.reconcile.quarantined import quarantined
from spark_audit.reconcile.quotas import quotas
from spark_audit.reconcile.sessions import TRAFFIC, sessions
from spark_audit.reconcile.settings import known_settings, own_topics
from spark_audit.reconcile.unsigned import VerifiedSignatures, in_effect, signed_log, status, unsigned
from spark_audit.tables.findings import FindingsSummary
from spark_audit.tables.keys import PublicKeys
from spark_audit.tables.plans import coalesce_small, held, held_if_small
from spark_audit.trail.audit_records import boots as ends_of_boots
from spark_audit.trail.audit_records import (
    complete_until_ms,
    deduplicate,
    later_copies,
    number_of,
    sequence_index,
)
from spark_audit.trail.metadata_log import of_kafka, of_topic, without_aborted
from spark_audit.trail.processes import SETTINGS_EVENTS

# tables/manifest.py finds these. It knows no checks.
register(
    """
manifest: Tables and findings are as the runs before have left and signed them.
manifest.table_altered (critical): A table was changed by no job.
    Find out who can write to the tables; if the change is explained, run `verify --accept`.
manifest.other_description (medium): Another program has changed columns or properties of a table.
    Nothing, if it was one of yours; else find out who can write to the tables.
manifest.batch_ahead (critical): A table says that it has records which were not read.
    Ingest into new tables, and find out who can write to these.
manifest.output_altered (critical): Findings or pages are not as a job wrote them.
    Find out who can write there, and reconcile again.
manifest.run_altered (critical): A run of the manifest was altered or forged.
    Compare with the numbers and links that jobs have printed; then run `verify --accept`.
manifest.run_missing (critical): Runs of the manifest are missing.
    Compare with the numbers and links that jobs have printed; then run `verify --accept`.
manifest.run_time (medium): A run has a later time than one that follows it.
    Set the clock of the host that runs the jobs, and acknowledge the finding. No other run is doubted
    because of it.
manifest.cut (critical): The newest runs of the manifest were removed.
    Compare with the numbers and links that jobs have printed; then run `verify --accept`.
manifest.unfinished (medium): A job that rewrites tables was killed.
    Run the job again.
"""
)

ORDER = (
    *("gaps", "clocks", "chain", "checkpoints", "decisions", "forwarded", "changes", "log", "quotas"),
    *("sessions", "settings", "offsets", "quarantine", "manifest"),
)
"""The families as the page has them."""


CHECKS = (
    *("gaps", "clocks", "chain", "boots", "witnesses", "checkpoints", "decisions", "behind", "forwarded"),
    *("quotas", "sessions", "settings", "changes", "times", "quarantined", "signatures", "kraft"),
)
"""The checks in order. The last one is only done with Kafka's own controller, the one before with keys."""


@dataclass(frozen=True, slots=True)
class Result:
    """`findings` are rows of S.FINDING, worst first. `summary` says what was checked."""

    findings: Sequence[Row]
    summary: FindingsSummary


def reconcile(
    audit: DataFrame,
    quarantine: DataFrame,
    metadata_log: DataFrame,
    *,
    log_end: int | None = None,
    days: Sequence[str] = (),
    chain_key: bytes | None = None,
    public_keys: PublicKeys | None = None,
    verified: VerifiedSignatures | None = None,
    expired: DataFrame | None = None,
    of_tables: Sequence[Row] = (),
    index: DataFrame | None = None,
    few: DataFrame | None = None,
    on_check: Callable[[str], None] = lambda name: None,
) -> Result:
    """Return the findings; with `days` (YYYY-MM-DD), only those that show on these days.

    With days, only their lines, decisions and traffic, and those of the days next to them, are read. What may
    have begun on an earlier day is read from the whole trail, in few columns: sequences, logins,
    administration. `log_end` is the offset after the last one that was read of the metadata topic, None if
    not known. `chain_key` is the key of the hash chains, `public_keys` are those that checkpoints are
    verified with, `verified` is what the signatures of the log say, None without public keys; `expired` is
    table `expired`, `of_tables` are the findings about the tables themselves, `index` is the sequence index
    of `audit`, and `few` its records but traffic, each copy and without lines, if they are known. `on_check`
    is called with the name of each check that is done.
    """
    audit = held_if_small(audit)
    index = held(sequence_index(audit)) if index is None else index
    copies = held(later_copies(audit, index))
    with_lines = deduplicate(audit, copies)
    # Not persisted: reading a few columns of millions of records again is faster than caching them.
    records = with_lines.drop(S.LINE, S.BODY_SHA256)
    few = held(records.where(~F.col(S.EVENT).isin(*TRAFFIC))) if few is None else deduplicate(few, copies)
    wanted = [date.fromisoformat(day) for day in days]
    of_days, near = records, records
    if wanted:
        of_days, near = _of(records, few, wanted), _of(records, few, _with_neighbours(wanted))
    log = without_aborted(coalesce_small(metadata_log.select(*S.LOG.names, S.HIDDEN)))
    logged = None
    if verified is not None:
        log, logged = in_effect(log, verified), signed_log(few, verified)
    judged = held(verdicts(of_days, log, log_end, few))
    followed = held(successions(records, few, index, wanted))
    skewed, ends = held(skews(index)), held(ends_of_boots(index))
    until_ms = complete_until_ms(index)
    is_kraft = not of_kafka(log).isEmpty()
    if is_kraft and public_keys is not None:
        # Imported here: without keys, the driver needs no other package of Penstock's.
        from spark_audit.reconcile.kraft_states import logged_states

        logged = logged_states(few, metadata_log)
    checks = {
        "gaps": gaps(audit, index, expired, few, followed, skewed, signed=public_keys is not None),
        "clocks": clocks(skewed),
        "chain": chain(with_lines, chain_key, wanted, few, index, signed=public_keys is not None),
        "boots": boots(_of_lone_boots(followed, ends)),
        "witnesses": witnesses(few, records, ends, until_ms, wanted, public_keys, index),
        "checkpoints": checkpoints(
            *(few, records, ends, algorithms(few, chain_key), followed, until_ms, public_keys, logged),
            *(expired, index, wanted),
        ),
        "decisions": decision_findings(judged).unionByName(left_out(of_days, few, log, log_end)),
        "behind": (behind_either if is_kraft else behind)(few, log, skewed, wanted),
        "forwarded": forwarded(to_penstock_controllers(few, is_kraft=is_kraft), of_topic(log), until_ms),
        "quotas": quotas(near, log, few, until_ms),
        "sessions": sessions(records, few, of_days),
        "settings": known_settings(index, few).unionByName(own_topics(few)),
        "changes": changes(few, of_topic(log), until_ms),
        "times": times(audit, index, of_topic(log)),
        "quarantined": quarantined(quarantine),
    }
    counts = None
    if public_keys is not None:
        counts, wrong = cosignatures(few, public_keys)
        checks["checkpoints"] = checks["checkpoints"].unionByName(wrong)
    if verified is not None:
        checks["signatures"] = unsigned(verified, audit, metadata_log)
    if is_kraft:
        checks["kraft"] = kraft_changes(records, log, until_ms)
    found = {row[S.ID]: row for row in of_tables}
    # One after the other: Spark would plan their union again after each of its stages.
    for name, check in checks.items():
        # One that shows on several days is of the newest of them.
        found |= {row[S.ID]: row for row in sorted(collected(check.transform(_on, days)), key=_day)}
        on_check(name)
    rows = sorted(found.values(), key=_order)
    summary = _summary(rows, number_of(index, copies), log, judged)
    if counts is not None:
        summary["cosignatures"] = dict(counts)
    if signatures := status(metadata_log, verified):
        summary["signatures"] = signatures
    return Result(rows, summary)


def _of_lone_boots(followed: DataFrame, ends: DataFrame) -> DataFrame:
    """Return `successions` in which a boot beside another one of its id has none before it."""
    twins = (
        with_twins(ends).where("earlier_twin IS NOT NULL").select(*S.BOOT_KEY, F.lit(True).alias("is_twin"))
    )
    joined = followed.join(F.broadcast(twins), list(S.BOOT_KEY), "left")
    return joined.withColumn("before", F.when(F.col("is_twin").isNull(), F.col("before"))).drop("is_twin")


def _of(records: DataFrame, few: DataFrame, days: Sequence[date]) -> DataFrame:
    """Return the records of some days, and the records of all days that hold settings."""
    on_these = F.col(S.DATE).isin(*days)
    # Two reads instead of one condition: Spark skips other days only if the condition is on the date alone.
    return records.where(on_these).unionByName(few.where(~on_these & F.col(S.EVENT).isin(*SETTINGS_EVENTS)))


def _with_neighbours(days: Sequence[date]) -> list[date]:
    # The interval of a summary may have begun on the day before it was written.
    return sorted({day + timedelta(days=shift) for day in days for shift in (-1, 0, 1)})


def _on(found: DataFrame, days: Sequence[str]) -> DataFrame:
    return found.where(F.col(S.DATE).cast("string").isin(*days)) if days else found


def _day(row: Row) -> str:
    return str(row[S.DATE] or "")


def _order(row: Row) -> tuple[int, str, str, str]:
    return S.SEVERITIES.index(row[S.SEVERITY]), row[S.CHECK], str(row[S.DATE]), row[S.ID]


def _summary(rows: Sequence[Row], records: int, log: DataFrame, judged: DataFrame) -> FindingsSummary:
    decisions = {row["outcome"]: row["records"] for row in coverage(judged).orderBy("outcome").collect()}
    return {
        "schema_version": S.SCHEMA_VERSION,
        "records": records,
        "metadata_records": log.count(),
        "decisions": decisions,
        "findings": {severity: sum(row[S.SEVERITY] == severity for row in rows) for severity in S.SEVERITIES},
    }
