"""What a period did not need: grants, users and quotas, each with its commands and what these would do."""

import json
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_audit import __main__ as command_line
from spark_audit import schema as S
from spark_audit.least_privilege.result import LeastPrivilegeDocument, document, holds, proposal_text
from spark_audit.least_privilege.unseen import unseen
from spark_audit.proposal import parse_proposal
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from spark_audit.what_if import result as what_if
from tests.spark.audit_trail import Record, Trail
from tests.spark.frames import audit_frame, log_frame
from tests.spark.test_what_if import produced

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D11")]

YEAR = 400


def a_trail() -> Trail:
    """Alice's wide grant reads two topics, carol's is not used, dave has none, erin never logs in."""
    trail = Trail()
    trail.add_acl(1, "ALLOW User:alice * ALL TOPIC LITERAL *")
    trail.add_acl(2, "ALLOW User:alice 10.0.0.1 WRITE TOPIC LITERAL orders")
    trail.add_acl(3, "ALLOW User:carol * READ TOPIC PREFIXED o")
    trail.add_acl(4, "DENY User:carol * WRITE TOPIC LITERAL *")
    trail.add_acl(5, "ALLOW User:* 10.0.0.7 READ GROUP LITERAL g")
    for name in ("alice", "erin"):
        credential = {"name": name, "mechanism": "SCRAM-SHA-256", "iterations": 4096}
        trail.forward("AlterUserScramCredentials", [(11, "UserScramCredentialRecord", credential)])
    gone = {"name": "gone", "mechanism": "SCRAM-SHA-256"}
    trail.forward(
        "AlterUserScramCredentials",
        [(11, "UserScramCredentialRecord", gone), (22, "RemoveUserScramCredentialRecord", gone)],
    )
    for question in ("READ TOPIC orders", "DESCRIBE TOPIC payments", "WRITE TOPIC orders"):
        trail.ask(f"User:alice 10.0.0.1 {question}", client_id="app", method="Fetch")
    trail.ask("User:dave 10.0.0.2 READ TOPIC orders", client_id="daves", method="Fetch")
    trail.ask("User:bob 10.0.0.7 READ GROUP g", client_id="bobs", method="JoinGroup")
    trail.ask("User:admin 10.0.0.9 READ TOPIC payments", client_id="shell", method="Fetch")
    return trail


def found_in(spark: SparkSession, trail: Trail, days: int = YEAR) -> LeastPrivilegeDocument:
    return document(audit_frame(spark, trail.audit), log_frame(spark, trail.log), days)


def rows(found: LeastPrivilegeDocument, kind: str) -> dict[object, dict[str, object]]:
    return {row["subject"]: row for row in found["rows"] if row["kind"] == kind}


@pytest.mark.long
def test_what_is_not_needed_is_listed_with_commands_that_deny_nothing(spark: SparkSession) -> None:
    trail = a_trail()
    found = found_in(spark, trail)

    assert found["counts"] == {
        "unused-grant": 1,
        "covered-grant": 0,
        "wide-grant": 2,
        "no-grant": 1,
        "no-login": 1,
        "unreached-quota": 0,
    }
    [unused] = rows(found, "unused-grant").values()
    assert unused["commands"] == [
        "kafka-acls --remove --allow-principal User:carol --operation Read --topic o"
        " --resource-pattern-type prefixed"
    ]
    wide = rows(found, "wide-grant")
    alice = wide["ALLOW User:alice from * ALL TOPIC LITERAL *"]
    # WRITE orders is no use of it: there is a grant for just that.
    assert alice["narrower"] == [
        "ALLOW User:alice from * DESCRIBE TOPIC LITERAL payments",
        "ALLOW User:alice from * READ TOPIC LITERAL orders",
    ]
    assert (alice["wider_by"], alice["requests"]) == (["name", "operation"], 3)
    assert wide["ALLOW User:* from 10.0.0.7 READ GROUP LITERAL g"]["narrower"] == [
        "ALLOW User:bob from 10.0.0.7 READ GROUP LITERAL g"
    ]
    [dave] = rows(found, "no-grant").values()
    assert (dave["subject"], dave["used_for"]) == ("User:dave", ["READ TOPIC orders"])
    [erin] = rows(found, "no-login").values()
    assert erin["commands"] == [
        "kafka-configs --alter --delete-config SCRAM-SHA-256 --entity-type users --entity-name erin"
    ]
    changing = [row for row in found["rows"] if "what_if" in row]
    assert len(changing) == 3
    for row in changing:
        assert row["what_if"] == {
            **{"newly_denied": 0, "newly_throttled": 0, "cannot_be_said": 0, "reasons": []}
        }
    tried = parse_proposal(proposal_text(found), "p")
    frames = audit_frame(spark, trail.audit), log_frame(spark, trail.log)
    effect = what_if.document(*frames, tried, None, None)
    assert (effect["requests"]["newly_denied"], effect["requests"]["unchanged"]) == (0, 6)
    assert len(tried.removed) == 3


