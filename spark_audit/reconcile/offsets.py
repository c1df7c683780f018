"""(h) Places in Kafka: each offset that was read is in the tables once, and times agree with the order.

Takes the tables as they are, and what ingest has read of each topic. The writer of a record chooses its time
and its version, and who can write the tables chooses the columns of its place. But Kafka numbers records
without a gap. So a place that cannot be, or that two records have, is a finding, and an offset without a
record too: no process of Penstock writes the audit topic in transactions, whose markers take offsets. The
metadata topic has such markers, and is compacted.

The offsets of a partition are counted in spans of 64, one bit each: records are neither moved nor sorted.
"""

from collections.abc import Mapping, Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import fault, findings, register, sample, sentence, with_first_fault
from spark_audit.tables.delta import OffsetsRead, frame_of
from spark_audit.tables.expired import expired_offsets, unexpired
from spark_audit.tables.plans import held
from spark_audit.trail.audit_records import (
    FIRST_DATE,
    FIRST_LINKED,
    LAST_UNLINKED,
    MOST_AHEAD_MS,
    PRESENT,
    RECORDS,
    SHIFT,
    SPAN,
    SPAN_BITS,
    disordered_times,
    of_partition,
    rows_of,
    sequence_index,
    spans_of,
)
from spark_audit.trail.metadata_log import of_topic, placed

register(
    """
offsets: Each offset that was read is in the tables once, and times agree with the order of offsets.
chain.unchained (high): Records have no link of the hash chain, although all should have one.
    Find out who wrote them; upgrade the process if it is of an old release.
offsets.impossible (critical): A row of a table has a place that the topic cannot have.
    Find out who can write to the tables.
offsets.impossible_time (medium): A record has a time that does not fit its place in the topic.
    Find out who wrote it; if it is a process of yours, check its clock.
offsets.missing (critical): Offsets before those that were read are in no table.
    Run `verify --bootstrap`. If it finds `topics.removed`, find out who can write to the tables. If not, the
    topic has lost them: compare its retention with the time between two runs of ingest, and look for
    `settings.own_topic`.
offsets.repeated (medium): One offset of a topic is in the tables twice.
    Find out who can write to the tables.
offsets.two_contents (critical): One offset of a topic has two contents in the tables.
    Find out who can write to the tables, and compare with the topic by `verify --bootstrap`.
offsets.withheld (high): An open transaction withholds records of the topic.
    End the transaction (`kafka-transactions --abort`), and find out whose it is.
"""
)

AHEAD_MS = 300_000
"""The clocks of processes and brokers differ by less than this."""
BACK_MS = 7_200_000
"""A clock is set back by less than this: by an hour at the end of summer time, if it does not run in UTC."""
IMPOSSIBLE, TWO_CONTENTS, REPEATED, MISSING = "impossible", "two_contents", "repeated", "missing"
_SAID = {
    IMPOSSIBLE: "have a record although ingest has not read them: it was written into a table",
    TWO_CONTENTS: "have different records: at least one of them is forged",
    REPEATED: "have the same record more than once: the topic was read twice, or rows were copied",
    MISSING: "have no record, although ingest has read beyond them: the topic had lost them before"
    " (retention, DeleteRecords, compaction), rows were removed, ingest has left them out, or another"
    " program has written the topic in a transaction",
}
_SPAN, _CONTENT, _PRESENT, _ROWS, _KIND = "place_span", "content", "present", "rows", "kind"
_FIRST, _LAST, _IS_AUDIT, _POSSIBLE = "first", "last", "is_audit", "possible"
_EDGES = S.struct(
    *((name, S.AUDIT[name].dataType) for name in S.PARTITION),
    *((name, S.AUDIT[S.KAFKA_OFFSET].dataType) for name in (_FIRST, _LAST)),
)


