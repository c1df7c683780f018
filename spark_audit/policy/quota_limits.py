"""Which quota limits a client: the one in the metadata log at an offset (KIP-55), or the process's default.

An entity is two tags, of the user and of the client id. A tag is a sanitised name, `<default>`, or empty if
the entity does not name that type. Quotas of IP addresses are left out. Static defaults and excluded
principals come from the recorded settings of each process. quotas.py knows what was used.
"""

from functools import partial

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.policy.acl_history import NEVER
from spark_audit.policy.principals import GROUP, groups_among, no_groups, session_principals
from spark_audit.quota_keys import CONSUMER, PRODUCER
from spark_audit.trail.metadata_log import UNKNOWN_FIRST, UNKNOWN_LAST, any_hole, unknown_ranges
from spark_audit.trail.processes import BY_SETTINGS, recorded_settings, with_generation

SET, UNSET = "set_offset", "unset_offset"
USER_TAG, CLIENT_TAG, VALUE = "user_tag", "client_tag", "value"
DEFAULT = "<default>"
"""No sanitised name is equal to this: `<` becomes %3C."""
EXPECTED_LIMIT, EXPECTED_ID = "expected_limit", "expected_quota_id"
ENTITY = "entity"
"""The path of the entity that governs, as in the setting quota.scope.by.entity."""
IS_CLUSTER = "is_cluster"
"""Whether the limit holds for all proxies together (quota.scope)."""
MODE, EXCLUDED, WINDOW, SCOPES = "quota_mode", "excluded_principals", "window_s", "scopes"
PRODUCER_DEFAULT, CONSUMER_DEFAULT = "producer_default", "consumer_default"
CLIENT = (S.PRINCIPAL, S.GROUPS, S.CLIENT_ID, S.QUOTA_KEY, S.METADATA_OFFSET)
ANONYMOUS = "User:ANONYMOUS"
"""Kafka's principal of a client that has not logged in. Its records name none, but it has a quota."""

CONSUMING = ("Fetch", "ShareFetch")
OTHERS = "<others>"
"""In place of a client id that a process had no room to count the use of by itself."""
_MAX_TAG, _HASH = 255, 32
_SURELY_KEPT = 8_000
"""So much of a text that is longer than S.MOST_CHARACTERS is there in each text made of it."""


