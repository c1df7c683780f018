"""What is not to be understood, not served, or too early: written down, and the connection closed or told."""

from struct import pack
from typing import Any

import pytest

from proxy.session.apis.table import TABLE
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import encode_request
from tests.session.apis.asking import CLUSTER_RIGHT, image_with
from tests.session.conversation import Conversation, fetch, produce, produced
from tests.support.images import image_of, quota_record

PRODUCE, FETCH, METADATA = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA
UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR


def refusal(talk: Conversation) -> Any:
    """The record of what was refused; nothing else may have come of it."""
    assert talk.heard_bytes() == b""
    assert talk.closed is not None
    (event,) = talk.told("request_refused")
    assert event.granted is False
    return event


@pytest.mark.spec("A7", "E10")
@pytest.mark.parametrize(
    ("api_key", "version", "message"),
    [
        (999, 0, "Unknown(999) v0 (api key 999) is not served here"),
        (-1, 0, "Unknown(-1) v0 (api key -1) is not served here"),
        (ApiKey.ENVELOPE, 0, "Envelope v0 (api key 58) is not served here"),
        (ApiKey.METADATA, 99, "Metadata v99 (api key 3) is not served here"),
        (ApiKey.WRITE_SHARE_GROUP_STATE, 1, "WriteShareGroupState v1 (api key 85) is not served here"),
    ],
)
def test_an_api_or_version_that_is_not_served_ends_the_connection(
    api_key: int, version: int, message: str
) -> None:
    talk = Conversation("WRITE TOPIC orders")

    talk.sends(pack(">ihhih3sxxxx", 17, api_key, version, 5, 3, b"app"))

    event = refusal(talk)
    assert (talk.close_reason, event.message) == ("unsupported_request", message)
    assert (event.correlation_id, event.api_version) == (5, version)
    assert talk.forwarded_bytes() == b""


@pytest.mark.spec("O6")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pack(">i", -1), "a request of -1 bytes, the least is 10"),
        (pack(">i", -(2**31)), "a request of -2147483648 bytes, the least is 10"),
        (pack(">i", 0), "a request of 0 bytes, the least is 10"),
        (
            pack(">i", 2**31 - 1),
            "a request of 2147483647 bytes, more than socket.request.max.bytes, which is 1048576",
        ),
        (
            pack(">ih", 70_000, ApiKey.METADATA),
            "Metadata of 70000 bytes, more than decoded.request.max.bytes, which is 65536",
        ),
    ],
)
def test_a_length_that_cannot_be_is_refused_before_anything_is_held(data: bytes, message: str) -> None:
    talk = Conversation("WRITE TOPIC orders")

    talk.sends(data)
    talk.sends(bytes(100_000))

    assert refusal(talk).message == message
    assert talk.close_reason == "malformed_request"


@pytest.mark.spec("O2", "O6")
@pytest.mark.parametrize("before", [b"", None])
def test_another_protocol_is_named_at_its_first_four_bytes(before: bytes | None) -> None:
    """Also behind a request, as from a client that switches to TLS too late."""
    talk = Conversation("DESCRIBE TOPIC orders")
    request = talk.request(METADATA, 12, t.MetadataRequest(topics=[])) if before is None else before

    talk.sends(request + b"\x16\x03\x01")
    assert talk.closed is None
    talk.sends(b"\x06" + bytes(100_000))

    (event,) = talk.told("request_refused")
    assert event.message == (
        "a TLS handshake in place of a Kafka request: the client uses TLS, and this listener does not:"
        " see security.protocol of both"
    )
    assert talk.session.closing


@pytest.mark.spec("O6")
def test_an_unknown_topic_count_of_millions_is_an_error_and_costs_nothing() -> None:
    talk = Conversation("DESCRIBE TOPIC orders")

    talk.sends(encode_request(METADATA, 4, 1, "app", pack(">i", 2**31 - 1)))

    assert talk.close_reason == "malformed_request"
    assert talk.forwarded_bytes() == b""


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", [3, 9])
def test_a_truncated_produce_request_is_refused(version: int) -> None:
    talk = Conversation("WRITE TOPIC orders")
    frame = bytearray(talk.request(PRODUCE, version, produce("orders", "orders")))[:-4]
    frame[:4] = pack(">i", len(frame) - 4)

    talk.sends(bytes(frame))

    assert refusal(talk)
    assert talk.forwarded_bytes() == b""


@pytest.mark.spec("A7", "O6")
def test_good_requests_before_a_broken_one_are_answered_before_the_end() -> None:
    talk = Conversation("WRITE TOPIC orders")
    good = talk.request(PRODUCE, 9, produce("orders"))

    talk.sends(good + pack(">i", -5) + good)

    assert talk.forwarded_bytes() == good
    assert talk.closed is None
    assert talk.session.closing
    talk.sends(good)
    talk.answers(PRODUCE, 9, produced("orders"), 1)
    assert talk.heard(PRODUCE, 9).responses[0].name == "orders"
    assert talk.close_reason == "malformed_request"
    assert talk.forwarded_bytes() == b""