def offsets(
    audit: DataFrame,
    quarantine: DataFrame,
    metadata_log: DataFrame,
    expired: DataFrame,
    of_audit: OffsetsRead | None,
    of_log: OffsetsRead | None,
    index: DataFrame | None = None,
) -> DataFrame:
    """Return one finding per partition, day and kind of fault. `of_audit` and `of_log` are what was read.

    If that is not known of a topic, as of tables that were copied, the end of its partitions is not compared.
    `index` is the sequence index of `audit`, if it is known.
    """
    index = held(sequence_index(audit)) if index is None else index
    of_topics = placed(of_topic(metadata_log), of_log.topic if of_log else "the metadata topic")
    content = F.unhex(F.sha2(F.to_json(F.struct(S.API_KEY, S.BODY, S.ENTITY)), 256))
    others = _places(quarantine, F.unhex(F.sha2(S.RAW_VALUE, 256)), of_audit, of_log).unionByName(
        _places(of_topics, content, of_log)
    )
    known = _places(audit, F.col(S.BODY_SHA256), of_audit).unionByName(others)
    first, last = (_is_possible(F.col(each), of_audit) for each in ("first_offset", "last_offset"))
    # Offsets are sequences that are shifted, so the index has them. A row with a place that cannot be, or
    # whose sequence is far from its offset, is looked for in the records.
    if index.where(~F.coalesce(first & last & F.col(SHIFT).isNotNull(), F.lit(False))).isEmpty():
        parts, doubtful = _of_rows(others).unionByName(_of_index(index)), others
    else:
        parts, doubtful = _of_rows(known), known
    spans = held(_spans(parts))
    impossible = doubtful.where(~F.col(_POSSIBLE)).withColumn(_KIND, F.lit(IMPOSSIBLE))
    at_one = [_ranges(rows, S.KAFKA_OFFSET, S.KAFKA_OFFSET) for rows in (impossible, _repeated(known, spans))]
    found = at_one[0].unionByName(at_one[1]).unionByName(_missing(spans.where(_POSSIBLE), of_audit, expired))
    grouped = found.groupBy(*S.PARTITION, S.DATE, _KIND).agg(
        F.sum(F.col(_LAST) - F.col(_FIRST) + 1).alias("offsets"),
        sample(F.struct(_FIRST, _LAST)).alias("ranges"),
    )
    named = F.transform("ranges", lambda each: F.format_string("%s to %s", each[_FIRST], each[_LAST]))
    where = sentence("topic {kafka_topic}, partition {kafka_partition}: {offsets} offset(s) ")
    which = sentence(" ({named})", named=F.array_join(named, ", "))
    faults = [
        fault(F.col(_KIND) == kind, f"offsets.{kind}", where, F.lit(said), which)
        for kind, said in _SAID.items()
    ]
    return findings(
        with_first_fault(grouped, faults),
        evidence=[*S.PARTITION, S.DATE, "offsets", "ranges"],
    )


def _ranges(rows: DataFrame, first: str, last: str) -> DataFrame:
    return rows.select(*S.PARTITION, S.DATE, _KIND, F.col(first).alias(_FIRST), F.col(last).alias(_LAST))


def _places(rows: DataFrame, content: Column, *reads: OffsetsRead | None) -> DataFrame:
    """Return PLACE, date, content, whether it is a record of the trail, and whether the place can be."""
    return rows.select(
        *(*S.PLACE, S.DATE, content.alias(_CONTENT), F.lit(S.BODY_SHA256 in rows.columns).alias(_IS_AUDIT)),
        F.coalesce(_is_possible(F.col(S.KAFKA_OFFSET), *reads), F.lit(False)).alias(_POSSIBLE),
        F.shiftright(S.KAFKA_OFFSET, 6).alias(_SPAN),
    )


