"""Whose a record is, and what each process was told to do.

Fed with the audit records; feeds every check. Reads no storage.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S

KEY = (S.PROXY_ID, S.BOOT_ID, S.SEQUENCE)
AUTHOR = (S.PROXY_ID, S.BOOT_ID)

SUPER_USERS = "super_users"
ALLOW_EVERYONE = "allow_everyone"
AUTHORIZER = "authorizer"


def settings(records: DataFrame) -> DataFrame:
    """One row per process: super users (array), allow.everyone.if.no.acl.found, the authorizer's class.

    From its `started` record, the only place where a process says by which settings it decides.
    """
    started = starts(records)
    names = F.split(_setting("super.users"), ";")
    allow = F.lower(F.trim(_setting("allow.everyone.if.no.acl.found"))) == "true"
    return started.select(
        *AUTHOR,
        F.transform(names, lambda name: F.trim(name)).alias(SUPER_USERS),
        allow.alias(ALLOW_EVERYONE),
        _setting("authorizer.class.name").alias(AUTHORIZER),
    )


def starts(records: DataFrame) -> DataFrame:
    """The first `started` record of each process: whoever writes a second one changes nothing by it."""
    in_order = Window.partitionBy(*AUTHOR).orderBy(S.SEQUENCE)
    started = records.where(F.col(S.EVENT) == "started").withColumn("_place", F.row_number().over(in_order))
    return started.where("_place = 1").drop("_place")


def _setting(name: str) -> Column:
    return F.coalesce(F.col(S.SETTINGS).getItem(name), F.lit(""))
