"""The metadata log without the records of metadata transactions that never took effect (KIP-868).

A transaction that was aborted, or has not ended yet, has no effect. Its records stay in the log as
NoOpRecord, because a missing offset would count as a hole. The reconciliation calls this before any check.
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S


def without_aborted(log: DataFrame) -> DataFrame:
    """Returns the same rows. Records of aborted or open transactions are NoOpRecords."""
    spans = [(row["first"], row["last"]) for row in _without_effect(log).collect()]
    if not spans:
        return log
    within = reduce(or_, (_between(first, last) for first, last in spans)) & ~_from_snapshot()
    nothing = {S.API_KEY: F.lit(S.NO_OP_RECORD), S.RECORD: F.lit("NoOpRecord"), S.BODY: F.lit("{}")}
    return log.withColumns(
        {name: F.when(within, value).otherwise(F.col(name)) for name, value in nothing.items()}
    )


def _without_effect(log: DataFrame) -> DataFrame:
    """Returns the first and last offset of each such transaction. `last` is null if it has no end."""
    kinds = (S.BEGIN_TRANSACTION_RECORD, S.END_TRANSACTION_RECORD, S.ABORT_TRANSACTION_RECORD)
    marks = log.where(F.col(S.API_KEY).isin(*kinds) & ~_from_snapshot())
    in_order = Window.orderBy(S.LOG_OFFSET)
    spans = marks.select(
        S.API_KEY,
        F.col(S.LOG_OFFSET).alias("first"),
        F.lead(S.LOG_OFFSET).over(in_order).alias("last"),
        F.lead(S.API_KEY).over(in_order).alias("ended_by"),
    )
    aborted = F.col("ended_by").isNull() | (F.col("ended_by") != S.END_TRANSACTION_RECORD)
    return spans.where((F.col(S.API_KEY) == S.BEGIN_TRANSACTION_RECORD) & aborted).select("first", "last")


def _between(first: int, last: int | None) -> Column:
    offset = F.col(S.LOG_OFFSET)
    return offset >= first if last is None else offset.between(first, last)


def _from_snapshot() -> Column:
    return F.coalesce(F.col(S.FROM_SNAPSHOT), F.expr("false"))
