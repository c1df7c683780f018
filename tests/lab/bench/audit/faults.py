"""What is planted in a trail of any size, and which findings that has to give: one of each kind.

`FORCED` is what a process writes itself (its chain fits); `spoil` what is done to the table afterwards.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from tests.lab.bench.audit.events import Shape
from tests.spark.audit_trail import Trail

HOUR_MS = 3_600_000
MUCH = 10_000_000_000
PRODUCE, DENIED = 60, 99

EXPECTED = {
    "changes.unexplained": 1,
    "chain.altered": 1,
    "chain.boot_missing": 1,
    "chain.tail_missing": 1,
    "decisions.wrongly_granted": 1,
    "forwarded.not_in_the_log": 1,
    "gaps.different_copies": 1,
    "gaps.hole": 1,
    "gaps.unfinished": 1,
    "quotas.exceeded": 1,
    "sessions.overrun": 1,
}


def place(shape: Shape, boot: int, further: int = 0) -> int:
    """The number of a record in the middle of a boot, of ordinary traffic."""
    middle = shape.boot_size // 200 * 100 + 50
    return boot * shape.boot_size + middle + further


def forced(shape: Shape) -> dict[str, dict[int, object]]:
    """What a process that was changed would write; for events.events."""
    flipped, late, much, more = place(shape, 3), place(shape, 4), place(shape, 5), place(shape, 5, 1)
    return {
        "kind": {flipped: DENIED, late: PRODUCE, much: PRODUCE, more: PRODUCE},
        "granted": {flipped: True},
        "late_ms": {late: 2 * HOUR_MS},
        "user": {much: 0, more: 0},
        "bytes": {much: MUCH, more: MUCH},
    }


def spoil(audit: DataFrame, shape: Shape) -> DataFrame:
    """Table `audit` with records removed, altered and repeated; in one pass, as making it takes long."""
    n = F.col(S.KAFKA_OFFSET)
    boot, sequence = F.floor(n / shape.boot_size), n % shape.boot_size
    tail = (boot == 7) & (sequence >= shape.boot_size - 10)
    left = audit.where((n != place(shape, 0)) & (boot != 6) & ~tail)
    line = F.when(n == place(shape, 1), F.replace(S.LINE, F.lit("SASL_SSL"), F.lit("PLAIN")))
    times = F.when(n == place(shape, 2), F.array(F.lit(0), F.lit(1))).otherwise(F.array(F.lit(0)))
    copied = left.withColumn("copy", F.explode(times))
    body = F.when(F.col("copy") == 1, F.lit(b"another")).otherwise(F.col(S.BODY_SHA256))
    spoiled = {
        S.LINE: F.coalesce(line, S.LINE),
        S.BODY_SHA256: body,
        S.KAFKA_OFFSET: n + 100 * F.col("copy"),
    }
    return copied.withColumns(spoiled).drop("copy")


def spoil_log(trail: Trail) -> None:
    """One change that nobody asked for, and one that is gone; no decision is about either."""
    gone = trail.log[-1]
    trail.log[-1] = gone | {
        "offset": gone["offset"] + 1_000_000,
        "api_key": 10,
        "record": "DelegationTokenRecord",
    }
