"""Decisions by ACLs with an end, evaluated again: in its time an ACL decides, after it no longer."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_audit.kraft.metadata_records import decode_row
from spark_audit.least_privilege.grants import grant_rows
from spark_audit.proposal import moment_text, parse_proposal
from spark_audit.reconcile.decisions import END_SLACK_MS, coverage, decision_findings, verdicts
from spark_audit.what_if.proposed_log import acl_records, state_of
from tests.spark.audit_trail import Record, Trail, an_acl
from tests.spark.frames import audit_frame, log_frame
from tests.spark.oracle import Answer, Question
from tests.spark.test_decisions import NAMES, a_random_acl, ask_at_random
from tests.support.metadata_log import acl, acl_record, values

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("A11", "D5")]

READ = Question("User:u", "10.0.0.1", "TOPIC", "orders", "READ")
RIGHT = "ALLOW User:u * READ TOPIC LITERAL orders"


def add(trail: Trail, number: int, text: str, until_ms: int | None) -> None:
    given: dict[str, Any] = an_acl(number, text) | ({} if until_ms is None else {"until_ms": until_ms})
    trail.forward("CreateAcls", [(18, "AccessControlEntryRecord", given)])
    trail.acls[given["id"]] = given


def findings_of(spark: SparkSession, trail: Trail, *records: Record) -> list[str]:
    judged = verdicts(audit_frame(spark, trail.audit), log_frame(spark, trail.log)).persist()
    places = {record["sequence"]: place for place, record in enumerate(records)}
    rows = decision_findings(judged).collect()
    found = []
    for row in rows:
        evidence = json.loads(row["evidence"])
        place = places.get(int(evidence["first_sequence"]), "another")
        found.append(f"{row['check']} {place}, {evidence['records']} records")
    return sorted(found)


def test_the_joins_decide_as_the_oracle_does_while_acls_end(spark: SparkSession) -> None:
    chance, trail = random.Random(11), Trail()
    open_by_default = trail.process("proxy-2", settings={"allow.everyone.if.no.acl.found": "true"})
    clock, ended = trail.proxy.clock, 0
    for number in range(60):
        text = a_random_acl(chance)
        may_end = text.startswith("ALLOW") and chance.random() < 0.7
        # Between the readings of the clock.
        add(trail, number, text, clock.now_ms + 100 * chance.randrange(1, 40) + 50 if may_end else None)
        for _ in range(6):
            now_ms = clock.now_ms + clock.step_ms
            over = [
                key for key, each in trail.acls.items() if int(each.get("until_ms", now_ms + 1)) <= now_ms
            ]
            ended += len(over)
            for key in over:
                del trail.acls[key]
            if chance.random() < 0.5:
                ask_at_random(trail, chance, trail.proxy)
            else:
                trail.ask(f"User:u 10.0.0.1 READ TOPIC {chance.choice(NAMES)}", open_by_default)

    judged = verdicts(
        audit_frame(spark, trail.audit), log_frame(spark, trail.log), trail.offset + 2
    ).persist()

    assert [row["explanation"] for row in decision_findings(judged).collect()] == []
    assert ended > 20
    assert [row["outcome"] for row in coverage(judged).collect()] == ["evaluated"]


def test_a_decision_by_an_acl_that_has_ended_is_a_finding_and_a_denial_is_none(spark: SparkSession) -> None:
    trail = Trail()
    proxy, clock = trail.proxy, trail.proxy.clock
    clock.step_ms = 1
    end_ms = clock.now_ms + 10_000
    add(trail, 1, RIGHT, end_ms)
    acl_id = next(iter(trail.acls))
    allowed, denied = Answer(True, "acl", acl_id), Answer(False, "default.deny", None)

    def at(moment_ms: int, answer: Answer, **fields: Any) -> Record:
        clock.now_ms = moment_ms - 1
        return proxy.decided(READ, answer, trail.offset, **fields)

    def summary(start_ms: int, count: int) -> Record:
        interval = {"interval_start_ms": start_ms, "interval_end_ms": end_ms + 90_000, "count": count}
        return at(end_ms + 90_000, allowed, event="authorization_summary", **interval)

    fine = [
        at(end_ms - 1, allowed),
        at(end_ms + END_SLACK_MS - 1, allowed),
        at(end_ms, denied),
        at(end_ms + 60_000, denied),
        summary(end_ms - 1, 7),
        summary(end_ms + 50_000, 0),
    ]
    assert findings_of(spark, trail) == [], fine

    # With the same end for another, it is judged by its own.
    add(trail, 1, RIGHT, end_ms + 200_000)
    extended = at(end_ms + 60_000, allowed)
    early = at(end_ms + 100_000, denied)
    late = at(end_ms + 200_000 + END_SLACK_MS, allowed)
    ignoring = summary(end_ms + 201_001, 3)

    assert findings_of(spark, trail, extended, early, late, ignoring) == [
        "decisions.wrongly_denied 1, 1 records",
        "decisions.wrongly_granted 2, 2 records",
    ], ignoring


def test_ends_that_are_not_understood_allow_nothing_and_do_not_end_a_deny(spark: SparkSession) -> None:
    trail = Trail()
    add(trail, 1, RIGHT, -1)
    add(trail, 2, "ALLOW User:v * READ TOPIC LITERAL orders", None)
    add(trail, 3, "DENY User:v * READ TOPIC LITERAL orders", trail.proxy.clock.now_ms - 5_000)
    ids = list(trail.acls)
    granted = [
        trail.proxy.decided(each, Answer(True, "acl", ids[number]), trail.offset)
        for number, each in enumerate((READ, replace(READ, principal="User:v")))
    ]

    assert findings_of(spark, trail, *granted) == [
        "decisions.wrongly_granted 0, 1 records",
        "decisions.wrongly_granted 1, 1 records",
    ]


def test_ingest_and_proposals_have_the_end(spark: SparkSession) -> None:
    until_ms = 1_801_418_400_000
    (value,) = values(acl_record(replace(acl("orders"), until_ms=until_ms)))
    _, name, _, body, reason = decode_row(value)
    proposal = parse_proposal(
        "penstock acl --add --allow-principal User:x --operation Read --topic t --until 2027-01-31T18:00Z",
        "p",
    )
    (proposed,) = acl_records(proposal.added, (), dict.fromkeys(proposal.added, until_ms))

    assert (name, reason) == ("AccessControlEntryRecord", None)
    assert f'"until_ms":{until_ms}' in str(body)
    assert list(proposal.ends.values()) == [until_ms]
    assert proposed[2]["until_ms"] == until_ms


@pytest.mark.spec("D10", "D11")
def test_the_end_of_the_log_has_the_acls_that_have_not_ended_with_their_ends(spark: SparkSession) -> None:
    trail = Trail()
    now_ms = trail.proxy.clock.now_ms
    add(trail, 1, RIGHT, now_ms + 50)
    add(trail, 2, RIGHT.replace("READ", "WRITE"), now_ms + 3_600_000)
    add(trail, 3, RIGHT.replace("READ", "ALTER"), None)
    over, ending, plain = trail.acls

    state = state_of(log_frame(spark, trail.log))
    rows = grant_rows(state.acls, {}, state.ends)

    assert over not in state.acls
    assert (set(state.acls), state.ends) == ({ending, plain}, {ending: now_ms + 3_600_000})
    assert [row["until"] for row in rows] == [None, moment_text(now_ms + 3_600_000)]
