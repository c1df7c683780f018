"""The small tables of the page and the data of its plots: a few rows of the audit records, each once.

The page collects only these to the driver, cut to the number of rows that a person reads; the data of a plot
is small too, whatever the number of principals and quota-ids. A summary counts as `count` requests, every
other record as one.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_audit import schema as S
from spark_audit.report.plots import MOST_SERIES, OTHERS
from spark_audit.tables.delta import empty_frame, frame_of
from spark_audit.tables.findings import Finding
from spark_audit.tables.plans import held
from spark_audit.trail.claims import claimed_offsets, received

ROWS = 20
"""Rows of a ranking."""
LATEST = 50
"""Rows of a list that is ordered by time."""
PROVEN, PROOFS = 50, 3
"""For so many findings, so many of their records are shown."""
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
WRITTEN = 5
"""Log records that are shown for one request."""
_SASL_EVENTS = ("authentication", "authentication_failed", "reauthentication", "reauthentication_failed")
_FAILED_LOGINS = ("authentication_failed", "reauthentication_failed", "authentication_collapsed")
_ENDED = ("session_expired", "session_expired_idle", "session_revoked")
READ = (
    *(
        S.DATE,
        *S.BOOT_KEY,
        S.SEQUENCE,
        S.ROLE,
        S.TIME_MS,
        S.EVENT,
        S.CONNECTION_ID,
        S.LISTENER,
        S.HOST,
        S.PRINCIPAL,
    ),
    *(
        S.FORWARDING_PRINCIPAL,
        S.CLIENT_ID,
        S.METHOD,
        S.RESOURCE_TYPE,
        S.RESOURCE_NAME,
        S.OPERATION,
        S.GRANTED,
    ),
    *(
        S.RULE,
        S.METADATA_OFFSET,
        S.ERROR_CODE,
        S.COUNT,
        S.REQUEST_BYTES,
        S.RESPONSE_BYTES,
        S.THROTTLE_TIME_MS,
    ),
    *(S.QUOTA_ID, S.QUOTA_KEY, S.QUOTA_LIMIT, S.FORWARD_ID, S.FIRST_OFFSET, S.LAST_OFFSET, S.MECHANISM),
    *(S.SESSION_LIFETIME_MS, S.INTERVAL_START_MS, S.SETTINGS_GENERATION, S.KAFKA_PARTITION, S.KAFKA_OFFSET),
)
"""The columns of table `audit` that the page needs: less than half of its bytes."""


def connections(records: DataFrame) -> DataFrame:
    """Returns the sums of each connection, by its process, principal and host, for the next two tables.

    Connections are counted in these few rows. Spark would copy each record for each distinct count.
    """
    is_granted, is_denied = granted(), denied()
    decided = is_granted | is_denied
    return records.groupBy(*S.BOOT_KEY, S.PRINCIPAL, S.HOST, S.CONNECTION_ID).agg(
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
        _sum(F.when(is_event(*_FAILED_LOGINS), requests())).alias("failed_authentications"),
        F.count_if(~F.col(S.EVENT).isin(*S.EVENTS)).alias("unknown_events"),
        _sum(F.when(is_event("records_dropped"), F.coalesce(S.COUNT, F.lit(1)))).alias("dropped"),
    )


def totals(by_connection: DataFrame) -> DataFrame:
    """Returns one row with the numbers at the head of the page."""
    summed = (
        *("records", "allowed", "denied", "throttled", "expired"),
        *("failed_authentications", "unknown_events", "dropped"),
    )
    return by_connection.agg(
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
        F.count_distinct(*S.BOOT_KEY).alias("processes"),
        F.count_distinct(S.PRINCIPAL).alias("principals"),
        F.count_distinct(S.CONNECTION_ID).alias("connections"),
        *(_sum(F.col(name)).alias(name) for name in summed),
    )


def principals(by_connection: DataFrame) -> DataFrame:
    """Returns the principals with the most requests."""
    counted = (
        by_connection.where("decided")
        .groupBy(S.PRINCIPAL)
        .agg(
            *(_sum(F.col(name)).alias(name) for name in ("allowed", "denied")),
            *(_sum(F.col(name)).alias(name) for name in (S.REQUEST_BYTES, S.RESPONSE_BYTES)),
            F.count_distinct(S.CONNECTION_ID).alias("connections"),
            F.count_distinct(S.HOST).alias("hosts"),
        )
    )
    return counted.orderBy((F.col("allowed") + F.col("denied")).desc(), S.PRINCIPAL).limit(ROWS)


def denials(records: DataFrame) -> DataFrame:
    """Returns what was denied most, by principal and host."""
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
    """Returns quota_id, quota_key, wait_ms, from_ms, to_ms: the time for which somebody waited, once.

    A response says how long the client is to wait. Those to a client with many requests in flight say it at
    the same time, so what they say is not added up: one record lasts from the begin of its interval to the
    mean wait after its end, and what overlaps is counted once.
    """
    total_ms = F.least(F.col(S.THROTTLE_TIME_MS), F.lit(LONGEST_WAIT_MS))
    mean_ms = F.least((F.col(S.THROTTLE_TIME_MS) / F.coalesce(S.COUNT, F.lit(1))).cast("long"), total_ms)
    begin_ms = F.coalesce(
        F.when(F.col(S.INTERVAL_START_MS).between(0, F.col(S.TIME_MS)), F.col(S.INTERVAL_START_MS)), S.TIME_MS
    )
    told = records.where(is_event("throttled") & (F.col(S.THROTTLE_TIME_MS) > 0)).select(
        S.QUOTA_ID,
        S.QUOTA_KEY,
        begin_ms.alias("from_ms"),
        F.least(F.greatest(S.TIME_MS, begin_ms) + mean_ms, begin_ms + total_ms).alias("to_ms"),
    )
    in_order = Window.partitionBy(S.QUOTA_ID, S.QUOTA_KEY).orderBy("from_ms", "to_ms")
    before = F.max("to_ms").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    since = told.withColumn("from_ms", F.greatest("from_ms", F.coalesce(before, "from_ms")))
    return since.where("to_ms > from_ms").withColumn("wait_ms", F.col("to_ms") - F.col("from_ms"))


def throttling(records: DataFrame) -> DataFrame:
    """Returns the quotas that throttled clients, how often, and for how long somebody waited."""
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
    """Returns who logged in from where, the most failures first."""
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
    """Returns the principals, hosts and client ids of `records` that `before`, earlier records, has not."""
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
    return new.orderBy(F.col("kind").desc(), S.TIME_MS, "name").limit(LATEST)


def authentications(records: DataFrame) -> DataFrame:
    """Returns the outcomes of logins and re-authentications by listener and mechanism."""
    of_sasl = records.where(is_event(*_SASL_EVENTS))
    counted = of_sasl.groupBy(S.LISTENER, S.MECHANISM).agg(
        *(F.count_if(is_event(event)).alias(event) for event in _SASL_EVENTS),
        F.count_distinct(S.PRINCIPAL).alias("principals"),
        F.max(S.SESSION_LIFETIME_MS).alias("longest_lifetime_ms"),
    )
    return counted.orderBy(S.LISTENER, S.MECHANISM).limit(ROWS)


def ended_sessions(records: DataFrame) -> DataFrame:
    """Returns the clients whose connections were closed at the end of a session."""
    counted = (
        records.where(is_event(*_ENDED))
        .groupBy(S.PRINCIPAL, S.CLIENT_ID, S.MECHANISM, S.EVENT)
        .agg(
            F.count(F.lit(1)).alias("kills"),
            F.count_distinct(S.CONNECTION_ID).alias("connections"),
            F.max(S.TIME_MS).alias("last_ms"),
        )
    )
    return counted.orderBy(F.col("kills").desc(), S.PRINCIPAL, S.CLIENT_ID, S.MECHANISM, S.EVENT).limit(ROWS)


def admin_changes(records: DataFrame, metadata_log: DataFrame) -> DataFrame:
    """Returns the latest requests that reached the controller, their proxy, and their records in the log."""
    proxies = records.where(is_event("forwarded")).groupBy(S.FORWARD_ID).agg(F.min(S.PROXY_ID).alias("proxy"))
    latest = received(records).orderBy(F.col(S.TIME_MS).desc(), F.col(S.SEQUENCE).desc()).limit(LATEST)
    offsets = claimed_offsets(latest).select(S.FORWARD_ID, S.LOG_OFFSET)
    found = offsets.join(metadata_log.transform(readable_removals), S.LOG_OFFSET)
    ordered = F.sort_array(F.collect_list(F.struct(S.LOG_OFFSET, S.RECORD, S.BODY)))
    written = found.groupBy(S.FORWARD_ID).agg(F.slice(ordered, 1, WRITTEN).alias("written"))
    joined = latest.join(proxies, S.FORWARD_ID, "left").join(written, S.FORWARD_ID, "left")
    return joined.select(
        S.TIME_MS,
        S.PRINCIPAL,
        S.HOST,
        S.METHOD,
        S.FORWARDING_PRINCIPAL,
        "proxy",
        S.FIRST_OFFSET,
        S.LAST_OFFSET,
        S.ERROR_CODE,
        S.FORWARD_ID,
        "written",
        S.SEQUENCE,
    ).orderBy(F.col(S.TIME_MS).desc(), F.col(S.SEQUENCE).desc())


def errors(records: DataFrame) -> DataFrame:
    """Returns the admin requests that had errors, by error code."""
    counted = (
        records.where(is_event("forwarded") & (F.col(S.ERROR_CODE) != 0))
        .groupBy(S.ERROR_CODE, S.METHOD)
        .agg(
            F.count(F.lit(1)).alias("requests"),
            F.count_distinct(S.PRINCIPAL).alias("principals"),
            F.max_by(S.PRINCIPAL, F.struct(S.TIME_MS, S.SEQUENCE)).alias("last_principal"),
            F.max(S.TIME_MS).alias("last_ms"),
        )
    )
    return counted.orderBy(F.col("requests").desc(), S.ERROR_CODE, S.METHOD).limit(ROWS)


def proving(records: DataFrame, findings: Sequence[Finding]) -> DataFrame:
    """Returns the records that the evidence of these findings names: id of the finding, record as JSON.

    At most PROOFS records of each of the first PROVEN findings, without the fields that a record does not
    have.
    """
    places = [(found["id"], *place) for found in findings[:PROVEN] for place in _places(found["evidence"])]
    if not places:
        return empty_frame(records.sparkSession, _PROOF)
    named = frame_of(records.sparkSession, places, _PLACE)
    found = records.join(F.broadcast(named), list(S.RECORD_KEY))
    return found.select("id", F.to_json(F.struct(*READ)).alias("record"), *S.RECORD_KEY).orderBy(
        "id", *S.RECORD_KEY
    )


def _places(evidence: object) -> Iterator[tuple[str, str, int]]:
    """Yields the first PROOFS keys of records that a finding's evidence names."""
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


