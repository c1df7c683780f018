"""(d) Quotas: whether more was used than the limit allows, and whether a process applied the right limit.

Takes the audit records, each once, and the metadata log, which has the limits by offset. `exceeded` adds up
the summaries of Produce (bytes in), Fetch and ShareFetch (bytes out), and the `quota_used` records of the
other quotas, over every stretch of time. What may pass follows from Kafka's rule: the limit for the stretch
and for one window, and one request of each connection, because a request is carried out whole and the next
one of its connection waits (docs/decisions/0114). Summaries do not say how large the largest request was:
twice the mean is assumed. What is found does not change with what comes later.

Quotas on time are enforced softly, by Kafka too: no throttle time is longer than a second. So only clients
that exceeded one and were not throttled at all are reported. Quotas on partitions are strict only for
requests of a version that can be rejected; older ones are carried out and throttled (KIP-599).

`other_limit` checks the limits that records name.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import quota_keys as K
from spark_audit import schema as S
from spark_audit.policy import quota_limits as Q
from spark_audit.policy import quota_use as U
from spark_audit.policy.principals import recorded_groups
from spark_audit.reconcile.finding import findings, or_else, register, sentence
from spark_audit.tables.plans import held
from spark_audit.trail.audit_records import ALWAYS
from spark_audit.trail.processes import BY_SETTINGS, named_generation

register(
    """
quotas: Nobody used more than the quota in effect, and the right quota was applied.
quotas.exceeded (high): A quota-id used more than its limit allows.
    Compare with the throttle records of that time; if there are none, check the settings of the proxy.
    If its clock was set back then, the use of two times counts as that of one.
quotas.share_exceeded (high): A proxy let more through than its share of a quota.
    Check its settings, and whether it reaches the other proxies.
quotas.other_limit (high): A process applied another limit than the one in effect.
    Check what the process had loaded of the metadata log then.
"""
)

STRETCH_MS = 3_600_000
"""Shares, and whether anyone was throttled for time, are judged by the hour."""
SUMMARY_MS = 10_000
"""A process records what a connection used at least this often."""
MOST = float(2**62)
"""Larger than any count, and still exact as a whole number."""
UNLIMITED = float(2**53)
"""Who may use this much in a second has no limit: it is often written as the largest number that there is."""
_PROXY, _STRETCH, _USED, _REQUEST, _WAITED = "proxy", "stretch", "used", "request", "waited"
_SECOND = "second"
_CLUSTER = "*"
"""In place of a proxy's name, which cannot be that: the quota holds for all proxies together."""
_SHARED = (_PROXY, S.QUOTA_ID, S.QUOTA_KEY, S.QUOTA_LIMIT)


def exceeded(charged: DataFrame, until_ms: int = ALWAYS) -> DataFrame:
    """Return the first moment of each day at which a bucket had used more than its limit allows.

    The workers of a proxy share one bucket, with `quota.scope: cluster` all proxies do. A process starts with
    an empty bucket, so each further boot adds one window. Use after `until_ms` may not be complete.
    """
    whose = F.when(F.col(Q.IS_CLUSTER), F.lit(_CLUSTER)).otherwise(U.whole_proxy())
    of_proxy = charged.withColumn(_PROXY, whose)
    over = held(_overruns(of_proxy, until_ms))
    between = F.col("_from").between(F.col("from_ms"), F.col("to_ms"))
    named = of_proxy.select(
        *_SHARED, F.col("from_ms").alias("_from"), F.concat_ws("/", *S.BOOT_KEY).alias("_by")
    )
    of_each = over.join(named, list(_SHARED)).where(between).groupBy(*_SHARED, S.DATE)
    processes = of_each.agg(F.sort_array(F.collect_set("_by")).alias("processes"))
    over = over.join(processes, [*_SHARED, S.DATE])
    return findings(
        over.withColumn("unit", U.unit()),
        check="quotas.exceeded",
        explanation=sentence(
            "{who} ({processes}) allowed {used} {unit} for quota-id {quota_id} ({quota_key}): with a"
            " limit of {quota_limit} it should be at most {allowed}",
            who=F.when(F.col(_PROXY) == _CLUSTER, F.lit("all proxies together")).otherwise(
                F.concat(F.lit("proxy "), F.col(_PROXY))
            ),
            processes=F.array_join("processes", ", "),
        ),
        evidence=[*_SHARED, "processes", "from_ms", "to_ms", _USED, "unit", "allowed"],
        identity=[*_SHARED, S.DATE],
    )


