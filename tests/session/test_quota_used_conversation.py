"""What the audit is told of a quota: the time that it was counted for, and at which image its limit holds."""

from dataclasses import replace

import pytest

from proxy.audit.record import AuditEvent
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.quota.keys import PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from proxy.quota.throttle import ClientQuotas
from proxy.session.gate import Gate
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, Quotas, gate_with, produce, produced
from tests.support.metadata_log import quotas_image

pytestmark = pytest.mark.spec("Q2", "Q7", "Q12", "D1")

US = 1_000
"""In nanoseconds."""


def gate(key: str, limit: float, offset: int, enforced: bool = True) -> Gate:
    made = gate_with(None)
    made.quotas = ClientQuotas(Quotas(), enforced)
    changed(made, key, limit, offset)
    return made


def changed(made: Gate, key: str, limit: float, offset: int) -> None:
    quotas = quotas_image({QuotaEntity(user=DEFAULT): {key: limit}})
    made.image = replace(image_with("WRITE TOPIC orders", "READ GROUP team"), quotas=quotas, offset=offset)


def heartbeats(talk: Conversation) -> None:
    talk.asks(ApiKey.HEARTBEAT, 4, t.HeartbeatRequest(group_id="team", generation_id=1, member_id="m"))
    talk.answers(ApiKey.HEARTBEAT, 4, t.HeartbeatResponse())


def produces(talk: Conversation, size: int) -> None:
    talk.asks(ApiKey.PRODUCE, 9, produce("orders", records=bytes(size)))
    talk.answers(ApiKey.PRODUCE, 9, produced("orders"))


def told(talk: Conversation, name: str) -> list[AuditEvent]:
    return [event for event in talk.summaries() if event.event == name]


@pytest.mark.parametrize(("enforced", "rule"), [(True, None), (False, "observe")])
def test_the_time_that_was_counted_is_told_once_for_each_interval(enforced: bool, rule: str | None) -> None:
    talk = Conversation(gate=gate(REQUEST_PERCENTAGE, 5.0, 7, enforced))
    heartbeats(talk)
    began_ms = talk.now_ms
    talk.session.machine.spent_on_requests(40 * US, talk.now_ms)
    talk.passes(500)
    talk.session.machine.spent_on_responses(2 * US, False, talk.now_ms)
    talk.session.machine.spent_on_responses(900 * US, True, talk.now_ms)
    talk.passes(500)

    (record,) = told(talk, "quota_used")
    assert (record.quota_key, record.quota_id, record.quota_limit) == (REQUEST_PERCENTAGE, "alice:", 5.0)
    assert (record.count, record.rule, record.metadata_offset) == (42, rule, 7)
    assert (record.interval_start_ms, record.interval_end_ms) == (began_ms, began_ms + 1_000)
    assert (record.principal, record.connection_id) == ("User:alice", "c0ffee")
    assert told(talk, "quota_used") == []


def test_of_whom_no_quota_on_time_governs_no_time_is_told() -> None:
    talk = Conversation(gate=gate(PRODUCER_BYTE_RATE, 5.0, 7))
    heartbeats(talk)
    talk.session.machine.spent_on_requests(40 * US, talk.now_ms)

    assert told(talk, "quota_used") == []


def test_a_throttled_client_tells_the_image_that_its_limit_is_of_when_another_has_moved_it() -> None:
    shared = gate(PRODUCER_BYTE_RATE, 1_000.0, 7)
    hers, again = Conversation(gate=shared), Conversation(gate=shared)
    produces(again, 100)
    hers.asks(ApiKey.PRODUCE, 9, produce("orders", records=bytes(30_000)))
    # Before her answer comes, her other connection meets the new image, and with it the new limit.
    changed(shared, PRODUCER_BYTE_RATE, 500.0, 9)
    produces(again, 100)
    hers.answers(ApiKey.PRODUCE, 9, produced("orders"))

    assert [(e.quota_limit, e.metadata_offset) for e in told(hers, "throttled")] == [(500.0, 9)]


def test_a_client_that_has_not_asked_since_tells_the_image_that_its_own_quota_was_found_in() -> None:
    shared = gate(PRODUCER_BYTE_RATE, 1_000.0, 7)
    hers, others = Conversation(gate=shared), Conversation(gate=shared)
    produces(others, 100)
    hers.asks(ApiKey.PRODUCE, 9, produce("orders", records=bytes(30_000)))
    # Others meet a new image first, in which their quota, hers too until now, is as it was.
    entities = {
        QuotaEntity(user=DEFAULT): {PRODUCER_BYTE_RATE: 1_000.0},
        QuotaEntity(user="alice", client_id="hers"): {PRODUCER_BYTE_RATE: 10.0},
    }
    shared.image = replace(shared.image or image_with(), quotas=quotas_image(entities), offset=9)
    produces(others, 100)
    hers.answers(ApiKey.PRODUCE, 9, produced("orders"))

    record = told(hers, "throttled")[0]
    assert (record.quota_id, record.quota_limit, record.metadata_offset) == ("alice:", 1_000.0, 7)


def test_a_throttled_client_at_a_newer_image_with_the_same_quotas_tells_that_image() -> None:
    shared = gate(PRODUCER_BYTE_RATE, 1_000.0, 7)
    talk = Conversation(gate=shared)
    produces(talk, 100)
    shared.image = replace(shared.image or image_with(), offset=11)
    produces(talk, 30_000)

    assert [(e.quota_limit, e.metadata_offset) for e in told(talk, "throttled")] == [(1_000.0, 11)]
