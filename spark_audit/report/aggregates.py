"""The small tables of the page and the data of its plots: a few rows of the audit records, each once.

The page collects only these to the driver, cut to the number of rows that a person reads; the data of a plot
is small too, whatever the number of principals and quota-ids. A summary counts as `count` requests, every
other record as one.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_audit import schema as S
from spark_audit.policy import quota_limits as Q
from spark_audit.policy import quota_use as U
from spark_audit.policy.acl_history import ADDED, REMOVED, acl_intervals
from spark_audit.report.history import done
from spark_audit.report.plots import MOST_SERIES, OTHERS
from spark_audit.tables.delta import empty_frame, frame_of
from spark_audit.tables.findings import Finding
from spark_audit.tables.plans import held
from spark_audit.trail.processes import BY_SETTINGS

ROWS = 20
"""Rows of a ranking."""
LATEST = 100
"""Rows of a list that is ordered by time."""
OBJECTS = 5
"""Objects that are shown of one request."""
GROUPS_SHOWN = 20
"""Groups that are shown of one session, which may have a thousand."""
NEW = 50
"""Rows of the list of newcomers."""
LONGEST_NAME, KEPT = 255, 100
"""A longer text is cut to so many characters, with its digest: two that differ stay different."""
PROVEN, PROOFS = 50, 3
"""For so many findings, so many of their records are shown."""
SAMPLED = 5_500
"""Records that can be searched on the page: 100 groups of three ways to group the nine kinds, two of each."""
KIND, _HASH = "kind", "hash"
_PLACE = T.StructType(
    [
        T.StructField("id", T.StringType()),
        T.StructField(S.PROXY_ID, T.StringType()),
        T.StructField(S.BOOT_ID, T.StringType()),
        T.StructField(S.SEQUENCE, T.LongType()),
    ]
)
_PROOF = T.StructType([T.StructField("id", T.StringType()), T.StructField("record", T.StringType())])
LONGEST_WAIT_MS = 3_600_000
"""A record that says more is not believed."""
BUSIEST_MS = 600_000
"""The use of a quota is compared with its limit over stretches of ten minutes."""
_FAILED_LOGINS = ("authentication_failed", "reauthentication_failed", "authentication_collapsed")
_ENDED = ("session_expired", "session_expired_idle", "session_revoked", "session_disconnected")
READ = (
    *(S.DATE, *S.BOOT_KEY, S.SEQUENCE, S.ROLE, S.TIME_MS, S.EVENT, S.CONNECTION_ID, S.LISTENER, S.HOST),
    *(S.PRINCIPAL, S.FORWARDING_PRINCIPAL, S.CLIENT_ID, S.METHOD, S.API_VERSION, S.CORRELATION_ID),
    *(S.RESOURCE_TYPE, S.RESOURCE_NAME, S.OPERATION, S.GRANTED, S.RULE, S.ACL_ID, S.METADATA_OFFSET),
    *(S.ERROR_CODE, S.COUNT, S.REQUEST_BYTES, S.RESPONSE_BYTES, S.THROTTLE_TIME_MS, S.QUOTA_ID, S.QUOTA_KEY),
    *(S.QUOTA_LIMIT, S.FORWARD_ID, S.FIRST_OFFSET, S.LAST_OFFSET, S.MECHANISM, S.SESSION_LIFETIME_MS),
    *(S.INTERVAL_START_MS, S.SETTINGS_GENERATION, S.GROUPS, S.KAFKA_PARTITION, S.KAFKA_OFFSET),
    *(S.MESSAGE, S.SETTINGS, S.OBJECTS),
)
"""The columns of table `audit` that the page needs: most of its bytes are in the others."""
_NAMES = (S.HOST, S.PRINCIPAL, S.FORWARDING_PRINCIPAL, S.CLIENT_ID, S.RESOURCE_NAME, S.QUOTA_ID, S.MESSAGE)


def read(audit: DataFrame) -> DataFrame:
    """Return these columns of table `audit`, with the texts that clients choose cut."""
    return audit.select(*READ, S.KAFKA_TIMESTAMP).withColumns({name: cut(F.col(name)) for name in _NAMES})


def cut(text: Column) -> Column:
    """Return text of at most LONGEST_NAME characters."""
    rest = F.format_string(
        "… (%s characters, SHA-256 %s)", F.length(text), F.left(F.sha2(text, 256), F.lit(16))
    )
    return F.when(F.length(text) > LONGEST_NAME, F.concat(F.left(text, F.lit(KEPT)), rest)).otherwise(text)


def connections(records: DataFrame) -> DataFrame:
    """Return the sums of each connection, by its process, principal and host, for the next two tables.

    Connections are counted in these few rows. Spark would copy each record for each distinct count.
    """
    is_granted, is_denied = granted(), denied()
    decided = is_granted | is_denied
    return records.groupBy(S.DATE, *S.BOOT_KEY, S.PRINCIPAL, S.HOST, S.CONNECTION_ID).agg(
        F.count(F.lit(1)).alias("records"),
        F.min(S.TIME_MS).alias("first_ms"),
        F.max(S.TIME_MS).alias("last_ms"),
        _sum(F.when(is_granted, requests())).alias("allowed"),
        _sum(F.when(is_denied, requests())).alias("denied"),
        F.max(decided).alias("decided"),
        _sum(F.when(decided, F.col(S.REQUEST_BYTES))).alias(S.REQUEST_BYTES),
        _sum(F.when(decided, F.col(S.RESPONSE_BYTES))).alias(S.RESPONSE_BYTES),
        F.count_if(is_event("throttled")).alias("throttled"),
        F.count_if(is_event(*_ENDED)).alias("expired"),
        _sum(F.when(is_event(*_FAILED_LOGINS), requests())).alias("failed_logins"),
        _sum(F.when(is_event("authentication", "reauthentication"), requests())).alias("logins"),
        F.count_if(is_change()).alias("changes"),
        F.count_if(~F.col(S.EVENT).isin(*S.EVENTS)).alias("unknown_events"),
        _sum(F.when(is_event("records_dropped"), F.coalesce(S.COUNT, F.lit(1)))).alias("dropped"),
    )


def totals(by_connection: DataFrame, *key: str) -> DataFrame:
    """Return the numbers at the head of the page, in one row, or in one for each value of the key."""
    summed = (
        *("records", "allowed", "denied", "throttled", "expired", "failed_logins", "logins", "changes"),
        *("unknown_events", "dropped"),
    )
    return by_connection.groupBy(*key).agg(
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
        F.count_distinct(S.PRINCIPAL).alias("principals"),
        *(_sum(F.col(name)).alias(name) for name in summed),
    )


def principals(by_connection: DataFrame, days: Sequence[date], compared: Sequence[date]) -> DataFrame:
    """Return the principals with the most requests on these days, or on one that they are compared with."""
    is_today = F.col(S.DATE).isin(*days) if days else F.lit(True)
    asked = F.col("allowed") + F.col("denied")
    summed = "allowed", "denied", S.REQUEST_BYTES, S.RESPONSE_BYTES
    before = [f"before_{number}" for number in range(len(compared))]
    counted = (
        by_connection.where("decided")
        .groupBy(S.PRINCIPAL)
        .agg(
            *(_sum(F.when(is_today, F.col(name))).alias(name) for name in summed),
            F.count_distinct(F.when(is_today, F.col(S.CONNECTION_ID))).alias("connections"),
            F.count_distinct(F.when(is_today, F.col(S.HOST))).alias("hosts"),
            *(
                _sum(F.when(F.col(S.DATE) == day, asked)).alias(name)
                for name, day in zip(before, compared, strict=True)
            ),
        )
    )
    most = F.greatest(asked, asked, *map(F.col, before))
    return counted.orderBy(most.desc(), S.PRINCIPAL).limit(ROWS)


def denials(records: DataFrame) -> DataFrame:
    """Return what was denied most, by principal and host."""
    key = (S.PRINCIPAL, S.HOST, S.RESOURCE_TYPE, S.RESOURCE_NAME, S.OPERATION, S.RULE)
    counted = (
        records.where(denied())
        .groupBy(*key)
        .agg(
            _sum(requests()).alias("denied"),
            F.min(S.TIME_MS).alias("first_ms"),
            F.max(S.TIME_MS).alias("last_ms"),
        )
    )
    return counted.orderBy(F.col("denied").desc(), *key).limit(ROWS)


def waits(records: DataFrame) -> DataFrame:
    """Return date, quota_id, quota_key, wait_ms, from_ms, to_ms: the time for which somebody waited, once.

    A response says how long the client is to wait. Those to a client with many requests in flight say it at
    the same time, so what they say is not added up: one record lasts from the begin of its interval to the
    mean wait after its end, and what overlaps is counted once.
    """
    total_ms = F.least(F.col(S.THROTTLE_TIME_MS), F.lit(LONGEST_WAIT_MS))
    mean_ms = F.least((F.col(S.THROTTLE_TIME_MS) / F.coalesce(S.COUNT, F.lit(1))).cast("long"), total_ms)
    begin_ms = _begin_ms()
    told = records.where(is_event("throttled") & (F.col(S.THROTTLE_TIME_MS) > 0)).select(
        S.DATE,
        S.QUOTA_ID,
        S.QUOTA_KEY,
        begin_ms.alias("from_ms"),
        F.least(F.greatest(S.TIME_MS, begin_ms) + mean_ms, begin_ms + total_ms).alias("to_ms"),
    )
    in_order = Window.partitionBy(S.QUOTA_ID, S.QUOTA_KEY).orderBy("from_ms", "to_ms")
    before = F.max("to_ms").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    since = told.withColumn("from_ms", F.greatest("from_ms", F.coalesce(before, "from_ms")))
    return since.where("to_ms > from_ms").withColumn("wait_ms", F.col("to_ms") - F.col("from_ms"))


def waited(records: DataFrame) -> DataFrame:
    """Return date, ms: the time for which clients of any quota waited."""
    return waits(records).groupBy(S.DATE).agg(F.sum("wait_ms").alias("ms"))


def throttling(records: DataFrame) -> DataFrame:
    """Return the quotas that throttled clients, how often, and for how long somebody waited."""
    times = F.coalesce(S.COUNT, F.lit(1))
    counted = (
        records.where(is_event("throttled"))
        .groupBy(S.QUOTA_ID, S.QUOTA_KEY)
        .agg(
            _sum(times).alias("times"),
            (F.sum(S.THROTTLE_TIME_MS) / F.sum(times)).cast("long").alias("mean_ms"),
            F.max(S.QUOTA_LIMIT).alias(S.QUOTA_LIMIT),
        )
    )
    of_quota = waits(records).groupBy(F.col(S.QUOTA_ID).alias("id"), F.col(S.QUOTA_KEY).alias("key"))
    waited = of_quota.agg(F.sum("wait_ms").alias("total_ms"))
    same = counted[S.QUOTA_ID].eqNullSafe(waited["id"]) & counted[S.QUOTA_KEY].eqNullSafe(waited["key"])
    joined = counted.join(waited, same, "left").drop("id", "key").na.fill(0, ["total_ms"])
    return joined.orderBy(F.col("total_ms").desc(), S.QUOTA_ID, S.QUOTA_KEY).limit(ROWS)


def logins(records: DataFrame) -> DataFrame:
    """Return who logged in from where, the most failures first."""
    failed, done = is_event(*_FAILED_LOGINS), is_event("authentication", "reauthentication")
    counted = (
        records.where(failed | done)
        .groupBy(S.PRINCIPAL, S.HOST, S.LISTENER, S.MECHANISM)
        .agg(
            _sum(F.when(done, requests())).alias("logins"),
            _sum(F.when(failed, requests())).alias("failed"),
            F.max(S.TIME_MS).alias("last_ms"),
        )
    )
    ranked = F.col("failed").desc(), F.col("logins").desc(), S.PRINCIPAL, S.HOST, S.LISTENER, S.MECHANISM
    return counted.orderBy(*ranked).limit(ROWS)


def newcomers(records: DataFrame, before: DataFrame) -> DataFrame:
    """Return the principals, hosts and client ids of `records` that `before`, earlier records, has not."""
    names = F.array(
        *(
            F.struct(F.lit(kind).alias("kind"), F.col(column).alias("name"))
            for kind, column in (("principal", S.PRINCIPAL), ("host", S.HOST), ("client id", S.CLIENT_ID))
        )
    )
    known = before.select(F.inline(names)).distinct()
    seen = records.select(S.TIME_MS, S.PRINCIPAL, S.HOST, F.inline(names)).where("name IS NOT NULL")
    earliest = F.struct(S.TIME_MS, S.PRINCIPAL, S.HOST)
    first = seen.groupBy("kind", "name").agg(
        F.min(earliest).alias("first"), F.count(F.lit(1)).alias("records")
    )
    new = first.join(known, ["kind", "name"], "left_anti").select("kind", "name", "first.*", "records")
    return new.orderBy(F.col("kind").desc(), S.TIME_MS, "name").limit(NEW)


def changes(records: DataFrame) -> DataFrame:
    """Return the latest administrative requests, a row for each of their first OBJECTS objects.

    `left` of the last object is the number of others. Commits of offsets come last: a consumer that assigns
    its partitions itself makes one every few seconds.
    """
    requests = done(records)
    latest = requests.orderBy(_is_commit(), F.col(S.TIME_MS).desc(), *S.RECORD_KEY).limit(LATEST)
    objects = F.col(S.OBJECTS)
    more = F.aggregate(
        objects, F.lit(0).cast("long"), lambda so_far, each: so_far + F.coalesce(each[S.COUNT], F.lit(1))
    )
    named = F.filter(objects, lambda each: each[S.COUNT].isNull())
    shown = F.slice(named, 1, OBJECTS)
    each = latest.select(
        "*",
        more.alias("all"),
        F.size(shown).alias("shown"),
        F.posexplode_outer(shown).alias("place", "object"),
    )
    is_last = F.coalesce(F.col("place"), F.lit(0)) >= F.col("shown") - 1
    texts = "type", "name", S.OPERATION, "key", "old_value", "new_value", "error", "error_message"
    return each.select(
        *S.RECORD_KEY,
        *(S.TIME_MS, S.METHOD, S.PRINCIPAL, S.HOST, S.CLIENT_ID),
        *(cut(F.col("object")[name]).alias(name) for name in texts),
        F.transform_values(F.col("object")["details"], lambda _, text: cut(text)).alias("details"),
        F.when(is_last, F.col("all") - F.col("shown")).otherwise(0).alias("left"),
        (F.coalesce(F.col("place"), F.lit(0)) == 0).alias("is_first"),
    ).orderBy(F.col(S.TIME_MS).desc(), *S.RECORD_KEY, "place")


def quotas(records: DataFrame, log: DataFrame) -> DataFrame:
    """Return the quotas of which the largest part was used, with the limit.

    `used` is bytes, microseconds of an event loop, or partitions. `part` is the mean use of the busiest
    BUSIEST_MS, by the limit. A limit is that of each proxy, unless it holds for the cluster. Summaries of
    several client ids do not count: their quotas are not known.
    """
    stretch = F.floor(F.coalesce(S.INTERVAL_START_MS, S.TIME_MS) / BUSIEST_MS).alias("stretch")
    uses = (U.is_traffic() | is_event("quota_used")) & ~U.of_several_clients()
    used = (
        Q.with_key(records.where(uses))
        .groupBy(*BY_SETTINGS, *Q.CLIENT, stretch)
        .agg(F.sum(U.counted()).alias("used"))
    )
    limited = Q.governed(held(used), records, log).where(F.col(Q.EXPECTED_LIMIT).isNotNull())
    whose = F.when(F.col(Q.IS_CLUSTER), F.lit("*")).otherwise(U.whole_proxy()).alias("whose")
    of_quota = F.col(Q.EXPECTED_ID).alias(S.QUOTA_ID), S.QUOTA_KEY
    each = limited.groupBy(whose, *of_quota, "stretch").agg(
        F.sum("used").alias("used"), F.max(Q.EXPECTED_LIMIT).alias(S.QUOTA_LIMIT)
    )
    part = F.col("used") / (F.col(S.QUOTA_LIMIT) * U.units() * (BUSIEST_MS / 1000))
    summed = each.groupBy(S.QUOTA_ID, S.QUOTA_KEY).agg(
        F.sum("used").alias("used"), F.max(part).alias("part"), F.max(S.QUOTA_LIMIT).alias(S.QUOTA_LIMIT)
    )
    return summed.orderBy(F.col("part").desc_nulls_last(), S.QUOTA_ID, S.QUOTA_KEY).limit(ROWS)


def proving(records: DataFrame, findings: Sequence[Finding]) -> DataFrame:
    """Return the records that the evidence of these findings names: id of the finding, record as JSON.

    At most PROOFS records of each of the first PROVEN findings, without the fields that a record does not
    have.
    """
    places = [(found["id"], *place) for found in findings[:PROVEN] for place in _places(found["evidence"])]
    if not places:
        return empty_frame(records.sparkSession, _PROOF)
    named = frame_of(records.sparkSession, places, _PLACE)
    found = records.join(F.broadcast(named), list(S.RECORD_KEY))
    return found.select(
        "id",
        F.to_json(F.struct(*(name for name in READ if name != S.SETTINGS))).alias("record"),
        *S.RECORD_KEY,
    ).orderBy("id", *S.RECORD_KEY)


def _places(evidence: object) -> Iterator[tuple[str, str, int]]:
    """Yield the first PROOFS keys of records that a finding's evidence names."""
    if not isinstance(evidence, Mapping):
        return
    proxy_id, boot_id = evidence.get(S.PROXY_ID), evidence.get(S.BOOT_ID)
    named = [evidence.get(name) for name in (S.SEQUENCE, "first_sequence", "last_sequence")]
    sequences = dict.fromkeys(
        each for each in [*evidence.get("sequences", ()), *named] if isinstance(each, int)
    )
    if isinstance(proxy_id, str) and isinstance(boot_id, str):
        for sequence in list(sequences)[:PROOFS]:
            yield proxy_id, boot_id, sequence


