"""The questions of docs/sql.md in the views of `penstock audit sql`, on a trail with known answers."""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit import views
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from tests.spark.audit_trail import NOON_MS, Clock, Process, Record, Trail
from tests.spark.audit_trail import an_acl as an_acl_record
from tests.spark.frames import audit_frame, frame, log_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("D11", "D16")]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sql.md").read_text("utf-8")
QUESTIONS = {
    question: text.partition("```sql\n")[2].partition("```")[0]
    for question, _, text in (part.partition("\n") for part in PAGE.split("\n### ")[1:])
}
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "audit-sql.json").read_text("utf-8"))
DAY, DAY_MS = date(2026, 11, 23), 86_400_000
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
ALICE, BOB, MALLORY = (
    {"principal": f"User:{name}", "host": host, "connection_id": f"{name}-1", "listener": "EXTERNAL"}
    for name, host in (("alice", "10.0.0.1"), ("bob", "10.0.0.2"), ("mallory", "10.0.66.1"))
)


def an_object(
    kind: str, name: str, operation: str, error: str | None = "NONE", **fields: Any
) -> dict[str, Any]:
    known = {"type": kind, "name": name, "operation": operation, "error": error}
    return dict.fromkeys(S.OBJECT.names) | known | fields


def changed(trail: Trail, *objects: dict[str, Any]) -> None:
    """The last forward was about these, at the proxy and at the controller."""
    for process in (trail.proxy, trail.controller):
        process.records[-1]["objects"] = list(objects)


def an_acl(operation: str, principal: str, right: str) -> dict[str, Any]:
    return an_object(
        "ACL", "payments", operation, details={"principal": principal, "operation_of_acl": right}
    )


def the_day_before(proxy: Process) -> None:
    proxy.write("authentication", mechanism="PLAIN", error_code=0, **BOB)


def at_noon(trail: Trail) -> None:
    """Offsets of the log: 0 and 2 the ACLs of alice and bob, 4 and 6 a quota, 8 bob's removal."""
    trail.add_acl(1, "ALLOW User:alice * WRITE TOPIC LITERAL payments")
    changed(trail, an_acl("CREATE", "User:alice", "WRITE"))
    reads = trail.add_acl(2, "ALLOW User:bob * READ TOPIC LITERAL payments")
    changed(trail, an_acl("CREATE", "User:bob", "READ"))
    trail.add_acl(3, "ALLOW User:alice * READ TOPIC PREFIXED pay")
    for value in (500.0, 1000.0):
        trail.set_quota({"user": "alice"}, "producer_byte_rate", value)
    trail.ask("User:bob 10.0.0.2 READ TOPIC payments", **summary("Fetch", 50, 60, 9_000), **session(BOB))
    trail.remove_acl(reads)
    changed(trail, an_acl("DELETE", "User:bob", "READ"))


def summary(method: str, count: int, request_bytes: int, response_bytes: int) -> dict[str, Any]:
    return {
        **{"event": "authorization_summary", "method": method, "count": count},
        **{"request_bytes": request_bytes, "response_bytes": response_bytes},
        **{"interval_start_ms": NOON_MS, "interval_end_ms": NOON_MS + 10_000},
    }


def session(whose: dict[str, Any]) -> dict[str, Any]:
    return {name: whose[name] for name in ("connection_id", "listener")}


def traffic(trail: Trail) -> None:
    proxy = trail.proxy
    login = {"mechanism": "SCRAM-SHA-512", "error_code": 0}
    proxy.write("authentication", **login, client_software="apache-kafka-java 4.2.0", **ALICE)
    trail.ask(
        "User:alice 10.0.0.1 WRITE TOPIC payments", **summary("Produce", 100, 5_000, 0), **session(ALICE)
    )
    limit = {"quota_key": "producer_byte_rate", "quota_id": "alice:", "quota_limit": 1000.0}
    proxy.write("throttled", method="Produce", count=3, throttle_time_ms=1_500, **limit, **ALICE)
    # In doubt, and then carried out: one change. The other one, with the same correlation id, has no outcome.
    asked = {"method": "DeleteGroups", "correlation_id": 7, **BOB}
    proxy.write("admin_request", objects=[an_object("GROUP", "old", "DELETE", None)], **asked)
    proxy.write("broker_responded", error_code=0, objects=[an_object("GROUP", "old", "DELETE")], **asked)
    proxy.write("admin_request", objects=[an_object("GROUP", "lost", "DELETE", None)], **asked)
    trail.ask("User:admin 10.0.0.5 ALTER CLUSTER kafka-cluster", method="AlterPartitionReassignments")
    proxy.write("authentication", mechanism="PLAIN", error_code=0, client_software="sarama 1.0", **BOB)
    trail.ask("User:bob 10.0.0.2 READ TOPIC payments", method="Fetch", error_code=29, **session(BOB))
    proxy.write("session_expired", **BOB)


