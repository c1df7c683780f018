"""The short way of plain produce requests and answers does what the long way does, or leaves it to that."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.session.in_flight import Produced, Rewritten
from proxy.session.state import State
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from tests.session.apis.asking import KNOWN_TOPICS, image_with
from tests.session.conversation import Conversation, Quotas, produce, produced, sasl

PRODUCE = ApiKey.PRODUCE
VERSIONS = list(codecs.request_versions(PRODUCE))
LATEST_WITH_NAMES = 12
RIGHTS = ("WRITE TOPIC orders", "WRITE TOPIC payments")


class LongWay(Conversation):
    """The same without short cuts: nothing is known by its looks."""

    def sends(self, data: bytes) -> None:
        self.session.machine.lane.use(self.session.machine.client)
        self.carry_out(self.session.receive(memoryview(bytearray(data)), self.now_ms))
        for entry in self.session.pipeline.queue:
            if isinstance(entry, Produced):
                entry.plain = None

    def broker_sends(self, data: bytes) -> None:
        self.carry_out(self.session.broker_responded(memoryview(bytearray(data)), self.now_ms))


def at(version: int, name: str) -> str | bytes:
    return KNOWN_TOPICS[name] if version > LATEST_WITH_NAMES else name


def a_view(data: bytes) -> memoryview:
    return memoryview(bytearray(data))


def settled(talk: Conversation, version: int = LATEST_WITH_NAMES) -> Conversation:
    """The client and its topic are known: the first request goes the long way, the second is remembered."""
    for _ in range(2):
        talk.asks(PRODUCE, version, produce(at(version, "orders")))
        talk.answers(PRODUCE, version, produced(at(version, "orders")))
    return talk


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_like_the_last_one_and_its_answer_pass_as_they_are(version: int) -> None:
    talk = settled(Conversation(*RIGHTS), version)
    request = talk.request(PRODUCE, version, produce(at(version, "orders"), records=b"y" * 300))

    assert talk.session.forward_request(a_view(request), talk.now_ms)
    answer = talk.response(PRODUCE, version, produced(at(version, "orders")))
    passed = talk.session.forward_response(a_view(answer), talk.now_ms)

    assert passed
    (summary,) = talk.summaries()
    assert summary.count == 3


@pytest.mark.spec("A7")
def test_answers_to_several_requests_in_flight_pass_one_by_one() -> None:
    talk = settled(Conversation(*RIGHTS))
    requests = [talk.request(PRODUCE, 12, produce("orders", records=b"y" * size)) for size in (100, 300)]
    assert all(talk.session.forward_request(a_view(request), talk.now_ms) for request in requests)

    last = talk.correlation_id
    answers = [talk.response(PRODUCE, 12, produced("orders"), id_) for id_ in (last - 1, last)]

    assert not talk.session.forward_response(a_view(b"".join(answers)), talk.now_ms)
    assert not talk.session.forward_response(a_view(answers[1]), talk.now_ms)
    assert all(talk.session.forward_response(a_view(answer), talk.now_ms) for answer in answers)
    assert len(talk.session.pipeline) == 0


@pytest.mark.spec("A7")
def test_an_answer_of_our_own_leaves_with_the_one_before_it() -> None:
    talk = settled(Conversation(*RIGHTS))
    talk.heard_bytes()
    first = talk.asks(PRODUCE, 12, produce("orders"))
    talk.asks(PRODUCE, 12, produce("secrets"))

    talk.answers(PRODUCE, 12, produced("orders"), first)

    assert [id_ for id_, _ in talk.heard_all((PRODUCE, 12), (PRODUCE, 12))] == [first, first + 1]


@pytest.mark.spec("A7")
def test_an_answer_that_tells_another_topic_than_was_asked_for_goes_the_long_way() -> None:
    talk = settled(Conversation(*RIGHTS))
    talk.asks(PRODUCE, 12, produce("orders"))

    assert not talk.session.forward_response(
        a_view(talk.response(PRODUCE, 12, produced("payments"))), talk.now_ms
    )


def other_image(talk: Conversation) -> None:
    talk.gate.image = image_with(*RIGHTS)


def other_versions(talk: Conversation) -> None:
    talk.gate.versions = {**talk.gate.versions, int(PRODUCE): (3, 9)}


def smaller_limit(talk: Conversation) -> None:
    talk.gate.limits = replace(talk.gate.limits, socket_request_max_bytes=20)


def muted(talk: Conversation) -> None:
    talk.mute()


@pytest.mark.spec("A7")
@pytest.mark.parametrize("change", [other_image, other_versions, smaller_limit, muted])
def test_what_changes_around_a_session_is_seen_by_the_next_request(
    change: Callable[[Conversation], None],
) -> None:
    talk = settled(Conversation(*RIGHTS))
    request = a_view(talk.request(PRODUCE, LATEST_WITH_NAMES, produce("orders")))

    change(talk)

    assert not talk.session.forward_request(request, talk.now_ms)


@pytest.mark.spec("A7")
@pytest.mark.parametrize(
    "request_of",
    [
        lambda talk: talk.request(PRODUCE, 12, produce("payments")),
        lambda talk: talk.request(PRODUCE, 12, produce("orders", "orders")),
        lambda talk: talk.request(PRODUCE, 12, produce("orders", acks=0)),
        lambda talk: talk.request(PRODUCE, 12, produce("orders", transactional_id="t")),
        lambda talk: talk.request(PRODUCE, 11, produce("orders")),
        lambda talk: talk.request(PRODUCE, 12, produce("orders"), client_id="other"),
        lambda talk: talk.request(PRODUCE, 12, produce("orders"), client_id=None),
        lambda talk: talk.request(PRODUCE, 12, produce("orders"), trailing=b"\0"),
        lambda talk: talk.request(PRODUCE, 12, produce("orders"))[:-1],
        lambda talk: talk.request(PRODUCE, 12, produce("orders")) * 2,
        lambda talk: talk.request(PRODUCE, 12, produce("orders"))[:20],
        lambda talk: b"",
    ],
)
def test_a_request_that_differs_goes_the_long_way(request_of: Callable[[Conversation], bytes]) -> None:
    talk = settled(Conversation(*RIGHTS))

    assert not talk.session.forward_request(a_view(request_of(talk)), talk.now_ms)


@pytest.mark.spec("R3")
def test_a_session_that_is_over_ends_on_the_short_way_too() -> None:
    talk = Conversation(*RIGHTS, sasl_listener=sasl(1_000))
    talk.logs_in()
    settled(talk)
    request = talk.request(PRODUCE, LATEST_WITH_NAMES, produce("orders"))
    assert talk.session.forward_request(a_view(request), talk.now_ms + 999)

    assert not talk.session.forward_request(a_view(request), talk.now_ms + 1_000)


exchanges = st.tuples(
    st.integers(1, 200), st.sampled_from([0, 1, 400, 1_000, 11_000]), st.sampled_from([0, 6])
)


@pytest.mark.spec("Q6")
@settings(max_examples=100, deadline=None)
@given(
    st.lists(exchanges, min_size=1, max_size=30),
    st.sampled_from([3, 9, 12, 13]),
    st.sampled_from([50, 500, 1e9, None]),
)
def test_both_ways_say_charge_and_count_the_same(
    said: list[tuple[int, int, int]], version: int, bytes_per_second: float | None
) -> None:
    quotas = Quotas(producer=bytes_per_second)
    both = [talk(*RIGHTS, quotas=quotas) for talk in (Conversation, LongWay)]
    topic = at(version, "orders")
    for size, pause_ms, error_code in said:
        for talk in both:
            talk.asks(PRODUCE, version, produce(topic, records=b"r" * size))
            if len(talk.session.pipeline):
                talk.answers(PRODUCE, version, produced(topic, error_code=error_code))
            talk.passes(pause_ms)
            if talk.session.state & State.MUTED:
                talk.is_unmuted()

    short, long = both

    assert short.forwarded_bytes() == long.forwarded_bytes()
    assert short.heard_bytes() == long.heard_bytes()
    assert short.mutes == long.mutes
    assert short.summaries() == long.summaries()
    assert short.counted() == long.counted()


topics = st.sampled_from(["orders", "orders", "orders", "payments", "secrets"])
bursts = st.lists(
    st.tuples(
        st.lists(st.tuples(topics, st.integers(1, 400), st.sampled_from([1, 1, 1, 0])), max_size=6),
        st.integers(1, 700),  # Where what the client sends is cut, over and over.
        st.integers(0, 8),  # How many answers come then, in one piece.
        st.sampled_from([0, 6]),
        st.sampled_from([0, 1, 1_500]),
    ),
    min_size=1,
    max_size=12,
)


def sends_cut(talk: Conversation, data: bytes, size: int) -> None:
    for at_byte in range(0, len(data), size):
        talk.sends(data[at_byte : at_byte + size])


def answers_some(talk: Conversation, version: int, count: int, error_code: int) -> None:
    due = [entry for entry in talk.session.pipeline.queue if isinstance(entry, Produced | Rewritten)][:count]
    names = {bytes(entry.summary.action.resource_name, "utf-8") for entry in due if entry.summary}
    assert names <= {b"orders", b"payments"}
    answers = b"".join(
        talk.response(
            PRODUCE,
            version,
            produced(at(version, entry.summary.action.resource_name), error_code=error_code),
            entry.correlation_id,
        )
        for entry in due
        if entry.summary is not None
    )
    if answers:
        talk.broker_sends(answers)


# The response to the second request takes several slices; the third request takes 1.5 s.
ERROR_AND_A_SLOW_RESPONSE = [
    ([("orders", 1, 0), ("orders", 1, 1)], 1, 1, 6, 0),
    ([("orders", 4, 1)], 1, 0, 0, 1_500),
    ([], 1, 1, 0, 0),
]


@pytest.mark.spec("Q6", "O12")
@settings(max_examples=100, deadline=None)
@given(bursts, st.sampled_from([3, 9, 11, 13]), st.sampled_from([900, 1e9, None]))
@example(ERROR_AND_A_SLOW_RESPONSE, 11, 900)
def test_both_ways_say_charge_and_count_the_same_of_many_requests_at_once(
    said: list[tuple[list[tuple[str, int, int]], int, int, int, int]],
    version: int,
    bytes_per_second: float | None,
) -> None:
    quotas = Quotas(producer=bytes_per_second)
    both = short, long = [talk(*RIGHTS, quotas=quotas) for talk in (Conversation, LongWay)]
    for requests, cut, count, error_code, pause_ms in said:
        for talk in both:
            sent = [
                talk.request(PRODUCE, version, produce(at(version, name), records=bytes(size), acks=acks))
                for name, size, acks in requests
            ]
            sends_cut(talk, b"".join(sent), cut)
            if talk.closed is None:
                answers_some(talk, version, count, error_code)
            talk.passes(pause_ms)
            while talk.session.state & State.MUTED:
                talk.is_unmuted()
        if short.closed is not None:
            break

    assert short.forwarded_bytes() == long.forwarded_bytes()
    assert short.heard_bytes() == long.heard_bytes()
    assert short.mutes == long.mutes
    assert short.closed == long.closed
    assert short.events == long.events
    assert short.summaries() == long.summaries()
    assert short.counted() == long.counted()
