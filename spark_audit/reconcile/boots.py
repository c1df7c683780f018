"""(g) How boots of one process follow each other: each names the last record of the one before it.

`audit.previous` of a `started` record's settings is `<boot_id>/<last sequence>/<last link>`, as the new boot
found it in its spool. A boot's id is enough: the process may have been renamed since. Takes the audit records
(each once); lines are not needed. Feeds gaps.py too: a boot without `stopped` whose successor names its last
record has crashed and lost nothing.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, words
from spark_audit.reconcile.hashing import hexadecimal
from spark_audit.trail.processes import starts

NAMED_BOOT, NAMED_SEQUENCE, NAMED_LINK = "named_boot", "named_sequence", "named_link"
LAST, LINK_THERE = "last_sequence", "link_there"

_FORM = "^(.+)/([0-9]{1,18})/([0-9a-f]{64}|)$"
"""The link is empty where the last record was of version 1."""


def boots(records: DataFrame) -> DataFrame:
    """One finding per boot and fault of what it names."""
    faulty = successions(records).withColumn("fault", F.explode(F.array_compact(F.array(*_faults()))))
    return findings(
        faulty,
        check=F.col("fault.check"),
        severity=F.col("fault.severity"),
        date=S.DATE,
        explanation=F.col("fault.explanation"),
        evidence=[
            *S.BOOT_KEY,
            NAMED_BOOT,
            NAMED_SEQUENCE,
            NAMED_LINK,
            LAST,
            LINK_THERE,
            "followers",
            "before",
        ],
    )


def successions(records: DataFrame) -> DataFrame:
    """One row per boot: what it names, and what is there of it.

    `last_sequence` is null where nothing is there; `link_there` is the link at the named sequence, in hex;
    `followers` are all boots that name the same one, `before` the boot that started before this one.
    """
    starts = _starts(records)
    key = [NAMED_BOOT, NAMED_SEQUENCE]
    there = records.select(F.col(S.BOOT_ID).alias(NAMED_BOOT), S.SEQUENCE, S.CHAIN)
    wanted = F.broadcast(starts.where(F.col(NAMED_BOOT).isNotNull()).select(*key).distinct())
    at_the_end = F.when(F.col(S.SEQUENCE) == F.col(NAMED_SEQUENCE), hexadecimal(F.col(S.CHAIN)))
    ends = there.join(wanted, NAMED_BOOT).groupBy(*key)
    told = ends.agg(F.max(S.SEQUENCE).alias(LAST), F.max(at_the_end).alias(LINK_THERE))
    return starts.join(F.broadcast(told), key, "left")


def proven_ends(records: DataFrame) -> DataFrame:
    """`boot_id` of boots of which a successor names a record that is there, and nothing later."""
    same_link = F.col(LINK_THERE).eqNullSafe(F.col(NAMED_LINK))
    whole = successions(records).where((F.col(LAST) >= F.col(NAMED_SEQUENCE)) & same_link)
    return whole.select(F.col(NAMED_BOOT).alias(S.BOOT_ID)).distinct()


def _starts(records: DataFrame) -> DataFrame:
    """One row per boot: when it started, and the boot it names; null where it names none."""
    previous = F.col(S.SETTINGS).getItem("audit.previous").alias("previous")
    read = starts(records).select(*S.BOOT_KEY, S.DATE, S.TIME_MS, S.CHAIN, previous)
    in_time = Window.partitionBy(S.PROXY_ID).orderBy(S.TIME_MS, S.BOOT_ID)
    of_one_end = Window.partitionBy(NAMED_BOOT)
    parsed = read.select(
        "*",
        F.lag(S.BOOT_ID).over(in_time).alias("before"),
        _part(1).alias(NAMED_BOOT),
        _part(2).cast("long").alias(NAMED_SEQUENCE),
        F.nullif(_part(3), F.lit("")).alias(NAMED_LINK),
    )
    followers = F.when(F.col(NAMED_BOOT).isNotNull(), F.sort_array(F.collect_set(S.BOOT_ID).over(of_one_end)))
    return parsed.withColumn("followers", followers)


def _part(number: int) -> Column:
    return F.when(F.col("previous").rlike(_FORM), F.regexp_extract("previous", _FORM, number))


def _faults() -> list[Column]:
    named, last, at = F.col(NAMED_BOOT).isNotNull(), F.col(LAST), F.col(NAMED_SEQUENCE)
    at_hand = (last == at) | ((last > at) & F.col(LINK_THERE).isNotNull())
    follows = words("process %s/%s follows boot %s, which", *S.BOOT_KEY, NAMED_BOOT)
    return [
        _fault(
            named & last.isNull(),
            "boot_missing",
            "critical",
            follows,
            words(" ended at sequence %s: none of its records is in the table", NAMED_SEQUENCE),
        ),
        _fault(
            last < at,
            "tail_missing",
            "critical",
            follows,
            words(" ended at sequence %s: its tail is missing, the last record is %s", NAMED_SEQUENCE, LAST),
        ),
        _fault(
            last > at,
            "after_the_end",
            "medium",
            follows,
            words(" ended at sequence %s on its disk, yet there are records up to %s", NAMED_SEQUENCE, LAST),
            F.lit(": the machine crashed before the disk had what was sent, or somebody else wrote them"),
        ),
        _fault(
            at_hand & ~F.col(LINK_THERE).eqNullSafe(F.col(NAMED_LINK)),
            "other_end",
            "critical",
            follows,
            words(" has another link now at sequence %s: its records were written anew", NAMED_SEQUENCE),
        ),
        _fault(
            F.size("followers") > 1,
            "forked",
            "critical",
            follows,
            words(" has one successor only, and these say that they are it: %s", _joined("followers")),
        ),
        _fault(
            ~named & F.col(S.CHAIN).isNotNull() & F.col("before").isNotNull(),
            "unnamed",
            "medium",
            words("process %s/%s names no boot before it, yet there was %s", *S.BOOT_KEY, "before"),
            F.lit(": its spool was lost, and with it what had not been sent"),
        ),
    ]


def _joined(names: str) -> Column:
    return F.array_join(names, ", ")


def _fault(holds: Column, name: str, severity: str, *explanation: Column) -> Column:
    fault = F.struct(
        F.lit(f"chain.{name}").alias("check"),
        F.lit(severity).alias("severity"),
        F.concat(*explanation).alias("explanation"),
    )
    return F.when(F.coalesce(holds, F.lit(False)), fault)
