"""The administrative records of Kafka's own metadata log as changes, in the form that proxies record.

A change is a list of texts, as `changes` of a proxy's `forwarded` (docs/audit.md): the record's name, then
its fields in a fixed order. Removals name an ACL or a topic by id, so its fields are looked up. Used by the
kraft_* checks. Knows no audit records.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.trail.metadata_log import without_snapshots

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
"""The kinds that an administrator requests. Brokers and controllers write all other kinds by themselves."""
FIRST_BY_ITSELF = (S.REGISTER_BROKER_RECORD, S.NO_OP_RECORD, S.REGISTER_CONTROLLER_RECORD)
"""In an empty log, a controller writes what the storage was formatted with before any of these."""
_CREATION = (S.PARTITION_RECORD, S.CONFIG_RECORD, S.CLEAR_ELR_RECORD)
"""The records that follow a TopicRecord when a topic is created."""


def described(log: DataFrame) -> DataFrame:
    """Return the administrative records of the log and its snapshots, each with its `change`."""
    requested = log.where(F.col(S.API_KEY).isin(*ADMINISTRATIVE))
    # Only reassignments: brokers and controllers change partitions all the time.
    reassigns = (F.col(S.API_KEY) != S.PARTITION_CHANGE_RECORD) | (field_of_body("reassigns") == "true")
    with_topics = (
        requested.where(reassigns)
        .withColumn(TOPIC_ID, field_of_body("topic_id"))
        .join(_topics(log), TOPIC_ID, "left")
    )
    with_acls = with_topics.withColumn(S.ACL_ID, field_of_body("id")).join(_acls(log), S.ACL_ID, "left")
    return with_acls.withColumn(CHANGE, F.concat(F.array(S.RECORD), F.coalesce(*_contents())))


def creation_of(log: DataFrame) -> DataFrame:
    """Return the records written when a topic is created: offset, created_at (the TopicRecord's offset)."""
    records = without_snapshots(log).select(S.LOG_OFFSET, S.API_KEY)
    candidates = records.where(F.col(S.API_KEY).isin(S.TOPIC_RECORD, *_CREATION))
    # Within a run of offsets without a gap, the offset minus the row number is constant.
    number = F.row_number().over(Window.orderBy(S.LOG_OFFSET))
    within = Window.partitionBy("stretch").orderBy(S.LOG_OFFSET)
    topic = F.when(F.col(S.API_KEY) == S.TOPIC_RECORD, F.col(S.LOG_OFFSET))
    runs = candidates.withColumn("stretch", F.col(S.LOG_OFFSET) - number).withColumn(
        "created_at", F.last(topic, ignorenulls=True).over(within)
    )
    made = runs.where((F.col(S.API_KEY) != S.TOPIC_RECORD) & F.col("created_at").isNotNull())
    return made.select(S.LOG_OFFSET, "created_at")


def key_of(change: Column) -> Column:
    """Return a change as one text. Two changes are the same if all their parts are equal."""
    return F.to_json(change)


def field_of_body(name: str) -> Column:
    """Return a field of the record's JSON body as text."""
    return F.get_json_object(S.BODY, f"$.{name}")


def _topics(log: DataFrame) -> DataFrame:
    records = log.where(F.col(S.API_KEY) == S.TOPIC_RECORD)
    named = records.select(field_of_body("topic_id").alias(TOPIC_ID), field_of_body("name").alias(TOPIC_NAME))
    return named.dropDuplicates([TOPIC_ID])


def _acls(log: DataFrame) -> DataFrame:
    records = log.where(F.col(S.API_KEY) == S.ACCESS_CONTROL_ENTRY_RECORD)
    acl = records.withColumn("acl", F.from_json(S.BODY, S.ACL_BODY))
    of_resource = S.RESOURCE_TYPE, S.PATTERN_TYPE, S.RESOURCE_NAME
    fields = (*of_resource, S.PRINCIPAL, S.HOST, S.OPERATION, S.PERMISSION_TYPE)
    described = acl.select(
        F.col(f"acl.{S.ID}").alias(S.ACL_ID),
        F.array(*(F.col(f"acl.{name}") for name in fields)).alias(FIELDS_OF_ACL),
    )
    return described.dropDuplicates([S.ACL_ID])


def _contents() -> list[Column]:
    of_topic = field_of_body("resource_type") == "TOPIC"
    config = F.array(field_of_body("resource_type"), field_of_body("resource_name"), field_of_body("name"))
    value = F.when(field_of_body("remove") == "false", field_of_body("value").cast("double").cast("string"))
    return [
        _when(S.ACCESS_CONTROL_ENTRY_RECORD, F.col(FIELDS_OF_ACL)),
        _when(S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD, F.coalesce(FIELDS_OF_ACL, F.array(S.ACL_ID))),
        _when(S.CLIENT_QUOTA_RECORD, F.concat(F.array(field_of_body("key")), _entity(), F.array(value))),
        _when(S.USER_SCRAM_CREDENTIAL_RECORD, _fields("name", "mechanism", "iterations")),
        _when(S.REMOVE_USER_SCRAM_CREDENTIAL_RECORD, _fields("name", "mechanism")),
        _when(S.DELEGATION_TOKEN_RECORD, _fields("expiry_timestamp_ms", "token_id")),
        _when(S.REMOVE_DELEGATION_TOKEN_RECORD, _fields("token_id")),
        _when(S.TOPIC_RECORD, _fields("name", "topic_id")),
        _when(S.REMOVE_TOPIC_RECORD, F.array(F.coalesce(TOPIC_NAME, TOPIC_ID))),
        _when(S.PARTITION_RECORD, F.array(F.coalesce(TOPIC_NAME, TOPIC_ID), field_of_body("partition_id"))),
        _when(
            S.PARTITION_CHANGE_RECORD,
            F.array(F.coalesce(TOPIC_NAME, TOPIC_ID), field_of_body("partition_id")),
        ),
        F.when(
            (F.col(S.API_KEY) == S.CONFIG_RECORD) & of_topic,
            F.concat(config, F.array(field_of_body("value"))),
        ),
        _when(S.CONFIG_RECORD, config),
        _when(S.FEATURE_LEVEL_RECORD, _fields("name", "level")),
        _when(S.UNREGISTER_BROKER_RECORD, _fields("broker_id")),
        F.array(),
    ]


def _entity() -> Column:
    entity = F.map_entries(F.from_json(S.BODY, S.QUOTA_BODY)["entity"])
    # Without the value, which is null for the default, only the key.
    return F.array_sort(F.transform(entity, lambda part: F.concat_ws("=", part["key"], part["value"])))


def _fields(*names: str) -> Column:
    return F.array(*(field_of_body(name) for name in names))


def _when(api_key: int, content: Column) -> Column:
    return F.when(F.col(S.API_KEY) == api_key, content)
