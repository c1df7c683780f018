"""Answers leave in the order of the requests, whoever makes them: broker, controller or the proxy itself."""

from typing import Any

import pytest

from proxy.metadata.image import MetadataImage
from proxy.security.principal import Principal, deserialize
from proxy.session.in_flight import MAX_IN_FLIGHT, MAX_READY_BYTES
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import encode_request, encode_response
from tests.session.apis.asking import CLUSTER_RIGHT, image_with
from tests.session.conversation import Conversation, produce, produced
from tests.support.topic_requests import create_topics
from tests.support.two_sides import allow_request

API_VERSIONS, PRODUCE, CREATE_TOPICS, CREATE_ACLS = (
    ApiKey.API_VERSIONS,
    ApiKey.PRODUCE,
    ApiKey.CREATE_TOPICS,
    ApiKey.CREATE_ACLS,
)
TOPICS_V, ACLS_V = codecs.request_versions(CREATE_TOPICS)[-1], codecs.request_versions(CREATE_ACLS)[-1]
ADMIN = ("CREATE TOPIC new", f"ALTER {CLUSTER_RIGHT}", "WRITE TOPIC orders")


def created(*names: str, error_code: int = 0) -> Any:
    response = t.CreateTopicsResponse
    return response(
        topics=[response.CreatableTopicResult(name=name, error_code=error_code) for name in names]
    )


@pytest.mark.spec("R5", "A7")
def test_our_own_answers_wait_for_those_of_the_broker_before_them() -> None:
    talk = Conversation("WRITE TOPIC orders")
    first = talk.asks(PRODUCE, 9, produce("orders"))
    second = talk.asks(API_VERSIONS, 0, t.ApiVersionsRequest())
    third = talk.asks(PRODUCE, 9, produce("orders"))
    fourth = talk.asks(PRODUCE, 9, produce("secrets"))
    assert talk.heard_bytes() == b""

    both = talk.response(PRODUCE, 9, produced("orders"), first) + talk.response(
        PRODUCE, 9, produced("orders"), third
    )
    for byte in both:
        talk.broker_sends(bytes([byte]))

    heard = talk.heard_all((PRODUCE, 9), (API_VERSIONS, 0), (PRODUCE, 9), (PRODUCE, 9))
    assert [correlation_id for correlation_id, _ in heard] == [first, second, third, fourth]


@pytest.mark.spec("E3", "R5")
def test_a_broker_cannot_respond_in_place_of_the_controller() -> None:
    talk = Conversation(*ADMIN)
    talk.asks(CREATE_TOPICS, TOPICS_V, create_topics("new"))

    talk.answers(CREATE_TOPICS, TOPICS_V, created("new"))

    assert (talk.close_reason, talk.heard_bytes()) == ("upstream_protocol", b"")


@pytest.mark.spec("E3", "E13")
def test_while_the_controller_has_a_request_no_other_is_taken() -> None:
    talk = Conversation(*ADMIN)
    first = talk.asks(PRODUCE, 9, produce("orders"))
    forwarded = talk.asks(CREATE_TOPICS, TOPICS_V, create_topics("new"))
    later = talk.asks(PRODUCE, 9, produce("orders"))
    assert len(talk.forwarded()) == 1
    (request,) = talk.controller
    assert (request.api_key, request.correlation_id, request.timeout_ms) == (CREATE_TOPICS, forwarded, 9_000)
    assert deserialize(request.principal) == Principal("User", "alice")
    assert request.client_address == bytes([10, 0, 0, 1])

    talk.controller_answers(created("new"))
    assert len(talk.forwarded()) == 1
    assert talk.heard_bytes() == b""
    talk.answers(PRODUCE, 9, produced("orders"), first)
    talk.answers(PRODUCE, 9, produced("orders"), later)

    heard = talk.heard_all((PRODUCE, 9), (CREATE_TOPICS, TOPICS_V), (PRODUCE, 9))
    assert [correlation_id for correlation_id, _ in heard] == [first, forwarded, later]
    (event,) = talk.told("forwarded")
    assert (event.method, event.error_code, event.forward_id, event.last_offset) == (
        "CreateTopics",
        0,
        "p/b/0",
        5,
    )