def grants(records: DataFrame, log: DataFrame, first_ms: int, last_ms: int) -> DataFrame | None:
    """Return the ACLs that ended since `first_ms` or have an end, the earliest first; None if there is none.

    All is as at `last_ms`: `state` is ended, removed (before its end) or in effect; `before_ms` is the
    end that it had before, `by` and S.RECORD_KEY are those of the request that has set the last one. `used`
    counts the requests that name it: one that several ACLs allow names one of them.
    """
    written = log.withColumn("at_ms", F.unix_millis(S.LOG_TIMESTAMP)).where(F.col("at_ms") <= last_ms)
    intervals = acl_intervals(written)
    if intervals.where(F.col(S.UNTIL_MS) >= 0).isEmpty():
        return None
    each = F.array_sort(F.collect_list(F.struct(ADDED, S.UNTIL_MS)))
    newest = intervals.groupBy(S.ACL_ID).agg(
        F.max_by(F.struct(*intervals.columns), ADDED).alias("acl"), each.alias("ends")
    )
    until_ms = F.col(f"acl.{S.UNTIL_MS}")
    others = F.filter("ends", lambda end: ~end[S.UNTIL_MS].eqNullSafe(until_ms))
    removals = written.select(F.col(S.LOG_OFFSET).alias(REMOVED), F.col("at_ms").alias("removed_ms"))
    timed = newest.select("acl.*", F.try_element_at(others, F.lit(-1))[S.UNTIL_MS].alias("before_ms"))
    timed = timed.where(F.greatest(S.UNTIL_MS, "before_ms") >= first_ms).join(removals, REMOVED, "left")
    by_acl = records.where(granted()).groupBy(S.ACL_ID)
    used = by_acl.agg(_sum(requests()).alias("used"), F.max(S.TIME_MS).alias("last_ms"))
    requested = records.where(is_event("forwarded_received")).select(
        *S.RECORD_KEY, F.col(S.PRINCIPAL).alias("by"), S.FIRST_OFFSET, S.LAST_OFFSET
    )
    is_ended = (F.col(S.UNTIL_MS) <= last_ms) & (F.coalesce("removed_ms", S.UNTIL_MS) >= F.col(S.UNTIL_MS))
    state = F.when(is_ended, "ended").when(F.col("removed_ms").isNotNull(), "removed").otherwise("in effect")
    shown = timed.join(used, S.ACL_ID, "left").na.fill(0, ["used"])
    shown = shown.join(requested, F.col(ADDED).between(F.col(S.FIRST_OFFSET), F.col(S.LAST_OFFSET)), "left")
    return shown.withColumn("state", state).orderBy(S.UNTIL_MS, S.ACL_ID).limit(LATEST)


