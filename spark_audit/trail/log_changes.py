"""Kafka's own metadata log as a list of changes: each record as a list of texts, which proxies write alike.

`described` gives records the shape that `changes` has in a proxy's `forwarded` (docs/audit.md): the record's
name, then what is in it in a fixed order. Removals name an ACL and a topic by id; what it was is looked up.
Read by kraft_claims and kraft_changes. Knows nothing of the audit.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S

BLIND_FIRST, BLIND_LAST = "blind_first", "blind_last"
CHANGE, TOPIC_NAME, TOPIC_ID, FIELDS_OF_ACL = "change", "topic_name", "topic_id", "acl_fields"
ADMINISTRATIVE = (
    S.UNREGISTER_BROKER_RECORD,
    S.TOPIC_RECORD,
    S.PARTITION_RECORD,
    S.CONFIG_RECORD,
    S.PARTITION_CHANGE_RECORD,
    S.REMOVE_TOPIC_RECORD,
    S.DELEGATION_TOKEN_RECORD,
    S.USER_SCRAM_CREDENTIAL_RECORD,
    S.FEATURE_LEVEL_RECORD,
    S.CLIENT_QUOTA_RECORD,
    S.ACCESS_CONTROL_ENTRY_RECORD,
    S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD,
    S.REMOVE_USER_SCRAM_CREDENTIAL_RECORD,
    S.REMOVE_DELEGATION_TOKEN_RECORD,
)
"""What somebody asks for. All other kinds brokers and controllers write by themselves."""
FIRST_BY_ITSELF = (0, 20, 27)
"""A controller that begins an empty log writes what the storage was formatted with before any of these."""
_CREATION = (S.PARTITION_RECORD, S.CONFIG_RECORD, 28)
"""What follows a TopicRecord when the topic is made; 28: ClearElrRecord."""


def of_kafka(metadata_log: DataFrame) -> DataFrame:
    """Kafka's own log and its snapshots, without what is of a topic."""
    return metadata_log.where(F.col(S.FROM_SNAPSHOT).isNotNull())


def of_topic(metadata_log: DataFrame) -> DataFrame:
    """The log that our own controllers keep in a topic."""
    return metadata_log.where(F.col(S.FROM_SNAPSHOT).isNull())


def described(log: DataFrame) -> DataFrame:
    """The administrative records of the log and its snapshots, each with its `change`."""
    some = log.where(F.col(S.API_KEY).isin(*ADMINISTRATIVE))
    # Only what an admin moves: brokers and controllers change partitions all the time.
    some = some.where((F.col(S.API_KEY) != S.PARTITION_CHANGE_RECORD) | (_field("reassigns") == "true"))
    with_topics = some.withColumn(TOPIC_ID, _field("topic_id")).join(_topics(log), TOPIC_ID, "left")
    with_acls = with_topics.withColumn(S.ACL_ID, _field("id")).join(_acls(log), S.ACL_ID, "left")
    return with_acls.withColumn(CHANGE, F.concat(F.array(S.RECORD), F.coalesce(*_contents())))


def creation_of(log: DataFrame) -> DataFrame:
    """What was written with a TopicRecord when the topic was made: offset, created_at (that record's)."""
    of_log = _of_log(log).select(S.LOG_OFFSET, S.API_KEY)
    some = of_log.where(F.col(S.API_KEY).isin(S.TOPIC_RECORD, *_CREATION))
    # Offsets without a gap have the same distance to their number.
    number = F.row_number().over(Window.orderBy(S.LOG_OFFSET))
    within = Window.partitionBy("stretch").orderBy(S.LOG_OFFSET)
    topic = F.when(F.col(S.API_KEY) == S.TOPIC_RECORD, F.col(S.LOG_OFFSET))
    runs = some.withColumn("stretch", F.col(S.LOG_OFFSET) - number).withColumn(
        "created_at", F.last(topic, ignorenulls=True).over(within)
    )
    made = runs.where((F.col(S.API_KEY) != S.TOPIC_RECORD) & F.col("created_at").isNotNull())
    return made.select(S.LOG_OFFSET, "created_at")


def holes(log: DataFrame) -> DataFrame:
    """Stretches of offsets without a record: hole_first, hole_last, date and time of what follows.

    All of the log is put into order only where the number of its records says that there is a hole.
    """
    of_log = _of_log(log).select(S.LOG_OFFSET, S.DATE, S.LOG_TIMESTAMP)
    if not any_hole(log):
        of_log = of_log.limit(0)
    before = F.coalesce(F.lag(S.LOG_OFFSET).over(Window.orderBy(S.LOG_OFFSET)), F.lit(-1))
    followed = of_log.withColumn("before", before).where(F.col(S.LOG_OFFSET) > F.col("before") + 1)
    return followed.select(
        (F.col("before") + 1).alias("hole_first"),
        (F.col(S.LOG_OFFSET) - 1).alias("hole_last"),
        S.DATE,
        S.LOG_TIMESTAMP,
    )


