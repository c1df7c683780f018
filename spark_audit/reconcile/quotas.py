"""(d) Quotas: what was used against the limit in force, and whether a process held to that limit.

Takes the audit records (each once) and the metadata log, which says what limit governs whom at which
offset. What was used is quota_use.py's affair; here it is what a process told of the limit that it held to.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, words
from spark_audit.reconcile.quota_history import EXPECTED_ID, EXPECTED_LIMIT, MODE
from spark_audit.reconcile.quota_limits import BUCKET, KEYS, governed, with_key
from spark_audit.reconcile.quota_use import exceeded
from spark_audit.trail.processes import named_generation

_CLIENT = (*BUCKET, S.PRINCIPAL, S.CLIENT_ID, S.SETTINGS_GENERATION)


def quotas(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Both checks as one table of findings."""
    return exceeded(records, metadata_log).unionByName(other_limit(records, metadata_log))


def other_limit(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Records whose limit or quota-id is not the one that the log, or the process's own default, says."""
    told = records.where(F.col(S.QUOTA_LIMIT).isNotNull() & F.col(S.METADATA_OFFSET).isNotNull())
    added = (
        with_key(told)
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
        explanation=words(
            "process %s/%s held %s to %s %s of quota-id %s; from offset %s on it has to be %s of quota-id %s",
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