def processes(records: DataFrame) -> DataFrame:
    """Return the processes that wrote the trail, with their first and last record."""
    counted = records.groupBy(*S.BOOT_KEY, S.ROLE).agg(
        F.count(F.lit(1)).alias("records"),
        F.max(S.SEQUENCE).alias("last_sequence"),
        F.min(S.TIME_MS).alias("first_ms"),
        F.max(S.TIME_MS).alias("last_ms"),
        F.max(is_event("stopped")).alias("stopped"),
        F.max(S.METADATA_OFFSET).alias(S.METADATA_OFFSET),
    )
    return counted.orderBy(F.col("last_ms").desc(), *S.BOOT_KEY).limit(ROWS)


def unreadable(quarantine: DataFrame) -> DataFrame:
    """Return the number of quarantined records by topic and reason."""
    counted = quarantine.groupBy(S.KAFKA_TOPIC, S.REASON).agg(
        F.count(F.lit(1)).alias("records"), F.max(S.KAFKA_OFFSET).alias("last_offset")
    )
    return counted.orderBy(F.col("records").desc(), S.KAFKA_TOPIC, S.REASON).limit(ROWS)


def of_days(table: DataFrame, days: Sequence[str]) -> DataFrame:
    """Return the rows of these days (YYYY-MM-DD), without reading other days; all rows if none is given."""
    return table.where(F.col(S.DATE).isin(*map(date.fromisoformat, days))) if days else table


