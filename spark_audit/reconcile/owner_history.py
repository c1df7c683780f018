"""The metadata log as a history of who owned which topic, and what that answers to a question.

The config `owner` of a topic names its owner; whatever ends it, a deletion too, writes the config anew, so
its records alone tell (docs/decisions/0028). An owner may do what is an operation on topics where no ACL
decides; DENYs are found as for a question about the topic's name.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.acl_matches import DENYING, QUESTION, answers
from spark_audit.reconcile.by_resource_type import TYPE_QUESTION
from spark_audit.trail.acl_history import ADDED, EPOCH, NEVER, REMOVED

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
    """Each record of the config: date, offset, owned_topic, owner (null: nobody from here on)."""
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
    """One row per topic and stretch of time in which somebody owned it: [added_offset, removed_offset)."""
    of_one_topic = Window.partitionBy(OWNED_TOPIC).orderBy(S.LOG_OFFSET)
    next_change = F.coalesce(F.lead(S.LOG_OFFSET).over(of_one_topic), F.lit(NEVER))
    ended = owner_changes(metadata_log).withColumn(REMOVED, next_change)
    owned = ended.where(F.col(OWNER).isNotNull())
    return owned.select(F.col(S.LOG_OFFSET).alias(ADDED), REMOVED, OWNED_TOPIC, OWNER)


def owners(questions: DataFrame, intervals: DataFrame) -> DataFrame:
    """Those of the questions (QUESTION) whose principal owned the topic they are about; `owns` is true."""
    asked = _of_topics(questions.select(*QUESTION).distinct())
    theirs = (F.col(OWNER) == F.col(S.PRINCIPAL)) & (F.col(OWNED_TOPIC) == F.col(S.RESOURCE_NAME))
    found = asked.join(intervals, theirs & _in_force())
    return found.select(*QUESTION, F.lit(True).alias(OWNS)).distinct()


def owners_of_some(questions: DataFrame, intervals: DataFrame, acls: DataFrame) -> DataFrame:
    """Those of the questions (TYPE_QUESTION) whose principal owned a topic that no DENY covers."""
    asked = _of_topics(questions.select(*TYPE_QUESTION).distinct())
    owned = asked.join(intervals, (F.col(OWNER) == F.col(S.PRINCIPAL)) & _in_force())
    named = owned.withColumnRenamed(OWNED_TOPIC, S.RESOURCE_NAME).select(*QUESTION).distinct()
    denied = answers(named, acls).where(F.size(DENYING) > 0).select(*QUESTION)
    free = named.join(denied, list(QUESTION), "left_anti")
    return free.select(*TYPE_QUESTION, F.lit(True).alias(OWNS_SOME)).distinct()


def _of_topics(asked: DataFrame) -> DataFrame:
    return asked.where((F.col(S.RESOURCE_TYPE) == "TOPIC") & F.col(S.OPERATION).isin(*OPERATIONS))


def _in_force() -> Column:
    return (F.col(ADDED) <= F.col(EPOCH)) & (F.col(EPOCH) < F.col(REMOVED))