def attacks(trail: Trail) -> None:
    proxy = trail.proxy
    nobody = {"principal": None, "mechanism": "PLAIN", "error_code": 58}
    for _ in range(3):
        proxy.write("authentication_failed", **MALLORY | nobody)
    proxy.write("authentication_collapsed", count=17, **MALLORY | nobody)
    proxy.write("authentication", mechanism="SCRAM-SHA-512", error_code=0, **MALLORY)
    for _ in range(2):
        trail.ask("User:mallory 10.0.66.1 WRITE TOPIC payments", method="Produce", **session(MALLORY))
    denied = {"resource_type": "TOPIC", "operation": "DESCRIBE", "granted": False, "rule": "default.deny"}
    proxy.write("authorization_collapsed", method="Metadata", count=40, **denied, **MALLORY)
    deletes = an_object("TOPIC", "payments", "DELETE", "TOPIC_AUTHORIZATION_FAILED")
    trail.ask("User:mallory 10.0.66.1 DELETE TOPIC payments", objects=[deletes], **session(MALLORY))


def not_in_effect(trail: Trail) -> list[Record]:
    """Of Kafka's own log: an ACL in a transaction that was aborted, and one in a transaction without an end.

    And a mark that somebody has added to the topic of the controllers, where it hides nothing.
    """
    eve = {"record": "AccessControlEntryRecord", "version": 0, "time_ms": trail.clock(), "entity": ""}
    acls = [json.dumps(an_acl_record(number, "ALLOW User:eve * READ TOPIC LITERAL pay")) for number in (8, 9)]
    kinds = ((23, "{}"), (18, acls[0]), (25, "{}"), (23, "{}"), (18, acls[1]))
    numbered = enumerate(kinds, trail.offset + 1)
    of_kafka = [
        eve | {"offset": offset, "api_key": key, "body": body, "from_snapshot": False}
        for offset, (key, body) in numbered
    ]
    return [eve | {"offset": 1, "api_key": 23, "body": "{}"}, *of_kafka]