def _is_possible(offset: Column, *reads: OffsetsRead | None) -> Column:
    """Return whether a row's topic and partition can have this offset."""
    topic = F.col(S.KAFKA_TOPIC)
    # Unreadable records may be of a third topic: Kafka's own log.
    elsewhere = 0, 0 if len(reads) == 1 and reads[0] else 2**63 - 1

    def edge(number: int) -> Column:
        each = ((read.topic, {n: of[number] for n, of in read.partitions.items()}) for read in reads if read)
        in_topic = (F.when(topic == name, of_partition(places, 0)) for name, places in each)
        return F.coalesce(*in_topic, F.lit(elsewhere[number]))

    return topic.isNotNull() & (F.col(S.KAFKA_PARTITION) >= 0) & (offset >= edge(0)) & (offset < edge(1))


def _spans(parts: DataFrame) -> DataFrame:
    """Return one row per span, with the offsets that are `present` as bits."""
    return parts.groupBy(*S.PARTITION, _SPAN, _POSSIBLE).agg(
        F.bit_or(_PRESENT).alias(_PRESENT),
        F.sum(_ROWS).alias(_ROWS),
        F.min(_FIRST).alias(_FIRST),
        F.max(_LAST).alias(_LAST),
        F.min(S.DATE).alias(S.DATE),
        F.max(_IS_AUDIT).alias(_IS_AUDIT),
    )


def _of_rows(known: DataFrame) -> DataFrame:
    """Return the parts of spans, one for each row."""
    offset = F.col(S.KAFKA_OFFSET)
    bit = F.expr(f"shiftleft(1L, cast({S.KAFKA_OFFSET} & 63 as int))")
    return known.select(
        *(*S.PARTITION, _SPAN, S.DATE, _POSSIBLE, _IS_AUDIT, bit.alias(_PRESENT)),
        *(F.lit(1).alias(_ROWS), offset.alias(_FIRST), offset.alias(_LAST)),
    )


def _of_index(index: DataFrame) -> DataFrame:
    """Return the same of the records of the sequence index, all of them at places that can be.

    64 sequences have offsets in one span or in two. If a stretch has one offset twice, both may have it.
    """
    begin = f"(shiftleft({SPAN}, {SPAN_BITS}) + {SHIFT})"
    bits = (
        f"shiftleft({PRESENT}, cast({begin} & 63 as int))",
        # By one bit and by the others, because a shift by 64 is none.
        f"shiftrightunsigned(shiftrightunsigned({PRESENT}, 1), cast(63 - ({begin} & 63) as int))",
    )
    halves = index.select(
        *(*S.PARTITION, F.col(FIRST_DATE).alias(S.DATE)),
        (F.col(RECORDS) - F.bit_count(PRESENT)).alias("more"),
        F.expr(f"shiftright({begin}, 6)").alias("low"),
        F.posexplode(F.array(*map(F.expr, bits))).alias("half", "bits"),
    )
    text, begin_of_span = F.bin("bits"), F.shiftleft(_SPAN, 6)
    return (
        halves.where("bits != 0")
        .withColumn(_SPAN, F.col("low") + F.col("half"))
        .select(
            *(*S.PARTITION, _SPAN, S.DATE, F.lit(True).alias(_POSSIBLE), F.lit(True).alias(_IS_AUDIT)),
            F.col("bits").alias(_PRESENT),
            (F.bit_count("bits") + F.col("more")).alias(_ROWS),
            (begin_of_span + F.length(text) - F.length(F.rtrim(text, F.lit("0")))).alias(_FIRST),
            (begin_of_span + F.length(text) - 1).alias(_LAST),
        )
    )


