"""(b) Evaluates every decision again, with the ACLs and owners in effect at its metadata offset.

Takes the audit records, each once, and the metadata log. Records of one question, one set of ACLs and one
outcome are grouped into one row, so that a busy client costs one evaluation per change of ACLs, not one per
record. Decisions that cannot be evaluated are counted by reason (`coverage`). Those that should have been
evaluated are findings too.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.policy import evaluation as E
from spark_audit.policy.acl_history import (
    ENDED,
    EPOCH,
    UNKNOWN,
    ended_by,
    epochs,
    missing_history,
)
from spark_audit.policy.acl_matches import QUESTION
from spark_audit.policy.principals import array_of, named_groups, no_groups, recorded_groups
from spark_audit.policy.topic_owners import owner_changes
from spark_audit.reconcile.finding import fault, findings, or_else, register, sentence, with_first_fault
from spark_audit.reconcile.sessions import CERTAIN, DECISION_EVENTS, POSSIBLE, of_logins
from spark_audit.tables.delta import empty_frame
from spark_audit.tables.plans import held
from spark_audit.trail.metadata_log import UNKNOWN_FIRST, UNKNOWN_LAST
from spark_audit.trail.processes import (
    AUTHORIZER,
    BY_SETTINGS,
    SETTINGS_AT,
    named_generation,
    settings,
    with_generation,
)

register(
    """
decisions: Each decision, made again by the ACLs of its metadata offset, has the same outcome.
decisions.wrongly_granted (critical): A request was granted that the ACLs deny.
    Find out what it read or wrote; replace the process, whose code or ACLs are not yours.
decisions.wrongly_denied (high): A request was denied that the ACLs allow.
    Check what the process had loaded of the metadata log then.
decisions.wrong_rule (medium): A decision is right, but names another rule.
    Check the settings of the process at that time.
decisions.wrong_acl (medium): A decision is right, but names another ACL.
    Check what the process had loaded of the metadata log then.
decisions.groups_left_out (critical): A decision is another one with groups of the login that it leaves out.
    Find out what was read or written in spite of these groups, and replace the proxy.
decisions.unverifiable (medium): A decision cannot be made again.
    Look at what the explanation says is missing, and ingest that.
