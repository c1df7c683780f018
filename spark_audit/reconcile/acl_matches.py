"""What the ACLs of a past image answer to a question, as Kafka's StandardAuthorizer would.

A question is (principal, host, resource type, resource name, operation, epoch). The answer is which ACLs
allow, which deny, and whether any ACL stands on the resource at all; super users and the default are the
caller's affair. Joins and expressions only: an ACL is found by the patterns a name can match (the name
itself, `*`, each of its prefixes), so the join is on equality and its cost grows with the questions, not
with questions x ACLs.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.trail.acl_history import (
    ACL_HOST,
    ACL_OPERATION,
    ACL_PRINCIPAL,
    ADDED,
    EPOCH,
    PATTERN_NAME,
    PERMISSION,
    REMOVED,
)

_TIMELESS = (S.PRINCIPAL, S.HOST, S.RESOURCE_TYPE, S.RESOURCE_NAME, S.OPERATION)
QUESTION = (*_TIMELESS, EPOCH)
_RESOURCE = (S.RESOURCE_TYPE, S.RESOURCE_NAME)
ALLOWING, DENYING, ON_RESOURCE = "allowing_acls", "denying_acls", "acls_on_resource"

WILDCARD = "*"
WILDCARD_PRINCIPAL = "User:*"
# An ALLOW of one of these is an ALLOW of the operation on the left too. A DENY implies nothing.
IMPLIED_BY = {
    "DESCRIBE": ("DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"),
    "DESCRIBE_CONFIGS": ("DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
}


def answers(questions: DataFrame, intervals: DataFrame) -> DataFrame:
    """One row per distinct question: QUESTION, allowing_acls, denying_acls (sorted ids), acls_on_resource."""
    return with_answers(questions.select(*QUESTION).distinct(), intervals, counted=True)


def with_answers(asked: DataFrame, intervals: DataFrame, *, counted: bool) -> DataFrame:
    """Adds allowing_acls, denying_acls (sorted ids) and acls_on_resource to rows that have a QUESTION.

    Null where there is none. ACLs are looked for once for each question, whatever the epochs in which it was
    asked: of those that ever decided it, the ones in force are picked out row by row. `counted`: whether the
    number of ACLs on the resource is wanted too, which is that of everybody's and costs more.
    """
    named = asked.where(F.col(S.RESOURCE_NAME).isNotNull())
    questions = named.select(*_TIMELESS).distinct()
    patterns = questions.select(*_RESOURCE).distinct().transform(patterns_of, intervals)
    standing = patterns.join(intervals, [S.RESOURCE_TYPE, S.PATTERN_TYPE, PATTERN_NAME])
    standing = standing.drop(S.PATTERN_TYPE, PATTERN_NAME)
    answered = asked.join(_deciding(questions, standing), list(_TIMELESS), "left")
    answered = answered.withColumns({name: _ids_in_force(name) for name in (ALLOWING, DENYING)})
    if not counted:
        return answered.withColumn(ON_RESOURCE, F.lit(None).cast("long"))
    return answered.join(_counted(named, standing), [*_RESOURCE, EPOCH], "left")


def _deciding(questions: DataFrame, standing: DataFrame) -> DataFrame:
    """Of each question the ACLs that ever decided it: allowing_acls, denying_acls, with their offsets."""
    names = F.array_distinct(F.array(F.col(S.PRINCIPAL), F.lit(WILDCARD_PRINCIPAL)))
    of_somebody = questions.withColumn(ACL_PRINCIPAL, F.explode(names))
    allows = (F.col(PERMISSION) == "ALLOW") & _allows_operation()
    denies = (F.col(PERMISSION) == "DENY") & same_operation()
    pairs = of_somebody.join(standing, [*_RESOURCE, ACL_PRINCIPAL]).where(concerns_session())
    acl = F.struct(ADDED, REMOVED, S.ACL_ID)
    return (
        pairs.where(allows | denies)
        .groupBy(*_TIMELESS)
        .agg(
            F.collect_list(F.when(allows, acl)).alias(ALLOWING),
            F.collect_list(F.when(denies, acl)).alias(DENYING),
        )
    )


def _ids_in_force(acls: str) -> Column:
    epoch = F.col(EPOCH)
    now = F.filter(acls, lambda acl: (acl[ADDED] <= epoch) & (epoch < acl[REMOVED]))
    return F.sort_array(F.array_distinct(F.transform(now, lambda acl: acl[S.ACL_ID])))


def _counted(asked: DataFrame, standing: DataFrame) -> DataFrame:
    moments = asked.select(*_RESOURCE, EPOCH).distinct()
    there = moments.join(standing, list(_RESOURCE)).where(in_force())
    return there.groupBy(*_RESOURCE, EPOCH).agg(F.count(F.lit(1)).alias(ON_RESOURCE))


def in_force() -> Column:
    return (F.col(ADDED) <= F.col(EPOCH)) & (F.col(EPOCH) < F.col(REMOVED))


def patterns_of(resources: DataFrame, intervals: DataFrame) -> DataFrame:
    """Each (resource_type, resource_name) with each (pattern_type, pattern_name) that could match it.

    Prefixes have lengths that some ACL has: a client may ask for a name of thousands of characters.
    """
    name = F.col(S.RESOURCE_NAME)
    prefixed = intervals.where(F.col(S.PATTERN_TYPE) == "PREFIXED")
    lengths = prefixed.agg(F.collect_set(F.length(PATTERN_NAME)).alias("lengths"))
    there = F.filter("lengths", lambda length: length <= F.length(name))
    literal = F.array_distinct(F.array(_pattern("LITERAL", name), _pattern("LITERAL", F.lit(WILDCARD))))
    prefixes = F.transform(there, lambda length: _pattern("PREFIXED", F.substring(name, F.lit(1), length)))
    exploded = resources.crossJoin(F.broadcast(lengths)).withColumn(
        "pattern", F.explode(F.concat(literal, prefixes))
    )
    return exploded.select(
        S.RESOURCE_TYPE, S.RESOURCE_NAME, f"pattern.{S.PATTERN_TYPE}", f"pattern.{PATTERN_NAME}"
    )


def concerns_session() -> Column:
    """The ACL is for this principal (or all) and this host (or all)."""
    for_principal = F.col(ACL_PRINCIPAL).isin(F.col(S.PRINCIPAL), F.lit(WILDCARD_PRINCIPAL))
    return for_principal & F.col(ACL_HOST).isin(F.col(S.HOST), F.lit(WILDCARD))


def same_operation() -> Column:
    return F.col(ACL_OPERATION).isin(F.col(S.OPERATION), F.lit("ALL"))


def _allows_operation() -> Column:
    allows = same_operation()
    for operation, implying in IMPLIED_BY.items():
        allows = allows | ((F.col(S.OPERATION) == operation) & F.col(ACL_OPERATION).isin(*implying))
    return allows


def _pattern(pattern_type: str, name: Column) -> Column:
    return F.struct(F.lit(pattern_type).alias(S.PATTERN_TYPE), name.alias(PATTERN_NAME))