def _repeated(known: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the places that more than one row has."""
    wanted = held(spans.where(F.col(_ROWS) > F.bit_count(_PRESENT)).select(*S.PARTITION, _SPAN).distinct())
    near = known.join(F.broadcast(wanted), [*S.PARTITION, _SPAN]) if wanted.count() else known.limit(0)
    kind = F.when(F.count_distinct(_CONTENT) > 1, TWO_CONTENTS).otherwise(REPEATED)
    rows = F.count(F.lit(1)).alias(_ROWS)
    by_place = near.groupBy(*S.PLACE).agg(rows, kind.alias(_KIND), F.min(S.DATE).alias(S.DATE))
    return by_place.where(F.col(_ROWS) > 1)


def _missing(spans: DataFrame, read: OffsetsRead | None, expired: DataFrame) -> DataFrame:
    """Return the ranges of offsets of the audit topic that no row has, and that did not expire."""
    edges = [
        (read.topic, int(partition), edge, edge)
        for partition, (first, end) in (read.partitions.items() if read else ())
        for edge in (first - 1, end)
        if read
    ]
    # The edges are rows that are there, so that what is missing beside them is found as elsewhere.
    whole = F.lit(-1).cast("long").alias(_PRESENT), F.lit(None).cast("date").alias(S.DATE)
    framed = frame_of(spans.sparkSession, edges, _EDGES).select("*", *whole, F.lit(True).alias(_IS_AUDIT))
    of_partition = Window.partitionBy(*S.PARTITION)
    earlier = of_partition.orderBy(_FIRST, _LAST).rowsBetween(Window.unboundedPreceding, -1)
    placed = spans.select(*framed.columns).unionByName(framed)
    placed = placed.withColumn("of_audit", F.max(_IS_AUDIT).over(of_partition)).where("of_audit")
    placed = placed.withColumn("before", F.max(_LAST).over(earlier))
    day = F.coalesce(S.DATE, F.last(S.DATE, ignorenulls=True).over(earlier), F.current_date()).alias(S.DATE)
    between = F.array(F.struct((F.col("before") + 1).alias(_FIRST), (F.col(_FIRST) - 1).alias(_LAST)))
    absent = F.filter(
        F.sequence(_FIRST, _LAST), lambda offset: F.getbit(_PRESENT, offset.bitwiseAND(63).cast("int")) == 0
    )
    inside = F.transform(absent, lambda offset: F.struct(offset.alias(_FIRST), offset.alias(_LAST)))
    gaps = F.concat(F.filter(between, lambda gap: gap[_FIRST] <= gap[_LAST]), inside)
    found = placed.select(*S.PARTITION, day, F.explode(gaps).alias("gap")).withColumn(_KIND, F.lit(MISSING))
    ranges = _ranges(found, "gap.first", "gap.last")
    return unexpired(ranges, expired_offsets(expired), S.PARTITION, _FIRST, _LAST)


def times(audit: DataFrame, index: DataFrame, log: DataFrame) -> DataFrame:
    """Return records whose time cannot be. `index` is the sequence index, `log` is of the metadata topic."""
    return _of_processes(audit, index).unionByName(_of_log(index, log))


def _of_processes(audit: DataFrame, index: DataFrame) -> DataFrame:
    """Return one finding per boot and day with records after their arrival, or long before the last one."""
    few = audit.select(*S.RECORD_KEY, S.DATE, S.TIME_MS, S.KAFKA_TIMESTAMP)
    disordered = F.broadcast(disordered_times(index, BACK_MS))
    stretches = index.join(disordered, list(S.BOOT_KEY), "left_semi").unionByName(
        index.where(F.col(MOST_AHEAD_MS) > AHEAD_MS)
    )
    near = rows_of(few, spans_of(stretches))
    before_ms = F.lag(S.TIME_MS).over(Window.partitionBy(*S.BOOT_KEY).orderBy(S.SEQUENCE, S.TIME_MS))
    back = near.withColumn("before_ms", before_ms).where(F.col(S.TIME_MS) < F.col("before_ms") - BACK_MS)
    ahead = near.where(F.col(S.TIME_MS) > F.unix_millis(S.KAFKA_TIMESTAMP) + AHEAD_MS)
    faults = ahead.withColumn(
        "said", F.lit("after the broker received them: the clock is ahead")
    ).unionByName(
        back.drop("before_ms").withColumn("said", F.lit("long before the last one: the clock was set back"))
    )
    by_boot = faults.groupBy(*S.BOOT_KEY, S.DATE, "said").agg(
        F.count(F.lit(1)).alias("records"), sample(S.SEQUENCE).alias("sequences")
    )
    return findings(
        by_boot,
        check="offsets.impossible_time",
        explanation=sentence(
            "process {proxy_id}/{boot_id}: {records} record(s) have a time {said}, or they are forged"
            " (sequences {sequences})",
            sequences=F.array_join("sequences", ", "),
        ),
        evidence=[*S.BOOT_KEY, S.DATE, "said", "records", "sequences"],
    )


def _of_log(index: DataFrame, log: DataFrame) -> DataFrame:
    """Return records of the metadata topic that are before the one before them, or after the trail's end."""
    time_ms = F.unix_millis(S.LOG_TIMESTAMP)
    end = index.agg(F.max("last_append_ms").alias("end_ms"))
    before_ms = F.lag(time_ms).over(Window.orderBy(S.LOG_OFFSET))
    placed = log.withColumns({S.TIME_MS: time_ms, "before_ms": before_ms}).crossJoin(F.broadcast(end))
    said = F.when(
        F.col(S.TIME_MS) < F.col("before_ms") - AHEAD_MS,
        "before that of the record before it: one of the two is forged",
    ).when(F.col(S.TIME_MS) > F.col("end_ms") + AHEAD_MS, "after the end of the trail")
    return findings(
        placed.withColumn("said", said).where(F.col("said").isNotNull()),
        check="offsets.impossible_time",
        severity="high",
        explanation=sentence("{record} at metadata offset {offset} has the time {timestamp}, {said}"),
        evidence=[S.LOG_OFFSET, S.RECORD, S.TIME_MS, "said"],
    )


def unchained(
    audit: DataFrame,
    has_key: bool,
    until: Mapping[int, int],
    index: DataFrame | None = None,
    days: Sequence[str] = (),
) -> DataFrame:
    """Return one finding per boot with records without a link that follow chained ones in their partition.

    Older releases wrote such records, and say of themselves that they are old. Those up to `until` (partition
    -> offset) are accepted. With a key, and where any record is chained, a partition without chained records
    has none that were written before. `index` is the sequence index of `audit`, if it is known. Records with
    a link and without a line, which no release has written, are looked for on `days`, by default on all.
    """
    index = held(sequence_index(audit)) if index is None else index
    begins = index.groupBy(*S.PARTITION).agg(
        F.min(FIRST_LINKED).alias("chained_since"),
        F.max(F.col(FIRST_LINKED).isNotNull()).alias("any_chained"),
    )
    anywhere = F.max("any_chained").over(Window.partitionBy()) | F.lit(has_key)
    since = F.when(anywhere, F.coalesce("chained_since", F.lit(-1))).alias("since")
    begins = F.broadcast(held(begins.select(*S.PARTITION, since)))

    def late(rows: DataFrame, offset: str) -> DataFrame:
        after = (F.col(offset) > F.col("since")) & (F.col(offset) > of_partition(until, -1))
        return rows.join(begins, list(S.PARTITION)).where(after)

    near = rows_of(audit, spans_of(late(index, LAST_UNLINKED))).where(F.col(S.CHAIN).isNull())
    judged = audit.where(F.col(S.DATE).isin(*map(date.fromisoformat, days))) if days else audit
    rows = near.unionByName(judged.where(F.col(S.CHAIN).isNotNull() & F.col(S.LINE).isNull()))
    by_boot = (
        late(rows, S.KAFKA_OFFSET)
        .groupBy(*S.BOOT_KEY)
        .agg(
            F.min(S.DATE).alias(S.DATE),
            F.count(F.lit(1)).alias("records"),
            sample(F.struct(*S.PLACE[1:])).alias("places"),
        )
    )
    return findings(
        by_boot,
        check="chain.unchained",
        explanation=sentence(
            "process {proxy_id}/{boot_id} has {records} record(s) without a link of the hash chain where"
            " others have one: they are forged, or of an old release (then --unchained-until accepts"
            " them)"
        ),
        evidence=[*S.BOOT_KEY, "records", "places"],
    )
