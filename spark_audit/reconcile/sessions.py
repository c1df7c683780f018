"""(e) Traffic past the end of a session: requests that were served after the deadline a login had set.

A login or re-authentication that names a session_lifetime_ms sets a deadline; the next one moves it; a
`session_expired`, `session_expired_idle` or `session_revoked` ends the connection. Takes the audit records
(each once) of connections.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, sample, words
from spark_audit.trail import AUTHOR

ENDS = ("session_expired", "session_expired_idle", "session_revoked")
LOGINS = ("authentication", "reauthentication")
TRAFFIC = ("authorization", "authorization_summary")
GRACE_MS = 1_000
"""A record is stamped when it is written, a little after its request was looked at."""


def sessions(records: DataFrame) -> DataFrame:
    """One finding per connection and deadline that was overrun."""
    overrun = records.transform(_with_deadline).where(F.col("moment_ms") > F.col("deadline_ms") + GRACE_MS)
    by_session = overrun.groupBy(*AUTHOR, S.CONNECTION_ID, S.PRINCIPAL, "deadline_ms").agg(
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
            *AUTHOR,
            "requests",
            S.PRINCIPAL,
            S.CONNECTION_ID,
            "overrun_ms",
        ),
        evidence=[
            *AUTHOR,
            S.CONNECTION_ID,
            S.PRINCIPAL,
            "deadline_ms",
            "overrun_ms",
            "requests",
            "sequences",
        ],
    )


def _with_deadline(records: DataFrame) -> DataFrame:
    """Served requests with the deadline that held when the first of them came."""
    concerned = records.where(F.col(S.CONNECTION_ID).isNotNull() & _is(*LOGINS, *TRAFFIC, *ENDS))
    # A summary is written at the end of its interval, but tells of requests since its beginning.
    # A login counts from when it was accepted, which is before its record was written.
    moment = F.coalesce(
        F.when(_is(*TRAFFIC), F.col(S.INTERVAL_START_MS)),
        F.when(_is(*LOGINS), F.col(S.INTERVAL_END_MS)),
        F.col(S.TIME_MS),
    )
    of_connection = Window.partitionBy(*AUTHOR, S.CONNECTION_ID).orderBy("moment_ms", S.SEQUENCE)
    limited = F.when(F.col(S.SESSION_LIFETIME_MS) > 0, F.col(S.TIME_MS) + F.col(S.SESSION_LIFETIME_MS))
    # A struct around the deadline: a login without one must take away that of the login before.
    set_here = F.when(_is(*LOGINS), F.struct(limited.alias("ms"))).when(
        _is(*ENDS), F.struct(F.col(S.TIME_MS).alias("ms"))
    )
    placed = concerned.withColumn("moment_ms", moment).withColumn("set_here", set_here)
    known = placed.withColumn("known", F.last("set_here", ignorenulls=True).over(of_connection))
    # A summary that counts no request tells of answers alone: to what was asked for in an earlier interval.
    served = known.where(_is(*TRAFFIC) & (F.coalesce(S.COUNT, F.lit(1)) > 0))
    return served.select(
        *AUTHOR,
        S.DATE,
        S.SEQUENCE,
        S.CONNECTION_ID,
        S.PRINCIPAL,
        S.COUNT,
        "moment_ms",
        F.col("known.ms").alias("deadline_ms"),
    )


def _is(*events: str) -> Column:
    return F.col(S.EVENT).isin(*events)
