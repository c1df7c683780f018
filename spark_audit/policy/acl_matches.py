"""The ACLs of a past image that decide a question, as Kafka's StandardAuthorizer finds them.

A question is (principal, groups, host, resource type, resource name, operation, epoch, latest end that had
passed); groups is an array that is empty for a session without any, never null. The result is which ACLs
allow, which deny, and whether any ACL is on the resource at all. Super users and the default are left to the
caller. Only joins and expressions are used. An ACL is found by the patterns that a name can match (the name
itself, `*`, each of its prefixes), so that joins are on equality and the cost grows with the number of
questions, not with questions x ACLs.

A decision on any resource of a type, InitProducerId without a transactional id for example, names no
resource, as Kafka's Authorizer.authorizeByResourceType. Kafka first authorizes a topic with the name
"hardcode", which covers super users, the default and wide ACLs. Otherwise any ACL that allows is enough,
unless one that denies is on `*`, on the same name or on a prefix of it. Implied operations do not count in
that second step.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.policy import acl_history as H
from spark_audit.policy.enforced_acls import NETWORK, WILDCARD, WILDCARD_PRINCIPAL, address_bits
from spark_audit.policy.principals import session_principals
from spark_audit.tables.plans import coalesce_small, is_held

_WITHOUT_EPOCH = (S.PRINCIPAL, S.GROUPS, S.HOST, S.RESOURCE_TYPE, S.RESOURCE_NAME, S.OPERATION)
QUESTION = (*_WITHOUT_EPOCH, H.EPOCH, H.ENDED)
_RESOURCE = (S.RESOURCE_TYPE, S.RESOURCE_NAME)
_MOMENT = (H.EPOCH, H.ENDED)
ALLOWING, DENYING, ON_RESOURCE = "allowing_acls", "denying_acls", "acls_on_resource"

IN_NO_NETWORK = "0.0.0.0"  # noqa: S104  # Compared, and bound to nowhere.
# An ALLOW of any operation on the right also allows the operation on the left. A DENY implies nothing.
IMPLIED_BY = {
    "DESCRIBE": ("DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"),
    "DESCRIBE_CONFIGS": ("DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
}


def acl_matches(questions: DataFrame, intervals: DataFrame) -> DataFrame:
    """Return one row per distinct QUESTION: allowing_acls, denying_acls (sorted ids), acls_on_resource."""
    return with_acl_matches(questions.select(*QUESTION).distinct(), intervals, counted=True)


def with_acl_matches(questions: DataFrame, intervals: DataFrame, *, counted: bool) -> DataFrame:
    """Add allowing_acls, denying_acls (sorted ids) and acls_on_resource to rows that have a QUESTION.

    They are null if there is no such ACL. ACLs are looked up once per question, whatever its epochs: of those
    that ever decided it, each row gets the ones in effect in its epoch. `counted` says whether to count the
    ACLs on the resource too. That includes the ACLs of all principals and costs more.
    """
    named = questions.where(F.col(S.RESOURCE_NAME).isNotNull())
    distinct = named.select(*_WITHOUT_EPOCH).distinct()
    patterns = distinct.select(*_RESOURCE).distinct().transform(patterns_of, intervals)
    on_resource = patterns.join(intervals, [S.RESOURCE_TYPE, S.PATTERN_TYPE, H.PATTERN_NAME])
    on_resource = on_resource.drop(S.PATTERN_TYPE, H.PATTERN_NAME)
    deciding = _deciding(distinct, on_resource)
    if not is_held(questions):
        # Counted, so that Spark broadcasts it if it is small, and does not shuffle the questions.
        deciding = coalesce_small(deciding)
    matched = questions.join(deciding, list(_WITHOUT_EPOCH), "left")
    matched = matched.withColumns({name: _ids_in_effect(name) for name in (ALLOWING, DENYING)})
    if not counted:
        return matched.withColumn(ON_RESOURCE, F.lit(None).cast("long"))
    return matched.join(_counted(named, on_resource), [*_RESOURCE, *_MOMENT], "left")


def _deciding(questions: DataFrame, on_resource: DataFrame) -> DataFrame:
    """Return the ACLs that ever decided each question: allowing_acls, denying_acls, with their offsets."""
    names = F.array_union(session_principals(), F.array(F.lit(WILDCARD_PRINCIPAL)))
    by_principal = questions.withColumn(H.ACL_PRINCIPAL, F.explode(names))
    allows = (F.col(S.PERMISSION_TYPE) == "ALLOW") & _allows_operation()
    denies = (F.col(S.PERMISSION_TYPE) == "DENY") & same_operation()
    pairs = by_principal.join(on_resource, [*_RESOURCE, H.ACL_PRINCIPAL]).where(concerns_session())
    acl = F.struct(H.ADDED, H.REMOVED, S.ACL_ID, S.UNTIL_MS)
    return (
        pairs.where(allows | denies)
        .groupBy(*_WITHOUT_EPOCH)
        .agg(
            F.collect_list(F.when(allows, acl)).alias(ALLOWING),
            F.collect_list(F.when(denies, acl)).alias(DENYING),
        )
    )


def _ids_in_effect(acls: str) -> Column:
    epoch = F.col(H.EPOCH)
    now = F.filter(
        acls,
        lambda acl: (acl[H.ADDED] <= epoch) & (epoch < acl[H.REMOVED]) & not_ended(acl[S.UNTIL_MS]),
    )
    return F.sort_array(F.array_distinct(F.transform(now, lambda acl: acl[S.ACL_ID])))


def _counted(questions: DataFrame, on_resource: DataFrame) -> DataFrame:
    moments = questions.select(*_RESOURCE, *_MOMENT).distinct()
    present = moments.join(on_resource, list(_RESOURCE)).where(in_effect() & not_ended(F.col(S.UNTIL_MS)))
    return present.groupBy(*_RESOURCE, *_MOMENT).agg(F.count(F.lit(1)).alias(ON_RESOURCE))


def in_effect() -> Column:
    """Return whether a row's interval [added_offset, removed_offset) contains its epoch."""
    return (F.col(H.ADDED) <= F.col(H.EPOCH)) & (F.col(H.EPOCH) < F.col(H.REMOVED))


