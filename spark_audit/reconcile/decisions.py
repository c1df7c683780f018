"""(b) Every decision once more, against the ACLs and owners that were in force at its metadata offset.

Takes the audit records (each once) and the metadata log. Records that put one question under one set of
ACLs with one outcome are first made one row, so that a busy client costs one evaluation per change of
ACLs, not one per record. What cannot be evaluated is counted with its reason (`coverage`); where it should
have been possible, that is a finding too.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.acl_matches import ALLOWING, DENYING, ON_RESOURCE, QUESTION, with_answers
from spark_audit.reconcile.by_resource_type import BY_NAME, BY_TYPE, TYPE_QUESTION, UNPROTECTED, type_answers
from spark_audit.reconcile.finding import findings, words
from spark_audit.reconcile.owner_history import (
    OWNS,
    OWNS_SOME,
    owner_changes,
    owner_intervals,
    owners,
    owners_of_some,
)
from spark_audit.tables.frames import coalesce_small
from spark_audit.trail.acl_history import BLIND, EPOCH, acl_intervals, epochs, history_lost
from spark_audit.trail.log_changes import BLIND_FIRST, BLIND_LAST
from spark_audit.trail.processes import (
    ALLOW_EVERYONE,
    AUTHORIZER,
    BY_SETTINGS,
    SETTINGS_AT,
    SUPER_USERS,
    named_generation,
    settings,
    with_generation,
)

DECISION_EVENTS = ("authorization", "authorization_summary")
SUPER_USER, BY_ACL, ALLOWED_BY_DEFAULT, DENIED_BY_DEFAULT = (
    "super.users",
    "acl",
    "allow.everyone.if.no.acl.found",
    "default.deny",
)
NO_AUTHORIZER, NOT_READY, FAILED = "no.authorizer", "authorizer.not.ready", "authorizer.error"
BY_OWNER = "topic.owner"
PROTECTED = ("protected.topic", "protected.group", "protected.transactional.id")
"""The rule of proxies and controllers for Penstock's own resources, whatever the authorizer says."""
EVALUATED = "StandardAuthorizer"
"""The class whose decisions can be repeated: Kafka's, and Penstock's which follows it."""

RECORDS, LOWEST, HIGHEST = "records", "lowest_offset", "highest_offset"
FIRST, LAST = "first_sequence", "last_sequence"
EXPECTED, UNVERIFIABLE, NOT_EVALUATED, LOG_END, LOST_BEFORE = (
    "expected",
    "unverifiable",
    "not_evaluated",
    "log_end",
    "lost_before",
)
_GROUP = (*BY_SETTINGS, S.DATE, *QUESTION, S.GRANTED, S.RULE, S.ACL_ID)


def verdicts(
    records: DataFrame,
    metadata_log: DataFrame,
    log_end: int | None = None,
    starts: DataFrame | None = None,
) -> DataFrame:
    """One row per process, day, question and outcome, with what was to be expected.

    `expected`: struct(granted, rule, acls); rule is null where Kafka's rules allow more than one.
    `unverifiable`: why it could not be checked though it should have been. `not_evaluated`: why it
    need not be. `log_end` is the offset behind the last one that ingest has read; an image's offset counts
    markers of transactions too, which are in no table. `starts`: all records that tell settings, where
    somebody has them at hand.
    """
    told = settings(records if starts is None else starts)
    asked = _grouped(records, metadata_log).join(F.broadcast(told), list(BY_SETTINGS), "left").persist()
    answered = _answered(asked, metadata_log)
    # Without the true end, what can be known is the last record and the marker behind it.
    end = F.coalesce(F.lit(log_end).cast("long"), F.max(S.LOG_OFFSET) + 2, F.lit(0)).alias(LOG_END)
    bounds = metadata_log.agg(end).crossJoin(history_lost(metadata_log))
    answered = answered.crossJoin(F.broadcast(bounds))
    judged = answered.withColumn(EXPECTED, F.coalesce(*_expectations()))
    judged = judged.withColumn(UNVERIFIABLE, F.coalesce(*_missing_evidence()))
    judged = judged.withColumn(NOT_EVALUATED, F.coalesce(*_exemptions()))
    return judged.select(
        *_GROUP, RECORDS, FIRST, LAST, LOWEST, HIGHEST, EXPECTED, UNVERIFIABLE, NOT_EVALUATED
    )


def coverage(judged: DataFrame) -> DataFrame:
    """How many records were evaluated, and how many were not, by reason: outcome, records."""
    outcome = F.coalesce(NOT_EVALUATED, UNVERIFIABLE, F.lit("evaluated"))
    return judged.groupBy(outcome.alias("outcome")).agg(F.sum(RECORDS).alias(RECORDS))


