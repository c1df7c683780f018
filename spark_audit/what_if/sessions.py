"""Who would have to re-authenticate under a proposed connections.max.reauth.ms (KIP-368).

A connection that stays longer than the proposed lifetime after a login would have to log in again on it.
Only a client that has done so on some connection is known to be able to; of others it cannot be said. A
client that cannot is disconnected at the end of the lifetime.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S

REAUTHENTICATES, CANNOT_BE_SAID = "reauthenticates", "cannot_be_said"
_LOGINS = ("authentication", "reauthentication")


def longer_sessions(records: DataFrame, max_reauth_ms: int) -> DataFrame:
    """Return principal, client_id, mechanism, outcome, connections, longest_ms.

    Longest_ms is the longest time between a login and the last record of its connection before the next.
    """
    connection = [*S.BOOT_KEY, S.CONNECTION_ID]
    is_login = F.col(S.EVENT).isin(*_LOGINS)
    of_connection = Window.partitionBy(*connection).orderBy(S.TIME_MS, S.SEQUENCE)
    login = F.last(F.when(is_login, F.struct(S.TIME_MS, S.MECHANISM)), ignorenulls=True).over(of_connection)
    placed = records.where(F.col(S.CONNECTION_ID).isNotNull()).withColumn("login", login)
    # The lifetime of a re-authentication begins with it, so it ends the time of the login before it.
    before = F.lag("login").over(of_connection)
    length = F.col(S.TIME_MS) - F.coalesce(F.when(is_login, before), F.col("login"))[S.TIME_MS]
    lasting = placed.withColumns({"length_ms": length, "again": F.col(S.EVENT) == "reauthentication"})
    by_client = lasting.groupBy(S.PRINCIPAL, S.CLIENT_ID, *connection).agg(
        F.max("length_ms").alias("length_ms"),
        F.max("again").alias("again"),
        F.max(F.col("login")[S.MECHANISM]).alias(S.MECHANISM),
    )
    clients = by_client.where(F.col(S.PRINCIPAL).isNotNull()).groupBy(S.PRINCIPAL, S.CLIENT_ID)
    summed = clients.agg(
        F.max(S.MECHANISM).alias(S.MECHANISM),
        F.when(F.max("again"), REAUTHENTICATES).otherwise(CANNOT_BE_SAID).alias("outcome"),
        F.count_if(F.col("length_ms") > max_reauth_ms).alias("connections"),
        F.max("length_ms").alias("longest_ms"),
    )
    return summed.where(F.col("connections") > 0)
