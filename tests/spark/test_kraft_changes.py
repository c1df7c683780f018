"""(c) and (f) with Kafka's own controller, in trails made up: what explains a record of its log."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_audit.reconcile.forwarded import forwarded
from spark_audit.reconcile.kraft_changes import kraft_changes
from spark_audit.reconcile.kraft_claims import to_penstock_controllers
from spark_audit.report.history import history
from spark_audit.trail.audit_records import SILENCE_MS
from tests.spark.audit_trail import Clock, Process, Record, acl_id, an_acl
from tests.spark.frames import audit_frame, log_frame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "D6")]

NAMES = {
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    14: "ClientQuotaRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    20: "NoOpRecord",
    26: "RemoveDelegationTokenRecord",
}
Change = list[str | None]
IN_MODE = {"controller.mode": "kraft"}
CREDENTIAL = 11, {"name": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096}


@dataclass
class Cluster:
    """Kafka's log from its beginning, and one proxy that began at once."""

    clock: Clock = field(default_factory=Clock)
    log: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.proxy = Process("proxy-1", self.clock, settings=dict(IN_MODE))
        self.proxy.start()
        self.write((12, {"name": "metadata.version", "level": 29}), (27, {}))

    @property
    def end(self) -> int:
        return len(self.log)

    def write(self, *records: tuple[int, dict[str, Any]]) -> int:
        """Give the offset of the first."""
        time_ms = self.clock()
        for api_key, body in records:
            self.log.append(
                {
                    "offset": self.end,
                    "time_ms": time_ms,
                    "api_key": api_key,
                    "record": NAMES.get(api_key, "FeatureLevelRecord"),
                    "version": 0,
                    "body": json.dumps(body, sort_keys=True, separators=(",", ":")),
                    "entity": None,
                    "from_snapshot": False,
                }
            )
        return self.end - len(records)

    def forwarded(self, name: str, first: int, *changes: Change, **fields: Any) -> Record:
        shape = {
            "forward_id": name,
            "method": "Some",
            "principal": "User:admin",
            "first_offset": first,
            "last_offset": self.end - 1,
            "envelope_error_code": 0,
            "error_code": 0,
            "count": 1,
            "changes": list(changes),
        }
        return self.proxy.write("forwarded", **(shape | fields))

    def done(
        self, name: str, records: Sequence[tuple[int, dict[str, Any]]], *changes: Change, **fields: Any
    ) -> int:
        """Asked for and written; gives the first offset."""
        first = self.end
        self.write(*records)
        self.forwarded(name, first, *changes, **fields)
        return first

    def findings(self, spark: SparkSession) -> list[tuple[str, Mapping[str, Any]]]:
        self.proxy.stop()
        rows = kraft_changes(audit_frame(spark, self.proxy.records), log_frame(spark, self.log)).collect()
        found = [(row["check"], json.loads(row["evidence"])) for row in rows]
        return sorted(found, key=lambda each: (each[0], each[1].get("offset", 0)))


def acl(number: int, user: str = "alice") -> tuple[dict[str, str], Change]:
    fields = an_acl(number, f"ALLOW User:{user} * READ TOPIC LITERAL orders")
    return fields, ["TOPIC", "LITERAL", "orders", f"User:{user}", "*", "READ", "ALLOW"]


def added(change: Change) -> Change:
    return ["AccessControlEntryRecord", *change]


def removed(change: Change) -> Change:
    return ["RemoveAccessControlEntryRecord", *change]


def quota(user: str | None, value: float, *, remove: bool = False) -> tuple[int, dict[str, Any]]:
    return 14, {"entity": {"user": user}, "key": "producer_byte_rate", "value": value, "remove": remove}


def config(topic: str, key: str, value: str | None) -> tuple[int, dict[str, Any]]:
    return 4, {"resource_type": "TOPIC", "resource_name": topic, "name": key, "value": value}


def topic(name: str, topic_id: str) -> list[tuple[int, dict[str, Any]]]:
    return [
        (2, {"name": name, "topic_id": topic_id}),
        config(name, "cleanup.policy", "compact"),
        (3, {"topic_id": topic_id, "partition_id": 0}),
    ]


