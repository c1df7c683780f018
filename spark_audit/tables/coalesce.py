"""Small frames in one partition: what is grouped, sorted or joined there needs no shuffle and no job.

Fed by the reconciliation and its checks with what was already collapsed: the metadata log, outlines, distinct
questions. A trail's own records are never brought together. Knows no columns.
"""

from pyspark.sql import DataFrame

SMALL_ROWS = 200_000
"""Up to so many rows one task is through with them sooner than many tasks are started."""


def together(rows: DataFrame, number: int | None = None) -> DataFrame:
    """The rows, computed once and kept; in one partition if they are few. `number`: how many, if known."""
    kept = rows.persist()
    return kept.coalesce(1) if (kept.count() if number is None else number) <= SMALL_ROWS else kept