"""
)

RECORDS, LOWEST, HIGHEST = "records", "lowest_offset", "highest_offset"
FIRST, LAST = "first_sequence", "last_sequence"
END_SLACK_MS = 1_000
UNVERIFIABLE, NOT_EVALUATED, LOG_END = "unverifiable", "not_evaluated", "log_end"
LONG_ACLS = "long_acls"
"""The ids of ACLs that may have a principal or a name that no record has as a whole."""
LOST_BEFORE = "lost_before"
_OF_SEVERAL = "of_several"
"""A summary of many resources, of which it names none: only what needs no ACL can be checked."""
_GROUP = (*BY_SETTINGS, S.DATE, *QUESTION, S.GRANTED, S.RULE, S.ACL_ID)


def verdicts(
    records: DataFrame,
    metadata_log: DataFrame,
    log_end: int | None = None,
    starts: DataFrame | None = None,
) -> DataFrame:
    """Return one row per process, day, question and outcome, with the expected outcome.

    `expected` is struct(granted, rule, acls); rule is null if Kafka's rules allow more than one.
    `unverifiable` says why a decision that should be checked could not be, `not_evaluated` why it need not
    be. `log_end` is the offset after the last one that ingest has read; the offset of an image counts
    transaction markers too, which are in no table. `starts` has all records that hold settings, if they are
    not in `records`.
    """
    known = settings(records if starts is None else starts)
    questions = held(_grouped(records, metadata_log).join(F.broadcast(known), list(BY_SETTINGS), "left"))
    evaluated = E.with_evidence(questions, metadata_log)
    # Without the true end, the last record and the marker after it are all that is known.
    end = F.coalesce(F.lit(log_end).cast("long"), F.max(S.LOG_OFFSET) + 2, F.lit(0)).alias(LOG_END)
    is_long = (F.col(S.API_KEY) == S.ACCESS_CONTROL_ENTRY_RECORD) & _is_cut(S.BODY)
    long_acls = F.collect_set(F.when(is_long, F.get_json_object(S.BODY, "$.id"))).alias(LONG_ACLS)
    bounds = metadata_log.agg(end, long_acls).crossJoin(missing_history(metadata_log))
    evaluated = evaluated.crossJoin(F.broadcast(bounds))
    judged = evaluated.withColumn(E.EXPECTED, F.coalesce(*E.expectations()))
    judged = judged.withColumn(UNVERIFIABLE, F.coalesce(*_missing_evidence()))
    judged = judged.withColumn(NOT_EVALUATED, F.coalesce(*_exemptions()))
    return judged.select(
        *_GROUP, RECORDS, FIRST, LAST, LOWEST, HIGHEST, E.EXPECTED, UNVERIFIABLE, NOT_EVALUATED
    )


def coverage(judged: DataFrame) -> DataFrame:
    """Return how many records were evaluated, and how many were not, by reason: outcome, records."""
    outcome = F.coalesce(NOT_EVALUATED, UNVERIFIABLE, F.lit("evaluated"))
    return judged.groupBy(outcome.alias("outcome")).agg(F.sum(RECORDS).alias(RECORDS))


def decision_findings(judged: DataFrame, faults: Sequence[Column] | None = None) -> DataFrame:
    """Return the findings of the verdicts: those of `faults`, by default of a decision by its own groups."""
    decision = sentence(
        "process {proxy_id}/{boot_id} {decided} {operation} on {resource_type} {name} to {who}{groups} from"
        " {address} (rule {rule}{acl}), {records} record(s) {at}",
        decided=F.when(F.col(S.GRANTED), "granted").when(~F.col(S.GRANTED), "denied").otherwise("decided"),
        name=F.coalesce(S.RESOURCE_NAME, F.lit("(any)")),
        who=F.nullif(S.PRINCIPAL, F.lit("")),
        groups=or_else(
            F.when(F.size(S.GROUPS) > 0, F.concat(F.lit(" in "), F.array_join(S.GROUPS, ", "))), ""
        ),
        address=F.nullif(S.HOST, F.lit("")),
        acl=or_else(F.concat(F.lit(", ACL "), S.ACL_ID), ""),
        at=or_else(
            F.concat(F.lit("at offset "), LOWEST, F.lit(" to "), HIGHEST), "without a metadata offset"
        ),
    )
    expected = sentence(
        "; by the ACLs of that offset it is {outcome} (rule {by}{acls})",
        outcome=F.when(F.col(f"{E.EXPECTED}.granted"), "granted").otherwise("denied"),
        by=F.coalesce(f"{E.EXPECTED}.rule", F.lit("any")),
        acls=F.coalesce(F.concat(F.lit(", ACL "), F.array_join(f"{E.EXPECTED}.acls", " or ")), F.lit("")),
    )
    by_settings = F.when(F.col(S.SETTINGS_GENERATION) > 0, sentence(", settings {settings_generation}"))
    reason = F.concat(F.lit("; it cannot be checked: "), F.col(UNVERIFIABLE))
    outcome = F.when(F.col(UNVERIFIABLE).isNull(), expected).otherwise(reason)
    recorded = {S.SETTINGS_GENERATION: named_generation(), S.GROUPS: recorded_groups()}
    group = [recorded.get(name, name) for name in _GROUP]
    evidence = [*group, RECORDS, FIRST, LAST, LOWEST, HIGHEST, E.EXPECTED, UNVERIFIABLE]
    return findings(
        with_first_fault(judged, _faults() if faults is None else faults),
        explanation=F.concat(decision, F.coalesce(by_settings, F.lit("")), outcome),
        evidence=evidence,
    )


def left_out(
    records: DataFrame, few: DataFrame, metadata_log: DataFrame, log_end: int | None = None
) -> DataFrame:
    """Return the findings of decisions that are others by all groups of the login (SPEC A8).

    A process records the groups that decide. What is wrong by these is found without the login.
    """
    groups = named_groups(metadata_log, settings(few))
    none = empty_frame(records.sparkSession, S.FINDING)
    if not groups:
        return none
    named = array_of(sorted(groups))
    decided = records.where(F.col(S.EVENT).isin(*DECISION_EVENTS))
    members = few.where(F.arrays_overlap(S.GROUPS, named))
    member = members.select(*S.BOOT_KEY, S.CONNECTION_ID).distinct()
    of_members = decided.join(member, [*S.BOOT_KEY, S.CONNECTION_ID], "left_semi")
    recorded = F.coalesce(S.GROUPS, no_groups())
    deciding = F.array_intersect(CERTAIN, named)
    other = of_logins(of_members, few).where(F.size(F.array_except(deciding, recorded)) > 0)
    claimed = other.withColumn(S.GROUPS, F.array_sort(F.array_union(recorded, deciding)))
    if claimed.isEmpty():
        return none
    judged = verdicts(claimed.drop(POSSIBLE, CERTAIN), metadata_log, log_end, few)
    is_judged = F.col(NOT_EVALUATED).isNull() & F.col(UNVERIFIABLE).isNull()
    differs = F.col(S.GRANTED) != F.col(f"{E.EXPECTED}.granted")
    # More groups change an outcome by an ACL or a super user only.
    by_groups = F.coalesce(f"{E.EXPECTED}.rule", F.lit(E.BY_ACL)).isin(E.BY_ACL, E.SUPER_USER)
    return decision_findings(judged, [fault(is_judged & differs & by_groups, "decisions.groups_left_out")])


def _grouped(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Return one row per _GROUP. Millions of records are joined only once, with their epoch by offset."""
    moments = F.broadcast(epochs(records, metadata_log, owner_changes(metadata_log)))
    decided = with_generation(records.where(F.col(S.EVENT).isin(*DECISION_EVENTS)))
    # A join does not match null. No principal or host has an empty name, so it can stand for null.
    not_null = {name: F.coalesce(name, F.lit("")) for name in (S.PRINCIPAL, S.HOST)}
    not_null[S.GROUPS] = F.coalesce(S.GROUPS, no_groups())
    not_null[ENDED] = ended_by(_decided_ms(), metadata_log)
    placed = decided.join(moments, S.METADATA_OFFSET, "left").withColumns(not_null)
    several = F.col(S.RESOURCE_NAME).isNull() & F.col(S.RESOURCE_COUNT).isNotNull()
    return placed.groupBy(*_GROUP, several.alias(_OF_SEVERAL)).agg(
        F.count(F.lit(1)).alias(RECORDS),
        # Not a sample of sequences: collect_set has no compiled code and would sort the whole trail.
        F.min(S.SEQUENCE).alias(FIRST),
        F.max(S.SEQUENCE).alias(LAST),
        F.min(S.METADATA_OFFSET).alias(LOWEST),
        F.max(S.METADATA_OFFSET).alias(HIGHEST),
    )


