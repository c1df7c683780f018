"""How Spark makes and runs the plans of a trail, by the size of its tables.

Ten thousand records take no time to read, but a plan over them costs as much as one over millions. So a
small trail is held in memory, in one partition: its plans need no shuffle and do not begin with a table, and
no plan contains that of another (docs/decisions/0087). Its expressions are interpreted. Reads no rows of a
table.
"""

from collections.abc import Mapping
from weakref import WeakSet

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from spark_audit.tables.delta import Tables, size_bytes

SMALL_ROWS = 200_000
"""Up to this many rows, one task is faster than starting several."""
SMALL_TRAIL_BYTES = 32 << 20
"""Size of table `audit` on storage: a few hundred thousand records."""
HELD_TRAIL_BYTES = 8 << 20
"""The same for a trail that is held in memory: less than a hundred thousand records."""
HELD = "spark.penstock.trailIsHeld"
LOCAL_PARTITIONS = {
    # The defaults are for clusters: two hundred shuffle tasks for a thousand rows cost seconds on a laptop.
    "spark.sql.shuffle.partitions": "4",
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""Settings of a session on one machine."""
FOR_SMALL_TRAILS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Interprets plans and makes each only once. For ten thousand records, compiling plans and planning again
after each stage takes two fifths of a reconciliation's CPU time."""
_FOR_HELD_TRAILS = {
    HELD: "true",
    "spark.sql.files.minPartitionNum": "1",
    **dict.fromkeys(LOCAL_PARTITIONS, "1"),
}


def adapt_plans(spark: SparkSession, tables: Tables, *, hold: bool = True) -> None:
    """Set how Spark makes plans, by the size of table `audit`. Settings of the user are left alone.

    A job calls it first: the plans by which Delta reads its own logs are small. Without `hold` no trail is
    held: rows that are held have the same columns wherever they are used, so they cannot be joined with what
    was made of them.
    """
    _apply(spark, 0, hold=hold)
    if DeltaTable.isDeltaTable(spark, tables.audit):
        _apply(spark, size_bytes(spark, tables.audit), hold=hold)


def _apply(spark: SparkSession, size_bytes: int, *, hold: bool) -> None:
    of_session = dict(spark.sparkContext.getConf().getAll())
    for name, value in plan_settings(size_bytes, of_session).items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
    if not hold:
        spark.conf.set(HELD, "false")
    elif HELD in of_session:
        spark.conf.set(HELD, of_session[HELD])


def plan_settings(size_bytes: int, of_session: Mapping[str, str]) -> dict[str, str | None]:
    """Return setting -> value, without the settings of the user. None stands for Spark's default.

    `of_session` are the settings with which the session was opened. LOCAL_PARTITIONS among them are not the
    user's. They come back with a larger trail: Spark forgets them when a setting is unset.
    """
    limits = ((SMALL_TRAIL_BYTES, FOR_SMALL_TRAILS), (HELD_TRAIL_BYTES, _FOR_HELD_TRAILS))
    return {
        name: value if size_bytes <= most_bytes else of_session.get(name)
        for most_bytes, settings in limits
        for name, value in settings.items()
        if of_session.get(name) in (None, LOCAL_PARTITIONS.get(name))
    }


def held(rows: DataFrame) -> DataFrame:
    """Return the rows persisted; those of a small trail as `held_if_small` does."""
    return held_if_small(rows) if is_held(rows) else rows.persist()


def held_if_small(rows: DataFrame) -> DataFrame:
    """Return the rows of a small trail in one partition, computed once and then in memory.

    Plans that use the result do not contain the plan of the rows. Large trails are returned as they are.
    """
    if not is_held(rows) or rows in _in_memory:
        return rows
    result = rows.coalesce(1).localCheckpoint(eager=False)
    _in_memory.add(result)
    return result


_in_memory: WeakSet[DataFrame] = WeakSet()
"""What `held_if_small` has returned, so that it is not copied again."""


def coalesce_small(rows: DataFrame, count: int | None = None) -> DataFrame:
    """Return the rows persisted, in one partition if there are at most SMALL_ROWS of them.

    Grouping, sorting and joining in one partition needs no shuffle and no extra job. Pass `count` if the
    number of rows is already known. Not for the records of a trail.
    """
    if is_held(rows):
        return held_if_small(rows)
    persisted = rows.persist()
    return (
        persisted.coalesce(1) if (persisted.count() if count is None else count) <= SMALL_ROWS else persisted
    )


def is_held(rows: DataFrame) -> bool:
    """Return whether the records of the trail of this session are held in one partition."""
    return rows.sparkSession.conf.get(HELD, "false") == "true"
