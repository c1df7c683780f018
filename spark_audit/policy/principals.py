"""What ACLs, super.users and lists of principals call a session: its principal, and its groups (SPEC A8)."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_audit import schema as S


def no_groups() -> Column:
    """Returns the groups of a session that has none."""
    return F.array().cast("array<string>")


def session_principals() -> Column:
    """Returns an array: `User:alice`, and `Group:payments` for each group. Columns must not be null."""
    of_groups = F.transform(S.GROUPS, lambda name: F.concat(F.lit("Group:"), name))
    return F.concat(F.array(F.col(S.PRINCIPAL)), of_groups)
