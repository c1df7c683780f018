"""The decision that ACLs, owners and settings give for a question: granted, by which rule, by which ACLs.

The reconciliation evaluates what was decided; what-if and least privilege evaluate what would be.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.policy import acl_matches as M
from spark_audit.policy.acl_history import ENDED, acl_intervals, ended_by_the_end
from spark_audit.policy.enforced_acls import enforced, networks_from
from spark_audit.policy.principals import session_principals
from spark_audit.policy.topic_owners import OWNS, OWNS_SOME, owner_intervals, owners, owners_of_some
from spark_audit.tables.plans import coalesce_small, held
from spark_audit.trail.processes import ALLOW_EVERYONE, AUTHORIZER, SUPER_USERS

SUPER_USER, BY_ACL, ALLOWED_BY_DEFAULT = "super.users", "acl", "allow.everyone.if.no.acl.found"
DENIED_BY_DEFAULT = "default.deny"
NO_AUTHORIZER, NOT_READY, FAILED = "no.authorizer", "authorizer.not.ready", "authorizer.error"
BY_OWNER = "topic.owner"
PROTECTED = ("protected.topic", "protected.group", "protected.transactional.id")
"""The rules by which proxies and controllers deny Penstock's own resources, without the authorizer."""
EVALUATED = "StandardAuthorizer"
"""Decisions of this class can be repeated: Kafka's, and Penstock's, which implements the same rules."""
EXPECTED = "expected"
"""struct(granted, rule, acls). `rule` is null if Kafka's rules allow more than one."""


def with_evidence(questions: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Add the matching ACLs and owners to rows that have a QUESTION and ALLOW_EVERYONE.

    Plans no joins for questions that do not occur. Without ENDED they are of the time of the last log record.
    """
    if ENDED not in questions.columns:
        questions = questions.withColumn(ENDED, ended_by_the_end(metadata_log))
    rows, any_unnamed, any_open = _overview(questions)
    few = coalesce_small(questions, rows)
    intervals = held(enforced(acl_intervals(metadata_log), networks_from(metadata_log)))
    owned = held(owner_intervals(metadata_log))
    matched = M.with_acl_matches(few, intervals, counted=any_open)
    unnamed, any_owner = few.where(F.col(S.RESOURCE_NAME).isNull()), not owned.isEmpty()
    if any_unnamed:
        matched = matched.join(M.by_resource_type(unnamed, intervals), list(M.TYPE_QUESTION), "left")
    if any_owner:
        matched = matched.join(owners(few, owned), list(M.QUESTION), "left")
    if any_unnamed and any_owner:
        some = owners_of_some(unnamed, owned, intervals)
        matched = matched.join(some, list(M.TYPE_QUESTION), "left")
    absent = {M.BY_NAME, M.BY_TYPE, M.UNPROTECTED, OWNS, OWNS_SOME}.difference(matched.columns)
    return matched.withColumns({name: F.lit(None).cast("boolean") for name in absent})


def _overview(questions: DataFrame) -> tuple[int, bool, bool]:
    """Return the number of rows, if one names no resource, and if one needs the default of no ACL."""
    unnamed, everyone = F.max(F.col(S.RESOURCE_NAME).isNull()), F.max(ALLOW_EVERYONE)
    row = questions.agg(F.count(F.lit(1)), unnamed, everyone).first()
    return (int(row[0]), bool(row[1]), bool(row[2])) if row else (0, False, False)


def expectations() -> list[Column]:
    """Return the conditions in order: the first that holds gives the expected outcome.

    For rows of `with_evidence` that have S.RULE and the settings of their process.
    """
    super_user = F.arrays_overlap(SUPER_USERS, session_principals())
    unprotected = F.coalesce(M.ON_RESOURCE, F.lit(0)) == 0
    by_acl = F.col(M.BY_NAME) | F.col(M.BY_TYPE) | F.coalesce(OWNS_SOME, F.lit(False))
    by_type = by_acl | (F.col(M.UNPROTECTED) & F.col(ALLOW_EVERYONE))
    return [
        F.when(F.col(S.RULE).isin(FAILED, *PROTECTED), _expect(False, F.col(S.RULE))),
        F.when(F.col(AUTHORIZER) == "", _expect(True, NO_AUTHORIZER)),
        F.when(super_user, _expect(True, SUPER_USER)),
        F.when(F.col(S.RULE) == NOT_READY, _expect(False, NOT_READY)),
        F.when(F.col(S.RESOURCE_NAME).isNull(), _expect(by_type, None)),
        F.when(F.size(M.DENYING) > 0, _expect(False, BY_ACL, F.col(M.DENYING))),
        F.when(F.size(M.ALLOWING) > 0, _expect(True, BY_ACL, F.col(M.ALLOWING))),
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
