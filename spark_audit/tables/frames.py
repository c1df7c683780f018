"""DataFrames that are cheap to plan: empty ones, and small ones in a single partition. Knows no columns."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

SMALL_ROWS = 200_000
"""Up to this many rows, one task is faster than starting several."""


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """Returns a DataFrame with these columns and no rows.

    The optimizer sees that it is empty and drops every plan that depends on it. `createDataFrame([], ...)`
    would be an RDD of Python objects, which starts tasks and Python processes whenever it is read.
    """
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    return spark.range(0).where(F.expr("false")).select(*columns)


def coalesce_small(rows: DataFrame, count: int | None = None) -> DataFrame:
    """Returns the rows persisted, in one partition if there are at most SMALL_ROWS of them.

    Grouping, sorting and joining in one partition needs no shuffle and no extra job. Pass `count` if the
    number of rows is already known. Not for the records of a trail.
    """
    persisted = rows.persist()
    return (
        persisted.coalesce(1) if (persisted.count() if count is None else count) <= SMALL_ROWS else persisted
    )
