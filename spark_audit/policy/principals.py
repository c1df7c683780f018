"""What ACLs, super.users and lists of principals call a session: its principal, and its groups (SPEC A8)."""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.trail.processes import SUPER_USERS

GROUP = "Group:"


def no_groups() -> Column:
    """Return the groups of a session that has none."""
    return F.array().cast("array<string>")


def recorded_groups() -> Column:
    """Return the groups as records have them: null for none."""
    return F.when(F.size(S.GROUPS) > 0, F.col(S.GROUPS)).alias(S.GROUPS)


def session_principals() -> Column:
    """Return an array: `User:alice`, and `Group:payments` for each group. Columns must not be null."""
    of_groups = F.transform(S.GROUPS, lambda name: F.concat(F.lit(GROUP), name))
    return F.concat(F.array(F.col(S.PRINCIPAL)), of_groups)


def named_groups(metadata_log: DataFrame, settings: DataFrame) -> set[str]:
    """Return the groups that an ACL or a super user has ever named: no other one decides."""
    principal = F.get_json_object(S.BODY, f"$.{S.PRINCIPAL}").alias(S.PRINCIPAL)
    of_acls = metadata_log.where(F.col(S.API_KEY) == S.ACCESS_CONTROL_ENTRY_RECORD).select(principal)
    both = of_acls.unionByName(settings.select(F.explode(SUPER_USERS).alias(S.PRINCIPAL)))
    return groups_among(both)


def groups_among(principals: DataFrame) -> set[str]:
    """Return the names of the groups in the column `principal`."""
    found = principals.where(F.col(S.PRINCIPAL).startswith(GROUP)).distinct().collect()
    return {row[0].removeprefix(GROUP) for row in found}


def array_of(names: Iterable[str]) -> Column:
    """Return an array of these texts."""
    return F.array(*map(F.lit, names)).cast("array<string>")
