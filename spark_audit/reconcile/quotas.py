"""(d) Quotas: whether more was used than the limit allows, and whether a process applied the right limit.

Takes the audit records, each once, and the metadata log, which has the limits by offset. `exceeded` adds up
the summaries of Produce (bytes in), Fetch and ShareFetch (bytes out), and the `quota_used` records of the
other quotas. The largest allowed use follows from Kafka's rule: a bucket holds the limit times the length of
the window, and a request is forwarded whole before its connection is muted. So each connection may exceed the
limit once, by what it had in flight.

Quotas on time are enforced softly, by Kafka too: no throttle time is longer than a second. So only clients
that exceeded one and were not throttled at all are reported. Quotas on partitions are strict only for
requests of a version that can be rejected; older ones are carried out and throttled (KIP-599).

`other_limit` checks the limits that records name.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, or_else, sentence
from spark_audit.reconcile.quota_limits import (
    BUCKET,
    CLIENT,
    CONNECTIONS,
    CONSUMER,
    CONSUMING,
    EXPECTED_ID,
    EXPECTED_LIMIT,
    IS_CLUSTER,
    KEYS,
    MODE,
    MUTATIONS,
    PRODUCER,
    TIME,
    WINDOW,
    governed,
    is_expected_id,
    with_key,
)
from spark_audit.tables.plans import held
from spark_audit.trail.processes import BY_SETTINGS, named_generation

WINDOW_S = 11
"""Kafka's default quota.window.num of one-second samples, for a process that does not record its own."""
STRETCH_MS = 3_600_000
"""Use is added up over intervals much longer than the window, so that bursts even out."""
STRICT_SINCE = {"CreateTopics": 6, "DeleteTopics": 5, "CreatePartitions": 3}
"""KIP-599: from these versions on, a request is rejected instead of throttled."""
MOST = float(2**62)
"""Larger than any count, and still exact as a whole number."""
_MICROSECONDS_OF_A_PERCENT = 10_000
_PROXY, _STRETCH, _USED, _BURST, _WAITED = "proxy", "stretch", "used", "burst", "waited"
_CLUSTER = "*"
"""In place of a proxy's name, which cannot be that: the quota holds for all proxies together."""
_SHARED = (_PROXY, S.QUOTA_ID, S.QUOTA_KEY, S.QUOTA_LIMIT)


def exceeded(charged: DataFrame) -> DataFrame:
    """Returns buckets that used more than their limit allows. The workers of a proxy share one bucket.

    With `quota.scope: cluster` all proxies share it. A process starts with an empty bucket, so each boot of a
    proxy, or of its workers, adds one window.
    """
    whose = F.when(F.col(IS_CLUSTER), F.lit(_CLUSTER)).otherwise(whole_proxy())
    by_connection = charged.withColumn(_PROXY, whose)
    starts = F.count_distinct(*S.BOOT_KEY) / F.count_distinct(S.PROXY_ID)
    by_bucket = by_connection.groupBy(*_SHARED, _STRETCH).agg(
        F.ceil(starts).alias("starts"),
        F.sort_array(F.collect_set(F.concat_ws("/", *S.BOOT_KEY))).alias("processes"),
        *_added_up(),
        F.sum(_BURST).alias(_BURST),
    )
    seconds = (F.col("to_ms") - F.col("from_ms")) / 1000
    seconds = seconds + F.coalesce(WINDOW, F.lit(WINDOW_S)) * F.col("starts")
    # "Unlimited" is often written as the largest number that there is.
    allowed = F.least(F.col(S.QUOTA_LIMIT) * units() * seconds + F.col(_BURST), F.lit(MOST)).cast("long")
    softly = (F.col(S.QUOTA_KEY) == TIME) & F.col(_WAITED)
    over = by_bucket.withColumn("allowed", allowed).where((F.col(_USED) > F.col("allowed")) & ~softly)
    return findings(
        over.withColumn("unit", unit()),
        check="quotas.exceeded",
        severity="high",
        date=S.DATE,
        explanation=sentence(
            "%s (%s) allowed %s %s for quota-id %s (%s): with a limit of %s it should be at most %s",
            F.when(F.col(_PROXY) == _CLUSTER, F.lit("all proxies together")).otherwise(
                F.concat(F.lit("proxy "), F.col(_PROXY))
            ),
            F.array_join("processes", ", "),
            _USED,
            "unit",
            S.QUOTA_ID,
            S.QUOTA_KEY,
            S.QUOTA_LIMIT,
            "allowed",
        ),
        evidence=[*_SHARED, "processes", "from_ms", "to_ms", _USED, "unit", "allowed"],
    )


