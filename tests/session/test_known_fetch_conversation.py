"""The short way of fetches does what the long way does, or leaves it to that."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.session.state import State
from proxy.wire import codecs, skim
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError
from proxy.wire.header import decode_request_header
from tests.session.apis.asking import KNOWN_TOPICS, image_with
from tests.session.conversation import Conversation, Quotas, at, fetch, fetched, produce

FETCH = ApiKey.FETCH
VERSIONS = list(codecs.request_versions(FETCH))
FIRST_WITH_SESSION, FIRST_WITH_TOPIC_ID, LAST_ASKED = 7, 13, 15
RIGHTS = ("READ TOPIC orders", "READ TOPIC payments")
SESSION_ID = 77


class LongWay(Conversation):
    """The same without short cuts."""

    def sends(self, data: bytes) -> None:
        self.carry_out(self.session.receive(memoryview(bytearray(data)), self.now_ms))

    def broker_sends(self, data: bytes) -> None:
        self.carry_out(self.session.broker_responded(memoryview(bytearray(data)), self.now_ms))


def a_view(data: bytes) -> memoryview:
    return memoryview(bytearray(data))


def settled(version: int, quotas: Quotas | None = None) -> Conversation:
    """A session is open, if the version has one; both topics are known to be allowed."""
    talk = Conversation(*RIGHTS, quotas=quotas)
    topics = at(version, "orders", "payments")
    session: dict[str, Any] = {"session_id": SESSION_ID} if version >= FIRST_WITH_SESSION else {}
    talk.asks(FETCH, version, fetch(*topics, session_epoch=0 if session else -1))
    talk.answers(FETCH, min(version, LAST_ASKED), fetched(*topics, **session))
    talk.heard_bytes()
    talk.forwarded_bytes()
    return talk


def asked_again(version: int) -> dict[str, int]:
    return {"session_id": SESSION_ID, "session_epoch": 1} if version >= FIRST_WITH_SESSION else {}


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("names", [("orders",), ("payments", "orders")])
def test_a_fetch_of_topics_known_to_be_allowed_and_its_answer_pass_as_they_are(
    version: int, names: tuple[str, ...]
) -> None:
    talk = settled(version)
    topics = at(version, *names)
    request = a_view(talk.request(FETCH, version, fetch(*topics, **asked_again(version))))

    assert talk.session.forward_request(request, talk.now_ms)

    # In the version that the broker is asked in, and otherwise as it came.
    header = decode_request_header(request, 4)
    assert header.api_version == min(version, LAST_ASKED)
    answer = talk.response(FETCH, header.api_version, fetched(*topics, records=bytes(300)))
    assert talk.session.forward_response(a_view(answer), talk.now_ms)
    assert {event.resource_name: event.count for event in talk.summaries()} == {
        name: 2 if name in names else 1 for name in ("orders", "payments")
    }


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", [11, 12, 17])
@pytest.mark.parametrize(
    "changes",
    [
        {"session_epoch": 1, "session_id": 5},
        {"rack_id": "é"},
        {"replica_id": 2},
        {"forgotten": True},
    ],
)
def test_a_fetch_that_is_not_plain_goes_the_long_way(version: int, changes: dict[str, Any]) -> None:
    talk = settled(version)
    message = fetch(*at(version, "orders"), **asked_again(version) | changed(changes))
    if "forgotten" in changes:
        forgotten = t.FetchRequest.ForgottenTopic(partitions=[0])
        forgotten.topic, forgotten.topic_id = "payments", KNOWN_TOPICS["payments"]
        message.forgotten_topics_data = [forgotten]
    if "replica_id" in changes:
        follower(message, version)

    assert not talk.session.forward_request(a_view(talk.request(FETCH, version, message)), talk.now_ms)


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if name not in ("forgotten", "replica_id")}


def follower(message: Any, version: int) -> None:
    if version >= LAST_ASKED:
        message.replica_state = t.FetchRequest.ReplicaState(replica_id=2)
    else:
        message.replica_id = 2


@pytest.mark.spec("A7")
def test_a_fetch_session_of_other_acls_is_not_known() -> None:
    talk = settled(12)
    talk.gate.image = image_with(*RIGHTS)
    request = talk.request(FETCH, 12, fetch("orders", **asked_again(12)))

    assert not talk.session.forward_request(a_view(request), talk.now_ms)


names_asked = st.lists(st.sampled_from(["orders", "orders", "payments", "secrets"]), max_size=3, unique=True)
rounds = st.lists(
    st.tuples(
        names_asked,
        st.sampled_from(["full", "none", "next", "other"]),
        st.integers(1, 60_000),  # Bytes of records in the answer.
        st.booleans(),  # Whether the answer comes cut in two.
        st.sampled_from([0, 1, 1_500]),
    ),
    min_size=1,
    max_size=12,
)
SESSIONS = {"full": (0, 0), "none": (0, -1), "next": (SESSION_ID, 3), "other": (5, 3)}


@pytest.mark.spec("Q7")
@settings(max_examples=60, deadline=None)
@given(rounds, st.sampled_from([4, 8, 11, 12, 13, 17, 18]), st.sampled_from([2_000, 1e9, None]))
def test_both_ways_say_charge_and_count_the_same(
    said: list[tuple[list[str], str, int, bool, int]], version: int, bytes_per_second: float | None
) -> None:
    quotas = Quotas(consumer=bytes_per_second)
    both = short, long = [talk(*RIGHTS, quotas=quotas) for talk in (Conversation, LongWay)]
    for names, session, size_bytes, is_cut, pause_ms in said:
        for talk in both:
            exchange(talk, version, at(version, *names), session, size_bytes, is_cut)
            talk.passes(pause_ms)
            while talk.session.state & State.MUTED:
                talk.is_unmuted()

    assert short.forwarded_bytes() == long.forwarded_bytes()
    assert short.heard_bytes() == long.heard_bytes()
    assert short.mutes == long.mutes
    assert short.events == long.events
    assert short.summaries() == long.summaries()
    assert short.counted() == long.counted()


def exchange(
    talk: Conversation,
    version: int,
    topics: tuple[str | bytes, ...],
    session: str,
    size_bytes: int,
    is_cut: bool,
) -> None:
    has_session = version >= FIRST_WITH_SESSION
    session_id, epoch = SESSIONS[session] if has_session else (0, -1)
    talk.asks(FETCH, version, fetch(*topics, session_id=session_id, session_epoch=epoch))
    entry = talk.session.pipeline.head()
    if entry is None:
        return
    opened = {"session_id": 0 if session == "none" else SESSION_ID} if has_session else {}
    answer = fetched(*topics, records=bytes(size_bytes), **opened)
    data = talk.response(FETCH, entry.version, answer, entry.correlation_id)
    for piece in filter(None, (data[:30], data[30:-7], data[-7:]) if is_cut else (data,)):
        talk.broker_sends(piece)


@pytest.mark.spec("O6")
@pytest.mark.parametrize("quotas", [None, Quotas(consumer=1e9)])
def test_of_a_response_that_streams_only_its_beginning_and_its_end_are_looked_at(
    quotas: Quotas | None,
) -> None:
    talk = settled(12, quotas)
    talk.asks(FETCH, 12, fetch("orders", **asked_again(12)))
    data = talk.response(FETCH, 12, fetched("orders", records=bytes(1_000), session_id=SESSION_ID))
    talk.broker_sends(data[:100])

    assert talk.session.forward_response(a_view(data[100:500]), talk.now_ms)
    assert talk.session.forward_response(a_view(data[500:-1]), talk.now_ms)
    assert not talk.session.forward_response(a_view(data[-1:]), talk.now_ms)
    talk.broker_sends(data[-1:])

    assert not talk.session.pipeline.queue
    assert talk.session.forward_response(a_view(b"more"), talk.now_ms) is False


@pytest.mark.spec("O6")
def test_of_a_request_that_streams_only_its_beginning_and_its_end_are_looked_at() -> None:
    talk = Conversation("WRITE TOPIC orders")
    data = talk.request(ApiKey.PRODUCE, 9, produce("orders", records=bytes(1_000)))
    talk.sends(data[:200])

    assert talk.session.forward_request(a_view(data[200:500]), talk.now_ms)
    assert talk.session.forward_request(a_view(data[500:-4]), talk.now_ms)
    assert not talk.session.forward_request(a_view(data[-4:]), talk.now_ms)


@pytest.mark.spec("O6")
@settings(max_examples=200, deadline=None)
@given(
    st.data(), st.sampled_from(VERSIONS), names_asked, st.integers(0, 3), st.sampled_from(["", "rack", "é"])
)
def test_what_is_told_without_decoding_is_what_decoding_tells(
    data: st.DataObject, version: int, names: list[str], partitions: int, rack: str
) -> None:
    message = fetch(*at(version, *names), session_epoch=-1)
    for topic in message.topics:
        topic.partitions = topic.partitions * partitions
    if version >= 11:
        message.rack_id = rack
    if version >= FIRST_WITH_SESSION:
        message.session_id, message.session_epoch = SESSION_ID, 4
    codec = codecs.request(FETCH, version)
    body = bytearray(codec.encode(message))
    for _ in range(data.draw(st.integers(0, 2))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    body = body[: len(body) - data.draw(st.sampled_from([0, 0, 0, 1, 5]))]

    asked = skim.fetch(memoryview(body), 0, version)

    if asked is None or asked[3] != len(body):
        return
    if not are_names(asked[2], version):
        # The one thing that is left to who looks the names up.
        with pytest.raises(WireError, match="not UTF-8"):
            codec.decode(body)
        return
    decoded, end = codec.decode(body)
    by_id = version >= FIRST_WITH_TOPIC_ID
    told = [bytes(topic.topic_id) if by_id else topic.topic.encode() for topic in decoded.topics]
    has_session = version >= FIRST_WITH_SESSION
    session = (decoded.session_id, decoded.session_epoch) if has_session else (0, -1)
    assert asked == (*session, told, end)
    assert not decoded.forgotten_topics_data
    assert decoded.replica_id < 0
    assert decoded.replica_state.replica_id < 0


def are_names(topics: list[bytes], version: int) -> bool:
    if version >= FIRST_WITH_TOPIC_ID:
        return True
    return all(topic.decode(errors="ignore").encode() == topic for topic in topics)
