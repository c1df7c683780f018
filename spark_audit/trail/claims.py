"""The metadata offsets that a controller claims to have written, and for which request.

Claims are `forwarded_received` records of role controller, and those of what it has written by itself
(schema.UNREQUESTED). forwarded.py checks that the log has what is claimed, changes.py that
everything in the log is claimed.
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.trail.processes import key_name

OUTCOME_UNKNOWN_MS = 600_000
"""A controller that did not learn the outcome of a commit takes less time than this to read the log again."""
LARGEST_CLAIM = 100_000
"""No request writes more records in one transaction. A forged record must not blow up the join."""
_LARGE_CLAIM = 64
"""Larger claims are few. Each offset counts in one of them only: forged ones would be many rows each."""
_BEYOND_THE_END = 32
"""Offsets of a claim that count after the end of the log, where no record is."""

OF_TOPICS = (S.TOPIC_RECORD, S.CONFIG_RECORD, S.REMOVE_TOPIC_RECORD)
OF_ACLS = (S.ACCESS_CONTROL_ENTRY_RECORD, S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD)

# The records that a request can write. The owner and the ACLs of a topic are configs of it.
WRITTEN_BY = {
    "CreateAcls": (S.ACCESS_CONTROL_ENTRY_RECORD,),
    "DeleteAcls": (S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD,),
    "CreateTopics": (S.ACCESS_CONTROL_ENTRY_RECORD, *OF_TOPICS),
    "DeleteTopics": (S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD, *OF_TOPICS),
    "AlterConfigs": (*OF_ACLS, *OF_TOPICS),
    "IncrementalAlterConfigs": (*OF_ACLS, *OF_TOPICS),
    "AlterClientQuotas": (S.CLIENT_QUOTA_RECORD,),
    "AlterUserScramCredentials": (S.USER_SCRAM_CREDENTIAL_RECORD, S.REMOVE_USER_SCRAM_CREDENTIAL_RECORD),
    "CreateDelegationToken": (S.DELEGATION_TOKEN_RECORD,),
    "RenewDelegationToken": (S.DELEGATION_TOKEN_RECORD,),
    "ExpireDelegationToken": (S.DELEGATION_TOKEN_RECORD, S.REMOVE_DELEGATION_TOKEN_RECORD),
}
WRITTEN_BY["MetadataLog"] = tuple(sorted({api_key for kinds in WRITTEN_BY.values() for api_key in kinds}))
"""The method of `log_written_again`."""


def of_role(rows: DataFrame, records: DataFrame, role: str) -> DataFrame:
    """Return the rows of processes that have started in this role only.

    Each record names a role, and who has the key of a process can write any. But all boots of a process have
    the name of its key.
    """
    named = key_name(S.PROXY_ID).alias("named")
    others = records.where((F.col(S.EVENT) == "started") & (F.col(S.ROLE) != role)).select(named)
    return (
        rows.select("*", named)
        .join(F.broadcast(others.distinct()), "named", "left_anti")
        .select(*rows.columns)
    )


def told(records: DataFrame) -> DataFrame:
    """Return what proxies have recorded of their forwards. What a controller records so, no proxy sent."""
    return of_role(records.where(F.col(S.EVENT) == "forwarded"), records, "proxy")


def received(records: DataFrame) -> DataFrame:
    """Return the controller's records of forwarded requests. Those of any other role do not count."""
    return records.where((F.col(S.EVENT) == "forwarded_received") & (F.col(S.ROLE) == "controller"))


def claiming(records: DataFrame) -> DataFrame:
    """Return the records that claim offsets, of requests and of what a controller has written by itself."""
    by_itself = F.col(S.EVENT).isin(*S.UNREQUESTED) & (F.col(S.ROLE) == "controller")
    return received(records).unionByName(records.where(by_itself))


def possible_range() -> Column:
    """Return whether first_offset to last_offset can be the offsets of one transaction."""
    size = F.col(S.LAST_OFFSET) - F.col(S.FIRST_OFFSET)
    return F.coalesce((F.col(S.FIRST_OFFSET) >= 0) & size.between(0, LARGEST_CLAIM - 1), F.lit(False))


def claims_without_start(records: DataFrame) -> DataFrame:
    """Return claims without a first offset: place, event, names, last_offset, the offset that they follow.

    A controller that did not learn the outcome of a commit reads the log up to last_offset. If it finds its
    change there, it knows that the change was committed, but not at which offset. It commits one change after
    the other, so the offset is higher than that of its claim before.
    """
    before = Window.partitionBy(*S.BOOT_KEY).orderBy(S.SEQUENCE).rowsBetween(Window.unboundedPreceding, -1)
    claims = claiming(records).withColumn("follows", F.coalesce(F.max(S.LAST_OFFSET).over(before), F.lit(-1)))
    found = claims.where(F.col(S.FIRST_OFFSET).isNull() & F.col(S.LAST_OFFSET).isNotNull())
    said = (S.EVENT, S.METHOD, S.FORWARD_ID, S.PRINCIPAL, S.OBJECTS, S.LAST_OFFSET, S.TIME_MS)
    return found.select(*S.RECORD_KEY, *said, "follows")


def claimed_offsets(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Return one row per claimed offset: offset, and of the claim its place, date, event, time, names.

    A large claim has the offsets up to the end of the log that no large claim before it has, and its first
    one, which shows that both have that. So the rows are no more than the log has offsets, and some for each
    record, whatever is claimed.
    """
    claims = claiming(records).where(possible_range())
    end = metadata_log.agg(F.coalesce(F.max(S.LOG_OFFSET), F.lit(-1)).alias("log_end"))
    first, last = F.col(S.FIRST_OFFSET), F.col(S.LAST_OFFSET)
    is_large = last - first >= _LARGE_CLAIM
    alone = Window.partitionBy(F.when(~is_large, F.struct(*S.RECORD_KEY)))
    before = alone.orderBy(first, *S.RECORD_KEY).rowsBetween(Window.unboundedPreceding, -1)
    left = claims.withColumn("left", F.greatest(first, F.try_add(F.max(last).over(before), F.lit(1))))
    until = F.least(last, F.try_add(F.greatest(first, "log_end"), F.lit(_BEYOND_THE_END)))
    rest = F.when(F.col("left") <= until, F.sequence("left", until)).otherwise(F.array(first))
    offsets = F.when(is_large, F.array_union(F.array(first), rest)).otherwise(F.sequence(first, last))
    names = (S.FORWARD_ID, S.METHOD, S.PRINCIPAL, S.OBJECTS)
    claim = (*S.RECORD_KEY, S.DATE, S.EVENT, S.TIME_MS, *names)
    return left.crossJoin(F.broadcast(end)).select(F.explode(offsets).alias(S.LOG_OFFSET), *claim)


def may_write() -> Column:
    """Return whether a request of type `method` can have written the record of type `api_key`."""
    can = (
        (F.col(S.METHOD) == method) & F.col(S.API_KEY).isin(*kinds) for method, kinds in WRITTEN_BY.items()
    )
    return F.coalesce(reduce(or_, can), F.lit(False))
