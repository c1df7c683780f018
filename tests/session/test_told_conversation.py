"""What the trail says of a request: by whom, at which topics, how many bytes, and what the answer was."""

from typing import Any

import pytest

from proxy.session.client_state import MAX_NAME_CHARACTERS, MAX_TOPICS
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import KNOWN_TOPICS
from tests.session.conversation import Conversation, fetch, fetched, frames_of, produce, produced
from tests.support.topic_requests import metadata_of, record_batch

pytestmark = pytest.mark.spec("D1", "D2")

FETCH, METADATA, PRODUCE = ApiKey.FETCH, ApiKey.METADATA, ApiKey.PRODUCE
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ORDERS = KNOWN_TOPICS["orders"]


def described(name: str) -> Any:
    response = t.MetadataResponse
    return response(topics=[response.MetadataResponseTopic(name=name, topic_id=KNOWN_TOPICS[name])])


def counted(talk: Conversation) -> dict[str | None, tuple[int | None, int | None, int | None]]:
    """Count, request and response bytes by topic."""
    return {e.resource_name: (e.count, e.request_bytes, e.response_bytes) for e in talk.summaries()}


@pytest.mark.parametrize(
    ("api_key", "version", "request_"),
    [
        (FETCH, 4, fetch("secrets")),
        (FETCH, 12, fetch("secrets")),
        (FETCH, 13, fetch(KNOWN_TOPICS["secrets"])),
        (PRODUCE, 13, produce(KNOWN_TOPICS["secrets"])),
    ],
)
def test_a_request_denied_whole_is_recorded_with_its_error(
    api_key: ApiKey, version: int, request_: Any
) -> None:
    talk = Conversation("READ TOPIC orders", "WRITE TOPIC orders")

    talk.asks(api_key, version, request_)

    (event,) = talk.events
    assert (event.resource_name, event.granted, event.error_code) == ("secrets", False, DENIED)


def test_a_denied_transactional_id_is_told_with_the_error_that_its_topics_were_given() -> None:
    talk = Conversation("WRITE TOPIC orders")

    records = record_batch(10, transactional=True)
    talk.asks(PRODUCE, 12, produce("orders", records=records, transactional_id="a-transaction"))

    (event,) = talk.events
    assert event.resource_name == "a-transaction"
    assert event.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_what_is_denied_once_the_broker_has_named_it_is_told_with_its_error() -> None:
    talk = Conversation()

    talk.asks(METADATA, 12, metadata_of(ORDERS))
    talk.answers(METADATA, 12, described("orders"))

    (event,) = talk.events
    assert (event.resource_name, event.granted, event.error_code) == ("orders", False, DENIED)


def test_each_topic_of_a_fetch_is_told_and_its_bytes_once() -> None:
    talk = Conversation("READ TOPIC orders", "READ TOPIC payments")

    talk.asks(FETCH, 12, fetch("orders", "payments", "orders"))
    request_bytes = len(talk.forwarded_bytes())
    answer = talk.response(FETCH, 12, fetched("orders", "payments"))
    talk.broker_sends(answer)

    assert counted(talk) == {"orders": (1, request_bytes, len(answer)), "payments": (1, 0, 0)}


def test_a_topic_that_is_added_to_a_fetch_session_is_told() -> None:
    talk = Conversation("READ TOPIC orders", "READ TOPIC payments", "READ TOPIC secrets")
    talk.asks(FETCH, 12, fetch("orders", session_epoch=0))
    talk.answers(FETCH, 12, fetched("orders", session_id=5))
    talk.summaries()

    talk.asks(FETCH, 12, fetch("payments", "secrets", session_id=5, session_epoch=1))
    talk.answers(FETCH, 12, fetched(session_id=5))
    talk.asks(FETCH, 12, fetch(session_id=5, session_epoch=2))

    assert {name: count for name, (count, _, _) in counted(talk).items()} == {
        "orders": 1,
        "payments": 1,
        "secrets": 1,
    }


def test_the_answer_to_a_fetch_that_is_denied_in_part_is_counted() -> None:
    talk = Conversation("READ TOPIC orders")

    talk.asks(FETCH, 12, fetch("secrets", "orders"))
    answer = talk.response(FETCH, 12, fetched("orders"))
    talk.broker_sends(answer)

    ((count, _, response_bytes),) = counted(talk).values()
    assert (count, response_bytes) == (1, len(answer))