def log_tail(metadata_log: DataFrame, days: Sequence[str] = ()) -> DataFrame:
    """Returns the latest records of the metadata log, or the latest of some days."""
    readable = metadata_log.transform(readable_removals).transform(of_days, days)
    latest = readable.orderBy(F.col(S.LOG_OFFSET).desc()).limit(LATEST)
    # As a number: collect() converts a timestamp to the driver's local time.
    written = F.unix_millis(S.LOG_TIMESTAMP).alias("written_ms")
    return latest.select(S.LOG_OFFSET, written, S.RECORD, S.BODY, S.ENTITY)


def readable_removals(metadata_log: DataFrame) -> DataFrame:
    """Returns the log with the full ACL in each removal, whose record has only the id."""
    of_one_acl = Window.partitionBy(F.get_json_object(S.BODY, "$.id")).orderBy(S.LOG_OFFSET)
    added = F.last(F.when(_is_record(S.ACCESS_CONTROL_ENTRY_RECORD), F.col(S.BODY)), ignorenulls=True).over(
        of_one_acl
    )
    removes = _is_record(S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD)
    return metadata_log.withColumn("added", added).withColumn(
        S.BODY, F.coalesce(F.when(removes, F.col("added")), F.col(S.BODY))
    )


def processes(records: DataFrame) -> DataFrame:
    """Returns the processes that wrote the trail, with their first and last record."""
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
    """Returns the number of quarantined records by topic and reason."""
    counted = quarantine.groupBy(S.KAFKA_TOPIC, S.REASON).agg(
        F.count(F.lit(1)).alias("records"), F.max(S.KAFKA_OFFSET).alias("last_offset")
    )
    return counted.orderBy(F.col("records").desc(), S.KAFKA_TOPIC, S.REASON).limit(ROWS)


