"""A request with a topic id that has no name yet waits until the broker was asked for it, then goes on."""

from typing import Any

import pytest

from proxy.session.gate import MISSING_MS, TopicNames
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import PIECE
from tests.session.apis.asking import KNOWN_TOPICS, image_with
from tests.session.conversation import (
    Conversation,
    Quotas,
    errors_of,
    fetch,
    fetched,
    frames_of,
    produce,
    produced,
    sasl,
)
from tests.support.sliced import in_slices

pytestmark = pytest.mark.spec("A7", "O4")

PRODUCE, FETCH, OFFSET_COMMIT = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT
NEW, GONE, HIDDEN = b"n" * 16, b"g" * 16, b"h" * 16
ORDERS = KNOWN_TOPICS["orders"]
RIGHTS = (
    "READ TOPIC orders",
    "WRITE TOPIC orders",
    "READ TOPIC new",
    "WRITE TOPIC new",
    "READ GROUP team",
)
DENIED, UNKNOWN = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID


def producing() -> Conversation:
    """With a client id that is known from an earlier request, so that produce requests stream."""
    talk = Conversation(*RIGHTS)
    talk.asks(PRODUCE, 13, produce(ORDERS))
    talk.answers(PRODUCE, 13, produced(ORDERS))
    talk.heard(PRODUCE, 13)
    talk.forwarded_bytes()
    return talk


def commit(*topic_ids: bytes) -> Any:
    topic = t.OffsetCommitRequest.OffsetCommitRequestTopic
    part = t.OffsetCommitRequest.OffsetCommitRequestPartition
    asked = [topic(topic_id=topic_id, partitions=[part(committed_offset=5)]) for topic_id in topic_ids]
    return t.OffsetCommitRequest(group_id="team", topics=asked)


def test_a_produce_request_waits_for_the_name_of_its_topic_and_goes_on_as_it_came() -> None:
    talk = Conversation(*RIGHTS)
    frame = talk.request(PRODUCE, 13, produce(NEW))

    talk.sends(frame)

    assert (talk.lookups, talk.forwarded_bytes(), talk.session.blocked) == ([[NEW]], b"", True)
    talk.broker_names(new=NEW)
    assert talk.forwarded_bytes() == frame
    talk.answers(PRODUCE, 13, produced(NEW))
    assert errors_of(talk.heard(PRODUCE, 13)) == [(NEW, 0)]


@pytest.mark.spec("O6")
def test_of_a_large_produce_request_only_the_beginning_is_held_until_its_topic_has_a_name() -> None:
    talk = producing()
    frame = talk.request(PRODUCE, 13, produce(NEW, records=bytes(500_000)))
    first, rest = frame[:20_000], frame[20_000:]

    talk.sends(first)
    assert (talk.lookups, talk.forwarded_bytes(), talk.session.blocked) == ([[NEW]], b"", True)

    talk.broker_names(new=NEW)
    assert talk.forwarded_bytes() == first
    talk.sends(rest)
    assert talk.forwarded_bytes() == rest


@pytest.mark.parametrize("cut_at", [15, 29, 47, 60])
def test_a_request_that_comes_in_two_pieces_is_looked_up_once(cut_at: int) -> None:
    talk = Conversation(*RIGHTS)
    frame = talk.request(PRODUCE, 13, produce(NEW, records=bytes(100)))

    talk.sends(frame[:cut_at])
    if talk.lookups:
        talk.broker_names(new=NEW)
        talk.sends(frame[cut_at:])
    else:
        talk.sends(frame[cut_at:])
        talk.broker_names(new=NEW)

    assert talk.forwarded_bytes() == frame
    assert talk.lookups == []


def test_a_large_produce_request_of_a_topic_that_is_gone_is_answered_after_all_of_it_came() -> None:
    talk = producing()
    frame = talk.request(PRODUCE, 13, produce(GONE, records=bytes(50_000)))

    talk.sends(frame[:10_000])
    talk.broker_names()
    talk.passes(10 * MISSING_MS)
    talk.sends(frame[10_000:])

    assert talk.lookups == []
    assert errors_of(talk.heard(PRODUCE, 13)) == [(GONE, UNKNOWN)]
    assert talk.forwarded_bytes() == b""


