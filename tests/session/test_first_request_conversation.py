"""The first request of a connection, a Produce to one partition, passes without being decoded.

It names the client id, and its topic is decided on. `Decoding` is the same session without this path; both
have to forward, respond, record, count and charge the same.
"""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.session.data.fast_lane import FastLane, ProduceHead
from proxy.session.in_flight import Produced
from proxy.session.state import State
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from tests.session.apis.asking import KNOWN_TOPICS, image_with
from tests.session.conversation import Conversation, Quotas, at, produce, produced, sasl

PRODUCE = ApiKey.PRODUCE
VERSIONS = list(codecs.request_versions(PRODUCE))
RIGHTS = ("WRITE TOPIC orders", "WRITE TOPIC payments")
UNKNOWN_ID = bytes(range(16))


class DecodingLane(FastLane):
    """Leaves every head to the decoder."""

    __slots__ = ()

    def head_of_produce(self, data: memoryview, position: int, stop: int, now_ms: int) -> ProduceHead | None:
        return None


class Decoding(Conversation):
    """Decodes each request to one partition."""

    def __init__(self, *rights: str, **changes: Any) -> None:
        super().__init__(*rights, **changes)
        machine, session = self.session.machine, self.session
        parts = (self.gate, self.listener, session.authentication, session.pipeline, machine.remembered)
        machine.intake._lane = machine.lane = DecodingLane(*parts, machine.client)
        machine.pass_response = machine.lane.response
        machine.responses._lane = machine.lane


def answers_all(talk: Conversation, version: int, topic: str | bytes, error_code: int = 0) -> None:
    for entry in list(talk.session.pipeline.queue):
        message = produced(topic, error_code=error_code)
        talk.broker_sends(talk.response(PRODUCE, version, message, entry.correlation_id))


def outcome(talk: Conversation) -> tuple[Any, ...]:
    """Everything that others see of a conversation."""
    summaries, events = talk.summaries(), talk.events
    held = talk.session.memory.frame_bytes, talk.session.blocked, talk.lookups
    bytes_ = talk.forwarded_bytes(), talk.heard_bytes()
    return *bytes_, talk.mutes, events, summaries, talk.closed, talk.counted(), held


@pytest.mark.spec("A7", "O6")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("client_id", ["app", "", None, "ü" * 100])
def test_the_first_request_of_a_connection_and_its_response_pass_undecoded(
    version: int, client_id: str | None
) -> None:
    talk, decoding = Conversation(*RIGHTS), Decoding(*RIGHTS)
    (topic,) = at(version, "orders")
    request = talk.request(PRODUCE, version, produce(topic), client_id=client_id)

    talk.sends(request)
    decoding.sends(request)

    entry = talk.session.pipeline.head()
    assert type(entry) is Produced
    assert entry.plain is not None, "it was decoded"
    assert talk.session.machine.client.context.client_id == client_id
    answer = talk.response(PRODUCE, version, produced(topic))
    assert talk.session.forward_response(memoryview(bytearray(answer)), talk.now_ms)
    assert not decoding.session.forward_response(memoryview(bytearray(answer)), talk.now_ms)


@pytest.mark.spec("A7", "D1")
@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
@pytest.mark.parametrize("piece", [1, 13, 30, 1_000])
@pytest.mark.parametrize(
    ("name", "acks", "raw_id"),
    [
        *product(["orders", "secrets"], [1, -1, 0], [b"\0\3app"]),
        ("orders", 1, b"\xff\xff"),
        ("orders", 1, b"\0\0"),
        pytest.param("orders", 1, b"\xff\xfe", id="a length of -2"),
        pytest.param("orders", 1, b"\0\2\xc3\x28", id="no UTF-8"),
    ],
)
def test_a_first_request_has_the_outcome_that_it_has_if_it_is_decoded(
    version: int, piece: int, name: str, acks: int, raw_id: bytes
) -> None:
    both = [Conversation(*RIGHTS), Decoding(*RIGHTS)]
    (topic,) = at(version, name)
    for talk in both:
        whole = talk.request(PRODUCE, version, produce(topic, acks=acks), client_id="")
        frame = whole[4:12] + raw_id + whole[14:]
        frame = len(frame).to_bytes(4, "big") + frame
        for start in range(0, len(frame), piece):
            if talk.closed is None:
                talk.sends(frame[start : start + piece])
        answers_all(talk, version, topic)

    passing, decoding = map(outcome, both)

    assert passing == decoding


@pytest.mark.spec("A7", "D3")
@pytest.mark.parametrize("change", ["early", "unrecorded", "before the login", "a topic without a name"])
def test_a_first_request_that_has_to_wait_or_is_rejected_is_decoded(change: str) -> None:
    settings_ = {"early": change == "early"}
    if change == "before the login":
        settings_["sasl_listener"] = sasl(0)  # type: ignore[assignment]
    both = [Conversation(*RIGHTS, **settings_), Decoding(*RIGHTS, **settings_)]  # type: ignore[arg-type]
    topic = UNKNOWN_ID if change == "a topic without a name" else KNOWN_TOPICS["orders"]
    for talk in both:
        if change == "unrecorded":
            talk.gate.unrecorded = frozenset(("summary",))
        talk.asks(PRODUCE, 13, produce(topic))
        if talk.lookups:
            talk.broker_names(orders=topic)

    passing, decoding = map(outcome, both)

    assert passing == decoding


@pytest.mark.spec("A7", "R3")
def test_the_first_request_after_a_login_as_another_principal_is_decided_on_for_that_one() -> None:
    talk = Conversation("WRITE TOPIC orders", sasl_listener=sasl(3_600_000))
    talk.logs_in("bob")

    talk.asks(PRODUCE, 9, produce("orders"))

    assert talk.forwarded() == []
    (denial,) = talk.told("authorization")
    assert (denial.principal, denial.resource_name, denial.granted) == ("User:bob", "orders", False)


@pytest.mark.spec("A7")
def test_the_first_request_is_decided_on_by_the_image_in_effect() -> None:
    talk = Conversation(*RIGHTS)
    talk.gate.image = image_with("READ TOPIC orders")

    talk.asks(PRODUCE, 9, produce("orders"))

    assert talk.forwarded() == []


first_requests = st.lists(
    st.tuples(
        st.sampled_from(["orders", "orders", "payments", "secrets"]),
        st.sampled_from(["app", "app", "other", None]),
        st.integers(1, 200),
        st.sampled_from([1, 1, 0]),
        st.sampled_from([0, 6]),
        st.sampled_from([0, 400, 1_500]),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.spec("Q6", "D1")
@settings(max_examples=100, deadline=None)
@given(first_requests, st.sampled_from([3, 9, 11, 13]), st.sampled_from([50, 1e9, None]))
def test_conversations_that_begin_on_either_path_have_the_same_outcome(
    said: list[tuple[str, str | None, int, int, int, int]], version: int, bytes_per_second: float | None
) -> None:
    quotas = Quotas(producer=bytes_per_second)
    both = [Conversation(*RIGHTS, quotas=quotas), Decoding(*RIGHTS, quotas=quotas)]
    for name, client_id, size, acks, error_code, pause_ms in said:
        (topic,) = at(version, name)
        for talk in both:
            message = produce(topic, records=bytes(size), acks=acks)
            if talk.closed is None:
                talk.asks(PRODUCE, version, message, client_id=client_id)
                answers_all(talk, version, topic, error_code)
            talk.passes(pause_ms)
            while talk.session.state & State.MUTED:
                talk.is_unmuted()

    passing, decoding = map(outcome, both)

    assert passing == decoding
