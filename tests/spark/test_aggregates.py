"""The tables of the page: how long somebody waited, who was denied, who logged in, who is new."""

import pytest
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.report import aggregates
from tests.spark.audit_trail import NOON_MS, Process, Trail
from tests.spark.frames import audit_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D6", "D15")]

MINUTE_MS = 60_000


def throttled(proxy: Process, user: str, begin_ms: int, end_ms: int, count: int, wait_ms: int) -> None:
    proxy.write(
        "throttled",
        quota_id=f"{user}:",
        quota_key="producer_byte_rate",
        quota_limit=1_000.0,
        count=count,
        throttle_time_ms=count * wait_ms,
        interval_start_ms=NOON_MS + begin_ms,
        interval_end_ms=NOON_MS + end_ms,
        time_ms=NOON_MS + end_ms,
    )


def test_the_page_says_how_long_somebody_waited_and_who_was_denied_logged_in_or_is_new(
    spark: SparkSession,
) -> None:
    trail = Trail()
    proxy = trail.proxy
    # 383 responses of a pipelining client say at the same time that it is to wait for 32 s; and so on.
    for number in range(5):
        throttled(proxy, "bob", number * 10_000, number * 10_000 + 2_000, 383, 32_000)
    # One after the other, and in two intervals without a pause between.
    throttled(proxy, "alice", 0, 10_000, 4, 1_000)
    throttled(proxy, "alice", 4_000, 14_000, 2, 1_000)
    for host, times in (("10.0.0.1", 3), ("10.0.0.2", 5)):
        for _ in range(times):
            trail.ask(f"User:carol {host} READ TOPIC orders")
    login = {"listener": "SASL_SSL", "mechanism": "PLAIN", "host": "10.0.0.9"}
    proxy.write("authentication", principal="User:dave", **login)
    for _ in range(2):
        proxy.write("authentication_failed", **login)
    records = audit_frame(spark, trail.audit)

    waited = {
        row[S.QUOTA_ID]: (row["total_ms"], row["times"]) for row in aggregates.throttling(records).collect()
    }
    plotted = aggregates.timeline(records, MINUTE_MS, NOON_MS + 2 * MINUTE_MS).where("plot = 'throttled'")
    columns = {
        (row["series"], (row["bucket_ms"] - NOON_MS) // MINUTE_MS): row["amount"] for row in plotted.collect()
    }

    assert waited == {"bob:": (42_000 + 32_000, 5 * 383), "alice:": (4_000 + 2_000, 6)}
    assert columns == {("bob:", 0): 60_000, ("bob:", 1): 14_000, ("alice:", 0): 6_000}
    denied = [(row[S.PRINCIPAL], row[S.HOST], row["denied"]) for row in aggregates.denials(records).collect()]
    assert denied == [("User:carol", "10.0.0.2", 5), ("User:carol", "10.0.0.1", 3)]
    logins = [
        (row[S.PRINCIPAL], row[S.HOST], row["failed"], row["logins"])
        for row in aggregates.logins(records).collect()
    ]
    assert logins == [(None, "10.0.0.9", 2, 0), ("User:dave", "10.0.0.9", 0, 1)]
    before = records.where("host = '10.0.0.1'")
    new = [(row["kind"], row["name"]) for row in aggregates.newcomers(records, before).collect()]
    assert new == [("principal", "User:dave"), ("host", "10.0.0.2"), ("host", "10.0.0.9")]
