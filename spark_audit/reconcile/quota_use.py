"""(d) What passed of each quota-id against the limit in force: bytes, partitions, time of the event loop.

Takes the audit records (each once) and the metadata log. Counts what summaries tell of Produce (bytes in),
Fetch and ShareFetch (bytes out), and what `quota_used` tells of the rest. How much may pass is Kafka's rule
turned round: a bucket holds as many seconds of its limit as the window is long, and a request is let through
whole before its connection is muted, so each connection may once overshoot by what it had under way.

A quota on time is held softly, by Kafka too: nobody is told to wait for longer than a second at a time. So
what is found there is who took too much and was not told to wait at all. Partitions are held to by those
requests that can be refused; older ones are served and told to wait (KIP-599).
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, words
from spark_audit.reconcile.quota_history import CLIENT, EXPECTED_ID, EXPECTED_LIMIT, MODE, WINDOW
from spark_audit.reconcile.quota_limits import (
    BUCKET,
    CONSUMER,
    CONSUMING,
    MUTATIONS,
    PRODUCER,
    TIME,
    governed,
    with_key,
)
from spark_audit.trail.processes import BY_SETTINGS

WINDOW_S = 11
"""Kafka's default quota.window.num of one-second samples, where a process does not tell its own."""
STRETCH_MS = 3_600_000
"""What was used is summed over stretches of time much longer than the window, so that bursts even out."""
STRICT_SINCE = {"CreateTopics": 6, "DeleteTopics": 5, "CreatePartitions": 3}
"""KIP-599: from these versions on a request is refused, not slowed down."""
MOST = float(2**62)
"""More than anything that is counted; as a whole number it is one still."""
_MICROSECONDS_OF_A_PERCENT = 10_000
_PROXY, _STRETCH, _USED, _BURST, _WAITED = "proxy", "stretch", "used", "burst", "waited"
_SHARED = (_PROXY, S.QUOTA_ID, S.QUOTA_KEY, S.QUOTA_LIMIT)