def any_hole(log: DataFrame) -> bool:
    """Whether an offset of Kafka's own log has no record; false of a log in a topic: markers leave none."""
    row = _of_log(log).agg(F.max(S.LOG_OFFSET), F.count_distinct(S.LOG_OFFSET)).first()
    return row is not None and row[0] is not None and bool(row[0] + 1 != row[1])


def blind(log: DataFrame) -> DataFrame:
    """Where nobody knows what was in force, from a hole to the snapshot behind it: blind_first, blind_last.

    A node keeps segments that begin before its oldest snapshot: their records name by id what only the hole
    could tell. Without a snapshot behind it, only the hole itself.
    """
    snapshots = log.where(F.col(S.FROM_SNAPSHOT)).select(F.col(S.LOG_OFFSET).alias("snapshot")).distinct()
    followed = holes(log).join(snapshots, F.col("snapshot") >= F.col("hole_last"), "left")
    ends = followed.groupBy("hole_first", "hole_last").agg(F.min("snapshot").alias("snapshot"))
    return ends.select(
        F.col("hole_first").alias(BLIND_FIRST), F.coalesce("snapshot", "hole_last").alias(BLIND_LAST)
    )


def key_of(change: Column) -> Column:
    """One text for a change: two are the same when they are equal in all parts."""
    return F.to_json(change)


def _of_log(log: DataFrame) -> DataFrame:
    """Kafka's own log, without its snapshots."""
    return log.where(~F.col(S.FROM_SNAPSHOT))


def _field(name: str) -> Column:
    return F.get_json_object(S.BODY, f"$.{name}")


def _topics(log: DataFrame) -> DataFrame:
    records = log.where(F.col(S.API_KEY) == S.TOPIC_RECORD)
    named = records.select(_field("topic_id").alias(TOPIC_ID), _field("name").alias(TOPIC_NAME))
    return named.dropDuplicates([TOPIC_ID])


def _acls(log: DataFrame) -> DataFrame:
    records = log.where(F.col(S.API_KEY) == S.ACCESS_CONTROL_ENTRY_RECORD)
    acl = records.withColumn("acl", F.from_json(S.BODY, S.ACL_BODY))
    fields = (
        S.RESOURCE_TYPE,
        S.PATTERN_TYPE,
        S.RESOURCE_NAME,
        S.PRINCIPAL,
        S.HOST,
        S.OPERATION,
        "permission_type",
    )
    told = acl.select(
        F.col(f"acl.{S.ID}").alias(S.ACL_ID),
        F.array(*(F.col(f"acl.{name}") for name in fields)).alias(FIELDS_OF_ACL),
    )
    return told.dropDuplicates([S.ACL_ID])


def _contents() -> list[Column]:
    of_topic = _field("resource_type") == "TOPIC"
    config = F.array(_field("resource_type"), _field("resource_name"), _field("name"))
    value = F.when(_field("remove") == "false", _field("value").cast("double").cast("string"))
    return [
        _when(S.ACCESS_CONTROL_ENTRY_RECORD, F.col(FIELDS_OF_ACL)),
        _when(S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD, F.coalesce(FIELDS_OF_ACL, F.array(S.ACL_ID))),
        _when(S.CLIENT_QUOTA_RECORD, F.concat(F.array(_field("key")), _entity(), F.array(value))),
        _when(S.USER_SCRAM_CREDENTIAL_RECORD, _fields("name", "mechanism", "iterations")),
        _when(S.REMOVE_USER_SCRAM_CREDENTIAL_RECORD, _fields("name", "mechanism")),
        _when(S.DELEGATION_TOKEN_RECORD, _fields("expiry_timestamp_ms", "token_id")),
        _when(S.REMOVE_DELEGATION_TOKEN_RECORD, _fields("token_id")),
        _when(S.TOPIC_RECORD, _fields("name", "topic_id")),
        _when(S.REMOVE_TOPIC_RECORD, F.array(F.coalesce(TOPIC_NAME, TOPIC_ID))),
        _when(S.PARTITION_RECORD, F.array(F.coalesce(TOPIC_NAME, TOPIC_ID), _field("partition_id"))),
        _when(S.PARTITION_CHANGE_RECORD, F.array(F.coalesce(TOPIC_NAME, TOPIC_ID), _field("partition_id"))),
        F.when((F.col(S.API_KEY) == S.CONFIG_RECORD) & of_topic, F.concat(config, F.array(_field("value")))),
        _when(S.CONFIG_RECORD, config),
        _when(S.FEATURE_LEVEL_RECORD, _fields("name", "level")),
        _when(S.UNREGISTER_BROKER_RECORD, _fields("broker_id")),
        F.array(),
    ]


def _entity() -> Column:
    entity = F.map_entries(F.from_json(S.BODY, S.QUOTA_BODY)["entity"])
    parts = F.transform(
        entity, lambda part: F.concat(part["key"], F.coalesce(_equals(part["value"]), F.lit("")))
    )
    return F.array_sort(parts)


def _equals(name: Column) -> Column:
    return F.concat(F.lit("="), name)


def _fields(*names: str) -> Column:
    return F.array(*(_field(name) for name in names))


def _when(api_key: int, content: Column) -> Column:
    return F.when(F.col(S.API_KEY) == api_key, content)
