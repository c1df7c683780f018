"""(a) What is missing from what a process wrote: sequences run from 0 without a hole, up to a `stopped`.

Takes every copy of every record (not only the first): two records of one sequence that differ are a
finding here. Says nothing of what the missing records held.
"""

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.boots import proven_ends
from spark_audit.reconcile.finding import findings, sample, words
from spark_audit.trail.deduplicate import rows_of
from spark_audit.trail.sequence_index import (
    BEFORE,
    SILENCE_MS,
    disordered,
    holed,
    processes,
    repeating,
    span_of_sequence,
    survey,
)

_OF_ITSELF = ("high_water", "stopped", "records_dropped")

_NARROW = (*S.RECORD_KEY, S.DATE, S.TIME_MS, S.KAFKA_PARTITION, S.KAFKA_OFFSET, S.BODY_SHA256)
_SAID = (*S.RECORD_KEY, S.DATE, S.EVENT, S.COUNT, S.MESSAGE)


def gaps(audit: DataFrame, stretches: DataFrame | None = None, expired: DataFrame | None = None) -> DataFrame:
    """All of the checks below as one table of findings.

    `stretches` is `survey(audit)`; `expired` table `expired`: up to which sequence nothing is missed.
    """
    outline = (survey(audit) if stretches is None else stretches).persist()
    ends = processes(outline).persist()
    said = audit.where(F.col(S.EVENT).isin(*_OF_ITSELF)).select(*_SAID).persist()
    narrow = audit.select(*_NARROW)
    parts = [
        holes(narrow, outline, expired),
        different_copies(narrow, outline),
        reordered(narrow, outline),
        records_after_stop(ends),
        unfinished(audit, ends),
        miscounted(said),
        dropped(said),
    ]
    return reduce(DataFrame.unionByName, parts)


def holes(audit: DataFrame, stretches: DataFrame, expired: DataFrame | None = None) -> DataFrame:
    """One finding per run of missing sequences, the one before the first record included."""
    near = rows_of(audit, holed(stretches)).withColumn("span", span_of_sequence())
    of_span = Window.partitionBy(*S.BOOT_KEY, "span").orderBy(S.SEQUENCE, S.KAFKA_PARTITION, S.KAFKA_OFFSET)
    placed = near.withColumn("previous", F.coalesce(F.lag(S.SEQUENCE).over(of_span), BEFORE))
    missing = placed.where(F.col(S.SEQUENCE) > F.col("previous") + 1)
    missing = missing.withColumn("first_missing", F.col("previous") + 1)
    missing = missing.withColumn("last_missing", F.col(S.SEQUENCE) - 1)
    return findings(
        _not_expired(missing, expired),
        check="gaps.hole",
        severity="critical",
        date=S.DATE,
        explanation=words(
            "%s of process %s/%s: records %s to %s are not in the table; the next one, %s, is",
            F.concat(
                (F.col("last_missing") - F.col("first_missing") + 1).cast("string"), F.lit(" record(s)")
            ),
            *S.BOOT_KEY,
            "first_missing",
            "last_missing",
            S.SEQUENCE,
        ),
        evidence=[*S.BOOT_KEY, "first_missing", "last_missing", F.col(S.TIME_MS).alias("next_time_ms")],
    )


def _not_expired(missing: DataFrame, expired: DataFrame | None) -> DataFrame:
    if expired is None:
        return missing
    ends = expired.groupBy(*S.BOOT_KEY).agg(F.max("last_sequence").alias("expired_to"))
    told = missing.join(F.broadcast(ends), list(S.BOOT_KEY), "left")
    return told.where(F.col("expired_to").isNull() | (F.col("last_missing") > F.col("expired_to")))


def different_copies(audit: DataFrame, stretches: DataFrame) -> DataFrame:
    """A record may come twice; it may not come twice and differ."""
    versions = (
        rows_of(audit, repeating(stretches))
        .groupBy(*S.RECORD_KEY)
        .agg(
            F.count_distinct(S.BODY_SHA256).alias("versions"),
            F.min(S.DATE).alias(S.DATE),
            sample(S.KAFKA_OFFSET).alias("kafka_offsets"),
        )
    )
    return findings(
        versions.where("versions > 1"),
        check="gaps.different_copies",
        severity="critical",
        date=S.DATE,
        explanation=words(
            "process %s/%s wrote sequence %s in %s different versions (offsets %s of the audit topic)",
            *S.RECORD_KEY,
            "versions",
            F.to_json("kafka_offsets"),
        ),
        evidence=[*S.RECORD_KEY, "versions", "kafka_offsets"],
    )