@pytest.mark.parametrize("size_bytes", [10, 261_000])
def test_a_produce_request_to_several_topics_has_all_of_them_looked_up_at_once(size_bytes: int) -> None:
    talk = Conversation(*RIGHTS)

    talk.asks(PRODUCE, 13, produce(NEW, ORDERS, HIDDEN, GONE, records=bytes(size_bytes)))
    assert (talk.lookups, talk.forwarded_bytes()) == ([[NEW, HIDDEN, GONE]], b"")
    talk.broker_names(new=NEW, hidden=HIDDEN)

    (request,) = talk.forwarded()
    assert [topic.topic_id for topic in request.message.topic_data] == [NEW, ORDERS]
    assert len(request.message.topic_data[0].partition_data[0].records) == size_bytes
    talk.answers(PRODUCE, 13, produced(NEW, ORDERS))
    assert errors_of(talk.heard(PRODUCE, 13)) == [
        (NEW, 0),
        (ORDERS, 0),
        (HIDDEN, DENIED),
        (GONE, UNKNOWN),
    ]
    assert [event.resource_name for event in talk.told("authorization")] == ["hidden"]


def test_without_acks_a_request_waits_too() -> None:
    talk = Conversation(*RIGHTS)
    frame = talk.request(PRODUCE, 13, produce(NEW, acks=0))

    talk.sends(frame)
    assert talk.forwarded_bytes() == b""
    talk.broker_names(new=NEW)

    assert (talk.forwarded_bytes(), talk.closed) == (frame, None)


@pytest.mark.parametrize("version", [13, 15, 17])
def test_a_fetch_waits_and_goes_on_like_one_whose_topics_were_known(version: int) -> None:
    quotas = Quotas(consumer=1_000)
    talk, known = Conversation(*RIGHTS, quotas=quotas), Conversation(*RIGHTS, quotas=quotas)
    known.gate.topic_names.learn(NEW, "new")
    message = fetch(ORDERS, NEW, session_epoch=0)

    talk.asks(FETCH, version, message)
    known.asks(FETCH, version, message)
    assert (talk.lookups, talk.forwarded_bytes()) == ([[NEW]], b"")
    talk.broker_names(new=NEW)

    assert talk.forwarded_bytes() == known.forwarded_bytes() != b""
    talk.answers(FETCH, min(version, 15), fetched(ORDERS, NEW, session_id=7))
    assert talk.heard(FETCH, version).session_id == 7


def test_a_topic_that_is_added_to_a_fetch_session_is_looked_up() -> None:
    talk = Conversation(*RIGHTS)
    talk.asks(FETCH, 13, fetch(ORDERS, session_epoch=0))
    talk.answers(FETCH, 13, fetched(ORDERS, session_id=7))
    talk.heard(FETCH, 13), talk.forwarded_bytes()
    frame = talk.request(FETCH, 13, fetch(NEW, session_id=7, session_epoch=1))

    talk.sends(frame)
    talk.broker_names(new=NEW)

    assert talk.forwarded_bytes() == frame


def test_a_fetch_of_topics_that_are_denied_or_gone_is_answered_as_a_broker_does() -> None:
    talk = Conversation(*RIGHTS)

    talk.asks(FETCH, 13, fetch(HIDDEN, GONE))
    talk.broker_names(hidden=HIDDEN)

    assert errors_of(talk.heard(FETCH, 13)) == [(HIDDEN, DENIED), (GONE, UNKNOWN)]
    assert talk.forwarded_bytes() == b""


def test_a_topic_that_was_created_again_is_another_one() -> None:
    talk = Conversation(*RIGHTS)
    talk.gate.topic_names.learn(GONE, "new")

    talk.asks(FETCH, 13, fetch(GONE, NEW))
    assert talk.lookups == [[NEW]]
    talk.broker_names(new=NEW)

    # The broker has the last word on the old id; what is allowed is decided by the name that both have.
    (request,) = talk.forwarded()
    assert [topic.topic_id for topic in request.message.topics] == [GONE, NEW]
    assert talk.gate.topic_names.topic_id("new") == NEW