@pytest.mark.spec("A7")
def test_bytes_behind_a_metadata_request_are_cut() -> None:
    talk = Conversation("DESCRIBE TOPIC orders")
    asked = t.MetadataRequest(topics=[t.MetadataRequest.MetadataRequestTopic(name="orders")])

    talk.sends(talk.request(METADATA, 12, asked, trailing=b"librdkafka"))

    (request,) = talk.forwarded()
    assert (request.trailing, request.message.topics[0].name) == (b"", "orders")


@pytest.mark.spec("Q8")
def test_a_quota_set_meanwhile_slows_the_next_request() -> None:
    talk = Conversation("WRITE TOPIC orders")
    talk.asks(PRODUCE, 9, produce("orders", records=bytes(30_000)))
    talk.answers(PRODUCE, 9, produced("orders"))
    assert talk.heard(PRODUCE, 9).throttle_time_ms == 0

    assert talk.gate.image is not None
    talk.gate.image = image_of(
        quota_record("producer_byte_rate", 1_000.0, user="alice"), base=talk.gate.image
    )
    talk.asks(PRODUCE, 9, produce("orders", records=bytes(30_000)))
    talk.answers(PRODUCE, 9, produced("orders"))

    throttle_ms = talk.heard(PRODUCE, 9).throttle_time_ms
    assert throttle_ms > 15_000
    (told,) = [e for e in talk.summaries() if e.event == "throttled"]
    assert (told.quota_id, told.quota_key, told.quota_limit) == ("alice:", "producer_byte_rate", 1_000.0)
    assert (told.count, told.throttle_time_ms) == (1, throttle_ms)


@pytest.mark.spec("D1", "Q8")
def test_a_throttle_is_written_down_though_the_image_changed_before_the_answer() -> None:
    talk = Conversation("WRITE TOPIC orders")
    image = image_of(
        quota_record("producer_byte_rate", 1_000.0, user="alice"), base=image_with("WRITE TOPIC orders")
    )
    talk.gate.image = image
    first = talk.asks(PRODUCE, 9, produce("orders", records=bytes(30_000)))
    talk.gate.image = image_of(quota_record("producer_byte_rate", 2_000.0, user="bob"), base=image)
    talk.asks(PRODUCE, 9, produce("orders"))

    talk.answers(PRODUCE, 9, produced("orders"), first)

    assert [e.quota_id for e in talk.summaries() if e.event == "throttled"] == ["alice:"]


@pytest.mark.spec("Q5")
def test_each_client_id_of_a_connection_is_counted_by_its_own_name() -> None:
    talk = Conversation("WRITE TOPIC orders")

    talk.asks(PRODUCE, 9, produce("orders"), client_id="one")
    talk.asks(PRODUCE, 9, produce("orders"), client_id=None)
    talk.asks(PRODUCE, 9, produce("orders"), client_id="two")

    counted = [*talk.told("authorization_summary"), *talk.summaries()]
    assert [(e.client_id, e.count) for e in counted] == [("one", 1), (None, 1), ("two", 1)]
    assert len(talk.forwarded()) == 3


@pytest.mark.spec("S4")
@pytest.mark.parametrize("api_key", sorted(TABLE), ids=ApiKey.name_of)
def test_before_the_log_is_loaded_every_api_is_refused_to_all_but_super_users(api_key: int) -> None:
    version = codecs.request_versions(api_key)[-1]
    talk = Conversation(early=True)

    talk.asks(api_key, version, getattr(t, ApiKey.name_of(api_key) + "Request")())

    assert talk.forwarded_bytes() == b""
    assert not talk.controller
    assert talk.heard(api_key, version) is not None
    (event,) = talk.told("authorization")
    assert (event.rule, event.granted, event.metadata_offset) == ("authorizer.not.ready", False, None)
    assert event.method == ApiKey.name_of(api_key)


@pytest.mark.spec("S4")
def test_the_name_of_the_error_stands_in_the_message() -> None:
    talk = Conversation(early=True)

    talk.asks(ApiKey.DESCRIBE_CLUSTER, 1, t.DescribeClusterRequest())
    cluster = talk.heard(ApiKey.DESCRIBE_CLUSTER, 1)
    talk.asks(PRODUCE, 9, produce("orders", "payments"))
    written = talk.heard(PRODUCE, 9)
    talk.asks(FETCH, 12, fetch("orders"))
    read = talk.heard(FETCH, 12)

    assert (cluster.error_code, cluster.error_message) == (UNKNOWN, "AUTHORIZER_NOT_READY")
    assert [(p.error_code, p.error_message) for r in written.responses for p in r.partition_responses] == [
        (UNKNOWN, "AUTHORIZER_NOT_READY")
    ] * 2
    assert read.error_code == UNKNOWN
    assert [p.error_code for r in read.responses for p in r.partitions] == [UNKNOWN]