def reordered(audit: DataFrame, stretches: DataFrame) -> DataFrame:
    """The first copies of a process's records lie in a partition in the order in which they were written.

    Records sent again, after a crash, lie later; so boots with any out of order are looked at once more.
    """
    suspicious = disordered(stretches).persist()
    near = audit.join(suspicious, list(S.BOOT_KEY)) if suspicious.count() else audit.limit(0)
    first = near.groupBy(*S.RECORD_KEY, S.KAFKA_PARTITION).agg(
        F.min(S.KAFKA_OFFSET).alias(S.KAFKA_OFFSET), F.min(S.DATE).alias(S.DATE)
    )
    in_order = Window.partitionBy(*S.BOOT_KEY, S.KAFKA_PARTITION).orderBy(S.SEQUENCE)
    placed = first.withColumn("offset_before", F.lag(S.KAFKA_OFFSET).over(in_order))
    early = placed.where(F.col("offset_before") > F.col(S.KAFKA_OFFSET))
    by_boot = early.groupBy(*S.BOOT_KEY).agg(
        F.min(S.DATE).alias(S.DATE),
        F.count(F.lit(1)).alias("records"),
        sample(S.SEQUENCE).alias("sequences"),
        sample(S.KAFKA_OFFSET).alias("kafka_offsets"),
    )
    return findings(
        by_boot,
        check="gaps.reordered",
        severity="high",
        date=S.DATE,
        explanation=words(
            "process %s/%s: %s record(s) lie in the topic before one that was written earlier (sequences %s)",
            *S.BOOT_KEY,
            "records",
            F.array_join("sequences", ", "),
        ),
        evidence=[*S.BOOT_KEY, "records", "sequences", "kafka_offsets"],
    )


def records_after_stop(boots: DataFrame) -> DataFrame:
    """`stopped` is the last record of its process: what follows was written by someone else."""
    ends = boots.where(F.col("stopped_at") < F.col("last_sequence"))
    return findings(
        ends,
        check="gaps.after_stop",
        severity="critical",
        date="last_date",
        explanation=words(
            "process %s/%s stopped at sequence %s, yet there are records up to sequence %s",
            *S.BOOT_KEY,
            "stopped_at",
            "last_sequence",
        ),
        evidence=[*S.BOOT_KEY, "stopped_at", "last_sequence"],
    )


def unfinished(audit: DataFrame, boots: DataFrame) -> DataFrame:
    """No `stopped`, and gone: another boot of the same id has come after, or all others have moved on.

    A crash looks like this, and so does a tail that was cut off. Where the next boot names the last record
    that is there, it was a crash that lost nothing, and no finding; without such a link nobody can tell.
    """
    of_one_id = Window.partitionBy(S.PROXY_ID).orderBy("first_time_ms", S.BOOT_ID)
    newest = boots.agg(F.max("last_time_ms").alias("newest_ms"))
    placed = boots.withColumn("next_boot", F.lead(S.BOOT_ID).over(of_one_id)).crossJoin(newest)
    silent = F.col("newest_ms") - F.col("last_time_ms") > SILENCE_MS
    gone = placed.where(F.col("stopped_at").isNull() & (F.col("next_boot").isNotNull() | silent))
    gone = gone.join(F.broadcast(proven_ends(audit)), S.BOOT_ID, "left_anti")
    return findings(
        gone,
        check="gaps.unfinished",
        severity="medium",
        date="last_date",
        explanation=words(
            "process %s/%s ends at sequence %s without `stopped`: it crashed, or its tail is missing",
            *S.BOOT_KEY,
            "last_sequence",
        ),
        # Not its successor, which may come a day later: the fault is the same one then.
        evidence=[*S.BOOT_KEY, "last_sequence", "last_time_ms"],
    )


def miscounted(said: DataFrame) -> DataFrame:
    """A high-water record tells how many records there are so far, itself counted or not: no other number."""
    marks = said.where(F.col(S.EVENT).isin("high_water", "stopped") & F.col(S.COUNT).isNotNull())
    wrong = marks.where(~F.col(S.COUNT).isin(F.col(S.SEQUENCE), F.col(S.SEQUENCE) + 1))
    return findings(
        wrong.dropDuplicates([*S.RECORD_KEY, S.COUNT]),
        check="gaps.miscounted",
        severity="critical",
        date=S.DATE,
        explanation=words(
            "process %s/%s says at sequence %s that it has written %s records", *S.RECORD_KEY, S.COUNT
        ),
        evidence=[*S.RECORD_KEY, S.EVENT, S.COUNT],
    )


def dropped(said: DataFrame) -> DataFrame:
    """What a process itself says it could not write: its spool was full."""
    told = said.where(F.col(S.EVENT) == "records_dropped").dropDuplicates(list(S.RECORD_KEY))
    return findings(
        told,
        check="gaps.dropped",
        severity="high",
        date=S.DATE,
        explanation=words(
            "process %s/%s says at sequence %s that it lost %s record(s): %s",
            *S.RECORD_KEY,
            S.COUNT,
            S.MESSAGE,
        ),
        evidence=[*S.RECORD_KEY, S.COUNT, S.MESSAGE],
    )
