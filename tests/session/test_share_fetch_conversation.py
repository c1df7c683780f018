"""ShareFetch and questions of our own on one connection: order, quotas, and what the client is not told."""

import pytest

from proxy.metadata.image import MetadataImage
from proxy.quota.keys import CONSUMER_BYTE_RATE
from proxy.session.gate import SharedRoom
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import KNOWN_TOPICS, image_with
from tests.session.apis.test_share_fetch_api import acknowledge, answer, fetch
from tests.session.conversation import Conversation, Quotas, gate_with

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
    assert asked[0].message.topics[0].topic_id == NEW
    # The broker may hold it: the next one is decided and sent when its response has left.
    talk.answers(SHARE_FETCH, 2, t.ShareFetchResponse(), talk.correlation_id - 1)
    asked += talk.forwarded()
    assert [request.message.share_session_epoch for request in asked] == [0, 1]


@pytest.mark.spec("Q14")
def test_a_new_connection_of_a_share_consumer_without_room_gets_nothing() -> None:
    talk = Conversation(*RIGHTS, quotas=Quotas(consumer=1_000))
    got_bytes = 0
    for number in range(20):
        again = Conversation(gate=talk.gate)
        again.now_ms += 10 * number
        again.asks(SHARE_FETCH, 2, fetch(0, (ORDERS, [0]), max_bytes=50 << 20))
        if again.forwarded():
            again.answers(SHARE_FETCH, 2, answer((ORDERS, [0]), records=bytes(8_000)))
        response = again.heard(SHARE_FETCH, 2)
        got_bytes += sum(len(topic.partitions[0].records) for topic in response.responses)
        assert again.mutes == ([response.throttle_time_ms] if response.throttle_time_ms else [])
        again.session.closed()

    assert got_bytes == 8_000


@pytest.mark.spec("Q14")
def test_a_share_consumer_that_leaves_before_the_response_is_charged() -> None:
    talk = Conversation(*RIGHTS, quotas=Quotas(consumer=1_000))
    forwarded = 0
    for number in range(20):
        again = Conversation(gate=talk.gate)
        again.now_ms += 300 * number
        again.asks(SHARE_FETCH, 2, fetch(0, (ORDERS, [0]), max_bytes=50 << 20))
        forwarded += len(again.forwarded())
        again.session.client_left(again.now_ms)
        again.session.closed()

    assert forwarded == 1


@pytest.mark.spec("Q14")
def test_share_consumers_that_ask_at_the_same_time_do_not_ask_for_the_same_room() -> None:
    talk = Conversation(*RIGHTS, quotas=Quotas(consumer=1_000))
    talks = [Conversation(gate=talk.gate) for _ in range(20)]

    for each in talks:
        each.asks(SHARE_FETCH, 2, fetch(0, (ORDERS, [0]), max_bytes=50 << 20))

    assert [len(each.forwarded()) for each in talks] == [1] + 19 * [0]
    # Its response is small, so the others have room as soon as they are no longer muted.
    talks[0].answers(SHARE_FETCH, 2, answer((ORDERS, [0]), records=bytes(100)))
    for each in talks[1:3]:
        each.is_unmuted()
        each.asks(SHARE_FETCH, 2, fetch(1))
        assert len(each.forwarded()) == 1


Changes = tuple[int, list[tuple[bytes, list[int]]], list[tuple[bytes, list[int]]]]
"""A request's epoch, the partitions that it names, and those that it forgets."""


def changes(message: t.ShareFetchRequest) -> Changes:
    named = [
        (topic.topic_id, [part.partition_index for part in topic.partitions]) for topic in message.topics
    ]
    forgotten = [(topic.topic_id, topic.partitions) for topic in message.forgotten_topics_data]
    return message.share_session_epoch, named, forgotten


def asks(talk: Conversation, message: t.ShareFetchRequest) -> list[Changes]:
    """What reaches the broker; then the response, and the end of the pause."""
    talk.asks(SHARE_FETCH, 2, message)
    sent = [changes(request.message) for request in talk.forwarded()]
    if sent:
        talk.answers(SHARE_FETCH, 2, answer())
    assert talk.heard(SHARE_FETCH, 2).error_code == ErrorCode.NONE
    for _ in talk.mutes:
        talk.is_unmuted()
    talk.mutes.clear()
    return sent


