"""Table `audit` with each record once, although Kafka may hold it twice.

Used by the reconciliation and the report. If two copies of a record differ, this module cannot know which
one is true; that they differ is a finding (reconcile/gaps.py).
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.trail.sequence_index import SPAN, repeated_spans, sequence_index, span_of_sequence

_PLACE = (S.KAFKA_PARTITION, S.KAFKA_OFFSET)
_OF_COPY = {name: f"copy_{name}" for name in (*S.RECORD_KEY, *_PLACE)}


def deduplicate(audit: DataFrame, copies: DataFrame | None = None) -> DataFrame:
    """Returns the first copy in Kafka of each record.

    Runs a job to find the later copies, which are few. A trail without any, which is the rule, is returned
    as it is. Pass `copies` if `later_copies(audit, sequence_index(audit))` is already known.
    """
    later = later_copies(audit, sequence_index(audit)).persist() if copies is None else copies
    if later.isEmpty():
        return audit
    renamed = later.select(*(F.col(name).alias(copy) for name, copy in _OF_COPY.items()))
    # The join key is the offset alone, a number that is fast to look up. Spark makes a join key of every
    # equality, so the rest of the key is compared with two inequalities, and only where the offset is equal.
    same = F.col(S.KAFKA_OFFSET) == F.col(_OF_COPY[S.KAFKA_OFFSET])
    for name in (*S.RECORD_KEY, S.KAFKA_PARTITION):
        same = same & _neither_less_nor_more(F.col(name), F.col(_OF_COPY[name]))
    return audit.join(F.broadcast(renamed), same, "left_anti")


def later_copies(audit: DataFrame, index: DataFrame) -> DataFrame:
    """Returns proxy_id, boot_id, sequence, kafka_partition, kafka_offset of every copy but the first."""
    near = rows_of(audit.select(*S.RECORD_KEY, *_PLACE), repeated_spans(index))
    first = F.min(F.struct(*_PLACE)).over(Window.partitionBy(*S.RECORD_KEY))
    return near.withColumn("first", first).where(F.struct(*_PLACE) > F.col("first")).drop("first")


def rows_of(audit: DataFrame, spans: DataFrame) -> DataFrame:
    """Returns the rows of some spans, with the other columns of `spans`. Does not read `audit` if empty."""
    wanted = spans.persist()
    # Counted so that it is computed and Spark sees how small it is: then it does not shuffle the table.
    if not wanted.count():
        return audit.limit(0).join(wanted, list(S.BOOT_KEY)).drop(SPAN)
    named = audit.withColumn(SPAN, span_of_sequence())
    return named.join(wanted, [*S.BOOT_KEY, SPAN]).drop(SPAN)


def _neither_less_nor_more(one: Column, other: Column) -> Column:
    return (one <= other) & (one >= other)
