"""Whether an operation is allowed on any resource of a type, as Kafka's Authorizer.authorizeByResourceType.

Such a decision, InitProducerId without a transactional id for example, names no resource. Kafka first
authorizes a topic with the name "hardcode", which covers super users, the default and wide ACLs. Otherwise
any ACL that allows is enough, unless one that denies is on `*`, on the same name or on a prefix of it.
Implied operations do not count in that second step.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.acl_matches import (
    ALLOWING,
    DENYING,
    ON_RESOURCE,
    QUESTION,
    WILDCARD,
    acl_matches,
    concerns_session,
    in_effect,
    same_operation,
)
from spark_audit.trail.acl_history import EPOCH, PATTERN_NAME, PERMISSION

TYPE_QUESTION = (S.PRINCIPAL, S.HOST, S.RESOURCE_TYPE, S.OPERATION, EPOCH)
BY_NAME, BY_TYPE, UNPROTECTED = "probe_allowed", "type_allowed", "probe_unprotected"

_PROBE = "hardcode"


def by_resource_type(questions: DataFrame, intervals: DataFrame) -> DataFrame:
    """Returns one row per distinct TYPE_QUESTION: probe_allowed, probe_unprotected, type_allowed."""
    distinct = questions.select(*TYPE_QUESTION).distinct()
    joined = distinct.join(_probe(distinct, intervals), list(TYPE_QUESTION), "left")
    joined = joined.join(_second_step(distinct, intervals), list(TYPE_QUESTION), "left")
    return joined.select(
        *TYPE_QUESTION,
        F.coalesce(BY_NAME, F.lit(False)).alias(BY_NAME),
        F.coalesce(UNPROTECTED, F.lit(True)).alias(UNPROTECTED),
        F.coalesce(BY_TYPE, F.lit(False)).alias(BY_TYPE),
    )


def _probe(questions: DataFrame, intervals: DataFrame) -> DataFrame:
    probed = acl_matches(questions.withColumn(S.RESOURCE_NAME, F.lit(_PROBE)).select(*QUESTION), intervals)
    return probed.select(
        *TYPE_QUESTION,
        ((F.size(DENYING) == 0) & (F.size(ALLOWING) > 0)).alias(BY_NAME),
        (F.col(ON_RESOURCE) == 0).alias(UNPROTECTED),
    )


def _second_step(questions: DataFrame, intervals: DataFrame) -> DataFrame:
    concerned = questions.join(intervals, S.RESOURCE_TYPE).where(
        in_effect() & concerns_session() & same_operation()
    )
    gathered = concerned.groupBy(*TYPE_QUESTION).agg(
        _names("ALLOW", "LITERAL").alias("allowed"),
        _names("ALLOW", "PREFIXED").alias("allowed_prefixes"),
        _names("DENY", "LITERAL").alias("denied"),
        _names("DENY", "PREFIXED").alias("denied_prefixes"),
    )
    wildcard_allowed = F.array_contains("allowed", WILDCARD)
    some_name = F.exists(
        "allowed", lambda name: ~F.array_contains("denied", name) & ~_under_a_denied_prefix(name)
    )
    some_prefix = F.exists("allowed_prefixes", lambda name: ~_under_a_denied_prefix(name))
    allowed = ~F.array_contains("denied", WILDCARD) & (wildcard_allowed | some_name | some_prefix)
    return gathered.select(*TYPE_QUESTION, allowed.alias(BY_TYPE))


def _names(permission: str, pattern_type: str) -> Column:
    of_kind = (F.col(PERMISSION) == permission) & (F.col(S.PATTERN_TYPE) == pattern_type)
    return F.collect_set(F.when(of_kind, F.col(PATTERN_NAME)))


def _under_a_denied_prefix(name: Column) -> Column:
    return F.exists("denied_prefixes", lambda prefix: F.startswith(name, prefix))
