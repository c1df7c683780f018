"""(d) Bytes per quota-id against the limit in force, and whether a process held to that limit.

Takes the audit records (each once) and the metadata log, which says what limit governs whom at which
offset; where none does, the process's own default holds, which it told at its start. Counts what summaries
tell of Produce (bytes in), Fetch and ShareFetch (bytes out). How much may pass is Kafka's rule turned round:
a bucket holds as many seconds of its limit as the window is long, and a request is let through whole before
its connection is muted, so each connection may once overshoot by what it had under way.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, words
from spark_audit.reconcile.quota_history import (
    CLIENT,
    CONSUMER_DEFAULT,
    EXCLUDED,
    EXPECTED_ID,
    EXPECTED_LIMIT,
    MODE,
    PRODUCER_DEFAULT,
    WINDOW,
    governing,
    quota_intervals,
    quota_settings,
)
from spark_audit.trail import AUTHOR

WINDOW_S = 11
"""Kafka's default quota.window.num of one-second samples, where a process does not tell its own."""
STRETCH_MS = 3_600_000
"""Bytes are summed over stretches of time much longer than the window, so that bursts even out."""
PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
_CONSUMING = ("Fetch", "ShareFetch")
_BUCKET = (*AUTHOR, S.QUOTA_ID, S.QUOTA_KEY, S.QUOTA_LIMIT)
_PROXY = "proxy"
_SHARED = (_PROXY, S.QUOTA_ID, S.QUOTA_KEY, S.QUOTA_LIMIT)


def quotas(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Both checks as one table of findings."""
    return exceeded(records, metadata_log).unionByName(other_limit(records, metadata_log))


def exceeded(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Buckets that let through more than their limit allows; workers of one proxy fill one bucket.

    A process that starts begins with an empty bucket, so each of a proxy's (or of its workers') has a window.
    """
    by_connection = _charged(records, metadata_log).withColumn(_PROXY, _whole_proxy())
    starts = F.count_distinct(*AUTHOR) / F.count_distinct(S.PROXY_ID)
    by_bucket = by_connection.groupBy(*_SHARED, "stretch").agg(
        F.ceil(starts).alias("starts"),
        F.sort_array(F.collect_set(F.concat_ws("/", *AUTHOR))).alias("processes"),
        F.min(S.DATE).alias(S.DATE),
        F.sum("bytes").alias("bytes"),
        F.sum("burst").alias("burst"),
        F.min("from_ms").alias("from_ms"),
        F.max("to_ms").alias("to_ms"),
        F.max(WINDOW).alias(WINDOW),
    )
    seconds = (F.col("to_ms") - F.col("from_ms")) / 1000
    seconds = seconds + F.coalesce(WINDOW, F.lit(WINDOW_S)) * F.col("starts")
    allowed = (F.col(S.QUOTA_LIMIT) * seconds + F.col("burst")).cast("long")
    over = by_bucket.withColumn("allowed_bytes", allowed).where(F.col("bytes") > F.col("allowed_bytes"))
    return findings(
        over,
        check="quotas.exceeded",
        severity="high",
        date=S.DATE,
        explanation=words(
            "proxy %s (%s) let %s bytes through for quota-id %s (%s): at %s bytes/s it is %s bytes at most",
            _PROXY,
            F.array_join("processes", ", "),
            "bytes",
            S.QUOTA_ID,
            S.QUOTA_KEY,
            S.QUOTA_LIMIT,
            "allowed_bytes",
        ),
        evidence=[*_SHARED, "processes", "from_ms", "to_ms", "bytes", "allowed_bytes"],
    )


def _whole_proxy() -> Column:
    """`proxy-1.w0` and `proxy-1.w1` are workers of `proxy-1`."""
    return F.regexp_replace(S.PROXY_ID, r"\.w[0-9]+$", "")


def other_limit(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Records whose limit or quota-id is not the one that the log, or the process's own default, says."""
    # Other keys have other measures; whose they are the log does not tell here.
    of_bytes = F.coalesce(S.QUOTA_KEY, F.lit(PRODUCER)).isin(PRODUCER, CONSUMER)
    told = records.where(F.col(S.QUOTA_LIMIT).isNotNull() & F.col(S.METADATA_OFFSET).isNotNull() & of_bytes)
    added = (
        _with_key(told)
        .groupBy(*_BUCKET, S.PRINCIPAL, S.CLIENT_ID, S.METADATA_OFFSET, S.DATE)
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.min(S.SEQUENCE).alias("first_sequence"),
            F.max(S.SEQUENCE).alias("last_sequence"),
        )
    )
    joined = _governed(added, records, metadata_log)
    joined = joined.where(F.col(EXPECTED_LIMIT).isNotNull() | F.col(MODE).isNotNull())
    fits = (F.col(S.QUOTA_LIMIT) == F.col(EXPECTED_LIMIT)) & (F.col(S.QUOTA_ID) == F.col(EXPECTED_ID))
    wrong = joined.where(~F.coalesce(fits, F.lit(False)))
    group = (*_BUCKET, S.PRINCIPAL, S.CLIENT_ID, EXPECTED_LIMIT, EXPECTED_ID, S.DATE)
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
        explanation=words(
            "process %s/%s held %s to %s %s of quota-id %s; from offset %s on it has to be %s of quota-id %s",
            *AUTHOR,
            S.PRINCIPAL,
            S.QUOTA_KEY,
            S.QUOTA_LIMIT,
            S.QUOTA_ID,
            "lowest_offset",
            EXPECTED_LIMIT,
            EXPECTED_ID,
        ),
        evidence=[*group[:-1], "records", "lowest_offset", "first_sequence", "last_sequence"],
    )


