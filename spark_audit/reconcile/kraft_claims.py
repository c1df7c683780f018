"""What explains the changes in the log of Kafka's own controller: proxies' claims, and brokers themselves.

A claim is a change that a proxy has requested, one row per change. A forward is sure if it was sent once and
the controller responded. Then each of its changes is in the log, or was in effect before. Otherwise any part
of it may have been carried out, until the proxy gave up.

Brokers, controllers and proxies request some administrative records by themselves: expired tokens, Kafka's
internal topics and the audit topic, topics that a broker creates because a client requests their metadata,
requests that a proxy forwards to the broker, and tokens that a proxy creates for its clients. Each of these
rules needs evidence in the log or the trail, not only a kind of record. Used by kraft_changes.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.kraft_records import CHANGE, field_of_body, key_of

GIVEN = "given settings: "
"""How the message of an `own_topic` record begins that lists settings (proxy.net.kafka.own_topic_watch)."""
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
    """Return requests to Kafka's own controller. A proxy records a first offset only for these."""
    to_kafka = (
        (F.col(S.EVENT) == "forwarded") & (F.col(S.ROLE) == "proxy") & F.col(S.FIRST_OFFSET).isNotNull()
    )
    return records.where(to_kafka)


def to_penstock_controllers(records: DataFrame, *, is_kraft: bool = True) -> DataFrame:
    """Return all other records: forwarded.py compares them with the records of Penstock's controller.

    A proxy could call any forward one to Kafka's controller. So where Kafka's own log is not read
    (`is_kraft`) and controllers of Penstock's have written, all are returned.
    """
    if not is_kraft and not records.where(F.col(S.ROLE) == "controller").isEmpty():
        return records
    return records.where((F.col(S.EVENT) != "forwarded") | F.col(S.FIRST_OFFSET).isNull())


def claims(records: DataFrame) -> DataFrame:
    """Return forward_id, method, principal, date, time_ms, offsets, sure, whole, change, change_key.

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
    """Return the change with the numbers as Spark writes them."""
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


INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
PROXIES_TOPICS = ("__penstock_witnesses", "__penstock_quota_shares")
"""Proxies create these, and the audit topic, if they are missing. The names are the defaults."""
AUTO_CREATING = ("Metadata", "StreamsGroupHeartbeat")
"""On these requests a broker creates a missing topic."""
BEFORE_MS, AFTER_MS = 60_000, 60_000
"""The longest time between the proxy's record of a request and the controller's change, with clock skew."""


def broker_changes(left: DataFrame, records: DataFrame, log: DataFrame, creations: DataFrame) -> DataFrame:
    """Return the offsets of records in `left` that need no forward. `creations` is `creation_of(log)`."""
    kinds = {row[0] for row in left.select(S.API_KEY).distinct().collect()}
    parts = [left.limit(0).select(S.LOG_OFFSET)]
    # Most kinds do not occur in `left`, and their rules need no plan.
    if S.REMOVE_DELEGATION_TOKEN_RECORD in kinds:
        parts.append(expired_tokens(left, log))
    if S.TOPIC_RECORD in kinds:
        parts.append(own_topics(left, records, creations))
    if S.CONFIG_RECORD in kinds:
        parts.append(own_settings(left, records))
    if kinds & {S.CONFIG_RECORD, S.UNREGISTER_BROKER_RECORD}:
        parts.append(broker_requests(left, records))
    if kinds & {S.DELEGATION_TOKEN_RECORD, S.REMOVE_DELEGATION_TOKEN_RECORD}:
        parts.append(own_tokens(left, records, log))
    return reduce(DataFrame.unionByName, parts).distinct()


def expired_tokens(left: DataFrame, log: DataFrame) -> DataFrame:
    """Return removals of tokens that had expired, which the controller makes."""
    removed = left.where(F.col(S.API_KEY) == S.REMOVE_DELEGATION_TOKEN_RECORD).select(
        S.LOG_OFFSET, S.LOG_TIMESTAMP, field_of_body("token_id").alias("token_id")
    )
    issued = _tokens(log).withColumnRenamed(S.LOG_OFFSET, "issued_at")
    last = (
        removed.join(issued, "token_id")
        .where(F.col("issued_at") < F.col(S.LOG_OFFSET))
        .groupBy(S.LOG_OFFSET, S.LOG_TIMESTAMP)
        .agg(F.max_by("expiry_ms", "issued_at").alias("expiry_ms"))
    )
    return last.where(F.unix_millis(S.LOG_TIMESTAMP) >= F.col("expiry_ms")).select(S.LOG_OFFSET)


def own_topics(left: DataFrame, records: DataFrame, creations: DataFrame) -> DataFrame:
    """Return topics that brokers and proxies create, with all records of their creation."""
    made = left.where(F.col(S.API_KEY) == S.TOPIC_RECORD).select(
        S.LOG_OFFSET, F.unix_millis(S.LOG_TIMESTAMP).alias("log_ms"), field_of_body("name").alias("name")
    )
    audit_topics = records.select(F.col(S.KAFKA_TOPIC).alias("name")).distinct()
    requested = records.where(
        F.col(S.GRANTED) & F.col(S.METHOD).isin(*AUTO_CREATING) & (F.col(S.RESOURCE_TYPE) == "TOPIC")
    ).select(
        F.col(S.RESOURCE_NAME).alias("name"),
        F.coalesce(S.INTERVAL_START_MS, S.TIME_MS).alias("from_ms"),
        F.coalesce(S.INTERVAL_END_MS, S.TIME_MS).alias("to_ms"),
    )
    near = F.col("log_ms").between(F.col("from_ms") - BEFORE_MS, F.col("to_ms") + AFTER_MS)
    own = made.where(F.col("name").isin(*INTERNAL_TOPICS, *PROXIES_TOPICS))
    own = own.unionByName(made.join(F.broadcast(audit_topics), "name", "left_semi"))
    own = own.unionByName(made.join(requested, "name").where(near).select(*made.columns))
    heads = own.select(F.col(S.LOG_OFFSET).alias("created_at")).distinct()
    within = creations.join(heads, "created_at").select(S.LOG_OFFSET)
    return heads.select(F.col("created_at").alias(S.LOG_OFFSET)).unionByName(within)


def own_settings(left: DataFrame, records: DataFrame) -> DataFrame:
    """Return settings that a process gave to one of Penstock's own topics, and recorded."""
    given = records.where((F.col(S.EVENT) == "own_topic") & F.col(S.MESSAGE).startswith(GIVEN))
    each = F.explode(F.split(F.substring(S.MESSAGE, len(GIVEN) + 1, 2**31 - 1), ", "))
    given = given.select(F.col(S.RESOURCE_NAME).alias("topic"), each.alias("setting")).distinct()
    change = F.col(CHANGE)
    is_given = (
        (F.get(change, 1) == "TOPIC")
        & (F.get(change, 2) == F.col("topic"))
        & (F.concat_ws("=", F.get(change, 3), F.get(change, 4)) == F.col("setting"))
    )
    configs = left.where(F.col(S.API_KEY) == S.CONFIG_RECORD).select(S.LOG_OFFSET, CHANGE)
    return configs.join(F.broadcast(given), is_given).select(S.LOG_OFFSET)


