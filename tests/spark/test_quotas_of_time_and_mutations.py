"""(d) request_percentage and controller_mutation_rate: whose limit it is, and whether it was held to."""

import json
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from spark_audit.reconcile.quotas import quotas
from tests.spark.audit_trail import NOON_MS, Process, Record, Trail
from tests.spark.frames import frames

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "D6", "Q8", "Q12")]

TIME, MUTATIONS, BYTES = "request_percentage", "controller_mutation_rate", "producer_byte_rate"
OBSERVES = {"quota.mode": "observe"}
TOLD = {"quota.mode": "enforce", "quota.excluded.principals": "User:backup"}


def said(
    process: Process, trail: Trail, key: str, user: str, quota_id: str, limit: float, **fields: Any
) -> Record:
    """A record of a quota: `throttled`, if nothing else is given as `event`."""
    return process.write(
        fields.pop("event", "throttled"),
        principal=f"User:{user}",
        client_id=fields.pop("client_id", "app"),
        connection_id=f"{user}-1" if process.role == "proxy" else None,
        quota_key=key,
        quota_id=quota_id,
        quota_limit=limit,
        metadata_offset=fields.pop("metadata_offset", trail.offset),
        count=fields.pop("count", 1),
        **fields,
    )


def found(spark: SparkSession, trail: Trail) -> list[tuple[str, str, str]]:
    """Check, quota-id or principal, and process of each finding."""
    rows = quotas(*frames(spark, trail)).orderBy("check", "evidence").collect()
    return sorted(_short(row) for row in rows)


def _short(row: Row) -> tuple[str, str, str]:
    proof = json.loads(row["evidence"])
    who = proof.get("principal", proof["quota_id"])
    return row["check"], who, proof.get("proxy_id", proof.get("proxy"))


def test_limits_on_time_and_on_mutations_are_those_of_the_log(spark: SparkSession) -> None:
    trail = Trail()
    trail.proxy.records[0]["settings"].update(TOLD)
    trail.controller.records[0]["settings"].update(TOLD)
    worker = trail.process("many.w1", settings=TOLD)
    trail.set_quota({"user": "alice"}, TIME, 5.0)
    early = trail.offset
    trail.set_quota({"user": "alice", "client-id": None}, TIME, 2.0)
    trail.set_quota({"user": None}, TIME, 50.0)
    trail.set_quota({"client-id": None}, MUTATIONS, 1.0)
    trail.set_quota({"user": "alice", "client-id": "app"}, MUTATIONS, 0.5)
    trail.set_quota({"ip": "10.0.0.1"}, "connection_creation_rate", 3.0)
    proxy, controller = trail.proxy, trail.controller
    # True: what was in force then, the most specific, with the bucket that goes with it.
    said(proxy, trail, TIME, "alice", "alice:", 5.0, metadata_offset=early)
    said(proxy, trail, TIME, "alice", "alice:app", 2.0)
    said(worker, trail, TIME, "bob", "bob:", 50.0, rule="observe")
    said(proxy, trail, TIME, "bob", "bob:", 50.0, event="quota_used")
    said(controller, trail, MUTATIONS, "alice", "alice:app", 0.5, method="CreateTopics", api_version=7)
    said(controller, trail, MUTATIONS, "bob", ":other", 1.0, client_id="other")
    # Not: an earlier limit, another bucket, one who is excluded, another limit, and one that is of time.
    said(proxy, trail, TIME, "alice", "alice:", 5.0)
    said(worker, trail, TIME, "bob", "bob:app", 50.0)
    said(proxy, trail, TIME, "backup", "backup:", 50.0)
    said(controller, trail, MUTATIONS, "bob", ":app", 50.0)
    said(controller, trail, MUTATIONS, "backup", ":app", 1.0, event="quota_used")

    assert found(spark, trail) == [
        ("quotas.other_limit", "User:alice", "proxy-1"),
        ("quotas.other_limit", "User:backup", "controller-1"),
        ("quotas.other_limit", "User:backup", "proxy-1"),
        ("quotas.other_limit", "User:bob", "controller-1"),
        ("quotas.other_limit", "User:bob", "many.w1"),
    ]


