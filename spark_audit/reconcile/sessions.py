"""(e) Sessions: requests after the deadline of the last login, and decisions by groups that it does not have.

A login or re-authentication with a session_lifetime_ms sets a deadline, and the next one moves it.
`session_expired`, `session_expired_idle`, `session_revoked` and `session_disconnected` end the connection.
Takes the audit records, each once. A member who has left a group has lost it with the next login on the
connection (SPEC A8).
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.policy.principals import no_groups
from spark_audit.reconcile.finding import findings, register, sample, sentence
from spark_audit.tables.plans import held
from spark_audit.trail.audit_records import each_day

register(
    """
sessions: No request was served after the deadline of its session.
sessions.overrun (critical): Requests were served after the end of a session.
    Find out what they read or wrote, and replace the proxy.
sessions.other_groups (critical): Decisions depended on groups that the session did not have by its login.
    Find out what was read or written with their rights, and replace the proxy.
"""
)

ENDS = ("session_expired", "session_expired_idle", "session_revoked", "session_disconnected")
LOGINS = ("authentication", "reauthentication")
DECISION_EVENTS = ("authorization", "authorization_summary")
TRAFFIC = (*DECISION_EVENTS, "request_summary", "admin_request")
GRACE_MS = 1_000
"""A record has the time at which it was written, a little after its request was checked."""


UNDER_WAY_MS = 60_000
"""What was requested before a login may be decided in part with the broker's response, after it."""
POSSIBLE, CERTAIN = "possible_groups", "certain_groups"
_LOGINS, _NOT_OF_LOGIN = "logins", "groups_not_of_login"


def sessions(records: DataFrame, few: DataFrame | None = None, of_days: DataFrame | None = None) -> DataFrame:
    """Return the findings of both checks.

    `few` has all records but traffic, `of_days` those of the days in question, if they are known.
    """
    rest, decided = records if few is None else few, records if of_days is None else of_days
    return overruns(records, rest, decided).unionByName(other_groups(decided, rest))


def of_logins(decided: DataFrame, few: DataFrame) -> DataFrame:
    """Return the records of connections with a login before them, with POSSIBLE and CERTAIN.

    These are the groups that decided or may have, and those that did in any case: of the last login, or for
    UNDER_WAY_MS after it of some and of all logins. `few` has the logins.
    """
    connection = (*S.BOOT_KEY, S.CONNECTION_ID)
    login = F.struct(S.SEQUENCE, S.TIME_MS, F.coalesce(S.GROUPS, no_groups()).alias(S.GROUPS))
    logins = few.where(_is(*LOGINS) & F.col(S.CONNECTION_ID).isNotNull())
    by_connection = logins.groupBy(*connection).agg(F.array_sort(F.collect_list(login)).alias(_LOGINS))
    joined = decided.where(_is_served()).join(by_connection, list(connection))
    before = F.filter(_LOGINS, lambda each: each[S.SEQUENCE] < F.col(S.SEQUENCE))
    placed = joined.withColumn(_LOGINS, before).where(F.size(_LOGINS) > 0)
    last, groups = F.element_at(_LOGINS, -1), F.transform(_LOGINS, lambda each: each[S.GROUPS])
    is_soon = _moment() <= last[S.TIME_MS] + UNDER_WAY_MS
    of_all = F.aggregate(groups, last[S.GROUPS], F.array_intersect)
    return placed.withColumns(
        {
            POSSIBLE: F.when(is_soon, F.flatten(groups)).otherwise(last[S.GROUPS]),
            CERTAIN: F.when(is_soon, of_all).otherwise(last[S.GROUPS]),
        }
    ).drop(_LOGINS)


def other_groups(records: DataFrame, few: DataFrame) -> DataFrame:
    """Return one finding per connection and groups that its login did not have.

    Connections whose login is not among the records are not judged.
    """
    connection = (*S.BOOT_KEY, S.CONNECTION_ID)
    decided = records.where((F.size(S.GROUPS) > 0) & _is(*DECISION_EVENTS))
    wrong = of_logins(decided, few).withColumn(_NOT_OF_LOGIN, F.array_except(S.GROUPS, POSSIBLE))
    by_session = wrong.where(F.size(_NOT_OF_LOGIN) > 0).groupBy(*connection, S.PRINCIPAL, _NOT_OF_LOGIN)
    return findings(
        by_session.agg(
            F.min(S.DATE).alias(S.DATE),
            F.sum(F.coalesce(S.COUNT, F.lit(1))).alias("requests"),
            sample(S.SEQUENCE).alias("sequences"),
        ),
        check="sessions.other_groups",
        explanation=sentence(
            "process {proxy_id}/{boot_id} decided {requests} request(s) of {principal} on connection"
            " {connection_id} by {groups}, which the login before did not have",
            groups=F.array_join(_NOT_OF_LOGIN, ", "),
        ),
        evidence=[*connection, S.PRINCIPAL, _NOT_OF_LOGIN, "requests", "sequences"],
    )


