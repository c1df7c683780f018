"""Whose a record is, and what each process was told to do.

Fed with the audit records; feeds every check. Reads no storage.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S

BY_SETTINGS = (*S.BOOT_KEY, S.SETTINGS_GENERATION)
"""Which settings of which process: generation 0 are those that it started with."""
TELLS_SETTINGS = ("started", "settings_changed")

SUPER_USERS = "super_users"
ALLOW_EVERYONE = "allow_everyone"
AUTHORIZER = "authorizer"
SETTINGS_AT = "settings_sequence"


def settings(records: DataFrame) -> DataFrame:
    """One row for each BY_SETTINGS: super users (array), allow.everyone.if.no.acl.found, authorizer's class.

    `settings_sequence`: the sequence of the record that says so; no decision by them may come before it.
    """
    names = F.split(_setting("super.users"), ";")
    allow = F.lower(F.trim(_setting("allow.everyone.if.no.acl.found"))) == "true"
    return told_settings(records).select(
        *BY_SETTINGS,
        F.col(S.SEQUENCE).alias(SETTINGS_AT),
        F.transform(names, lambda name: F.trim(name)).alias(SUPER_USERS),
        allow.alias(ALLOW_EVERYONE),
        _setting("authorizer.class.name").alias(AUTHORIZER),
    )


def told_settings(records: DataFrame) -> DataFrame:
    """The records in which processes say by which settings they decide, the first for each BY_SETTINGS.

    `started` is generation 0, a `settings_changed` the one that it names.
    """
    of_start = F.col(S.EVENT) == "started"
    changed = (F.col(S.EVENT) == "settings_changed") & (F.col(S.SETTINGS_GENERATION) > 0)
    generation = F.when(of_start, F.lit(0)).otherwise(F.col(S.SETTINGS_GENERATION)).cast("long")
    numbered = records.where(of_start | changed).withColumn(S.SETTINGS_GENERATION, generation)
    in_order = Window.partitionBy(*BY_SETTINGS).orderBy(S.SEQUENCE)
    return numbered.withColumn("_place", F.row_number().over(in_order)).where("_place = 1").drop("_place")


def with_generation(records: DataFrame) -> DataFrame:
    """A record that names no settings was made by those of the start."""
    return records.withColumn(S.SETTINGS_GENERATION, F.coalesce(S.SETTINGS_GENERATION, F.lit(0).cast("long")))


def named_generation() -> Column:
    """As in the record, and so in the evidence: null for those of the start."""
    return F.nullif(F.col(S.SETTINGS_GENERATION), F.lit(0).cast("long")).alias(S.SETTINGS_GENERATION)


def starts(records: DataFrame) -> DataFrame:
    """The first `started` record of each process: whoever writes a second one changes nothing by it."""
    in_order = Window.partitionBy(*S.BOOT_KEY).orderBy(S.SEQUENCE)
    started = records.where(F.col(S.EVENT) == "started").withColumn("_place", F.row_number().over(in_order))
    return started.where("_place = 1").drop("_place")


def _setting(name: str) -> Column:
    return F.coalesce(F.col(S.SETTINGS).getItem(name), F.lit(""))
