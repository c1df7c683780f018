"""(g) The hash chain of each boot: every record hashed anew with the link of the record before it.

Takes the audit records, each once and with their lines. A link is SHA-256 of the link before it, as 64 hex
digits, and of the line up to that link; the first follows the hash of `<proxy_id>/<boot_id>`. With a key,
HMAC-SHA256 stands for SHA-256, and whoever lacks it cannot write a chain that fits. Records whose
predecessor is missing cannot be judged: that hole is gaps.py's finding. How boots follow each other is
boots.py's affair.
"""

from collections.abc import Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, words
from spark_audit.reconcile.hashing import KEYED, PLAIN, digest, hexadecimal, seed
from spark_audit.trail import AUTHOR

BLOCK = 20_000
"""Records are put in order in blocks of so many, so that one long-lived process is not one task."""
STATE, FITS, ALTERED, UNLINKED, NO_KEY = "state", "fits", "altered", "unlinked", "no_key"

_ALGORITHM, _CHAINED, _SINCE = "algorithm", "chained", "since_ms"
_RUN = (*AUTHOR, STATE, S.DATE, "run")
_SAID = {
    ALTERED: "do not fit the hash chain: they were altered, or written with another key",
    UNLINKED: "have no link of the hash chain, while their process writes one",
    NO_KEY: "are chained with a key: give it with --chain-key",
}


def chain(
    records: DataFrame, key: bytes | None = None, block: int = BLOCK, days: Sequence[date] = ()
) -> DataFrame:
    """Both checks below as one table of findings. `days`: only the lines of these are read and hashed."""
    return broken(states(records, key, block, days)).unionByName(unkeyed(records, key))


def broken(judged: DataFrame) -> DataFrame:
    """One finding per day's run of records that do not fit, or could not be judged for want of the key."""
    faults = judged.where(F.col(STATE) != FITS)
    place = F.row_number().over(Window.partitionBy(*AUTHOR, STATE, S.DATE).orderBy(S.SEQUENCE))
    runs = faults.withColumn("run", F.col(S.SEQUENCE) - place).groupBy(*_RUN)
    told = runs.agg(
        F.min(S.SEQUENCE).alias("first_sequence"),
        F.max(S.SEQUENCE).alias("last_sequence"),
        F.min_by(S.KAFKA_OFFSET, S.SEQUENCE).alias("first_kafka_offset"),
    )
    said = F.coalesce(*(F.when(F.col(STATE) == state, text) for state, text in _SAID.items()))
    names = {ALTERED: "chain.altered", UNLINKED: "chain.unlinked", NO_KEY: "chain.unchecked"}
    return findings(
        told,
        check=F.coalesce(*(F.when(F.col(STATE) == state, name) for state, name in names.items())),
        severity=F.when(F.col(STATE) == NO_KEY, "medium").otherwise("critical"),
        date=S.DATE,
        explanation=words(
            "records %s to %s of process %s/%s %s", "first_sequence", "last_sequence", *AUTHOR, said
        ),
        evidence=[*AUTHOR, "first_sequence", "last_sequence", "first_kafka_offset"],
    )


def unkeyed(records: DataFrame, key: bytes | None) -> DataFrame:
    """A key is given, and a process does not chain with one: anybody can have written its trail anew.

    Of those without any chain only who started after the first that has the key: older versions had none.
    """
    told = algorithms(records, key).where(F.lit(key is not None))
    keyed_since = told.agg(F.min(F.when(F.col(_CHAINED) & _keyed(), F.col(_SINCE))).alias("keyed_since"))
    late = ~F.col(_CHAINED) & (F.col(_SINCE) > F.col("keyed_since"))
    faulty = told.crossJoin(F.broadcast(keyed_since)).where((F.col(_CHAINED) & ~_keyed()) | late)
    named = F.when(F.col(_CHAINED), F.col(_ALGORITHM)).otherwise("nothing").alias(_ALGORITHM)
    return findings(
        faulty.withColumn(_ALGORITHM, named),
        check="chain.unkeyed",
        severity="medium",
        date=S.DATE,
        explanation=words("process %s/%s chains its records by %s, without the key", *AUTHOR, _ALGORITHM),
        evidence=[*AUTHOR, _ALGORITHM],
    )


def _keyed() -> Column:
    return F.col(_ALGORITHM) == KEYED


