"""Grants that nothing has used, and grants that are wider than their use.

A grant is an ALLOW ACL in effect at the end of the log. Each recorded question is decided again by these ACLs
(what_if.access); every ACL that allows it counts as used, because Kafka names only one of them. What an exact
grant allows too is no use of a wide one.
"""

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.least_privilege.commands import acl_command
from spark_audit.least_privilege.narrowing import (
    MOST_NAMES,
    NO_NETWORKS,
    PrefixLengths,
    Use,
    is_exact,
    narrower,
)
from spark_audit.proposal import CLUSTER_NAME, GROUP, ProposedAcl, moment_text
from spark_audit.what_if.access import NOW
from spark_audit.what_if.proposed_log import NO_ENDS
from spark_audit.what_if.traffic import FIRST_MS, LAST_MS, REQUESTS

UNUSED, COVERED, WIDE = "unused-grant", "covered-grant", "wide-grant"
MOST_USES = 1_000
"""A grant with more different uses is not narrowed."""
Plain = dict[str, object]
_USE = (S.PRINCIPAL, S.HOST, S.OPERATION, S.RESOURCE_TYPE, S.RESOURCE_NAME)


def uses(decided: DataFrame) -> dict[str, list[Use]]:
    """Return the uses of each ACL by id, at most MOST_USES + 1 of each. `decided` is of what_if.access."""
    acls = F.col(f"{NOW}.acls")
    allowed = decided.where(F.col(f"{NOW}.granted") & (F.size(acls) > 0)).withColumn("acls", acls)
    summed = allowed.groupBy("acls", *_USE).agg(
        F.sum(REQUESTS).cast("long").alias(REQUESTS),
        F.min(FIRST_MS).alias(FIRST_MS),
        F.max(LAST_MS).alias(LAST_MS),
    )
    each = summed.withColumn(S.ACL_ID, F.explode("acls"))
    rank = F.row_number().over(Window.partitionBy(S.ACL_ID).orderBy(F.col(REQUESTS).desc(), *_USE))
    found: dict[str, list[Use]] = {}
    for row in each.withColumn("rank", rank).where(F.col("rank") <= MOST_USES + 1).collect():
        name = row[S.RESOURCE_NAME] or CLUSTER_NAME
        measures = row[REQUESTS], row[FIRST_MS], row[LAST_MS], tuple(row["acls"])
        use = Use(row[S.PRINCIPAL], row[S.HOST], row[S.OPERATION], name, *measures)
        found.setdefault(row[S.ACL_ID], []).append(use)
    return found


def grant_rows(
    acls: Mapping[str, ProposedAcl],
    used: Mapping[str, Sequence[Use]],
    ends: Mapping[str, int] = NO_ENDS,
    *,
    narrows_hosts: bool = False,
    networks: PrefixLengths = NO_NETWORKS,
) -> list[Plain]:
    """Return one row for each grant that could be narrowed or removed.

    `ends`: when a grant ends, by its id; what is narrower ends then too.
    """
    exact = {acl_id for acl_id, acl in acls.items() if is_exact(acl)}
    # What has an end may be gone tomorrow.
    of_groups = {
        acl_id: str(acl) for acl_id, acl in acls.items() if _is_of_a_group(acl) and acl_id not in ends
    }
    rows = []
    for acl_id, acl in sorted(acls.items(), key=lambda item: (item[1].principal, str(item[1]), item[0])):
        of_grant = used.get(acl_id, ())
        if acl.permission_type != "ALLOW":
            continue
        if not of_grant:
            rows.append(_row(UNUSED, acl_id, acl, (), [], [], ends.get(acl_id)))
            continue
        if covering := [] if _is_of_a_group(acl) else _covering(of_grant, of_groups):
            row = _row(COVERED, acl_id, acl, of_grant, [], [], ends.get(acl_id))
            rows.append(row | {"covered_by": covering})
            continue
        needed = of_grant if acl_id in exact else [use for use in of_grant if exact.isdisjoint(use.acls)]
        ways, instead = narrower(acl, needed, narrows_hosts=narrows_hosts, networks=networks)
        if len(of_grant) > MOST_USES:
            ways, instead = [], [acl]
        if instead != [acl]:
            rows.append(_row(WIDE, acl_id, acl, of_grant, ways, instead, ends.get(acl_id)))
    return rows


def _is_of_a_group(acl: ProposedAcl) -> bool:
    return acl.permission_type == "ALLOW" and acl.principal.startswith(GROUP)


def _covering(used: Sequence[Use], of_groups: Mapping[str, str]) -> list[str]:
    """Return the groups' grants that have allowed each of these uses too; none if one use had no such."""
    each = [of_groups.keys() & use.acls for use in used]
    if len(used) > MOST_USES or not all(each):
        return []
    return sorted({of_groups[acl_id] for acls in each for acl_id in acls})


def _row(
    kind: str,
    acl_id: str,
    acl: ProposedAcl,
    used: Iterable[Use],
    ways: list[str],
    instead: Sequence[ProposedAcl],
    until_ms: int | None,
) -> Plain:
    used = list(used)
    moments = [moment for use in used for moment in (use.first_ms, use.last_ms) if moment is not None]
    additions = [acl_command("add", each, until_ms) for each in instead]
    return {
        "kind": kind,
        "subject": str(acl),
        "principal": acl.principal,
        S.ACL_ID: acl_id,
        "until": None if until_ms is None else moment_text(until_ms),
        "requests": sum(use.requests for use in used),
        "first_ms": min(moments, default=None),
        "last_ms": max(moments, default=None),
        "wider_by": ways,
        "used_for": _few(f"{use.operation} {use.resource_name}" for use in used),
        "used_from": _few(use.host for use in used),
        "narrower": [str(each) for each in instead],
        "commands": [*additions, acl_command("remove", acl)],
    }


def _few(texts: Iterable[str]) -> list[str]:
    return sorted(set(texts))[:MOST_NAMES]
