"""The settings that records name are in the trail: each process numbers them from 1, and records each once.

Takes the survey of the trail, for the highest number that any record of a process names, and the records of
what processes decide by. What was decided by settings that nobody has recorded is decisions.py's.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, words

_NAMED, _TOLD, _RECORDS, _HIGHEST = "named", "told", "records", "highest"


def known_settings(stretches: DataFrame, records: DataFrame) -> DataFrame:
    """One finding per boot that names settings it has not recorded, or records some twice."""
    named = (
        stretches.groupBy(*S.BOOT_KEY)
        .agg(F.max("last_generation").alias(_NAMED), F.max("last_date").alias(S.DATE))
        .where(F.col(_NAMED) > 0)
    )
    told = (
        records.where(F.col(S.EVENT) == "settings_changed")
        .groupBy(*S.BOOT_KEY)
        .agg(
            F.count(F.lit(1)).alias(_RECORDS),
            F.count_distinct(S.SETTINGS_GENERATION).alias(_TOLD),
            F.max(S.SETTINGS_GENERATION).alias(_HIGHEST),
        )
    )
    joined = named.join(F.broadcast(told), list(S.BOOT_KEY), "left").na.fill(0, [_RECORDS, _TOLD, _HIGHEST])
    faulty = joined.withColumn("fault", F.coalesce(*_faults())).where(F.col("fault").isNotNull())
    return findings(
        faulty,
        check=F.col("fault.check"),
        severity="high",
        date=S.DATE,
        explanation=F.col("fault.explanation"),
        evidence=[*S.BOOT_KEY, _NAMED, _TOLD, _RECORDS, _HIGHEST],
    )


def _faults() -> list[Column]:
    missing = (F.col(_TOLD) < F.col(_NAMED)) | (F.col(_TOLD) < F.col(_HIGHEST))
    return [
        F.when(
            missing,
            _fault(
                "settings.missing",
                words(
                    "process %s/%s names settings up to number %s, and has recorded %s of them",
                    *S.BOOT_KEY,
                    F.greatest(_NAMED, _HIGHEST),
                    _TOLD,
                ),
            ),
        ),
        F.when(
            F.col(_RECORDS) > F.col(_TOLD),
            _fault(
                "settings.repeated",
                words("process %s/%s has recorded %s settings %s times", *S.BOOT_KEY, _TOLD, _RECORDS),
            ),
        ),
    ]


def _fault(check: str, explanation: Column) -> Column:
    return F.struct(F.lit(check).alias("check"), explanation.alias("explanation"))