def test_responses_keep_the_order_of_the_requests() -> None:
    talk = Conversation(*RIGHTS)
    first = talk.asks(PRODUCE, 13, produce(ORDERS))
    pipelined = [
        talk.request(FETCH, 13, fetch(GONE)),
        talk.request(OFFSET_COMMIT, 10, commit(NEW)),
        talk.request(PRODUCE, 13, produce(ORDERS)),
    ]

    talk.sends(b"".join(pipelined))
    assert (len(frames_of(talk.forwarded_bytes())), talk.lookups) == (1, [[GONE]])
    talk.answers(PRODUCE, 13, produced(ORDERS), first)
    talk.broker_names()
    assert (talk.forwarded_bytes(), talk.lookups) == (b"", [[NEW]])
    talk.broker_names(new=NEW)

    requests = [(each.header.api_key, each.header.correlation_id) for each in talk.forwarded()]
    assert requests == [(OFFSET_COMMIT, 3), (PRODUCE, 4)]
    talk.answers(OFFSET_COMMIT, 10, t.OffsetCommitResponse(), 3)
    talk.answers(PRODUCE, 13, produced(ORDERS), 4)
    heard = talk.heard_all((PRODUCE, 13), (FETCH, 13), (OFFSET_COMMIT, 10), (PRODUCE, 13))
    assert [correlation_id for correlation_id, _ in heard] == [1, 2, 3, 4]


def test_an_answer_on_its_way_is_not_held_up_by_a_lookup() -> None:
    talk = Conversation(*RIGHTS)
    first = talk.asks(PRODUCE, 13, produce(ORDERS))
    talk.asks(FETCH, 13, fetch(NEW))

    talk.answers(PRODUCE, 13, produced(ORDERS), first)

    assert errors_of(talk.heard(PRODUCE, 13)) == [(ORDERS, 0)]


def test_an_id_that_the_broker_does_not_know_is_not_looked_up_again_for_a_moment() -> None:
    talk = Conversation(*RIGHTS)
    talk.asks(FETCH, 13, fetch(GONE))
    talk.broker_names()
    talk.passes(MISSING_MS - 1)

    talk.asks(PRODUCE, 13, produce(GONE))
    talk.asks(FETCH, 13, fetch(GONE))

    answers = talk.heard_all((FETCH, 13), (PRODUCE, 13), (FETCH, 13))
    assert [errors_of(answer) for _, answer in answers] == [[(GONE, UNKNOWN)]] * 3
    assert talk.lookups == []
    talk.passes(1)
    talk.asks(FETCH, 13, fetch(GONE))
    assert talk.lookups == [[GONE]]


@pytest.mark.spec("O8")
@pytest.mark.parametrize("message", [produce(GONE), produce(GONE, HIDDEN), fetch(GONE)])
def test_a_request_is_answered_although_what_the_broker_did_not_know_is_forgotten(message: Any) -> None:
    talk = Conversation(*RIGHTS)
    api_key = PRODUCE if hasattr(message, "topic_data") else FETCH
    talk.asks(api_key, 13, message)
    ids = talk.lookups.pop()

    # A million other ids have pushed them out.
    talk.lookups.append([])
    talk.broker_names()

    errors = errors_of(talk.heard(api_key, 13))
    assert errors == [(topic_id, UNKNOWN) for topic_id in ids]
    # That is true of this request alone.
    talk.asks(api_key, 13, message)
    assert talk.lookups == [ids]


def test_the_zero_id_is_not_looked_up() -> None:
    talk = Conversation(*RIGHTS)

    talk.asks(FETCH, 13, fetch(bytes(16)))

    assert errors_of(talk.heard(FETCH, 13)) == [(bytes(16), UNKNOWN)]


@pytest.mark.spec("O10")
def test_a_broker_that_cannot_name_an_id_is_not_asked() -> None:
    talk = Conversation(*RIGHTS)
    talk.gate.versions = {**talk.gate.versions, ApiKey.METADATA: (0, 11)}

    talk.asks(FETCH, 13, fetch(NEW))
    talk.asks(OFFSET_COMMIT, 10, commit(NEW))

    fetched_, committed = (message for _, message in talk.heard_all((FETCH, 13), (OFFSET_COMMIT, 10)))
    assert errors_of(fetched_) == [(NEW, UNKNOWN)]
    assert committed.topics[0].partitions[0].error_code == UNKNOWN
    assert talk.lookups == []