@pytest.mark.spec("D1", "D2")
def test_the_record_of_a_forward_tells_sizes_and_the_controllers_throttle() -> None:
    talk = Conversation("CREATE TOPIC new")
    answer = created("new")
    answer.throttle_time_ms = 250
    asked = encode_request(CREATE_TOPICS, TOPICS_V, 1, "app", b"")

    talk.asks(CREATE_TOPICS, TOPICS_V, create_topics("new", "secret"))
    talk.controller_answers(answer)

    (event,) = talk.told("forwarded")
    body = codecs.request(CREATE_TOPICS, TOPICS_V).encode(create_topics("new", "secret"))
    assert event.request_bytes == len(asked) + len(body), "what the client sent, denied parts and all"
    assert event.response_bytes == len(
        encode_response(CREATE_TOPICS, TOPICS_V, 1, codecs.response(CREATE_TOPICS, TOPICS_V).encode(answer))
    )
    assert event.throttle_time_ms == 250


@pytest.mark.spec("D1")
def test_the_record_of_a_forward_without_an_answer_has_no_size_of_one() -> None:
    talk = Conversation(*ADMIN)

    talk.asks(CREATE_ACLS, ACLS_V, allow_request("orders", "bob"))
    talk.controller_answers(error_code=ErrorCode.REQUEST_TIMED_OUT)

    (event,) = talk.told("forwarded")
    assert event.request_bytes is not None
    assert (event.response_bytes, event.throttle_time_ms) == (None, None)


@pytest.mark.spec("E3")
def test_what_was_denied_here_is_merged_into_the_controllers_answer() -> None:
    talk = Conversation("CREATE TOPIC new", "CREATE TOPIC newer")

    talk.asks(CREATE_TOPICS, TOPICS_V, create_topics("newer", "secret", "new"))
    talk.controller_answers(created("new", "newer"))

    response = talk.heard(CREATE_TOPICS, TOPICS_V)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("newer", 0),
        ("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("new", 0),
    ]


@pytest.mark.spec("D1", "E3")
def test_the_record_of_a_forward_tells_the_error_inside_the_envelope_before_ours_are_merged_in() -> None:
    talk = Conversation("CREATE TOPIC new")
    refused = created("new")
    refused.topics[0].error_code = ErrorCode.TOPIC_ALREADY_EXISTS

    talk.asks(CREATE_TOPICS, TOPICS_V, create_topics("secret", "new"))
    talk.controller_answers(refused)

    (event,) = talk.told("forwarded")
    assert (event.error_code, event.envelope_error_code) == (ErrorCode.TOPIC_ALREADY_EXISTS, 0)


@pytest.mark.spec("E6")
@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT])
def test_an_error_of_the_controller_becomes_the_error_of_each_part(error: ErrorCode) -> None:
    talk = Conversation(*ADMIN)

    talk.asks(CREATE_ACLS, ACLS_V, allow_request("orders", "bob"))
    talk.controller_answers(error_code=error)

    assert [result.error_code for result in talk.heard(CREATE_ACLS, ACLS_V).results] == [error]
    assert [e.error_code for e in talk.told("forwarded")] == [error]
    talk.asks(PRODUCE, 9, produce("orders"))
    assert len(talk.forwarded()) == 1


@pytest.mark.spec("E3")
def test_a_version_the_controller_no_longer_speaks_closes_after_the_answers_before_it() -> None:
    talk = Conversation(*ADMIN)
    first = talk.asks(PRODUCE, 9, produce("orders"))
    talk.asks(CREATE_ACLS, ACLS_V, allow_request("orders", "bob"))

    talk.controller_answers(close=True)
    assert talk.closed is None
    talk.answers(PRODUCE, 9, produced("orders"), first)

    assert [c for c, _ in talk.heard_all((PRODUCE, 9))] == [first]
    assert talk.close_reason == "unsupported_by_controller"


@pytest.mark.spec("E3")
@pytest.mark.parametrize("denied", [False, True], ids=["as it came", "merged"])
def test_an_answer_of_the_controllers_that_cannot_be_read_is_not_passed_on(denied: bool) -> None:
    talk = Conversation("CREATE TOPIC new", "DESCRIBE_CONFIGS TOPIC new")

    talk.asks(CREATE_TOPICS, TOPICS_V, create_topics("new", *(["secret"] if denied else [])))
    talk.controller_answers(body=b"\xff\xff")

    assert talk.close_reason == "controller_protocol"
    assert talk.heard_bytes() == b""


@pytest.mark.spec("Q7", "Q12")
@pytest.mark.parametrize("denied", [False, True], ids=["as it came", "merged"])
def test_a_client_that_the_controller_tells_to_wait_is_not_heard_until_then(denied: bool) -> None:
    talk = Conversation("CREATE TOPIC new", "DESCRIBE_CONFIGS TOPIC new", "WRITE TOPIC orders")
    result = t.CreateTopicsResponse.CreatableTopicResult(
        name="new", error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED
    )
    talk.asks(CREATE_TOPICS, TOPICS_V, create_topics("new", *(["secret"] if denied else [])))

    talk.controller_answers(t.CreateTopicsResponse(throttle_time_ms=1_500, topics=[result]))
    answer = talk.heard(CREATE_TOPICS, TOPICS_V)
    talk.asks(PRODUCE, 9, produce("orders"))

    assert answer.throttle_time_ms == 1_500
    assert answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert talk.mutes == [1_500]
    assert talk.forwarded() == []
    talk.is_unmuted()
    assert len(talk.forwarded()) == 1


