"""The recorded decisions and summaries of a period, grouped into questions that can be decided again.

A question is what one principal did from one host, with one client id and API, to one resource at one proxy.
Decisions that a record does not describe well enough have a reason (UNKNOWN_BECAUSE) instead.

Not every right is recorded. InitProducerId is allowed by IDEMPOTENT_WRITE on the cluster, which is only
counted, or by WRITE on any topic; CreateTopics and DeleteTopics by a right on the cluster or on each topic
(KIP-599 has the APIs, proxy.admin.authorization the order). Such questions are asked in both forms, and one
that is allowed is enough. A Fetch that continues a session (KIP-227) is counted at some of its topics only,
so the topics that a connection fetched before the period count too, with no requests.
"""

from datetime import date
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.policy.evaluation import EVALUATED, FAILED, PROTECTED
from spark_audit.policy.principals import no_groups
from spark_audit.trail.processes import (
    ALLOW_EVERYONE,
    AUTHORIZER,
    BY_SETTINGS,
    SETTINGS_EVENTS,
    SUPER_USERS,
    recorded_settings,
    settings,
)

REQUESTS, BYTES, FIRST_MS, LAST_MS = "requests", "bytes", "first_ms", "last_ms"
BUCKET_MS = "bucket_ms"
OVER_TIME = "over_time"
"""The requests of a question by interval: an array of (BUCKET_MS, REQUESTS)."""
UNKNOWN_BECAUSE = "unknown_because"
OF_RECORD = "of_record"
"""Why the record itself does not say enough, null if it does."""
RESOURCE = (S.RESOURCE_TYPE, S.RESOURCE_NAME, S.OPERATION)
QUESTION = (S.PROXY_ID, S.PRINCIPAL, S.GROUPS, S.HOST, S.CLIENT_ID, S.METHOD, *RESOURCE, S.RULE, S.GRANTED)
"""What makes a question. `rule` is one of PROTECTED, else null: no other rule is decided again."""
EITHER = "either"
"""The rights of a question, an array of RESOURCE: each of them allows it."""

_SUMMARY, _COLLAPSED, _UNCHECKED = "authorization_summary", "authorization_collapsed", "request_summary"
_COARSE, _FAILED = "coarse", "failed"
_ON_TOPICS_OR_CLUSTER = ("CreateTopics", "DeleteTopics")
_CLUSTER = "kafka-cluster"
_CONNECTION = (*S.BOOT_KEY, S.CONNECTION_ID)
_LOGINS = "logins"


def rows(records: DataFrame, first: date | None, last: date | None, bucket_ms: int) -> DataFrame:
    """Return what `measured` does, of the days from `first` to `last`.

    `records` has each record of all days once. `bucket_ms` is the length of an interval; a summary counts in
    the one in which it begins.
    """
    decided = decisions(records, records)
    days = of_period(decided, first, last)
    if first is not None:
        days = days.unionByName(fetched_before_each_day(of_period(decided, None, last), days))
    return measured(days.drop(S.DATE), bucket_ms)


def measured(decided: DataFrame, bucket_ms: int) -> DataFrame:
    """Return one row per QUESTION, OF_RECORD, BUCKET_MS and date (if there is one), with the measures."""
    protected = F.when(F.col(S.RULE).isin(*PROTECTED), F.col(S.RULE))
    begin = F.when(F.col(FIRST_MS).between(0, F.col(S.TIME_MS)), F.col(FIRST_MS)).otherwise(F.col(S.TIME_MS))
    of_record = F.when(is_too_coarse(), _COARSE).when(F.col(S.RULE) == FAILED, _FAILED)
    placed = decided.withColumns(
        {S.RULE: protected, OF_RECORD: of_record, BUCKET_MS: begin, LAST_MS: F.col(S.TIME_MS)}
    )
    return in_buckets(placed, bucket_ms)


def in_buckets(placed: DataFrame, bucket_ms: int) -> DataFrame:
    """Add up rows of the same QUESTION, OF_RECORD and bucket; BUCKET_MS is any moment of it in `placed`."""
    bucket = (F.floor(F.col(BUCKET_MS) / F.lit(bucket_ms)) * F.lit(bucket_ms)).cast("long").alias(BUCKET_MS)
    by_day = [S.DATE] if S.DATE in placed.columns else []
    return placed.groupBy(*by_day, *QUESTION, OF_RECORD, bucket).agg(*_measures())