def _overruns(charged: DataFrame, until_ms: int) -> DataFrame:
    """Return _SHARED, date, from_ms, to_ms, used and allowed of the first overrun of each day.

    Rows are in the order in which they begin. A stretch from row i to row j lasts from the begin of i to the
    latest end up to j. So what it used beyond its limit is a number of j less a number of i, and the worst i
    is the smallest one so far.
    """
    bucket = Window.partitionBy(*_SHARED)
    connection = Window.partitionBy(*_SHARED, *S.BOOT_KEY, S.CONNECTION_ID)
    of_connection = connection.orderBy("from_ms", "to_ms")
    limited = charged.where(F.col(S.QUOTA_LIMIT) < UNLIMITED)
    first, last = (F.row_number().over(of_connection) == 1), F.lead("from_ms").over(of_connection).isNull()
    of_boot = Window.partitionBy(*_SHARED, *S.BOOT_KEY).orderBy("from_ms")
    of_process = Window.partitionBy(*_SHARED, S.PROXY_ID).orderBy("from_ms")
    begins = (F.row_number().over(of_boot) == 1) & F.lag(S.BOOT_ID).over(of_process).isNotNull()
    largest = F.max(_REQUEST).over(connection)
    placed = limited.withColumns(
        {
            "opened": F.when(first, largest).otherwise(0),
            "closed": F.when(last, largest).otherwise(0),
            "restarts": F.when(begins, 1 / F.size(F.collect_set(S.PROXY_ID).over(bucket))).otherwise(0.0),
            "rate": F.col(S.QUOTA_LIMIT) * U.units() / 1000,
            "window_ms": F.max(F.coalesce(Q.WINDOW, F.lit(U.WINDOW_S))).over(bucket) * 1000,
            "since_ms": F.min("from_ms").over(bucket),
        }
    )
    sums = [F.sum(name).alias(name) for name in (_USED, "opened", "closed", "restarts")]
    bounds = [F.min("from_ms").alias("from_ms"), F.max("to_ms").alias("to_ms"), F.min(S.DATE).alias(S.DATE)]
    waited = F.max(_WAITED).alias(_WAITED)
    slices = placed.groupBy(*_SHARED, "rate", "window_ms", "since_ms", _SECOND).agg(*sums, *bounds, waited)
    so_far = bucket.orderBy("from_ms").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    restarts = F.sum("restarts").over(so_far) * F.col("rate") * F.col("window_ms")
    summed = slices.withColumns(
        {
            "sum_used": F.sum(_USED).over(so_far),
            "sum_opened": F.sum("opened").over(so_far),
            "sum_closed": F.sum("closed").over(so_far) - F.col("closed"),
            "sum_restarts": restarts,
            "end_ms": F.max("to_ms").over(so_far),
            _WAITED: F.max(_WAITED).over(Window.partitionBy(*_SHARED, _stretch(F.col("from_ms")))),
        }
    )
    begin = F.struct(
        (
            F.col("sum_used")
            - F.col(_USED)
            - F.col("rate") * (F.col("from_ms") - F.col("since_ms"))
            - F.col("sum_closed")
            - F.col("sum_restarts")
        ).alias("before"),
        "from_ms",
        (F.col("sum_used") - F.col(_USED)).alias("used_before"),
    )
    lasting = F.col("rate") * (F.col("end_ms") - F.col("since_ms"))
    allowed_so_far = lasting + F.col("sum_opened") + F.col("sum_restarts")
    judged = (
        summed.withColumn("begin", F.min(begin).over(so_far))
        .withColumn(_USED, F.col("sum_used") - F.col("begin.used_before"))
        .withColumn("over", F.col("sum_used") - allowed_so_far - F.col("begin.before"))
        .withColumn("over", F.col("over") - F.col("rate") * F.col("window_ms"))
        .withColumn("over_before", F.max("over").over(so_far.rowsBetween(Window.unboundedPreceding, -1)))
    )
    softly = (F.col(S.QUOTA_KEY) == K.TIME) & F.col(_WAITED)
    # What was found once may not be paid back for long: only what is more than before is found again.
    more = F.col("over") > F.greatest(F.lit(0), F.coalesce("over_before", F.lit(0)))
    complete = F.col("from_ms") <= until_ms - SUMMARY_MS
    in_day = Window.partitionBy(*_SHARED, S.DATE).orderBy("from_ms")
    found = judged.where(more & complete & ~softly).withColumn("place", F.row_number().over(in_day))
    allowed = F.least(F.col(_USED) - F.col("over"), F.lit(MOST)).cast("long")
    return found.where("place = 1").select(
        *_SHARED,
        S.DATE,
        F.col("begin.from_ms").alias("from_ms"),
        F.col("end_ms").alias("to_ms"),
        _USED,
        allowed.alias("allowed"),
    )