@pytest.mark.spec("E3")
def test_an_answer_to_a_request_that_the_controller_does_not_have_is_ignored() -> None:
    talk = Conversation(*ADMIN)
    talk.asks(CREATE_ACLS, ACLS_V, allow_request("orders", "bob"))
    talk.controller_answers(error_code=ErrorCode.REQUEST_TIMED_OUT)
    talk.heard_bytes()

    talk.controller_answers(error_code=ErrorCode.NONE, body=b"late")

    assert talk.heard_bytes() == b""
    assert len(talk.told("forwarded")) == 1


@pytest.mark.spec("O6", "O8")
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("api", "version", "request_of", "response_of"),
    [
        (PRODUCE, 9, lambda: produce("orders"), lambda: produced("orders")),
        (ApiKey.LIST_GROUPS, 4, t.ListGroupsRequest, t.ListGroupsResponse),
        (ApiKey.METADATA, 9, lambda: t.MetadataRequest(topics=[]), t.MetadataResponse),
    ],
)
def test_a_client_with_many_requests_in_flight_is_read_again_when_half_of_them_are_answered(
    api: ApiKey, version: int, request_of: Any, response_of: Any, at_once: bool
) -> None:
    talk = Conversation("WRITE TOPIC orders", "READ TOPIC orders")
    half = MAX_IN_FLIGHT // 2
    many = MAX_IN_FLIGHT + half
    frames = [talk.request(api, version, request_of()) for _ in range(many)]
    for data in [b"".join(frames)] if at_once else frames:
        talk.sends(data)

    while talk.session.turn_due:
        talk.carry_out(talk.session.take_turn(talk.now_ms))
    assert (len(talk.session.pipeline), talk.session.blocked) == (MAX_IN_FLIGHT, True)
    responses = [talk.response(api, version, response_of(), number) for number in range(1, many + 1)]
    for response in responses[:half]:
        talk.broker_sends(response)
    assert (len(talk.session.pipeline), talk.session.blocked) == (half, True)
    talk.broker_sends(responses[half])

    while talk.session.turn_due:
        talk.carry_out(talk.session.take_turn(talk.now_ms))
    assert (len(talk.session.pipeline), talk.session.blocked) == (2 * half - 1, False)
    talk.broker_sends(b"".join(responses[half + 1 :]))
    assert [number for number, _ in talk.heard_all(*[(api, version)] * many)] == list(range(1, many + 1))


@pytest.mark.spec("O6")
def test_our_own_answers_do_not_pile_up_without_bound_behind_one_of_the_brokers() -> None:
    talk = Conversation("WRITE TOPIC orders")
    first = talk.asks(PRODUCE, 9, produce("orders"))
    asked = 0
    while not talk.session.blocked:
        talk.asks(API_VERSIONS, 0, t.ApiVersionsRequest())
        asked += 1
        assert talk.session.pipeline.ready_bytes < MAX_READY_BYTES + 10_000
    talk.asks(API_VERSIONS, 0, t.ApiVersionsRequest())
    in_flight = len(talk.session.pipeline)
    assert in_flight == 1 + asked

    talk.answers(PRODUCE, 9, produced("orders"), first)

    heard = talk.heard_all((PRODUCE, 9), *[(API_VERSIONS, 0)] * (asked + 1))
    assert [correlation_id for correlation_id, _ in heard] == list(range(first, first + asked + 2))
    assert not talk.session.blocked
    assert talk.session.pipeline.ready_bytes == 0


@pytest.mark.spec("S2", "D1")
def test_a_new_image_is_in_force_for_the_next_request_and_the_old_ones_traffic_is_written_out() -> None:
    talk = Conversation("WRITE TOPIC orders")
    old = talk.gate.image
    assert old is not None
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.asks(PRODUCE, 9, produce("orders"))

    talk.gate.image = image_with("READ TOPIC orders", base=MetadataImage(9))
    talk.asks(PRODUCE, 9, produce("orders"))

    (summary,) = talk.told("authorization_summary")
    assert (summary.count, summary.granted, summary.metadata_offset) == (2, True, old.offset)
    (denial,) = talk.told("authorization")
    assert (denial.metadata_offset, denial.rule) == (talk.gate.image.offset, "default.deny")
