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
from spark_audit.trail import AUTHOR, KEY, repeated

BLOCK = 100_000
"""Sequences are searched in blocks, so that one long-lived process is not one task for one core."""
SILENCE_MS = 300_000
"""A process that has written nothing for so long, high-water records included, is taken for gone."""

_READ = (
    *KEY,
    S.DATE,
    S.TIME_MS,
    S.EVENT,
    S.COUNT,
    S.MESSAGE,
    S.SETTINGS,
    S.KAFKA_PARTITION,
    S.KAFKA_OFFSET,
    S.BODY_SHA256,
    S.CHAIN,
)


def gaps(audit: DataFrame, copies: DataFrame | None = None, expired: DataFrame | None = None) -> DataFrame:
    """All of the checks below as one table of findings.

    `copies` is `trail.repeated(audit)`; `expired` table `expired`: up to which sequence nothing is missed.
    """
    narrow = audit.select(*_READ).persist()
    found = _steps(narrow).persist()
    parts = [
        holes(narrow, found, expired),
        different_copies(narrow, repeated(narrow) if copies is None else copies),
        reordered(narrow, found),
        *(check(narrow) for check in (records_after_stop, unfinished, miscounted, dropped)),
    ]
    return reduce(DataFrame.unionByName, parts)


def _steps(audit: DataFrame) -> DataFrame:
    """The records that do not simply follow the one before: what all searches for order need, in one sort."""
    block = F.floor(F.col(S.SEQUENCE) / BLOCK).alias("block")
    numbered = audit.select(*AUTHOR, block, S.SEQUENCE, S.DATE, S.TIME_MS, S.KAFKA_PARTITION, S.KAFKA_OFFSET)
    in_order = Window.partitionBy(*AUTHOR, "block").orderBy(S.SEQUENCE, S.KAFKA_PARTITION, S.KAFKA_OFFSET)
    placed = numbered.withColumns(
        {
            "previous": F.lag(S.SEQUENCE).over(in_order),
            "early": (F.lag(S.KAFKA_PARTITION).over(in_order) == F.col(S.KAFKA_PARTITION))
            & (F.lag(S.KAFKA_OFFSET).over(in_order) > F.col(S.KAFKA_OFFSET)),
        }
    )
    return placed.where((F.col(S.SEQUENCE) - F.col("previous") > 1) | F.col("early"))


def holes(audit: DataFrame, found: DataFrame, expired: DataFrame | None = None) -> DataFrame:
    """One finding per run of missing sequences, the one before the first record included."""
    block = F.floor(F.col(S.SEQUENCE) / BLOCK).alias("block")
    blocks = audit.groupBy(*AUTHOR, block).agg(
        F.max(S.SEQUENCE).alias("last_of_block"),
        F.min_by(F.struct(S.DATE, S.TIME_MS), S.SEQUENCE).alias("first"),
        F.min(S.SEQUENCE).alias(S.SEQUENCE),
    )
    between = Window.partitionBy(*AUTHOR).orderBy("block")
    edges = blocks.withColumn("previous", F.coalesce(F.lag("last_of_block").over(between), F.lit(-1)))
    columns = [*AUTHOR, S.SEQUENCE, "previous", S.DATE, S.TIME_MS]
    pairs = found.select(*columns).unionByName(edges.select("*", "first.*").select(*columns))
    missing = pairs.where(F.col(S.SEQUENCE) - F.col("previous") > 1)
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
            *AUTHOR,
            "first_missing",
            "last_missing",
            S.SEQUENCE,
        ),
        evidence=[*AUTHOR, "first_missing", "last_missing", F.col(S.TIME_MS).alias("next_time_ms")],
    )


def _not_expired(missing: DataFrame, expired: DataFrame | None) -> DataFrame:
    if expired is None:
        return missing
    ends = expired.groupBy(*AUTHOR).agg(F.max("last_sequence").alias("expired_to"))
    told = missing.join(F.broadcast(ends), list(AUTHOR), "left")
    return told.where(F.col("expired_to").isNull() | (F.col("last_missing") > F.col("expired_to")))


def different_copies(audit: DataFrame, copies: DataFrame) -> DataFrame:
    """A record may come twice; it may not come twice and differ."""
    suspicious = audit.join(F.broadcast(copies.select(*KEY)), list(KEY))
    versions = suspicious.groupBy(*KEY).agg(
        F.count_distinct(S.BODY_SHA256).alias("versions"),
        F.min(S.DATE).alias(S.DATE),
        sample(S.KAFKA_OFFSET).alias("kafka_offsets"),
    )
    return findings(
        versions.where("versions > 1"),
        check="gaps.different_copies",
        severity="critical",
        date=S.DATE,
        explanation=words(
            "process %s/%s wrote sequence %s in %s different versions (offsets %s of the audit topic)",
            *KEY,
            "versions",
            F.to_json("kafka_offsets"),
        ),
        evidence=[*KEY, "versions", "kafka_offsets"],
    )