def is_event(*events: str) -> Column:
    return F.col(S.EVENT).isin(*events)


def granted() -> Column:
    return is_event("authorization", "authorization_summary", "authorization_collapsed") & F.col(S.GRANTED)


def is_change() -> Column:
    """Return whether the record has the outcome of an administrative request, but for commits of offsets."""
    return is_event("forwarded", "broker_responded") & F.col(S.OBJECTS).isNotNull() & ~_is_commit()


def _is_commit() -> Column:
    return F.coalesce(F.col(S.METHOD).isin("OffsetCommit", "TxnOffsetCommit"), F.lit(False))


def denied() -> Column:
    return is_event("authorization", "authorization_summary", "authorization_collapsed") & ~F.col(S.GRANTED)


def requests() -> Column:
    return F.coalesce(S.COUNT, F.lit(1)).cast("long")


def _sum(column: Column) -> Column:
    return F.coalesce(F.sum(column), F.lit(0))


PLOT, BUCKET_MS, SERIES, AMOUNT = "plot", "bucket_ms", "series", "amount"
LOGINS = {
    "authentication": "logged in",
    "reauthentication": "re-authenticated",
    "session_expired": "expired",
    "reauthentication_failed": "failed to re-authenticate",
    "authentication_failed": "failed",
    "authentication_collapsed": "failed",
}
"""Event -> its name in the plot of logins, in the order of the legend."""