def of_days(table: DataFrame, days: Sequence[str]) -> DataFrame:
    """Returns the rows of these days (YYYY-MM-DD), without reading other days; all rows if none is given."""
    return table.where(F.col(S.DATE).isin(*map(date.fromisoformat, days))) if days else table


def _is_record(api_key: int) -> Column:
    return F.col(S.API_KEY) == api_key


def is_event(*events: str) -> Column:
    return F.col(S.EVENT).isin(*events)


def granted() -> Column:
    return is_event("authorization", "authorization_summary", "authorization_collapsed") & F.col(S.GRANTED)


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


def timeline(records: DataFrame, bucket_ms: int, last_ms: int) -> DataFrame:
    """Returns plot, bucket_ms, series, amount, up to `last_ms`.

    The plots are `allowed` (requests by API), `denied` (requests by principal), `throttled` (milliseconds by
    quota-id) and `logins` (by outcome). A plot has at most MOST_SERIES series; the smallest are OTHERS.
    """
    # The interval of a summary ends with its record. A start after that, or a negative one, is forged.
    begin = F.when(F.col(S.INTERVAL_START_MS).between(0, F.col(S.TIME_MS)), F.col(S.INTERVAL_START_MS))
    moment = F.coalesce(F.when(granted() | denied(), begin), F.col(S.TIME_MS))
    bucket = (F.floor(moment / F.lit(bucket_ms)) * F.lit(bucket_ms)).cast("long")
    drawn = records.select(_plotted().alias("drawn"), bucket.alias(BUCKET_MS)).where("drawn is not null")
    counted = drawn.groupBy("drawn.plot", BUCKET_MS, "drawn.series").agg(F.sum("drawn.amount").alias(AMOUNT))
    return largest(held(counted.unionByName(_waiting(records, bucket_ms, last_ms))))


