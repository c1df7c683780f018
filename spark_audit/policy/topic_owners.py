"""Topic owners (docs/decisions/0028): which principal owned which topic at an offset, and what that allows.

The config `owner` of a topic names its owner. Whatever ends the ownership, a deletion of the topic too,
writes the config again, so the config records are enough. If no ACL decides, an owner is allowed the
operations on topics. DENYs apply as for any question about the topic's name.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.policy.acl_history import ADDED, NEVER, REMOVED
from spark_audit.policy.acl_matches import DENYING, QUESTION, TYPE_QUESTION, acl_matches, in_effect

OWNER, OWNED_TOPIC = "owner", "owned_topic"
OWNS, OWNS_SOME = "owns", "owns_some"
OPERATIONS = (
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
)


def owner_changes(metadata_log: DataFrame) -> DataFrame:
    """Return each record of the config: date, offset, owned_topic, owner (null if the owner is removed)."""
    of_configs = metadata_log.where(F.col(S.API_KEY) == S.CONFIG_RECORD)
    read = of_configs.withColumn("config", F.from_json(S.BODY, S.CONFIG_BODY))
    of_owners = read.where((F.col("config.resource_type") == "TOPIC") & (F.col("config.name") == OWNER))
    return of_owners.select(
        S.DATE,
        S.LOG_OFFSET,
        F.col("config.resource_name").alias(OWNED_TOPIC),
        F.col("config.value").alias(OWNER),
    )


def owner_intervals(metadata_log: DataFrame) -> DataFrame:
    """Return one row per topic and interval with one owner: [added_offset, removed_offset)."""
    of_one_topic = Window.partitionBy(OWNED_TOPIC).orderBy(S.LOG_OFFSET)
    next_change = F.coalesce(F.lead(S.LOG_OFFSET).over(of_one_topic), F.lit(NEVER))
    ended = owner_changes(metadata_log).withColumn(REMOVED, next_change)
    owned = ended.where(F.col(OWNER).isNotNull())
    return owned.select(F.col(S.LOG_OFFSET).alias(ADDED), REMOVED, OWNED_TOPIC, OWNER)


def owners(questions: DataFrame, intervals: DataFrame) -> DataFrame:
    """Return each QUESTION whose principal owned the topic that it is about, with `owns` true."""
    of_topics = _of_topics(questions.select(*QUESTION).distinct())
    owns = (F.col(OWNER) == F.col(S.PRINCIPAL)) & (F.col(OWNED_TOPIC) == F.col(S.RESOURCE_NAME))
    found = of_topics.join(intervals, owns & in_effect())
    return found.select(*QUESTION, F.lit(True).alias(OWNS)).distinct()


def owners_of_some(questions: DataFrame, intervals: DataFrame, acls: DataFrame) -> DataFrame:
    """Return each TYPE_QUESTION whose principal owned a topic that no DENY covers, with `owns_some` true."""
    of_topics = _of_topics(questions.select(*TYPE_QUESTION).distinct())
    owned = of_topics.join(intervals, (F.col(OWNER) == F.col(S.PRINCIPAL)) & in_effect())
    named = owned.withColumnRenamed(OWNED_TOPIC, S.RESOURCE_NAME).select(*QUESTION).distinct()
    denied = acl_matches(named, acls).where(F.size(DENYING) > 0).select(*QUESTION)
    allowed = named.join(denied, list(QUESTION), "left_anti")
    return allowed.select(*TYPE_QUESTION, F.lit(True).alias(OWNS_SOME)).distinct()


def _of_topics(questions: DataFrame) -> DataFrame:
    return questions.where((F.col(S.RESOURCE_TYPE) == "TOPIC") & F.col(S.OPERATION).isin(*OPERATIONS))
