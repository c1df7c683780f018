"""ShareFetch and questions of our own on one connection: order, quotas, and what the client is not told."""

import pytest

from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import KNOWN_TOPICS
from tests.session.apis.test_share_fetch_api import answer, fetch
from tests.session.conversation import Conversation, Quotas

SHARE_FETCH = ApiKey.SHARE_FETCH
ORDERS, NEW = KNOWN_TOPICS["orders"], b"n" * 16
RIGHTS = ("READ GROUP team", "READ TOPIC orders", "READ TOPIC new")


@pytest.mark.spec("Q7")
@pytest.mark.parametrize("version", [1, 2])
def test_records_of_a_share_group_are_paid_for_like_those_of_a_fetch(version: int) -> None:
    talk = Conversation(*RIGHTS, quotas=Quotas(consumer=1_000))

    talk.asks(SHARE_FETCH, version, fetch(0, (ORDERS, [0]), max_bytes=50 << 20))
    (request,) = talk.forwarded()
    talk.answers(SHARE_FETCH, version, answer((ORDERS, [0]), records=bytes(30_000)))

    response = talk.heard(SHARE_FETCH, version)
    assert request.message.max_bytes == 10_000
    assert response.throttle_time_ms > 15_000
    assert talk.mutes == [response.throttle_time_ms]
    assert bytes(response.responses[0].partitions[0].records) == bytes(30_000)
    assert [node.host for node in response.node_endpoints] == ["proxy-one"]


@pytest.mark.spec("D1")
def test_bytes_of_a_share_group_are_counted_at_a_topic_of_its_session() -> None:
    talk = Conversation(*RIGHTS)
    talk.asks(SHARE_FETCH, 2, fetch(0, (ORDERS, [0]), max_bytes=50 << 20))
    talk.answers(SHARE_FETCH, 2, answer((ORDERS, [0]), records=bytes(30_000)))

    counted = [
        (event.method, event.resource_type, event.resource_name, event.count)
        for event in talk.summaries()
        if event.response_bytes and event.response_bytes > 30_000
    ]

    assert counted == [("ShareFetch", "TOPIC", "orders", 1)]


@pytest.mark.spec("A7")
def test_the_share_sessions_of_one_connection_are_nobody_elses() -> None:
    first, second = Conversation(*RIGHTS), Conversation(*RIGHTS)
    first.asks(SHARE_FETCH, 2, fetch(0, (ORDERS, [0]), max_bytes=50 << 20))
    first.answers(SHARE_FETCH, 2, answer((ORDERS, [0])))

    first.asks(SHARE_FETCH, 2, fetch(1))
    second.asks(SHARE_FETCH, 2, fetch(1))

    assert [request.message.share_session_epoch for request in first.forwarded()] == [0, 1]
    assert second.heard(SHARE_FETCH, 2).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.spec("A7")
def test_an_id_nobody_told_is_looked_up_and_the_client_hears_nothing_of_it() -> None:
    talk = Conversation(*RIGHTS)
    talk.asks(SHARE_FETCH, 2, fetch(0, (NEW, [0])))
    talk.asks(SHARE_FETCH, 2, fetch(1))
    assert (talk.lookups, len(talk.forwarded())) == ([[NEW]], 0)

    talk.broker_names(new=NEW)

    assert talk.heard_bytes() == b""
    asked = talk.forwarded()
    assert [request.message.share_session_epoch for request in asked] == [0, 1]
    assert asked[0].message.topics[0].topic_id == NEW
