"""The metadata log as a history of quotas, and which of them governs a client (KIP-55).

An entity is told by two tags: a sanitised name, `<default>`, or nothing where the
entity says nothing of user or client-id. Quotas of IP addresses are of no concern here.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.trail.acl_history import NEVER
from spark_audit.trail.processes import BY_SETTINGS, told_settings

SET, UNSET = "set_offset", "unset_offset"
USER_TAG, CLIENT_TAG, VALUE = "user_tag", "client_tag", "value"
DEFAULT = "<default>"
"""No sanitised name can be this one: `<` becomes %3C."""
EXPECTED_LIMIT, EXPECTED_ID = "expected_limit", "expected_quota_id"
MODE, EXCLUDED, WINDOW = "quota_mode", "excluded_principals", "window_s"
PRODUCER_DEFAULT, CONSUMER_DEFAULT = "producer_default", "consumer_default"
CLIENT = (S.PRINCIPAL, S.CLIENT_ID, S.QUOTA_KEY, S.METADATA_OFFSET)


def quota_intervals(metadata_log: DataFrame) -> DataFrame:
    """One row per limit and stretch of offsets in which it held: [set_offset, unset_offset)."""
    records = metadata_log.where(F.col(S.API_KEY) == S.CLIENT_QUOTA_RECORD)
    read = records.withColumn("quota", F.from_json(S.BODY, S.QUOTA_BODY))
    tagged = read.select(
        S.LOG_OFFSET,
        F.col("quota.key").alias(S.QUOTA_KEY),
        F.col("quota.value").alias(VALUE),
        F.col("quota.remove").alias("removes"),
        F.map_contains_key("quota.entity", "ip").alias("of_ip"),
        _tag("user").alias(USER_TAG),
        _tag("client-id").alias(CLIENT_TAG),
    )
    of_one_limit = Window.partitionBy(USER_TAG, CLIENT_TAG, S.QUOTA_KEY, "of_ip").orderBy(S.LOG_OFFSET)
    ended = tagged.withColumn(UNSET, F.coalesce(F.lead(S.LOG_OFFSET).over(of_one_limit), F.lit(NEVER)))
    held = ended.where(~F.col("removes") & ~F.col("of_ip"))
    return held.select(F.col(S.LOG_OFFSET).alias(SET), UNSET, S.QUOTA_KEY, USER_TAG, CLIENT_TAG, VALUE)


def governing(clients: DataFrame, intervals: DataFrame) -> DataFrame:
    """Each distinct CLIENT with the limit in force for it, and the quota-id that goes with it.

    Clients that no quota in the log governs are not in the result: a static default may (`quota_settings`).
    A quota-id has the user's name sanitised and the client-id as it is.
    """
    asked = clients.select(*CLIENT).distinct()
    ranked = asked.select(*CLIENT, F.posexplode(_candidates()).alias("rank", "candidate"))
    tagged = ranked.select(*CLIENT, "rank", "candidate.*")
    in_force = (F.col(SET) <= F.col(S.METADATA_OFFSET)) & (F.col(S.METADATA_OFFSET) < F.col(UNSET))
    found = tagged.join(intervals, [S.QUOTA_KEY, USER_TAG, CLIENT_TAG]).where(in_force)
    return found.groupBy(*CLIENT).agg(
        F.min_by(VALUE, "rank").alias(EXPECTED_LIMIT), F.min_by("quota_id", "rank").alias(EXPECTED_ID)
    )


def quota_settings(records: DataFrame) -> DataFrame:
    """One row for each BY_SETTINGS: what a process says of its own limits; null where it says nothing."""
    told = F.col(S.SETTINGS)
    return told_settings(records).select(
        *BY_SETTINGS,
        told.getItem("quota.mode").alias(MODE),
        F.split(told.getItem("quota.excluded.principals"), ";").alias(EXCLUDED),
        told.getItem("quota.producer.default").try_cast("double").alias(PRODUCER_DEFAULT),
        told.getItem("quota.consumer.default").try_cast("double").alias(CONSUMER_DEFAULT),
        F.coalesce(_seconds(told, "quota.window"), _seconds(told, "controller.quota.window")).alias(WINDOW),
    )


def _seconds(told: Column, prefix: str) -> Column:
    """The whole of a window; of the controller's quota on mutations, the burst."""
    samples, size = told.getItem(f"{prefix}.num"), told.getItem(f"{prefix}.size.seconds")
    return F.try_multiply(samples.try_cast("long"), size.try_cast("long"))


def _candidates() -> Column:
    """Kafka's order, the most specific first, each with the quota-id it makes."""
    user, raw_client = sanitised(_name_of(F.col(S.PRINCIPAL))), F.coalesce(S.CLIENT_ID, F.lit(""))
    client = sanitised(raw_client)
    default, none = F.lit(DEFAULT), F.lit("")
    both, user_only, client_only = (
        F.concat(user, F.lit(":"), raw_client),
        F.concat(user, F.lit(":")),
        F.concat(F.lit(":"), raw_client),
    )
    order = (
        (user, client, both),
        (user, default, both),
        (user, none, user_only),
        (default, client, both),
        (default, default, both),
        (default, none, user_only),
        (none, client, client_only),
        (none, default, client_only),
    )
    return F.array(
        *(
            F.struct(u.alias(USER_TAG), c.alias(CLIENT_TAG), quota_id.alias("quota_id"))
            for u, c, quota_id in order
        )
    )


def sanitised(name: Column) -> Column:
    """As Kafka's Sanitizer: percent-encoded, and `*` and blanks too."""
    return F.replace(F.replace(F.url_encode(name), F.lit("+"), F.lit("%20")), F.lit("*"), F.lit("%2A"))


def _name_of(principal: Column) -> Column:
    """`User:alice` -> `alice`; a name may hold colons, a type may not."""
    return F.regexp_replace(principal, "^[^:]*:", "")


def _tag(entity_type: str) -> Column:
    name = F.coalesce(sanitised(F.col("quota.entity").getItem(entity_type)), F.lit(DEFAULT))
    return F.when(F.map_contains_key("quota.entity", entity_type), name).otherwise("")
