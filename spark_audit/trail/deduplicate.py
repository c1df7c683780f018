"""The audit table as the checks read it: each record once, though Kafka may hold it twice.

Fed with table `audit` and its survey; feeds the reconciliation and the report. Which copy is true when they
differ nobody can tell here; that they do is a finding (reconcile/gaps.py).
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.trail.sequence_index import SPAN, repeating, span_of_sequence, survey

_PLACE = (S.KAFKA_PARTITION, S.KAFKA_OFFSET)
_OF_COPY = {name: f"copy_{name}" for name in (*S.RECORD_KEY, *_PLACE)}


def each_record_once(audit: DataFrame, again: DataFrame | None = None) -> DataFrame:
    """Of records with one (proxy_id, boot_id, sequence), the one that Kafka got first.

    The others, which are few, are looked for here and now: in a trail without any, which is the rule, the
    table is read as it is. `again` is `later_copies(audit, survey(audit))`, for who has it.
    """
    others = later_copies(audit, survey(audit)).persist() if again is None else again
    if others.isEmpty():
        return audit
    renamed = others.select(*(F.col(name).alias(copy) for name, copy in _OF_COPY.items()))
    # Joined by the offset alone, which is a number and quickly looked up: the rest of the key is compared
    # only where it is met. Spark would make a key of any equality, so none is written.
    same = F.col(S.KAFKA_OFFSET) == F.col(_OF_COPY[S.KAFKA_OFFSET])
    for name in (*S.RECORD_KEY, S.KAFKA_PARTITION):
        same = same & _neither_less_nor_more(F.col(name), F.col(_OF_COPY[name]))
    return audit.join(F.broadcast(renamed), same, "left_anti")


def later_copies(audit: DataFrame, stretches: DataFrame) -> DataFrame:
    """proxy_id, boot_id, sequence, kafka_partition, kafka_offset of every copy but the first."""
    near = rows_of(audit.select(*S.RECORD_KEY, *_PLACE), repeating(stretches))
    first = F.min(F.struct(*_PLACE)).over(Window.partitionBy(*S.RECORD_KEY))
    return near.withColumn("first", first).where(F.struct(*_PLACE) > F.col("first")).drop("first")


def rows_of(audit: DataFrame, spans: DataFrame) -> DataFrame:
    """The rows of some spans, with the other columns of `spans`. No span: no look at the table."""
    wanted = spans.persist()
    # Counted, so that all of it is there and Spark sees how small it is: the rows of the table stay in place.
    if not wanted.count():
        return audit.limit(0).join(wanted, list(S.BOOT_KEY)).drop(SPAN)
    named = audit.withColumn(SPAN, span_of_sequence())
    return named.join(wanted, [*S.BOOT_KEY, SPAN]).drop(SPAN)


def _neither_less_nor_more(one: Column, other: Column) -> Column:
    return (one <= other) & (one >= other)
