"""(d) on records that a session and a controller's quota made themselves, over one metadata log's limits."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from forwarding.controller.audit_events import mutations_counted, mutations_throttled
from forwarding.controller.mutations import charge_creation
from forwarding.envelope import ForwardedRequest, Sender
from proxy.audit.record import EVENT_FIELDS, AuditEvent
from proxy.metadata.image import QuotasImage
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.quota.keys import CONTROLLER_MUTATION_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from proxy.quota.mutation import MutationQuotas
from proxy.security.principal import Principal
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import RequestHeader
from spark_audit.reconcile.quotas import quotas
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, gate_with, produce, produced, sasl
from tests.spark.audit_trail import Process, Record, Trail
from tests.spark.frames import frames
from tests.support.metadata_log import quotas_image

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "D6", "Q12")]

PERCENT, RATE = 1.0, 0.5
LIMITS = quotas_image(
    {
        QuotaEntity(user="alice"): {REQUEST_PERCENTAGE: 80.0, CONTROLLER_MUTATION_RATE: RATE},
        QuotaEntity(user="alice", client_id=DEFAULT): {REQUEST_PERCENTAGE: PERCENT},
    }
)


def logged() -> Trail:
    trail = Trail()
    trail.set_quota({"user": "alice"}, REQUEST_PERCENTAGE, 80.0)
    trail.set_quota({"user": "alice"}, CONTROLLER_MUTATION_RATE, RATE)
    trail.set_quota({"user": "alice", "client-id": None}, REQUEST_PERCENTAGE, PERCENT)
    return trail


def of_a_session(trail: Trail) -> list[AuditEvent]:
    """alice takes 300 ms of the loop, of which she may have 100, and is told to wait."""
    image = replace(image_with("READ GROUP team"), quotas=LIMITS, offset=trail.offset + 1)
    talk = Conversation(gate=gate_with(image))
    for spent_ms in (0, 300, 0):
        message = t.HeartbeatRequest(group_id="team", generation_id=1, member_id="m")
        talk.asks(ApiKey.HEARTBEAT, 4, message, client_id="the app")
        talk.session.machine.spent_on_requests(spent_ms * 1_000_000, talk.now_ms)
        talk.answers(ApiKey.HEARTBEAT, 4, t.HeartbeatResponse())
        talk.passes(1_000)
    assert talk.mutes
    return talk.summaries()


def of_a_login(trail: Trail, limits: QuotasImage) -> list[AuditEvent]:
    """The interval ends while a client is in the middle of its login."""
    image = replace(image_with(), quotas=limits, offset=trail.offset + 1)
    talk = Conversation(gate=gate_with(image), sasl_listener=sasl(), principal="ANONYMOUS")
    talk.shakes_hands()
    talk.session.machine.spent_on_requests(3_000_000, talk.now_ms)
    talk.passes(1_000)
    return talk.summaries()


def of_a_controller(
    trail: Trail, limits: QuotasImage = LIMITS, groups: tuple[str, ...] = ()
) -> Iterator[AuditEvent]:
    """alice makes a topic of twenty partitions, and another one is refused: she may make five at once."""
    topic = t.CreateTopicsRequest.CreatableTopic
    request = t.CreateTopicsRequest(topics=[topic(name=name, num_partitions=20) for name in ("a", "b")])
    header = RequestHeader(ApiKey.CREATE_TOPICS, 7, 1, "the app", 0)
    forwarded = ForwardedRequest(header, request, Principal("User", "alice"), "10.0.0.1", "f-1")
    sender = Sender(Principal("User", "proxy-1"), "10.0.0.2", "CONTROLLER", None)
    now_ms = trail.clock()
    quota = MutationQuotas().of_request(True, limits, "alice", "the app", now_ms, groups)
    assert quota is not None
    charged = charge_creation(request, t.CreateTopicsResponse(), quota, now_ms)
    assert ([topic.name for topic in charged.remaining.topics], quota.taken) == (["a"], 20)
    yield mutations_counted(sender, forwarded, quota, trail.offset + 1, now_ms)
    yield mutations_throttled(sender, forwarded, quota, trail.offset + 1, quota.throttle_time_ms(now_ms))


def keep(process: Process, event: AuditEvent) -> Record:
    told: dict[str, Any] = {name: getattr(event, name) for name in EVENT_FIELDS}
    return process.write(told.pop("event"), **told)


@pytest.fixture
def whole() -> Trail:
    trail = logged()
    for event in of_a_session(trail):
        keep(trail.proxy, event)
    for event in of_a_controller(trail):
        keep(trail.controller, event)
    return trail


def test_records_of_throttled_clients_are_in_accord_with_the_log(spark: SparkSession, whole: Trail) -> None:
    limits = {
        (record["event"], record["quota_key"], record["quota_id"], record["quota_limit"])
        for record in whole.audit
        if record["quota_key"]
    }

    assert quotas(*frames(spark, whole)).collect() == []
    assert limits == {
        ("throttled", REQUEST_PERCENTAGE, "alice:the app", PERCENT),
        ("quota_used", REQUEST_PERCENTAGE, "alice:the app", PERCENT),
        ("throttled", CONTROLLER_MUTATION_RATE, "alice:", RATE),
        ("quota_used", CONTROLLER_MUTATION_RATE, "alice:", RATE),
    }


@pytest.mark.long
def test_a_limit_changed_in_any_of_them_is_found(spark: SparkSession, whole: Trail) -> None:
    spoiled = []
    for process in whole.processes:
        for number, record in enumerate(process.records):
            if record["quota_key"]:
                # Each another limit, so that each is a finding of its own.
                record["quota_limit"] += 10 + number
                spoiled.append((process.proxy_id, record["sequence"], record["quota_limit"]))

    rows = quotas(*frames(spark, whole)).collect()

    proofs = [json.loads(row["evidence"]) for row in rows if row["check"] == "quotas.other_limit"]
    told = [(proof["proxy_id"], proof["first_sequence"], proof["quota_limit"]) for proof in proofs]
    assert sorted(told) == sorted(spoiled)
    assert len(spoiled) == len(rows) == 4


@pytest.mark.parametrize(
    ("entity", "quota_id"),
    [({"user": None}, "ANONYMOUS:")],
    ids=["user"],
)
def test_the_time_of_a_login_has_the_default_quota_of_anonymous(
    spark: SparkSession, entity: dict[str, str | None], quota_id: str
) -> None:
    trail = Trail()
    trail.set_quota(entity, REQUEST_PERCENTAGE, 50.0)
    governing = QuotaEntity.of(entity.items())
    [used] = of_a_login(trail, quotas_image({governing: {REQUEST_PERCENTAGE: 50.0}}))
    # A process that records its own settings is also checked where the log has no limit.
    proxy = trail.process("proxy-2", settings={"quota.mode": "enforce"})
    record = keep(proxy, used)
    shown = record["event"], record["principal"], record["quota_id"], record["quota_limit"]
    assert shown == ("quota_used", None, quota_id, 50.0)

    assert quotas(*frames(spark, trail)).collect() == []

    record["quota_limit"] = 60.0
    [found] = quotas(*frames(spark, trail)).collect()
    assert found["check"] == "quotas.other_limit"
    assert "limited User:ANONYMOUS to request_percentage 60.0" in found["explanation"]


PAYMENTS = "Group:payments"
OF_MEMBERS = {
    QuotaEntity(user=DEFAULT): {PRODUCER_BYTE_RATE: 1_000_000.0, CONTROLLER_MUTATION_RATE: 1_000.0},
    QuotaEntity(user=PAYMENTS): {PRODUCER_BYTE_RATE: 100.0, CONTROLLER_MUTATION_RATE: RATE},
    QuotaEntity(user=PAYMENTS, client_id=DEFAULT): {REQUEST_PERCENTAGE: PERCENT},
    QuotaEntity(user="Group:staff"): {PRODUCER_BYTE_RATE: 50.0},
}


@pytest.fixture
def of_members() -> Trail:
    """alice uses all her quotas on two connections at once: as a member of two groups, and of none."""
    trail = Trail()
    limits = quotas_image(OF_MEMBERS)
    for entity, keys in OF_MEMBERS.items():
        for key, limit in keys.items():
            trail.set_quota(entity.parts, key, limit)
    gate = gate_with(replace(image_with("WRITE TOPIC orders"), quotas=limits, offset=trail.offset + 1))
    for groups in (("payments", "staff"), ()):
        talk = Conversation(gate=gate)
        talk.session.machine.authentication.principal = Principal("User", "alice", groups=groups)
        for _ in range(3):
            talk.asks(ApiKey.PRODUCE, 9, produce("orders", records=bytes(5_000)), client_id="the app")
            talk.session.machine.spent_on_requests(200_000_000, talk.now_ms)
            talk.answers(ApiKey.PRODUCE, 9, produced("orders"))
            talk.passes(sum(talk.mutes) or 1_000)
            if groups:
                assert talk.mutes
                talk.mutes.clear()
                talk.is_unmuted()
        assert talk.mutes == []
        for event in talk.summaries():
            keep(trail.proxy, event)
    for event in of_a_controller(trail, limits, ("payments", "staff")):
        keep(trail.controller, event)
    return trail


@pytest.mark.spec("A8")
def test_records_of_members_are_in_accord_with_the_quotas_of_their_groups(
    spark: SparkSession, of_members: Trail
) -> None:
    told = {
        (record["event"], record["quota_id"], record["quota_limit"])
        for record in of_members.audit
        if record["quota_key"]
    }
    assert told == {
        ("throttled", "alice@payments:", 100.0),
        ("quota_used", "alice@payments:the app", PERCENT),
        ("throttled", "alice@payments:", RATE),
        ("quota_used", "alice@payments:", RATE),
    }
    assert quotas(*frames(spark, of_members)).collect() == []


@pytest.mark.spec("A8")
def test_the_limit_of_another_group_or_of_no_member_is_found(spark: SparkSession, of_members: Trail) -> None:
    planted = {"throttled": (50.0, "alice@staff:"), "quota_used": (1_000_000.0, "alice:the app")}
    expected = set()
    for record in of_members.audit:
        if record["quota_key"] and record["role"] == "proxy" and record["event"] in planted:
            record["quota_limit"], record["quota_id"] = planted.pop(record["event"])
            expected.add((record["sequence"], record["quota_limit"], "payments"))
    # What a member has sent, claimed to be sent as by somebody without groups, is within the default quota.
    # What somebody without groups has sent, claimed to be of a member, is more than a member may send.
    for record in of_members.audit:
        if record["event"] == "authorization_summary" and not record["groups"]:
            record["groups"] = ["staff"]

    rows = quotas(*frames(spark, of_members)).collect()

    told: dict[str, list[dict[str, Any]]] = {row["check"]: [] for row in rows}
    for row in rows:
        told[row["check"]].append(json.loads(row["evidence"]))
    found = {
        (proof["first_sequence"], proof["quota_limit"], proof["groups"][0])
        for proof in told.pop("quotas.other_limit")
    }
    assert found == expected
    ((name, (exceeded,)),) = told.items()
    assert (name, exceeded["quota_id"], exceeded["quota_limit"]) == ("quotas.exceeded", "alice@staff:", 50.0)
