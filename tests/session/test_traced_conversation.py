"""Requests that are traced: which have a span, and what it says."""

from typing import Any

import pytest

from proxy.net.telemetry.request_tracer import CONNECTION_CLOSED, traced_session
from proxy.net.telemetry.spans import Sampler
from proxy.security.principal import Principal
from proxy.session.authentication import Authentication
from proxy.session.gate import Peer
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT
from tests.session.conversation import (
    Conversation,
    Quotas,
    fetch,
    fetched,
    plain_token,
    produce,
    produced,
    sasl,
)
from tests.session.topic_creation import made, metadata, wanted
from tests.support.recorded_spans import RecordedSpan, RecordedSpans, recording
from tests.support.topic_requests import create_topics

pytestmark = pytest.mark.spec("O12")

PRODUCE, FETCH, CREATE_TOPICS, METADATA = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.CREATE_TOPICS,
    ApiKey.METADATA,
)
LIST_OFFSETS = ApiKey.LIST_OFFSETS
TOPICS_V = codecs.request_versions(CREATE_TOPICS)[-1]


class TracedConversation(Conversation):
    spans: RecordedSpans

    def __init__(self, *rights: str, ratio: float = 1.0, **changes: Any) -> None:
        super().__init__(*rights, **changes)
        self.spans, tracing = recording(ratio)
        listener = changes.get("sasl_listener")
        peer = Peer("c0ffee", "10.0.0.1", bytes([10, 0, 0, 1]))
        authentication = Authentication(listener, Principal("User", "alice"), host=peer.host)
        self.session = traced_session(self.gate, self.listener, peer, authentication, tracing)

    @property
    def span(self) -> RecordedSpan:
        """The only one."""
        (span,) = self.spans.begun
        assert span.is_ended
        return span


def list_offsets(*names: str) -> Any:
    request = t.ListOffsetsRequest
    partition = request.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [request.ListOffsetsTopic(name=name, partitions=[partition]) for name in names]
    return request(replica_id=-1, topics=topics)


def offsets(*names: str) -> Any:
    response = t.ListOffsetsResponse
    partition = response.ListOffsetsPartitionResponse(partition_index=0, offset=3)
    return response(
        topics=[response.ListOffsetsTopicResponse(name=name, partitions=[partition]) for name in names]
    )


def test_the_span_of_a_produce_request_says_who_asked_for_what_and_what_came_of_it() -> None:
    talk = TracedConversation("WRITE TOPIC orders")
    for _ in range(3):  # The first is decoded, the second streams, the third is known by its beginning.
        talk.asks(PRODUCE, 11, produce("orders"))
        talk.answers(PRODUCE, 11, produced("orders"))

    request_bytes = len(talk.forwarded_bytes()) // 3
    response_bytes = len(talk.heard_bytes()) // 3
    for number, span in enumerate(talk.spans.ended, 1):
        assert (span.name, span.kind, span.parent, span.error) == ("Produce", "server", None, None)
        streamed = {"messaging.destination.name": "orders", "kafka.error_code": 0}
        assert span.attributes == streamed | {
            "messaging.system": "kafka",
            "messaging.operation.name": "Produce",
            "messaging.client.id": "app",
            "kafka.api.key": 0,
            "kafka.api.name": "Produce",
            "kafka.api.version": 11,
            "kafka.correlation_id": number,
            "kafka.request.bytes": request_bytes,
            "kafka.response.bytes": response_bytes,
            "kafka.throttle_time_ms": 0,
            "penstock.connection.id": "c0ffee",
            "penstock.listener": "SASL",
            "penstock.principal": "User:alice",
            "penstock.denied": False,
            "network.peer.address": "10.0.0.1",
        }
        assert span.start_ns is not None
        assert span.end_ns is not None
        assert span.end_ns >= span.start_ns
    assert len(talk.spans.ended) == 3