@pytest.mark.long
@pytest.mark.spec("S12")
def test_networks_are_proposed_on_request_where_acls_may_have_them(spark: SparkSession) -> None:
    trail = Trail()
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL orders")
    for number in (1, 2, 77, 200):
        trail.ask(f"User:alice 10.0.0.{number} READ TOPIC orders", client_id="app", method="Fetch")

    def found(log: list[Record]) -> LeastPrivilegeDocument:
        frames = audit_frame(spark, trail.audit), log_frame(spark, log)
        return document(*frames, YEAR, narrows_hosts=True, networks={4: 24})

    [wide] = rows(found(trail.log), "wide-grant").values()
    assert (wide["wider_by"], wide["held_back"]) == (["host"], None)
    assert wide["commands"] == [
        "kafka-acls --add --allow-principal User:alice --allow-host 10.0.0.0/24"
        " --operation Read --topic orders",
        "kafka-acls --remove --allow-principal User:alice --operation Read --topic orders",
    ]
    assert wide["what_if"] == {"newly_denied": 0, "newly_throttled": 0, "cannot_be_said": 0, "reasons": []}
    # Kafka's own log, before metadata.version 4.4-IV1.
    with pytest.raises(AuditError, match="networks cannot be hosts of ACLs in this cluster"):
        found([record | {"from_snapshot": False} for record in trail.log])


@pytest.mark.long
def test_what_the_trail_cannot_see_is_said_next_to_each_row(spark: SparkSession) -> None:
    trail = a_trail()
    trail.proxy.write("authorization_collapsed", principal="User:dave", granted=False, count=7)
    many = {"principal": "User:alice", "host": "h", "operation": "DESCRIBE", "resource_type": "TOPIC"}
    trail.proxy.write(
        "authorization_summary", granted=True, count=5, resource_count=5, method="Fetch", **many
    )
    trail.proxy.write("request_summary", principal="User:alice", method="Metadata", count=3)
    del trail.proxy.records[3]

    short = found_in(spark, trail, days=90)
    of_a_year = unseen(audit_frame(spark, trail.audit), None, date(2025, 1, 1), date(2026, 11, 23))

    assert set(short["unseen"]) == {
        *("bypass", "gap", "late start", "less than a year", "collapsed", "listing")
    }
    assert "1 record(s) are missing, sequences 3 to 3" in short["unseen"]["gap"]
    assert short["unseen"]["collapsed"] == "12 decisions are in records that name no resource"
    assert of_a_year.keys() == short["unseen"].keys() - {"less than a year"}
    [dave] = rows(short, "no-grant").values()
    assert dave["unseen"] == ["bypass", "gap", "late start", "less than a year", "collapsed"]
    [unused] = rows(short, "unused-grant").values()
    assert unused["unseen"] == dave["unseen"]
    wide = rows(short, "wide-grant")["ALLOW User:alice from * ALL TOPIC LITERAL *"]
    assert wide["unseen"] == [*dave["unseen"], "listing"]