def _charged(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """What clients that a byte quota governs sent and got: one row per bucket, connection, day and stretch.

    Summaries are added up before their limit is looked for: they are many, clients and offsets are few.
    """
    summaries = records.where(
        (F.col(S.EVENT) == "authorization_summary") & F.col(S.METHOD).isin("Produce", *_CONSUMING)
    )
    from_ms = F.coalesce(S.INTERVAL_START_MS, S.TIME_MS)
    counted = F.coalesce(
        F.when(F.col(S.QUOTA_KEY) == PRODUCER, F.col(S.REQUEST_BYTES)),
        F.when(F.col(S.QUOTA_KEY) == CONSUMER, F.col(S.RESPONSE_BYTES)),
        F.lit(0),
    )
    stretch = F.floor(from_ms / STRETCH_MS).alias("stretch")
    added = (
        _with_key(summaries)
        .groupBy(*AUTHOR, *CLIENT, S.CONNECTION_ID, stretch)
        .agg(
            F.min(S.DATE).alias(S.DATE),
            F.sum(counted).alias("bytes"),
            F.max(counted).alias("burst"),
            F.min(from_ms).alias("from_ms"),
            F.max(F.coalesce(S.INTERVAL_END_MS, S.TIME_MS)).alias("to_ms"),
        )
    )
    governed = _governed(added, records, metadata_log)
    enforced = F.coalesce(F.col(MODE), F.lit("enforce")) != "observe"
    limited = governed.where(F.col(EXPECTED_LIMIT).isNotNull() & enforced)
    named = limited.withColumns({S.QUOTA_ID: F.col(EXPECTED_ID), S.QUOTA_LIMIT: F.col(EXPECTED_LIMIT)})
    return named.groupBy(*_BUCKET, "stretch", S.CONNECTION_ID).agg(
        F.min(S.DATE).alias(S.DATE),
        F.sum("bytes").alias("bytes"),
        F.max("burst").alias("burst"),
        F.min("from_ms").alias("from_ms"),
        F.max("to_ms").alias("to_ms"),
        F.max(WINDOW).alias(WINDOW),
    )


def _governed(clients: DataFrame, records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Adds EXPECTED_LIMIT and EXPECTED_ID, null where nothing limits, and what the process told."""
    by_log = governing(clients, quota_intervals(metadata_log))
    told = F.broadcast(quota_settings(records))
    joined = clients.join(by_log, list(CLIENT), "left").join(told, list(AUTHOR), "left")
    default = F.when(F.col(S.QUOTA_KEY) == PRODUCER, F.col(PRODUCER_DEFAULT)).when(
        F.col(S.QUOTA_KEY) == CONSUMER, F.col(CONSUMER_DEFAULT)
    )
    limited = ~F.coalesce(F.array_contains(EXCLUDED, F.col(S.PRINCIPAL)), F.lit(False))
    of_default = F.when(default.isNotNull(), F.concat(F.lit(":"), F.col(S.CLIENT_ID)))
    return joined.withColumns(
        {
            EXPECTED_ID: F.when(limited, F.coalesce(EXPECTED_ID, of_default)),
            EXPECTED_LIMIT: F.when(limited, F.coalesce(EXPECTED_LIMIT, default)),
        }
    )


def _with_key(records: DataFrame) -> DataFrame:
    """Adds the quota a record is about: its own word, else what its API is charged to."""
    of_api = F.when(F.col(S.METHOD) == "Produce", PRODUCER).when(F.col(S.METHOD).isin(*_CONSUMING), CONSUMER)
    keyed = records.withColumn(S.QUOTA_KEY, F.coalesce(S.QUOTA_KEY, of_api))
    return keyed.withColumn(S.CLIENT_ID, F.coalesce(S.CLIENT_ID, F.lit("")))