def decision_findings(judged: DataFrame) -> DataFrame:
    """What is wrong with the verdicts."""
    faults = judged.withColumn("fault", F.coalesce(*_faults())).where(F.col("fault").isNotNull())
    said = words(
        "process %s/%s %s %s on %s %s to %s from %s (rule %s, ACL %s), %s record(s) at offset %s to %s",
        *S.BOOT_KEY,
        F.when(F.col(S.GRANTED), "granted").otherwise("denied"),
        S.OPERATION,
        S.RESOURCE_TYPE,
        F.coalesce(S.RESOURCE_NAME, F.lit("(any)")),
        S.PRINCIPAL,
        S.HOST,
        S.RULE,
        S.ACL_ID,
        RECORDS,
        LOWEST,
        HIGHEST,
    )
    meant = words(
        "; the ACLs of that offset say %s (rule %s%s)",
        F.when(F.col(f"{EXPECTED}.granted"), "granted").otherwise("denied"),
        F.coalesce(f"{EXPECTED}.rule", F.lit("any")),
        F.coalesce(F.concat(F.lit(", ACL "), F.array_join(f"{EXPECTED}.acls", " or ")), F.lit("")),
    )
    by_settings = F.when(F.col(S.SETTINGS_GENERATION) > 0, words(", settings %s", S.SETTINGS_GENERATION))
    said = F.concat(said, F.coalesce(by_settings, F.lit("")))
    unknown = F.concat(F.lit("; it cannot be checked: "), F.col(UNVERIFIABLE))
    group = [named_generation() if name == S.SETTINGS_GENERATION else name for name in _GROUP]
    evidence = [*group, RECORDS, FIRST, LAST, LOWEST, HIGHEST, EXPECTED, UNVERIFIABLE]
    return findings(
        faults,
        check=F.col("fault.check"),
        severity=F.col("fault.severity"),
        date=S.DATE,
        explanation=F.concat(said, F.when(F.col(UNVERIFIABLE).isNull(), meant).otherwise(unknown)),
        evidence=evidence,
    )


def _answered(asked: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Adds what ACLs and owners say. What nobody asked, or nobody can own, is not planned either."""
    rows, any_unnamed, any_open = _looked_over(asked)
    few = coalesce_small(asked, rows)
    intervals = acl_intervals(metadata_log).persist()
    owned = owner_intervals(metadata_log).persist()
    answered = with_answers(few, intervals, counted=any_open)
    unnamed, any_owner = few.where(F.col(S.RESOURCE_NAME).isNull()), not owned.isEmpty()
    if any_unnamed:
        answered = answered.join(type_answers(unnamed, intervals), list(TYPE_QUESTION), "left")
    if any_owner:
        answered = answered.join(owners(few, owned), list(QUESTION), "left")
    if any_unnamed and any_owner:
        some = owners_of_some(unnamed, owned, intervals)
        answered = answered.join(some, list(TYPE_QUESTION), "left")
    absent = {BY_NAME, BY_TYPE, UNPROTECTED, OWNS, OWNS_SOME}.difference(answered.columns)
    return answered.withColumns({name: F.lit(None).cast("boolean") for name in absent})


def _looked_over(asked: DataFrame) -> tuple[int, bool, bool]:
    """How many rows there are, whether one names no resource, and whether one is open where no ACL stands."""
    unnamed, everyone = F.max(F.col(S.RESOURCE_NAME).isNull()), F.max(ALLOW_EVERYONE)
    row = asked.agg(F.count(F.lit(1)), unnamed, everyone).first()
    return (int(row[0]), bool(row[1]), bool(row[2])) if row else (0, False, False)


def _grouped(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """One row per _GROUP. The only join that the millions meet is by their offset, a number: the epoch."""
    moments = F.broadcast(epochs(records, metadata_log, owner_changes(metadata_log)))
    decided = with_generation(records.where(F.col(S.EVENT).isin(*DECISION_EVENTS)))
    # A join does not find null; nobody is called by an empty name, so it stands for "not told".
    told = {name: F.coalesce(name, F.lit("")) for name in (S.PRINCIPAL, S.HOST)}
    placed = decided.join(moments, S.METADATA_OFFSET, "left").withColumns(told)
    return placed.groupBy(*_GROUP).agg(
        F.count(F.lit(1)).alias(RECORDS),
        # Not a sample of them: Spark collects without compiled code, and would sort the whole trail for it.
        F.min(S.SEQUENCE).alias(FIRST),
        F.max(S.SEQUENCE).alias(LAST),
        F.min(S.METADATA_OFFSET).alias(LOWEST),
        F.max(S.METADATA_OFFSET).alias(HIGHEST),
    )


def _expectations() -> list[Column]:
    """In this order: the first that holds is what the authorizer must have said."""
    super_user = F.array_contains(SUPER_USERS, F.col(S.PRINCIPAL))
    unprotected = F.coalesce(ON_RESOURCE, F.lit(0)) == 0
    by_acl = F.col(BY_NAME) | F.col(BY_TYPE) | F.coalesce(OWNS_SOME, F.lit(False))
    by_type = by_acl | (F.col(UNPROTECTED) & F.col(ALLOW_EVERYONE))
    return [
        F.when(F.col(S.RULE).isin(FAILED, *PROTECTED), _expect(False, F.col(S.RULE))),
        F.when(F.col(AUTHORIZER) == "", _expect(True, NO_AUTHORIZER)),
        F.when(super_user, _expect(True, SUPER_USER)),
        F.when(F.col(S.RULE) == NOT_READY, _expect(False, NOT_READY)),
        F.when(F.col(S.RESOURCE_NAME).isNull(), _expect(by_type, None)),
        F.when(F.size(DENYING) > 0, _expect(False, BY_ACL, F.col(DENYING))),
        F.when(F.size(ALLOWING) > 0, _expect(True, BY_ACL, F.col(ALLOWING))),
        F.when(F.coalesce(OWNS, F.lit(False)), _expect(True, BY_OWNER)),
        F.when(unprotected & F.col(ALLOW_EVERYONE), _expect(True, ALLOWED_BY_DEFAULT)),
        _expect(False, DENIED_BY_DEFAULT),
    ]


def _expect(granted: bool | Column, rule: str | Column | None, acls: Column | None = None) -> Column:
    return F.struct(
        (F.lit(granted) if isinstance(granted, bool) else granted).alias("granted"),
        (rule if isinstance(rule, Column) else F.lit(rule).cast("string")).alias("rule"),
        (F.lit(None).cast("array<string>") if acls is None else acls).alias("acls"),
    )


def _needs_acls() -> Column:
    """Neither a super user's decision nor one that was made without looking at ACLs."""
    rule = F.coalesce(f"{EXPECTED}.rule", F.lit(BY_ACL))
    return ~rule.isin(NO_AUTHORIZER, FAILED, *PROTECTED, SUPER_USER, NOT_READY)


def _missing_evidence() -> list[Column]:
    wrong = (F.col(S.GRANTED) != F.col(f"{EXPECTED}.granted")) | _other_rule() | _other_acl()
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
            _needs_acls() & wrong & ((F.col(LOWEST) < F.col(LOST_BEFORE)) | _in_the_blind()),
            "older ACLs are missing from the log",
        ),
    ]