def beyond_share(charged: DataFrame, few: DataFrame) -> DataFrame:
    """Return processes that let more through than their share of a quota for the whole cluster.

    A process records its share of each interval. What it let through is the larger of what that record says
    and what the summaries of its connections add up to.
    """
    of_process = (*S.BOOT_KEY, S.QUOTA_ID, S.QUOTA_KEY, _STRETCH)
    seconds = (F.col(S.INTERVAL_END_MS) - F.col(S.INTERVAL_START_MS)) / 1000
    shared = few.where((F.col(S.EVENT) == "quota_share") & F.col(S.RULE).isNull())
    shares = shared.groupBy(*S.BOOT_KEY, S.QUOTA_ID, S.QUOTA_KEY, _stretch().alias(_STRETCH)).agg(
        F.min(S.DATE).alias(S.DATE),
        F.sum(S.COUNT).alias(_USED),
        F.sum(F.col(S.QUOTA_SHARE) * F.col(S.QUOTA_LIMIT) * seconds).alias("share_of_limit"),
        F.max(S.QUOTA_LIMIT).alias(S.QUOTA_LIMIT),
        F.min(S.INTERVAL_START_MS).alias("from_ms"),
        F.max(S.INTERVAL_END_MS).alias("to_ms"),
    )
    by_connection = charged.groupBy(*of_process, S.CONNECTION_ID).agg(
        F.sum(_USED).alias(_USED), F.max(_REQUEST).alias(_REQUEST), F.max(Q.WINDOW).alias(Q.WINDOW)
    )
    summed = by_connection.groupBy(*of_process).agg(
        F.sum(_USED).alias("summed"), F.sum(_REQUEST).alias(_REQUEST), F.max(Q.WINDOW).alias(Q.WINDOW)
    )
    burst = F.col(S.QUOTA_LIMIT) * F.coalesce(Q.WINDOW, F.lit(U.WINDOW_S))
    allowed = (F.col("share_of_limit") + burst) * U.units() + F.coalesce(_REQUEST, F.lit(0))
    judged = shares.join(summed, list(of_process), "left").withColumns(
        {
            _USED: F.greatest(_USED, F.coalesce("summed", F.lit(0))),
            "allowed": F.least(allowed, F.lit(MOST)).cast("long"),
        }
    )
    return findings(
        judged.where(F.col(_USED) > F.col("allowed")).withColumn("unit", U.unit()),
        check="quotas.share_exceeded",
        explanation=sentence(
            "process {proxy_id}/{boot_id} allowed {used} {unit} for quota-id {quota_id} ({quota_key}):"
            " with its share of the cluster's limit of {quota_limit} it should be at most {allowed}"
        ),
        evidence=[*of_process[:-1], S.QUOTA_LIMIT, "from_ms", "to_ms", _USED, "unit", "allowed"],
    )


