"""(e) Traffic past the end of a session: requests that were served after the deadline a login had set.

A login or re-authentication that names a session_lifetime_ms sets a deadline; the next one moves it; a
`session_expired`, `session_expired_idle` or `session_revoked` ends the connection. Takes the audit records
(each once) of connections.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, sample, words

ENDS = ("session_expired", "session_expired_idle", "session_revoked")
LOGINS = ("authentication", "reauthentication")
TRAFFIC = ("authorization", "authorization_summary", "request_summary", "admin_request")
GRACE_MS = 1_000
"""A record is stamped when it is written, a little after its request was looked at."""


def sessions(records: DataFrame) -> DataFrame:
    """One finding per connection and deadline that was overrun."""
    overrun = _with_deadline(_suspicious(records)).where(F.col("moment_ms") > F.col("deadline_ms") + GRACE_MS)
    by_session = overrun.groupBy(*S.BOOT_KEY, S.CONNECTION_ID, S.PRINCIPAL, "deadline_ms").agg(
        F.min(S.DATE).alias(S.DATE),
        F.sum(F.coalesce(S.COUNT, F.lit(1))).alias("requests"),
        (F.max("moment_ms") - F.col("deadline_ms")).alias("overrun_ms"),
        sample(S.SEQUENCE).alias("sequences"),
    )
    return findings(
        by_session,
        check="sessions.overrun",
        severity="critical",
        date=S.DATE,
        explanation=words(
            "process %s/%s served %s request(s) of %s on connection %s up to %s ms after its session's end",
            *S.BOOT_KEY,
            "requests",
            S.PRINCIPAL,
            S.CONNECTION_ID,
            "overrun_ms",
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


def _suspicious(records: DataFrame) -> DataFrame:
    """The records of connections on which a deadline passed before it was moved, or before the last traffic.

    All others cannot have overrun one: what was served before the next login was in time because that was,
    and what was served after the last login came no later than the last of it. Few have to be put in order.
    """
    concerned = records.where(F.col(S.CONNECTION_ID).isNotNull())
    of_connection = (*S.BOOT_KEY, S.CONNECTION_ID)
    in_time = Window.partitionBy(*of_connection).orderBy("moment_ms", S.SEQUENCE)
    logins = concerned.where(_is(*LOGINS, *ENDS)).select(
        *of_connection, S.SEQUENCE, _moment().alias("moment_ms"), _set_here().alias("set_here")
    )
    set_there = logins.select(
        *of_connection,
        (F.col("set_here.ms") + GRACE_MS).alias("until_ms"),
        F.lead("moment_ms").over(in_time).alias("moved_ms"),
    ).where(F.col("until_ms").isNotNull())
    served = concerned.where(_is_served()).groupBy(*of_connection).agg(F.max(_moment()).alias("last_ms"))
    passed = set_there.join(served, list(of_connection)).where(
        F.coalesce("moved_ms", "last_ms") > F.col("until_ms")
    )
    named = passed.select(*of_connection).distinct().persist()
    if not named.count():
        return concerned.limit(0)
    return concerned.join(named, list(of_connection), "left_semi")


def _with_deadline(records: DataFrame) -> DataFrame:
    """Served requests with the deadline that held when the first of them came."""
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
    # A summary is written at the end of its interval, but tells of requests since its beginning.
    # A login counts from when it was accepted, which is before its record was written.
    return F.coalesce(
        F.when(_is(*TRAFFIC), F.col(S.INTERVAL_START_MS)),
        F.when(_is(*LOGINS), F.col(S.INTERVAL_END_MS)),
        F.col(S.TIME_MS),
    )


def _set_here() -> Column:
    limited = F.when(F.col(S.SESSION_LIFETIME_MS) > 0, F.col(S.TIME_MS) + F.col(S.SESSION_LIFETIME_MS))
    # A struct around the deadline: a login without one must take away that of the login before.
    return F.when(_is(*LOGINS), F.struct(limited.alias("ms"))).when(
        _is(*ENDS), F.struct(F.col(S.TIME_MS).alias("ms"))
    )


def _is_served() -> Column:
    # A summary that counts no request tells of answers alone: to what was asked for in an earlier interval.
    return _is(*TRAFFIC) & (F.coalesce(S.COUNT, F.lit(1)) > 0)


def _is(*events: str) -> Column:
    return F.col(S.EVENT).isin(*events)
