"""A frame of no rows, which the optimizer knows to have none: nothing of a plan that stands on it is run.

`createDataFrame([], ...)` would be an RDD of Python's, with tasks and Python processes for each look at it.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """None, with these columns."""
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    return spark.range(0).where(F.expr("false")).select(*columns)
