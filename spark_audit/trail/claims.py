"""Which metadata offsets the controller says it wrote, and for which request.

From `forwarded_received` records of role controller, and from `tokens_expired` and `topics_gone`: what it
removed by itself.
Read by forwarded.py (is it there?) and changes.py (is what is there claimed?).
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S

LARGEST_CLAIM = 100_000
"""No request writes more records in one transaction; a record that says so must not blow up the join."""

OF_TOPICS = (S.TOPIC_RECORD, S.CONFIG_RECORD, S.REMOVE_TOPIC_RECORD)
OF_ACLS = (S.ACCESS_CONTROL_ENTRY_RECORD, S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD)

# Which records a request can write. A topic's owner and ACLs are configs of it.
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
CHECKED_KINDS = tuple(sorted({api_key for kinds in WRITTEN_BY.values() for api_key in kinds}))


def received(records: DataFrame) -> DataFrame:
    """The controller's side of forwarded requests; no other role may speak for it."""
    return records.where((F.col(S.EVENT) == "forwarded_received") & (F.col(S.ROLE) == "controller"))


def _claiming(records: DataFrame) -> DataFrame:
    by_itself = F.col(S.EVENT).isin("tokens_expired", "topics_gone") & (F.col(S.ROLE) == "controller")
    return received(records).unionByName(records.where(by_itself))


def possible_range() -> Column:
    """Whether first_offset..last_offset can be the offsets of one transaction."""
    size = F.col(S.LAST_OFFSET) - F.col(S.FIRST_OFFSET)
    return F.coalesce((F.col(S.FIRST_OFFSET) >= 0) & size.between(0, LARGEST_CLAIM - 1), F.lit(False))


def claims_to_the_end(records: DataFrame) -> DataFrame:
    """Claims without a beginning: method, last_offset, time_ms.

    A controller that lost the outcome of a commit, and found its change when it had read the log to
    last_offset, knows that it is there but not where.
    """
    found = _claiming(records).where(F.col(S.FIRST_OFFSET).isNull() & F.col(S.LAST_OFFSET).isNotNull())
    return found.select(S.METHOD, S.LAST_OFFSET, S.TIME_MS)


def claimed_offsets(records: DataFrame) -> DataFrame:
    """One row per claimed offset: offset, forward_id, method, date."""
    claiming = _claiming(records).where(possible_range())
    return claiming.select(
        F.explode(F.sequence(S.FIRST_OFFSET, S.LAST_OFFSET)).alias(S.LOG_OFFSET),
        S.FORWARD_ID,
        S.METHOD,
        S.DATE,
    )


def may_write() -> Column:
    """Whether `method` can have written the record of `api_key`."""
    can = [
        (F.col(S.METHOD) == method) & F.col(S.API_KEY).isin(*kinds) for method, kinds in WRITTEN_BY.items()
    ]
    result = F.lit(False)
    for condition in can:
        result = result | condition
    return F.coalesce(result, F.lit(False))
