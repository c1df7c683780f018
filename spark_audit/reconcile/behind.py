"""Processes that went on with an older metadata log than they or others had applied minutes before.

A decision is made again at its own metadata offset, and a signed log that ends early is a signed log. So who
withholds the end of the log from a process, or gives it yesterday's, brings a right back that was removed,
and each decision fits. What shows it is which offset each process had applied, and when.

A record of the log is due when some process has applied it, by the clock of that one, and when the topic got
it, by the broker's: so one false time makes no process late. Takes the audit records and one log.
In Kafka's own log, the offset of an image stays the same until its content changes. So there only what always
changes it is due: grants and what ends them.
"""

from collections.abc import Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.kraft.log_directory import TOPIC
from spark_audit.reconcile.clocks import SKEW
from spark_audit.reconcile.finding import findings, register, sentence
from spark_audit.tables.plans import held
from spark_audit.trail.audit_records import each_day
from spark_audit.trail.claims import claiming
from spark_audit.trail.metadata_log import of_topic, without_snapshots

register(
    """
decisions.behind (high): A process decided by an older metadata log than others had.
    Check whether it could reach the brokers then; if it could, somebody withholds the end of the log:
    compare what is in effect there with the controller's, and look at what it has granted.
"""
)

BEHIND_MS = 300_000
"""A process that reaches the brokers applies a change within a second, after a failover within minutes."""
PERSISTS_MS = 60_000
"""A process that was suspended is behind when it goes on, and catches up at once."""
_SIDES = "left_semi", "left_anti"
_OF_IMAGES = ("checkpoint", "authentication", "reauthentication")
"""Their metadata offset is that of the image in effect at that moment."""
_ALWAYS_A_CHANGE = (
    *(S.ACCESS_CONTROL_ENTRY_RECORD, S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD),
    *(S.REMOVE_USER_SCRAM_CREDENTIAL_RECORD, S.REMOVE_DELEGATION_TOKEN_RECORD),
)
"""Kafka's controller does not write them where nothing changes."""
_APPLIED, _AT, _BY, _SEEN, _NEXT, _DUE = "applied", "at_ms", "by", "seen", "next_offset", "due_ms"


def behind_either(few: DataFrame, log: DataFrame, skewed: DataFrame, days: Sequence[date] = ()) -> DataFrame:
    """Return the findings of `behind` for both logs, if the tables have records of Kafka's own.

    Only checkpoints name the log of their offsets. A process without any counts for the topic.
    """
    names = F.col(S.MESSAGE).contains(f"\nmetadata {TOPIC} ")
    boots = few.where((F.col(S.EVENT) == "checkpoint") & names).select(*S.BOOT_KEY).distinct()
    of_kafka, of_penstock = (few.join(F.broadcast(boots), list(S.BOOT_KEY), how) for how in _SIDES)
    changes = without_snapshots(log).where(F.col(S.API_KEY).isin(*_ALWAYS_A_CHANGE))
    return behind(of_kafka, changes, skewed, days).unionByName(
        behind(of_penstock, of_topic(log), skewed, days)
    )