def sampled(records: DataFrame, bucket_ms: int, number: int) -> DataFrame:
    """Return the records that the page can show, with their `kind`, the most wanted ones first.

    All of them if the `number` of records is small. Else two of each kind in each column of a plot, two of
    each row of a table (who did what to which object from where), two of each principal in each column, and
    the latest changes. Which two is a matter of their hash.
    """
    first = {S.OBJECTS: F.slice(S.OBJECTS, 1, OBJECTS), S.GROUPS: first_groups()}
    shown = records.drop(S.SETTINGS).withColumns(first)
    hashed = shown.select("*", kind().alias(KIND), F.xxhash64(*S.RECORD_KEY).alias(_HASH))
    if number <= SAMPLED:
        return hashed.orderBy(_HASH)
    column = F.floor(_begin_ms() / bucket_ms)
    alone = F.when(F.col(S.OBJECTS).isNotNull() & ~_is_commit(), F.col(_HASH))
    row = (S.PRINCIPAL, S.HOST, S.METHOD, S.RESOURCE_TYPE, S.RESOURCE_NAME, S.OPERATION, S.QUOTA_ID, alone)
    wanted = reduce(
        DataFrame.unionByName, (_picked(hashed, *key) for key in ((column,), row, (column, S.PRINCIPAL)))
    )
    each = wanted.groupBy(_HASH).agg(F.min("place").alias("place")).orderBy("place", _HASH).limit(SAMPLED)
    return hashed.join(F.broadcast(each), _HASH).orderBy("place", _HASH)


