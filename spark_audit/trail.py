"""The audit table as the checks read it: each record once, and what each process was told to do.

Fed with table `audit`; feeds every check and the report. Reads no storage.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S

KEY = (S.PROXY_ID, S.BOOT_ID, S.SEQUENCE)
AUTHOR = (S.PROXY_ID, S.BOOT_ID)

SUPER_USERS = "super_users"
ALLOW_EVERYONE = "allow_everyone"
AUTHORIZER = "authorizer"


def repeated(audit: DataFrame) -> DataFrame:
    """(proxy_id, boot_id, sequence) of what is there more than once, with the `first_place` Kafka had it."""
    place = F.struct(S.KAFKA_PARTITION, S.KAFKA_OFFSET)
    counted = audit.groupBy(*KEY).agg(F.count(F.lit(1)).alias("copies"), F.min(place).alias("first_place"))
    return counted.where("copies > 1").drop("copies")


def each_record_once(audit: DataFrame, copies: DataFrame | None = None) -> DataFrame:
    """Of records with one (proxy_id, boot_id, sequence), the one that Kafka got first.

    Only the keys are shuffled to find the repeated ones, which are few; whole rows stay where they are.
    They are looked for here and now: in a trail without any, which is the rule, the table is read as it is.
    `copies` is `repeated(audit)`, for who has it.
    """
    found = repeated(audit).persist() if copies is None else copies
    if found.isEmpty():
        return audit
    joined = audit.join(found, list(KEY), "left")
    place = F.struct(S.KAFKA_PARTITION, S.KAFKA_OFFSET)
    kept = joined.where(F.col("first_place").isNull() | (F.col("first_place") == place))
    return kept.select(*audit.columns)


def settings(records: DataFrame) -> DataFrame:
    """One row per process: super users (array), allow.everyone.if.no.acl.found, the authorizer's class.

    From its `started` record, the only place where a process says by which settings it decides.
    """
    started = records.where(F.col(S.EVENT) == "started").dropDuplicates(list(AUTHOR))
    names = F.split(_setting("super.users"), ";")
    allow = F.lower(F.trim(_setting("allow.everyone.if.no.acl.found"))) == "true"
    return started.select(
        *AUTHOR,
        F.transform(names, lambda name: F.trim(name)).alias(SUPER_USERS),
        allow.alias(ALLOW_EVERYONE),
        _setting("authorizer.class.name").alias(AUTHORIZER),
    )


def _setting(name: str) -> Column:
    return F.coalesce(F.col(S.SETTINGS).getItem(name), F.lit(""))