def behind(few: DataFrame, log: DataFrame, skewed: DataFrame, days: Sequence[date] = ()) -> DataFrame:
    """Return one finding per boot and record of the log that it had not applied when it was due.

    `few` has all records but traffic, `skewed` is `skews`. With `days`, what was recorded on these is
    and later is compared with each other, and with the highest offset of the days before.
    """
    states = held(_states(few, skewed))
    boots = states.where("is_image").groupBy(*S.BOOT_KEY).agg(F.min(_AT).alias("began_ms"))
    here, seen = states, F.struct(_AT, F.concat_ws("/", *S.BOOT_KEY).alias(_BY), S.DATE)
    earlier = states.limit(0)
    if days:
        here = states.where(F.col(S.DATE) >= min(days))
        earlier = states.where(F.col(S.DATE) < min(days))
    highest = earlier.agg(F.max(F.struct(_APPLIED, seen.alias(_SEEN))).alias("highest"))
    known = here.select(_APPLIED, seen.alias(_SEEN)).unionByName(
        highest.where("highest IS NOT NULL").select("highest.*")
    )
    # No process of these days lacks what is before the lowest offset that one had: a long log costs nothing.
    lowest = here.where("is_image").agg(F.min(_APPLIED).alias("lowest"))
    later = log.crossJoin(F.broadcast(lowest)).where(F.col(S.LOG_OFFSET) > F.col("lowest"))
    logged = later.where(F.col(S.API_KEY) != S.NO_OP_RECORD).groupBy(F.col(S.LOG_OFFSET).alias(_APPLIED))
    changes = logged.agg(
        F.min(F.unix_millis(S.LOG_TIMESTAMP)).alias("appended_ms"), F.first(S.RECORD).alias(S.RECORD)
    )
    # From the highest offset down: who has applied one has applied all before it.
    first = known.groupBy(_APPLIED).agg(F.min(_SEEN).alias(_SEEN), F.lit(False).alias("is_change"))
    both = first.unionByName(changes.withColumn("is_change", F.lit(True)), allowMissingColumns=True)
    down = Window.orderBy(F.col(_APPLIED).desc(), "is_change").rowsBetween(Window.unboundedPreceding, 0)
    change = F.when(F.col("is_change"), F.col(_APPLIED))
    placed = held(
        both.withColumns({_SEEN: F.min(_SEEN).over(down), _NEXT: F.last(change, ignorenulls=True).over(down)})
    )
    due = F.greatest(F.col(_SEEN)[_AT], "appended_ms") + BEHIND_MS
    dues = placed.where(F.col("is_change") & F.col(_SEEN).isNotNull()).select(
        _NEXT,
        S.RECORD,
        due.alias(_DUE),
        F.col(_SEEN)[_BY].alias("seen_by"),
        F.col(_SEEN)[S.DATE].alias("seen_on"),
    )
    lacking = placed.where(~F.col("is_change") & F.col(_NEXT).isNotNull()).select(_APPLIED, _NEXT)
    late = (
        here.where("is_image")
        .join(F.broadcast(lacking.join(dues, _NEXT)), _APPLIED)
        .where(F.col(_AT) > F.col(_DUE))
        .groupBy(*S.BOOT_KEY, _NEXT, S.RECORD, _DUE, "seen_by")
        .agg(
            F.min(_AT).alias("since_ms"),
            F.max(_AT).alias("until_ms"),
            F.max(_APPLIED).alias(_APPLIED),
            # What another one had applied may come to the trail later.
            each_day(S.DATE, "seen_on"),
        )
        .join(F.broadcast(boots), list(S.BOOT_KEY))
    )
    began_so = F.col("since_ms") == F.col("began_ms")
    return findings(
        late.where(began_so | (F.col("until_ms") - F.col("since_ms") >= PERSISTS_MS)),
        check="decisions.behind",
        explanation=sentence(
            "process {proxy_id}/{boot_id} had applied the metadata log up to offset {applied} only,"
            " {minutes} minutes after {seen_by} had applied {record} at offset {next_offset}: it decided by"
            " an older log",
            minutes=F.floor((F.col("until_ms") - F.col(_DUE) + BEHIND_MS) / 60_000),
        ),
        evidence=[*S.BOOT_KEY, _NEXT, S.RECORD, _APPLIED, "seen_by", "until_ms"],
        # A process that goes on so is no other finding.
        identity=[*S.BOOT_KEY, _NEXT],
    )


def _states(few: DataFrame, skewed: DataFrame) -> DataFrame:
    """Return what each process had applied at which moment, by a clock that is put right.

    `is_image`: it was in effect there. A controller has applied what it has just written, too.
    """
    images = few.where(F.col(S.EVENT).isin(*_OF_IMAGES)).select(*_state(S.METADATA_OFFSET, is_image=True))
    written = claiming(few).select(*_state(S.LAST_OFFSET, is_image=False))
    of_boot = F.broadcast(skewed.select(*S.BOOT_KEY, SKEW))
    known = (
        images.unionByName(written).where(F.col(_APPLIED).isNotNull()).join(of_boot, list(S.BOOT_KEY), "left")
    )
    return known.withColumn(_AT, F.col(_AT) - F.coalesce(SKEW, F.lit(0))).drop(SKEW)


def _state(offset: str, *, is_image: bool) -> list[Column]:
    names = [F.col(name) for name in (*S.BOOT_KEY, S.DATE)]
    return [
        *names,
        F.col(S.TIME_MS).alias(_AT),
        F.col(offset).alias(_APPLIED),
        F.lit(is_image).alias("is_image"),
    ]
