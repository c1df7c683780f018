"""Principals without any grant that try, and SCRAM users that do not log in."""

from collections.abc import Collection, Iterable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.least_privilege.commands import user_command
from spark_audit.least_privilege.grants import Plain
from spark_audit.least_privilege.narrowing import MOST_NAMES
from spark_audit.what_if.access import NOW, REASON
from spark_audit.what_if.recorded import RecordedDays
from spark_audit.what_if.traffic import FIRST_MS, LAST_MS, REQUESTS

NO_GRANT, NO_LOGIN = "no-grant", "no-login"
_CREDENTIAL = "name STRING, mechanism STRING"


def principals_without_grant(decided: DataFrame, granted: Collection[str]) -> list[Plain]:
    """Return the principals of which no request is allowed now. `granted` are those that an ALLOW names."""
    tried = F.concat_ws(" ", S.OPERATION, S.RESOURCE_TYPE, F.coalesce(S.RESOURCE_NAME, F.lit("(any)")))
    by_principal = decided.where(F.col(S.PRINCIPAL) != "").groupBy(S.PRINCIPAL)
    rows = (
        by_principal.agg(
            F.max(F.coalesce(f"{NOW}.granted", F.lit(False))).alias("granted"),
            F.sum(REQUESTS).cast("long").alias(REQUESTS),
            F.min(FIRST_MS).alias(FIRST_MS),
            F.max(LAST_MS).alias(LAST_MS),
            F.slice(F.sort_array(F.collect_set(tried)), 1, MOST_NAMES).alias("tried"),
            F.max(F.col(REASON).isNotNull()).alias("unsure"),
        )
        .where(~F.col("granted") & (F.col(REQUESTS) > 0))
        .orderBy(S.PRINCIPAL)
        .collect()
    )
    return [
        {
            "kind": NO_GRANT,
            "subject": row[S.PRINCIPAL],
            "principal": row[S.PRINCIPAL],
            "requests": row[REQUESTS],
            "first_ms": row[FIRST_MS],
            "last_ms": row[LAST_MS],
            "used_for": list(row["tried"]),
            "commands": [],
        }
        for row in rows
        if row[S.PRINCIPAL] not in granted
    ]


def scram_users(log: DataFrame) -> dict[str, list[str]]:
    """Return the users at the end of the log with their mechanisms."""
    kinds = (S.USER_SCRAM_CREDENTIAL_RECORD, S.REMOVE_USER_SCRAM_CREDENTIAL_RECORD)
    changes = log.where(F.col(S.API_KEY).isin(*kinds)).withColumn("_", F.from_json(S.BODY, _CREDENTIAL))
    newest = changes.groupBy("_.name", "_.mechanism").agg(F.max_by(S.API_KEY, S.LOG_OFFSET).alias("kind"))
    found: dict[str, list[str]] = {}
    for row in newest.where(F.col("kind") == kinds[0]).orderBy("name", "mechanism").collect():
        found.setdefault(row["name"], []).append(row["mechanism"])
    return found


def seen_principals(of: RecordedDays) -> set[str]:
    """Return the principals of which the period has any record: a login may be older than the period."""
    return {row[0] for row in of.period.select(S.PRINCIPAL).distinct().collect() if row[0]}


def users_without_login(users: Mapping[str, Iterable[str]], seen: Collection[str]) -> list[Plain]:
    return [
        {
            "kind": NO_LOGIN,
            "subject": f"user {name} ({', '.join(mechanisms)})",
            "principal": f"User:{name}",
            "commands": [user_command(name, mechanism) for mechanism in mechanisms],
        }
        for name, mechanisms in users.items()
        if f"User:{name}" not in seen
    ]