def overruns(records: DataFrame, few: DataFrame, of_days: DataFrame) -> DataFrame:
    """Return one finding per connection and deadline that was exceeded, of those in `of_days`."""
    suspicious = _suspicious(records, few, of_days)
    overrun = _with_deadline(suspicious).where(F.col("moment_ms") > F.col("deadline_ms") + GRACE_MS)
    by_session = overrun.groupBy(*S.BOOT_KEY, S.CONNECTION_ID, S.PRINCIPAL, "deadline_ms").agg(
        each_day(S.DATE),
        F.sum(F.coalesce(S.COUNT, F.lit(1))).alias("requests"),
        (F.max("moment_ms") - F.col("deadline_ms")).alias("overrun_ms"),
        sample(S.SEQUENCE).alias("sequences"),
    )
    return findings(
        by_session,
        check="sessions.overrun",
        explanation=sentence(
            "process {proxy_id}/{boot_id} served {requests} request(s) of {principal} on connection"
            " {connection_id} up to {overrun_ms} ms after its session ended"
        ),
        evidence=[
            *S.BOOT_KEY,
            S.CONNECTION_ID,
            S.PRINCIPAL,
            "deadline_ms",
            "overrun_ms",
            "requests",
            "sequences",
        ],
    )


def _suspicious(records: DataFrame, few: DataFrame, of_days: DataFrame) -> DataFrame:
    """Return the records of connections with a deadline before the next login or before the last traffic.

    Of connections with traffic in `of_days`. No other connection can have exceeded a deadline, and sorting is
    needed only for these few.
    """
    of_connection = (*S.BOOT_KEY, S.CONNECTION_ID)
    in_time = Window.partitionBy(*of_connection).orderBy("moment_ms", S.SEQUENCE)
    logins = few.where(F.col(S.CONNECTION_ID).isNotNull() & _is(*LOGINS, *ENDS)).select(
        *of_connection, S.SEQUENCE, _moment().alias("moment_ms"), _set_here().alias("set_here")
    )
    deadlines = logins.select(
        *of_connection,
        (F.col("set_here.ms") + GRACE_MS).alias("until_ms"),
        F.lead("moment_ms").over(in_time).alias("moved_ms"),
    ).where(F.col("until_ms").isNotNull())
    there = of_days.where(F.col(S.CONNECTION_ID).isNotNull() & _is_served())
    served = there.groupBy(*of_connection).agg(F.max(_moment()).alias("last_ms"))
    passed = deadlines.join(served, list(of_connection)).where(
        F.coalesce("moved_ms", "last_ms") > F.col("until_ms")
    )
    named = held(passed.select(*of_connection).distinct())
    if not named.count():
        return records.limit(0)
    return records.join(named, list(of_connection), "left_semi")


def _with_deadline(records: DataFrame) -> DataFrame:
    """Return served requests with the deadline that applied to the first of them."""
    concerned = records.where(F.col(S.CONNECTION_ID).isNotNull() & _is(*LOGINS, *TRAFFIC, *ENDS))
    of_connection = Window.partitionBy(*S.BOOT_KEY, S.CONNECTION_ID).orderBy("moment_ms", S.SEQUENCE)
    placed = concerned.withColumns({"moment_ms": _moment(), "set_here": _set_here()})
    known = placed.withColumn("known", F.last("set_here", ignorenulls=True).over(of_connection))
    return known.where(_is_served()).select(
        *S.BOOT_KEY,
        S.DATE,
        S.SEQUENCE,
        S.CONNECTION_ID,
        S.PRINCIPAL,
        S.COUNT,
        "moment_ms",
        F.col("known.ms").alias("deadline_ms"),
    )


def _moment() -> Column:
    # A summary is written at the end of its interval, but counts requests since the start of it.
    # A login counts from the moment at which it was accepted, before its record was written.
    return F.coalesce(
        F.when(_is(*TRAFFIC), F.col(S.INTERVAL_START_MS)),
        F.when(_is(*LOGINS), F.col(S.INTERVAL_END_MS)),
        F.col(S.TIME_MS),
    )


def _set_here() -> Column:
    limited = F.when(F.col(S.SESSION_LIFETIME_MS) > 0, F.col(S.TIME_MS) + F.col(S.SESSION_LIFETIME_MS))
    # In a struct, because a login without a deadline must remove the deadline of the login before.
    return F.when(_is(*LOGINS), F.struct(limited.alias("ms"))).when(
        _is(*ENDS), F.struct(F.col(S.TIME_MS).alias("ms"))
    )


def _is_served() -> Column:
    # A summary with count 0 reports only responses, to requests of an earlier interval.
    return _is(*TRAFFIC) & (F.coalesce(S.COUNT, F.lit(1)) > 0)


def _is(*events: str) -> Column:
    return F.col(S.EVENT).isin(*events)
