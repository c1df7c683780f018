"""A client id that changes from request to request: few records, and every request is counted."""

from collections import Counter

import pytest

from proxy.audit.record import AuditEvent
from proxy.session.client_state import MAX_TOPICS
from proxy.session.former_clients import MANY, MAX_REMEMBERED
from proxy.session.state import State
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import Conversation, Quotas, fetch, fetched, produce, produced

pytestmark = pytest.mark.spec("D1", "D2", "O6")

RIGHTS = ("READ TOPIC orders", "WRITE TOPIC orders")
METADATA = t.MetadataRequest(topics=[])


def asks(talk: Conversation, client_id: str, version: int = 12) -> bytes:
    frame = talk.request(ApiKey.METADATA, version, METADATA, client_id=client_id)
    talk.sends(frame)
    return frame


def told(events: list[AuditEvent]) -> list[tuple[str | None, int | None, str | None]]:
    return [(event.client_id, event.count, event.message) for event in events]


def test_a_changing_client_id_makes_no_record_with_each_request() -> None:
    talk = Conversation(*RIGHTS)
    before = len(talk.events)
    size_bytes = 0
    for number in range(500):
        frame = asks(talk, f"id-{number}")
        size_bytes += len(frame)
        talk.answers(ApiKey.METADATA, 12, t.MetadataResponse())

    assert talk.events[before:] == []
    events = talk.summaries()

    assert len(events) == MAX_REMEMBERED + 2
    assert {event.event for event in events} == {"request_summary"}
    assert sum(event.count or 0 for event in events) == 500
    assert sum(event.request_bytes or 0 for event in events) == size_bytes
    assert (None, 500 - MAX_REMEMBERED - 1, MANY) in told(events)
    assert ("id-499", 1, None) in told(events)
    assert talk.summaries() == []


def test_long_client_ids_are_not_remembered_and_their_requests_are_counted() -> None:
    talk = Conversation(*RIGHTS)
    for number in range(5):
        asks(talk, f"{number}".ljust(20_000, "x"))
        talk.answers(ApiKey.METADATA, 12, t.MetadataResponse())
    asks(talk, "short")
    talk.answers(ApiKey.METADATA, 12, t.MetadataResponse())

    assert told(talk.summaries()) == [(None, 5, MANY), ("short", 1, None)]


def test_client_ids_that_take_turns_are_told_apart() -> None:
    talk = Conversation(*RIGHTS)
    for number in range(30):
        asks(talk, f"id-{number % 3}")
        talk.answers(ApiKey.METADATA, 12, t.MetadataResponse())

    assert sorted(told(talk.summaries())) == [("id-0", 10, None), ("id-1", 10, None), ("id-2", 10, None)]


def test_answers_that_come_late_are_counted_where_their_requests_were() -> None:
    talk = Conversation(*RIGHTS)
    sent: Counter[str] = Counter()
    flying = []
    for number in range(100):
        message = fetch("orders") if number % 2 else produce("orders")
        key = ApiKey.FETCH if number % 2 else ApiKey.PRODUCE
        frame = talk.request(key, 12, message, client_id=f"id-{number}")
        flying.append((key, talk.correlation_id))
        talk.sends(frame)
        sent["requests"] += 1
        sent["request_bytes"] += len(frame)
        if number == 60:
            events = talk.summaries()
            assert len(events) <= MAX_REMEMBERED + 3
            found = totals(events)
    for key, correlation_id in flying:
        data = talk.response(
            key, 12, fetched("orders") if key == ApiKey.FETCH else produced("orders"), correlation_id
        )
        sent["response_bytes"] += len(data) if key == ApiKey.FETCH else 0
        talk.broker_sends(data)
    events = talk.summaries()

    assert len(events) <= 4 * MAX_REMEMBERED
    assert found + totals(events) == sent
    assert talk.summaries() == []


def totals(events: list[AuditEvent]) -> Counter[str]:
    found: Counter[str] = Counter()
    for event in events:
        found["requests"] += event.count or 0
        found["request_bytes"] += event.request_bytes or 0
        found["response_bytes"] += event.response_bytes or 0
    return found


def test_what_several_client_ids_were_throttled_is_no_one_quotas() -> None:
    talk = Conversation(*RIGHTS, quotas=Quotas(producer=200))
    for number in range(60):
        talk.sends(
            talk.request(
                ApiKey.PRODUCE, 12, produce("orders", records=bytes(9_000)), client_id=f"id-{number}"
            )
        )
        talk.answers(ApiKey.PRODUCE, 12, produced("orders"))
        while talk.session.state & State.MUTED:
            talk.is_unmuted()

    throttled = [event for event in talk.summaries() if event.event == "throttled"]

    assert len(throttled) <= MAX_REMEMBERED + 2
    assert sum(event.count or 0 for event in throttled) > MAX_REMEMBERED
    many = [event for event in throttled if event.message == MANY]
    assert [(event.quota_id, event.quota_limit, event.client_id) for event in many] == [(None, None, None)]
    assert all(event.quota_id == f":{event.client_id}" for event in throttled if event not in many)


def test_what_is_kept_of_client_ids_is_bounded_by_what_one_may_have() -> None:
    talk = Conversation("READ TOPIC *", "DESCRIBE TOPIC *")
    topic = t.MetadataRequest.MetadataRequestTopic
    for number in range(12):
        names = [topic(name=f"topic-{number}-{place}") for place in range(2_000)]
        message = t.MetadataRequest(topics=names, allow_auto_topic_creation=False)
        talk.sends(talk.request(ApiKey.METADATA, 12, message, client_id=f"id-{number}"))
        talk.answers(ApiKey.METADATA, 12, t.MetadataResponse())

        former = talk.session.machine._former
        assert sum(left.client.size for left in former._stored.values()) <= MAX_TOPICS
    events = talk.summaries()
    told = [event for event in (*talk.events, *events) if event.event == "authorization_summary"]
    assert sum(event.count or 0 for event in told) == 12 * 2_000