def ask_for_all(cluster: Cluster) -> None:
    """What changed nothing is not missed."""
    fields, alice = acl(1)
    cluster.done("add", [(18, fields)], added(alice))
    cluster.done("again", [], added(alice))
    cluster.done("remove", [(19, {"id": fields["id"]})], removed(alice))
    limit: Change = ["ClientQuotaRecord", "producer_byte_rate", "user", "1e16"]
    cluster.done("quota", [quota(None, 1e16)], limit)
    cluster.done("same quota", [], limit)
    cluster.done("no such quota", [], ["ClientQuotaRecord", "consumer_byte_rate", "user=bob", None])
    cluster.done("no quota", [quota(None, 0.0, remove=True)], [*limit[:-1], None])
    created = topic("orders", acl_id(50))
    configured: Change = ["ConfigRecord", "TOPIC", "orders", "cleanup.policy", "compact"]
    cluster.done(
        "topic", created, ["TopicRecord", "orders", acl_id(50)], configured, ["PartitionRecord", "orders"]
    )
    cluster.done("same config", [], configured)
    cluster.done("append", [config("orders", "x", "a,b")], ["ConfigRecord", "TOPIC", "orders", "x"])
    cluster.done("all configs", [config("orders", "x", None)], ["ConfigRecord", "TOPIC", "orders"])
    cluster.done("more", [(3, {"topic_id": acl_id(50), "partition_id": 1})], ["PartitionRecord", "orders"])
    cluster.done("gone", [(9, {"topic_id": acl_id(50)})], ["RemoveTopicRecord", "orders"])


def let_brokers_do_theirs(cluster: Cluster) -> None:
    cluster.write(*topic("__consumer_offsets", acl_id(60)), (20, {}))
    cluster.write(*topic("audit", acl_id(61)), (20, {}))
    expiry = cluster.clock.now_ms + 150
    token = {"token_id": "t", "owner": "User:a", "requester": "User:a", "expiry_timestamp_ms": expiry}
    cluster.done("token", [(10, token)], ["DelegationTokenRecord", str(expiry), "t"])
    cluster.write((26, {"token_id": "t"}))
    asked = {"granted": True, "resource_type": "TOPIC", "resource_name": "asked-for", "operation": "DESCRIBE"}
    cluster.write(*topic("asked-for", acl_id(62)))
    cluster.proxy.write("authorization_summary", method="Metadata", **asked)
    cluster.write((4, {"resource_type": "BROKER", "resource_name": "1", "name": "log.cleaner.threads"}))
    altered = {"granted": True, "resource_type": "CLUSTER", "resource_name": "kafka-cluster"}
    cluster.proxy.write(
        "authorization",
        method="IncrementalAlterConfigs",
        operation="ALTER_CONFIGS",
        correlation_id=3,
        **altered,
    )


def leave_in_doubt(cluster: Cluster) -> None:
    """Sent twice, or never answered: it may have been done or not."""
    told: Change = ["UserScramCredentialRecord", "alice", "SCRAM-SHA-256", "4096"]
    cluster.done("twice", [CREDENTIAL, CREDENTIAL], told, count=2)
    cluster.done("timed out", [], told, envelope_error_code=7, error_code=7, last_offset=None)
    cluster.write(CREDENTIAL)
    cluster.done("filters", [], ["RemoveAccessControlEntryRecord"], envelope_error_code=7, last_offset=None)


def test_what_was_asked_for_and_what_brokers_do_by_themselves_is_explained(spark: SparkSession) -> None:
    cluster = Cluster()
    ask_for_all(cluster)
    let_brokers_do_theirs(cluster)
    leave_in_doubt(cluster)

    assert cluster.findings(spark) == []


def test_one_correlation_id_of_two_requests_is_no_finding(spark: SparkSession) -> None:
    cluster = Cluster()
    fields, alice = acl(1)
    asked = {"method": "IncrementalAlterConfigs", "correlation_id": 3, "connection_id": "c-1"}
    cluster.done("of a topic", [(18, fields)], added(alice), **asked)
    altered = {"granted": True, "resource_type": "CLUSTER", "resource_name": "kafka-cluster"}
    cluster.proxy.write("authorization", operation="ALTER_CONFIGS", **asked, **altered)
    cluster.proxy.write("admin_request", **asked)
    config_of_broker = {"resource_type": "BROKER", "resource_name": "1", "name": "log.cleaner.threads"}
    cluster.write((4, config_of_broker | {"value": "2"}))

    cluster.done("of the topic again", [], added(alice), **asked)

    assert cluster.findings(spark) == []