def _decided_ms() -> Column:
    """Return when a decision was made at the latest, as far as the end of an ACL matters.

    An ACL may allow a request until END_SLACK_MS after its end: a process ends ACLs by a timer. What a
    summary counts was decided on after its beginning; one without a request counts bytes of earlier ones.
    """
    begun = F.coalesce(S.INTERVAL_START_MS, S.TIME_MS)
    counted = (F.col(S.EVENT) != "authorization_summary") | (F.coalesce(S.COUNT, F.lit(0)) > 0)
    is_by_acl = F.col(S.GRANTED) & (F.col(S.RULE) == E.BY_ACL)
    slack = F.when(is_by_acl, F.lit(END_SLACK_MS)).otherwise(F.lit(0))
    return F.when(counted, begun - slack).otherwise(F.lit(-1))


def _needs_acls() -> Column:
    """Return whether the decision depends on ACLs: no super user, and no rule that applies without ACLs."""
    rule = F.coalesce(f"{E.EXPECTED}.rule", F.lit(E.BY_ACL))
    return ~rule.isin(E.NO_AUTHORIZER, E.FAILED, *E.PROTECTED, E.SUPER_USER, E.NOT_READY)


def _missing_evidence() -> list[Column]:
    wrong = (F.col(S.GRANTED) != F.col(f"{E.EXPECTED}.granted")) | _other_rule() | _other_acl()
    return [
        F.when(F.col(S.GRANTED).isNull() | F.col(S.RULE).isNull(), "the record has no outcome"),
        F.when(
            F.col(AUTHORIZER).isNull() & (F.col(S.SETTINGS_GENERATION) > 0),
            "no `settings_changed` record tells the settings that it names",
        ),
        F.when(F.col(AUTHORIZER).isNull(), "no `started` record tells the settings of this process"),
        F.when(
            (F.col(SETTINGS_AT) > F.col(FIRST)) & (F.col(S.SETTINGS_GENERATION) > 0),
            "the settings that it names are recorded after it",
        ),
        F.when(F.col(S.RESOURCE_TYPE).isNull() | F.col(S.OPERATION).isNull(), "the record names no resource"),
        F.when(_needs_acls() & F.col(EPOCH).isNull(), "the record has no metadata offset"),
        F.when(_needs_acls() & (F.col(HIGHEST) >= F.col(LOG_END)), "the metadata log ends before its offset"),
        F.when(
            _needs_acls() & wrong & ((F.col(LOWEST) < F.col(LOST_BEFORE)) | _in_unknown_range()),
            "older ACLs are missing from the log",
        ),
    ]