def reordered(audit: DataFrame, found: DataFrame) -> DataFrame:
    """The first copies of a process's records lie in a partition in the order in which they were written.

    Records sent again, after a crash, lie later; so boots with any out of order are looked at once more.
    """
    suspicious = F.broadcast(found.where("early").select(*AUTHOR).distinct())
    first = (
        audit.join(suspicious, list(AUTHOR))
        .groupBy(*KEY, S.KAFKA_PARTITION)
        .agg(F.min(S.KAFKA_OFFSET).alias(S.KAFKA_OFFSET), F.min(S.DATE).alias(S.DATE))
    )
    block = F.floor(F.col(S.SEQUENCE) / BLOCK)
    in_order = Window.partitionBy(*AUTHOR, S.KAFKA_PARTITION, block).orderBy(S.SEQUENCE)
    placed = first.withColumn("offset_before", F.lag(S.KAFKA_OFFSET).over(in_order))
    early = placed.where(F.col("offset_before") > F.col(S.KAFKA_OFFSET))
    by_boot = early.groupBy(*AUTHOR).agg(
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
            *AUTHOR,
            "records",
            F.array_join("sequences", ", "),
        ),
        evidence=[*AUTHOR, "records", "sequences", "kafka_offsets"],
    )


def records_after_stop(audit: DataFrame) -> DataFrame:
    """`stopped` is the last record of its process: what follows was written by someone else."""
    ends = _boots(audit).where(F.col("stopped_at") < F.col("last_sequence"))
    return findings(
        ends,
        check="gaps.after_stop",
        severity="critical",
        date="last_date",
        explanation=words(
            "process %s/%s stopped at sequence %s, yet there are records up to sequence %s",
            *AUTHOR,
            "stopped_at",
            "last_sequence",
        ),
        evidence=[*AUTHOR, "stopped_at", "last_sequence"],
    )


def unfinished(audit: DataFrame) -> DataFrame:
    """No `stopped`, and gone: another boot of the same id has come after, or all others have moved on.

    A crash looks like this, and so does a tail that was cut off. Where the next boot names the last record
    that is there, it was a crash that lost nothing, and no finding; without such a link nobody can tell.
    """
    boots = _boots(audit)
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
            *AUTHOR,
            "last_sequence",
        ),
        evidence=[*AUTHOR, "last_sequence", "last_time_ms", "next_boot"],
    )


def miscounted(audit: DataFrame) -> DataFrame:
    """A high-water record tells how many records there are so far, itself counted or not: no other number."""
    marks = audit.where(F.col(S.EVENT).isin("high_water", "stopped") & F.col(S.COUNT).isNotNull())
    wrong = marks.where(~F.col(S.COUNT).isin(F.col(S.SEQUENCE), F.col(S.SEQUENCE) + 1))
    return findings(
        wrong.dropDuplicates([*KEY, S.COUNT]),
        check="gaps.miscounted",
        severity="critical",
        date=S.DATE,
        explanation=words("process %s/%s says at sequence %s that it has written %s records", *KEY, S.COUNT),
        evidence=[*KEY, S.EVENT, S.COUNT],
    )


def dropped(audit: DataFrame) -> DataFrame:
    """What a process itself says it could not write: its spool was full."""
    told = audit.where(F.col(S.EVENT) == "records_dropped").dropDuplicates(list(KEY))
    return findings(
        told,
        check="gaps.dropped",
        severity="high",
        date=S.DATE,
        explanation=words(
            "process %s/%s says at sequence %s that it lost %s record(s): %s", *KEY, S.COUNT, S.MESSAGE
        ),
        evidence=[*KEY, S.COUNT, S.MESSAGE],
    )


def _boots(audit: DataFrame) -> DataFrame:
    stopped = F.when(F.col(S.EVENT) == "stopped", F.col(S.SEQUENCE))
    return audit.groupBy(*AUTHOR).agg(
        F.max(S.SEQUENCE).alias("last_sequence"),
        F.max(S.DATE).alias("last_date"),
        F.min(S.TIME_MS).alias("first_time_ms"),
        F.max(S.TIME_MS).alias("last_time_ms"),
        F.min(stopped).alias("stopped_at"),
    )
