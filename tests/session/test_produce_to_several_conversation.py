"""The short way of Produce to several partitions does what the long way does, or leaves it to that."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.session.in_flight import ProducedToSeveral
from proxy.session.state import State
from proxy.wire import codecs, skim
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, Quotas, at, errors_of, produce, produced

PRODUCE = ApiKey.PRODUCE
VERSIONS = list(codecs.request_versions(PRODUCE))
FIRST_WITH_ENDPOINTS, FIRST_WITH_TOPIC_ID = 10, 13
RIGHTS = ("WRITE TOPIC orders", "WRITE TOPIC payments")
LEADER_CHANGED = 6


def settled(version: int, quotas: Quotas | None = None) -> Conversation:
    """Both topics are known to be allowed."""
    talk = Conversation(*RIGHTS, quotas=quotas)
    topics = at(version, "orders", "payments")
    talk.asks(PRODUCE, version, produce(*topics))
    talk.answers(PRODUCE, version, produced(*topics))
    talk.heard_bytes()
    talk.forwarded_bytes()
    return talk


def to_partitions(message: Any, count: int) -> Any:
    """The same for partitions 0 to count - 1 of each topic."""
    for topic in message.topic_data:
        part = t.ProduceRequest.PartitionProduceData
        topic.partition_data = [part(index=n, records=bytes(10 + 70 * n)) for n in range(count)]
    return message


def of_partitions(message: Any, count: int) -> Any:
    for topic in message.responses:
        part = t.ProduceResponse.PartitionProduceResponse
        topic.partition_responses = [part(index=n, base_offset=7) for n in range(count)]
    return message


@pytest.mark.spec("A7", "O6")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("names", "partitions"), [(("orders",), 2), (("payments", "orders"), 1), (("payments", "orders"), 32)]
)
def test_a_produce_to_allowed_topics_and_its_response_pass_as_they_are(
    version: int, names: tuple[str, ...], partitions: int
) -> None:
    talk = settled(version)
    topics = at(version, *names)
    request = talk.request(PRODUCE, version, to_partitions(produce(*topics), partitions))

    talk.sends(request)

    assert type(talk.session.pipeline.head()) is ProducedToSeveral
    assert talk.forwarded_bytes() == request
    answer = talk.response(PRODUCE, version, of_partitions(produced(*topics), partitions))
    assert talk.session.forward_response(memoryview(bytearray(answer)), talk.now_ms)
    assert {event.resource_name: event.count for event in talk.summaries()} == {
        name: 2 if name in names else 1 for name in ("orders", "payments")
    }


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", [8, 9, 12, 13])
@pytest.mark.parametrize(
    ("names", "changes"),
    [
        pytest.param(("orders", "secrets"), {}, id="a denied topic"),
        pytest.param(("orders", "payments"), {"transactional_id": "t"}, id="a transactional id"),
        pytest.param(("orders", "payments"), {"records": None}, id="null records"),
        pytest.param(("orders", "payments"), {"partitions": 33}, id="more than 64 partitions"),
        pytest.param(("orders", "payments"), {"partitions": 0}, id="topics without partitions"),
    ],
)
def test_a_produce_that_is_not_plain_is_decoded(
    version: int, names: tuple[str, ...], changes: dict[str, Any]
) -> None:
    talk, partitions = settled(version), changes.get("partitions", 1)
    message = to_partitions(produce(*at(version, *names)), partitions)
    message.transactional_id = changes.get("transactional_id")
    if "records" in changes:
        message.topic_data[0].partition_data[0].records = None

    talk.sends(talk.request(PRODUCE, version, message))

    assert type(talk.session.pipeline.head()) is not ProducedToSeveral


@pytest.mark.spec("S5")
def test_a_topic_is_not_written_any_more_once_its_acl_is_removed() -> None:
    talk = settled(9)
    talk.gate.image = image_with("WRITE TOPIC orders")

    talk.asks(PRODUCE, 9, produce("orders", "payments"))

    (request,) = talk.forwarded()
    assert [topic.name for topic in request.message.topic_data] == ["orders"]


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", [9, 10, 13])
def test_addresses_in_a_response_with_an_error_are_those_of_proxies(version: int) -> None:
    talk, topics = settled(version), at(version, "orders", "payments")
    response = produced(*topics, error_code=LEADER_CHANGED)
    if version >= FIRST_WITH_ENDPOINTS:
        endpoint = t.ProduceResponse.NodeEndpoint
        response.node_endpoints = [endpoint(node_id=2, host="broker-two", port=9092)]

    talk.asks(PRODUCE, version, produce(*topics))
    talk.answers(PRODUCE, version, response)

    heard = talk.heard(PRODUCE, version)
    assert errors_of(heard) == [(topic, LEADER_CHANGED) for topic in topics]
    if version >= FIRST_WITH_ENDPOINTS:
        assert [(node.host, node.port) for node in heard.node_endpoints] == [("proxy-two", 29092)]


exchanges = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["orders", "payments", "secrets", "orders"]), min_size=1, max_size=3),
        st.integers(1, 3),  # Partitions.
        st.sampled_from([0, 1, -1]),  # acks
        st.sampled_from([0, 0, 0, LEADER_CHANGED]),
        st.booleans(),  # Whether the response comes cut in two.
        st.sampled_from([0, 1, 1_500]),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.spec("Q7", "D1")
@settings(max_examples=60, deadline=None)
@given(exchanges, st.sampled_from([3, 8, 9, 10, 12, 13]), st.sampled_from([2_000, 1e9, None]))
def test_both_ways_say_charge_and_count_the_same(
    said: list[tuple[list[str], int, int, int, bool, int]], version: int, bytes_per_second: float | None
) -> None:
    def run() -> Conversation:
        talk = Conversation(*RIGHTS, quotas=Quotas(producer=bytes_per_second))
        for names, partitions, acks, error_code, is_cut, pause_ms in said:
            exchange(talk, version, names, partitions, acks, error_code, is_cut)
            talk.passes(pause_ms)
            while talk.session.state & State.MUTED:
                talk.is_unmuted()
        return talk

    short = run()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(skim, "produce", lambda *_: None)
        long = run()

    assert short.forwarded_bytes() == long.forwarded_bytes()
    assert short.heard_bytes() == long.heard_bytes()
    assert (short.mutes, short.events, short.closed) == (long.mutes, long.events, long.closed)
    assert short.summaries() == long.summaries()
    assert short.counted() == long.counted()


def exchange(
    talk: Conversation,
    version: int,
    names: list[str],
    partitions: int,
    acks: int,
    error_code: int,
    is_cut: bool,
) -> None:
    topics = at(version, *names)
    talk.asks(PRODUCE, version, to_partitions(produce(*topics, acks=acks), partitions))
    entry = talk.session.pipeline.head()
    if entry is None:
        return
    allowed = [topic for topic in dict.fromkeys(topics) if topic not in at(version, "secrets")]
    answer = of_partitions(produced(*allowed), partitions)
    for topic in answer.responses:
        topic.partition_responses[-1].error_code = error_code
    data = talk.response(PRODUCE, entry.version, answer, entry.correlation_id)
    for piece in (data[:20], data[20:]) if is_cut else (data,):
        talk.broker_sends(piece)


@pytest.mark.spec("O6")
@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(VERSIONS), st.lists(st.sampled_from(["orders", "payments"]), max_size=3))
def test_what_is_read_without_decoding_is_what_decoding_reads(
    data: st.DataObject, version: int, names: list[str]
) -> None:
    message = to_partitions(produce(*at(version, *names)), data.draw(st.integers(0, 3)))
    codec = codecs.request(PRODUCE, version)
    body = mutated(data, codec.encode(message))

    read = skim.produce(memoryview(body), 0, version)

    if read is None or read[3] != len(body) or any(body[len(body) - skim.tag_bytes(version) :]):
        return
    by_id = version >= FIRST_WITH_TOPIC_ID
    if not (by_id or all(topic.decode(errors="ignore").encode() == topic for topic in read[1])):
        # Names are compared with those that are known, so this is left to who looks them up.
        with pytest.raises(WireError, match="not UTF-8"):
            codec.decode(body)
        return
    decoded, end = codec.decode(body)
    topics = [bytes(topic.topic_id) if by_id else topic.name.encode() for topic in decoded.topic_data]
    partitions = sum(len(topic.partition_data) for topic in decoded.topic_data)
    assert read == (decoded.acks, topics, partitions, end)
    assert decoded.transactional_id is None
    assert all(part.records is not None for topic in decoded.topic_data for part in topic.partition_data)


@pytest.mark.spec("A7")
@settings(max_examples=300, deadline=None)
@given(
    st.data(), st.sampled_from([10, 12, 13]), st.lists(st.sampled_from(["orders", "payments"]), max_size=3)
)
def test_a_response_that_passes_has_neither_errors_nor_addresses(
    data: st.DataObject, version: int, names: list[str]
) -> None:
    message = of_partitions(produced(*at(version, *names)), data.draw(st.integers(0, 3)))
    codec = codecs.response(PRODUCE, version)
    body = mutated(data, codec.encode(message))

    if not skim.produced_without_error(memoryview(body), 0, version):
        return
    try:
        decoded, end = codec.decode(body)
    except WireError as error:
        if "not UTF-8" not in str(error):
            raise
        return  # A name passes as the broker has sent it.
    assert end == len(body)
    assert not decoded.node_endpoints
    parts = [part for topic in decoded.responses for part in topic.partition_responses]
    assert all(part.error_code == 0 and part.error_message is None for part in parts)
    assert all(part.current_leader.leader_id == -1 for part in parts)


def mutated(data: st.DataObject, encoded: bytes) -> bytearray:
    body = bytearray(encoded)
    for _ in range(data.draw(st.integers(0, 2))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    return body[: len(body) - data.draw(st.sampled_from([0, 0, 0, 1, 5]))]
