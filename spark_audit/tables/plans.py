"""How Spark makes and runs the plans of a trail, by the size of its tables.

Ten thousand records take no time to read, but a plan over them costs as much as one over millions. So a
small trail is held in memory, in one partition: its plans need no shuffle and do not begin with a table, and
no plan contains that of another (docs/decisions/0087). Its expressions are interpreted. Reads no rows of a
table.
"""

from collections.abc import Collection

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
_FOR_SMALL_TRAILS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Interprets plans and makes each only once. For ten thousand records, compiling plans and planning again
after each stage takes two fifths of a reconciliation's CPU time."""
_FOR_HELD_TRAILS = {HELD: "true", "spark.sql.files.minPartitionNum": "1"}


def adapt_plans(spark: SparkSession, tables: Tables, *, hold: bool = True) -> None:
    """Sets how Spark makes plans, by the size of table `audit`. Settings of the user are left alone.

    A job calls it first: the plans by which Delta reads its own logs are small. Without `hold` no trail is
    held: rows that are held have the same columns wherever they are used, so they cannot be joined with what
    was made of them.
    """
    _apply(spark, 0, hold=hold)
    if DeltaTable.isDeltaTable(spark, tables.audit):
        _apply(spark, size_bytes(spark, tables.audit), hold=hold)


def _apply(spark: SparkSession, size_bytes: int, *, hold: bool) -> None:
    user_settings = dict(spark.sparkContext.getConf().getAll())
    for name, value in plan_settings(size_bytes, user_settings).items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
    if not hold:
        spark.conf.set(HELD, "false")
    elif HELD in user_settings:
        spark.conf.set(HELD, user_settings[HELD])


def plan_settings(size_bytes: int, user_settings: Collection[str]) -> dict[str, str | None]:
    """Returns setting -> value, without the settings of the user. None stands for Spark's default."""
    limits = ((SMALL_TRAIL_BYTES, _FOR_SMALL_TRAILS), (HELD_TRAIL_BYTES, _FOR_HELD_TRAILS))
    return {
        name: value if size_bytes <= most_bytes else None
        for most_bytes, settings in limits
        for name, value in settings.items()
        if name not in user_settings
    }


def held(rows: DataFrame) -> DataFrame:
    """Returns the rows persisted; those of a small trail as `held_if_small` does."""
    return held_if_small(rows) if _is_held(rows) else rows.persist()


def held_if_small(rows: DataFrame) -> DataFrame:
    """Returns the rows of a small trail in one partition, computed once and then in memory.

    Plans that use the result do not contain the plan of the rows. Large trails are returned as they are.
    """
    return rows.coalesce(1).localCheckpoint(eager=False) if _is_held(rows) else rows


def coalesce_small(rows: DataFrame, count: int | None = None) -> DataFrame:
    """Returns the rows persisted, in one partition if there are at most SMALL_ROWS of them.

    Grouping, sorting and joining in one partition needs no shuffle and no extra job. Pass `count` if the
    number of rows is already known. Not for the records of a trail.
    """
    if _is_held(rows):
        return held_if_small(rows)
    persisted = rows.persist()
    return (
        persisted.coalesce(1) if (persisted.count() if count is None else count) <= SMALL_ROWS else persisted
    )


def _is_held(rows: DataFrame) -> bool:
    return rows.sparkSession.conf.get(HELD, "false") == "true"