def questions(rows: DataFrame, policies: DataFrame) -> DataFrame:
    """Return one row per QUESTION and UNKNOWN_BECAUSE, with EITHER, the measures and OVER_TIME.

    `rows` are those of `measured`, `policies` those of `newest_policies`.
    """
    known = rows.join(F.broadcast(policies), S.PROXY_ID, "left")
    named = known.withColumn(UNKNOWN_BECAUSE, F.coalesce(*_reasons()))
    over_time = F.collect_list(F.struct(BUCKET_MS, REQUESTS)).alias(OVER_TIME)
    grouped = named.groupBy(*QUESTION, UNKNOWN_BECAUSE).agg(*_measures(), over_time)
    return grouped.withColumn(EITHER, _either())


def _measures() -> list[Column]:
    return [
        F.sum(REQUESTS).alias(REQUESTS),
        F.sum(BYTES).alias(BYTES),
        F.min(FIRST_MS).alias(FIRST_MS),
        F.max(LAST_MS).alias(LAST_MS),
    ]


def of_period(records: DataFrame, first: date | None, last: date | None) -> DataFrame:
    """Return the records of some days, without reading others."""
    if first is not None:
        records = records.where(F.col(S.DATE) >= first)
    return records if last is None else records.where(F.col(S.DATE) <= last)


def newest_policies(audit: DataFrame) -> DataFrame:
    """Return the newest settings of each proxy: proxy_id, super_users, allow_everyone, authorizer.

    `audit` may have copies of records.
    """
    of_settings = audit.where(F.col(S.EVENT).isin(*SETTINGS_EVENTS))
    place = F.struct(*BY_SETTINGS[1:])
    by_proxy = recorded_settings(of_settings).groupBy(S.PROXY_ID)
    newest = by_proxy.agg(F.max_by(place, F.struct(S.TIME_MS, S.SEQUENCE)).alias("newest"))
    named = newest.select(S.PROXY_ID, "newest.*")
    joined = settings(of_settings).join(named, list(BY_SETTINGS), "left_semi")
    known = joined.select(S.PROXY_ID, SUPER_USERS, ALLOW_EVERYONE, AUTHORIZER)
    # A record may have a second copy.
    return known.dropDuplicates([S.PROXY_ID])


def decisions(audit: DataFrame, logins: DataFrame) -> DataFrame:
    """Return the records of decisions that can be decided again, one right each.

    A record has only the groups that decided then, so all groups are those of the connection's last login
    before it, among the records `logins`.
    """
    init = (F.col(S.EVENT) == _UNCHECKED) & (F.col(S.METHOD) == "InitProducerId")
    decided = F.col(S.EVENT).isin("authorization", _SUMMARY, _COLLAPSED) | init
    # The controller decides again what a proxy has forwarded, and records it too.
    own = F.col(S.FORWARDING_PRINCIPAL).isNull()
    cluster = {S.RESOURCE_TYPE: "CLUSTER", S.RESOURCE_NAME: _CLUSTER, S.OPERATION: "IDEMPOTENT_WRITE"}
    return with_groups_of_logins(audit.where(decided & own), logins).select(
        S.DATE,
        S.EVENT,
        S.TIME_MS,
        *S.BOOT_KEY,
        S.CONNECTION_ID,
        *(F.coalesce(name, F.lit("")).alias(name) for name in (S.PRINCIPAL, S.HOST)),
        S.GROUPS,
        S.CLIENT_ID,
        S.METHOD,
        *(F.when(init, value).otherwise(F.col(name)).alias(name) for name, value in cluster.items()),
        F.coalesce(S.GRANTED, init).alias(S.GRANTED),
        S.RULE,
        F.coalesce(S.COUNT, F.lit(1).cast("long")).alias(REQUESTS),
        (F.coalesce(S.REQUEST_BYTES, F.lit(0)) + F.coalesce(S.RESPONSE_BYTES, F.lit(0))).alias(BYTES),
        F.coalesce(S.INTERVAL_START_MS, S.TIME_MS).alias(FIRST_MS),
    )