def _in_the_blind() -> Column:
    # From the snapshot's own offset on it is known again.
    return F.exists(
        BLIND, lambda each: (F.col(LOWEST) < each[BLIND_LAST]) & (F.col(HIGHEST) >= each[BLIND_FIRST])
    )


def _exemptions() -> list[Column]:
    denied = ~F.col(S.GRANTED)
    return [
        F.when(
            (F.col(AUTHORIZER) != "") & ~F.col(AUTHORIZER).endswith(EVALUATED),
            F.concat(F.lit("decided by "), F.col(AUTHORIZER)),
        ),
        F.when(denied & (F.col(f"{EXPECTED}.rule") == FAILED), "denied on an error of the authorizer"),
        F.when(denied & (F.col(f"{EXPECTED}.rule") == NOT_READY), "denied before the log was loaded"),
        F.when(denied & F.col(f"{EXPECTED}.rule").isin(*PROTECTED), "denied as Penstock's own"),
    ]


def _faults() -> list[Column]:
    checked = F.col(NOT_EVALUATED).isNull()
    differs = F.col(S.GRANTED) != F.col(f"{EXPECTED}.granted")
    return [
        F.when(checked & F.col(UNVERIFIABLE).isNotNull(), _fault("decisions.unverifiable", "medium")),
        F.when(checked & differs & F.col(S.GRANTED), _fault("decisions.wrongly_granted", "critical")),
        F.when(checked & differs, _fault("decisions.wrongly_denied", "high")),
        F.when(checked & _other_rule(), _fault("decisions.wrong_rule", "medium")),
        F.when(checked & _other_acl(), _fault("decisions.wrong_acl", "medium")),
    ]


def _other_rule() -> Column:
    return F.coalesce(F.col(S.RULE) != F.col(f"{EXPECTED}.rule"), F.lit(False))


def _other_acl() -> Column:
    named = F.coalesce(F.array_contains(f"{EXPECTED}.acls", F.col(S.ACL_ID)), F.lit(False))
    return F.coalesce(F.col(f"{EXPECTED}.rule") == BY_ACL, F.lit(False)) & ~named


def _fault(check: str, severity: str) -> Column:
    return F.struct(F.lit(check).alias("check"), F.lit(severity).alias("severity"))