def not_ended(until_ms: Column) -> Column:
    """Return whether an ACL with this end, or none, had not ended at the moment of its row's question."""
    return until_ms.isNull() | (until_ms > F.col(H.ENDED))


def patterns_of(resources: DataFrame, intervals: DataFrame) -> DataFrame:
    """Return each (resource_type, resource_name) with each (pattern_type, pattern_name) that may match it.

    Only prefixes of a length that some ACL has are tried: a client may request a name of thousands of
    characters.
    """
    name = F.col(S.RESOURCE_NAME)
    prefixed = intervals.where(F.col(S.PATTERN_TYPE) == "PREFIXED")
    lengths = prefixed.agg(F.collect_set(F.length(H.PATTERN_NAME)).alias("lengths"))
    fitting = F.filter("lengths", lambda length: length <= F.length(name))
    literal = F.array_distinct(F.array(_pattern("LITERAL", name), _pattern("LITERAL", F.lit(WILDCARD))))
    prefixes = F.transform(fitting, lambda length: _pattern("PREFIXED", F.substring(name, F.lit(1), length)))
    exploded = resources.crossJoin(F.broadcast(lengths)).withColumn(
        "pattern", F.explode(F.concat(literal, prefixes))
    )
    return exploded.select(
        S.RESOURCE_TYPE, S.RESOURCE_NAME, f"pattern.{S.PATTERN_TYPE}", f"pattern.{H.PATTERN_NAME}"
    )


def concerns_session() -> Column:
    """Return whether the ACL is for this session (or all) and this host (or all, or a network)."""
    for_all = F.col(H.ACL_PRINCIPAL) == WILDCARD_PRINCIPAL
    for_principal = for_all | F.array_contains(session_principals(), F.col(H.ACL_PRINCIPAL))
    without_zone = F.substring_index(S.HOST, "%", 1)
    is_within = F.col(NETWORK).isNotNull() & F.startswith(address_bits(without_zone), F.col(NETWORK))
    is_none = F.col(S.HOST) == IN_NO_NETWORK
    # A DENY is for an address in every zone, an ALLOW for the address as it is written, as in Kafka.
    in_every_zone = (F.col(S.PERMISSION_TYPE) == "DENY") & (F.col(H.ACL_HOST) == without_zone)
    named = F.col(H.ACL_HOST).isin(F.col(S.HOST), F.lit(WILDCARD)) | in_every_zone
    return for_principal & (named | (F.coalesce(is_within, F.lit(False)) & ~is_none))


def same_operation() -> Column:
    return F.col(H.ACL_OPERATION).isin(F.col(S.OPERATION), F.lit("ALL"))


def _allows_operation() -> Column:
    allows = same_operation()
    for operation, implying in IMPLIED_BY.items():
        allows = allows | ((F.col(S.OPERATION) == operation) & F.col(H.ACL_OPERATION).isin(*implying))
    return allows


def _pattern(pattern_type: str, name: Column) -> Column:
    return F.struct(F.lit(pattern_type).alias(S.PATTERN_TYPE), name.alias(H.PATTERN_NAME))


TYPE_QUESTION = (S.PRINCIPAL, S.GROUPS, S.HOST, S.RESOURCE_TYPE, S.OPERATION, H.EPOCH, H.ENDED)
BY_NAME, BY_TYPE, UNPROTECTED = "probe_allowed", "type_allowed", "probe_unprotected"

_PROBE = "hardcode"


def by_resource_type(questions: DataFrame, intervals: DataFrame) -> DataFrame:
    """Return one row per distinct TYPE_QUESTION: probe_allowed, probe_unprotected, type_allowed."""
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
        in_effect() & not_ended(F.col(S.UNTIL_MS)) & concerns_session() & same_operation()
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
    of_kind = (F.col(S.PERMISSION_TYPE) == permission) & (F.col(S.PATTERN_TYPE) == pattern_type)
    return F.collect_set(F.when(of_kind, F.col(H.PATTERN_NAME)))


def _under_a_denied_prefix(name: Column) -> Column:
    return F.exists("denied_prefixes", lambda prefix: F.startswith(name, prefix))
