"""What proxies say that they had Kafka's own controller do: one row per change that a `forwarded` tells.

A forward is sure when it was sent once and answered by the controller: then each of its changes is in the
log, or was so before. Otherwise any part of it may have been done, at any time until it was given up.
Feeds kraft_changes.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.trail.log_changes import CHANGE, key_of

CLAIM_ID, SURE, WHOLE, KEY, UNTIL = "claim_id", "sure", "whole", "change_key", "until_offset"
OUTCOME_UNKNOWN_MS = 600_000
WHOLE_SIZES = {
    "AccessControlEntryRecord": 8,
    "RemoveAccessControlEntryRecord": 8,
    "ClientQuotaRecord": 3,
    "UserScramCredentialRecord": 4,
    "RemoveUserScramCredentialRecord": 3,
    "DelegationTokenRecord": 3,
    "TopicRecord": 3,
    "RemoveTopicRecord": 2,
    "ConfigRecord": 5,
    "FeatureLevelRecord": 3,
}
"""So many parts tell a change in full; with fewer it stands for all that begin so."""


def forwards(records: DataFrame) -> DataFrame:
    """Requests that went to Kafka's own controller: those of our own tell no first offset at the proxy."""
    told = (F.col(S.EVENT) == "forwarded") & (F.col(S.ROLE) == "proxy") & F.col(S.FIRST_OFFSET).isNotNull()
    return records.where(told)


def to_our_controllers(records: DataFrame) -> DataFrame:
    """All records but those: what forwarded.py compares with a controller's side."""
    return records.where((F.col(S.EVENT) != "forwarded") | F.col(S.FIRST_OFFSET).isNull())


def claims(records: DataFrame) -> DataFrame:
    """forward_id, method, principal, date, time_ms, first_offset, until_offset, sure, whole, change, its key.

    `until_offset` is null where nobody knows: until `OUTCOME_UNKNOWN_MS` after the record.
    """
    answered = (F.col(S.COUNT) == 1) & (F.col(S.ENVELOPE_ERROR_CODE) == 0) & F.col(S.LAST_OFFSET).isNotNull()
    told = forwards(records).withColumn(SURE, F.coalesce(answered, F.lit(False)))
    each = told.select(
        S.FORWARD_ID,
        S.METHOD,
        S.PRINCIPAL,
        S.DATE,
        S.TIME_MS,
        S.FIRST_OFFSET,
        F.when(F.col(SURE), F.col(S.LAST_OFFSET)).alias(UNTIL),
        SURE,
        F.posexplode(F.col(S.CHANGES)).alias("place", CHANGE),
    )
    normal = each.withColumn(CHANGE, _normal())
    return normal.select(
        F.concat_ws("#", S.FORWARD_ID, "place").alias(CLAIM_ID),
        *(name for name in normal.columns if name != "place"),
        _is_whole().alias(WHOLE),
        key_of(F.col(CHANGE)).alias(KEY),
    )


def _normal() -> Column:
    """Numbers as Spark writes them."""
    change = F.col(CHANGE)
    number = F.try_element_at(change, F.lit(-1)).try_cast("double").cast("string")
    rest = F.slice(change, 1, F.size(change) - 1)
    of_quota = (F.get(change, 0) == "ClientQuotaRecord") & (F.size(change) > 2)
    return F.when(of_quota, F.concat(rest, F.array(number))).otherwise(change)


def _is_whole() -> Column:
    size = F.size(CHANGE)
    fits = F.lit(False)
    for record, parts in WHOLE_SIZES.items():
        enough = size >= parts if record == "ClientQuotaRecord" else size == parts
        fits = fits | ((F.get(CHANGE, 0) == record) & enough)
    # Of resources other than topics the log's table has no value.
    of_others = (F.get(CHANGE, 0) == "ConfigRecord") & (F.get(CHANGE, 1) != "TOPIC") & (size == 4)
    return F.coalesce(fits | of_others, F.lit(False))
