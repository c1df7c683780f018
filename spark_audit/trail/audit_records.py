"""Table `audit`: which sequences of each boot are in it, and each record once.

The index has one row per stretch of at most 64 sequences. It is built from every copy of every record; the
checks for gaps then read only the parts of the table where the index is not as it has to be. It is one pass
over a few columns and moves no record. A stretch holds the records of one boot in one partition that have the
same distance between offset and sequence, with one bit per sequence: no missing or repeated sequence goes
unnoticed, and within a stretch offsets rise as sequences do.

Kafka may hold a record twice. `deduplicate` reads the index too. If two copies of a record differ, this
module cannot know which one is true; that they differ is a finding (reconcile/gaps.py).
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.tables.expired import expired_sequences, unexpired
from spark_audit.tables.plans import held, held_if_small, is_held

SPAN, PRESENT, RECORDS, FIRST, LAST, BEFORE = "span", "present", "records", "first", "last", "before"
FIRST_DATE, LAST_DATE, DAYS = "first_date", "last_date", "days"
FIRST_LINKED, LAST_UNLINKED = "first_linked", "last_unlinked"
SPAN_BITS = 6
"""Sequences 0 to 63 are span 0, the next 64 are span 1: as many as a long has bits."""

SILENCE_MS = 300_000
"""A process that has written nothing for this long, not even a high-water record, counts as gone."""
TRAIL_LATE_MS = 10_000
"""The time that a record may take to arrive in the trail."""
ALWAYS = 2**62
"""A moment later than all others."""
SHIFT, MOST_AHEAD_MS = "shift", "most_ahead_ms"
_SPAN = (*S.BOOT_KEY, SPAN)


def sequence_index(audit: DataFrame, *, by_day: bool = False) -> DataFrame:
    """Return one row per stretch: BOOT_KEY, PARTITION, shift, span; bits, bounds, times, days.

    `first_linked` and `last_unlinked` are offsets of records with, and without, a link of the hash chain.
    With `by_day`, a stretch of two days is two rows.
    """
    # A forged record may have any offset and sequence: the difference is null if it overflows a long.
    shift = F.try_subtract(S.KAFKA_OFFSET, S.SEQUENCE).alias(SHIFT)
    day = [S.DATE] if by_day else []
    stretches = audit.groupBy(*S.BOOT_KEY, *S.PARTITION, shift, span_of_sequence().alias(SPAN), *day)
    lowest = (F.min(value).alias(name) for name, value in _lowest().items())
    highest = (F.max(value).alias(name) for name, value in _highest().items())
    return stretches.agg(*_present(), *lowest, *highest).drop(*day)


def _lowest() -> dict[str, Column]:
    """Return columns of the index, and of which column of its records each is the lowest value."""
    is_linked = F.col(S.CHAIN).isNotNull()
    return {
        FIRST: F.col(S.SEQUENCE),
        "first_offset": F.col(S.KAFKA_OFFSET),
        "first_time_ms": F.col(S.TIME_MS),
        "first_append_ms": F.unix_millis(S.KAFKA_TIMESTAMP),
        FIRST_LINKED: F.when(is_linked, F.col(S.KAFKA_OFFSET)),
        "stopped_at": F.when(F.col(S.EVENT) == "stopped", F.col(S.SEQUENCE)),
    }


def _highest() -> dict[str, Column]:
    is_linked, append_ms = F.col(S.CHAIN).isNotNull(), F.unix_millis(S.KAFKA_TIMESTAMP)
    return {
        LAST: F.col(S.SEQUENCE),
        "last_offset": F.col(S.KAFKA_OFFSET),
        "last_time_ms": F.col(S.TIME_MS),
        "last_append_ms": append_ms,
        MOST_AHEAD_MS: F.try_subtract(S.TIME_MS, append_ms),
        LAST_UNLINKED: F.when(~is_linked, F.col(S.KAFKA_OFFSET)),
        S.RECORD_SCHEMA_VERSION: F.col(S.RECORD_SCHEMA_VERSION),
        "last_generation": F.col(S.SETTINGS_GENERATION),
    }


def index_of_days(by_day: DataFrame) -> DataFrame:
    """Return the index of rows `by_day`, as `sequence_index` makes it of all their records at once."""
    lowest, highest = (FIRST_DATE, *_lowest()), (LAST_DATE, *_highest())
    return by_day.groupBy(*S.BOOT_KEY, *S.PARTITION, SHIFT, SPAN).agg(
        F.bit_or(PRESENT).alias(PRESENT),
        F.sum(RECORDS).alias(RECORDS),
        *(F.min(name).alias(name) for name in lowest),
        *(F.max(name).alias(name) for name in highest),
    )


def _present() -> tuple[Column, ...]:
    bit = F.expr(f"shiftleft(1L, cast({S.SEQUENCE} & {(1 << SPAN_BITS) - 1} as int))")
    bounds = F.min(S.DATE).alias(FIRST_DATE), F.max(S.DATE).alias(LAST_DATE)
    return (F.bit_or(bit).alias(PRESENT), F.count(F.lit(1)).alias(RECORDS), *bounds)


def span_of_sequence() -> Column:
    return F.shiftright(S.SEQUENCE, SPAN_BITS)


def boots(index: DataFrame) -> DataFrame:
    """Return one row per boot: last_sequence, days, times, stopped_at, offsets.

    `first_offset` is that of its first record, `last_offset` that of the first copy of its last record;
    `first_append_ms` and `last_append_ms` are when the topic got them.
    """
    last_copy = F.struct(-F.col(LAST), F.col("last_offset"))
    return index.groupBy(*S.BOOT_KEY).agg(
        F.max(LAST).alias("last_sequence"),
        each_day(*OF_STRETCH).alias(DAYS),
        F.min("first_time_ms").alias("first_time_ms"),
        F.max("last_time_ms").alias("last_time_ms"),
        F.min("first_append_ms").alias("first_append_ms"),
        F.min("stopped_at").alias("stopped_at"),
        F.min("first_offset").alias("first_offset"),
        F.min_by("last_offset", last_copy).alias("last_offset"),
        F.min_by("last_append_ms", last_copy).alias("last_append_ms"),
        F.min(S.KAFKA_PARTITION).alias("first_partition"),
        F.max(S.KAFKA_PARTITION).alias("last_partition"),
    )


def each_day(*columns: str) -> Column:
    """Aggregate to `date`: all days of a group, which are in `columns`, for `findings`.

    A run that judges one day drops what shows on others. A new record makes its own day be judged, and who
    writes it chooses whether it is the first one of its group, or the last.
    """
    return F.array_distinct(F.array_compact(F.flatten(F.collect_set(F.array(*columns))))).alias(S.DATE)


OF_STRETCH = FIRST_DATE, LAST_DATE
"""The days on which a stretch begins and ends."""


def complete_until_ms(index: DataFrame) -> int:
    """Return the moment up to which the trail is complete: ALWAYS, unless a process is still running.

    The log is read after the trail, and each process ships its records by itself. So the log may hold a
    change that was made meanwhile, while the trail does not hold its audit record yet.
    """
    # By the broker's clock where it has one of its own: one process may be ahead of all others.
    seen = F.least("last_time_ms", "last_append_ms").alias("seen_ms")
    last = F.struct(seen, F.col("stopped_at").isNull().alias("runs"))
    newest = boots(index).groupBy(S.PROXY_ID).agg(F.max(last).alias("last")).select("last.*")
    running = F.max(F.when(F.col("runs"), F.col("seen_ms"))).alias("running")
    row = newest.agg(F.max("seen_ms").alias("end"), running).first()
    if row is None or row["running"] is None or row["end"] - row["running"] > SILENCE_MS:
        return ALWAYS
    return int(row["end"]) - TRAIL_LATE_MS


def first_open_day(index: DataFrame) -> date | None:
    """Return the first day of which the trail may not show yet how it ended, None if no process runs.

    A process is known to be gone when others have written for SILENCE_MS after it.
    """
    until_ms = complete_until_ms(index)
    if until_ms == ALWAYS:
        return None
    return datetime.fromtimestamp((until_ms + TRAIL_LATE_MS - SILENCE_MS) / 1000, UTC).date()


def days_to_judge_with(by_day: DataFrame, days: Sequence[str]) -> list[str]:
    """Return `days` (YYYY-MM-DD) and the days beside them in a boot that was taken for gone meanwhile.

    What comes of a boot more than SILENCE_MS after what it wrote the day before, or comes before it, may
    show that the other day was judged by too little. The topic's clock decides. `by_day`: an index of days.
    """
    append_ms = F.min("first_append_ms").alias("first_append_ms"), F.max("last_append_ms").alias("last_ms")
    of_days = by_day.groupBy(*S.BOOT_KEY, F.col(FIRST_DATE).alias(S.DATE)).agg(*append_ms)
    in_boot = Window.partitionBy(*S.BOOT_KEY).orderBy(S.DATE)
    pause_ms = F.try_subtract("first_append_ms", F.lag("last_ms").over(in_boot))
    pairs = of_days.select(S.DATE, F.lag(S.DATE).over(in_boot).alias(BEFORE), pause_ms.alias("pause_ms"))
    apart = F.col(BEFORE).isNotNull() & ~F.col("pause_ms").between(-TRAIL_LATE_MS, SILENCE_MS)
    named = (F.col(day).cast("string").isin(*days) for day in (S.DATE, BEFORE))
    beside = pairs.where(apart & reduce(or_, named)).select(S.DATE, BEFORE).distinct().collect()
    return sorted({*days, *(str(day) for pair in beside for day in pair)})


def repeated_spans(index: DataFrame) -> DataFrame:
    """Return (proxy_id, boot_id, span, dates) of spans with more records than different sequences."""
    spans = index.groupBy(*_SPAN).agg(
        F.bit_or(PRESENT).alias(PRESENT), F.sum(RECORDS).alias(RECORDS), *_dates()
    )
    return spans.where(F.col(RECORDS) > F.bit_count(PRESENT)).select(*_SPAN, FIRST_DATE, LAST_DATE)


def _dates() -> tuple[Column, Column]:
    return F.min(FIRST_DATE).alias(FIRST_DATE), F.max(LAST_DATE).alias(LAST_DATE)


def spans_with_holes(index: DataFrame) -> DataFrame:
    """Return (proxy_id, boot_id, span, dates, before) where a sequence is missing, in the span or before it.

    `before` is the last sequence of the same boot before the span, -1 for its first span.
    """
    spans = index.groupBy(*_SPAN).agg(
        F.bit_or(PRESENT).alias(PRESENT), F.min(FIRST).alias(FIRST), F.max(LAST).alias(LAST), *_dates()
    )
    of_boot = Window.partitionBy(*S.BOOT_KEY).orderBy(SPAN)
    placed = spans.withColumn(BEFORE, F.coalesce(F.lag(LAST).over(of_boot), F.lit(-1)))
    inside = F.col(LAST) - F.col(FIRST) + 1 > F.bit_count(PRESENT)
    return placed.where(inside | (F.col(FIRST) > F.col(BEFORE) + 1)).select(
        *_SPAN, FIRST_DATE, LAST_DATE, BEFORE
    )


def missing_sequences(audit: DataFrame, index: DataFrame, expired: DataFrame | None) -> DataFrame:
    """Return the record after each run of missing sequences, with `first_missing` and `last_missing`.

    `expired` is table `expired`: the records that were deleted on purpose.
    """
    near = rows_of(audit, spans_with_holes(index)).withColumn(SPAN, span_of_sequence())
    of_span = Window.partitionBy(*_SPAN).orderBy(S.SEQUENCE, *_PLACE)
    placed = near.withColumn("previous", F.coalesce(F.lag(S.SEQUENCE).over(of_span), BEFORE))
    missing = placed.where(F.col(S.SEQUENCE) > F.col("previous") + 1).withColumns(
        {"first_missing": F.col("previous") + 1, "last_missing": F.col(S.SEQUENCE) - 1}
    )
    if expired is None:
        return missing
    ranges = expired_sequences(expired)
    return unexpired(missing, ranges, S.BOOT_KEY, "first_missing", "last_missing")


def disordered_boots(index: DataFrame) -> DataFrame:
    """Return (proxy_id, boot_id) of boots with a record before one of a lower sequence in one partition."""
    in_order = Window.partitionBy(*S.BOOT_KEY, S.KAFKA_PARTITION).orderBy(FIRST, "first_offset")
    later = (F.col(FIRST) > F.lag(LAST).over(in_order)) & (
        F.col("first_offset") > F.lag("last_offset").over(in_order)
    )
    unsure = F.col(SHIFT).isNull() & (F.col(RECORDS) > 1)
    placed = index.withColumn("disordered", ~F.coalesce(later, F.lit(True)) | unsure)
    return placed.where("disordered").select(*S.BOOT_KEY).distinct()


def disordered_times(index: DataFrame, most_ms: int) -> DataFrame:
    """Return (proxy_id, boot_id) of boots with a record that may be this much earlier than the last."""
    in_order = Window.partitionBy(*S.BOOT_KEY).orderBy(FIRST, "first_offset")
    latest = F.max("last_time_ms").over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    return (
        index.withColumn("back_ms", latest - F.col("first_time_ms"))
        .where(F.col("back_ms") > most_ms)
        .select(*S.BOOT_KEY)
        .distinct()
    )


_PLACE = (S.KAFKA_PARTITION, S.KAFKA_OFFSET)
_OF_COPY = {name: f"copy_{name}" for name in (*S.RECORD_KEY, *_PLACE)}


def deduplicate(audit: DataFrame, copies: DataFrame | None = None) -> DataFrame:
    """Return the first copy in Kafka of each record.

    Run a job to find the later copies, which are few. A trail without any, which is the rule, is returned
    as it is. Pass `copies` if `later_copies(audit, sequence_index(audit))` is already known. Without it, the
    columns of the index that no copy needs may be absent.
    """
    spans = audit.groupBy(*S.BOOT_KEY, span_of_sequence().alias(SPAN)).agg(*_present())
    later = held(later_copies(audit, spans)) if copies is None else copies
    if later.isEmpty():
        return audit
    renamed = later.select(*(F.col(name).alias(copy) for name, copy in _OF_COPY.items()))
    # The join key is the offset alone, a number that is fast to look up. Spark makes a join key of every
    # equality, so the rest of the key is compared with two inequalities, and only where the offset is equal.
    same = F.col(S.KAFKA_OFFSET) == F.col(_OF_COPY[S.KAFKA_OFFSET])
    for name in (*S.RECORD_KEY, S.KAFKA_PARTITION):
        same = same & F.col(name).between(F.col(_OF_COPY[name]), F.col(_OF_COPY[name]))
    return held_if_small(audit.join(F.broadcast(renamed), same, "left_anti"))


def of_partition(known: Mapping[str, int] | Mapping[int, int], absent: int) -> Column:
    """Return the number that is known for the partition of a row, or `absent`."""
    numbers = F.from_json(F.lit(json.dumps(dict(known))), "map<string, long>")
    return F.coalesce(numbers[F.col(S.KAFKA_PARTITION).cast("string")], F.lit(absent))


def number_of(index: DataFrame, copies: DataFrame) -> int:
    """Return the number of records, each counted once. `copies` is `later_copies`."""
    row = index.agg(F.sum(RECORDS)).first()
    return int((row and row[0]) or 0) - copies.count()


def later_copies(audit: DataFrame, index: DataFrame) -> DataFrame:
    """Return proxy_id, boot_id, sequence, kafka_partition, kafka_offset of every copy but the first."""
    near = rows_of(audit.select(*S.RECORD_KEY, *_PLACE), repeated_spans(index))
    first = F.min(F.struct(*_PLACE)).over(Window.partitionBy(*S.RECORD_KEY))
    return near.withColumn("first", first).where(F.struct(*_PLACE) > F.col("first")).drop("first")


def rows_of(audit: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the rows of some spans, with the other columns of `spans`. Read only the days that have them."""
    wanted = held(spans)
    # It is computed here, and Spark sees how small it is: then it does not shuffle the table.
    named = _of_dates(audit, wanted).withColumn(SPAN, span_of_sequence())
    return named.join(wanted.drop(FIRST_DATE, LAST_DATE), [*S.BOOT_KEY, SPAN]).drop(SPAN)


