"""(g) The hash chain of each boot: every record hashed anew with the link of the record before it.

Takes the audit records, each once and with their lines. A link is SHA-256 of the link before it, as 64 hex
digits, and of the line up to that link; the first follows the hash of `<proxy_id>/<boot_id>`. With a key,
HMAC-SHA256 stands for SHA-256, and whoever lacks it cannot write a chain that fits. Records whose
predecessor is missing cannot be judged: that hole is gaps.py's finding. How boots follow each other is
boots.py's affair.
"""

from collections.abc import Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, words
from spark_audit.reconcile.hashing import KEYED, PLAIN, digest, hexadecimal, seed

TASK_RECORDS = 500_000
"""So many lines to a task: the links before them are held in memory, the lines are not."""
STATE, FITS, ALTERED, UNLINKED, NO_KEY = "state", "fits", "altered", "unlinked", "no_key"

_ALGORITHM, _CHAINED, _SINCE = "algorithm", "chained", "since_ms"
_COUNTED, _BEFORE = "counted", "link_before"
_RUN = (*S.BOOT_KEY, STATE, S.DATE, "run")
_SAID = {
    ALTERED: "do not fit the hash chain: they were altered, or written with another key",
    UNLINKED: "have no link of the hash chain, while their process writes one",
    NO_KEY: "are chained with a key: give it with --chain-key",
}


def chain(records: DataFrame, key: bytes | None = None, days: Sequence[date] = ()) -> DataFrame:
    """Both checks below as one table of findings. `days`: only the lines of these are read and hashed."""
    told = algorithms(records, key).persist()
    return broken(states(records, told, key, days)).unionByName(unkeyed(told, key))


def broken(judged: DataFrame) -> DataFrame:
    """One finding per day's run of records that do not fit, or could not be judged for want of the key."""
    faults = judged.where(F.col(STATE) != FITS)
    place = F.row_number().over(Window.partitionBy(*S.BOOT_KEY, STATE, S.DATE).orderBy(S.SEQUENCE))
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
            "records %s to %s of process %s/%s %s", "first_sequence", "last_sequence", *S.BOOT_KEY, said
        ),
        evidence=[*S.BOOT_KEY, "first_sequence", "last_sequence", "first_kafka_offset"],
    )


def unkeyed(processes: DataFrame, key: bytes | None) -> DataFrame:
    """A key is given, and a process does not chain with one: anybody can have written its trail anew.

    Of those without any chain only who started after the first that has the key: older versions had none.
    """
    told = processes.where(F.lit(key is not None))
    keyed_since = told.agg(F.min(F.when(F.col(_CHAINED) & _keyed(), F.col(_SINCE))).alias("keyed_since"))
    late = ~F.col(_CHAINED) & (F.col(_SINCE) > F.col("keyed_since"))
    faulty = told.crossJoin(F.broadcast(keyed_since)).where((F.col(_CHAINED) & ~_keyed()) | late)
    named = F.when(F.col(_CHAINED), F.col(_ALGORITHM)).otherwise("nothing").alias(_ALGORITHM)
    return findings(
        faulty.withColumn(_ALGORITHM, named),
        check="chain.unkeyed",
        severity="medium",
        date=S.DATE,
        explanation=words("process %s/%s chains its records by %s, without the key", *S.BOOT_KEY, _ALGORITHM),
        evidence=[*S.BOOT_KEY, _ALGORITHM],
    )


def _keyed() -> Column:
    return F.col(_ALGORITHM) == KEYED


def states(
    records: DataFrame, told: DataFrame, key: bytes | None = None, days: Sequence[date] = ()
) -> DataFrame:
    """Each judged record of a chained boot with its `state`: fits, altered, unlinked (has no link), no_key.

    `told` is `algorithms(records, key)`. Lines and links meet once, by their sequence; a line is hashed as
    it comes and is neither sorted nor kept.
    """
    chained = F.broadcast(told.where(_CHAINED).select(*S.BOOT_KEY, _ALGORITHM))
    near = records.where(F.col(S.DATE).isin(*days)) if days else records
    lines = near.select(*S.RECORD_KEY, S.DATE, S.KAFKA_OFFSET, S.CHAIN, S.LINE).join(
        chained, list(S.BOOT_KEY)
    )
    links = _links(near).unionByName(_of_other_days(records, near)) if days else _links(records)
    tasks = _tasks(told)
    joined = lines.repartition(tasks, *S.RECORD_KEY).join(
        links.repartition(tasks, *S.RECORD_KEY).hint("shuffle_hash"), list(S.RECORD_KEY), "left"
    )
    return joined.withColumn(STATE, _state(key)).where(F.col(STATE).isNotNull())


def _links(records: DataFrame) -> DataFrame:
    """Each link with the sequence of the record that comes after it."""
    # The last sequence there can be has none after it.
    after = F.try_add(S.SEQUENCE, F.lit(1)).alias(S.SEQUENCE)
    return records.where(F.col(S.CHAIN).isNotNull()).select(*S.BOOT_KEY, after, F.col(S.CHAIN).alias(_BEFORE))


def _of_other_days(records: DataFrame, near: DataFrame) -> DataFrame:
    """The links before those records of some days whose predecessor is of another day."""
    keys = near.select(*S.RECORD_KEY)
    alone = keys.where(F.col(S.SEQUENCE) != 0).join(_links(near), list(S.RECORD_KEY), "left_anti").persist()
    if not alone.count():
        return _links(records).limit(0)
    return _links(records).join(alone, list(S.RECORD_KEY), "left_semi")


def _tasks(told: DataFrame) -> int:
    counted = told.where(_CHAINED).agg(F.sum(_COUNTED)).first()
    records = int((counted and counted[0]) or 0)
    return max(told.sparkSession.sparkContext.defaultParallelism, records // TASK_RECORDS + 1)


def algorithms(records: DataFrame, key: bytes | None) -> DataFrame:
    """One row per process: `algorithm`, whether it is `chained` at all, its first day and moment.

    A process whose `started` is missing is taken to chain as the auditor's key says.
    """
    told = F.when(F.col(S.EVENT) == "started", F.col(S.SETTINGS).getItem("audit.chain"))
    return records.groupBy(*S.BOOT_KEY).agg(
        F.coalesce(F.max(told), F.lit(PLAIN if key is None else KEYED)).alias(_ALGORITHM),
        (F.max(F.col(S.CHAIN).isNotNull()) | (F.max(S.RECORD_SCHEMA_VERSION) >= S.CHAINED_SINCE)).alias(
            _CHAINED
        ),
        F.min(S.DATE).alias(S.DATE),
        F.min(S.TIME_MS).alias(_SINCE),
        F.count(F.lit(1)).alias(_COUNTED),
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
    previous = F.when(first, seed(key)).otherwise(hexadecimal(F.col(_BEFORE)))
    return digest(F.concat(previous, F.col(S.LINE)), key) == F.col(S.CHAIN)
