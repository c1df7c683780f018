"""(f) Changes in the metadata log that no audit record explains.

Every ACL, quota, SCRAM and token record must lie at an offset that the controller claims for a request it
received or for tokens that had expired; whoever wrote one without the controller, or took the controller's
record away, shows here. Also ACLs that the log removes without ever having added them: its history is not
whole.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, words
from spark_audit.trail.acl_history import orphan_removals
from spark_audit.trail.claims import CHECKED_KINDS, claimed_offsets, claims_to_the_end, may_write
from spark_audit.trail.sequence_index import ALWAYS

OUTCOME_UNKNOWN_MS = 600_000
"""No controller takes longer to read the log again after it lost the outcome of a commit."""


def changes(records: DataFrame, metadata_log: DataFrame, until_ms: int = ALWAYS) -> DataFrame:
    """All of the checks below as one table of findings; up to where `judged_until_ms` (survey.py) says."""
    alone = unexplained(records, metadata_log, until_ms)
    return alone.unionByName(foreign_kind(records, metadata_log)).unionByName(incomplete(metadata_log))


def unexplained(records: DataFrame, metadata_log: DataFrame, until_ms: int = ALWAYS) -> DataFrame:
    """Records of a checked kind at offsets that nobody claims."""
    claimed = claimed_offsets(records).select(S.LOG_OFFSET).distinct()
    settled = _checked(metadata_log).where(F.unix_millis(S.LOG_TIMESTAMP) <= until_ms)
    unclaimed = settled.join(claimed, S.LOG_OFFSET, "left_anti")
    age_ms = F.col(S.TIME_MS) - F.unix_millis(S.LOG_TIMESTAMP)
    somewhere = (F.col(S.LOG_OFFSET) <= F.col(S.LAST_OFFSET)) & age_ms.between(0, OUTCOME_UNKNOWN_MS)
    late = F.broadcast(claims_to_the_end(records))
    alone = unclaimed.join(late, somewhere & may_write(), "left_anti")
    said = words(": no request that the controller received explains it: %s", S.BODY)
    return unclaimed_findings(alone, said, S.ENTITY)


def unclaimed_findings(alone: DataFrame, said: Column, *more_evidence: Column | str) -> DataFrame:
    """Records of the log that nothing explains, told alike whoever's log it is; `said`: what is missing."""
    return findings(
        alone,
        check="changes.unexplained",
        severity="critical",
        date=S.DATE,
        explanation=F.concat(words("%s at metadata offset %s", S.RECORD, S.LOG_OFFSET), said),
        evidence=[S.LOG_OFFSET, S.RECORD, S.BODY, *more_evidence],
    )


def foreign_kind(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Records claimed by a request that cannot have written them: a quota change passed off as an ACL's."""
    log = _checked(metadata_log).drop(S.DATE)
    foreign = claimed_offsets(records).join(log, S.LOG_OFFSET).where(~may_write())
    return findings(
        foreign,
        check="changes.foreign_kind",
        severity="critical",
        date=S.DATE,
        explanation=words(
            "the controller claims metadata offset %s for a %s (forward %s), which cannot write a %s",
            S.LOG_OFFSET,
            S.METHOD,
            S.FORWARD_ID,
            S.RECORD,
        ),
        evidence=[S.LOG_OFFSET, S.METHOD, S.FORWARD_ID, S.RECORD, S.BODY],
    )


def incomplete(metadata_log: DataFrame) -> DataFrame:
    """ACLs removed that were never added: what was allowed before that offset cannot be proven."""
    return findings(
        orphan_removals(metadata_log),
        check="changes.incomplete_log",
        severity="medium",
        date=S.DATE,
        explanation=words(
            "ACL %s is removed at metadata offset %s, but no record adds it: compaction or someone took it",
            S.ACL_ID,
            S.LOG_OFFSET,
        ),
        evidence=[S.ACL_ID, S.LOG_OFFSET],
    )


def _checked(metadata_log: DataFrame) -> DataFrame:
    return metadata_log.where(F.col(S.API_KEY).isin(*CHECKED_KINDS))
