"""Clocks that are off: what a process says of the time, against the broker and the processes beside it.

Takes the sequence index. A broker stamps records as it appends them (LogAppendTime), so a record that is
later than its stamp was written by a clock that is ahead. A clock is behind if the records of a boot are
older than their stamps, and were appended as slowly as they were made: a spool that was shipped late is
appended at once.

Where stamps are the processes' own or all the same, the processes that wrote beside it in the topic judge a
clock: most of them are right.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, register, sentence
from spark_audit.tables.plans import held
from spark_audit.trail.audit_records import DAYS, OF_STRETCH, each_day

register(
    """
clocks: The clock of each process agrees with the broker's and with those of the other processes.
clocks.skewed (medium): The clock of a process is off.
    Repair time synchronisation (NTP) on its machine; its records have wrong times and days.
"""
)

SKEW_MS = 120_000
"""A clock that is off by less is right: records are in the topic within seconds."""
BLOCK, SAMPLED = 4_096, 128
"""Of so many offsets, the first so many stretches are compared with their neighbours."""
NEAR = 8
"""Neighbours are looked for within so many stretches before and after."""
FEWEST_STRETCHES, FEWEST_NEIGHBOURS = 3, 2
SKEW = "skew_ms"
_BOOT, _MIDDLE_MS, _OFF_MS = "boot", "middle_ms", "off_ms"


def clocks(skewed: DataFrame) -> DataFrame:
    """Return one finding per boot of `skews`."""
    direction = F.when(F.col(SKEW) > 0, "ahead of").otherwise("behind")
    return findings(
        skewed,
        check="clocks.skewed",
        date=DAYS,
        explanation=sentence(
            "the clock of process {proxy_id}/{boot_id} is {minutes} minutes {direction} the broker's and"
            " the other processes' clocks",
            minutes=F.round(F.abs(SKEW) / 60_000).cast("long"),
            direction=direction,
        ),
        # Not by how much, which the next records change.
        evidence=[*S.BOOT_KEY, direction.alias("direction")],
    )


def skews(index: DataFrame) -> DataFrame:
    """Return BOOT_KEY, skew_ms and DAYS of the boots whose clock is off; positive if it is ahead."""
    of_boots = index.groupBy(*S.BOOT_KEY).agg(
        each_day(*OF_STRETCH).alias(DAYS),
        (F.max("last_time_ms") - F.min("first_time_ms")).alias("made_ms"),
        (F.max("last_append_ms") - F.min("first_append_ms")).alias("appended_ms"),
        F.percentile_approx(F.col("last_time_ms") - F.col("last_append_ms"), 0.5).alias("ahead_ms"),
    )
    near = held(_near(index))
    stamps = F.broadcast(near.agg(F.coalesce(F.max("goes_back"), F.lit(False)).alias("are_own")))
    by_neighbours = (
        near.where(F.size("others") >= FEWEST_NEIGHBOURS)
        .groupBy(*S.BOOT_KEY)
        .agg(
            F.count(F.lit(1)).alias("stretches"),
            F.percentile_approx(F.col(_MIDDLE_MS) - _middle(F.col("others")), 0.5).alias(_OFF_MS),
        )
    )
    judged = of_boots.join(by_neighbours, list(S.BOOT_KEY), "left").crossJoin(stamps)
    usable = (F.col("made_ms") > 0) & (F.col("appended_ms") * 2 >= F.col("made_ms"))
    skew = (
        F.when(usable & (F.abs("ahead_ms") > SKEW_MS), F.col("ahead_ms"))
        .when(usable & ~F.col("are_own"), 0)
        .when((F.col("stretches") >= FEWEST_STRETCHES) & (F.abs(_OFF_MS) > SKEW_MS), F.col(_OFF_MS))
    )
    return judged.withColumn(SKEW, skew).where(F.col(SKEW) != 0).select(*S.BOOT_KEY, SKEW, DAYS)


def _near(index: DataFrame) -> DataFrame:
    """Return stretches with the times of the processes `others` around them, and whether stamps go back."""
    block = F.floor(F.col("first_offset") / BLOCK)
    in_order = Window.partitionBy(S.KAFKA_PARTITION, block).orderBy("first_offset", *S.BOOT_KEY)
    around = in_order.rowsBetween(-NEAR, NEAR)
    middle = ((F.col("first_time_ms") + F.col("last_time_ms")) / 2).cast("long")
    stretches = index.withColumns(
        {_BOOT: F.concat_ws("/", *S.BOOT_KEY), _MIDDLE_MS: middle, "place": F.row_number().over(in_order)}
    )
    sampled = stretches.where(F.col("place") <= SAMPLED)
    all_near = F.collect_list(F.struct(_BOOT, _MIDDLE_MS, "place")).over(around)
    goes_back = F.col("first_append_ms") < F.lag("last_append_ms").over(in_order) - SKEW_MS
    placed = sampled.withColumns({"near": all_near, "goes_back": goes_back})
    before, after = (
        F.transform(F.filter("near", side), lambda each: each[_BOOT])
        for side in (
            lambda each: each["place"] < F.col("place"),
            lambda each: each["place"] > F.col("place"),
        )
    )
    # On one side only, they may have written long before or after.
    both = F.array_remove(F.array_intersect(before, after), F.col(_BOOT))
    times = F.transform(
        "names",
        lambda name: _middle(
            F.transform(F.filter("near", lambda each: each[_BOOT] == name), lambda each: each[_MIDDLE_MS])
        ),
    )
    named = placed.withColumn("names", both)
    return named.select(*S.BOOT_KEY, _MIDDLE_MS, "goes_back", times.alias("others"))


def _middle(times: Column) -> Column:
    """Return the median of an array."""
    ordered = F.array_sort(times)
    low = F.get(ordered, F.floor((F.size(ordered) - 1) / 2).cast("int"))
    return ((low + F.get(ordered, F.floor(F.size(ordered) / 2).cast("int"))) / 2).cast("long")
