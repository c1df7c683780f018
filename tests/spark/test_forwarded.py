"""(c) and (f): forwarded admin requests three ways, and changes that nobody asked for."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from proxy.admin.objects import named
from spark_audit import schema as S
from spark_audit.reconcile.changes import changes
from spark_audit.reconcile.forwarded import forwarded
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.report.history import history, lines, matches
from spark_audit.tables.delta import empty_frame
from spark_audit.trail.audit_records import ALWAYS, TRAIL_LATE_MS, complete_until_ms, sequence_index
from spark_audit.trail.claims import claimed_offsets
from tests.spark.audit_trail import NOON_MS, Record, Trail, acl_id, an_acl
from tests.spark.frames import audit_frame, frames, log_frame
from tests.spark.sealed import seal, table

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "D6")]

ADD, REMOVE = (18, "AccessControlEntryRecord"), (19, "RemoveAccessControlEntryRecord")
QUOTA = (14, "ClientQuotaRecord")

Found = list[tuple[str, Mapping[str, Any]]]
Change = tuple[int, str, dict[str, Any]]


def create(trail: Trail, number: int) -> tuple[Record, Record]:
    return trail.forward("CreateAcls", [(*ADD, an_acl(number, "ALLOW User:a * READ TOPIC LITERAL t"))])


def findings(spark: SparkSession, trail: Trail, records: list[Record]) -> Found:
    audit, log = audit_frame(spark, records), log_frame(spark, trail.log)
    rows = forwarded(audit, log).unionByName(changes(audit, log)).collect()
    return [(row["check"], json.loads(row["evidence"]) | {"explanation": row["explanation"]}) for row in rows]


def planted() -> tuple[Trail, list[Record]]:
    """One forward for each fault, its forward_id renamed to say which; and the records that are left."""
    trail = Trail()
    gone: list[Record] = []

    def plant(name: str, told: Record, received: Record) -> tuple[Record, Record]:
        told["forward_id"] = received["forward_id"] = name
        return told, received

    plant("honest", *create(trail, 1))
    gone.append(plant("direct", *create(trail, 2))[0])
    gone.append(plant("claimed by nobody", *trail.forward("CreateTopics", []))[1])
    plant("other principal", *create(trail, 3))[0]["principal"] = "User:mallory"
    plant("other request", *create(trail, 4))[0]["method"] = "DeleteAcls"
    plant("other error", *create(trail, 5))[0]["error_code"] = 41
    plant("other answer", *create(trail, 15))[0].update(schema_version=2, error_code=41)
    plant("answer not read", *create(trail, 16))[0].update(schema_version=2, error_code=None)
    plant("kept back", *create(trail, 17))[0].update(schema_version=2, error_code=None, envelope_error_code=7)
    plant("other offset", *create(trail, 6))[0]["last_offset"] += 1
    plant("offset from nowhere", *trail.forward("CreateTopics", []))[0]["last_offset"] = 7
    told, _ = plant("told twice", *create(trail, 7))
    trail.proxy.write(
        "forwarded",
        **{
            k: v
            for k, v in told.items()
            if k in ("forward_id", "principal", "method", "error_code", "last_offset")
        },
    )
    plant("applied twice", *create(trail, 8))
    gone.append(plant("applied twice", *create(trail, 8))[0])
    _, lost = plant("lost change", *create(trail, 9))
    told, received = plant("nonsense offsets", *trail.forward("CreateTopics", []))
    received |= {"first_offset": 3, "last_offset": 10**12}
    told["last_offset"] = 10**12
    told, received = plant("not a controller", *create(trail, 10))
    received["role"] = "proxy"
    told["error_code"] = 7
    plant(
        "smuggled",
        *trail.forward(
            "CreateAcls", [(*QUOTA, {"entity": {"user": "m"}, "key": "k", "value": 1.0, "remove": False})]
        ),
    )
    trail.log.append(
        trail.log[-1] | {"offset": trail.offset + 2, "record": "UserScramCredentialRecord", "api_key": 11}
    )
    trail.forward("DeleteAcls", [(*REMOVE, {"id": acl_id(999)})])
    trail.log = [record for record in trail.log if record["offset"] != lost["first_offset"]]
    return trail, [record for record in trail.audit if not any(record is other for other in gone)]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Found:
    return findings(spark, *planted())


def test_a_true_trail_has_no_finding(spark: SparkSession) -> None:
    trail = Trail()
    acl = trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL orders")
    trail.set_quota({"user": "alice"}, "producer_byte_rate", 1024.0)
    trail.remove_acl(acl)
    trail.forward("CreateTopics", [])
    create(trail, 2)[0].update(error_code=7, last_offset=None)
    trail.forward("CreateTopics", [])[1]["error_code"] = 36
    trail.proxy.write(
        "forwarded", forward_id="never-arrived", principal="User:a", method="CreateAcls", error_code=7
    )

    assert findings(spark, trail, trail.audit) == []


@pytest.mark.spec("D8")
def test_a_proxy_that_claims_what_a_controller_does_is_named(spark: SparkSession) -> None:
    """Somebody with the key of a proxy explains a record that was written straight into the log."""
    trail = Trail()
    create(trail, 1)
    first, last = trail._commit([(*ADD, an_acl(2, "ALLOW User:eve * ALL TOPIC LITERAL pay"))])
    claim = {"forward_id": "f-2", "method": "CreateAcls", "principal": "User:admin", "error_code": 0}
    trail.proxy.write("forwarded", last_offset=last, envelope_error_code=0, **claim)
    trail.proxy.write("forwarded_received", role="controller", first_offset=first, last_offset=last, **claim)

    [(check, evidence)] = findings(spark, trail, trail.audit)

    assert (check, evidence["proxy_id"]) == ("forwarded.not_a_controller", "proxy-1")
    assert evidence["explanation"] == (
        "process proxy-1/boot-1 claims 1 change(s) of the metadata log as a controller does (sequences 3),"
        " and proxy-1 has started as a proxy"
    )


@pytest.mark.spec("D8")
def test_a_proxy_does_not_leave_a_forward_out_by_calling_it_one_to_kafkas_controller(
    spark: SparkSession,
) -> None:
    """Its operator lets it drop a DENY that an administrator asks for, and report success."""
    trail = Trail()
    create(trail, 1)
    dropped = {"forward_id": "dropped", "method": "CreateAcls", "principal": "User:admin", "error_code": 0}
    dropped |= {"first_offset": 0, "last_offset": 0, "envelope_error_code": 0, "count": 1}
    trail.proxy.write("forwarded", **dropped)
    nothing = empty_frame(spark, S.QUARANTINE)

    found = reconcile(audit_frame(spark, trail.stop().audit), nothing, log_frame(spark, trail.log)).findings

    assert [(row["check"], json.loads(row["evidence"])["forward_id"]) for row in found] == [
        ("forwarded.unknown_to_controller", "dropped")
    ]


@pytest.mark.parametrize(
    ("forward_id", "check"),
    [
        ("direct", "forwarded.unknown_to_proxy"),
        ("claimed by nobody", "forwarded.unknown_to_controller"),
        ("other principal", "forwarded.different_principal"),
        ("other request", "forwarded.different_request"),
        ("other error", "forwarded.different_error"),
        ("other answer", "forwarded.different_error"),
        ("other offset", "forwarded.different_offset"),
        ("offset from nowhere", "forwarded.different_offset"),
        ("told twice", "forwarded.sent_twice"),
        ("applied twice", "forwarded.applied_twice"),
        ("lost change", "forwarded.not_in_the_log"),
        ("nonsense offsets", "forwarded.impossible_offsets"),
        ("smuggled", "changes.foreign_kind"),
    ],
)
def test_a_fault_in_one_of_the_three_is_found(found: Found, forward_id: str, check: str) -> None:
    assert [name for name, evidence in found if evidence.get("forward_id") == forward_id] == [check]


def test_changes_that_no_request_explains_are_found(found: Found) -> None:
    unexplained = [evidence for check, evidence in found if check == "changes.unexplained"]

    assert [evidence["record"] for evidence in unexplained] == [
        "AccessControlEntryRecord",
        "UserScramCredentialRecord",
    ]


def test_a_removal_of_what_was_never_added_is_found(found: Found) -> None:
    [evidence] = [e for check, e in found if check == "changes.incomplete_log"]

    assert evidence["acl_id"] == acl_id(999)
    assert evidence["explanation"] == (
        f"ACL {acl_id(999)} is removed at metadata offset {evidence['offset']}, but no record adds it:"
        " it was compacted or deleted"
    )


def test_nothing_else_is_found(found: Found) -> None:
    assert len(found) == 13 + 2 + 1


@pytest.mark.parametrize(
    "said",
    [
        "forward other principal: sent for User:mallory, carried out for User:admin",
        "forward other request: sent as DeleteAcls, received as CreateAcls",
        "forward other error: error 41 at the proxy, error(s) [0] at the controller",
        "forward told twice: 2 records of proxies have this id",
        "forward applied twice: it was applied 2 times",
        "forward direct: the controller received it, but no proxy has recorded it",
        "forward claimed by nobody: the proxy reported success of a CreateTopics that no controller received",
    ],
)
def test_a_finding_tells_both_sides(found: Found, said: str) -> None:
    assert said in [evidence["explanation"] for _, evidence in found]


TOKEN, REMOVED_TOKEN = (10, "DelegationTokenRecord"), (26, "RemoveDelegationTokenRecord")


def token_life(trail: Trail, token_id: str, expiry_ms: int = NOON_MS) -> None:
    body = {"token_id": token_id, "owner": "User:alice", "expiry_timestamp_ms": expiry_ms}
    trail.forward("CreateDelegationToken", [(*TOKEN, body)])
    trail.forward("RenewDelegationToken", [(*TOKEN, body)])
    trail.forward("ExpireDelegationToken", [(*TOKEN, body)])


@pytest.mark.long
def test_tokens_made_renewed_expired_and_swept_are_explained(spark: SparkSession) -> None:
    trail = Trail()
    for token_id in ("t-1", "t-2", "t-3"):
        token_life(trail, token_id)
    trail.forward("ExpireDelegationToken", [(*REMOVED_TOKEN, {"token_id": "t-1"})])
    trail.sweep_tokens("t-2", "t-3")

    assert findings(spark, trail, trail.audit) == []


@pytest.mark.long
@pytest.mark.spec("S14")
def test_what_the_controller_writes_again_is_explained(spark: SparkSession) -> None:
    trail = Trail()
    body = {"token_id": "t-1", "owner": "User:alice"}
    trail.forward("CreateDelegationToken", [(*TOKEN, body)])
    trail.writes_again((*TOKEN, body))

    assert findings(spark, trail, trail.audit) == []


HIDDEN = bytes(32) + b"s" * 32
USER = {"name": "bob", "mechanism": "SCRAM-SHA-512", "iterations": 8_192}


def own_work(trail: Trail, event: str, method: str, *changes: tuple[int, str, dict[str, Any]]) -> Record:
    """What a controller claims to have written without a request."""
    claim = trail.writes_again(*changes)
    claim.update(event=event, method=method)
    return claim


@pytest.mark.long
@pytest.mark.spec("S14", "A11")
def test_what_a_controller_does_by_itself_is_explained_and_nothing_else_in_its_name(
    spark: SparkSession,
) -> None:
    """Who has the key of a controller needs no proxy for such a claim."""
    trail = Trail()
    an_end = {"until_ms": trail.clock.now_ms}
    denied, ended, goes_on = (
        an_acl(number, f"DENY User:m{number} * READ TOPIC LITERAL t") for number in range(3)
    )
    trail.forward("CreateAcls", [(*ADD, acl) for acl in (denied, ended | an_end)])
    trail.forward("CreateAcls", [(*ADD, goes_on | {"until_ms": 2**42})])
    trail.forward("AlterUserScramCredentials", [(11, "UserScramCredentialRecord", USER)])
    trail.log[-1]["hidden"] = HIDDEN
    trail.set_quota({"user": "quentin"}, "producer_byte_rate", 7.0)
    quota = json.loads(trail.log[-1]["body"])
    trail.set_owner("orders", "User:olivia")
    token_life(trail, "t-1")
    token_life(trail, "t-2", 2**42)

    # True ones.
    own_work(trail, "acls_ended", "DeleteAcls", (*REMOVE, {"id": ended["id"]}))
    own_work(trail, "topics_gone", "DeleteTopics", (9, "RemoveTopicRecord", {"topic_id": "t"}))
    trail.sweep_tokens("t-1")
    trail.writes_again((*ADD, denied), (*QUOTA, quota))
    trail.writes_again((11, "UserScramCredentialRecord", USER))
    trail.log[-1]["hidden"] = HIDDEN
    before = trail.offset
    # False ones.
    for acl in (denied, goes_on):
        own_work(trail, "acls_ended", "DeleteAcls", (*REMOVE, {"id": acl["id"]}))
    trail.sweep_tokens("t-2")
    own_work(trail, "topics_gone", "DeleteTopics", (*REMOVE, {"id": denied["id"]}))
    trail.writes_again((*ADD, an_acl(9, "ALLOW User:eve * ALL TOPIC LITERAL *")))
    trail.writes_again((*QUOTA, quota | {"value": 8.0}))
    trail.writes_again((11, "UserScramCredentialRecord", USER))
    trail.log[-1]["hidden"] = HIDDEN[:-1] + b"t"
    # One that does not know where its change begins explains no more.
    trail.writes_again((*ADD, an_acl(10, "ALLOW User:eve * ALL TOPIC LITERAL *")))["first_offset"] = None

    found = [each for each in findings(spark, trail, trail.audit) if each[0] != "gaps.unfinished"]

    last = {check: [proof["offset"] for name, proof in found if name == check] for check, _ in found}
    offsets = [row["offset"] for row in trail.log if row["offset"] > before]
    assert last == {"changes.not_by_itself": offsets[:-1], "changes.unexplained": offsets[-1:]}


@pytest.mark.spec("S14")
def test_what_is_written_again_before_the_log_was_read_for_the_first_time_is_no_finding(
    spark: SparkSession,
) -> None:
    """Compaction keeps what was written last, and removals."""
    trail = Trail()
    trail.remove_acl(trail.add_acl(1, "ALLOW User:alice * READ TOPIC LITERAL t"))
    acls = [an_acl(number, "ALLOW User:alice * READ TOPIC LITERAL t") for number in (2, 3)]
    trail.forward("CreateAcls", [(*ADD, acl) for acl in acls])
    for acl in acls:
        trail.writes_again((*ADD, acl))
    trail.log = [row for row in trail.log if row["api_key"] == 19 or row["offset"] > trail.offset - 4]

    found = changes(audit_frame(spark, trail.audit), log_frame(spark, trail.log)).collect()

    assert {row["check"] for row in found} <= {"changes.incomplete_log"}


def test_a_token_made_or_removed_behind_the_controllers_back_is_found(spark: SparkSession) -> None:
    trail = Trail()
    token_life(trail, "t-1")
    swept = trail.sweep_tokens("t-1")
    swept["role"] = "proxy"
    trail.log.append(trail.log[0] | {"offset": trail.offset + 2})

    found = findings(spark, trail, trail.audit)

    assert sorted((check, evidence["record"]) for check, evidence in found) == [
        ("changes.unexplained", TOKEN[1]),
        ("changes.unexplained", REMOVED_TOKEN[1]),
    ]


def test_a_change_found_after_its_commit_was_in_doubt_is_explained(spark: SparkSession) -> None:
    trail = Trail()
    _, received = create(trail, 1)
    received["first_offset"] = None
    audit, log = frames(spark, trail)

    assert changes(audit, log).isEmpty()


@pytest.mark.long
@pytest.mark.spec("D15")
@pytest.mark.parametrize("spoilt", ["", "denied", "runs", "stopped", "another method"])
def test_a_change_of_a_controller_that_was_killed_is_explained_by_its_decision(
    spark: SparkSession, spoilt: str
) -> None:
    trail = Trail()
    create(trail, 1)
    trail.controller.write(
        "authorization",
        forward_id=f"{trail.proxy.proxy_id}-{trail.forwards + 1}",
        principal="User:admin",
        method="AlterClientQuotas" if spoilt == "another method" else "CreateAcls",
        granted=spoilt != "denied",
        metadata_offset=trail.offset,
    )
    lost = create(trail, 2)
    if spoilt == "stopped":
        trail.controller.stop()
    directly = trail.log[-1] | {"offset": trail.offset + 2}
    trail.log.append(directly)
    if spoilt != "runs":
        trail.controller = trail.process("controller-1", role="controller", boot_id="boot-2")
        create(trail, 3)
    audit = audit_frame(spark, [record for record in trail.audit if record not in lost])

    found = changes(audit, log_frame(spark, trail.log)).collect()

    told = sorted((json.loads(row["evidence"])["offset"], row["check"], row["severity"]) for row in found)
    unexplained = "changes.unexplained", "critical"
    # No proxy has recorded the request.
    killed = unexplained if spoilt else ("changes.interrupted", "high")
    assert told == [(trail.log[1]["offset"], *killed), (directly["offset"], *unexplained)]
    if not spoilt:
        assert "controller controller-1/boot-1 was killed before it had recorded the change; forward" in str(
            [row["explanation"] for row in found]
        )


@pytest.mark.spec("D15")
@pytest.mark.parametrize("until_ms", [NOON_MS, None])
def test_a_controller_that_was_killed_has_removed_by_itself_only_what_had_ended(
    spark: SparkSession, until_ms: int | None
) -> None:
    """Who has the key of a controller would say that it was about to delete a topic."""
    trail = Trail()
    acl = an_acl(1, "DENY User:mallory * READ TOPIC LITERAL t") | {"until_ms": until_ms}
    trail.forward("CreateAcls", [(*ADD, acl)])
    trail._commit([(*REMOVE, {"id": acl["id"]})])
    trail.controller = trail.process("controller-1", role="controller", boot_id="boot-2")
    create(trail, 3)

    found = changes(audit_frame(spark, trail.audit), log_frame(spark, trail.log)).collect()

    assert [row["check"] for row in found] == ["changes.interrupted" if until_ms else "changes.unexplained"]


@pytest.mark.long
def test_of_the_last_seconds_of_a_trail_that_goes_on_one_side_may_be_on_its_way(spark: SparkSession) -> None:
    trail = Trail()
    lost, told, received = (create(trail, number) for number in (1, 2, 3))
    gone = told[1], received[0], *lost
    trail.clock.now_ms += TRAIL_LATE_MS - 700
    trail.proxy.high_water()
    audit = audit_frame(spark, [record for record in trail.audit if record not in gone])
    log = log_frame(spark, trail.log)

    until_ms = complete_until_ms(sequence_index(audit))

    assert trail.log[0]["time_ms"] < until_ms < trail.log[1]["time_ms"]
    rows = forwarded(audit, log, until_ms).unionByName(changes(audit, log, until_ms)).collect()
    assert [(row["check"], json.loads(row["evidence"])["offset"]) for row in rows] == [
        ("changes.unexplained", trail.log[0]["offset"])
    ]


@pytest.mark.spec("D13")
@pytest.mark.parametrize(
    "days", [0, pytest.param(-3, marks=pytest.mark.long), pytest.param(400, marks=pytest.mark.long)]
)
def test_a_record_with_a_time_of_its_writers_choice_is_judged_by_its_offset(
    spark: SparkSession, days: int
) -> None:
    trail = Trail()
    create(trail, 1)
    _, received = create(trail, 2)
    create(trail, 3)
    trail.log[1]["time_ms"] += days * 86_400_000
    trail.clock.now_ms += 2 * TRAIL_LATE_MS
    trail.proxy.high_water()
    trail.controller.high_water()
    audit = audit_frame(spark, [record for record in trail.audit if record is not received])

    found = changes(audit, log_frame(spark, trail.log), complete_until_ms(sequence_index(audit))).collect()

    assert [(row["check"], json.loads(row["evidence"])["offset"]) for row in found] == [
        ("changes.unexplained", trail.log[1]["offset"])
    ]


@pytest.mark.long
@pytest.mark.spec("D13")
def test_a_claim_that_does_not_know_its_first_offset_explains_no_change_before_the_claim_before_it(
    spark: SparkSession,
) -> None:
    trail = Trail()
    received = [create(trail, number)[1] for number in (1, 2, 3)]
    received[2]["first_offset"] = None
    audit = audit_frame(spark, [record for record in trail.stop().audit if record is not received[0]])

    found = changes(audit, log_frame(spark, trail.log)).collect()

    assert [(row["check"], json.loads(row["evidence"])["offset"]) for row in found] == [
        ("changes.unexplained", trail.log[0]["offset"])
    ]


def test_a_trail_that_has_ended_is_judged_to_its_end(spark: SparkSession) -> None:
    left = Trail()
    left.clock.now_ms += 3_600_000
    left.proxy.stop()

    for records in (Trail().stop().audit, left.audit):
        assert complete_until_ms(sequence_index(audit_frame(spark, records))) == ALWAYS


def an_object(kind: str, name: str | None, operation: str = "CREATE", **members: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("key", "old_value", "new_value", "error_message", "details", "count"))
    return empty | {"type": kind, "name": name, "operation": operation, "error": "NONE"} | members


def named_acl(number: int, operation: str = "CREATE", **changed: str) -> dict[str, Any]:
    acl = an_acl(number, "ALLOW User:a * READ TOPIC LITERAL t")
    details = {name: acl[name] for name in ("resource_type", "pattern_type", "principal", "host")}
    details |= {"operation_of_acl": acl["operation"], "permission_type": acl["permission_type"]}
    name = changed.pop("name", acl["resource_name"])
    return an_object("ACL", name, operation, details=details | changed)


USER_RECORD: Change = (
    11,
    "UserScramCredentialRecord",
    {"name": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 8192},
)
LIMIT: Change = (
    *QUOTA,
    {"entity": {"user": "bob"}, "key": "producer_byte_rate", "value": 1.0, "remove": False},
)
OWNER: Change = (
    4,
    "ConfigRecord",
    {"resource_type": "TOPIC", "resource_name": "t", "name": "owner", "value": "o"},
)
BOB: dict[str, Any] = {"new_value": "8192", "details": {"mechanism": "SCRAM-SHA-256"}}
LIMITED: dict[str, Any] = {"key": "producer_byte_rate", "new_value": "1.0"}

NAMED: dict[str, tuple[str, list[Any], list[Any]]] = {
    "honest acl": (
        "CreateAcls",
        [(*ADD, an_acl(101, "ALLOW User:a * READ TOPIC LITERAL t"))],
        [named_acl(101)],
    ),
    "in effect before": (
        "CreateAcls",
        [(*ADD, an_acl(102, "ALLOW User:a * READ TOPIC LITERAL t"))],
        [named_acl(102), named_acl(102, principal="User:before")],
    ),
    "honest removal": ("DeleteAcls", [(*REMOVE, {"id": acl_id(101)})], [named_acl(101, "DELETE")]),
    "honest user": ("AlterUserScramCredentials", [USER_RECORD], [an_object("USER", "bob", **BOB)]),
    "honest quota": ("AlterClientQuotas", [LIMIT], [an_object("QUOTA", "user=bob", "SET", **LIMITED)]),
    "honest topic": (
        "CreateTopics",
        [OWNER, (*ADD, an_acl(103, "ALLOW User:a * READ TOPIC LITERAL t"))],
        [
            an_object("TOPIC", "t"),
            an_object("TOPIC", "t", "SET_CONFIG", key="owner", new_value=" o "),
            an_object("TOPIC", "t", "SET_CONFIG", key="acls", new_value="User:a:READ:ALLOW:*"),
        ],
    ),
    "honest cut": (
        "AlterUserScramCredentials",
        [USER_RECORD],
        [{"type": "USER", "operation": "UPSERT", "count": 1, "name": None}],
    ),
    "other principal of an acl": (
        "CreateAcls",
        [(*ADD, an_acl(104, "ALLOW User:a * READ TOPIC LITERAL t"))],
        [named_acl(104, principal="User:innocent")],
    ),
    "other removal": ("DeleteAcls", [(*REMOVE, {"id": acl_id(102)})], [named_acl(102, "DELETE", name="u")]),
    "other user": ("AlterUserScramCredentials", [USER_RECORD], [an_object("USER", "carol", **BOB)]),
    "other limit": (
        "AlterClientQuotas",
        [LIMIT],
        [an_object("QUOTA", "user=bob", "SET", **LIMITED | {"key": "other"})],
    ),
    "other topic": ("IncrementalAlterConfigs", [OWNER], [an_object("TOPIC", "u", "SET_CONFIG", key="owner")]),
    "one left out": (
        "AlterUserScramCredentials",
        [USER_RECORD, (*USER_RECORD[:2], USER_RECORD[2] | {"name": "eve"})],
        [an_object("USER", "bob", **BOB)],
    ),
    "none named": ("AlterUserScramCredentials", [USER_RECORD], []),
    "cut too small": (
        "AlterUserScramCredentials",
        [USER_RECORD, (*USER_RECORD[:2], USER_RECORD[2] | {"name": "eve"})],
        [{"type": "USER", "operation": "UPSERT", "count": 1, "name": None}],
    ),
}


@pytest.mark.spec("D12")
def test_a_record_of_the_log_that_its_request_does_not_name_is_found(spark: SparkSession) -> None:
    trail = Trail()
    for name, (method, changes_made, objects) in NAMED.items():
        for record in trail.forward(method, changes_made):
            record.update(forward_id=name, objects=objects)
    told, received = trail.forward("CreateAcls", [])
    told.update(forward_id="two stories", objects=[named_acl(105)])
    received.update(forward_id="two stories", objects=[named_acl(105, name="u")])

    found = findings(spark, trail, trail.audit)

    assert {(check, evidence["forward_id"]) for check, evidence in found} == {
        *(
            ("changes.unnamed", name)
            for name in NAMED
            if not name.startswith("honest") and name != "in effect before"
        ),
        ("forwarded.different_objects", "two stories"),
    }
    left_out = next(evidence for _, evidence in found if evidence["forward_id"] == "one left out")
    assert left_out["explanation"] == (
        "AlterUserScramCredentials one left out: the metadata log has"
        ' ["USER","eve","SCRAM-SHA-256","8192",""], which the record does not name'
    )


GRANT, TOMORROW_MS = "ALLOW User:a * READ TOPIC LITERAL t", NOON_MS + 86_400_000
TOMORROW = "2026-11-24T12:00:00.000Z"
WITH_TOKEN: Change = (
    10,
    "DelegationTokenRecord",
    {"token_id": "t1", "owner": "User:a", "expiry_timestamp_ms": TOMORROW_MS},
)
A_TOKEN: dict[str, Any] = {
    "key": "expiry_timestamp_ms",
    "new_value": str(TOMORROW_MS),
    "details": {"owner": "User:a"},
}
RETENTION = an_object("TOPIC", "t", "SET_CONFIG", key="retention.ms", new_value="1")
ADMINS: Change = (*OWNER[:2], OWNER[2] | {"value": "User:admin"})
DRY = {"validate_only": "true"}
VALUES: dict[str, tuple[str, list[Any], list[Any]]] = {
    "honest end": (
        "CreateAcls",
        [(*ADD, an_acl(401, GRANT) | {"until_ms": TOMORROW_MS})],
        [named_acl(401) | {"key": "until", "new_value": TOMORROW}],
    ),
    "honest without an end": (
        "CreateAcls",
        [(*ADD, an_acl(401, GRANT))],
        [named_acl(401) | {"key": "until", "old_value": TOMORROW, "new_value": "never"}],
    ),
    "honest end of a user": (
        "AlterUserScramCredentials",
        [(*USER_RECORD[:2], USER_RECORD[2] | {"until_ms": TOMORROW_MS})],
        [an_object("USER", "bob", new_value="8192", details=BOB["details"] | {"until": TOMORROW})],
    ),
    "honest large quota": (
        "AlterClientQuotas",
        [(*QUOTA, LIMIT[2] | {"value": 1e16})],
        [an_object("QUOTA", "user=bob", "SET", key="producer_byte_rate", new_value="1e+16")],
    ),
    "honest removals": (
        "AlterClientQuotas",
        [(*QUOTA, LIMIT[2] | {"value": 0.0, "remove": True})],
        [an_object("QUOTA", "user=bob", "DELETE", key="producer_byte_rate")],
    ),
    "honest token": ("CreateDelegationToken", [WITH_TOKEN], [an_object("TOKEN", "t1", **A_TOKEN)]),
    "honest token whose response was lost": (
        "RenewDelegationToken",
        [WITH_TOKEN],
        [an_object("TOKEN", "t1", "RENEW", error=None, **A_TOKEN | {"new_value": None})],
    ),
    "honest creator": ("CreateTopics", [ADMINS], [an_object("TOPIC", "t")]),
    "no end": (
        "CreateAcls",
        [(*ADD, an_acl(402, GRANT))],
        [named_acl(402) | {"key": "until", "new_value": TOMORROW}],
    ),
    "no end of a user": (
        "AlterUserScramCredentials",
        [USER_RECORD],
        [an_object("USER", "bob", new_value="8192", details=BOB["details"] | {"until": TOMORROW})],
    ),
    "fewer iterations": (
        "AlterUserScramCredentials",
        [(*USER_RECORD[:2], USER_RECORD[2] | {"iterations": 4096})],
        [an_object("USER", "bob", "UPSERT", **BOB)],
    ),
    "larger quota": (
        "AlterClientQuotas",
        [(*QUOTA, LIMIT[2] | {"value": 1e12})],
        [an_object("QUOTA", "user=bob", "SET", **LIMITED)],
    ),
    "quota set in place of a removal": (
        "AlterClientQuotas",
        [LIMIT],
        [an_object("QUOTA", "user=bob", "DELETE", key="producer_byte_rate")],
    ),
    "token of another owner": (
        "CreateDelegationToken",
        [(*WITH_TOKEN[:2], WITH_TOKEN[2] | {"owner": "User:admin"})],
        [an_object("TOKEN", "t1", **A_TOKEN)],
    ),
    "another owner": (
        "IncrementalAlterConfigs",
        [OWNER],
        [an_object("TOPIC", "t", "SET_CONFIG", key="owner", new_value="User:a")],
    ),
    "owner beside another config": ("IncrementalAlterConfigs", [OWNER], [RETENTION]),
    "owner that has not created it": ("CreateTopics", [OWNER], [an_object("TOPIC", "t")]),
    "acl beside another config": ("IncrementalAlterConfigs", [(*ADD, an_acl(403, GRANT))], [RETENTION]),
    "acl beside a deletion": ("DeleteTopics", [(*REMOVE, {"id": acl_id(403)})], [an_object("TOPIC", "t")]),
    "for a dry run": (
        "AlterClientQuotas",
        [LIMIT],
        [an_object("QUOTA", "user=bob", "SET", details=DRY, **LIMITED)],
    ),
}
"""What a controller wrote, and what both records of the request say."""


@pytest.mark.spec("D12", "D13")
def test_what_a_controller_writes_has_the_value_that_was_requested(spark: SparkSession) -> None:
    trail = Trail()
    for name, (method, changes_made, objects) in VALUES.items():
        for record in trail.forward(method, changes_made):
            record.update(forward_id=name, objects=objects)

    found = findings(spark, trail, trail.audit)

    assert sorted({(check, evidence["forward_id"]) for check, evidence in found}) == sorted(
        ("changes.unnamed", name) for name in VALUES if not name.startswith("honest")
    )


NAMELESS = an_object("TOKEN", None, "EXPIRE")
BESIDE: dict[str, dict[str, Any]] = {
    "without a first offset": {"first_offset": None},
    "no objects": {"objects": None},
    "a token without a name": {"objects": [named_acl(301), NAMELESS]},
    "many without room": {"objects": [named_acl(301), NAMELESS | {"type": "ACL", "count": 100}]},
}
"""What the record of a controller says that made another change than was requested beside that."""


def beside(trail: Trail, name: str, requested: str, *others: str) -> tuple[Record, Record]:
    """A request for the first ACL, whose forward is called like `name`; the controller also makes others."""
    acls = [(*ADD, an_acl(301 + n, text)) for n, text in enumerate((requested, *others))]
    told, received = trail.forward("CreateAcls", acls)
    for record in told, received:
        record.update(forward_id=name, objects=[named_acl(301)])
    return told, received


@pytest.mark.spec("D12", "D13")
def test_what_a_controller_changes_beside_what_a_proxy_requested_is_found(spark: SparkSession) -> None:
    trail, wanted = Trail(), "ALLOW User:a * READ TOPIC LITERAL t"
    hidden = []
    for name, said in BESIDE.items():
        beside(trail, name, wanted, "ALLOW User:mallory * ALL TOPIC LITERAL payroll")[1].update(said)
        hidden.append(trail.offset)
    # Both know no name of a token; the proxy has not read which ACLs a filter matched; a late claim fits.
    for record in trail.forward(
        "ExpireDelegationToken", [(26, "RemoveDelegationTokenRecord", {"token_id": "t"})]
    ):
        record["objects"] = [NAMELESS]
    beside(trail, "late", wanted)[1].update(first_offset=None)
    told, received = trail.forward("DeleteAcls", [(*REMOVE, {"id": acl_id(301)})])
    told["objects"] = [named_acl(301, "DELETE_MATCHING") | {"name": None, "error": None}]
    received["objects"] = [named_acl(301, "DELETE")]

    found = findings(spark, trail, trail.audit)

    names = [name for name in BESIDE if name != "without a first offset"]
    assert sorted(
        (check, evidence.get("forward_id", evidence.get("offset"))) for check, evidence in found
    ) == [
        ("changes.unexplained", hidden[0]),
        *(("changes.unnamed", name) for name in sorted(names)),
    ]


@pytest.mark.spec("D13")
@pytest.mark.parametrize("role", ["controller", "proxy"])
def test_a_request_that_the_controller_has_recorded_for_a_proxy_is_unknown_to_proxies(
    spark: SparkSession, role: str
) -> None:
    trail = Trail()
    create(trail, 1)
    acl = an_acl(2, "ALLOW User:mallory * ALL TOPIC LITERAL payroll")
    told, _ = trail.forward("CreateAcls", [(*ADD, acl)], proxy=trail.controller)
    told["role"] = role

    found = findings(spark, trail, trail.audit)

    assert [(check, evidence["forward_id"]) for check, evidence in found] == [
        ("forwarded.unknown_to_proxy", told["forward_id"])
    ]


@pytest.mark.spec("D13", "D15")
@pytest.mark.parametrize("told", ["nothing", "another", "the same", "decided by the proxy"])
def test_a_crash_explains_no_other_change_than_the_proxy_requested(spark: SparkSession, told: str) -> None:
    trail = Trail()
    create(trail, 1)
    decides = trail.proxy if told == "decided by the proxy" else trail.controller
    decides.write(
        "authorization",
        **{
            "role": "controller",
            "forward_id": "lost",
            "principal": "User:admin",
            "method": "CreateAcls",
            "granted": True,
        },
        metadata_offset=trail.offset,
    )
    forwarded_, received_ = beside(trail, "lost", "ALLOW User:a * READ TOPIC LITERAL t")
    if told == "another":
        forwarded_["objects"] = [named_acl(1, name="other")]
    trail.controller = trail.process("controller-1", role="controller", boot_id="boot-2")
    create(trail, 2)
    if decides is trail.proxy:
        trail.process("proxy-1", boot_id="boot-2")
    gone = [received_, *([forwarded_] if told == "nothing" else [])]
    audit = audit_frame(spark, [record for record in trail.audit if record not in gone])

    [row] = changes(audit, log_frame(spark, trail.log)).collect()

    assert (row["check"], row["severity"], "no proxy has recorded that" in row["explanation"]) == {
        "nothing": ("changes.interrupted", "high", True),
        "another": ("changes.unexplained", "critical", False),
        "the same": ("changes.interrupted", "medium", False),
        "decided by the proxy": ("changes.unexplained", "critical", False),
    }[told]


@pytest.mark.spec("D13")
def test_the_offsets_of_forged_claims_are_no_more_than_those_of_the_log(spark: SparkSession) -> None:
    trail = Trail()
    create(trail, 1)
    trail.forward(
        "CreateAcls",
        [(*ADD, an_acl(number, "ALLOW User:a * READ TOPIC LITERAL t")) for number in range(2, 202)],
    )
    true, log_end = 201, trail.offset
    for first in (*range(50), *range(10**6, 10**7, 10**5), 2**63 - 10**5):
        received = trail.forward("CreateAcls", [])[1]
        received.update(first_offset=first, last_offset=first + 99_999)
    audit, log = frames(spark, trail)

    claimed = claimed_offsets(audit, log)

    assert true + log_end < claimed.count() < true + log_end + 141 * 40
    checks = {row["check"] for row in forwarded(audit, log).collect()}
    assert {"forwarded.claimed_twice", "forwarded.not_in_the_log"} <= checks
    assert changes(audit, log).isEmpty()


@pytest.mark.spec("D12")
def test_the_history_of_a_resource_tells_who_when_from_where_and_with_what_outcome(
    spark: SparkSession,
) -> None:
    trail = Trail()
    who = {"client_id": "app", "host": "10.0.0.5", "listener": "SASL", "connection_id": "c1"}
    created, _ = trail.forward("CreateTopics", [])
    created.update(who, objects=[an_object("TOPIC", "payroll", details={"partitions": "3"})])
    trail.forward("CreateTopics", [])[0].update(who, objects=[an_object("TOPIC", "other")])
    about = {"principal": "User:eve", "method": "DeleteRecords", **who}
    asked = an_object("TOPIC", "payroll", "DELETE_RECORDS") | {"error": None}
    trail.proxy.write("admin_request", objects=[asked], correlation_id=1, **about)
    trail.proxy.write("broker_responded", objects=[asked | {"error": "NONE"}], correlation_id=1, **about)
    trail.proxy.write("admin_request", objects=[asked], correlation_id=2, **about)
    told, received = trail.forward("DeleteTopics", [])
    received.update(objects=[an_object("TOPIC", "payroll", "DELETE", error="TOPIC_DELETION_DISABLED")])
    denied = {"resource_type": "TOPIC", "resource_name": "payroll", "operation": "DELETE", "granted": False}
    trail.proxy.write("authorization", correlation_id=9, **(about | denied | {"method": "DeleteTopics"}))
    trail.proxy.write("authorization", correlation_id=8, **(about | denied | {"operation": "READ"}))
    frame = audit_frame(spark, [record for record in trail.audit if record is not told])

    found = history(frame, "topic", "payroll")

    assert [(each["operation"], each.get("principal"), each.get("error")) for each in found] == [
        ("CREATE", "User:admin", "NONE"),
        ("DELETE_RECORDS", "User:eve", "NONE"),
        ("DELETE_RECORDS", "User:eve", None),
        ("DELETE", "User:admin", "TOPIC_DELETION_DISABLED"),
        ("DELETE", "User:eve", "DENIED"),
    ]
    assert lines(found)[0].split("  ")[1] == (
        "CREATE TOPIC payroll by User:admin from 10.0.0.5 with client app (CreateTopics): NONE; partitions=3"
    )
    assert history(frame, "topic", "unheard of") == []


@pytest.mark.spec("D12")
def test_a_correlation_id_used_again_hides_no_request(spark: SparkSession) -> None:
    trail = Trail()
    who = {"principal": "User:eve", "connection_id": "c1", "correlation_id": 1}
    denied = {"resource_type": "TOPIC", "resource_name": "payroll", "operation": "DELETE", "granted": False}

    def ask(name: str, method: str, *errors: str | None) -> None:
        for event, error in zip(("admin_request", "broker_responded"), errors, strict=False):
            asked = an_object("TOPIC", name, "DELETE_RECORDS") | {"error": error}
            trail.proxy.write(event, objects=[asked], **who, method=method)

    # Two that are sent before the first response, and the client is gone before the second.
    ask("other", "DeleteRecords", None)
    ask("payroll", "DeleteRecords", None)
    trail.proxy.write(
        "broker_responded", objects=[an_object("TOPIC", "other")], **who, method="DeleteRecords"
    )
    ask("other", "AlterPartitionReassignments", None, "NONE")
    trail.proxy.write("authorization", **who, **denied, method="DeleteTopics")
    # What was denied is in the outcome, or would be.
    rejected = [an_object("TOPIC", "payroll", "DELETE", error="TOPIC_AUTHORIZATION_FAILED")]
    trail.proxy.write("authorization", **who, **denied, method="ElectLeaders", objects=rejected)
    trail.proxy.write("authorization", **who, **denied, method="ElectLeaders")
    frame = audit_frame(spark, trail.audit)

    found = history(frame, "topic", "payroll")

    assert [(each["method"], each["operation"], each.get("error")) for each in found] == [
        ("DeleteRecords", "DELETE_RECORDS", None),
        ("DeleteTopics", "DELETE", "DENIED"),
        ("ElectLeaders", "DELETE", "TOPIC_AUTHORIZATION_FAILED"),
        ("ElectLeaders", "DELETE", "DENIED"),
    ]
    assert [each["error"] for each in history(frame, "topic", "other")] == ["NONE", "NONE"]


@pytest.mark.spec("D8", "D12")
def test_the_history_tells_what_the_lines_say_whoever_has_edited_the_columns(spark: SparkSession) -> None:
    trail = Trail()
    told, _ = trail.forward("DeleteTopics", [])
    told.update(client_id="app", objects=[an_object("TOPIC", "payroll", "DELETE")])
    about = {"principal": "User:eve", "method": "DeleteTopics", "connection_id": "c1", "correlation_id": 1}
    denied = {"resource_type": "TOPIC", "resource_name": "payroll", "operation": "DELETE", "granted": False}
    trail.proxy.write("authorization", **about, **denied)
    true = table(spark, [line for each in trail.processes for line in seal(each)])
    edited = {name: F.lit("another") for name in ("principal", "host", "client_id", "method")}

    found = history(true.withColumns(edited), "topic", "payroll")

    assert found == history(true, "topic", "payroll")
    assert [each["principal"] for each in found] == ["User:admin", "User:eve"]


MATCHES = {
    "group:readers": an_object("GROUP", "readers", "DELETE"),
    "user:User:bob": an_object("USER", "bob", "UPSERT"),
    "acl:orders": an_object("ACL", "orders"),
    "acl:User:carol": an_object("ACL", "x", details={"principal": "User:carol"}),
    "quota:dave": an_object("QUOTA", "client-id=app,user=dave", "SET"),
    "quota:CN=erin,O=x": an_object("QUOTA", "client-id,user=CN=erin,O=x", "SET"),
    "config:retention.ms": an_object("TOPIC", "t", "SET_CONFIG", key="retention.ms"),
    "broker:1": an_object("BROKER_LOGGER", "1", "SET_CONFIG", key="kafka", new_value="DEBUG"),
    "token:t1": an_object("TOKEN", "t1"),
    f"group:{'g' * 2_000}": an_object("GROUP", str(named("GROUP", "g" * 2_000, "DELETE")["name"]), "DELETE"),
}


@pytest.mark.spec("D12")
def test_a_resource_is_found_by_its_type_and_its_name(spark: SparkSession) -> None:
    trail = Trail()
    trail.forward("Some", [])[0].update(objects=[*MATCHES.values(), an_object("USER", "a\u202e\u001b[2J")])
    used = {"resource_type": "TRANSACTIONAL_ID", "resource_name": "tx", "operation": "WRITE", "granted": True}
    trail.proxy.write("authorization_summary", principal="User:a", method="InitProducerId", **used)
    frame = audit_frame(spark, trail.audit)
    each = frame.select(F.explode("objects").alias("object"))

    matching = [matches(F.col("object"), *resource.split(":", 1)) for resource in MATCHES]
    rows = each.select(F.array(*(F.coalesce(found, F.lit(False)) for found in matching)).alias("found"))

    expected = [[place == number for place in range(len(MATCHES))] for number in range(len(MATCHES))]
    assert [row["found"] for row in rows.collect()] == [*expected, [False] * len(MATCHES)]
    (found,) = history(frame, "transactional-id", "tx")
    assert (found["principal"], found["method"], found["error"]) == ("User:a", "InitProducerId", "NONE")
    assert lines([found | {"client_id": "\u001b[2J\u202e"}])[0].count("\\u") == 2