def test_a_request_that_is_decided_on_its_answer_is_counted_with_its_bytes_and_under_who_asked() -> None:
    talk = Conversation("DESCRIBE TOPIC orders")
    first = talk.asks(METADATA, 12, metadata_of(ORDERS))
    request_bytes = len(talk.forwarded_bytes())
    talk.asks(METADATA, 12, t.MetadataRequest(topics=None), client_id="another")
    assert talk.session.machine.client.context.client_id == "another"

    talk.answers(METADATA, 12, described("orders"), first)

    (event,) = talk.summaries()
    assert (event.client_id, event.count, event.request_bytes) == ("app", 1, request_bytes)


def test_no_client_is_remembered_more_topics_for_than_there_is_room_however_it_fetches() -> None:
    talk = Conversation("READ TOPIC *")
    names = [f"topic-{number}" for number in range(MAX_TOPICS // 8)]

    for part in range(12):
        talk.asks(FETCH, 12, fetch(*(f"{part}-{name}" for name in names)))
        talk.answers(FETCH, 12, fetched(f"{part}-{names[0]}"))
        assert len(talk.session.machine.client.reads) <= MAX_TOPICS + len(names)

    assert len(frames_of(talk.forwarded_bytes())) == 12
    told = [*talk.events, *talk.summaries()]
    single = [event.resource_name for event in told if event.resource_count is None]
    assert set(single) < {f"{part}-{name}" for part in range(12) for name in names}
    assert len(single) + sum(event.resource_count or 0 for event in told) == 12 * len(names)
    assert sum(event.count or 0 for event in told) == 12 * len(names)


@pytest.mark.spec("O6")
@pytest.mark.parametrize("api_key", [PRODUCE, FETCH])
def test_no_client_is_remembered_more_characters_of_names_for_than_there_is_room(api_key: ApiKey) -> None:
    talk = Conversation("READ TOPIC *", "WRITE TOPIC *")
    ask, version = (produce, 9) if api_key == PRODUCE else (fetch, 12)
    names = [f"{number}-{'x' * 8_000}" for number in range(2 * MAX_NAME_CHARACTERS // 8_000)]
    most = 0

    for name in names:
        talk.asks(api_key, version, ask(name))
        talk.answers(api_key, version, fetched(name) if api_key == FETCH else produced(name))
        client = talk.session.machine.client
        written = [topic for topics in client.writes.values() for topic in topics]
        remembered = [*client.reads, *written, *(action.resource_name for action in client._allowed)]
        most = max(most, sum(map(len, remembered)))

    assert 0 < most <= 2 * (MAX_NAME_CHARACTERS + 16_000)
    told = [event.resource_name for event in [*talk.events, *talk.summaries()]]
    assert told == names


def writing_orders() -> Conversation:
    """Once a client is known by its id, its next requests are let through as they come."""
    talk = Conversation("WRITE TOPIC orders")
    talk.asks(PRODUCE, 9, produce("orders", acks=0))
    talk.forwarded_bytes()
    talk.summaries()
    return talk


@pytest.mark.parametrize("acks", [0, 1])
def test_a_produce_request_that_is_cut_off_is_told_with_the_bytes_that_came(acks: int) -> None:
    talk = writing_orders()
    frame = talk.request(PRODUCE, 9, produce("orders", acks=acks, records=bytes(40_000)))

    talk.sends(frame[:5_000])
    before = counted(talk)
    talk.sends(frame[5_000:12_345])
    talk.session.closed()

    assert before == {"orders": (1, 5_000, 0)}
    assert counted(talk) == {"orders": (0, 7_345, 0)}
    assert talk.forwarded_bytes() == frame[:12_345]


def test_a_produce_request_in_pieces_is_told_whole_however_it_was_cut() -> None:
    talk = writing_orders()
    frames = [talk.request(PRODUCE, 9, produce("orders", records=bytes(9_000))) for _ in range(3)]
    stream = b"".join(frames)

    for position in range(0, len(stream), 4_321):
        talk.sends(stream[position : position + 4_321])

    assert counted(talk) == {"orders": (3, len(stream), 0)}