@pytest.mark.spec("D18", "D12")
def test_a_change_that_a_proxy_has_refused_is_in_the_history_and_not_looked_for_in_the_log(
    spark: SparkSession,
) -> None:
    cluster = Cluster()
    fields, alice = acl(1)
    cluster.done("add", [(18, fields)], added(alice))
    about = {"method": "CreateAcls", "principal": "User:eve", "host": "10.0.0.5"}
    message = "After this change an assertion would not hold."
    grant = an_object("ACL", "payroll", "CREATE", error="POLICY_VIOLATION", error_message=message)
    for number, error_code in enumerate([44, 0]):
        told = about | {"forward_id": f"proxy-1/boot-1/refused-{number}", "error_code": error_code}
        told["schema_version"] = 2
        if error_code:
            cluster.proxy.write("request_refused", message=message, **told)
        cluster.proxy.write("forwarded", envelope_error_code=0, objects=[grant], **told)

    assert cluster.findings(spark) == []
    audit = audit_frame(spark, cluster.proxy.records)
    found = forwarded(to_penstock_controllers(audit), log_frame(spark, [])).collect()
    # A proxy that reports success has not refused it, whatever the id.
    assert [(row["check"], json.loads(row["evidence"])["forward_id"]) for row in found] == [
        ("forwarded.unknown_to_controller", "proxy-1/boot-1/refused-1")
    ]
    assert [
        (each["principal"], each["operation"], each["error"], each["error_message"])
        for each in history(audit, "acl", "payroll")
    ] == [("User:eve", "CREATE", "POLICY_VIOLATION", message)] * 2


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[tuple[str, int | str]]]:
    """Of one trail with many faults: by check, each record and its offset since the first, or the forward."""
    cluster = Cluster()
    fields, alice = acl(1)
    cluster.done("add", [(18, fields)], added(alice))
    begin = go_past_the_proxy(cluster)
    lose(cluster)
    found: dict[str, list[tuple[str, int | str]]] = {}
    for check, proof in cluster.findings(spark):
        about = proof["forward_id"] if "forward_id" in proof else proof["offset"] - begin
        found.setdefault(check, []).append((proof.get("record", ""), about))
    return found


def go_past_the_proxy(cluster: Cluster) -> int:
    twin, _ = acl(2)
    token = {"token_id": "t", "owner": "User:a", "requester": "User:a", "expiry_timestamp_ms": 2**60}
    begin = cluster.write((18, twin), quota("mallory", 1.0), *topic("by-hand", acl_id(70)), (20, {}))
    cluster.write(
        config("orders", "cleanup.policy", "delete"), CREDENTIAL, (10, token), (26, {"token_id": "t"})
    )
    # The request of another moment, or for another value, explains none of it.
    cluster.done("elsewhere", [], ["ClientQuotaRecord", "producer_byte_rate", "user=mallory", "1.0"], count=2)
    cluster.forwarded(
        "other", begin, ["ClientQuotaRecord", "producer_byte_rate", "user=mallory", "2.0"], count=2
    )
    twice = cluster.write((11, {"name": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 4096}))
    cluster.write((11, {"name": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 4096}))
    cluster.forwarded("one of two", twice, ["UserScramCredentialRecord", "bob", "SCRAM-SHA-256", "4096"])
    return begin


def lose(cluster: Cluster) -> None:
    _, carol = acl(3, "carol")
    fields, bob = acl(4, "bob")
    cluster.done("lost", [], added(carol))
    cluster.done(
        "lost quota", [quota("a", 2.0)], ["ClientQuotaRecord", "producer_byte_rate", "user=a", "3.0"]
    )
    cluster.done("lost topic", [], ["TopicRecord", "t", acl_id(5)], ["PartitionRecord", "t"])
    cluster.done("there", [(18, fields)], added(bob))
    first = cluster.end
    cluster.forwarded("too far", first, removed(bob), last_offset=first + 3)


