"""The changes that proxies claim to have requested of Kafka's own controller: one row per change.

A forward is sure if it was sent once and the controller responded. Then each of its changes is in the log, or
was in effect before. Otherwise any part of it may have been carried out, until the proxy gave up. Used by
kraft_changes.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.kraft_records import CHANGE, key_of

CLAIM_ID, SURE, WHOLE, KEY, UNTIL = "claim_id", "sure", "whole", "change_key", "until_offset"
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
"""The number of parts of a complete change. With fewer, it stands for all changes that begin with them."""


def forwards(records: DataFrame) -> DataFrame:
    """Returns requests to Kafka's own controller. A proxy records a first offset only for these."""
    to_kafka = (
        (F.col(S.EVENT) == "forwarded") & (F.col(S.ROLE) == "proxy") & F.col(S.FIRST_OFFSET).isNotNull()
    )
    return records.where(to_kafka)


def to_penstock_controllers(records: DataFrame) -> DataFrame:
    """Returns all other records: forwarded.py compares them with the records of Penstock's controller."""
    return records.where((F.col(S.EVENT) != "forwarded") | F.col(S.FIRST_OFFSET).isNull())


def claims(records: DataFrame) -> DataFrame:
    """Returns forward_id, method, principal, date, time_ms, offsets, sure, whole, change, change_key.

    `until_offset` is null if it is not known: then the change was made until `OUTCOME_UNKNOWN_MS` after the
    record.
    """
    sure = (F.col(S.COUNT) == 1) & (F.col(S.ENVELOPE_ERROR_CODE) == 0) & F.col(S.LAST_OFFSET).isNotNull()
    each = (
        forwards(records)
        .withColumn(SURE, F.coalesce(sure, F.lit(False)))
        .select(
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
    )
    normal = each.withColumn(CHANGE, _normal())
    return normal.select(
        F.concat_ws("#", S.FORWARD_ID, "place").alias(CLAIM_ID),
        *(name for name in normal.columns if name != "place"),
        _is_whole().alias(WHOLE),
        key_of(F.col(CHANGE)).alias(KEY),
    )


def _normal() -> Column:
    """Returns the change with the numbers as Spark writes them."""
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
    # Table metadata_log has the value of a config only for topics.
    of_others = (F.get(CHANGE, 0) == "ConfigRecord") & (F.get(CHANGE, 1) != "TOPIC") & (size == 4)
    return F.coalesce(fits | of_others, F.lit(False))
