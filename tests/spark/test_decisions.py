"""(b) Decisions evaluated again: against the oracle, and with each fault planted."""

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from proxy.audit.record import MAX_TEXT_CHARACTERS
from spark_audit.policy.acl_matches import patterns_of
from spark_audit.reconcile.decisions import coverage, decision_findings, verdicts
from tests.spark.audit_trail import Clock, Process, Record, Trail
from tests.spark.frames import audit_frame, log_frame
from tests.spark.oracle import Answer, Question

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "S7")]

Found = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Principal of the record -> (check, evidence with the explanation)."""

NAMES = ("a", "ab", "abc", "b", "ba", "*", "hardcode", "h")
PRINCIPALS = ("User:u", "User:v", "User:*", "Group:u")
GROUPS = ((), (), ("u",), ("*", "u"), ("other",))
LINK_LOCAL = "fe80:0:0:0:0:0:0:1"
HOSTS = ("10.0.0.1", "10.0.0.2", "2001:db8:0:0:0:0:0:1", LINK_LOCAL, f"{LINK_LOCAL}%2", f"{LINK_LOCAL}%3")
NETWORKS = ("10.0.0.0/31", "10.9.9.9/8", "2001:db8::/32", "::/0")
OPERATIONS = ("READ", "WRITE", "DELETE", "ALTER", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS", "ALL")


def judged(
    spark: SparkSession, trail: Trail, records: list[Record] | None = None, log_end: int | None = None
) -> Any:
    audit = audit_frame(spark, trail.audit if records is None else records)
    return verdicts(audit, log_frame(spark, trail.log), log_end).persist()


def a_random_acl(chance: random.Random) -> str:
    return " ".join(
        (
            chance.choices(("ALLOW", "DENY"), (3, 1))[0],
            chance.choice(PRINCIPALS),
            chance.choice((*HOSTS, *NETWORKS, "*", "*", "*")),
            chance.choice(OPERATIONS),
            chance.choices(("TOPIC", "GROUP"), (4, 1))[0],
            chance.choice(("LITERAL", "LITERAL", "PREFIXED")),
            chance.choice(NAMES),
        )
    )


def ask_at_random(trail: Trail, chance: random.Random, proxy: Process) -> None:
    name = chance.choice((*NAMES, "abcd", "bab", "zz", None, None))
    asked = (chance.choice(PRINCIPALS[:2]), chance.choice(HOSTS), chance.choice(OPERATIONS[:-1]), "TOPIC")
    groups = chance.choice(GROUPS)
    trail.ask(" ".join(asked if name is None else (*asked, name)), proxy, groups=groups)


def test_the_joins_decide_as_the_oracle_does_while_acls_come_and_go(spark: SparkSession) -> None:
    chance = random.Random(1)
    trail = Trail()
    open_by_default = trail.process("proxy-2", settings={"allow.everyone.if.no.acl.found": "true"})
    for number in range(60):
        if trail.acls and chance.random() < 0.4:
            trail.remove_acl(chance.choice(list(trail.acls.values())))
        elif chance.random() < 0.3:
            trail.set_owner(chance.choice(NAMES[:4]), chance.choice((*PRINCIPALS[:2], None)))
        else:
            trail.add_acl(number, a_random_acl(chance))
        for _ in range(6):
            ask_at_random(trail, chance, chance.choice((trail.proxy, open_by_default)))

    # Images count the markers of transactions, which are in no table.
    trail.proxy.records[-1]["metadata_offset"] = trail.offset + 7

    result = judged(spark, trail, log_end=trail.offset + 8)

    assert [row["explanation"] for row in decision_findings(result).collect()] == []
    assert [tuple(row) for row in coverage(result).collect()] == [("evaluated", 360)]


@pytest.fixture(scope="module")
def spoiled() -> Trail:
    """A true trail with one forged decision for each fault; the principal says which."""
    trail = Trail()
    read = trail.add_acl(1, "ALLOW User:* * READ TOPIC LITERAL orders")
    other = trail.add_acl(2, "ALLOW User:* * ALL TOPIC PREFIXED pay")
    trail.add_acl(3, "DENY User:mallory * READ TOPIC LITERAL orders")

    def forge(principal: str, answer: Answer, **fields: Any) -> None:
        question = Question(
            f"User:{principal}", "10.0.0.1", "TOPIC", "orders", fields.pop("operation", "READ")
        )
        trail.proxy.decided(question, answer, fields.pop("offset", trail.offset), **fields)

    trail.set_owner("orders", "User:owner")
    forge("owner", Answer(True, "topic.owner"), operation="DELETE")
    forge("usurper", Answer(True, "topic.owner"), operation="DELETE")
    trail.set_owner("orders", "User:heir")
    forge("owner", Answer(True, "topic.owner"), operation="ALTER")
    forge("heir", Answer(False, "default.deny"), operation="ALTER")
    forge("honest", Answer(True, "acl", read["id"]))
    forge("mallory", Answer(True, "acl", read["id"]))
    forge("locked-out", Answer(False, "default.deny"))
    forge("climber", Answer(True, "super.users"))
    forge("borrower", Answer(True, "acl", other["id"]))
    forge("walk-in", Answer(True, "allow.everyone.if.no.acl.found"))
    forge("unchecked", Answer(True, "no.authorizer"))
    forge("early-bird", Answer(True, "authorizer.not.ready"))
    forge("lucky", Answer(True, "authorizer.error"))
    forge("writer", Answer(True, "acl", read["id"]), operation="WRITE")
    forge("time-traveller", Answer(False, "default.deny"), offset=trail.offset + 100)
    forge("nowhere", Answer(True, "acl", read["id"]), offset=None)
    forge("undecided", Answer(True, "acl", read["id"]), granted=None)
    for _ in range(30):
        forge("crowd", Answer(True, "super.users"))
    stranger = Process("proxy-9", trail.clock)
    question = Question("User:stranger", "10.0.0.1", "TOPIC", "orders", "READ")
    stranger.decided(question, Answer(True, "acl", read["id"]), trail.offset)
    trail.processes.append(stranger)
    trail.remove_acl(read)
    forge("late", Answer(True, "acl", read["id"]))
    forge("dates-back", Answer(True, "acl", read["id"]), offset=trail.offset - 2)
    trail.proxy.change_settings(super_users="User:promoted;User:ahead")
    forge("promoted", Answer(True, "super.users"))
    forge("ahead", Answer(True, "super.users"), settings_generation=None)
    forge("admin", Answer(True, "super.users"))
    forge("unrecorded", Answer(True, "super.users"), settings_generation=7)
    forge("foreseen", Answer(True, "super.users"), settings_generation=2)
    trail.proxy.change_settings(super_users="User:foreseen")
    return trail


@pytest.fixture(scope="module")
def found(spark: SparkSession, spoiled: Trail) -> Found:
    rows = decision_findings(judged(spark, spoiled)).collect()
    evidence = [json.loads(row["evidence"]) | {"explanation": row["explanation"]} for row in rows]
    return {
        proof["principal"].removeprefix("User:"): (row["check"], proof)
        for row, proof in zip(rows, evidence, strict=True)
    }


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    ("principal", "check"),
    [
        ("mallory", "decisions.wrongly_granted"),
        ("writer", "decisions.wrongly_granted"),
        ("late", "decisions.wrongly_granted"),
        ("early-bird", "decisions.wrongly_granted"),
        ("lucky", "decisions.wrongly_granted"),
        ("locked-out", "decisions.wrongly_denied"),
        ("usurper", "decisions.wrongly_granted"),
        ("owner", "decisions.wrongly_granted"),
        ("heir", "decisions.wrongly_denied"),
        ("climber", "decisions.wrong_rule"),
        ("walk-in", "decisions.wrong_rule"),
        ("unchecked", "decisions.wrong_rule"),
        ("borrower", "decisions.wrong_acl"),
        ("time-traveller", "decisions.unverifiable"),
        ("nowhere", "decisions.unverifiable"),
        ("undecided", "decisions.unverifiable"),
        ("ahead", "decisions.wrongly_granted"),
        ("admin", "decisions.wrongly_granted"),
        ("unrecorded", "decisions.unverifiable"),
        ("foreseen", "decisions.unverifiable"),
    ],
)
def test_a_forged_decision_is_found(found: Found, principal: str, check: str) -> None:
    assert found[principal][0] == check


def test_what_was_right_at_its_offset_is_no_finding(found: Found) -> None:
    assert not {"honest", "dates-back", "promoted"} & found.keys()
    assert len(found) == 22


def test_a_finding_says_in_words_what_was_decided_and_what_should_have_been(
    found: Found, spoiled: Trail
) -> None:
    _, evidence = found["mallory"]
    deny = next(acl for acl in spoiled.acls.values() if acl["permission_type"] == "DENY")

    assert evidence["explanation"] == (
        "process proxy-1/boot-1 granted READ on TOPIC orders to User:mallory from 10.0.0.1 "
        f"(rule acl, ACL {evidence['acl_id']}), 1 record(s) at offset 10 to 10; "
        f"by the ACLs of that offset it is denied (rule acl, ACL {deny['id']})"
    )


def test_records_of_one_question_are_one_finding_with_examples(found: Found) -> None:
    _, evidence = found["crowd"]

    assert (evidence["records"], evidence["last_sequence"] - evidence["first_sequence"]) == (30, 29)


def test_a_process_that_never_told_its_settings_cannot_be_checked_and_that_is_said(found: Found) -> None:
    check, evidence = found["stranger"]

    assert check == "decisions.unverifiable"
    assert evidence["explanation"].endswith("no `started` record tells the settings of this process")


def test_a_finding_names_the_settings_that_the_record_names(found: Found) -> None:
    told = {who: (found[who][1].get("settings_generation"), found[who][1]["explanation"]) for who in found}

    assert told["ahead"][0] is None
    assert told["admin"] == (1, told["admin"][1])
    assert ", settings 1; by the ACLs of that offset it is denied" in told["admin"][1]
    assert told["unrecorded"][1].endswith("no `settings_changed` record tells the settings that it names")
    assert told["foreseen"][1].endswith("the settings that it names are recorded after it")


@pytest.mark.long
def test_what_cannot_be_evaluated_is_counted_with_its_reason(spark: SparkSession) -> None:
    clock = Clock()
    trail = Trail(clock)
    simple = trail.process(
        "proxy-2", settings={"authorizer.class.name": "proxy.security.simple.SimpleAclAuthorizer"}
    )
    none = trail.process("proxy-3", settings={"authorizer.class.name": ""})
    question = Question("User:alice", "10.0.0.1", "TOPIC", "orders", "READ")
    trail.proxy.decided(question, Answer(False, "authorizer.not.ready"), -1, metadata_offset=None)
    trail.proxy.decided(question, Answer(False, "authorizer.error"), -1)
    trail.controller.decided(question, Answer(False, "protected.topic"), -1)
    group = Question("User:admin", "10.0.0.1", "GROUP", "penstock-controller-election", "READ")
    trail.proxy.decided(group, Answer(False, "protected.group"), -1)
    writer = Question("User:admin", "10.0.0.1", "TRANSACTIONAL_ID", "penstock-controller", "WRITE")
    trail.proxy.decided(writer, Answer(False, "protected.transactional.id"), -1)
    none.decided(question, Answer(False, "protected.topic"), -1, metadata_offset=None)
    simple.decided(question, Answer(True, "acl"), -1)
    none.decided(question, Answer(True, "no.authorizer"), -1, metadata_offset=None)
    trail.proxy.decided(question, Answer(False, "default.deny"), -1)

    result = judged(spark, trail)

    assert {row["outcome"]: row["records"] for row in coverage(result).collect()} == {
        "denied before the log was loaded": 1,
        "denied on an error of the authorizer": 1,
        "denied as Penstock's own": 4,
        "decided by proxy.security.simple.SimpleAclAuthorizer": 1,
        "evaluated": 2,
    }
    assert decision_findings(result).isEmpty()


@pytest.mark.long
def test_where_compaction_took_an_acl_a_wrong_decision_is_not_called_forged(spark: SparkSession) -> None:
    trail = Trail()
    lost = trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL orders")
    trail.ask("User:alice 10.0.0.1 READ TOPIC orders")
    trail.remove_acl(lost)
    del trail.log[0]

    [row] = decision_findings(judged(spark, trail)).collect()

    assert row["check"] == "decisions.unverifiable"
    assert "older ACLs are missing from the log" in row["explanation"]


@pytest.mark.spec("D5", "D15")
def test_nobody_is_accused_because_a_name_is_longer_than_a_record_may_have(spark: SparkSession) -> None:
    """A group's name, or a user's, may have 32,767 characters; a record has 8,191 of them."""

    def cut(record: Record) -> Record:
        for name in ("resource_name", "principal"):
            if len(record[name]) > MAX_TEXT_CHARACTERS:
                record[name] = record[name][: MAX_TEXT_CHARACTERS - 1] + "…"
        return record

    trail, group, user = Trail(), "g" * 9_000, f"User:{'u' * 9_000}"
    short = trail.add_acl(1, "ALLOW User:bob * READ GROUP PREFIXED gg")
    trail.add_acl(2, f"ALLOW User:eve * READ GROUP LITERAL {group}")
    trail.add_acl(3, f"DENY {user} * READ TOPIC LITERAL t")
    trail.add_acl(4, "ALLOW User:* * READ TOPIC LITERAL t")
    for name in ("bob", "eve", "carol", "mallory"):
        wrong = cut(trail.ask(f"User:{name} 10.0.0.1 READ GROUP {group}"))
    wrong |= {"granted": True, "rule": "acl", "acl_id": short["id"]}
    cut(trail.ask(f"{user} 10.0.0.1 READ TOPIC t"))

    result = judged(spark, trail)

    assert {row["outcome"]: row["records"] for row in coverage(result).collect()} == {
        "evaluated": 3,
        "decided by an ACL with a longer name than a record may have": 2,
    }
    [row] = decision_findings(result).collect()
    assert (row["check"], "User:mallory" in row["explanation"]) == ("decisions.wrongly_granted", True)


@pytest.mark.long
def test_denials_that_one_record_stands_for_are_not_taken_for_questions(spark: SparkSession) -> None:
    trail = Trail()
    trail.ask("User:mallory 10.0.0.1 DESCRIBE TOPIC t1")
    trail.proxy.write(
        "authorization_collapsed",
        principal="User:mallory",
        host="10.0.0.1",
        operation="DESCRIBE",
        resource_type="TOPIC",
        granted=False,
        count=4_900,
        metadata_offset=trail.offset,
    )

    result = judged(spark, trail)

    assert {row["outcome"]: row["records"] for row in coverage(result).collect()} == {"evaluated": 1}
    assert decision_findings(result).isEmpty()


@pytest.mark.long
def test_summaries_of_several_resources_are_checked_as_far_as_they_say_enough(spark: SparkSession) -> None:
    trail = Trail()
    trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL *")
    counted = {
        "host": "10.0.0.1",
        "operation": "DESCRIBE",
        "resource_type": "TOPIC",
        "granted": True,
        "count": 19_000,
        "resource_count": 19_000,
        "metadata_offset": trail.offset,
    }
    # READ implies DESCRIBE; the summary itself names no topic, so it is no decision on any topic (KIP-679).
    trail.proxy.write("authorization_summary", principal="User:alice", rule="acl", **counted)
    trail.proxy.write("authorization_summary", principal="User:admin", rule="super.users", **counted)
    trail.proxy.write("authorization_summary", principal="User:mallory", rule="super.users", **counted)

    result = judged(spark, trail)

    [row] = decision_findings(result).collect()
    assert (row["check"], json.loads(row["evidence"])["principal"]) == (
        "decisions.wrongly_granted",
        "User:mallory",
    )
    assert {row["outcome"]: row["records"] for row in coverage(result).collect()} == {
        "evaluated": 2,
        "one record stands for several resources": 1,
    }


def test_a_name_of_thousands_of_characters_is_looked_for_by_the_prefixes_there_are(
    spark: SparkSession,
) -> None:
    intervals = spark.createDataFrame(
        [("PREFIXED", "ab"), ("PREFIXED", "zz"), ("PREFIXED", "x" * 9_000), ("LITERAL", "abc")],
        "pattern_type string, pattern_name string",
    )
    long = "ab\U0001f600" + "c" * 8_000
    names = spark.createDataFrame(
        [("GROUP", long), ("GROUP", "")], "resource_type string, resource_name string"
    )

    rows = patterns_of(names, intervals).orderBy("pattern_type", "pattern_name").collect()

    assert [(row["resource_name"], row["pattern_name"]) for row in rows if row["pattern_name"] != "*"] == [
        ("", ""),
        (long, long),
        (long, "ab"),
    ]