def first_groups() -> Column:
    """Return the first GROUPS_SHOWN groups of a session, and that there are more."""
    cut_off = F.concat(F.slice(S.GROUPS, 1, GROUPS_SHOWN), F.array(F.lit("…")))
    return F.when(F.size(S.GROUPS) > GROUPS_SHOWN, cut_off).otherwise(F.col(S.GROUPS))


def _picked(hashed: DataFrame, *key: Column | str) -> DataFrame:
    """Return the smallest and the largest hash of each group, with the place of the group in its kind."""
    groups = hashed.groupBy(KIND, *key).agg(
        F.min(_HASH).alias("one"),
        F.max(_HASH).alias("other"),
        F.count(F.lit(1)).alias("number"),
        F.max(S.TIME_MS).alias("last_ms"),
    )
    first = Window.partitionBy(KIND).orderBy(F.col("number").desc(), F.col("last_ms").desc(), "one")
    place = F.row_number().over(first)
    placed = groups.select(place.alias("place"), F.explode(F.array("one", "other")).alias(_HASH))
    return placed.where(F.col("place") <= SAMPLED)


def numbers_of_kinds(records: DataFrame) -> DataFrame:
    """Return how many records there are of each kind."""
    return records.groupBy(kind().alias(KIND)).agg(F.count(F.lit(1)).alias("records")).orderBy(KIND)


