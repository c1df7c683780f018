"""Whether the trail holds the settings that records name, and what processes saw of their topics' settings.

A process numbers its settings from 1.

Takes the sequence index, for the highest number that any record of a process names, and the records that
hold settings. decisions.py reports decisions by settings that were not recorded.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import fault, findings, register, sample, sentence, with_first_fault

register(
    """
settings: Each process has recorded the settings by which it decides.
settings.missing (high): A process did not record settings that it used.
    Check whether its records are missing; if not, replace the process.
settings.repeated (high): A process recorded settings twice under one number.
    Treat its decisions by these settings as doubtful.
settings.own_topic (high): A topic of Penstock's was changed, or deleted and created again, as processes saw.
    Find out who did it; until it was set right, times and records of the topic are not to be trusted.
"""
)

CHANGES = (
    "a setting has been changed",
    "settings had been removed",
    "it was deleted and created again",
)
"""How the message of an `own_topic` record of such a change begins (proxy.net.kafka.own_topic_watch)."""

_NAMED, _RECORDED, _RECORDS, _HIGHEST = "named", "told", "records", "highest"


def known_settings(index: DataFrame, records: DataFrame) -> DataFrame:
    """Return one finding per boot that names settings it has not recorded, or has recorded some twice."""
    named = (
        index.groupBy(*S.BOOT_KEY)
        .agg(F.max("last_generation").alias(_NAMED), F.max("last_date").alias(S.DATE))
        .where(F.col(_NAMED) > 0)
    )
    recorded = (
        records.where(F.col(S.EVENT) == "settings_changed")
        .groupBy(*S.BOOT_KEY)
        .agg(
            F.count(F.lit(1)).alias(_RECORDS),
            F.count_distinct(S.SETTINGS_GENERATION).alias(_RECORDED),
            F.max(S.SETTINGS_GENERATION).alias(_HIGHEST),
        )
    )
    joined = named.join(F.broadcast(recorded), list(S.BOOT_KEY), "left")
    complete = joined.na.fill(0, [_RECORDS, _RECORDED, _HIGHEST])
    return findings(
        with_first_fault(complete, _faults()),
        evidence=[*S.BOOT_KEY, _NAMED, _RECORDED, _RECORDS, _HIGHEST],
    )


def own_topics(records: DataFrame) -> DataFrame:
    """Return one finding per topic, day and change that processes have seen."""
    seen = records.where((F.col(S.EVENT) == "own_topic") & F.col(S.MESSAGE).rlike(f"^({'|'.join(CHANGES)})"))
    by_change = seen.groupBy(S.RESOURCE_NAME, S.MESSAGE, S.DATE).agg(
        sample(F.concat_ws("/", *S.BOOT_KEY)).alias("processes")
    )
    return findings(
        by_change,
        check="settings.own_topic",
        explanation=sentence(
            "topic {resource_name}: {message}, as seen by {processes}",
            processes=F.array_join("processes", ", "),
        ),
        evidence=[S.RESOURCE_NAME, S.MESSAGE, S.DATE],
    )


def _faults() -> list[Column]:
    recorded = F.col(_RECORDED)
    return [
        fault(
            (recorded < F.col(_NAMED)) | (recorded < F.col(_HIGHEST)),
            "settings.missing",
            sentence(
                "process {proxy_id}/{boot_id} names settings up to number {newest}, but has recorded {told}"
                " of them",
                newest=F.greatest(_NAMED, _HIGHEST),
            ),
        ),
        fault(
            F.col(_RECORDS) > recorded,
            "settings.repeated",
            sentence("process {proxy_id}/{boot_id} has recorded {told} settings in {records} records"),
        ),
    ]