def exceeded(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Buckets that let through more than their limit allows; workers of one proxy fill one bucket.

    A process that starts begins with an empty bucket, so each of a proxy's (or of its workers') has a window.
    """
    by_connection = _charged(records, metadata_log).withColumn(_PROXY, _whole_proxy())
    starts = F.count_distinct(*S.BOOT_KEY) / F.count_distinct(S.PROXY_ID)
    by_bucket = by_connection.groupBy(*_SHARED, _STRETCH).agg(
        F.ceil(starts).alias("starts"),
        F.sort_array(F.collect_set(F.concat_ws("/", *S.BOOT_KEY))).alias("processes"),
        *_added_up(),
        F.sum(_BURST).alias(_BURST),
    )
    seconds = (F.col("to_ms") - F.col("from_ms")) / 1000
    seconds = seconds + F.coalesce(WINDOW, F.lit(WINDOW_S)) * F.col("starts")
    # A limit that is no limit is often set as the largest number there is.
    allowed = F.least(F.col(S.QUOTA_LIMIT) * _units() * seconds + F.col(_BURST), F.lit(MOST)).cast("long")
    softly = (F.col(S.QUOTA_KEY) == TIME) & F.col(_WAITED)
    over = by_bucket.withColumn("allowed", allowed).where((F.col(_USED) > F.col("allowed")) & ~softly)
    return findings(
        over.withColumn("unit", _unit()),
        check="quotas.exceeded",
        severity="high",
        date=S.DATE,
        explanation=words(
            "proxy %s (%s) let %s %s through for quota-id %s (%s): at %s it is %s at most",
            _PROXY,
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


def _charged(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """What clients that a quota governs used: one row per bucket, connection, day and stretch.

    Summaries are added up before their limit is looked for: they are many, clients and offsets are few.
    """
    from_ms = _from_ms()
    # Of all that a client owes the longest wait is told, so whoever owed bytes was told no time.
    waits = F.when(F.col(S.EVENT) == "throttled", TIME).otherwise(F.col(S.QUOTA_KEY))
    added = (
        with_key(records.where(_counts()).withColumn(S.QUOTA_KEY, waits))
        .groupBy(*BY_SETTINGS, *CLIENT, S.CONNECTION_ID, _stretch())
        .agg(
            F.min(S.DATE).alias(S.DATE),
            F.sum(_counted()).alias(_USED),
            F.max(_counted()).alias(_BURST),
            F.min(from_ms).alias("from_ms"),
            F.max(F.coalesce(S.INTERVAL_END_MS, S.TIME_MS)).alias("to_ms"),
            F.max(F.col(S.EVENT) == "throttled").alias(_WAITED),
        )
    )
    limited = governed(added, records, metadata_log).where(
        F.col(EXPECTED_LIMIT).isNotNull() & (F.coalesce(F.col(MODE), F.lit("enforce")) != "observe")
    )
    named = limited.withColumns({S.QUOTA_ID: F.col(EXPECTED_ID), S.QUOTA_LIMIT: F.col(EXPECTED_LIMIT)})
    by_connection = named.groupBy(*BUCKET, _STRETCH, S.CONNECTION_ID)
    return by_connection.agg(*_added_up(), F.max(_BURST).alias(_BURST))


def _added_up() -> list[Column]:
    """What is the same of a connection and of a bucket; only what was under way adds up otherwise."""
    return [
        F.min(S.DATE).alias(S.DATE),
        F.sum(_USED).alias(_USED),
        F.min("from_ms").alias("from_ms"),
        F.max("to_ms").alias("to_ms"),
        F.max(_WAITED).alias(_WAITED),
        F.max(WINDOW).alias(WINDOW),
    ]


def _counts() -> Column:
    """The records that tell what was used, or who was told to wait.

    Without what several client ids of one connection used together: whose quotas that was, nobody can tell.
    """
    of_many = F.col(S.CLIENT_ID).isNull() & F.col(S.MESSAGE).isNotNull()
    traffic = (F.col(S.EVENT) == "authorization_summary") & F.col(S.METHOD).isin("Produce", *CONSUMING)
    strict = F.lit(False)
    for method, version in STRICT_SINCE.items():
        strict = strict | ((F.col(S.METHOD) == method) & (F.col(S.API_VERSION) >= version))
    used = (F.col(S.EVENT) == "quota_used") & ((F.col(S.QUOTA_KEY) == TIME) | strict)
    return (traffic | used | (F.col(S.EVENT) == "throttled")) & ~of_many


def _counted() -> Column:
    return F.coalesce(
        F.when(F.col(S.QUOTA_KEY) == PRODUCER, F.col(S.REQUEST_BYTES)),
        F.when(F.col(S.QUOTA_KEY) == CONSUMER, F.col(S.RESPONSE_BYTES)),
        F.when(F.col(S.EVENT) == "quota_used", F.col(S.COUNT)),
        F.lit(0),
    )


def _units() -> Column:
    """How much of what is counted a limit of 1 allows in a second."""
    return F.when(F.col(S.QUOTA_KEY) == TIME, _MICROSECONDS_OF_A_PERCENT).otherwise(1)


def _unit() -> Column:
    return (
        F.when(F.col(S.QUOTA_KEY) == TIME, "us of an event loop")
        .when(F.col(S.QUOTA_KEY) == MUTATIONS, "partition changes")
        .otherwise("bytes")
    )


def _from_ms() -> Column:
    return F.coalesce(S.INTERVAL_START_MS, S.TIME_MS)


def _stretch() -> Column:
    return F.floor(_from_ms() / STRETCH_MS).alias(_STRETCH)


def _whole_proxy() -> Column:
    """`proxy-1.w0` and `proxy-1.w1` are workers of `proxy-1`."""
    return F.regexp_replace(S.PROXY_ID, r"\.w[0-9]+$", "")
