"""(a) Records that are missing: the sequences of a boot run from 0 without a hole, up to a `stopped` record.

Takes every copy of every record, not only the first: two different records with one sequence are a finding.
Only what processes report of themselves is read from first copies. Does not know what the missing records
held.
"""

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.chain import NAMED_BY, proven_ends, successions
from spark_audit.reconcile.clocks import SKEW, skews
from spark_audit.reconcile.finding import findings, or_else, register, sample, sentence
from spark_audit.tables.plans import held
from spark_audit.trail.audit_records import (
    DAYS,
    SILENCE_MS,
    boots,
    disordered_boots,
    each_day,
    missing_sequences,
    repeated_spans,
    rows_of,
    sequence_index,
    spans_of,
)
from spark_audit.trail.processes import key_name

register(
    """
gaps: The sequences of each process run from 0 to its end, without a hole and without two contents.
gaps.hole (critical): Records of a process are missing between others.
    Compare with the topic by `verify --bootstrap`; if they are missing there too, find out who can
    delete from it.
gaps.different_copies (critical): One sequence of a process has two contents.
    Take the copy that fits the hash chain, and find out who can write to the audit topic.
gaps.reordered (high): Records are not in the topic in the order in which they were written.
    Find out who can write to the audit topic: a process writes in order.
gaps.after_stop (critical): There are records after the last one of a process.
    Find out who can write to the audit topic: they are forged.
gaps.unfinished (medium): A process ended without saying so.
    Look for its crash in its log; acknowledge the finding if it crashed or was retired.
gaps.same_id_twice (high): Two processes ran under one id at once.
    Give each process a `proxy.id` of its own, and stop one of the two.
gaps.miscounted (critical): A process counts other records than there are.
    Treat the records of this boot as doubtful, and compare them with the topic by `verify --bootstrap`.
gaps.dropped (high): A process had no room for records and dropped them.
    Give the spool more room, and find out why the brokers did not take its records.
"""
)

RETIRED_MS = 86_400_000
"""A process that has not come back for this long was probably retired."""
OVERLAP_MS = 60_000
"""In several partitions: two boots whose records the topic got for this long at once ran at the same time."""
_REPORTS = ("high_water", "stopped", "records_dropped")

_NARROW = (*S.RECORD_KEY, S.DATE, S.TIME_MS, S.KAFKA_PARTITION, S.KAFKA_OFFSET, S.BODY_SHA256)
_REPORTED = (*S.RECORD_KEY, S.DATE, S.EVENT, S.COUNT, S.MESSAGE)


def gaps(
    audit: DataFrame,
    index: DataFrame | None = None,
    expired: DataFrame | None = None,
    few: DataFrame | None = None,
    followed: DataFrame | None = None,
    skewed: DataFrame | None = None,
    *,
    signed: bool = False,
) -> DataFrame:
    """Return the findings of all checks below.

    `index` is `sequence_index(audit)`. `expired` is table `expired`: the records that were deleted on
    purpose. `few` has all records but traffic, each once, `followed` is `successions` and `skewed` is
    `skews`, if they are known. `signed`: there are public keys.
    """
    index = held(sequence_index(audit)) if index is None else index
    few = audit if few is None else few
    followed = held(successions(audit, few, index)) if followed is None else followed
    skewed = held(skews(index)) if skewed is None else skewed
    ends = held(boots(index))
    reports = few.where(F.col(S.EVENT).isin(*_REPORTS)).select(*_REPORTED)
    narrow = audit.select(*_NARROW)
    parts = [
        holes(narrow, index, expired),
        different_copies(narrow, index),
        reordered(narrow, index),
        records_after_stop(ends),
        unfinished(ends, followed, skewed, signed=signed),
        same_id_twice(ends, few),
        miscounted(reports),
        dropped(reports),
    ]
    return reduce(DataFrame.unionByName, parts)


def holes(audit: DataFrame, index: DataFrame, expired: DataFrame | None = None) -> DataFrame:
    """Return one finding per run of missing sequences, including the ones before the first record."""
    return findings(
        missing_sequences(audit, index, expired),
        check="gaps.hole",
        explanation=sentence(
            "process {proxy_id}/{boot_id}: {number} record(s) are missing, sequences {first_missing} to"
            " {last_missing}; the next record, {sequence}, is present",
            number=F.col("last_missing") - F.col("first_missing") + 1,
        ),
        evidence=[*S.BOOT_KEY, "first_missing", "last_missing", F.col(S.TIME_MS).alias("next_time_ms")],
    )


