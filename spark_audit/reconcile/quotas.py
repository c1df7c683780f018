"""(d) Quotas: whether more was used than the limit allows, and whether a process applied the right limit.

Takes the audit records, each once, and the metadata log, which has the limits by offset. This module checks
the limits that records name. quota_use.py checks what was used.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, sentence
from spark_audit.reconcile.quota_limits import (
    BUCKET,
    EXPECTED_ID,
    EXPECTED_LIMIT,
    KEYS,
    MODE,
    governed,
    with_key,
)
from spark_audit.reconcile.quota_use import beyond_share, exceeded
from spark_audit.trail.processes import named_generation

_CLIENT = (*BUCKET, S.PRINCIPAL, S.CLIENT_ID, S.SETTINGS_GENERATION)


def quotas(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Returns the findings of all three checks."""
    used = exceeded(records, metadata_log).unionByName(beyond_share(records, metadata_log))
    return used.unionByName(other_limit(records, metadata_log))


def other_limit(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Returns records with another limit or quota-id than that of the log or of the process's default."""
    named = records.where(F.col(S.QUOTA_LIMIT).isNotNull() & F.col(S.METADATA_OFFSET).isNotNull())
    added = (
        with_key(named)
        .where(F.col(S.QUOTA_KEY).isin(*KEYS))
        .groupBy(*_CLIENT, S.METADATA_OFFSET, S.DATE)
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.min(S.SEQUENCE).alias("first_sequence"),
            F.max(S.SEQUENCE).alias("last_sequence"),
        )
    )
    joined = governed(added, records, metadata_log)
    joined = joined.where(F.col(EXPECTED_LIMIT).isNotNull() | F.col(MODE).isNotNull())
    fits = (F.col(S.QUOTA_LIMIT) == F.col(EXPECTED_LIMIT)) & (F.col(S.QUOTA_ID) == F.col(EXPECTED_ID))
    wrong = joined.where(~F.coalesce(fits, F.lit(False)))
    group = (*_CLIENT, EXPECTED_LIMIT, EXPECTED_ID, S.DATE)
    evident = [named_generation() if name == S.SETTINGS_GENERATION else name for name in group[:-1]]
    grouped = wrong.groupBy(*group).agg(
        F.sum("records").alias("records"),
        F.min(S.METADATA_OFFSET).alias("lowest_offset"),
        F.min("first_sequence").alias("first_sequence"),
        F.max("last_sequence").alias("last_sequence"),
    )
    return findings(
        grouped,
        check="quotas.other_limit",
        severity="high",
        date=S.DATE,
        explanation=sentence(
            "process %s/%s limited %s to %s %s of quota-id %s; from offset %s on it is %s of quota-id %s",
            *S.BOOT_KEY,
            S.PRINCIPAL,
            S.QUOTA_KEY,
            S.QUOTA_LIMIT,
            S.QUOTA_ID,
            "lowest_offset",
            EXPECTED_LIMIT,
            EXPECTED_ID,
        ),
        evidence=[*evident, "records", "lowest_offset", "first_sequence", "last_sequence"],
    )
