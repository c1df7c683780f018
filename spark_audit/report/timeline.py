"""The data of the page's plots: counts the audit records, each once, by plot, interval and series.

The result is small, whatever the number of principals and quota-ids.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.report.aggregates import denied, granted, is_event, requests
from spark_audit.report.plots import MOST_SERIES, OTHERS

PLOT, BUCKET_MS, SERIES, AMOUNT = "plot", "bucket_ms", "series", "amount"
LOGINS = {
    "authentication": "logged in",
    "reauthentication": "re-authenticated",
    "session_expired": "expired",
    "reauthentication_failed": "failed to re-authenticate",
    "authentication_failed": "failed",
    "authentication_collapsed": "failed",
}
"""Event -> its name in the plot of logins, in the order of the legend."""


def timeline(records: DataFrame, bucket_ms: int) -> DataFrame:
    """Returns plot, bucket_ms, series, amount.

    The plots are `allowed` (requests by API), `denied` (requests by principal), `throttled` (milliseconds by
    quota-id) and `logins` (by outcome). A plot has at most MOST_SERIES series; the smallest are OTHERS.
    """
    # The interval of a summary ends with its record. A start after that, or a negative one, is forged.
    begin = F.when(F.col(S.INTERVAL_START_MS).between(0, F.col(S.TIME_MS)), F.col(S.INTERVAL_START_MS))
    moment = F.coalesce(F.when(granted() | denied(), begin), F.col(S.TIME_MS))
    bucket = (F.floor(moment / F.lit(bucket_ms)) * F.lit(bucket_ms)).cast("long")
    drawn = records.select(_plotted().alias("drawn"), bucket.alias(BUCKET_MS)).where("drawn is not null")
    counted = drawn.groupBy("drawn.plot", BUCKET_MS, "drawn.series").agg(F.sum("drawn.amount").alias(AMOUNT))
    folded = counted.join(F.broadcast(_named(counted)), [PLOT, SERIES])
    summed = folded.groupBy(PLOT, BUCKET_MS, F.col("name").alias(SERIES)).agg(F.sum(AMOUNT).alias(AMOUNT))
    return summed.orderBy(PLOT, BUCKET_MS, SERIES)


def _plotted() -> Column:
    outcome = F.coalesce(*(F.when(is_event(event), name) for event, name in LOGINS.items()))
    throttled = F.when(is_event("throttled"), F.col(S.THROTTLE_TIME_MS)).cast("long")
    return F.coalesce(
        F.when(denied(), _piece("denied", F.col(S.PRINCIPAL), requests())),
        F.when(granted(), _piece("allowed", F.col(S.METHOD), requests())),
        F.when(throttled > 0, _piece("throttled", F.col(S.QUOTA_ID), throttled)),
        F.when(outcome.isNotNull(), _piece("logins", outcome, requests())),
    )


def _piece(plot: str, series: Column, amount: Column) -> Column:
    named = F.coalesce(series, F.lit("(unknown)"))
    return F.struct(F.lit(plot).alias(PLOT), named.alias(SERIES), amount.alias(AMOUNT))


def _named(counted: DataFrame) -> DataFrame:
    """Returns the name under which each series is drawn, so that the driver collects only a few series."""
    sums = counted.groupBy(PLOT, SERIES).agg(F.sum(AMOUNT).alias("all"))
    of_plot = Window.partitionBy(PLOT)
    rank = F.row_number().over(of_plot.orderBy(F.col("all").desc(), SERIES))
    ranked = sums.withColumn("rank", rank).withColumn("number", F.count(F.lit(1)).over(of_plot))
    is_drawn = (F.col("number") <= MOST_SERIES) | (F.col("rank") < MOST_SERIES)
    return ranked.select(PLOT, SERIES, F.when(is_drawn, F.col(SERIES)).otherwise(F.lit(OTHERS)).alias("name"))