def different_copies(audit: DataFrame, index: DataFrame) -> DataFrame:
    """Return records that were delivered more than once and differ."""
    versions = (
        rows_of(audit, repeated_spans(index))
        .groupBy(*S.RECORD_KEY)
        .agg(
            F.count_distinct(S.BODY_SHA256).alias("versions"),
            each_day(S.DATE),
            sample(S.KAFKA_OFFSET).alias("kafka_offsets"),
        )
    )
    return findings(
        versions.where("versions > 1"),
        check="gaps.different_copies",
        explanation=sentence(
            "process {proxy_id}/{boot_id}: there are {versions} different records with sequence"
            " {sequence} (offsets {kafka_offsets} of the audit topic)",
            kafka_offsets=F.to_json("kafka_offsets"),
        ),
        evidence=[*S.RECORD_KEY, "versions", "kafka_offsets"],
    )


def reordered(audit: DataFrame, index: DataFrame) -> DataFrame:
    """Return one finding per boot whose records are not in a partition in the order of their sequences.

    Copies do not count: records that are sent again after a crash come later, or to another partition. So
    boots that look disordered in the index are checked again by the first copies in each partition, and a
    record that is in order in another one does not count.
    """
    disordered = F.broadcast(disordered_boots(index))
    near = rows_of(audit, spans_of(index.join(disordered, list(S.BOOT_KEY), "left_semi")))
    first = near.groupBy(*S.RECORD_KEY, S.KAFKA_PARTITION).agg(
        F.min(S.KAFKA_OFFSET).alias(S.KAFKA_OFFSET), F.min(S.DATE).alias(S.DATE)
    )
    in_order = Window.partitionBy(*S.BOOT_KEY, S.KAFKA_PARTITION).orderBy(S.SEQUENCE)
    placed = first.withColumn("offset_before", F.lag(S.KAFKA_OFFSET).over(in_order))
    placed = placed.withColumn("date_before", F.lag(S.DATE).over(in_order))
    is_early = F.coalesce(F.col("offset_before") > F.col(S.KAFKA_OFFSET), F.lit(False))
    everywhere = F.min(is_early).over(Window.partitionBy(*S.RECORD_KEY))
    early = placed.withColumn("everywhere", everywhere).where("everywhere")
    by_boot = early.groupBy(*S.BOOT_KEY).agg(
        each_day(S.DATE, "date_before"),
        F.count(F.lit(1)).alias("records"),
        sample(S.SEQUENCE).alias("sequences"),
        sample(S.KAFKA_OFFSET).alias("kafka_offsets"),
    )
    return findings(
        by_boot,
        check="gaps.reordered",
        explanation=sentence(
            "process {proxy_id}/{boot_id}: {records} record(s) are in the topic before a record of a"
            " lower sequence (sequences {sequences})",
            sequences=F.array_join("sequences", ", "),
        ),
        evidence=[*S.BOOT_KEY, "records", "sequences", "kafka_offsets"],
    )


def records_after_stop(boots: DataFrame) -> DataFrame:
    """Return boots with records after `stopped`, which is the last record that a process writes."""
    ends = boots.where(F.col("stopped_at") < F.col("last_sequence"))
    return findings(
        ends,
        check="gaps.after_stop",
        date=DAYS,
        explanation=sentence(
            "process {proxy_id}/{boot_id} stopped at sequence {stopped_at}, but there are records up to"
            " sequence {last_sequence}"
        ),
        evidence=[*S.BOOT_KEY, "stopped_at", "last_sequence"],
    )


def unfinished(
    boots: DataFrame, followed: DataFrame, skewed: DataFrame, *, signed: bool = False
) -> DataFrame:
    """Return boots without `stopped` that are gone: a newer boot has the same id, or only they are silent.

    Either the process crashed, or the end of its trail was cut off. If the next boot names the last record
    that is present, it was a crash that lost nothing, and no finding. If it is `signed`, it has to be a boot
    of the same process: another one has another key, and could name any boot whose end was cut off. A boot
    that ran beside another one of its id is gone only if it is silent. Clocks that are off (`skews`) are put
    right before they are compared, and no record is later than its arrival.
    """
    right_ms = F.least(F.col("last_time_ms") - F.coalesce(SKEW, F.lit(0)), "last_append_ms")
    right = boots.join(F.broadcast(skewed.select(*S.BOOT_KEY, SKEW)), list(S.BOOT_KEY), "left").withColumn(
        "right_ms", right_ms
    )
    placed = with_twins(right).crossJoin(F.broadcast(right.agg(F.max("right_ms").alias("newest_ms"))))
    silent_ms = F.col("newest_ms") - F.col("right_ms")
    followed_by_another = F.col("has_next") & F.col("twin").isNull()
    gone = placed.where(F.col("stopped_at").isNull() & (followed_by_another | (silent_ms > SILENCE_MS)))
    named = [S.BOOT_ID, NAMED_BY] if signed else [S.BOOT_ID]
    gone = gone.withColumn(NAMED_BY, key_name(S.PROXY_ID)).join(
        F.broadcast(proven_ends(followed)), named, "left_anti"
    )
    why = F.when(
        (silent_ms > RETIRED_MS) & ~F.col("has_next"),
        "it was killed and did not come back, or its tail is missing; acknowledge it if it was retired",
    ).otherwise("it crashed, or its tail is missing")
    return findings(
        gone,
        check="gaps.unfinished",
        date=DAYS,
        explanation=sentence(
            "process {proxy_id}/{boot_id} ends at sequence {last_sequence} without `stopped`: {why}", why=why
        ),
        # Not its successor, which may start a day later: the id of the finding must not change then.
        evidence=[*S.BOOT_KEY, "last_sequence", "last_time_ms"],
    )