def broker_requests(left: DataFrame, records: DataFrame) -> DataFrame:
    """Return changes that a proxy forwarded to a broker: configs of one broker, unregistered brokers."""
    event = F.col(S.EVENT)
    is_granted, sent = (event == "authorization") & F.col(S.GRANTED), event.isin("admin_request", "forwarded")
    # A client may use a correlation id again. So the next record that says where a request went counts.
    of_request = Window.partitionBy(*S.BOOT_KEY, S.CONNECTION_ID, S.CORRELATION_ID, S.METHOD)
    following = of_request.orderBy(S.SEQUENCE).rowsBetween(0, Window.unboundedFollowing)
    sent_by = F.first(F.when(sent, event), ignorenulls=True).over(following)
    requests = records.where(is_granted | sent).withColumn("sent_by", sent_by)
    by_broker = requests.where(is_granted & ~F.col("sent_by").eqNullSafe("forwarded")).select(
        S.METHOD, S.OPERATION, S.RESOURCE_TYPE, S.RESOURCE_NAME, S.TIME_MS
    )
    log_ms = F.unix_millis(S.LOG_TIMESTAMP)
    near = log_ms.between(F.col(S.TIME_MS) - BEFORE_MS, F.col(S.TIME_MS) + AFTER_MS)
    change = F.col(CHANGE)
    config = (F.col(S.API_KEY) == S.CONFIG_RECORD) & (F.col(S.OPERATION) == "ALTER_CONFIGS")
    of_broker = (F.get(change, 1) == "BROKER") & (F.col(S.RESOURCE_TYPE) == "CLUSTER")
    of_resource = (F.get(change, 1) == F.col(S.RESOURCE_TYPE)) & (F.get(change, 2) == F.col(S.RESOURCE_NAME))
    unregistered = (F.col(S.API_KEY) == S.UNREGISTER_BROKER_RECORD) & (F.col(S.METHOD) == "UnregisterBroker")
    could = near & ((config & (of_broker | of_resource)) | unregistered)
    kinds = left.where(F.col(S.API_KEY).isin(S.CONFIG_RECORD, S.UNREGISTER_BROKER_RECORD))
    return (
        kinds.select(S.LOG_OFFSET, S.LOG_TIMESTAMP, S.API_KEY, CHANGE)
        .join(by_broker, could)
        .select(S.LOG_OFFSET)
    )


def own_tokens(left: DataFrame, records: DataFrame, log: DataFrame) -> DataFrame:
    """Return tokens that a proxy requests of the broker for its clients (upstream.identity: user)."""
    requester = F.col(S.SETTINGS).getItem("upstream.token.requester")
    requesters = records.where((F.col(S.EVENT) == "started") & requester.isNotNull()).select(
        requester.alias("requester")
    )
    theirs = _tokens(log).join(F.broadcast(requesters.distinct()), "requester", "left_semi")
    ids = theirs.select("token_id").distinct()
    kinds = (S.DELEGATION_TOKEN_RECORD, S.REMOVE_DELEGATION_TOKEN_RECORD)
    of_tokens = left.where(F.col(S.API_KEY).isin(*kinds)).select(
        S.LOG_OFFSET, field_of_body("token_id").alias("token_id")
    )
    return of_tokens.join(ids, "token_id", "left_semi").select(S.LOG_OFFSET)


def _tokens(log: DataFrame) -> DataFrame:
    return log.where(F.col(S.API_KEY) == S.DELEGATION_TOKEN_RECORD).select(
        S.LOG_OFFSET,
        field_of_body("token_id").alias("token_id"),
        field_of_body("requester").alias("requester"),
        field_of_body("expiry_timestamp_ms").cast("long").alias("expiry_ms"),
    )
