"""The audit table in outline: which sequences of whom lie where, a row for each stretch of 64 at most.

Fed with table `audit`, every copy of every record; feeds copies.py and the search for gaps, which then look
closely only where the outline is not as it has to be. One pass over few columns, and no record is moved: a
stretch is what one process has in one partition at one distance between offset and sequence, a bit for each
sequence, so nothing can hide in it, and inside it offsets rise as sequences do. Knows no lines, no chain.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S

SPAN, THERE, RECORDS, FIRST, LAST, BEFORE = "span", "there", "records", "first", "last", "before"
SPAN_BITS = 6
"""Sequences 0 to 63 are span 0, the next 64 span 1: as many as a long has bits."""

SILENCE_MS = 300_000
"""A process that has written nothing for so long, high-water records included, is taken for gone."""
TRAIL_LATE_MS = 10_000
"""So long it may take until what a process has written is in the trail."""
ALWAYS = 2**62
"""A moment after all others."""
_SHIFT = "shift"
_SPAN = (*S.BOOT_KEY, SPAN)


def survey(audit: DataFrame) -> DataFrame:
    """One row per stretch: proxy_id, boot_id, kafka_partition, shift, span; bits, bounds, days and times."""
    bit = F.expr(f"shiftleft(1L, cast({S.SEQUENCE} & {(1 << SPAN_BITS) - 1} as int))")
    # Offsets and sequences are whatever somebody wrote: a difference too large for a long is none.
    shift = F.try_subtract(S.KAFKA_OFFSET, S.SEQUENCE).alias(_SHIFT)
    return audit.groupBy(*S.BOOT_KEY, S.KAFKA_PARTITION, shift, span_of_sequence().alias(SPAN)).agg(
        F.bit_or(bit).alias(THERE),
        F.count(F.lit(1)).alias(RECORDS),
        F.min(S.SEQUENCE).alias(FIRST),
        F.max(S.SEQUENCE).alias(LAST),
        F.min(S.KAFKA_OFFSET).alias("first_offset"),
        F.max(S.KAFKA_OFFSET).alias("last_offset"),
        F.max(S.DATE).alias("last_date"),
        F.min(S.TIME_MS).alias("first_time_ms"),
        F.max(S.TIME_MS).alias("last_time_ms"),
        F.min(F.when(F.col(S.EVENT) == "stopped", F.col(S.SEQUENCE))).alias("stopped_at"),
        F.max(S.SETTINGS_GENERATION).alias("last_generation"),
    )


def span_of_sequence() -> Column:
    return F.shiftright(S.SEQUENCE, SPAN_BITS)


def processes(stretches: DataFrame) -> DataFrame:
    """One row per boot: last_sequence, last_date, first_time_ms, last_time_ms, stopped_at."""
    return stretches.groupBy(*S.BOOT_KEY).agg(
        F.max(LAST).alias("last_sequence"),
        F.max("last_date").alias("last_date"),
        F.min("first_time_ms").alias("first_time_ms"),
        F.max("last_time_ms").alias("last_time_ms"),
        F.min("stopped_at").alias("stopped_at"),
    )


def judged_until_ms(stretches: DataFrame) -> int:
    """Up to when all that belongs together is there: ALWAYS, unless some process is at work still.

    The log is read after the trail, and each process sends its records by itself: of a change that was
    made while they were read, the log may have the record, and the trail not yet who asked for it.
    """
    last = F.struct("last_time_ms", F.col("stopped_at").isNull().alias("runs"))
    newest = processes(stretches).groupBy(S.PROXY_ID).agg(F.max(last).alias("last")).select("last.*")
    running = F.max(F.when(F.col("runs"), F.col("last_time_ms"))).alias("running")
    row = newest.agg(F.max("last_time_ms").alias("end"), running).first()
    if row is None or row["running"] is None or row["end"] - row["running"] > SILENCE_MS:
        return ALWAYS
    return int(row["end"]) - TRAIL_LATE_MS


def repeating(stretches: DataFrame) -> DataFrame:
    """(proxy_id, boot_id, span) where more records lie than there are different sequences."""
    spans = stretches.groupBy(*_SPAN).agg(F.bit_or(THERE).alias(THERE), F.sum(RECORDS).alias(RECORDS))
    return spans.where(F.col(RECORDS) > F.bit_count(THERE)).select(*_SPAN)


def holed(stretches: DataFrame) -> DataFrame:
    """(proxy_id, boot_id, span, before): a sequence is missing in the span, or from `before` to the span.

    `before` is the last sequence of the same boot before the span; -1 for its first span.
    """
    spans = stretches.groupBy(*_SPAN).agg(
        F.bit_or(THERE).alias(THERE), F.min(FIRST).alias(FIRST), F.max(LAST).alias(LAST)
    )
    of_boot = Window.partitionBy(*S.BOOT_KEY).orderBy(SPAN)
    placed = spans.withColumn(BEFORE, F.coalesce(F.lag(LAST).over(of_boot), F.lit(-1)))
    inside = F.col(LAST) - F.col(FIRST) + 1 > F.bit_count(THERE)
    return placed.where(inside | (F.col(FIRST) > F.col(BEFORE) + 1)).select(*_SPAN, BEFORE)


def disordered(stretches: DataFrame) -> DataFrame:
    """(proxy_id, boot_id) of which some record lies before one with a lower sequence, in one partition."""
    in_order = Window.partitionBy(*S.BOOT_KEY, S.KAFKA_PARTITION).orderBy(FIRST, "first_offset")
    later = (F.col(FIRST) > F.lag(LAST).over(in_order)) & (
        F.col("first_offset") > F.lag("last_offset").over(in_order)
    )
    unsure = F.col(_SHIFT).isNull() & (F.col(RECORDS) > 1)
    placed = stretches.withColumn("disordered", ~F.coalesce(later, F.lit(True)) | unsure)
    return placed.where("disordered").select(*S.BOOT_KEY).distinct()