def with_groups_of_logins(records: DataFrame, logins: DataFrame) -> DataFrame:
    """Return the records with all groups of the connection's last login before each, if `logins` has one."""
    is_login = F.col(S.EVENT).isin("authentication", "reauthentication")
    login = F.struct(S.SEQUENCE, F.coalesce(S.GROUPS, no_groups()).alias(S.GROUPS))
    by_connection = logins.where(is_login).groupBy(*_CONNECTION).agg(F.collect_list(login).alias(_LOGINS))
    with_any = by_connection.where(F.exists(_LOGINS, lambda login: F.size(login[S.GROUPS]) > 0))
    earlier = F.filter(_LOGINS, lambda login: login[S.SEQUENCE] < F.col(S.SEQUENCE))
    groups = F.coalesce(F.array_max(earlier)[S.GROUPS], S.GROUPS, no_groups())
    return records.join(with_any, list(_CONNECTION), "left").withColumn(S.GROUPS, groups).drop(_LOGINS)


def fetched_before_each_day(decided: DataFrame, days: DataFrame) -> DataFrame:
    """Return what connections that fetched on a day had fetched on days before it, with that date.

    `days` are the decisions of the days in question. A topic that a connection has fetched often is one row.
    """
    open_on = days.where(_of_fetch()).select(F.col(S.DATE).alias("open_on"), *_CONNECTION).distinct()
    what = [name for name in decided.columns if name not in (S.TIME_MS, FIRST_MS, REQUESTS, BYTES)]
    once = (
        decided.where(_of_fetch())
        .groupBy(*what)
        .agg(F.min(S.TIME_MS).alias(S.TIME_MS), F.min(FIRST_MS).alias(FIRST_MS))
    )
    before = once.join(open_on, list(_CONNECTION)).where(F.col(S.DATE) < F.col("open_on"))
    nothing = F.lit(0).cast("long")
    return before.withColumns({S.DATE: F.col("open_on"), REQUESTS: nothing, BYTES: nothing}).drop("open_on")


def _of_fetch() -> Column:
    return (F.col(S.EVENT) == _SUMMARY) & F.col(S.METHOD).isin("Fetch", "ShareFetch")


def _reasons() -> list[Column]:
    standard = F.col(AUTHORIZER).endswith(EVALUATED) | (F.col(AUTHORIZER) == "")
    return [
        F.when(F.col(OF_RECORD) == _COARSE, "one record stands for several decisions and names no resource"),
        F.when(F.col(AUTHORIZER).isNull(), "the settings of the process are not recorded"),
        F.when(~standard, F.concat(F.lit("decided by "), F.col(AUTHORIZER))),
        F.when(F.col(OF_RECORD) == _FAILED, "denied on an error of the authorizer"),
        F.when(
            F.col(S.RESOURCE_TYPE).isNull() | F.col(S.OPERATION).isNull() | F.col(S.GRANTED).isNull(),
            "the record has no resource or no outcome",
        ),
        # Written by jobs and tests only: no reason.
        F.lit(None).cast("string"),
    ]


def is_too_coarse() -> Column:
    """Return whether a record counts what differs in a field of the question, and so lacks that field."""
    of_many = (F.col(S.EVENT) == _SUMMARY) & F.col(S.RESOURCE_NAME).isNull()
    fields = (S.RESOURCE_TYPE, S.RESOURCE_NAME, S.OPERATION, S.GRANTED)
    missing = [F.col(name).isNull() for name in fields]
    lacks = reduce(or_, missing, F.coalesce(S.HOST, F.lit("")) == "")
    return of_many | ((F.col(S.EVENT) == _COLLAPSED) & lacks)


def _either() -> Column:
    own = F.struct(*RESOURCE)
    init = F.col(S.METHOD) == "InitProducerId"
    of_topics = F.col(S.METHOD).isin(*_ON_TOPICS_OR_CLUSTER) & (F.col(S.RESOURCE_TYPE) == "TOPIC")
    any_topic = F.array(_right("TOPIC", None, "WRITE"), _right("CLUSTER", _CLUSTER, "IDEMPOTENT_WRITE"))
    return (
        F.when(init & (F.col(S.RESOURCE_TYPE) != "TRANSACTIONAL_ID"), any_topic)
        .when(of_topics, F.array(own, _right("CLUSTER", _CLUSTER, F.col(S.OPERATION))))
        .otherwise(F.array(own))
    )


def _right(resource_type: str, name: str | None, operation: str | Column) -> Column:
    what = F.lit(operation) if isinstance(operation, str) else operation
    return F.struct(
        F.lit(resource_type).alias(S.RESOURCE_TYPE),
        F.lit(name).cast("string").alias(S.RESOURCE_NAME),
        what.alias(S.OPERATION),
    )