@pytest.mark.spec("S4")
def test_before_the_log_is_loaded_a_produce_request_without_acks_is_closed_on() -> None:
    talk = Conversation(early=True)

    talk.asks(PRODUCE, 9, produce("orders", acks=0))

    assert (talk.close_reason, talk.forwarded_bytes()) == ("produce_denied", b"")


@pytest.mark.spec("S4")
def test_before_the_log_is_loaded_a_super_user_is_served() -> None:
    talk = Conversation(early=True, principal="root")

    talk.asks(PRODUCE, 9, produce("orders"))
    talk.asks(METADATA, 12, t.MetadataRequest(topics=None))
    talk.asks(FETCH, 12, fetch("orders"))

    assert [r.header.api_key for r in talk.forwarded()] == [PRODUCE, METADATA, FETCH]
    assert talk.told("authorization") == []


@pytest.mark.spec("S4")
def test_once_the_log_is_loaded_the_same_connection_is_served() -> None:
    talk = Conversation(early=True)
    talk.asks(PRODUCE, 9, produce("orders"))
    assert talk.heard(PRODUCE, 9).responses[0].partition_responses[0].error_code == UNKNOWN

    talk.gate.image = image_with("WRITE TOPIC orders")
    talk.asks(PRODUCE, 9, produce("orders"))

    assert len(talk.forwarded()) == 1


@pytest.mark.spec("A7")
@pytest.mark.parametrize("cluster_right", [False, True])
@pytest.mark.parametrize("principal", ["alice", "root"])
def test_our_own_topics_are_neither_deleted_nor_emptied(principal: str, cluster_right: bool) -> None:
    rights = (f"DELETE {CLUSTER_RIGHT}",) if cluster_right else ("DELETE TOPIC __penstock_metadata",)
    talk = Conversation(*rights, "DELETE TOPIC orders", principal=principal)
    request = t.DeleteTopicsRequest
    names = ["__penstock_metadata", "orders"]

    talk.asks(
        ApiKey.DELETE_TOPICS,
        6,
        request(topics=[request.DeleteTopicState(name=name) for name in names], timeout_ms=1_000),
    )
    # Who may describe a topic would hear that it is missing, so the broker is asked.
    existing = t.MetadataResponse.MetadataResponseTopic(name="__penstock_metadata")
    for asked_for in talk.forwarded():
        header = asked_for.header
        talk.answers(
            METADATA, header.api_version, t.MetadataResponse(topics=[existing]), header.correlation_id
        )
    (forwarded,) = talk.controller
    sent, _ = codecs.request(ApiKey.DELETE_TOPICS, 6).decode(forwarded.body)
    assert [topic.name for topic in sent.topics] == ["orders"]
    assert "protected.topic" in [e.rule for e in talk.told("authorization")]

    other = Conversation(*rights, principal=principal)
    asked = t.DeleteRecordsRequest
    topic = asked.DeleteRecordsTopic(
        name="__penstock_metadata", partitions=[asked.DeleteRecordsPartition(partition_index=0, offset=9)]
    )
    other.asks(ApiKey.DELETE_RECORDS, 2, asked(topics=[topic], timeout_ms=1_000))
    answer = other.heard(ApiKey.DELETE_RECORDS, 2)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert other.forwarded_bytes() == b""


@pytest.mark.spec("D1")
def test_a_denial_whose_response_cannot_be_written_is_recorded_all_the_same() -> None:
    """The error names topics of the client, more of them than a string of Kafka's may have."""
    request, api_key = t.StreamsGroupHeartbeatRequest, ApiKey.STREAMS_GROUP_HEARTBEAT
    names = [f"{number:0200}" for number in range(200)]
    topics = [request.TopicInfo(name=name) for name in names]
    part = request.Subtopology(subtopology_id="0", repartition_source_topics=topics)
    talk = Conversation("READ GROUP team", "DESCRIBE TOPIC *")
    heartbeat = request(group_id="team", member_id="m", topology=request.Topology(subtopologies=[part]))
    talk.asks(api_key, 0, heartbeat)
    (asking,) = talk.forwarded()
    talk.answers(METADATA, asking.header.api_version, t.MetadataResponse(), asking.header.correlation_id)

    assert (talk.heard_bytes(), talk.close_reason) == (b"", "malformed_request")
    assert talk.closed is not None
    assert "error_message: a string of " in talk.closed.message
    denied = [each.count or 1 for each in talk.events if each.operation == "CREATE" and not each.granted]
    assert sum(denied) == len(names)
