"""(e) Traffic past a session's deadline."""

import pytest
from pyspark.sql import SparkSession

from spark_audit.reconcile.sessions import sessions
from tests.spark.audit_trail import NOON_MS, Clock, Process
from tests.spark.frames import audit_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "D6", "R3")]


def test_only_requests_after_the_deadline_in_force_are_found(spark: SparkSession) -> None:
    process = Process("proxy-1", Clock())

    def at(second: int, event: str, connection: str, **fields: object) -> None:
        process.clock.now_ms = NOON_MS + second * 1_000 - process.clock.step_ms
        process.write(event, connection_id=connection, principal=f"User:{connection}", **fields)

    at(0, "authentication", "in-time", session_lifetime_ms=60_000)
    at(59, "authorization", "in-time")
    at(0, "authentication", "renewed", session_lifetime_ms=60_000)
    at(50, "reauthentication", "renewed", session_lifetime_ms=60_000)
    at(100, "authorization", "renewed")
    at(0, "authentication", "unlimited", session_lifetime_ms=0)
    at(9_000, "authorization", "unlimited")
    at(0, "authentication", "now-unlimited", session_lifetime_ms=1_000)
    at(1, "reauthentication", "now-unlimited", session_lifetime_ms=None)
    at(9_000, "authorization", "now-unlimited")
    at(0, "authentication", "summed-up", session_lifetime_ms=60_000)
    at(65, "authorization_summary", "summed-up", count=9, interval_start_ms=NOON_MS + 55_000)
    at(0, "authentication", "answered-later", session_lifetime_ms=60_000)
    at(80, "authorization_summary", "answered-later", count=0, interval_start_ms=NOON_MS + 75_000)
    at(0, "authentication", "overrun", session_lifetime_ms=60_000)
    at(70, "authorization", "overrun")
    at(80, "authorization_summary", "overrun", count=4, interval_start_ms=NOON_MS + 75_000)
    at(0, "authentication", "renewed-late", session_lifetime_ms=60_000)
    accepted_ms = NOON_MS + 70_000 - 3
    at(70, "reauthentication", "renewed-late", session_lifetime_ms=60_000, interval_end_ms=accepted_ms)
    at(75, "authorization_summary", "renewed-late", count=3, interval_start_ms=accepted_ms)
    at(0, "authentication", "undead", session_lifetime_ms=600_000)
    at(10, "session_expired", "undead")
    at(20, "authorization", "undead")

    rows = audit_frame(spark, process.records).transform(sessions).orderBy("explanation").collect()

    assert [(row["check"], row["explanation"]) for row in rows] == [
        (
            "sessions.overrun",
            "process proxy-1/boot-1 served 1 request(s) of User:undead on connection undead "
            "up to 10000 ms after its session ended",
        ),
        (
            "sessions.overrun",
            "process proxy-1/boot-1 served 5 request(s) of User:overrun on connection overrun "
            "up to 15000 ms after its session ended",
        ),
    ]


@pytest.mark.spec("A8")
def test_decisions_by_groups_that_the_login_does_not_have_are_found(spark: SparkSession) -> None:
    process = Process("proxy-1", Clock())

    def at(second: int, event: str, connection: str, *groups: str, **fields: object) -> None:
        process.clock.now_ms = NOON_MS + second * 1_000 - process.clock.step_ms
        named = {"connection_id": connection, "principal": f"User:{connection}"}
        process.write(event, groups=list(groups) or None, **named, **fields)

    at(0, "authentication", "member", "payments", "staff")
    at(10, "authorization", "member", "payments")
    at(600, "authorization_summary", "member", "payments", "staff", count=9)
    at(0, "authentication", "leaves", "payments")
    at(10, "authorization", "leaves", "payments")
    at(60, "reauthentication", "leaves")
    # Requested before.
    at(90, "authorization", "leaves", "payments")
    at(900, "authorization_summary", "leaves", "payments", count=0)
    at(0, "authentication", "stays", "payments", "staff")
    at(60, "reauthentication", "stays", "staff")
    at(300, "authorization", "stays", "payments", "staff")
    at(310, "authorization_summary", "stays", "payments", count=4)
    at(0, "authentication", "forged")
    at(5, "authorization", "forged", "admins")
    at(5, "authorization", "of an earlier day", "admins")

    rows = audit_frame(spark, process.records).transform(sessions).orderBy("explanation").collect()

    told = "process proxy-1/boot-1 decided {} request(s) of User:{} on connection {} by {}, which the login"
    assert [(row["check"], row["explanation"]) for row in rows] == [
        ("sessions.other_groups", f"{told.format(*what)} before did not have")
        for what in ((1, "forged", "forged", "admins"), (5, "stays", "stays", "payments"))
    ]