def states(
    records: DataFrame, key: bytes | None = None, block: int = BLOCK, days: Sequence[date] = ()
) -> DataFrame:
    """Each judged record of a chained boot with its `state`: fits, altered, unlinked (has no link), no_key.

    Whole lines are shuffled once, in blocks; where a block or a day begins, the link before it is looked up.
    """
    told = records.join(F.broadcast(algorithms(records, key)).drop(S.DATE, _SINCE), list(AUTHOR)).where(
        _CHAINED
    )
    numbered = told.withColumn("block", F.floor(F.col(S.SEQUENCE) / block))
    near = numbered.where(F.col(S.DATE).isin(*days)) if days else numbered
    read = near.select(
        *AUTHOR, "block", S.SEQUENCE, S.DATE, S.KAFKA_OFFSET, S.CHAIN, S.LINE, _ALGORITHM
    ).withColumn("before", F.lag(_link()).over(_in_order()))
    edges = _before_days(numbered, near) if days else _before_blocks(numbered)
    joined = read.join(F.broadcast(edges), [*AUTHOR, "block", S.SEQUENCE], "left")
    follows = F.col("before.at") == F.col(S.SEQUENCE) - 1
    known = joined.withColumn("before", F.when(follows, F.col("before")).otherwise(F.col("edge")))
    return known.withColumn(STATE, _state(key)).where(F.col(STATE).isNotNull())


def _before_blocks(numbered: DataFrame) -> DataFrame:
    """The last link of each block as the `edge` before the first record of the block that follows."""
    ends = numbered.groupBy(*AUTHOR, "block").agg(F.max_by(_link(), S.SEQUENCE).alias("edge"))
    return ends.select(
        *AUTHOR,
        (F.col("block") + 1).alias("block"),
        (F.col("edge.at") + 1).alias(S.SEQUENCE),
        "edge",
    )


def _before_days(numbered: DataFrame, near: DataFrame) -> DataFrame:
    """The links before those records whose predecessor is not among these, but of another day or block."""
    narrow = near.select(*AUTHOR, "block", S.SEQUENCE)
    apart = F.coalesce(F.lag(S.SEQUENCE).over(_in_order()) != F.col(S.SEQUENCE) - 1, F.lit(True))
    first = narrow.withColumn("apart", apart).where("apart").withColumn("wanted", F.col(S.SEQUENCE) - 1)
    there = numbered.select(*AUTHOR, F.col(S.SEQUENCE).alias("wanted"), _link().alias("edge"))
    found = there.join(F.broadcast(first), [*AUTHOR, "wanted"])
    return found.select(*AUTHOR, "block", S.SEQUENCE, "edge")


def algorithms(records: DataFrame, key: bytes | None) -> DataFrame:
    """One row per process: `algorithm`, whether it is `chained` at all, its first day and moment.

    A process whose `started` is missing is taken to chain as the auditor's key says.
    """
    told = F.when(F.col(S.EVENT) == "started", F.col(S.SETTINGS).getItem("audit.chain"))
    return records.groupBy(*AUTHOR).agg(
        F.coalesce(F.max(told), F.lit(PLAIN if key is None else KEYED)).alias(_ALGORITHM),
        (F.max(F.col(S.CHAIN).isNotNull()) | (F.max(S.RECORD_SCHEMA_VERSION) >= S.CHAINED_SINCE)).alias(
            _CHAINED
        ),
        F.min(S.DATE).alias(S.DATE),
        F.min(S.TIME_MS).alias(_SINCE),
    )


def _state(key: bytes | None) -> Column:
    """Null where nothing can be said: the record before is not there, or has no link itself."""
    keyed = F.col(_ALGORITHM) == KEYED
    fits = F.when(keyed, _fits(key)).otherwise(_fits(None))
    return (
        F.when(F.col(S.CHAIN).isNull(), UNLINKED)
        .when(keyed & F.lit(key is None), NO_KEY)
        .when(fits, FITS)
        .when(~fits, ALTERED)
    )


def _fits(key: bytes | None) -> Column:
    first = F.col(S.SEQUENCE) == 0
    previous = F.when(first, seed(key)).otherwise(hexadecimal(F.col("before.link")))
    return digest(F.concat(previous, F.col(S.LINE)), key) == F.col(S.CHAIN)


def _link() -> Column:
    return F.struct(F.col(S.SEQUENCE).alias("at"), F.col(S.CHAIN).alias("link"))


def _in_order() -> WindowSpec:
    return Window.partitionBy(*AUTHOR, "block").orderBy(S.SEQUENCE)