def _waiting(records: DataFrame, bucket_ms: int, last_ms: int) -> DataFrame:
    """Returns the rows of the plot of throttling: each wait, in all columns over which it lasts."""
    waiting = waits(records).withColumn("to_ms", F.least("to_ms", F.lit(last_ms))).where("to_ms > from_ms")
    first, last = (F.floor(moment / F.lit(bucket_ms)) for moment in (F.col("from_ms"), F.col("to_ms") - 1))
    each = waiting.withColumn("column", F.explode(F.sequence(first, last)))
    begin = (F.col("column") * bucket_ms).cast("long")
    within = F.least(F.col("to_ms"), begin + bucket_ms) - F.greatest(F.col("from_ms"), begin)
    series = F.coalesce(S.QUOTA_ID, F.lit("(unknown)")).alias(SERIES)
    placed = each.select(F.lit("throttled").alias(PLOT), begin.alias(BUCKET_MS), series, within.alias("ms"))
    return placed.groupBy(PLOT, BUCKET_MS, SERIES).agg(F.sum("ms").alias(AMOUNT))


def largest(counted: DataFrame) -> DataFrame:
    """Returns these rows of plot, bucket_ms, series, amount with the series that are drawn, and OTHERS."""
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
    """Returns the name under which each series is drawn, so that the driver collects only a few series."""
    sums = counted.groupBy(PLOT, SERIES).agg(F.sum(AMOUNT).alias("all"))
    of_plot = Window.partitionBy(PLOT)
    rank = F.row_number().over(of_plot.orderBy(F.col("all").desc(), SERIES))
    ranked = sums.withColumn("rank", rank).withColumn("number", F.count(F.lit(1)).over(of_plot))
    is_drawn = (F.col("number") <= MOST_SERIES) | (F.col("rank") < MOST_SERIES)
    return ranked.select(PLOT, SERIES, F.when(is_drawn, F.col(SERIES)).otherwise(F.lit(OTHERS)).alias("name"))
