"""(g) How boots follow each other: each boot names the last record of the one before it.

`audit.previous` in the settings of `started` is `<boot_id>/<last sequence>/<last link>`, as the new boot
found it in its spool. The boot id is enough, since the process may have been renamed. Takes the audit
records, each once, without their lines. gaps.py uses it too: a boot without `stopped` whose successor names
its last record has crashed and lost nothing.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import fault, findings, sentence, with_every_fault
from spark_audit.reconcile.hashing import hexadecimal
from spark_audit.trail.processes import starts

NAMED_BOOT, NAMED_SEQUENCE, NAMED_LINK = "named_boot", "named_sequence", "named_link"
LAST, LINK_THERE = "last_sequence", "link_there"

_FORM = "^(.+)/([0-9]{1,18})/([0-9a-f]{64}|)$"
"""The link is empty if the last record was of version 1."""


def boots(records: DataFrame) -> DataFrame:
    """Returns one finding per boot and fault of the predecessor that it names."""
    faulty = with_every_fault(successions(records), _faults())
    named = (NAMED_BOOT, NAMED_SEQUENCE, NAMED_LINK)
    return findings(
        faulty, date=S.DATE, evidence=[*S.BOOT_KEY, *named, LAST, LINK_THERE, "followers", "before"]
    )


def successions(records: DataFrame) -> DataFrame:
    """Returns one row per boot: the predecessor that it names, and the records of that predecessor.

    `last_sequence` is the predecessor's last record, null if it has none; `link_there` is the link of the
    named record, in hex. `followers` are all boots that name the same predecessor, `before` is the boot of
    the same process that started before this one.
    """
    starts = _starts(records)
    key = [NAMED_BOOT, NAMED_SEQUENCE]
    present = records.select(F.col(S.BOOT_ID).alias(NAMED_BOOT), S.SEQUENCE, S.CHAIN)
    wanted = F.broadcast(starts.where(F.col(NAMED_BOOT).isNotNull()).select(*key).distinct())
    at_the_end = F.when(F.col(S.SEQUENCE) == F.col(NAMED_SEQUENCE), hexadecimal(F.col(S.CHAIN)))
    by_name = present.join(wanted, NAMED_BOOT).groupBy(*key)
    ends = by_name.agg(F.max(S.SEQUENCE).alias(LAST), F.max(at_the_end).alias(LINK_THERE))
    return starts.join(F.broadcast(ends), key, "left")


def proven_ends(records: DataFrame) -> DataFrame:
    """Returns `boot_id` of the boots whose last record is present and is named by a successor."""
    same_link = F.col(LINK_THERE).eqNullSafe(F.col(NAMED_LINK))
    complete = successions(records).where((F.col(LAST) >= F.col(NAMED_SEQUENCE)) & same_link)
    return complete.select(F.col(NAMED_BOOT).alias(S.BOOT_ID)).distinct()


def _starts(records: DataFrame) -> DataFrame:
    """Returns one row per boot: when it started, and the predecessor that it names, null if none."""
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
    named, last, end = F.col(NAMED_BOOT).isNotNull(), F.col(LAST), F.col(NAMED_SEQUENCE)
    present = (last == end) | ((last > end) & F.col(LINK_THERE).isNotNull())
    follows = sentence("process %s/%s follows boot %s, which", *S.BOOT_KEY, NAMED_BOOT)
    return [
        fault(
            named & last.isNull(),
            "chain.boot_missing",
            "critical",
            follows,
            sentence(" ended at sequence %s: none of its records is in the table", NAMED_SEQUENCE),
        ),
        fault(
            last < end,
            "chain.tail_missing",
            "critical",
            follows,
            sentence(" ended at sequence %s: the last record in the table is %s", NAMED_SEQUENCE, LAST),
        ),
        fault(
            last > end,
            "chain.after_the_end",
            "medium",
            follows,
            sentence(
                " ended at sequence %s on its disk, but there are records up to %s", NAMED_SEQUENCE, LAST
            ),
            F.lit(": the machine crashed before it had synced records that it had sent, or they are forged"),
        ),
        fault(
            present & ~F.col(LINK_THERE).eqNullSafe(F.col(NAMED_LINK)),
            "chain.other_end",
            "critical",
            follows,
            sentence(
                " has another link at sequence %s in the table: its records were rewritten", NAMED_SEQUENCE
            ),
        ),
        fault(
            F.size("followers") > 1,
            "chain.forked",
            "critical",
            follows,
            sentence(
                " can have only one successor, but several name it: %s", F.array_join("followers", ", ")
            ),
        ),
        fault(
            ~named & F.col(S.CHAIN).isNotNull() & F.col("before").isNotNull(),
            "chain.unnamed",
            "medium",
            sentence("process %s/%s names no previous boot, but there was %s", *S.BOOT_KEY, "before"),
            F.lit(": its spool was lost, with all records that were not shipped"),
        ),
    ]