def beyond_share(charged: DataFrame, few: DataFrame) -> DataFrame:
    """Returns processes that let more through than their share of a quota for the whole cluster.

    A process records its share of each interval. What it let through is the larger of what that record says
    and what the summaries of its connections add up to.
    """
    of_process = (*S.BOOT_KEY, S.QUOTA_ID, S.QUOTA_KEY, _STRETCH)
    seconds = (F.col(S.INTERVAL_END_MS) - F.col(S.INTERVAL_START_MS)) / 1000
    shared = few.where((F.col(S.EVENT) == "quota_share") & F.col(S.RULE).isNull())
    shares = shared.groupBy(*S.BOOT_KEY, S.QUOTA_ID, S.QUOTA_KEY, _stretch()).agg(
        F.min(S.DATE).alias(S.DATE),
        F.sum(S.COUNT).alias(_USED),
        F.sum(F.col(S.QUOTA_SHARE) * F.col(S.QUOTA_LIMIT) * seconds).alias("share_of_limit"),
        F.max(S.QUOTA_LIMIT).alias(S.QUOTA_LIMIT),
        F.min(S.INTERVAL_START_MS).alias("from_ms"),
        F.max(S.INTERVAL_END_MS).alias("to_ms"),
    )
    summed = charged.groupBy(*of_process).agg(
        F.sum(_USED).alias("summed"), F.sum(_BURST).alias(_BURST), F.max(WINDOW).alias(WINDOW)
    )
    burst = F.col(S.QUOTA_LIMIT) * F.coalesce(WINDOW, F.lit(WINDOW_S))
    allowed = (F.col("share_of_limit") + burst) * units() + F.coalesce(_BURST, F.lit(0))
    judged = shares.join(summed, list(of_process), "left").withColumns(
        {
            _USED: F.greatest(_USED, F.coalesce("summed", F.lit(0))),
            "allowed": F.least(allowed, F.lit(MOST)).cast("long"),
        }
    )
    return findings(
        judged.where(F.col(_USED) > F.col("allowed")).withColumn("unit", unit()),
        check="quotas.share_exceeded",
        severity="high",
        date=S.DATE,
        explanation=sentence(
            "process %s/%s allowed %s %s for quota-id %s (%s): with its share of the cluster's limit of %s it"
            " should be at most %s",
            *S.BOOT_KEY,
            _USED,
            "unit",
            S.QUOTA_ID,
            S.QUOTA_KEY,
            S.QUOTA_LIMIT,
            "allowed",
        ),
        evidence=[*of_process[:-1], S.QUOTA_LIMIT, "from_ms", "to_ms", _USED, "unit", "allowed"],
    )