def test_who_took_more_time_than_its_share_and_was_never_told_to_wait_is_found(spark: SparkSession) -> None:
    trail = Trail()
    watching = trail.process("watching", settings=OBSERVES)
    workers = [trail.process(f"many.w{number}") for number in range(2)]
    for user in ("frugal", "greedy", "slowed", "shared", "loaded"):
        trail.set_quota({"user": user}, TIME, 10.0)

    def took(process: Process, user: str, ms_a_second: int) -> None:
        for second in range(0, 600, 10):
            interval = {
                "interval_start_ms": NOON_MS + second * 1_000,
                "interval_end_ms": NOON_MS + second * 1_000 + 10_000,
            }
            used = ms_a_second * 10 * 1_000
            said(process, trail, TIME, user, f"{user}:", 10.0, event="quota_used", count=used, **interval)

    # Ten percent are 100 ms a second.
    took(trail.proxy, "frugal", 100)
    took(trail.proxy, "greedy", 130)
    took(trail.proxy, "slowed", 130)
    said(trail.proxy, trail, TIME, "slowed", "slowed:", 10.0, throttle_time_ms=1_000)
    took(trail.proxy, "loaded", 130)
    trail.set_quota({"user": "loaded"}, BYTES, 1_000.0)
    said(trail.proxy, trail, BYTES, "loaded", "loaded:", 1_000.0, throttle_time_ms=3_000)
    took(watching, "greedy", 130)
    for worker in workers:
        took(worker, "shared", 80)

    rows = quotas(*frames(spark, trail)).orderBy("evidence").collect()

    proofs = [json.loads(row["evidence"]) for row in rows]
    assert [(proof["proxy"], proof["quota_id"]) for proof in proofs] == [
        ("many", "shared:"),
        ("proxy-1", "greedy:"),
    ]
    assert (proofs[1]["used"], proofs[1]["allowed"]) == (90 * 130_000, (90 + 11) * 100_000 + 1_300_000)
    assert "allowed 11700000 us of an event loop for quota-id greedy:" in rows[1]["explanation"]


def test_more_partitions_than_a_quota_lets_through_are_found(spark: SparkSession) -> None:
    trail = Trail()
    window = {"controller.quota.window.num": "21", "controller.quota.window.size.seconds": "1"}
    patient = trail.process("patient", role="controller", settings=window)
    watching = trail.process("watching", role="controller", settings=OBSERVES)
    for user in ("frugal", "greedy", "older"):
        trail.set_quota({"user": user}, MUTATIONS, 2.0)

    def changed(process: Process, user: str, count: int, times: int = 10, version: int = 7) -> None:
        for number in range(times):
            at_ms = NOON_MS + number * 1_000
            said(
                process,
                trail,
                MUTATIONS,
                user,
                f"{user}:",
                2.0,
                event="quota_used",
                method="CreateTopics",
                api_version=version,
                count=count,
                interval_start_ms=at_ms,
                interval_end_ms=at_ms,
            )

    # In eight seconds 16, and 22 that were saved, and the last request may be above it.
    changed(trail.controller, "frugal", 4)
    changed(trail.controller, "greedy", 5)
    changed(trail.controller, "older", 100, version=5)
    changed(patient, "greedy", 5)
    changed(watching, "greedy", 100)

    [row] = quotas(*frames(spark, trail)).collect()

    proof = json.loads(row["evidence"])
    assert (row["check"], proof["proxy"], proof["quota_id"]) == ("quotas.exceeded", "controller-1", "greedy:")
    assert (proof["used"], proof["allowed"], proof["unit"]) == (45, 16 + 22 + 5, "partition changes")
