"""What a proposal would have done to recorded traffic: who is newly denied, allowed or throttled."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_audit import __main__ as command_line
from spark_audit.proposal import parse_proposal
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from spark_audit.what_if.answers import read_regions
from spark_audit.what_if.result import WhatIfDocument, document, lines
from tests.spark.audit_trail import Trail
from tests.spark.frames import audit_frame, log_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D10")]

SECOND_MS = 1_000
PRODUCED = {"event": "authorization_summary", "method": "Produce", "connection_id": "c", "client_id": "app"}


def a_trail() -> Trail:
    """Alice reads by a wide ACL and writes by her own; bob is denied; a super user does as he likes."""
    trail = Trail()
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL *")
    trail.add_acl(2, "ALLOW User:alice * WRITE TOPIC LITERAL orders")
    trail.add_acl(3, "ALLOW User:carol * READ TOPIC PREFIXED o")
    for topic in ("orders", "payments"):
        trail.ask(f"User:alice 10.0.0.1 READ TOPIC {topic}", client_id="app", method="Fetch")
    trail.ask("User:bob 10.0.0.2 READ TOPIC orders", client_id="bobs", method="Fetch")
    trail.ask("User:carol 10.0.0.3 READ TOPIC orders", client_id="app", method="Fetch")
    trail.ask("User:admin 10.0.0.9 READ TOPIC payments", client_id="shell", method="Fetch")
    trail.proxy.write("authorization_collapsed", principal="User:bob", granted=False, count=7)
    return trail


@pytest.mark.long
def test_what_counts_many_resources_cannot_be_said(spark: SparkSession) -> None:
    trail = Trail()
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL *")
    trail.proxy.write(
        "authorization_summary",
        principal="User:alice",
        host="10.0.0.1",
        method="Metadata",
        operation="DESCRIBE",
        resource_type="TOPIC",
        granted=True,
        rule="acl",
        count=500,
        resource_count=400,
        metadata_offset=trail.offset,
    )

    found = tried(
        spark, trail, "kafka-acls --remove --allow-principal User:alice --operation Read --topic '*'"
    )

    [row] = found["access"]
    assert (row["outcome"], row["requests"], row["resource_name"]) == ("cannot_be_said", 500, None)


def tried(spark: SparkSession, trail: Trail, proposal: str, **days: date) -> WhatIfDocument:
    frames = audit_frame(spark, trail.audit), log_frame(spark, trail.log)
    return document(*frames, parse_proposal(proposal, "p"), days.get("first"), days.get("last"))


def changed(found: WhatIfDocument) -> set[tuple[object, ...]]:
    names = "outcome", "principal", "operation", "resource_name"
    return {
        tuple(row[name] for name in names) for row in found["access"] if row["outcome"] != "cannot_be_said"
    }


@pytest.mark.parametrize(
    ("proposal", "expected"),
    [
        (
            "kafka-acls --remove --allow-principal User:alice --operation Read --topic '*'\n"
            "kafka-acls --add --allow-principal User:alice --operation Read --topic pay"
            " --resource-pattern-type prefixed",
            {("newly_denied", "User:alice", "READ", "orders")},
        ),
        pytest.param(
            "kafka-acls --add --allow-principal User:bob --operation Read --topic orders",
            {("newly_allowed", "User:bob", "READ", "orders")},
            marks=pytest.mark.long,
        ),
        pytest.param(
            "kafka-acls --add --deny-principal User:* --operation Read --topic orders",
            {("newly_denied", f"User:{name}", "READ", "orders") for name in ("alice", "carol")},
            marks=pytest.mark.long,
        ),
        (
            "super.users=User:bob",
            {
                ("newly_allowed", "User:bob", "READ", "orders"),
                ("newly_denied", "User:admin", "READ", "payments"),
            },
        ),
        pytest.param(
            "kafka-acls --remove --allow-principal User:alice --operation Read --topic '*'\n"
            "allow.everyone.if.no.acl.found=true",
            {("newly_denied", "User:alice", "READ", "orders")},
            marks=pytest.mark.long,
        ),
        pytest.param(
            "kafka-acls --remove --allow-principal User:alice --operation Write --topic orders",
            set(),
            marks=pytest.mark.long,
        ),
    ],
)
def test_exactly_the_decisions_that_change_are_named(
    spark: SparkSession, proposal: str, expected: set[tuple[object, ...]]
) -> None:
    found = tried(spark, a_trail(), proposal)

    assert changed(found) == expected
    assert found["requests"]["cannot_be_said"] == 7
    newly = sum(found["requests"][name] for name in ("newly_denied", "newly_allowed"))
    assert (newly, found["requests"]["unchanged"]) == (len(expected), 5 - len(expected))


@pytest.mark.long
def test_a_denial_that_names_no_resource_cannot_be_said(spark: SparkSession) -> None:
    found = tried(spark, a_trail(), "kafka-acls --add --allow-principal User:bob --operation Read --topic x")

    [row] = found["access"]
    assert (row["outcome"], row["principal"], row["requests"]) == ("cannot_be_said", "User:bob", 7)
    assert row["reason"] == "one record stands for several decisions and names no resource"
    assert found["effects"] == {
        "newly-denied": 0,
        "newly-allowed": 0,
        "newly-throttled": 0,
        "cannot-be-said": 1,
    }


@pytest.mark.long
def test_a_collapsed_record_that_names_what_it_counts_is_decided(spark: SparkSession) -> None:
    trail = a_trail()
    asked = {"host": "10.0.0.2", "resource_type": "TOPIC", "operation": "READ", "method": "Fetch"}
    for name in ("x", None):
        fields = {**asked, "resource_name": name, "granted": False, "count": 5}
        trail.proxy.write("authorization_collapsed", principal="User:bob", **fields)

    found = tried(spark, trail, "kafka-acls --add --allow-principal User:bob --operation Read --topic x")

    assert changed(found) == {("newly_allowed", "User:bob", "READ", "x")}
    assert (found["requests"]["newly_allowed"], found["requests"]["cannot_be_said"]) == (5, 7 + 5)


@pytest.mark.long
def test_when_requests_would_have_been_denied_is_said(spark: SparkSession) -> None:
    trail = a_trail()
    trail.clock.now_ms += 3 * 3_600 * SECOND_MS
    trail.ask("User:admin 10.0.0.9 READ TOPIC orders", client_id="shell", method="Fetch")

    found = tried(spark, trail, "super.users=User:bob")

    denied = [row for row in found["over_time"] if row["plot"] == "newly_denied"]
    times = [row["bucket_ms"] for row in denied]
    assert [(row["series"], row["amount"]) for row in denied] == [("User:admin", 1)] * 2
    assert found["bucket_ms"] <= 3_600 * SECOND_MS <= int(str(times[1])) - int(str(times[0]))


@pytest.mark.long
def test_only_traffic_of_the_period_counts(spark: SparkSession) -> None:
    later = date(2026, 11, 24)

    found = tried(spark, a_trail(), "super.users=User:bob", first=later)

    assert (found["access"], set(found["requests"].values())) == ([], {0})


def test_a_proposal_that_does_not_fit_the_log_is_an_error(spark: SparkSession) -> None:
    with pytest.raises(AuditError, match="p:1: there is no such ACL: ALLOW User:dave"):
        tried(spark, a_trail(), "kafka-acls --remove --allow-principal User:dave --operation Read --topic x")


def produced(
    trail: Trail, principal: str, seconds: int, byte_rate: int, groups: Sequence[str] | None = None
) -> None:
    for _ in range(seconds // 10):
        start_ms = trail.clock.now_ms
        trail.clock.now_ms += 10 * SECOND_MS
        trail.proxy.write(
            **PRODUCED | {"connection_id": principal},
            principal=principal,
            groups=groups,
            host="10.0.0.1",
            resource_type="TOPIC",
            resource_name="orders",
            operation="WRITE",
            granted=True,
            rule="acl",
            count=10,
            request_bytes=10 * byte_rate,
            interval_start_ms=start_ms,
            interval_end_ms=trail.clock.now_ms,
            metadata_offset=trail.offset,
        )


def by_quota_id(found: WhatIfDocument) -> Mapping[object, dict[str, object]]:
    return {row["quota_id"]: row for row in found["throttling"]}


@pytest.mark.long
def test_who_would_be_throttled_is_said_with_the_time(spark: SparkSession) -> None:
    trail = a_trail()
    produced(trail, "User:alice", 600, 2_000)
    produced(trail, "User:carol", 600, 500)
    limit = "kafka-configs --alter --add-config producer_byte_rate=1000 --entity-type users --entity-name"

    found = tried(spark, trail, f"{limit} alice\n{limit} carol")

    rows = by_quota_id(found)
    alice, carol = (next(rows[key] for key in rows if name in str(key)) for name in ("alice", "carol"))
    assert (alice["outcome"], carol["outcome"]) == ("newly_throttled", "not_throttled")
    # 1.2 MB at 1 kB/s take 1,200 s. A window of 11 s is full after 5.5 s.
    assert alice["throttled_ms"] == pytest.approx(1_194_500, rel=0.005)
    assert found["effects"]["newly-throttled"] == 1


@pytest.mark.long
def test_what_a_window_allows_at_once_does_not_shorten_the_time_of_throttling(spark: SparkSession) -> None:
    trail = a_trail()
    produced(trail, "User:alice", 30, 2_000)
    limit = "kafka-configs --alter --add-config producer_byte_rate=1000 --entity-type users --entity-name"

    [alice] = tried(spark, trail, f"{limit} alice")["throttling"]

    # 60 kB at 1 kB/s take 60 s, of which the first 5.5 s fill the window.
    assert alice["throttled_ms"] == pytest.approx(54_500, rel=0.1)


@pytest.mark.long
def test_the_command_writes_the_document_and_fails_on_what_it_is_told(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trail, tables = a_trail().stop(), Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, tables)
    delta.append_once(audit_frame(spark, trail.audit), tables.audit, "test", 0)
    delta.append_once(log_frame(spark, trail.log), tables.metadata_log, "test", 0)
    proposal = tmp_path / "p.txt"
    proposal.write_text("super.users=User:bob\n", encoding="utf-8")
    common = ["what-if", "--tables", tables.root, "--proposal", str(proposal), "--out", str(tmp_path)]

    kept = ["--summaries", str(tmp_path / "summaries")]
    assert command_line.main([*common, *kept, "--fail-on", "newly-throttled"]) == 0
    assert command_line.main([*common, "--fail-on", "newly-throttled", "--fail-on", "newly-denied"]) == 1
    said = capsys.readouterr().out
    assert "newly denied: User:admin from 10.0.0.9, client id shell, Fetch: READ TOPIC payments" in said
    page = (tmp_path / "what-if.html").read_text(encoding="utf-8")
    assert "1 request newly denied" in page
    assert "super.users=User:bob" in page
    written: WhatIfDocument = json.loads((tmp_path / "what-if.json").read_text(encoding="utf-8"))
    assert written["effects"]["newly-denied"] == 1
    proposal.write_text("kafka-acl --add\n", encoding="utf-8")
    assert command_line.main(common) == 2
    assert f"{proposal}:1: 'kafka-acl' is no change" in capsys.readouterr().err


def members() -> Trail:
    """Alice is in payments, which may read orders, and in staff, which no ACL names; bob is in no group."""
    trail = Trail()
    trail.add_acl(1, "ALLOW Group:payments * READ TOPIC LITERAL orders")
    alice = {"connection_id": "a", "principal": "User:alice"}
    trail.proxy.write("authentication", groups=["payments", "staff"], **alice)
    for topic in ("orders", "secrets"):
        ask = f"User:alice 10.0.0.1 READ TOPIC {topic}"
        trail.ask(ask, groups=["payments"], method="Fetch", client_id="app", connection_id="a")
    trail.proxy.write("reauthentication", groups=None, **alice)
    trail.ask("User:alice 10.0.0.1 READ TOPIC orders", method="Fetch", client_id="app", connection_id="a")
    trail.ask("User:bob 10.0.0.2 READ TOPIC orders", method="Fetch", client_id="bobs", connection_id="b")
    return trail


READ_ORDERS = "READ", "orders"


@pytest.mark.long
@pytest.mark.spec("A8")
@pytest.mark.parametrize(
    ("proposal", "expected"),
    [
        (
            "member User:alice leaves Group:payments",
            {("newly_denied", "User:alice", *READ_ORDERS)},
        ),
        (
            "member User:bob joins Group:payments",
            {("newly_allowed", "User:bob", *READ_ORDERS)},
        ),
        (
            "kafka-acls --add --deny-principal Group:staff --operation Read --topic orders",
            {("newly_denied", "User:alice", *READ_ORDERS)},
        ),
        (
            "super.users=User:admin;Group:staff",
            {("newly_allowed", "User:alice", "READ", "secrets")},
        ),
        (
            "kafka-acls --remove --allow-principal Group:payments --operation Read --topic orders\n"
            "kafka-acls --add --allow-principal User:alice --operation Read --topic orders",
            # Also what she asked for when she had left.
            {("newly_allowed", "User:alice", *READ_ORDERS)},
        ),
    ],
)
def test_groups_are_those_of_the_login_before(
    spark: SparkSession, proposal: str, expected: set[tuple[object, ...]]
) -> None:
    found = tried(spark, members(), proposal)

    assert changed(found) == expected
    assert found["warnings"] == []
    assert sum(found["requests"].values()) == 4


@pytest.mark.long
@pytest.mark.spec("A8")
def test_what_if_a_member_leaves_is_what_happens_when_the_member_has_left(spark: SparkSession) -> None:
    before, after = Trail(), Trail()
    for trail, groups in ((before, ["payments"]), (after, [])):
        trail.add_acl(1, "ALLOW Group:payments * READ TOPIC LITERAL orders")
        trail.add_acl(2, "ALLOW User:alice * READ TOPIC LITERAL own")
        trail.add_acl(3, "DENY Group:payments * READ TOPIC LITERAL secrets")
        trail.add_acl(4, "ALLOW User:alice * READ TOPIC LITERAL secrets")
        trail.proxy.write("authentication", groups=groups, connection_id="a", principal="User:alice")
        for topic in ("orders", "own", "secrets", "others"):
            ask = f"User:alice 10.0.0.1 READ TOPIC {topic}"
            trail.ask(ask, groups=groups, method="Fetch", client_id="app", connection_id="a")

    found = tried(spark, before, "member User:alice leaves Group:payments")

    outcomes = [
        {r["resource_name"]: r["granted"] for r in t.audit if r["method"] == "Fetch"} for t in (before, after)
    ]
    happened = {
        ("newly_allowed" if outcomes[1][name] else "newly_denied", "User:alice", "READ", name)
        for name in outcomes[0]
        if outcomes[0][name] != outcomes[1][name]
    }
    assert (
        changed(found)
        == happened
        == {
            ("newly_denied", "User:alice", "READ", "orders"),
            ("newly_allowed", "User:alice", "READ", "secrets"),
        }
    )


LIMIT = "kafka-configs --alter --entity-type users --add-config producer_byte_rate={}"


def busy_members() -> Trail:
    """Alice and bob write 2 kB/s. She is in payments, which has a quota, and staff, which nothing names."""
    trail = Trail()
    trail.set_quota({"user": None}, "producer_byte_rate", 1_000.0)
    trail.set_quota({"user": "Group:payments"}, "producer_byte_rate", 9_000.0)
    trail.set_quota({"user": "bob"}, "producer_byte_rate", 9_000.0)
    for name, groups in (("alice", ["payments", "staff"]), ("bob", None)):
        trail.proxy.write(
            "authentication", groups=groups, connection_id=f"User:{name}", principal=f"User:{name}"
        )
    produced(trail, "User:alice", 60, 2_000, ["payments"])
    produced(trail, "User:bob", 60, 2_000)
    return trail


@pytest.mark.long
@pytest.mark.spec("A8", "D10")
@pytest.mark.parametrize(
    ("proposal", "expected"),
    [
        # What the quota of a group allowed, that of the default user does not.
        ("member User:alice leaves Group:payments", {"alice:": ("newly_throttled", 9_000.0, 1_000.0)}),
        ("member User:alice leaves Group:staff", {}),
        ("member User:bob joins Group:payments", {}),
        # The highest limit governs, also that of a group that no record of her requests names.
        (f"{LIMIT.format(500)} --entity-name Group:staff", {}),
        (
            f"{LIMIT.format(1_500)} --entity-name Group:staff\nmember User:alice leaves Group:payments",
            {"alice@staff:": ("newly_throttled", 9_000.0, 1_500.0)},
        ),
        (
            f"{LIMIT.format(99_000)} --entity-name Group:staff",
            {"alice@staff:": ("not_throttled", 9_000.0, 99_000.0)},
        ),
        (
            f"{LIMIT.format(1_000)} --entity-name Group:payments",
            {"alice@payments:": ("newly_throttled", 9_000.0, 1_000.0)},
        ),
        (
            "kafka-configs --alter --entity-type users --entity-name bob --delete-config producer_byte_rate\n"
            "member User:bob joins Group:payments",
            {"bob@payments:": ("not_throttled", 9_000.0, 9_000.0)},
        ),
    ],
)
def test_who_would_be_throttled_is_said_by_the_groups_of_the_login(
    spark: SparkSession, proposal: str, expected: dict[str, tuple[str, float, float]]
) -> None:
    found = tried(spark, busy_members(), proposal)

    told = {
        row["quota_id"]: (row["outcome"], row["limit_now"], row["quota_limit"]) for row in found["throttling"]
    }
    assert told == expected
    assert found["warnings"] == []


@pytest.mark.long
@pytest.mark.spec("D18", "D19")
def test_three_answers_are_about_one_change(spark: SparkSession, tmp_path: Path) -> None:
    trail = a_trail()
    interval = {"interval_start_ms": 1_000, "interval_end_ms": 11_000}
    differs = {
        **interval,
        **{"principal": "User:alice", "host": "10.0.0.1", "operation": "READ", "resource_type": "TOPIC"},
        **{"resource_name": "orders", "pattern_type": "LITERAL", "granted": True, "rule": "acl"},
    }
    name = "candidate 0123456789abcdef"
    trail.proxy.write("candidate_compared", count=7, message=name, **interval)
    trail.proxy.write("candidate_compared", count=3, message=f"{name}: errors: 1", **interval)
    for count in (2, 1):
        trail.proxy.write(
            "candidate_differs", count=count, message=f"{name}: denied (default.deny)", **differs
        )
    more = trail.proxy.write("candidate_differs", count=4, message=f"{name}: differences beyond", **interval)
    records = [*trail.audit, more]  # Kafka may hold a record twice.
    difference = tmp_path / "difference.json"
    region = {"effect": "newly_denied", "text": "NEWLY DENIED: x", "witness": {"text": "y"}}
    difference.write_text(json.dumps({"regions": [region]}), encoding="utf-8")

    logic = read_regions(str(difference))
    frames = audit_frame(spark, records), log_frame(spark, trail.log)
    proposal = "kafka-acls --remove --allow-principal User:alice --operation Read --topic '*'"
    found = document(*frames, parse_proposal(proposal, "p"), None, None, logic=logic)

    assert found["logic"] == {
        "newly_denied": 1,
        "newly_allowed": 0,
        "regions": [{"effect": "newly_denied", "text": "NEWLY DENIED: x", "witness": "y"}],
    }
    shadow = found["shadow"]
    counted = shadow["compared"], shadow["newly_denied"], shadow["newly_allowed"]
    assert counted == ({"0123456789abcdef": 10}, 3, 0)
    names = "outcome", "principal", "resource_name", "decisions", "candidates"
    assert [tuple(row[name] for name in names) for row in shadow["rows"]] == [
        (None, None, None, 4, "differences beyond"),
        ("newly_denied", "User:alice", "orders", 3, "denied (default.deny)"),
    ]
    told = list(lines(found))
    assert "by the logic: 1 regions newly denied, 0 newly allowed" in told
    compared = "candidate 0123456789abcdef: 10 decisions compared: 3 decisions newly denied, 0 newly allowed"
    assert compared in told

    difference.write_text("NEWLY DENIED: x", encoding="utf-8")
    with pytest.raises(AuditError, match="this is no output of penstock policy diff --json"):
        read_regions(str(difference))