def _charged(records: DataFrame, few: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Returns the use of clients with a quota: one row per bucket, connection, day and interval.

    Summaries are added up before their limit is looked up: there are many of them, but few clients and
    offsets.
    """
    from_ms = _from_ms()
    # A response has only the longest throttle time, so a quota on bytes may hide one on time.
    waits = F.when(F.col(S.EVENT) == "throttled", TIME).otherwise(F.col(S.QUOTA_KEY))
    added = held(
        with_key(records.where(_counts()).withColumn(S.QUOTA_KEY, waits))
        .groupBy(*BY_SETTINGS, *CLIENT, S.CONNECTION_ID, _stretch())
        .agg(
            F.min(S.DATE).alias(S.DATE),
            F.sum(counted()).alias(_USED),
            F.max(counted()).alias(_BURST),
            F.min(from_ms).alias("from_ms"),
            F.max(F.coalesce(S.INTERVAL_END_MS, S.TIME_MS)).alias("to_ms"),
            F.max(F.col(S.EVENT) == "throttled").alias(_WAITED),
        )
    )
    limited = governed(added, few, metadata_log).where(
        F.col(EXPECTED_LIMIT).isNotNull() & (F.coalesce(F.col(MODE), F.lit("enforce")) != "observe")
    )
    named = limited.withColumns({S.QUOTA_ID: F.col(EXPECTED_ID), S.QUOTA_LIMIT: F.col(EXPECTED_LIMIT)})
    by_connection = named.groupBy(*BUCKET, IS_CLUSTER, _STRETCH, S.CONNECTION_ID)
    return by_connection.agg(*_added_up(), F.max(_BURST).alias(_BURST))


def _added_up() -> list[Column]:
    """Returns the sums that connections and buckets share."""
    return [
        F.min(S.DATE).alias(S.DATE),
        F.sum(_USED).alias(_USED),
        F.min("from_ms").alias("from_ms"),
        F.max("to_ms").alias("to_ms"),
        F.max(_WAITED).alias(_WAITED),
        F.max(WINDOW).alias(WINDOW),
    ]


def _counts() -> Column:
    """Returns whether the record counts use or reports throttling.

    Summaries of several client ids of one connection do not count: their quotas are not known.
    """
    strict = F.lit(False)
    for method, version in STRICT_SINCE.items():
        strict = strict | ((F.col(S.METHOD) == method) & (F.col(S.API_VERSION) >= version))
    used = (F.col(S.EVENT) == "quota_used") & ((F.col(S.QUOTA_KEY) == TIME) | strict)
    return (is_traffic() | used | (F.col(S.EVENT) == "throttled")) & ~of_several_clients()


def is_traffic() -> Column:
    """Returns whether the record is a summary of bytes that a quota limits."""
    return (F.col(S.EVENT) == "authorization_summary") & F.col(S.METHOD).isin("Produce", *CONSUMING)


def of_several_clients() -> Column:
    """Returns whether the record stands for several client ids of one connection."""
    return F.col(S.CLIENT_ID).isNull() & F.col(S.MESSAGE).isNotNull()


def counted() -> Column:
    """Returns what a record with a quota key says was used; 0 if it only reports throttling."""
    return F.coalesce(
        F.when(F.col(S.QUOTA_KEY) == PRODUCER, F.col(S.REQUEST_BYTES)),
        F.when(F.col(S.QUOTA_KEY) == CONSUMER, F.col(S.RESPONSE_BYTES)),
        F.when(F.col(S.EVENT) == "quota_used", F.col(S.COUNT)),
        F.lit(0),
    )


def units() -> Column:
    """Returns how much a limit of 1 allows per second."""
    return F.when(F.col(S.QUOTA_KEY) == TIME, _MICROSECONDS_OF_A_PERCENT).otherwise(1)


def unit() -> Column:
    return (
        F.when(F.col(S.QUOTA_KEY) == TIME, "us of an event loop")
        .when(F.col(S.QUOTA_KEY) == MUTATIONS, "partition changes")
        .when(F.col(S.QUOTA_KEY) == CONNECTIONS, "connections")
        .otherwise("bytes")
    )


def _from_ms() -> Column:
    return F.coalesce(S.INTERVAL_START_MS, S.TIME_MS)


def _stretch() -> Column:
    return F.floor(_from_ms() / STRETCH_MS).alias(_STRETCH)


def whole_proxy() -> Column:
    """Returns `proxy-1` for its workers `proxy-1.w0` and `proxy-1.w1`."""
    return F.regexp_replace(S.PROXY_ID, r"\.w[0-9]+$", "")


_CLIENT = (*BUCKET, S.PRINCIPAL, S.CLIENT_ID, S.SETTINGS_GENERATION)


def quotas(records: DataFrame, metadata_log: DataFrame, few: DataFrame | None = None) -> DataFrame:
    """Returns the findings of all three checks. `few` has all records but traffic, if it is known."""
    rest = records if few is None else few
    charged = held(_charged(records, rest, metadata_log))
    used = exceeded(charged).unionByName(beyond_share(charged, rest))
    return used.unionByName(other_limit(records, rest, metadata_log))


def other_limit(records: DataFrame, few: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Returns records with another limit or quota-id than that of the log or of the process's default.

    Records of any event: a limit in a record of traffic is forged.
    """
    named = records.where(F.col(S.QUOTA_LIMIT).isNotNull() & F.col(S.METADATA_OFFSET).isNotNull())
    added = held(
        with_key(named)
        .where(F.col(S.QUOTA_KEY).isin(*KEYS))
        .groupBy(*_CLIENT, S.METADATA_OFFSET, S.DATE)
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.min(S.SEQUENCE).alias("first_sequence"),
            F.max(S.SEQUENCE).alias("last_sequence"),
        )
    )
    joined = governed(added, few, metadata_log)
    joined = joined.where(F.col(EXPECTED_LIMIT).isNotNull() | F.col(MODE).isNotNull())
    fits = (F.col(S.QUOTA_LIMIT) == F.col(EXPECTED_LIMIT)) & is_expected_id()
    wrong = joined.where(~F.coalesce(fits, F.lit(False)))
    group = (*_CLIENT, EXPECTED_LIMIT, EXPECTED_ID, S.DATE)
    evident = [named_generation() if name == S.SETTINGS_GENERATION else name for name in group[:-1]]
    grouped = wrong.groupBy(*group).agg(
        F.sum("records").alias("records"),
        F.min(S.METADATA_OFFSET).alias("lowest_offset"),
        F.min("first_sequence").alias("first_sequence"),
        F.max("last_sequence").alias("last_sequence"),
    )
    return findings(
        grouped,
        check="quotas.other_limit",
        severity="high",
        date=S.DATE,
        explanation=sentence(
            "process %s/%s limited %s to %s %s of quota-id %s; from offset %s on it is %s",
            *S.BOOT_KEY,
            S.PRINCIPAL,
            S.QUOTA_KEY,
            S.QUOTA_LIMIT,
            S.QUOTA_ID,
            "lowest_offset",
            or_else(F.concat(EXPECTED_LIMIT, F.lit(" of quota-id "), EXPECTED_ID), "not limited"),
        ),
        evidence=[*evident, "records", "lowest_offset", "first_sequence", "last_sequence"],
    )
