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

OUTCOME_UNKNOWN_MS = 600_000
"""A controller that did not learn the outcome of a commit takes less time than this to read the log again."""
LARGEST_CLAIM = 100_000
"""No request writes more records in one transaction. A forged record must not blow up the join."""

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
    """Return claims without a first offset: event, method, time_ms, last_offset, the offset that they follow.

    A controller that did not learn the outcome of a commit reads the log up to last_offset. If it finds its
    change there, it knows that the change was committed, but not at which offset. It commits one change after
    the other, so the offset is higher than that of its claim before.
    """
    before = Window.partitionBy(*S.BOOT_KEY).orderBy(S.SEQUENCE).rowsBetween(Window.unboundedPreceding, -1)
    claims = claiming(records).withColumn("follows", F.coalesce(F.max(S.LAST_OFFSET).over(before), F.lit(-1)))
    found = claims.where(F.col(S.FIRST_OFFSET).isNull() & F.col(S.LAST_OFFSET).isNotNull())
    return found.select(S.EVENT, S.METHOD, S.LAST_OFFSET, S.TIME_MS, "follows")


def claimed_offsets(records: DataFrame) -> DataFrame:
    """Return one row per claimed offset: offset, forward_id, method, date."""
    return (
        claiming(records)
        .where(possible_range())
        .select(
            F.explode(F.sequence(S.FIRST_OFFSET, S.LAST_OFFSET)).alias(S.LOG_OFFSET),
            S.FORWARD_ID,
            S.METHOD,
            S.DATE,
        )
    )


def may_write() -> Column:
    """Return whether a request of type `method` can have written the record of type `api_key`."""
    can = (
        (F.col(S.METHOD) == method) & F.col(S.API_KEY).isin(*kinds) for method, kinds in WRITTEN_BY.items()
    )
    return F.coalesce(reduce(or_, can), F.lit(False))