def spans_of(stretches: DataFrame) -> DataFrame:
    """Return (proxy_id, boot_id, span, dates) of some stretches of the index."""
    return stretches.groupBy(*_SPAN).agg(*_dates())


def near_places(records: DataFrame, index: DataFrame, places: DataFrame) -> DataFrame:
    """Return the records of the days that have `places` (boot_id, sequence), and maybe others.

    All records of a small trail: to find the days would cost more.
    """
    if is_held(records):
        return records
    spans = F.broadcast(places.select(S.BOOT_ID, span_of_sequence().alias(SPAN)).distinct())
    return _of_dates(records, index.join(spans, [S.BOOT_ID, SPAN], "left_semi"))


def _of_dates(records: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the records of the days of these spans: Spark reads no file of another day."""
    merged = list[tuple[date, date]]()
    dates = spans.select(FIRST_DATE, LAST_DATE).distinct().collect()
    for first, last in sorted(tuple(row) for row in dates if row[FIRST_DATE] is not None):
        if merged and (first - merged[-1][1]).days <= 1:
            first, last = merged[-1][0], max(last, merged.pop()[1])
        merged.append((first, last))
    if not dates:
        return records.limit(0)
    # Delta's log may be edited so that rows have no day.
    no_day = F.col(S.DATE).isNull()
    return records.where(reduce(or_, (F.col(S.DATE).between(*each) for each in merged), no_day))
