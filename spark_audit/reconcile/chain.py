"""(g) The hash chain of each boot: every record hashed anew with the link of the record before it.

Takes the audit records, each once and with their lines. A link is SHA-256 of the link before it, as 64 hex
digits, and of the line up to that link; the first follows the hash of `<proxy_id>/<boot_id>`. With a key,
HMAC-SHA256 stands for SHA-256, and whoever lacks it cannot write a chain that fits. Records whose
predecessor is missing cannot be judged: that hole is gaps.py's finding. How boots follow each other is
boots.py's affair.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, words
from spark_audit.reconcile.hashing import KEYED, PLAIN, digest, hexadecimal, seed
from spark_audit.trail import AUTHOR

BLOCK = 20_000
"""Records are put in order in blocks of so many, so that one long-lived process is not one task."""
STATE, FITS, ALTERED, UNLINKED, NO_KEY = "state", "fits", "altered", "unlinked", "no_key"

_ALGORITHM, _CHAINED = "algorithm", "chained"
_RUN = (*AUTHOR, STATE, "run")
_SAID = {
    ALTERED: "do not fit the hash chain: they were altered, or written with another key",
    UNLINKED: "have no link of the hash chain, while their process writes one",
    NO_KEY: "are chained with a key: give it with --chain-key",
}


def chain(records: DataFrame, key: bytes | None = None, block: int = BLOCK) -> DataFrame:
    """Both checks below as one table of findings."""
    return broken(states(records, key, block)).unionByName(unkeyed(records, key))


def broken(judged: DataFrame) -> DataFrame:
    """One finding per run of records that do not fit, or could not be judged for want of the key."""
    faults = judged.where(F.col(STATE) != FITS)
    place = F.row_number().over(Window.partitionBy(*AUTHOR, STATE).orderBy(S.SEQUENCE))
    runs = faults.withColumn("run", F.col(S.SEQUENCE) - place).groupBy(*_RUN)
    told = runs.agg(
        F.min(S.DATE).alias(S.DATE),
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
    """A key is given, and a process chains without one: anybody can have written its trail anew."""
    plain = algorithms(records, key).where(
        F.col(_CHAINED) & (F.col(_ALGORITHM) != KEYED) & F.lit(key is not None)
    )
    return findings(
        plain,
        check="chain.unkeyed",
        severity="medium",
        date=S.DATE,
        explanation=words("process %s/%s chains its records by %s, without the key", *AUTHOR, _ALGORITHM),
        evidence=[*AUTHOR, _ALGORITHM],
    )


def states(records: DataFrame, key: bytes | None = None, block: int = BLOCK) -> DataFrame:
    """Each judged record of a chained boot with its `state`: fits, altered, unlinked (has no link), no_key.

    Whole lines are shuffled once, in blocks; only a block's last link goes to the block after it.
    """
    told = records.join(F.broadcast(algorithms(records, key)).drop(S.DATE), list(AUTHOR)).where(_CHAINED)
    read = told.select(
        *AUTHOR, _block(block), S.SEQUENCE, S.DATE, S.KAFKA_OFFSET, S.CHAIN, S.LINE, _ALGORITHM
    )
    in_order = Window.partitionBy(*AUTHOR, "block").orderBy(S.SEQUENCE)
    placed = read.withColumn("before", F.lag(_link()).over(in_order))
    joined = placed.join(F.broadcast(_ends(told, block)), [*AUTHOR, "block"], "left")
    known = joined.withColumn("before", F.coalesce("before", "end_of_block"))
    return known.withColumn(STATE, _state(key)).where(F.col(STATE).isNotNull())


def algorithms(records: DataFrame, key: bytes | None) -> DataFrame:
    """One row per process: `algorithm`, whether it is `chained` at all, and its first day.

    A process whose `started` is missing is taken to chain as the auditor's key says.
    """
    told = F.when(F.col(S.EVENT) == "started", F.col(S.SETTINGS).getItem("audit.chain"))
    return records.groupBy(*AUTHOR).agg(
        F.coalesce(F.max(told), F.lit(PLAIN if key is None else KEYED)).alias(_ALGORITHM),
        (F.max(F.col(S.CHAIN).isNotNull()) | (F.max(S.RECORD_SCHEMA_VERSION) >= S.CHAINED_SINCE)).alias(
            _CHAINED
        ),
        F.min(S.DATE).alias(S.DATE),
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
    follows = F.col("before.at") == F.col(S.SEQUENCE) - 1
    previous = F.when(F.col(S.SEQUENCE) == 0, seed(key)).when(follows, hexadecimal(F.col("before.link")))
    return digest(F.concat(previous, F.col(S.LINE)), key) == F.col(S.CHAIN)


def _ends(records: DataFrame, block: int) -> DataFrame:
    """The last link of each block, filed under the block that follows it."""
    last = F.max_by(_link(), S.SEQUENCE)
    return records.groupBy(*AUTHOR, (_block(block) + 1).alias("block")).agg(last.alias("end_of_block"))


def _block(size: int) -> Column:
    return F.floor(F.col(S.SEQUENCE) / size).alias("block")


def _link() -> Column:
    return F.struct(F.col(S.SEQUENCE).alias("at"), F.col(S.CHAIN).alias("link"))