def test_each_pipelined_request_has_its_own_span_whichever_way_it_goes() -> None:
    talk = TracedConversation("WRITE TOPIC orders", "READ TOPIC orders", "DESCRIBE TOPIC orders")
    for _ in range(2):
        talk.asks(PRODUCE, 11, produce("orders"))
        talk.asks(FETCH, 12, fetch("orders"))
        talk.asks(LIST_OFFSETS, 5, list_offsets("orders", "secrets"))
        talk.asks(PRODUCE, 11, produce("secrets"))
        asked = [talk.correlation_id - behind for behind in (3, 2, 1)]
        answers = talk.response(PRODUCE, 11, produced("orders"), asked[0])
        answers += talk.response(FETCH, 12, fetched("orders", records=bytes(5_000)), asked[1])
        answers += talk.response(LIST_OFFSETS, 5, offsets("orders"), asked[2])
        for start in range(0, len(answers), 97):
            talk.broker_sends(answers[start : start + 97])

    frames = talk.heard_all((0, 11), (1, 12), (2, 5), (0, 11), (0, 11), (1, 12), (2, 5), (0, 11))
    assert [frame[0] for frame in frames] == list(range(1, 9))
    told = [
        (span.name, span.attributes["kafka.correlation_id"], span.attributes["penstock.denied"], span.error)
        for span in talk.spans.ended
    ]
    denied = "TOPIC_AUTHORIZATION_FAILED"
    assert told == [
        ("Produce", 1, False, None),
        ("Fetch", 2, False, None),
        ("ListOffsets", 3, True, None),
        ("Produce", 4, True, denied),
        ("Produce", 5, False, None),
        ("Fetch", 6, False, None),
        ("ListOffsets", 7, True, None),
        ("Produce", 8, True, denied),
    ]
    fetches = [span.attributes for span in talk.spans.ended if span.name == "Fetch"]
    assert all(5_000 < each["kafka.response.bytes"] < 5_200 for each in fetches)


def test_a_fetch_that_goes_the_short_way_is_traced_as_the_one_before_but_for_its_size() -> None:
    talk = TracedConversation("READ TOPIC orders")
    for _ in range(2):
        talk.asks(FETCH, 12, fetch("orders"))
        talk.answers(FETCH, 12, fetched("orders"))

    first, second = (dict(span.attributes) for span in talk.spans.ended)
    assert (first.pop("kafka.correlation_id"), second.pop("kafka.correlation_id")) == (1, 2)
    assert first.pop("kafka.request.bytes") > 50
    assert first == second


def test_the_size_of_a_response_is_left_out_rather_than_wrong_if_another_is_under_way() -> None:
    talk = TracedConversation("READ TOPIC orders", ratio=0.5)
    # With 0.5 for each random number every second one is chosen.
    talk.asks(FETCH, 12, fetch("orders"))
    first = talk.response(FETCH, 12, fetched("orders", records=bytes(3_000)))
    talk.broker_sends(first[:1_000])
    talk.asks(FETCH, 12, fetch("orders"))
    talk.broker_sends(first[1_000:] + talk.response(FETCH, 12, fetched("orders", records=bytes(5_000))))
    sizes = [1, 2, 70_000, 4]
    asked = [talk.asks(FETCH, 12, fetch("orders")) for _ in sizes]
    responses = [
        talk.response(FETCH, 12, fetched("orders", records=bytes(size)), number)
        for size, number in zip(sizes, asked, strict=True)
    ]
    answers = b"".join(responses)
    for start in range(0, len(answers), 1_001):
        talk.broker_sends(answers[start : start + 1_001])

    told = [span.attributes.get("kafka.response.bytes") for span in talk.spans.ended]
    assert told == [None, len(responses[1]), len(responses[3])]


def test_a_forwarded_request_has_a_span_even_if_nothing_else_is_sampled() -> None:
    talk = TracedConversation("CREATE TOPIC new", "WRITE TOPIC orders", ratio=0)
    talk.asks(PRODUCE, 11, produce("orders"))
    talk.answers(PRODUCE, 11, produced("orders"))
    talk.asks(CREATE_TOPICS, TOPICS_V, create_topics("new"))

    (span,) = talk.spans.begun
    assert not span.is_ended
    assert talk.controller[-1].traceparent == span.traceparent
    talk.controller_answers(made(new=ErrorCode.TOPIC_ALREADY_EXISTS))

    assert (talk.span.name, talk.span.error) == ("CreateTopics", "TOPIC_ALREADY_EXISTS")
    attributes = talk.span.attributes
    assert attributes["penstock.forward.id"] == "p/b/0"
    assert attributes["penstock.metadata.offset"] == 5
    assert attributes["kafka.correlation_id"] == 2
    assert attributes["kafka.error_code"] == ErrorCode.TOPIC_ALREADY_EXISTS
    assert attributes["penstock.principal"] == "User:alice"


def test_a_question_to_the_controller_belongs_to_the_request_that_it_is_asked_for() -> None:
    talk = TracedConversation("DESCRIBE TOPIC *", f"CREATE {CLUSTER_RIGHT}", ratio=0)
    talk.gate.auto_creates_topics = talk.gate.creates_topics_at_controller = True

    talk.asks(METADATA, 9, wanted("new"))
    talk.answers(METADATA, 13, metadata(13, new=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), -590)
    assert talk.controller[-1].traceparent == talk.spans.begun[0].traceparent
    talk.controller_answers(made(new=0))
    assert not talk.spans.ended
    talk.answers(METADATA, 9, metadata(9, new=0))

    assert (talk.span.name, talk.span.attributes["penstock.forward.id"]) == ("Metadata", "p/b/0")