@pytest.mark.spec("Q14", "A7")
def test_a_share_session_goes_on_after_requests_that_were_not_sent() -> None:
    talk = Conversation(*RIGHTS, quotas=Quotas(consumer=1_000))
    talk.gate.topic_names.learn(NEW, "new")
    bucket = talk.gate.quotas.bucket(CONSUMER_BYTE_RATE, MetadataImage.EMPTY.quotas, "alice", "app")

    bucket.record(11_000, talk.now_ms)
    assert asks(talk, fetch(0, (ORDERS, [0, 1]))) == []
    assert asks(talk, fetch(-1)) == []
    assert asks(talk, fetch(0, (ORDERS, [0, 1]))) == []
    talk.passes(12_000)
    assert asks(talk, fetch(1, (NEW, [2]))) == [(0, [(NEW, [2]), (ORDERS, [0, 1])], [])]
    assert asks(talk, fetch(2)) == [(1, [], [])]
    bucket.record(11_000, talk.now_ms)
    assert asks(talk, fetch(3, (ORDERS, [5]), forgotten=[(ORDERS, [1])])) == []
    assert asks(talk, fetch(4, forgotten=[(NEW, [2])])) == []
    acknowledges = acknowledge((ORDERS, [0]))
    acknowledges.share_session_epoch = 5
    talk.asks(ApiKey.SHARE_ACKNOWLEDGE, 2, acknowledges)
    (request,) = talk.forwarded()
    assert request.message.share_session_epoch == 2
    talk.answers(ApiKey.SHARE_ACKNOWLEDGE, 2, t.ShareAcknowledgeResponse())
    talk.heard_bytes()
    talk.passes(12_000)
    assert asks(talk, fetch(6)) == [(3, [(ORDERS, [5])], [(NEW, [2]), (ORDERS, [1])])]
    assert asks(talk, fetch(-1)) == [(-1, [], [])]


@pytest.mark.spec("Q14")
def test_acknowledgements_are_sent_whether_the_quota_has_room_or_not() -> None:
    talk = Conversation(*RIGHTS, quotas=Quotas(consumer=1_000))
    talk.asks(SHARE_FETCH, 2, fetch(0, (ORDERS, [0])))
    talk.answers(SHARE_FETCH, 2, answer((ORDERS, [0]), records=bytes(11_000)))
    talk.is_unmuted()

    talk.asks(SHARE_FETCH, 2, fetch(1, (ORDERS, [0]), acknowledged=True))

    assert [request.message.max_bytes for request in talk.forwarded()][1:] == [1]


@pytest.mark.spec("O6", "O8")
def test_the_partitions_of_all_share_sessions_of_a_principal_have_a_bound_until_its_connections_end() -> None:
    """The broker knows nothing of those that the client may not read."""
    gate = gate_with(image_with("READ GROUP team"))
    gate.share_room = SharedRoom(limit=100)
    talks = [Conversation(gate=gate, principal=name) for name in ("alice", "alice", "root")]

    def opens(talk: Conversation, count: int) -> ErrorCode:
        talk.asks(SHARE_FETCH, 2, fetch(0, (ORDERS, list(range(count)))))
        if talk.forwarded():
            talk.answers(SHARE_FETCH, 2, t.ShareFetchResponse())
        return ErrorCode(talk.heard(SHARE_FETCH, 2).error_code)

    none, limit = ErrorCode.NONE, ErrorCode.SHARE_SESSION_LIMIT_REACHED
    first, second, other = talks
    # Half of the room is alice's, and a session that is opened again takes the place of the one before.
    assert [opens(first, 40), opens(first, 30), opens(second, 21), opens(other, 50)] == [
        none,
        none,
        limit,
        none,
    ]

    first.session.closed()
    assert opens(second, 50) == none
    for talk in (second, other):
        talk.session.closed()
    assert gate.share_room.taken == {}
