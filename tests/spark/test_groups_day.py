"""A day of a person who joins a group, works, leaves it and is denied; and lies about such a day."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.tables.delta import empty_frame
from tests.spark.audit_trail import Trail
from tests.spark.frames import audit_frame, log_frame
from tests.spark.oracle import Answer, Question

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("A8", "D5")]

MINUTE_MS = 60_000
CHECKS = ("decisions", "sessions")
FETCH: dict[str, Any] = {"method": "Fetch", "client_id": "app", "connection_id": "c"}


def day() -> tuple[Trail, Mapping[str, str]]:
    """End when the person has left payments, and has been denied. Return the ACL of the group too."""
    trail = Trail()
    allow = trail.add_acl(1, "ALLOW Group:payments * READ TOPIC LITERAL orders")

    def logs_in(event: str, *groups: str) -> None:
        trail.clock.now_ms += 60 * MINUTE_MS
        who = {"principal": "User:person", "connection_id": "c"}
        trail.proxy.write(event, groups=list(groups) or None, **who)
        trail.clock.now_ms += 2 * MINUTE_MS

    trail.add_acl(2, "DENY Group:staff * READ TOPIC LITERAL salaries")
    logs_in("authentication", "staff")
    trail.ask("User:person 10.0.0.1 READ TOPIC orders", **FETCH)
    logs_in("reauthentication", "payments", "staff")
    trail.ask("User:person 10.0.0.1 READ TOPIC orders", groups=["payments"], **FETCH)
    trail.ask(
        "User:person 10.0.0.1 READ TOPIC orders",
        groups=["payments"],
        event="authorization_summary",
        count=9,
        **FETCH,
    )
    logs_in("reauthentication", "staff")
    trail.ask("User:person 10.0.0.1 READ TOPIC orders", **FETCH)
    return trail, allow


def found(spark: SparkSession, trail: Trail) -> list[tuple[str, str]]:
    frames = audit_frame(spark, trail.audit), empty_frame(spark, S.QUARANTINE), log_frame(spark, trail.log)
    findings = [row for row in reconcile(*frames).findings if row["check"].split(".")[0] in CHECKS]
    return [(row["check"], row["explanation"]) for row in findings]


def test_the_true_day_has_no_finding_and_each_lie_about_it_has_one(spark: SparkSession) -> None:
    trail, allow = day()
    outcomes = [(r["granted"], r["groups"], r["count"]) for r in trail.audit if r["granted"] is not None]
    assert outcomes == [
        (False, None, None),
        (True, ["payments"], None),
        (True, ["payments"], 9),
        (False, None, None),
    ]
    assert found(spark, trail) == []

    question = Question("User:person", "10.0.0.1", "TOPIC", "orders", "READ")
    granted = Answer(True, "acl", allow["id"])
    # The proxy goes on by the group that the person has left, and names it.
    trail.proxy.decided(question, granted, trail.offset, **FETCH)["groups"] = ["payments"]
    # It grants what the ACL of the group allows to a session without it.
    trail.proxy.decided(question, granted, trail.offset, **FETCH)
    # It hides that the person is in a group that is denied.
    denying = trail.add_acl(3, "DENY Group:interns * READ TOPIC LITERAL orders")
    trail.ask(
        "User:intern 10.0.0.2 READ TOPIC orders",
        groups=["interns", "payments"],
        **(FETCH | {"connection_id": "d"}),
    )
    assert trail.proxy.records[-1]["acl_id"] == denying["id"]
    trail.proxy.records[-1]["groups"] = ["payments"]

    # It hides the same of a person whom the ACL of another group allows.
    trail.proxy.write(
        "authentication", groups=["interns", "payments"], principal="User:intern", connection_id="e"
    )
    trail.clock.now_ms += 2 * MINUTE_MS
    hidden = Question("User:intern", "10.0.0.2", "TOPIC", "orders", "READ", ("payments",))
    trail.proxy.decided(hidden, granted, trail.offset, **(FETCH | {"connection_id": "e"}))
    # Soon after a login, a request of before it may be decided without its groups, but not later.
    trail.proxy.write("authentication", groups=["payments"], principal="User:late", connection_id="f")
    trail.clock.now_ms += 2 * MINUTE_MS
    both = {"groups": ["interns", "payments"], "principal": "User:late", "connection_id": "f"}
    trail.proxy.write("reauthentication", **both)
    soon = replace(hidden, principal="User:late")
    trail.proxy.decided(soon, granted, trail.offset, **(FETCH | {"connection_id": "f"}))

    left_out, *checks = sorted(found(spark, trail))

    assert left_out[0] == "decisions.groups_left_out"
    assert "granted READ on TOPIC orders to User:intern in interns, payments from 10.0.0.2" in left_out[1]
    assert f"it is denied (rule acl, ACL {denying['id']})" in left_out[1]
    assert [check for check, _ in checks] == [
        "decisions.wrongly_denied",
        "decisions.wrongly_granted",
        "sessions.other_groups",
    ]
    assert "to User:intern in payments from 10.0.0.2" in checks[0][1]
    assert "granted READ on TOPIC orders to User:person from 10.0.0.1 (rule acl" in checks[1][1]
    assert checks[2][1] == (
        "process proxy-1/boot-1 decided 1 request(s) of User:person on connection c by payments,"
        " which the login before did not have"
    )