def test_the_span_of_a_forwarded_request_ends_with_its_connection() -> None:
    talk = TracedConversation("CREATE TOPIC new", "WRITE TOPIC orders")
    talk.asks(PRODUCE, 11, produce("orders"))
    talk.asks(CREATE_TOPICS, TOPICS_V, create_topics("new"))
    talk.session.closed()

    assert (talk.span.name, talk.span.error) == ("CreateTopics", CONNECTION_CLOSED)


def test_a_request_that_the_controller_did_not_take_ends_with_its_error() -> None:
    talk = TracedConversation("CREATE TOPIC new", ratio=0)
    talk.asks(CREATE_TOPICS, TOPICS_V, create_topics("new"))
    talk.controller_answers(error_code=ErrorCode.REQUEST_TIMED_OUT)

    assert (talk.span.error, talk.span.attributes["kafka.error_code"]) == ("REQUEST_TIMED_OUT", 7)


def test_strangers_and_logins_have_no_spans() -> None:
    talk = TracedConversation("WRITE TOPIC orders", sasl_listener=sasl(60_000))
    talk.asks(
        ApiKey.API_VERSIONS, 3, t.ApiVersionsRequest(client_software_name="x", client_software_version="1")
    )
    talk.heard_bytes()
    talk.logs_in()
    assert talk.spans.begun == []

    talk.asks(PRODUCE, 11, produce("orders"))
    talk.passes(10_000)
    talk.asks(ApiKey.SASL_HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
    talk.asks(ApiKey.SASL_AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice")))
    talk.answers(PRODUCE, 11, produced("orders"), talk.correlation_id - 2)
    talk.asks(PRODUCE, 11, produce("orders"))
    talk.answers(PRODUCE, 11, produced("orders"))

    assert talk.close_reason is None
    assert [span.name for span in talk.spans.ended] == ["Produce", "Produce"]


def test_a_request_without_a_response_has_no_span_and_lends_its_place_to_none() -> None:
    talk = TracedConversation("WRITE TOPIC orders", "WRITE TOPIC payments")
    talk.asks(PRODUCE, 11, produce("orders", "payments", acks=0))
    talk.asks(PRODUCE, 11, produce("orders", acks=0))
    talk.asks(PRODUCE, 11, produce("orders"))
    talk.answers(PRODUCE, 11, produced("orders"))

    assert talk.span.attributes["kafka.correlation_id"] == 3


def test_a_throttled_request_says_for_how_long() -> None:
    talk = TracedConversation("WRITE TOPIC orders", quotas=Quotas(producer=1_000))
    talk.asks(PRODUCE, 11, produce("orders", records=bytes(20_000)))
    talk.answers(PRODUCE, 11, produced("orders"))

    throttled_ms = talk.heard(PRODUCE, 11).throttle_time_ms
    assert throttled_ms > 0
    assert talk.span.attributes["kafka.throttle_time_ms"] == throttled_ms


def test_a_response_of_our_own_is_read_for_its_error_only_if_it_is_small() -> None:
    talk = TracedConversation("WRITE TOPIC orders", ratio=1)
    names = [f"denied-{number:06}" for number in range(300)]
    talk.asks(PRODUCE, 11, produce("secrets"))
    talk.asks(PRODUCE, 11, produce(*names))

    small, large = (span.attributes for span in talk.spans.ended)
    assert small["kafka.error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "kafka.error_code" not in large
    assert large["penstock.denied"]


def test_the_share_of_requests_that_are_sampled_is_the_one_configured() -> None:
    talk = TracedConversation("WRITE TOPIC orders", ratio=0.5)
    # With 0.5 for each random number, the distance is 2.
    for _ in range(10):
        talk.asks(PRODUCE, 11, produce("orders"))
        talk.answers(PRODUCE, 11, produced("orders"))

    assert [span.attributes["kafka.correlation_id"] for span in talk.spans.ended] == [2, 4, 6, 8, 10]


@pytest.mark.parametrize("ratio", [0.0, 0.001, 0.1, 0.5, 0.999, 1.0])
def test_each_request_is_sampled_with_the_same_probability(ratio: float) -> None:
    numbers = iter([(number * 0.618_033_988_75) % 1 for number in range(200_000)])
    sampler = Sampler(ratio, numbers.__next__)

    chosen = sum(sampler.chooses() for _ in range(100_000))

    assert chosen == pytest.approx(100_000 * ratio, rel=0.05)