def with_twins(boots: DataFrame) -> DataFrame:
    """Add `twin`, another boot of the same id that ran at the same time, and `has_next`.

    `has_next` says whether a boot of the id began after this one had ended. Boots of one partition are
    compared by offsets, which are in the order in which records were appended; others by when the topic got
    them: the clock of the process may have been set back between two boots.
    """
    of_id = Window.partitionBy(S.PROXY_ID)
    in_one = F.min("first_partition").over(of_id) == F.max("last_partition").over(of_id)
    placed = boots.withColumns(
        {
            "begin": F.when(in_one, F.col("first_offset")).otherwise(F.col("first_append_ms")),
            "end": F.when(in_one, F.col("last_offset")).otherwise(F.col("last_append_ms") - OVERLAP_MS),
        }
    )
    in_order = of_id.orderBy("begin", S.BOOT_ID)
    earlier = F.max(F.struct("end", S.BOOT_ID)).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    later = F.min(F.struct("begin", S.BOOT_ID)).over(in_order.rowsBetween(1, Window.unboundedFollowing))
    return placed.withColumns(
        {
            "earlier_twin": F.when(earlier["end"] > F.col("begin"), earlier[S.BOOT_ID]),
            "later_twin": F.when(later["begin"] < F.col("end"), later[S.BOOT_ID]),
            "has_next": F.max("begin").over(of_id) > F.col("end"),
        }
    ).withColumn("twin", F.coalesce("earlier_twin", "later_twin"))


def same_id_twice(boots: DataFrame, few: DataFrame) -> DataFrame:
    """Return boots that began while another boot of the same id was running."""
    host = F.col(S.SETTINGS).getItem("audit.host")
    started = (
        few.where(F.col(S.EVENT) == "started").groupBy(S.PROXY_ID, S.BOOT_ID).agg(F.max(host).alias("host"))
    )
    days = boots.select(S.PROXY_ID, F.col(S.BOOT_ID).alias("earlier_twin"), F.col(DAYS).alias("other_days"))
    # Records may have come to the earlier one after the other had ended.
    twins = (
        with_twins(boots)
        .join(days, [S.PROXY_ID, "earlier_twin"])
        .select(S.PROXY_ID, S.BOOT_ID, "earlier_twin", F.array_union(DAYS, "other_days").alias(DAYS))
    )
    of_earlier = started.select(
        S.PROXY_ID, F.col(S.BOOT_ID).alias("earlier_twin"), F.col("host").alias("other_host")
    )
    named = twins.join(started, list(S.BOOT_KEY), "left").join(
        of_earlier, [S.PROXY_ID, "earlier_twin"], "left"
    )
    return findings(
        named,
        check="gaps.same_id_twice",
        date=DAYS,
        explanation=sentence(
            "two processes ran under the id {proxy_id} at the same time: boot {earlier_twin} (host"
            " {other_host}) and boot {boot_id} (host {host}); their records are mixed in the topic, or"
            " one of them is forged"
        ),
        evidence=[S.PROXY_ID, "earlier_twin", S.BOOT_ID, "other_host", "host"],
    )


def miscounted(reports: DataFrame) -> DataFrame:
    """Return high-water records whose count is not the number of records so far, with or without itself."""
    marks = reports.where(F.col(S.EVENT).isin("high_water", "stopped") & F.col(S.COUNT).isNotNull())
    wrong = marks.where(~F.col(S.COUNT).isin(F.col(S.SEQUENCE), F.col(S.SEQUENCE) + 1))
    return findings(
        wrong.dropDuplicates([*S.RECORD_KEY, S.COUNT]),
        check="gaps.miscounted",
        explanation=sentence(
            "process {proxy_id}/{boot_id} reports at sequence {sequence} that it has written {count} records"
        ),
        evidence=[*S.RECORD_KEY, S.EVENT, S.COUNT],
    )


def dropped(reports: DataFrame) -> DataFrame:
    """Return the records that a process reports to have dropped, because its spool was full for example."""
    losses = reports.where(F.col(S.EVENT) == "records_dropped").dropDuplicates(list(S.RECORD_KEY))
    return findings(
        losses,
        check="gaps.dropped",
        explanation=sentence(
            "process {proxy_id}/{boot_id} reports at sequence {sequence} that it dropped {number}"
            " record(s){reason}",
            number=or_else(S.COUNT, "an unknown number of"),
            reason=or_else(F.concat(F.lit(": "), S.MESSAGE), ""),
        ),
        evidence=[*S.RECORD_KEY, S.COUNT, S.MESSAGE],
    )
