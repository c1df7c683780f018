"""The tables of the page: who did what, was denied, logged in, waited, is new; what can be searched."""

from datetime import date, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.report import aggregates, page
from spark_audit.tables.delta import empty_frame
from tests.spark.audit_trail import DAY, NOON_MS, Clock, Process, Trail, acl_id, an_acl
from tests.spark.busy_week import administer, an_object, busy_week
from tests.spark.frames import audit_frame, log_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D6", "D12", "D15")]

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


def test_the_latest_changes_are_told_with_their_first_objects(spark: SparkSession) -> None:
    trail = Trail()
    done, who = {"error": "NONE"}, {"correlation_id": 7, "connection_id": "c-1"}
    values = {"key": "retention.ms", "old_value": "1", "new_value": "2"}
    administer(
        trail.proxy, "CreateTopics", *(an_object("TOPIC", f"t-{n}", "CREATE", **done) for n in range(9))
    )
    # A commit of offsets comes after all changes, whatever its time.
    commit = an_object("GROUP", "g", "ALTER_OFFSETS", **done)
    administer(trail.proxy, "OffsetCommit", commit, event="broker_responded")
    config = an_object("TOPIC", "orders", "SET_CONFIG", **values)
    administer(trail.proxy, "DeleteGroups", config, event="admin_request", error_code=None, **who)
    administer(
        trail.proxy,
        "DeleteGroups",
        an_object("GROUP", "x", "DELETE", **done),
        event="broker_responded",
        **who,
    )
    # The proxy was killed before it had the response: what the controller did counts.
    administer(
        trail.controller, "DeleteTopics", an_object("TOPIC", "z" * 999, "DELETE"), event="forwarded_received"
    )
    records = aggregates.read(audit_frame(spark, trail.audit))

    rows = aggregates.changes(records).collect()

    told = [(row[S.METHOD], row["name"][:6], row["left"], row["is_first"]) for row in rows]
    topics = [("CreateTopics", f"t-{n}", 4 * (n == 4), n == 0) for n in range(5)]
    assert told == [
        ("DeleteTopics", "zzzzzz", 0, True),
        ("DeleteGroups", "x", 0, True),
        ("OffsetCommit", "g", 0, True),
        *topics,
    ]
    assert rows[0]["name"].startswith("z" * aggregates.KEPT + "… (999 characters, SHA-256 ")
    (totals,) = aggregates.totals(aggregates.connections(records)).collect()
    assert totals["changes"] == 2


def test_the_use_of_a_quota_is_compared_with_its_limit(spark: SparkSession) -> None:
    trail = Trail()
    trail.set_quota({"user": "alice"}, "producer_byte_rate", 1_000.0)
    used: dict[str, Any] = {
        "event": "authorization_summary",
        "method": "Produce",
        "count": 3,
        "client_id": "app",
    }
    for second, size in ((0, 120_000), (60, 180_000), (1_200, 60_000)):
        start_ms = NOON_MS + second * 1_000
        times: dict[str, Any] = {
            "interval_start_ms": start_ms,
            "interval_end_ms": start_ms + 1_000,
            "time_ms": start_ms + 1_000,
        }
        for user in ("alice", "bob"):
            trail.ask(f"User:{user} 10.0.0.1 WRITE TOPIC orders", request_bytes=size, **used, **times)
    records = aggregates.read(audit_frame(spark, trail.audit))

    (row,) = aggregates.quotas(records, log_frame(spark, trail.log)).collect()

    assert (row[S.QUOTA_ID], row["used"], row[S.QUOTA_LIMIT]) == ("alice:", 360_000, 1_000.0)
    assert row["part"] == pytest.approx(0.5)


def test_each_column_each_row_and_each_change_has_records_that_can_be_searched(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregates, "SAMPLED", 500)
    week, _ = busy_week(800)
    today = [record for record in week if record["boot_id"].endswith("-0")]
    records = aggregates.read(audit_frame(spark, today)).persist()
    bucket_ms = 6 * 3_600_000

    def columns(rows: DataFrame) -> set[Row]:
        return set(rows.select("kind", F.floor(F.col(S.TIME_MS) / bucket_ms)).distinct().collect())

    sampled = aggregates.sampled(records, bucket_ms, len(today)).persist()
    found = {tuple(row) for row in sampled.select(S.PRINCIPAL, S.RESOURCE_NAME, S.OPERATION).collect()}
    sequences = {row[S.SEQUENCE] for row in sampled.where("kind = 'change'").collect()}

    assert sampled.count() <= 500 < len(today)
    assert columns(sampled) >= columns(
        records.withColumn("kind", aggregates.kind()).where(~F.col(S.EVENT).isin("authorization_summary"))
    )
    assert {
        tuple(row[name] for name in (S.PRINCIPAL, S.RESOURCE_NAME, S.OPERATION))
        for row in aggregates.denials(records).collect()
    } <= found
    assert {row[S.SEQUENCE] for row in aggregates.changes(records).collect()} <= sequences
    assert aggregates.sampled(records, bucket_ms, 500).count() == len(today)