@pytest.fixture(scope="module")
def sql(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session with the views over such a trail. One of its records is in the topic twice."""
    root = tmp_path_factory.mktemp("sql")
    trail = Trail(Clock(NOON_MS - DAY_MS))
    the_day_before(trail.proxy)
    trail.clock.now_ms = NOON_MS
    for part in (at_noon, traffic, attacks):
        part(trail)
    tables = Tables(str(root / "tables"))
    delta.create_tables(spark, tables)
    twice = [*trail.audit, next(each for each in trail.audit if each["event"] == "authorization_summary")]
    audit_frame(spark, twice).write.format("delta").mode("append").save(tables.audit)
    log = [*trail.log, *not_in_effect(trail)]
    log_frame(spark, log).write.format("delta").mode("append").save(tables.metadata_log)
    found = [
        ("a", "gaps.dropped", "medium", DAY, "dropped", "{}", NOON, NOON, None, None),
        ("b", "gaps.hole", "critical", DAY, "a hole", "{}", NOON, NOON, None, None),
        ("c", "gaps.hole", "critical", DAY, "explained", "{}", NOON, NOON, "moved", "eve"),
    ]
    frame(spark, found, S.FOUND).write.format("delta").save(str(root / "out" / "findings"))
    for statement in views.statements(tables.root, str(root / "out"), None):
        spark.sql(statement.removesuffix(";"))
    return spark


ANSWERS: dict[str, list[tuple[object, ...]]] = {
    "Who changed what on a day?": [
        ("12:00", "User:admin", "10.0.0.5", "CREATE", "ACL", "payments", None, None, None),
        ("12:00", "User:admin", "10.0.0.5", "CREATE", "ACL", "payments", None, None, None),
        ("12:00", "User:admin", "10.0.0.5", "DELETE", "ACL", "payments", None, None, None),
        ("12:00", "User:bob", "10.0.0.2", "DELETE", "GROUP", "old", None, None, None),
    ],
    "Which changes were rejected?": [
        ("User:mallory", "10.0.66.1", "DELETE", "TOPIC", "payments", "TOPIC_AUTHORIZATION_FAILED")
    ],
    "Which changes have no recorded outcome?": [("12:00", "User:bob", "DeleteGroups", "GROUP", "lost")],
    "Who gave or took rights for a topic?": [
        ("User:admin", "CREATE", "User:alice", "WRITE"),
        ("User:admin", "CREATE", "User:bob", "READ"),
        ("User:admin", "DELETE", "User:bob", "READ"),
    ],
    "Who was denied most?": [
        ("User:mallory", "10.0.66.1", "DESCRIBE", "TOPIC", None, 40),
        ("User:mallory", "10.0.66.1", "WRITE", "TOPIC", "payments", 2),
        ("User:bob", "10.0.0.2", "READ", "TOPIC", "payments", 1),
    ],
    "From which addresses were passwords guessed, and did one succeed?": [
        ("10.0.66.1", 20, ["User:mallory"])
    ],
    "Who logged in from an address for the first time in two weeks?": [
        ("User:alice", "10.0.0.1"),
        ("User:mallory", "10.0.66.1"),
    ],
    "Who still logs in with a password in plain text?": [("User:bob", "EXTERNAL", 1)],
    "Who has used the rights of a super user?": [
        ("User:admin", "10.0.0.5", "ALTER", "CLUSTER", "kafka-cluster", 1)
    ],
    "Which ACLs were there for a topic at an offset?": [
        ("ALLOW", "User:alice", "*", "READ"),
        ("ALLOW", "User:alice", "*", "WRITE"),
        ("ALLOW", "User:bob", "*", "READ"),
    ],
    "Which rights were added or removed between two offsets?": [
        ("added", "User:alice", "READ", "pay"),
        ("removed", "User:bob", "READ", "payments"),
    ],
    "Who was denied what they had been allowed before?": [("User:bob", "READ", "payments", "12:00")],
    "Which ACLs has nothing used?": [("User:alice", "READ", "TOPIC", "pay")],
    "Which findings are open?": [
        ("critical", "gaps.hole", DAY, "a hole"),
        ("medium", "gaps.dropped", DAY, "dropped"),
    ],
    "Who sends and receives most?": [("User:bob", 60, 9_000), ("User:alice", 5_000, 0)],
    "Who uses a topic?": [("User:alice", "WRITE", 100, "12:00"), ("User:bob", "READ", 50, "12:00")],
    "Who was throttled, by which quota?": [("producer_byte_rate", "alice:", "User:alice", 1000.0, 3, 1_500)],
    "When was a quota changed, and to what?": [
        ("12:00", "user=alice", "producer_byte_rate", 500.0, "12:00"),
        ("12:00", "user=alice", "producer_byte_rate", 1000.0, None),
    ],
    "Which client software connects, and who uses an old version?": [
        ("apache-kafka-java 4.2.0", 1, ["User:alice"]),
        ("sarama 1.0", 1, ["User:bob"]),
    ],
    "Which connections did the proxies end?": [("User:bob", "10.0.0.2", "session_expired", 1)],
    "How many requests are there per hour?": [("12:00", "Fetch", 50), ("12:00", "Produce", 100)],
}


def plain(value: object) -> object:
    return value.strftime("%H:%M") if isinstance(value, datetime) else value


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_of_the_page_has_its_answer(sql: SparkSession, question: str) -> None:
    rows = [tuple(plain(value) for value in row) for row in sql.sql(QUESTIONS[question]).collect()]

    assert rows == ANSWERS[question]


@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: panel["title"])
def test_each_panel_of_the_dashboard_has_rows(sql: SparkSession, panel: dict[str, Any]) -> None:
    (target,) = panel["targets"]
    text = target["rawSql"].replace("${__from}", str(NOON_MS)).replace("${__to}", str(NOON_MS + DAY_MS // 2))

    rows = sql.sql(text).collect()

    assert rows
    assert panel["type"] != "timeseries" or set(rows[0].asDict()) == {"time", "metric", "value"}
