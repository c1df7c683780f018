"""The settings of each process, as it has recorded them. Used by the checks."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S

BY_SETTINGS = (*S.BOOT_KEY, S.SETTINGS_GENERATION)
"""Identifies the settings of one boot. Generation 0 is what the process started with."""
SETTINGS_EVENTS = ("started", "settings_changed")

SUPER_USERS = "super_users"
ALLOW_EVERYONE = "allow_everyone"
AUTHORIZER = "authorizer"
SETTINGS_AT = "settings_sequence"


def key_name(process: Column | str) -> Column:
    """Return the name of the key of a process, which its workers share."""
    return F.regexp_replace(process, r"\.w[0-9]+$", "")


def settings(records: DataFrame) -> DataFrame:
    """Return one row per BY_SETTINGS with super_users (array), allow_everyone, authorizer (class name).

    `settings_sequence` is the sequence of the record that holds them. No decision by these settings may have
    a lower one.
    """
    names = F.split(_setting("super.users"), ";")
    allow = F.lower(F.trim(_setting("allow.everyone.if.no.acl.found"))) == "true"
    return recorded_settings(records).select(
        *BY_SETTINGS,
        F.col(S.SEQUENCE).alias(SETTINGS_AT),
        F.transform(names, lambda name: F.trim(name)).alias(SUPER_USERS),
        allow.alias(ALLOW_EVERYONE),
        _setting("authorizer.class.name").alias(AUTHORIZER),
    )


def recorded_settings(records: DataFrame) -> DataFrame:
    """Return the first record that holds the settings, for each BY_SETTINGS.

    `started` holds generation 0, `settings_changed` the generation that it names.
    """
    is_start = F.col(S.EVENT) == "started"
    is_change = (F.col(S.EVENT) == "settings_changed") & (F.col(S.SETTINGS_GENERATION) > 0)
    generation = F.when(is_start, F.lit(0)).otherwise(F.col(S.SETTINGS_GENERATION)).cast("long")
    numbered = records.where(is_start | is_change).withColumn(S.SETTINGS_GENERATION, generation)
    return _first_of_each(BY_SETTINGS, numbered)


def with_generation(records: DataFrame) -> DataFrame:
    """Set the generation 0 in records that name none: they were written by the settings of the start."""
    return records.withColumn(S.SETTINGS_GENERATION, F.coalesce(S.SETTINGS_GENERATION, F.lit(0).cast("long")))


def named_generation() -> Column:
    """Return the generation as the record has it, for evidence: null instead of 0."""
    return F.nullif(F.col(S.SETTINGS_GENERATION), F.lit(0).cast("long")).alias(S.SETTINGS_GENERATION)


def starts(records: DataFrame) -> DataFrame:
    """Return the first `started` record of each boot. A second one, which somebody forged, has no effect."""
    return _first_of_each(S.BOOT_KEY, records.where(F.col(S.EVENT) == "started"))


def _first_of_each(key: tuple[str, ...], records: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*key).orderBy(S.SEQUENCE)
    return records.withColumn("_place", F.row_number().over(in_order)).where("_place = 1").drop("_place")


def _setting(name: str) -> Column:
    return F.coalesce(F.col(S.SETTINGS).getItem(name), F.lit(""))
