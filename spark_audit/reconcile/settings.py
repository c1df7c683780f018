"""Whether the trail holds the settings that records name, and what processes saw of their topics' settings.

A process numbers its settings from 1.

Takes the sequence index, for the highest number that any record of a process names, and the records that
hold settings. decisions.py reports decisions by settings that were not recorded.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import fault, findings, register, sample, sentence, with_first_fault
from spark_audit.trail.audit_records import OF_STRETCH, each_day

register(
    """
settings: Each process has recorded the settings by which it decides.
settings.missing (high): A process did not record settings that it used.
    Check whether its records are missing; if not, replace the process.
settings.repeated (high): A process recorded settings twice under one number.
    Treat its decisions by these settings as doubtful.
settings.own_topic (high): A topic of Penstock's was changed, or deleted and created again, as processes saw.
    Find out who did it; until it was set right, times and records of the topic are not to be trusted.
settings.unfit_topic (high): A topic of Penstock's does not have a setting on which the trail depends.
    Set it. If the topic cannot be altered, acknowledge this: with CreateTime, a record came when its
    writer says, so a key that was stolen can be used after its end, and a boot can be backdated.
"""
)

CHANGES = (
    "a setting has been changed",
    "settings had been removed",
    "it was deleted and created again",
    "it has more than one partition",
)
"""How the message of an `own_topic` record of such a change begins (proxy.net.kafka.own_topic_watch)."""
UNFIT = r"^a setting has (?:been|to be) changed \((\S+ is \S+, and has to be \S+)\)$"
"""That of a setting as a process found it. If it was another one before, there is a record of that, too."""
IN_ORDER = "in order again"
"""That of a topic without a fault after one."""

_NAMED, _RECORDED, _RECORDS, _HIGHEST = "named", "told", "records", "highest"


def known_settings(index: DataFrame, records: DataFrame) -> DataFrame:
    """Return one finding per boot that names settings it has not recorded, or has recorded some twice."""
    named = (
        index.groupBy(*S.BOOT_KEY)
        .agg(F.max("last_generation").alias(_NAMED), each_day(*OF_STRETCH))
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
    """Return one finding per topic, day and change that processes have seen, and per unfit setting.

    One that was set right, and is unfit again, is another finding.
    """
    of_topics = records.where(F.col(S.EVENT) == "own_topic")
    is_unfit = F.col(S.MESSAGE).rlike(UNFIT)
    seen = of_topics.where(F.col(S.MESSAGE).rlike(f"^({'|'.join(CHANGES)})") & ~is_unfit)
    by_process = seen.groupBy(S.RESOURCE_NAME, S.MESSAGE, S.DATE, *S.BOOT_KEY)
    by_change = by_process.agg(F.count(F.lit(1)).alias("times")).groupBy(S.RESOURCE_NAME, S.MESSAGE, S.DATE)
    changed = findings(
        by_change.agg(
            sample(F.concat_ws("/", *S.BOOT_KEY)).alias("processes"), F.max("times").alias("times")
        ),
        check="settings.own_topic",
        explanation=sentence(
            "topic {resource_name}: {message}, as seen by {processes}",
            processes=F.array_join("processes", ", "),
        ),
        # If it is changed once more, that is another finding, not yet acknowledged.
        evidence=[S.RESOURCE_NAME, S.MESSAGE, S.DATE, "times"],
    )
    before = Window.partitionBy(S.RESOURCE_NAME).orderBy(S.TIME_MS, *S.RECORD_KEY)
    # Null until it was set right once, so that it is not in the evidence.
    again = F.nullif(F.count_if(F.col(S.MESSAGE) == IN_ORDER).over(before), F.lit(0))
    unfit = of_topics.withColumn("again", again).where(is_unfit)
    unfit = unfit.withColumn("setting", F.regexp_extract(S.MESSAGE, UNFIT, 1))
    by_setting = unfit.groupBy(S.RESOURCE_NAME, "setting", "again").agg(
        F.min(S.DATE).alias(S.DATE), F.min_by(F.concat_ws("/", *S.BOOT_KEY), S.TIME_MS).alias("process")
    )
    return changed.unionByName(
        findings(
            by_setting,
            check="settings.unfit_topic",
            explanation=sentence("topic {resource_name}: {setting}, as process {process} saw it first"),
            evidence=[S.RESOURCE_NAME, "setting", S.DATE, "again"],
        )
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