@pytest.mark.spec("O2", "D1")
def test_a_request_that_waited_is_counted_once() -> None:
    talk = Conversation(*RIGHTS)

    talk.asks(PRODUCE, 13, produce(NEW, ORDERS))
    talk.broker_names(new=NEW)
    talk.asks(FETCH, 13, fetch(HIDDEN))
    talk.broker_names(hidden=HIDDEN)

    assert talk.listener.counts.requests == {PRODUCE: 1, FETCH: 1}
    summaries = [(each.method, each.resource_name, each.count) for each in talk.summaries()]
    assert sorted(summaries) == [("Produce", "new", 1), ("Produce", "orders", 1)]
    assert len(talk.told("authorization")) == 1


@pytest.mark.spec("O6", "O8")
def test_what_waits_is_counted_as_memory_and_is_free_when_its_client_is_gone() -> None:
    talk = Conversation(*RIGHTS)
    talk.asks(PRODUCE, 13, produce(NEW, ORDERS, records=bytes(40_000)))
    talk.session.count_held(0)
    assert talk.gate.memory.used_bytes > 80_000

    talk.session.closed()
    talk.session.topics_looked_up()

    assert talk.gate.memory.used_bytes == 0
    assert talk.session.take_turn(talk.now_ms) == []


def test_what_is_missing_is_remembered_within_bounds() -> None:
    names = TopicNames(max_missing=2)
    for number, topic_id in enumerate((NEW, GONE, NEW, HIDDEN)):
        names.note_missing(topic_id, number)

    assert [topic_id for topic_id in (NEW, GONE, HIDDEN) if names.is_missing(topic_id, 4)] == [NEW, HIDDEN]
    names.learn(NEW, "new")
    assert not names.is_missing(NEW, 4)
    assert not names.is_missing(HIDDEN, 2), "a clock that was set back does not make it last longer"


@pytest.mark.spec("O8")
def test_thousands_of_ids_are_sought_in_slices() -> None:
    gate = Conversation(*RIGHTS).gate
    ids = [number.to_bytes(16, "big") for number in range(1, 6_401)]

    unnamed, stops = in_slices(lambda: gate.unnamed_topics(ids, 0))

    assert unnamed == ids
    assert stops >= 6_400 // PIECE


SHARE: dict[str, Any] = {"group_id": "team", "member_id": "m"}
BY_ID: list[tuple[ApiKey, int, Any]] = [
    (OFFSET_COMMIT, 10, commit(NEW)),
    (
        ApiKey.SHARE_FETCH,
        1,
        t.ShareFetchRequest(
            **SHARE,
            share_session_epoch=0,
            topics=[
                t.ShareFetchRequest.FetchTopic(
                    topic_id=NEW, partitions=[t.ShareFetchRequest.FetchPartition(partition_index=0)]
                )
            ],
        ),
    ),
    (
        ApiKey.SHARE_ACKNOWLEDGE,
        1,
        t.ShareAcknowledgeRequest(
            **SHARE, topics=[t.ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=NEW, partitions=[])]
        ),
    ),
    (
        ApiKey.DELETE_TOPICS,
        6,
        t.DeleteTopicsRequest(topics=[t.DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=NEW)]),
    ),
]


@pytest.mark.spec("S2", "A11")
@pytest.mark.parametrize(("api_key", "version", "request_"), BY_ID, ids=[each[0].name for each in BY_ID])
def test_a_request_that_waits_for_a_name_is_decided_when_it_is_known(
    api_key: ApiKey, version: int, request_: Any
) -> None:
    """A client with thousands of ids in other requests makes its own wait for minutes."""
    talk = Conversation(*RIGHTS, "DELETE TOPIC new", "DESCRIBE TOPIC new")
    talk.asks(api_key, version, request_)
    assert talk.lookups == [[NEW]]
    talk.gate.image = image_with("READ GROUP team", "DESCRIBE TOPIC new")
    talk.broker_names(new=NEW)

    named = [each.message.topics for each in talk.forwarded()]
    assert named in ([], [[]])
    assert talk.controller == []
    denied = [each for each in talk.told("authorization") if each.granted is False]
    assert [each.resource_name for each in denied] == ["new"]


@pytest.mark.spec("R3")
def test_a_request_that_waits_for_a_name_past_the_end_of_its_session_ends_the_connection() -> None:
    talk = Conversation(*RIGHTS, sasl_listener=sasl(60_000))
    talk.logs_in()
    talk.asks(OFFSET_COMMIT, 10, commit(NEW))
    talk.passes(60_000)
    talk.broker_names(new=NEW)

    assert (talk.forwarded_bytes(), talk.close_reason) == (b"", "session_expired")
