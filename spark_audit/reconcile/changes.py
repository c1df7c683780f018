"""(f) Changes in the metadata log that no audit record explains.

The controller must claim the offset of every ACL, quota, SCRAM and token record, for a request that it
received or for tokens that had expired. This finds records that were written without the controller, or whose
audit record was removed. It also finds ACLs that the log removes but never added: the log is not complete.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, sentence
from spark_audit.reconcile.forwarded import named_forward
from spark_audit.reconcile.named_objects import named_differently, unnamed_in_the_log
from spark_audit.trail.acl_history import orphan_removals
from spark_audit.trail.audit_records import ALWAYS
from spark_audit.trail.claims import (
    CHECKED_KINDS,
    OUTCOME_UNKNOWN_MS,
    claimed_offsets,
    claims_without_start,
    may_write,
)


def changes(records: DataFrame, metadata_log: DataFrame, until_ms: int = ALWAYS) -> DataFrame:
    """Returns the findings of all checks below. `until_ms` is `complete_until_ms` of the sequence index."""
    alone = unexplained(records, metadata_log, until_ms)
    alone = alone.unionByName(foreign_kind(records, metadata_log)).unionByName(incomplete(metadata_log))
    return alone.unionByName(unnamed_in_the_log(records, metadata_log)).unionByName(
        named_differently(records)
    )


def unexplained(records: DataFrame, metadata_log: DataFrame, until_ms: int = ALWAYS) -> DataFrame:
    """Returns records of a checked kind at offsets that no request claims."""
    claimed = claimed_offsets(records).select(S.LOG_OFFSET).distinct()
    settled = (
        _checked(metadata_log)
        .crossJoin(F.broadcast(_passed(records, until_ms)))
        .where((F.unix_millis(S.LOG_TIMESTAMP) <= until_ms) | (F.col(S.LOG_OFFSET) <= F.col("passed")))
        .drop("passed")
    )
    unclaimed = settled.join(claimed, S.LOG_OFFSET, "left_anti")
    age_ms = F.col(S.TIME_MS) - F.unix_millis(S.LOG_TIMESTAMP)
    somewhere = (F.col(S.LOG_OFFSET) <= F.col(S.LAST_OFFSET)) & age_ms.between(0, OUTCOME_UNKNOWN_MS)
    late = F.broadcast(claims_without_start(records))
    alone = unclaimed.join(late, somewhere & may_write(), "left_anti")
    why = sentence(": no request that the controller received explains it: %s", S.BODY)
    return unclaimed_findings(alone, why, S.ENTITY)


def _passed(records: DataFrame, until_ms: int) -> DataFrame:
    """Returns one row, `passed`: the last offset that a controller had applied when it wrote a record.

    Who writes a record to the log directly may choose its timestamp, but not its offset.
    """
    of_controllers = records.where((F.col(S.ROLE) == "controller") & (F.col(S.TIME_MS) <= until_ms))
    applied = F.max(F.greatest(S.LAST_OFFSET, S.METADATA_OFFSET))
    return of_controllers.agg(F.coalesce(applied, F.lit(-1)).alias("passed"))


def unclaimed_findings(alone: DataFrame, why: Column, *more_evidence: Column | str) -> DataFrame:
    """Returns findings for records of the log that nothing explains. `why` ends their explanation."""
    return findings(
        alone,
        check="changes.unexplained",
        severity="critical",
        date=S.DATE,
        explanation=F.concat(sentence("%s at metadata offset %s", S.RECORD, S.LOG_OFFSET), why),
        evidence=[S.LOG_OFFSET, S.RECORD, S.BODY, *more_evidence],
    )


def foreign_kind(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Returns records that a request claims but cannot have written, such as a quota change by CreateAcls."""
    log = _checked(metadata_log).drop(S.DATE)
    foreign = claimed_offsets(records).join(log, S.LOG_OFFSET).where(~may_write())
    return findings(
        foreign,
        check="changes.foreign_kind",
        severity="critical",
        date=S.DATE,
        explanation=sentence(
            "the controller claims metadata offset %s for a %s (%s), which cannot write a %s",
            S.LOG_OFFSET,
            S.METHOD,
            named_forward(),
            S.RECORD,
        ),
        evidence=[S.LOG_OFFSET, S.METHOD, S.FORWARD_ID, S.RECORD, S.BODY],
    )


def incomplete(metadata_log: DataFrame) -> DataFrame:
    """Returns ACLs that are removed but never added. Decisions before the removal cannot be checked."""
    return findings(
        orphan_removals(metadata_log),
        check="changes.incomplete_log",
        severity="medium",
        date=S.DATE,
        explanation=sentence(
            "ACL %s is removed at metadata offset %s, but no record adds it: it was compacted or deleted",
            S.ACL_ID,
            S.LOG_OFFSET,
        ),
        evidence=[S.ACL_ID, S.LOG_OFFSET],
    )


def _checked(metadata_log: DataFrame) -> DataFrame:
    return metadata_log.where(F.col(S.API_KEY).isin(*CHECKED_KINDS))
