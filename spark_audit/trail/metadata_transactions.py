"""The metadata log without what was taken back: records of a metadata transaction that was aborted (KIP-868).

Such records were never in force, nor are those of one that has not ended yet. Their offsets stay, as those of
records that change nothing, for an offset that is missing would be a hole. Called by the reconciliation
before any check sees the log.
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S

_BEGIN, _END, _ABORT = 23, 24, 25
_NO_OP, _NO_OP_NAME = 20, "NoOpRecord"


def in_force(log: DataFrame) -> DataFrame:
    """The same rows; those that never were in force are NoOpRecords."""
    spans = [(row["first"], row["last"]) for row in _without_effect(log).collect()]
    if not spans:
        return log
    within = reduce(or_, (_between(first, last) for first, last in spans)) & ~_of_a_snapshot()
    nothing = {S.API_KEY: F.lit(_NO_OP), S.RECORD: F.lit(_NO_OP_NAME), S.BODY: F.lit("{}")}
    return log.withColumns(
        {name: F.when(within, value).otherwise(F.col(name)) for name, value in nothing.items()}
    )


def _without_effect(log: DataFrame) -> DataFrame:
    """For each transaction that was aborted or has no end its offsets; `last` is null without an end."""
    marks = log.where(F.col(S.API_KEY).isin(_BEGIN, _END, _ABORT) & ~_of_a_snapshot())
    in_order = Window.orderBy(S.LOG_OFFSET)
    spans = marks.select(
        S.API_KEY,
        F.col(S.LOG_OFFSET).alias("first"),
        F.lead(S.LOG_OFFSET).over(in_order).alias("last"),
        F.lead(S.API_KEY).over(in_order).alias("ended_by"),
    )
    aborted = F.col("ended_by").isNull() | (F.col("ended_by") != _END)
    return spans.where((F.col(S.API_KEY) == _BEGIN) & aborted).select("first", "last")


def _between(first: int, last: int | None) -> Column:
    offset = F.col(S.LOG_OFFSET)
    return offset >= first if last is None else offset.between(first, last)


def _of_a_snapshot() -> Column:
    return F.coalesce(F.col(S.FROM_SNAPSHOT), F.expr("false"))
