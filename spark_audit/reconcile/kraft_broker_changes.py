"""Administrative records of Kafka's own log that brokers, controllers and proxies request by themselves.

These are expired tokens, Kafka's internal topics and the audit topic, topics that a broker creates because a
client requests their metadata, requests that a proxy forwards to the broker, and tokens that a proxy creates
for its clients. Used by kraft_changes. Each rule needs evidence in the log or the trail, not only a kind of
record.
"""

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.kraft_records import CHANGE, field_of_body

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
AUTO_CREATING = ("Metadata", "StreamsGroupHeartbeat")
"""On these requests a broker creates a missing topic."""
BEFORE_MS, AFTER_MS = 60_000, 60_000
"""The longest time between the proxy's record of a request and the controller's change, with clock skew."""


def broker_changes(left: DataFrame, records: DataFrame, log: DataFrame, creations: DataFrame) -> DataFrame:
    """Returns the offsets of records in `left` that need no forward. `creations` is `creation_of(log)`."""
    kinds = {row[0] for row in left.select(S.API_KEY).distinct().collect()}
    parts = [left.limit(0).select(S.LOG_OFFSET)]
    # Most kinds do not occur in `left`, and their rules need no plan.
    if S.REMOVE_DELEGATION_TOKEN_RECORD in kinds:
        parts.append(expired_tokens(left, log))
    if S.TOPIC_RECORD in kinds:
        parts.append(own_topics(left, records, creations))
    if kinds & {S.CONFIG_RECORD, S.UNREGISTER_BROKER_RECORD}:
        parts.append(broker_requests(left, records))
    if kinds & {S.DELEGATION_TOKEN_RECORD, S.REMOVE_DELEGATION_TOKEN_RECORD}:
        parts.append(own_tokens(left, records, log))
    return reduce(DataFrame.unionByName, parts).distinct()


def expired_tokens(left: DataFrame, log: DataFrame) -> DataFrame:
    """Returns removals of tokens that had expired, which the controller makes."""
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
    """Returns topics that brokers and proxies create, with all records of their creation."""
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
    own = made.where(F.col("name").isin(*INTERNAL_TOPICS))
    own = own.unionByName(made.join(F.broadcast(audit_topics), "name", "left_semi"))
    own = own.unionByName(made.join(requested, "name").where(near).select(*made.columns))
    heads = own.select(F.col(S.LOG_OFFSET).alias("created_at")).distinct()
    within = creations.join(heads, "created_at").select(S.LOG_OFFSET)
    return heads.select(F.col("created_at").alias(S.LOG_OFFSET)).unionByName(within)


def broker_requests(left: DataFrame, records: DataFrame) -> DataFrame:
    """Returns changes that a proxy forwarded to a broker: configs of one broker, unregistered brokers."""
    of_one_request = [S.PROXY_ID, S.BOOT_ID, S.CONNECTION_ID, S.CORRELATION_ID]
    forwarded = records.where(F.col(S.EVENT) == "forwarded").select(*of_one_request)
    granted = records.where((F.col(S.EVENT) == "authorization") & F.col(S.GRANTED))
    by_broker = granted.join(forwarded, of_one_request, "left_anti").select(
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
    """Returns tokens that a proxy requests of the broker for its clients (upstream.identity: user)."""
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