@pytest.mark.long
def test_a_removal_that_would_open_a_resource_to_everyone_is_held_back(spark: SparkSession) -> None:
    trail = a_trail()
    trail.proxy.settings["allow.everyone.if.no.acl.found"] = "true"

    found = found_in(spark, trail)

    [unused] = rows(found, "unused-grant").values()
    assert "would open it" in str(unused["held_back"])
    wide = rows(found, "wide-grant")["ALLOW User:alice from * ALL TOPIC LITERAL *"]
    assert wide["held_back"] is None, "another ACL is on this resource"
    text = proposal_text(found)
    assert "\n# kafka-acls --remove --allow-principal User:carol" in text
    assert "\nkafka-acls --remove --allow-principal User:alice" in text


@pytest.mark.long
def test_a_right_of_which_no_record_names_the_acl_is_not_taken_away(spark: SparkSession) -> None:
    trail = Trail()
    trail.add_acl(1, "ALLOW User:alice * WRITE TOPIC LITERAL orders")
    trail.proxy.write(
        "request_summary",
        method="InitProducerId",
        principal="User:alice",
        host="10.0.0.1",
        client_id="app",
        count=4,
    )

    found = found_in(spark, trail)

    [row] = rows(found, "unused-grant").values()
    assert row["held_back"] == "it would newly deny 4 requests"
    assert found["what_if"] is None


@pytest.mark.long
def test_quotas_that_were_not_approached_are_listed_with_a_limit_that_throttles_none(
    spark: SparkSession,
) -> None:
    trail = a_trail()
    for name, limit in (("alice", 100_000.0), ("bob", 3_000.0), ("nobody", 10.0)):
        trail.set_quota({"user": name}, "producer_byte_rate", limit)
    produced(trail, "User:alice", 600, 2_000)
    produced(trail, "User:bob", 600, 2_000)

    found = found_in(spark, trail)

    quotas = rows(found, "unreached-quota")
    alice = quotas["producer_byte_rate 100000 of user alice"]
    assert alice["peak"] == pytest.approx(0.02, rel=0.01)
    assert alice["commands"] == [
        "kafka-configs --alter --add-config producer_byte_rate=4000 --entity-type users --entity-name alice"
    ]
    effect = alice["what_if"]
    assert isinstance(effect, dict)
    assert (effect["newly_throttled"], alice["held_back"]) == (0, None)
    unused = quotas["producer_byte_rate 10 of user nobody"]
    assert (unused["peak"], unused["commands"]) == (None, [])
    assert len(quotas) == 2, "bob's use is two thirds of his limit"


@pytest.mark.long
def test_the_command_writes_page_document_and_proposal(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trail, tables = a_trail().stop(), Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, tables)
    delta.append_once(audit_frame(spark, trail.audit), tables.audit, "test", 0)
    delta.append_once(log_frame(spark, trail.log), tables.metadata_log, "test", 0)
    common = ["least-privilege", "--tables", tables.root, "--out", str(tmp_path)]

    failing = ["--fail-on", "no-login", "--fail-on", "unreached-quota"]
    assert command_line.main([*common, "--period", "30d", "--to", "2026-11-23", *failing]) == 1
    said = capsys.readouterr().out
    assert "1 unused-grant, 0 covered-grant, 2 wide-grant, 1 no-grant, 1 no-login, 0 unreached-quota" in said
    assert "the trail cannot see: the period has 30 days" in said
    written: LeastPrivilegeDocument = json.loads(
        (tmp_path / "least-privilege.json").read_text(encoding="utf-8")
    )
    assert written["days"] == ["2026-10-25", "2026-11-23"]
    assert not holds(written, ["unreached-quota"])
    page = (tmp_path / "least-privilege.html").read_text(encoding="utf-8")
    assert "kafka-acls --remove --allow-principal User:carol" in page
    proposal = tmp_path / "least-privilege.proposal"
    trying = ["what-if", "--tables", tables.root, "--out", str(tmp_path), "--proposal", str(proposal)]
    assert command_line.main([*trying, "--fail-on", "newly-denied", "--fail-on", "newly-allowed"]) == 0


def test_a_period_without_records_lists_everything_as_unused(spark: SparkSession) -> None:
    trail = a_trail()

    found = document(audit_frame(spark, trail.audit), log_frame(spark, trail.log), 30, date(2026, 12, 31))

    assert found["counts"]["unused-grant"] == 4
    assert found["counts"]["no-login"] == 2
    assert S.ACL_ID in found["rows"][0]