def _charged(records: DataFrame, few: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Return the use of clients with a quota: one row per bucket, connection and second.

    `request` is an estimate of the largest single request, `stretch` the hour.
    """
    from_ms = _from_ms()
    # A response has only the longest throttle time, so a quota on bytes may hide one on time.
    waits = F.when(F.col(S.EVENT) == "throttled", K.TIME).otherwise(F.col(S.QUOTA_KEY))
    mean = F.when(U.is_traffic() & (F.col(S.COUNT) > 1), 2 * U.counted() / F.col(S.COUNT))
    request = F.least(F.coalesce(mean, U.counted()), U.counted()).cast("long")
    second = F.floor(from_ms / 1000).alias(_SECOND)
    added = held(
        Q.with_key(records.where(_counts()).withColumn(S.QUOTA_KEY, waits))
        .groupBy(*BY_SETTINGS, *Q.CLIENT, S.CONNECTION_ID, second)
        .agg(
            F.min(S.DATE).alias(S.DATE),
            F.sum(U.counted()).alias(_USED),
            F.max(request).alias(_REQUEST),
            F.min(from_ms).alias("from_ms"),
            F.max(F.coalesce(S.INTERVAL_END_MS, S.TIME_MS)).alias("to_ms"),
            F.max(F.col(S.EVENT) == "throttled").alias(_WAITED),
        )
    )
    limited = Q.governed(added, few, metadata_log).where(
        F.col(Q.EXPECTED_LIMIT).isNotNull() & Q.is_enforced()
    )
    return limited.withColumns(
        {
            S.QUOTA_ID: F.col(Q.EXPECTED_ID),
            S.QUOTA_LIMIT: F.col(Q.EXPECTED_LIMIT),
            _STRETCH: _stretch(F.col("from_ms")),
        }
    )


def _counts() -> Column:
    """Return whether the record counts use or reports throttling.

    Summaries of several client ids of one connection do not count: their quotas are not known.
    """
    strict = F.lit(False)
    for method, version in K.STRICT_SINCE.items():
        strict = strict | ((F.col(S.METHOD) == method) & (F.col(S.API_VERSION) >= version))
    used = (F.col(S.EVENT) == "quota_used") & ((F.col(S.QUOTA_KEY) == K.TIME) | strict)
    return (U.is_traffic() | used | (F.col(S.EVENT) == "throttled")) & ~U.of_several_clients()


def _from_ms() -> Column:
    return F.coalesce(S.INTERVAL_START_MS, S.TIME_MS)


def _stretch(moment_ms: Column | None = None) -> Column:
    return F.floor((_from_ms() if moment_ms is None else moment_ms) / STRETCH_MS)


_CLIENT = (
    *S.BOOT_KEY,
    S.QUOTA_ID,
    S.QUOTA_KEY,
    S.QUOTA_LIMIT,
    S.PRINCIPAL,
    S.GROUPS,
    S.CLIENT_ID,
    S.SETTINGS_GENERATION,
)


def quotas(
    records: DataFrame, metadata_log: DataFrame, few: DataFrame | None = None, until_ms: int = ALWAYS
) -> DataFrame:
    """Return the findings of all three checks.

    `few` has all records but traffic, if it is known. `until_ms` is `complete_until_ms` of the index.
    """
    rest = records if few is None else few
    charged = held(_charged(records, rest, metadata_log))
    used = exceeded(charged, until_ms).unionByName(beyond_share(charged, rest))
    return used.unionByName(other_limit(records, rest, metadata_log))


def other_limit(records: DataFrame, few: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Return records with another limit or quota-id than that of the log or of the process's default.

    Records of any event: a limit in a record of traffic is forged.
    """
    named = records.where(F.col(S.QUOTA_LIMIT).isNotNull() & F.col(S.METADATA_OFFSET).isNotNull())
    added = held(
        Q.with_key(named)
        .where(F.col(S.QUOTA_KEY).isin(*K.KEYS))
        .groupBy(*_CLIENT, S.METADATA_OFFSET, S.DATE)
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.min(S.SEQUENCE).alias("first_sequence"),
            F.max(S.SEQUENCE).alias("last_sequence"),
        )
    )
    joined = Q.governed(added, few, metadata_log)
    joined = joined.where(F.col(Q.EXPECTED_LIMIT).isNotNull() | F.col(Q.MODE).isNotNull())
    fits = (F.col(S.QUOTA_LIMIT) == F.col(Q.EXPECTED_LIMIT)) & Q.is_expected_id()
    wrong = joined.where(~F.coalesce(fits, F.lit(False)))
    group = (*_CLIENT, Q.EXPECTED_LIMIT, Q.EXPECTED_ID, S.DATE)
    recorded = {S.SETTINGS_GENERATION: named_generation(), S.GROUPS: recorded_groups()}
    evident = [recorded.get(name, name) for name in group[:-1]]
    grouped = wrong.groupBy(*group).agg(
        F.sum("records").alias("records"),
        F.min(S.METADATA_OFFSET).alias("lowest_offset"),
        F.min("first_sequence").alias("first_sequence"),
        F.max("last_sequence").alias("last_sequence"),
    )
    return findings(
        grouped,
        check="quotas.other_limit",
        explanation=sentence(
            "process {proxy_id}/{boot_id} limited {principal} to {quota_key} {quota_limit} of quota-id"
            " {quota_id}; from offset {lowest_offset} on it is {expected}",
            expected=or_else(
                F.concat(Q.EXPECTED_LIMIT, F.lit(" of quota-id "), Q.EXPECTED_ID), "not limited"
            ),
        ),
        evidence=[*evident, "records", "lowest_offset", "first_sequence", "last_sequence"],
    )
