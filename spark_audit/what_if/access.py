"""Who would be newly denied or allowed: each question decided by the current policy and by the proposed one.

Both decisions use what reconciliation uses (policy.evaluation), at the two offsets of the proposed log. So
the difference is that of the proposal alone, whatever has changed since the traffic was recorded; how many
requests had another outcome then is counted beside it.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.policy.acl_history import EPOCH
from spark_audit.policy.evaluation import EXPECTED, expectations, with_evidence
from spark_audit.policy.principals import array_of, named_groups
from spark_audit.proposal import GROUP, Proposal
from spark_audit.trail.processes import ALLOW_EVERYONE, SUPER_USERS
from spark_audit.what_if import traffic as T

OUTCOME, REASON, OTHER_THEN = "outcome", "reason", "other_outcome_then"
NEWLY_DENIED, NEWLY_ALLOWED, UNCHANGED = "newly_denied", "newly_allowed", "unchanged"
CANNOT_BE_SAID = "cannot_be_said"
OUTCOMES = (NEWLY_DENIED, NEWLY_ALLOWED, CANNOT_BE_SAID, UNCHANGED)
NOW, PROPOSED = "now", "proposed"
"""Structs of granted, rule and acls (the ids of those that decide)."""
_WHO = (S.PRINCIPAL, S.HOST, S.CLIENT_ID, S.METHOD, *T.RESOURCE)
_DECIDED = (S.PROXY_ID, S.PRINCIPAL, S.GROUPS, S.HOST, S.RULE)
_PLACE, _RIGHT, _GROUPS_THEN = "place", "right", "groups_then"
"""`groups_then`: as recorded, without the members of the proposal."""


def access(
    questions: DataFrame, policies: DataFrame, log: DataFrame, now: int, proposed: int, proposal: Proposal
) -> DataFrame:
    """Return one row per question and outcome: REQUESTS, BYTES, FIRST_MS, LAST_MS, OVER_TIME, OTHER_THEN.

    `log` is the proposed log, `now` and `proposed` are the two offsets in it. `policies` are those of
    traffic.newest_policies.
    """
    asked = questions.where(F.col(T.UNKNOWN_BECAUSE).isNull())
    numbered = asked.withColumn(_RIGHT, F.explode(T.EITHER))
    each = numbered.select(*_DECIDED, *(F.col(f"{_RIGHT}.{name}") for name in T.RESOURCE)).distinct()
    epochs = F.explode(F.array(*(F.lit(offset).cast("long") for offset in sorted({now, proposed}))))
    # A session may have a thousand groups, and each would be looked up.
    deciding = F.array_intersect(S.GROUPS, array_of(_named_groups(log, policies, proposal)))
    at_both = each.withColumns({EPOCH: epochs, _GROUPS_THEN: F.col(S.GROUPS), S.GROUPS: deciding})
    decided = decide(at_both, policies, log, proposed, proposal).withColumn(S.GROUPS, F.col(_GROUPS_THEN))
    # Null in all rows of the other offset, so that one pass over the decisions is enough.
    by_right = decided.groupBy(*_DECIDED, *T.RESOURCE).agg(
        *(
            F.max(F.when(F.col(EPOCH) == offset, F.col(EXPECTED))).alias(name)
            for name, offset in ((NOW, now), (PROPOSED, proposed))
        )
    )
    # Both sides come from the same questions, so the columns of one are renamed.
    key = {name: f"decided_{name}" for name in (*_DECIDED, *T.RESOURCE)}
    renamed = by_right.select(*(F.col(name).alias(other) for name, other in key.items()), NOW, PROPOSED)
    same_right = [F.col(name).eqNullSafe(F.col(key[name])) for name in _DECIDED]
    same_right += [F.col(_RIGHT)[name].eqNullSafe(F.col(key[name])) for name in T.RESOURCE]
    joined = numbered.join(renamed, same_right).drop(*key.values())
    best = {name: F.max_by(name, F.col(f"{name}.granted")).alias(name) for name in (NOW, PROPOSED)}
    measures = [
        F.first(name).alias(name) for name in (T.REQUESTS, T.BYTES, T.FIRST_MS, T.LAST_MS, T.OVER_TIME)
    ]
    judged = joined.groupBy(*T.QUESTION).agg(*best.values(), *measures)
    unknown = questions.where(F.col(T.UNKNOWN_BECAUSE).isNotNull()).drop(T.EITHER)
    return _outcomes(judged.unionByName(unknown, allowMissingColumns=True))


def decide(
    rights: DataFrame, policies: DataFrame, log: DataFrame, proposed: int, proposal: Proposal
) -> DataFrame:
    """Add EXPECTED: the decision at EPOCH, where the settings of the proposal apply from `proposed` on."""
    known = rights.join(F.broadcast(policies), S.PROXY_ID, "left")
    is_proposed = F.col(EPOCH) >= proposed
    known = known.withColumn(S.GROUPS, F.when(is_proposed, groups_then(proposal)).otherwise(F.col(S.GROUPS)))
    if proposal.super_users is not None:
        named = array_of(proposal.super_users)
        known = known.withColumn(SUPER_USERS, F.when(is_proposed, named).otherwise(F.col(SUPER_USERS)))
    if proposal.allow_everyone is not None:
        default = F.when(is_proposed, F.lit(proposal.allow_everyone)).otherwise(F.col(ALLOW_EVERYONE))
        known = known.withColumn(ALLOW_EVERYONE, default)
    return with_evidence(known.persist(), log).withColumn(EXPECTED, F.coalesce(*expectations()))


def groups_then(proposal: Proposal) -> Column:
    """Return the groups of a session with the members of the proposal."""
    groups = F.col(S.GROUPS)
    for member in {member for member, _ in proposal.members}:
        changes = {group: joins for (who, group), (joins, _) in proposal.members.items() if who == member}
        left, joined = (
            array_of(group for group in changes if changes[group] is wanted) for wanted in (False, True)
        )
        changed = F.array_union(F.array_except(S.GROUPS, left), joined)
        groups = F.when(F.col(S.PRINCIPAL) == member, changed).otherwise(groups)
    return groups


def _named_groups(log: DataFrame, policies: DataFrame, proposal: Proposal) -> list[str]:
    """Return the groups that an ACL, a super user or the proposal names."""
    named = {name.removeprefix(GROUP) for name in proposal.super_users or () if name.startswith(GROUP)}
    members = {group for _, group in proposal.members}
    return sorted(named_groups(log, policies) | named | members)


def _outcomes(judged: DataFrame) -> DataFrame:
    now, proposed = F.col(f"{NOW}.granted"), F.col(f"{PROPOSED}.granted")
    of_cluster = (S.METHOD, S.RESOURCE_TYPE)
    lost_right = now & ~proposed & F.col(of_cluster[0]).isin("CreateTopics", "DeleteTopics")
    lost_right = lost_right & (F.col(of_cluster[1]) == "CLUSTER")
    reason = F.coalesce(
        T.UNKNOWN_BECAUSE,
        F.when(lost_right, "a right on each topic would do, and the record does not name the topics"),
    )
    outcome = (
        F.when(F.col(REASON).isNotNull(), CANNOT_BE_SAID)
        .when(now & ~proposed, NEWLY_DENIED)
        .when(~now & proposed, NEWLY_ALLOWED)
        .otherwise(UNCHANGED)
    )
    named = judged.withColumn(REASON, reason).withColumn(OUTCOME, outcome)
    return named.groupBy(OUTCOME, REASON, *_WHO, NOW, PROPOSED).agg(
        F.sum(T.REQUESTS).alias(T.REQUESTS),
        F.sum(T.BYTES).alias(T.BYTES),
        F.min(T.FIRST_MS).alias(T.FIRST_MS),
        F.max(T.LAST_MS).alias(T.LAST_MS),
        F.flatten(F.collect_list(T.OVER_TIME)).alias(T.OVER_TIME),
        _sum_if(now != F.col(S.GRANTED)).alias(OTHER_THEN),
    )


def _sum_if(condition: Column) -> Column:
    return F.coalesce(F.sum(F.when(condition, F.col(T.REQUESTS))), F.lit(0))