def governed(clients: DataFrame, records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Add EXPECTED_LIMIT and EXPECTED_ID, null if there is no limit, IS_CLUSTER and `quota_settings`.

    `clients` are as from `with_key`. A client is not limited if it, or a group of its session, has no quotas.
    Leave out offsets at which the log has a hole: the limit is not known there.
    """
    if any_hole(metadata_log):
        unknown = F.col(S.METADATA_OFFSET).between(F.col(UNKNOWN_FIRST), F.col(UNKNOWN_LAST) - 1)
        clients = clients.join(F.broadcast(unknown_ranges(metadata_log)), unknown, "left_anti")
    by_log = governing(clients, quota_intervals(metadata_log))
    own = F.broadcast(quota_settings(records))
    joined = clients.join(by_log, list(CLIENT), "left").join(own, list(BY_SETTINGS), "left")
    # Kafka has static defaults only for bytes.
    default = F.when(F.col(S.QUOTA_KEY) == PRODUCER, F.col(PRODUCER_DEFAULT)).when(
        F.col(S.QUOTA_KEY) == CONSUMER, F.col(CONSUMER_DEFAULT)
    )
    limited = ~F.coalesce(F.arrays_overlap(EXCLUDED, session_principals()), F.lit(False))
    of_default = F.when(default.isNotNull(), F.concat(F.lit(":"), F.col(S.CLIENT_ID)))
    return joined.withColumns(
        {
            EXPECTED_ID: F.when(limited, F.coalesce(EXPECTED_ID, of_default)),
            EXPECTED_LIMIT: F.when(limited, F.coalesce(EXPECTED_LIMIT, default)),
            IS_CLUSTER: _is_cluster(),
        }
    )


def is_enforced() -> Column:
    """Return whether the process throttles by its quotas, and does not only observe."""
    return F.coalesce(F.col(MODE), F.lit("enforce")) != "observe"


def with_key(records: DataFrame) -> DataFrame:
    """Set the quota key if a record has none, by its API.

    Principal, groups, client id and generation are not null either: a quota applies before the login too.
    """
    of_api = F.when(F.col(S.METHOD) == "Produce", PRODUCER).when(F.col(S.METHOD).isin(*CONSUMING), CONSUMER)
    return with_generation(records).withColumns(
        {
            S.QUOTA_KEY: F.coalesce(S.QUOTA_KEY, of_api),
            S.PRINCIPAL: F.coalesce(S.PRINCIPAL, F.lit(ANONYMOUS)),
            S.GROUPS: F.coalesce(S.GROUPS, no_groups()),
            S.CLIENT_ID: F.coalesce(S.CLIENT_ID, F.lit("")),
        }
    )


def quota_intervals(metadata_log: DataFrame) -> DataFrame:
    """Return one row per limit and interval in which it was in effect: [set_offset, unset_offset)."""
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
    """Return each distinct CLIENT with the limit in effect for it and the quota-id of its bucket.

    Leave out clients without a quota in the log; they may have a static default (`quota_settings`). A
    quota-id has the sanitised user name and the client id as it is. Of several groups with a quota of one
    rank the highest limit governs, of equal ones the first group.
    """
    distinct = clients.select(*CLIENT).distinct()
    ranked = distinct.select(*CLIENT, F.explode(_candidates()).alias("candidate"))
    tagged = ranked.select(*CLIENT, "candidate.*")
    rank = F.struct("rank", -F.col(VALUE), "group")
    in_effect = (F.col(SET) <= F.col(S.METADATA_OFFSET)) & (F.col(S.METADATA_OFFSET) < F.col(UNSET))
    found = tagged.join(intervals, [S.QUOTA_KEY, USER_TAG, CLIENT_TAG]).where(in_effect)
    return found.groupBy(*CLIENT).agg(
        F.min_by(VALUE, rank).alias(EXPECTED_LIMIT),
        F.min_by("quota_id", rank).alias(EXPECTED_ID),
        F.min_by(_entity_path(), rank).alias(ENTITY),
    )


def limited_groups(records: DataFrame, metadata_log: DataFrame) -> set[str]:
    """Return the groups that a quota of the log, or quota.excluded.principals of a process, names."""
    of_quotas = metadata_log.where(F.col(S.API_KEY) == S.CLIENT_QUOTA_RECORD)
    users = of_quotas.select(F.from_json(S.BODY, S.QUOTA_BODY)["entity"]["user"].alias(S.PRINCIPAL))
    excluded = quota_settings(records).select(F.explode(EXCLUDED).alias(S.PRINCIPAL))
    return groups_among(users.unionByName(excluded))


def quota_settings(records: DataFrame) -> DataFrame:
    """Return one row per BY_SETTINGS with the process's own limits, null if it records none."""
    recorded = F.col(S.SETTINGS)
    return recorded_settings(records).select(
        *BY_SETTINGS,
        recorded.getItem("quota.mode").alias(MODE),
        F.split(recorded.getItem("quota.excluded.principals"), ";").alias(EXCLUDED),
        recorded.getItem("quota.producer.default").try_cast("double").alias(PRODUCER_DEFAULT),
        recorded.getItem("quota.consumer.default").try_cast("double").alias(CONSUMER_DEFAULT),
        F.coalesce(_seconds("quota.window"), _seconds("controller.quota.window")).alias(WINDOW),
        recorded.getItem("quota.scope").alias(SCOPES),
    )


def _is_cluster() -> Column:
    """Return the scope of a quota: of its entity, else of its key, else the default of the process."""
    differing = F.str_to_map(F.col(SCOPES), F.lit(";"), F.lit("="))
    scope = F.coalesce(
        differing[F.col(ENTITY)],
        differing[F.col(S.QUOTA_KEY)],
        F.substring_index(F.col(SCOPES), ";", 1),
    )
    return F.coalesce(scope == "cluster", F.lit(False))


def _entity_path() -> Column:
    """Return the path below /config of the entity of two tags."""
    user, client = F.col(USER_TAG), F.col(CLIENT_TAG)
    parts = (
        F.when(user != "", F.concat(F.lit("users/"), user)),
        F.when(client != "", F.concat(F.lit("clients/"), client)),
    )
    return F.concat_ws("/", *parts)


def _seconds(prefix: str) -> Column:
    """Return the length of the whole window; for the controller's quota on mutations, the burst."""
    recorded = F.col(S.SETTINGS)
    samples, size = recorded.getItem(f"{prefix}.num"), recorded.getItem(f"{prefix}.size.seconds")
    return F.try_multiply(samples.try_cast("long"), size.try_cast("long"))


def _candidates() -> Column:
    """Return the entities with their ranks, Kafka's order with groups before the default, and quota-ids."""
    user, raw_client = sanitised(_name_of(F.col(S.PRINCIPAL))), F.coalesce(S.CLIENT_ID, F.lit(""))
    client = sanitised(short(raw_client))
    # A principal without a name is no user: no quota of users applies to it, nor a default.
    user = F.when(user != "", user)
    default, none = F.when(user.isNotNull(), F.lit(DEFAULT)), F.lit("")
    groups = F.when(user.isNotNull(), F.col(S.GROUPS)).otherwise(no_groups())
    # No default is that of a client without a client id, and no entity is null.
    default_client = F.when(raw_client != "", F.lit(DEFAULT))
    of_clients = ((client, raw_client), (default_client, raw_client), (none, none))

    def candidate(rank: int, tag: Column, bucket: Column, group: Column = none) -> Column:
        client_tag, client_id = of_clients[rank % 3]
        return F.struct(
            F.lit(rank).alias("rank"),
            F.substring(tag, 1, _SURELY_KEPT).alias(USER_TAG),
            client_tag.alias(CLIENT_TAG),
            F.concat(bucket, F.lit(":"), client_id).alias("quota_id"),
            group.alias("group"),
        )

    def of_group(rank: int, name: Column) -> Column:
        tag, bucket = sanitised(F.concat(F.lit(GROUP), name)), F.concat(user, F.lit("@"), sanitised(name))
        return candidate(rank, tag, bucket, name)

    return F.concat(
        F.array(*(candidate(rank, user, user) for rank in (0, 1, 2))),
        *(F.transform(groups, partial(of_group, rank)) for rank in (3, 4, 5)),
        F.array(*(candidate(rank, default, user) for rank in (6, 7, 8))),
        F.array(*(candidate(rank, none, none) for rank in (9, 10))),
    )


def short(client_id: Column) -> Column:
    """Return the client id as processes record it: of a long one its beginning and a hash."""
    begin = F.substring(client_id, 1, _MAX_TAG - 1 - _HASH)
    hashed = F.concat(begin, F.lit("~"), F.substring(F.sha2(client_id, 256), 1, _HASH))
    return F.when(F.length(client_id) <= _MAX_TAG, client_id).otherwise(hashed)


def is_expected_id() -> Column:
    """Return whether the recorded quota-id is that of `governed`, or of the limit's other client ids.

    A quota-id that was cut is compared as far as it is there: the names that it is made of are cut too.
    """
    recorded, expected = F.col(S.QUOTA_ID), F.col(EXPECTED_ID)
    kept = F.substring(recorded, 1, _SURELY_KEPT) == F.substring(expected, 1, _SURELY_KEPT)
    # Only client ids without a limit of their own share a bucket.
    shares = F.coalesce(F.col(ENTITY).endswith(f"clients/{DEFAULT}"), F.lit(True))
    others = F.concat(F.substring_index(expected, ":", 1), F.lit(f":{OTHERS}"))
    named = F.length(expected) > F.length(F.substring_index(expected, ":", 1)) + 1
    return (
        (recorded == expected)
        | ((F.length(recorded) >= S.MOST_CHARACTERS) & kept)
        | (shares & named & (recorded == others))
    )


def sanitised(name: Column) -> Column:
    """Return the name as Kafka's Sanitizer does: percent-encoded, including `*` and blanks."""
    return F.replace(F.replace(F.url_encode(name), F.lit("+"), F.lit("%20")), F.lit("*"), F.lit("%2A"))


def _name_of(principal: Column) -> Column:
    """Return `alice` for `User:alice`. The name may contain colons, the type may not."""
    return F.regexp_replace(principal, "^[^:]*:", "")


def _tag(entity_type: str) -> Column:
    raw = F.col("quota.entity").getItem(entity_type)
    named = (
        sanitised(short(raw)) if entity_type == "client-id" else F.substring(sanitised(raw), 1, _SURELY_KEPT)
    )
    name = F.coalesce(named, F.lit(DEFAULT))
    return F.when(F.map_contains_key("quota.entity", entity_type), name).otherwise("")