def _in_unknown_range() -> Column:
    # The state is known again from the offset of the snapshot itself.
    return F.exists(
        UNKNOWN, lambda each: (F.col(LOWEST) < each[UNKNOWN_LAST]) & (F.col(HIGHEST) >= each[UNKNOWN_FIRST])
    )


def _exemptions() -> list[Column]:
    denied = ~F.col(S.GRANTED)
    return [
        F.when(
            (F.col(AUTHORIZER) != "") & ~F.col(AUTHORIZER).endswith(E.EVALUATED),
            F.concat(F.lit("decided by "), F.col(AUTHORIZER)),
        ),
        F.when(
            F.col(_OF_SEVERAL) & _needs_acls() & ~F.col(S.RULE).isin(E.NO_AUTHORIZER, E.SUPER_USER),
            "one record stands for several resources",
        ),
        F.when(
            F.array_contains(LONG_ACLS, F.col(S.ACL_ID)) & (_is_cut(S.RESOURCE_NAME) | _is_cut(S.PRINCIPAL)),
            "decided by an ACL with a longer name than a record may have",
        ),
        F.when(denied & (F.col(f"{E.EXPECTED}.rule") == E.FAILED), "denied on an error of the authorizer"),
        F.when(denied & (F.col(f"{E.EXPECTED}.rule") == E.NOT_READY), "denied before the log was loaded"),
        F.when(denied & F.col(f"{E.EXPECTED}.rule").isin(*E.PROTECTED), "denied as Penstock's own"),
    ]


def _is_cut(text: str) -> Column:
    """Return whether a text may be a part of a longer one, or has one in it."""
    return F.coalesce(F.length(text) >= S.MOST_CHARACTERS, F.lit(False))


def _faults() -> list[Column]:
    checked = F.col(NOT_EVALUATED).isNull()
    differs = F.col(S.GRANTED) != F.col(f"{E.EXPECTED}.granted")
    return [
        fault(checked & F.col(UNVERIFIABLE).isNotNull(), "decisions.unverifiable"),
        fault(checked & differs & F.col(S.GRANTED), "decisions.wrongly_granted"),
        fault(checked & differs, "decisions.wrongly_denied"),
        fault(checked & _other_rule(), "decisions.wrong_rule"),
        fault(checked & _other_acl(), "decisions.wrong_acl"),
    ]


def _other_rule() -> Column:
    return F.coalesce(F.col(S.RULE) != F.col(f"{E.EXPECTED}.rule"), F.lit(False))


def _other_acl() -> Column:
    named = F.coalesce(F.array_contains(f"{E.EXPECTED}.acls", F.col(S.ACL_ID)), F.lit(False))
    return F.coalesce(F.col(f"{E.EXPECTED}.rule") == E.BY_ACL, F.lit(False)) & ~named