def test_what_nobody_asked_for_is_found_and_a_topic_is_one_finding(found: dict[str, Any]) -> None:
    assert found["changes.unexplained"] == [
        ("AccessControlEntryRecord", 0),
        ("ClientQuotaRecord", 1),
        ("TopicRecord", 2),
        ("ConfigRecord", 6),
        ("UserScramCredentialRecord", 7),
        ("DelegationTokenRecord", 8),
        ("RemoveDelegationTokenRecord", 9),
        # One request explains one of two changes that are the same.
        ("UserScramCredentialRecord", 11),
        # What was asked for had another value.
        ("ClientQuotaRecord", 12),
    ]


def test_an_acknowledged_change_that_is_not_there_is_found_with_its_request(found: dict[str, Any]) -> None:
    lost = sorted(about for _, about in found["forwarded.not_in_the_log"])

    assert lost == ["lost", "lost quota", "lost topic"]
    assert found["forwarded.unverifiable"] == [("", "too far")]
    assert len(found) == 3


@pytest.mark.long
def test_what_was_before_the_first_proxy_and_in_a_snapshot_is_nobodys(spark: SparkSession) -> None:
    cluster = Cluster()
    del cluster.log[0]
    for number, record in enumerate(cluster.log):
        record["offset"] = 100 + number
    fields, alice = acl(1)
    before = cluster.log[0] | {"offset": 10, "api_key": 18, "record": NAMES[18], "body": json.dumps(fields)}
    cluster.log.insert(0, before | {"time_ms": cluster.proxy.records[0]["time_ms"] - 1})
    cluster.log.insert(1, before | {"offset": 99, "from_snapshot": True})
    # Of the stretch that only the snapshot tells of, nothing can be asked for.
    cluster.proxy.write(
        "forwarded",
        forward_id="in the hole",
        first_offset=50,
        last_offset=55,
        count=1,
        envelope_error_code=0,
        changes=[removed(alice)],
    )

    found = cluster.findings(spark)

    assert found == [("changes.incomplete_log", {"hole_first": 11, "hole_last": 99})]


@pytest.mark.long
def test_the_end_of_a_trail_that_goes_on_is_judged_later(spark: SparkSession) -> None:
    cluster = Cluster()
    fields, _ = acl(1)
    offset = cluster.write((18, fields))
    cluster.proxy.high_water()
    log = log_frame(spark, cluster.log)

    now = kraft_changes(audit_frame(spark, cluster.proxy.records), log).collect()
    cluster.clock.now_ms += 60_000
    cluster.proxy.high_water()
    later = kraft_changes(audit_frame(spark, cluster.proxy.records), log).collect()

    assert now == []
    assert [json.loads(row["evidence"])["offset"] for row in later] == [offset]


@pytest.mark.spec("D13")
def test_a_clock_that_is_ahead_makes_no_change_of_this_moment_unexplained(spark: SparkSession) -> None:
    """The log is read after the trail, whose newest record is one of a process that has stopped."""
    cluster = Cluster()
    ahead = Process("proxy-2", cluster.clock, settings=dict(IN_MODE))
    ahead.start()
    cluster.clock.now_ms += 60_000
    cluster.write((18, acl(1)[0]))
    cluster.proxy.high_water()
    ahead.stop()
    for record in ahead.records:
        record["appended_ms"] = record["time_ms"]
        record["time_ms"] += SILENCE_MS + 60_000
    audit = audit_frame(spark, [*cluster.proxy.records, *ahead.records])

    assert kraft_changes(audit, log_frame(spark, cluster.log)).collect() == []


@pytest.mark.long
@pytest.mark.spec("D13")
@pytest.mark.parametrize("shift_ms", [-86_400_000, 86_400_000 * 365])
def test_a_change_is_judged_where_it_is_in_the_log_whatever_its_time_says(
    spark: SparkSession, shift_ms: int
) -> None:
    """Who runs a controller sets its clock: before the first proxy, or beyond the end of the trail."""
    cluster = Cluster()

    def decide() -> None:
        shape = {"principal": "User:alice", "resource_type": "TOPIC", "resource_name": "orders"}
        cluster.proxy.write("authorization", granted=False, metadata_offset=cluster.end - 1, **shape)
        cluster.clock.now_ms += 60_000

    fields, _ = acl(1)
    before = cluster.write((18, fields))
    cluster.log[before]["time_ms"] = cluster.proxy.records[0]["time_ms"] - 1
    decide()
    offset = cluster.write((18, acl(2)[0]))
    cluster.log[offset]["time_ms"] += shift_ms
    decide()
    cluster.proxy.high_water()

    found = kraft_changes(audit_frame(spark, cluster.proxy.records), log_frame(spark, cluster.log)).collect()

    assert [json.loads(row["evidence"])["offset"] for row in found] == [offset]


