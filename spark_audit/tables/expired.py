"""Table `expired`: what was deleted as too old, so that no check misses it.

Its rows are ranges of sequences of a boot, and ranges of offsets of a partition. A range may have records
that expiry left. `retention` writes it; the checks that look for missing records read it.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S

FIRST, LAST = "expired_first", "expired_last"
IS_EXPIRED = "is_expired"


def expired_sequences(expired: DataFrame) -> DataFrame:
    """Return BOOT_KEY, FIRST, LAST: the deleted ranges of sequences, each as large as it can be."""
    # A row of an earlier release has no first sequence: up to the last one, all had been deleted.
    first = F.coalesce(S.FIRST_SEQUENCE, F.lit(0))
    return _merged(expired.where(F.col(S.LAST_SEQUENCE).isNotNull()), S.BOOT_KEY, first, S.LAST_SEQUENCE)


def expired_offsets(expired: DataFrame) -> DataFrame:
    """Return the same of offsets: PARTITION, FIRST, LAST."""
    rows = expired.where(F.col(S.FIRST_OFFSET).isNotNull())
    return _merged(rows, S.PARTITION, F.col(S.FIRST_OFFSET), S.LAST_OFFSET)


def with_expired(rows: DataFrame, ranges: DataFrame, of: Sequence[str], first: str, last: str) -> DataFrame:
    """Add IS_EXPIRED: whether a row's numbers from `first` to `last` are all in one of the ranges.

    `ranges` is one of the two above, with the key `of`.
    """
    named = ranges.select(*(F.col(name).alias(f"expired_{name}") for name in of), FIRST, LAST)
    within = [F.col(name) == F.col(f"expired_{name}") for name in of]
    within += [F.col(first) >= F.col(FIRST), F.col(last) <= F.col(LAST)]
    joined = rows.join(F.broadcast(named), within, "left").withColumn(IS_EXPIRED, F.col(FIRST).isNotNull())
    return joined.drop(*named.columns)


def unexpired(rows: DataFrame, ranges: DataFrame, of: Sequence[str], first: str, last: str) -> DataFrame:
    """Return the rows of which `with_expired` says that they are not expired."""
    return with_expired(rows, ranges, of, first, last).where(~F.col(IS_EXPIRED)).drop(IS_EXPIRED)


def _merged(rows: DataFrame, of: Sequence[str], first: Column, last: str) -> DataFrame:
    in_order = Window.partitionBy(*of).orderBy(FIRST)
    before = F.max(last).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    placed = rows.withColumn(FIRST, first)
    begins = placed.withColumn("begins", F.coalesce(F.col(FIRST) > before + 1, F.lit(True)).cast("int"))
    islands = begins.withColumn("island", F.sum("begins").over(in_order)).groupBy(*of, "island")
    return islands.agg(F.min(FIRST).alias(FIRST), F.max(last).alias(LAST)).drop("island")