def kind() -> Column:
    """Return what a record is on the page: the name of its plot, mostly."""
    return (
        F.when(denied(), "denied")
        .when(granted(), "allowed")
        .when(is_event(*_FAILED_LOGINS), "failed login")
        .when(is_event("authentication", "reauthentication"), "login")
        .when(is_event(*_ENDED), "session ended")
        .when(is_event("throttled"), "throttled")
        .when(is_change(), "change")
        .when(F.col(S.OBJECTS).isNotNull(), "other change")
        .otherwise("other")
    )


def _begin_ms() -> Column:
    """Return the moment at which a record is plotted: the begin of its interval, if it has one.

    The interval of a summary ends with its record. A start after that, or a negative one, is forged.
    """
    begin = F.when(F.col(S.INTERVAL_START_MS).between(0, F.col(S.TIME_MS)), F.col(S.INTERVAL_START_MS))
    return F.coalesce(begin, F.col(S.TIME_MS))


def timeline(records: DataFrame, bucket_ms: int, last_ms: int) -> DataFrame:
    """Return plot, bucket_ms, series, amount, up to `last_ms`.

    The plots are `allowed` (requests by API), `denied` (requests by principal), `throttled` (milliseconds by
    quota-id) and `logins` (by outcome). A plot has at most MOST_SERIES series; the smallest are OTHERS.
    """
    bucket = (F.floor(_begin_ms() / F.lit(bucket_ms)) * F.lit(bucket_ms)).cast("long")
    drawn = records.select(_plotted().alias("drawn"), bucket.alias(BUCKET_MS)).where("drawn is not null")
    counted = drawn.groupBy("drawn.plot", BUCKET_MS, "drawn.series").agg(F.sum("drawn.amount").alias(AMOUNT))
    return largest(held(counted.unionByName(_waiting(records, bucket_ms, last_ms))))


