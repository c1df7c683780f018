"""Who would be throttled: the recorded use of each bucket against the limit that it would have.

Only clients whose limit or quota-id changes are looked at. Their use is spread over slots of SLOT_MS, which
is the default interval of summaries. In any quota window (quota.window.num samples) a bucket may use the
limit times its length; what is above that waits. Within a slot nothing is known, so there are two bounds: use
spread evenly, and all of a slot and of the one before it at once. If even the first one has to wait, the
client would be throttled. If not even the second one has to, it would not. Otherwise it cannot be said.

What waits is a queue that is served at the limit: with X(t) the use up to t less what the limit allows up to
t, it is X(t) less the smallest X before t. While it is not empty, the use since that moment is above the
limit. So throttling begins when this use fills a window, and ends with the queue: a window is no credit that
shortens it (tests/lab/what_if compares this with a real proxy).
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import quota_keys as K
from spark_audit import schema as S
from spark_audit.policy import quota_limits as Q
from spark_audit.policy import quota_use as U
from spark_audit.policy.principals import array_of
from spark_audit.proposal import Proposal
from spark_audit.trail.processes import BY_SETTINGS, SETTINGS_EVENTS
from spark_audit.what_if.access import groups_then
from spark_audit.what_if.traffic import with_groups_of_logins

THROTTLED, CANNOT_BE_SAID, NOT_THROTTLED = "newly_throttled", "cannot_be_said", "not_throttled"
LIMIT_NOW, THROTTLED_MS, UNSURE_MS, BEHIND_MS = "limit_now", "throttled_ms", "unsure_ms", "behind_ms"
_PROXY, _CLIENTS, _THEN, _RECORDED = "proxy", "clients", "throttled_then", "recorded_groups"
_OFFERED, _BEYOND, _WITHIN, _AFTER, _WORST = "offered", "beyond", "within", "after", "worst"
_CLIENT = (*BY_SETTINGS, S.PRINCIPAL, S.GROUPS, S.CLIENT_ID, S.QUOTA_KEY)
_BUCKET = (_PROXY, S.QUOTA_KEY, S.QUOTA_ID, S.QUOTA_LIMIT, LIMIT_NOW)
MOST_CLIENTS = 20


def throttling(
    records: DataFrame, audit: DataFrame, log: DataFrame, now: int, proposed: int, proposal: Proposal
) -> DataFrame | None:
    """Return one row per bucket whose quota changes: outcome, reason, how long and when, and its clients.

    None: the proposal changes no quota, and no member of a group with one. `records` are those of the period,
    `audit` has those that hold settings, and logins. `now` and `proposed` are the offsets in the proposed
    log. Times are in ms; `hours` has the time throttled by hour of the day (UTC).
    """
    settings = audit.where(F.col(S.EVENT).isin(*SETTINGS_EVENTS))
    limited = Q.limited_groups(settings, log)
    if not proposal.quotas and limited.isdisjoint(group for _, group in proposal.members):
        return None
    if limited:
        of_logins = F.array_intersect(S.GROUPS, array_of(sorted(limited)))
        records = with_groups_of_logins(records, audit).withColumn(S.GROUPS, of_logins)
    clients = _changed(records, settings, log, now, proposed, proposal).persist()
    used = Q.with_key(records.where(U.is_use()).withColumn("several", U.of_several_clients()))
    used = used.select(
        *(*_CLIENT, S.TIME_MS, S.INTERVAL_START_MS, S.INTERVAL_END_MS, S.EVENT, "several"),
        U.counted().alias(U.USED),
    )
    ours = used.where(~F.col("several")).join(F.broadcast(clients), list(_CLIENT))
    spread = ours.withColumn(U.SLOT, F.explode(U.slots())).withColumn(U.USED, U.share())
    per_slot = spread.groupBy(*_BUCKET, U.SLOT).agg(
        F.sum(U.USED).alias(U.USED),
        F.max(Q.WINDOW).alias(Q.WINDOW),
        F.max(F.col(S.EVENT) == "throttled").alias(_THEN),
        F.collect_set(F.struct(S.PRINCIPAL, S.CLIENT_ID)).alias(_CLIENTS),
    )
    return _by_bucket(_with_queue(per_slot)).unionByName(_unrecorded(clients, used))


def _changed(
    records: DataFrame, settings: DataFrame, log: DataFrame, now: int, proposed: int, proposal: Proposal
) -> DataFrame:
    """Return the clients of the period whose limit or bucket changes, with both limits and the bucket."""
    quota_of_method = F.array_compact(
        F.array(
            F.when(F.col(S.METHOD) == "Produce", K.PRODUCER),
            F.when(F.col(S.METHOD).isin(*Q.CONSUMING), K.CONSUMER),
            F.when(F.col(S.METHOD).isin(*K.STRICT_SINCE), K.MUTATIONS),
            F.when(F.col(S.METHOD).isNotNull() & (F.col(S.ROLE) == "proxy"), K.TIME),
            F.col(S.QUOTA_KEY),
        )
    )
    asked = records.where(F.col(S.CONNECTION_ID).isNotNull() | F.col(S.QUOTA_KEY).isNotNull())
    keyed = asked.withColumn(S.QUOTA_KEY, F.explode(quota_of_method))
    seen = Q.with_key(keyed.where(~U.of_several_clients())).select(*_CLIENT).distinct()
    offsets = F.explode(F.array(F.lit(now).cast("long"), F.lit(proposed).cast("long")))
    at_now, then = (F.col(S.METADATA_OFFSET) == offset for offset in (now, proposed))
    at_both = seen.withColumns({S.METADATA_OFFSET: offsets, _RECORDED: F.col(S.GROUPS)})
    groups = F.when(then, groups_then(proposal)).otherwise(F.col(S.GROUPS))
    both = Q.governed(at_both.withColumn(S.GROUPS, groups), settings, log).withColumn(
        S.GROUPS, F.col(_RECORDED)
    )
    sides = (
        both.where(Q.is_enforced())
        .groupBy(*_CLIENT)
        .agg(
            F.max(F.when(at_now, F.col(Q.EXPECTED_LIMIT))).alias(LIMIT_NOW),
            F.max(F.when(at_now, F.col(Q.EXPECTED_ID))).alias("id_now"),
            F.max(F.when(then, F.col(Q.EXPECTED_LIMIT))).alias(S.QUOTA_LIMIT),
            F.max(F.when(then, F.col(Q.EXPECTED_ID))).alias(S.QUOTA_ID),
            F.max(F.when(then, F.col(Q.IS_CLUSTER))).alias(Q.IS_CLUSTER),
            F.coalesce(F.max(Q.WINDOW), F.lit(U.WINDOW_S)).alias(Q.WINDOW),
        )
    )
    same = F.col(LIMIT_NOW).eqNullSafe(F.col(S.QUOTA_LIMIT)) & F.col("id_now").eqNullSafe(F.col(S.QUOTA_ID))
    limited = sides.where(F.col(S.QUOTA_LIMIT).isNotNull() & ~same)
    return limited.select(
        *_CLIENT, LIMIT_NOW, S.QUOTA_LIMIT, S.QUOTA_ID, Q.WINDOW, U.proxy_of_bucket().alias(_PROXY)
    )


def _with_queue(per_slot: DataFrame) -> DataFrame:
    """Add what waits at most in each slot, in units of the quota, and for how long: within it, and after it.

    _BEYOND is the use since the queue was empty, beyond one window; _WORST the same if use comes at once.
    """
    in_order = Window.partitionBy(*_BUCKET).orderBy(U.SLOT)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # Since the first slot: the time since the epoch would cost digits.
    passed = (F.col(U.SLOT) - F.min(U.SLOT).over(Window.partitionBy(*_BUCKET))) * _allowed(U.SLOT_MS)
    before = F.sum(U.USED).over(so_far) - F.col(U.USED)
    # The latest slot with the smallest X: the queue was empty at its begin.
    empty = F.min(F.struct("ahead", (-F.col("before")).alias("use"))).over(so_far)
    placed = per_slot.withColumn("before", before).withColumn("ahead", F.col("before") - passed)
    queued = placed.withColumn("empty", empty)
    begin = F.col("ahead") - F.col("empty.ahead")
    end = begin + F.col(U.USED) - _allowed(U.SLOT_MS)
    window = _allowed(1_000) * F.col(Q.WINDOW)
    beyond = F.col("before") + F.col("empty.use") + F.col(U.USED) - window
    neighbour = F.lag(U.SLOT).over(in_order) == F.col(U.SLOT) - 1
    at_once = F.col(U.USED) + F.coalesce(F.when(neighbour, F.lag(U.USED).over(in_order)), F.lit(0.0))
    # In ms since the begin of the slot: when its use fills the window, and when the queue is empty.
    filled = F.greatest(F.lit(0.0), F.try_divide(F.col(U.USED) - beyond, F.col(U.USED))) * U.SLOT_MS
    emptied = F.when(end < 0, begin / (begin - end)).otherwise(F.lit(1.0)) * U.SLOT_MS
    gap = (F.lead(U.SLOT).over(in_order) - F.col(U.SLOT) - 1) * U.SLOT_MS
    longest = F.coalesce(gap, F.lit(2**53)).cast("double")
    return queued.withColumns(
        {
            _OFFERED: F.greatest(begin, end),
            _BEYOND: beyond,
            _WITHIN: F.greatest(F.lit(0.0), emptied - F.coalesce(filled, F.lit(0.0))),
            _AFTER: F.least(F.greatest(F.lit(0.0), end) / _allowed(1), longest),
            _WORST: F.greatest(at_once, begin + F.col(U.USED)) - window,
        }
    )


def _allowed(time_ms: int) -> Column:
    return F.col(S.QUOTA_LIMIT) * U.units() * (time_ms / 1_000)


def _by_bucket(queued: DataFrame) -> DataFrame:
    is_throttled = (F.col(_OFFERED) > 0) & (F.col(_BEYOND) > 0) & (F.col(_WITHIN) + F.col(_AFTER) > 0)
    may_be = ~is_throttled & (F.col(_WORST) > 0)
    begin_ms = F.col(U.SLOT) * U.SLOT_MS
    timed = queued.withColumns(
        {
            THROTTLED_MS: F.when(is_throttled, F.col(_WITHIN) + F.col(_AFTER)).otherwise(0.0),
            UNSURE_MS: F.when(may_be, F.lit(U.SLOT_MS)).otherwise(0),
            BEHIND_MS: F.greatest(F.lit(0.0), F.col(_OFFERED) / _allowed(1)),
            "hour": F.hour(F.timestamp_millis(begin_ms)),
            "waits_from": F.when(is_throttled, begin_ms),
        }
    )
    hourly = timed.groupBy(*_BUCKET, "hour").agg(
        *(F.sum(name).cast("long").alias(name) for name in (THROTTLED_MS, UNSURE_MS, U.USED)),
        F.max(BEHIND_MS).cast("long").alias(BEHIND_MS),
        F.max(_THEN).alias(_THEN),
        F.min("waits_from").alias("first_ms"),
        (F.max("waits_from") + U.SLOT_MS).alias("last_ms"),
        F.flatten(F.collect_set(_CLIENTS)).alias(_CLIENTS),
    )
    hours = F.filter(
        F.sort_array(F.collect_list(F.struct("hour", THROTTLED_MS))), lambda each: each[THROTTLED_MS] > 0
    )
    summed = hourly.groupBy(*_BUCKET).agg(
        *(F.sum(name).alias(name) for name in (THROTTLED_MS, UNSURE_MS, U.USED)),
        F.max(BEHIND_MS).alias(BEHIND_MS),
        F.max(_THEN).alias(_THEN),
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
        hours.alias("hours"),
        _few(F.flatten(F.collect_list(_CLIENTS))).alias(_CLIENTS),
    )
    reason = F.when(
        F.col(_THEN), "the present quota throttles it, so that it is not known how much it would use"
    ).when(F.col(UNSURE_MS) > 0, "a burst within a summary may exceed the limit, or may not")
    throttled = F.col(THROTTLED_MS) > 0
    outcome = F.when(throttled, THROTTLED).when(reason.isNotNull(), CANNOT_BE_SAID).otherwise(NOT_THROTTLED)
    return summed.select(
        outcome.alias("outcome"),
        F.when(~throttled, reason).alias("reason"),
        *_BUCKET,
        *(THROTTLED_MS, UNSURE_MS, BEHIND_MS, U.USED, "first_ms", "last_ms", "hours", _CLIENTS),
    )


def _few(clients: Column) -> Column:
    return F.slice(F.array_sort(F.array_distinct(clients)), 1, MOST_CLIENTS)


def _unrecorded(clients: DataFrame, used: DataFrame) -> DataFrame:
    """Return the buckets of which the trail does not show the use."""
    only_with_quota = clients.where(
        F.col(S.QUOTA_KEY).isin(K.TIME, K.MUTATIONS) & F.col(LIMIT_NOW).isNull()
    ).withColumn("reason", F.lit("use is recorded only for clients that have such a quota"))
    several = used.where("several").select(S.PRINCIPAL, S.QUOTA_KEY).distinct()
    also_several = clients.join(F.broadcast(several), [S.PRINCIPAL, S.QUOTA_KEY], "left_semi").withColumn(
        "reason", F.lit("some records stand for several client ids of one connection")
    )
    grouped = only_with_quota.unionByName(also_several).groupBy("reason", *_BUCKET)
    counts = {name: F.lit(0).cast("long") for name in (THROTTLED_MS, UNSURE_MS, BEHIND_MS, U.USED)}
    counts |= {name: F.lit(None).cast("long") for name in ("first_ms", "last_ms")}
    counts |= {"hours": F.array().cast(f"array<struct<hour: int, {THROTTLED_MS}: bigint>>")}
    named = grouped.agg(_few(F.collect_set(F.struct(S.PRINCIPAL, S.CLIENT_ID))).alias(_CLIENTS))
    return named.withColumns(counts | {"outcome": F.lit(CANNOT_BE_SAID)})