def test_a_principal_that_is_gone_stays_among_those_with_the_most_requests(spark: SparkSession) -> None:
    trail = Trail(Clock(NOON_MS - 86_400_000))
    for user, times in (("gone", 5), ("same", 2)):
        for _ in range(times):
            trail.ask(f"User:{user} 10.0.0.1 READ TOPIC orders", connection_id="c-1")
    trail.clock.now_ms = NOON_MS
    for _ in range(2):
        trail.ask("User:same 10.0.0.1 READ TOPIC orders", connection_id="c-2")
    today = date.fromisoformat(DAY)
    before = [today - timedelta(days=number) for number in (1, 7)]

    by_connection = aggregates.connections(aggregates.read(audit_frame(spark, trail.audit)))
    rows = aggregates.principals(by_connection, [today], before).collect()

    told = [
        (row[S.PRINCIPAL], row["denied"], row["before_0"], row["before_1"], row["connections"])
        for row in rows
    ]
    assert told == [("User:gone", 0, 5, 0, 0), ("User:same", 2, 2, 0, 1)]


@pytest.mark.long
@pytest.mark.parametrize("is_over", [False, True])
def test_a_day_that_may_not_be_over_is_compared_up_to_its_last_record(
    spark: SparkSession, is_over: bool
) -> None:
    trail, hour_ms, day_ms = Trail(), 3_600_000, 86_400_000
    for days_ago, hours in ((1, (-2, -1, 3)), (0, (-3, 0)), (-1, (0,) if is_over else ())):
        for hour in hours:
            time_ms = NOON_MS - days_ago * day_ms + hour * hour_ms
            trail.ask("User:alice 10.0.0.1 READ TOPIC orders", time_ms=time_ms)
    started, twice = trail.audit[:2], trail.audit[2]
    for record in started:
        record["time_ms"] = NOON_MS - 4 * hour_ms
    # A record that is in the topic twice counts once on the other day too.
    audit = audit_frame(spark, [*trail.audit, twice])

    found = page.collected(audit, empty_frame(spark, S.QUARANTINE), log_frame(spark, []), [DAY])

    (before,) = found["compared"]
    assert (found["totals"]["denied"], before["denied"], before["place"]) == (2, 3 if is_over else 2, 0)
    assert found["until_ms"] == (None if is_over else NOON_MS % day_ms)
    (alice,) = found["principals"]
    assert (alice["denied"], alice["before_0"], alice["before_1"]) == (2, 3 if is_over else 2, 0)
    assert {(row["kind"], row["name"]) for row in found["newcomers"]} == set()


@pytest.mark.long
@pytest.mark.spec("A11")
def test_grants_with_an_end_are_listed_with_what_became_of_them(spark: SparkSession) -> None:
    trail = Trail()
    clock = trail.clock
    day_before_ms = NOON_MS - 86_400_000

    def grant(number: int, name: str, until_ms: int | None) -> None:
        given: dict[str, Any] = an_acl(number, f"ALLOW User:{name} * READ TOPIC LITERAL orders")
        trail.forward("CreateAcls", [(18, "AccessControlEntryRecord", given | {"until_ms": until_ms})])
        trail.acls[given["id"]] = given

    clock.now_ms = day_before_ms
    grant(1, "long-gone", day_before_ms + 60_000)
    grant(2, "used", NOON_MS + 60_000)
    clock.now_ms = NOON_MS
    grant(3, "extended", NOON_MS + 60_000)
    grant(4, "removed", NOON_MS + 7_200_000)
    grant(5, "for-ever", None)
    trail.ask("User:used 10.0.0.1 READ TOPIC orders", method="Fetch")
    summary: dict[str, Any] = {"event": "authorization_summary", "count": 9, "method": "Fetch"}
    trail.ask("User:used 10.0.0.1 READ TOPIC orders", **summary)
    grant(3, "extended", NOON_MS + 7_200_000)
    extended = trail.controller.records[-1]
    trail.remove_acl(trail.acls[acl_id(4)])
    clock.now_ms = NOON_MS + 3_600_000
    trail.proxy.high_water()
    audit, log = audit_frame(spark, trail.audit), log_frame(spark, trail.log)

    content = page.collected(audit, empty_frame(spark, S.QUARANTINE), log, [DAY])

    seen = [(row["acl_principal"], row["state"], row["used"], row["before_ms"]) for row in content["grants"]]
    extension = content["grants"][1]
    assert (extension["by"], extension[S.SEQUENCE]) == ("User:admin", extended[S.SEQUENCE])
    assert seen == [
        ("User:used", "ended", 10, None),
        ("User:extended", "in effect", 0, NOON_MS + 60_000),
        ("User:removed", "removed", 0, None),
    ]
    by_acl = [row for row in content["records"] if acl_id(2) in row[-2]]
    assert [row[-2] for row in by_acl] == [
        f"9 times, allowed by acl {acl_id(2)}",
        f"allowed by acl {acl_id(2)}",
    ]