def _waiting(records: DataFrame, bucket_ms: int, last_ms: int) -> DataFrame:
    """Return the rows of the plot of throttling: each wait, in all columns over which it lasts."""
    waiting = waits(records).withColumn("to_ms", F.least("to_ms", F.lit(last_ms))).where("to_ms > from_ms")
    first, last = (F.floor(moment / F.lit(bucket_ms)) for moment in (F.col("from_ms"), F.col("to_ms") - 1))
    each = waiting.withColumn("column", F.explode(F.sequence(first, last)))
    begin = (F.col("column") * bucket_ms).cast("long")
    within = F.least(F.col("to_ms"), begin + bucket_ms) - F.greatest(F.col("from_ms"), begin)
    series = F.coalesce(S.QUOTA_ID, F.lit("(unknown)")).alias(SERIES)
    placed = each.select(F.lit("throttled").alias(PLOT), begin.alias(BUCKET_MS), series, within.alias("ms"))
    return placed.groupBy(PLOT, BUCKET_MS, SERIES).agg(F.sum("ms").alias(AMOUNT))


def largest(counted: DataFrame) -> DataFrame:
    """Return these rows of plot, bucket_ms, series, amount with the series that are drawn, and OTHERS."""
    folded = counted.join(F.broadcast(_named(counted)), [PLOT, SERIES])
    summed = folded.groupBy(PLOT, BUCKET_MS, F.col("name").alias(SERIES)).agg(F.sum(AMOUNT).alias(AMOUNT))
    return summed.orderBy(PLOT, BUCKET_MS, SERIES)


def _plotted() -> Column:
    outcome = F.coalesce(*(F.when(is_event(event), name) for event, name in LOGINS.items()))
    return F.coalesce(
        F.when(denied(), _piece("denied", F.col(S.PRINCIPAL), requests())),
        F.when(granted(), _piece("allowed", F.col(S.METHOD), requests())),
        F.when(outcome.isNotNull(), _piece("logins", outcome, requests())),
    )


def _piece(plot: str, series: Column, amount: Column) -> Column:
    named = F.coalesce(series, F.lit("(unknown)"))
    return F.struct(F.lit(plot).alias(PLOT), named.alias(SERIES), amount.alias(AMOUNT))


def _named(counted: DataFrame) -> DataFrame:
    """Return the name under which each series is drawn, so that the driver collects only a few series."""
    sums = counted.groupBy(PLOT, SERIES).agg(F.sum(AMOUNT).alias("all"))
    of_plot = Window.partitionBy(PLOT)
    rank = F.row_number().over(of_plot.orderBy(F.col("all").desc(), SERIES))
    ranked = sums.withColumn("rank", rank).withColumn("number", F.count(F.lit(1)).over(of_plot))
    is_drawn = (F.col("number") <= MOST_SERIES) | (F.col("rank") < MOST_SERIES)
    return ranked.select(PLOT, SERIES, F.when(is_drawn, F.col(SERIES)).otherwise(F.lit(OTHERS)).alias("name"))