@pytest.mark.long
def test_a_proxy_that_crashed_and_never_came_back_does_not_keep_the_log_from_being_judged(
    spark: SparkSession,
) -> None:
    cluster = Cluster()
    crashed, cluster.proxy = cluster.proxy, Process("proxy-2", cluster.clock, settings=dict(IN_MODE))
    cluster.proxy.start()
    cluster.clock.now_ms += SILENCE_MS + 60_000
    fields, _ = acl(1)
    offset = cluster.write((18, fields))
    cluster.proxy.stop()
    trail = audit_frame(spark, [*crashed.records, *cluster.proxy.records])

    found = kraft_changes(trail, log_frame(spark, cluster.log)).collect()

    assert [json.loads(row["evidence"])["offset"] for row in found] == [offset]


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [[], ["ClientQuotaRecord", "producer_byte_rate", "user=alice", "fast"], [None], ["ConfigRecord"]],
)
def test_a_change_that_is_told_in_nobodys_words_ends_nothing(spark: SparkSession, change: Change) -> None:
    cluster = Cluster()
    cluster.done("odd", [], change)

    assert [check for check, _ in cluster.findings(spark) if check != "changes.missing"] == []


def an_object(kind: str, name: str, operation: str, **members: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("key", "old_value", "new_value", "error_message", "details", "count"))
    return empty | {"type": kind, "name": name, "operation": operation, "error": "NONE"} | members


@pytest.mark.spec("D12")
def test_a_forward_that_names_other_objects_than_it_has_changed_is_found(spark: SparkSession) -> None:
    cluster = Cluster()
    told: Change = ["UserScramCredentialRecord", "alice", "SCRAM-SHA-256", "4096"]
    by_sha = {"details": {"mechanism": "SCRAM-SHA-256"}, "key": "iterations"}
    limit: Change = ["ClientQuotaRecord", "producer_byte_rate", "client-id=app", "user=alice", "2.0"]
    limited = quota("alice", 2.0)
    limited[1]["entity"]["client-id"] = "app"
    of_topic = [an_object("TOPIC", "t", "SET_CONFIG", key="retention.ms"), an_object("TOPIC", "t", "CREATE")]
    made: tuple[Change, ...] = (["TopicRecord", "t", acl_id(5)], ["PartitionRecord", "t"])
    cluster.done("honest", [CREDENTIAL], told, objects=[an_object("USER", "alice", "UPSERT", **by_sha)])
    named = an_object("QUOTA", "client-id=app,user=alice", "SET", key="producer_byte_rate")
    cluster.done("honest quota", [limited], limit, objects=[named])
    cluster.done("honest topic", topic("t", acl_id(5)), *made, objects=of_topic)
    failed = an_object("TOPIC", "u", "REASSIGN_PARTITIONS", error="NO_REASSIGNMENT_IN_PROGRESS")
    cluster.done("honest move", [], ["PartitionChangeRecord", "u", "0"], objects=[failed])
    renewed = an_object("TOKEN", "token-1", "RENEW")
    cluster.done("honest renewal", [], ["DelegationTokenRecord", "9"], objects=[renewed], count=2)
    cluster.done("other user", [CREDENTIAL], told, objects=[an_object("USER", "carol", "UPSERT", **by_sha)])
    cluster.done("nothing", [CREDENTIAL], told, objects=[])
    # The operator of the proxy lets it drop the request, and report success.
    cluster.done("dropped", [], objects=[an_object("USER", "mallory", "DELETE", **by_sha)])
    tried = an_object("TOPIC", "v", "CREATE", details={"validate_only": "true"})
    cluster.done("honest try", [], objects=[tried])

    found = [
        (check, proof["forward_id"]) for check, proof in cluster.findings(spark) if "forward_id" in proof
    ]

    assert sorted(found) == [
        ("changes.not_made", "dropped"),
        ("changes.not_made", "other user"),
        ("changes.unnamed", "nothing"),
        ("changes.unnamed", "other user"),
    ]
