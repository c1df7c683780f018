"""A request that is larger than the limits gets a response where its API has an error (O6, O8, A7)."""

from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from random import Random
from typing import Any

import pytest

from proxy.session.apis.table import TABLE
from proxy.session.memory import Limits
from proxy.session.requests import dispatch
from proxy.wire import catalog, codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import encode_request
from proxy.wire.message import Message
from proxy.wire.schema import FIXED_FORMATS, Field
from tests.session.conversation import NOW_MS, Conversation, Quotas, fetch, produce
from tests.support.wire_messages import MessageFiller

pytestmark = pytest.mark.spec("O6", "O8")

ERROR = ErrorCode.POLICY_VIOLATION
DESCRIBE_GROUPS, METADATA, LIST_GROUPS = ApiKey.DESCRIBE_GROUPS, ApiKey.METADATA, ApiKey.LIST_GROUPS
ELEMENTS = 40
BODIES = "decoded.request.max.bytes, which is 1024"


def large_arrays() -> Iterator[tuple[ApiKey, int, str]]:
    for api_key in (ApiKey.PRODUCE, ApiKey.FETCH, *TABLE):
        for version in codecs.request_versions(api_key):
            for field in catalog.request(api_key).root.present(version):
                if field.is_array and field.type not in FIXED_FORMATS:
                    yield ApiKey(api_key), version, field.attribute


NO_ERROR = {(ApiKey.DESCRIBE_LOG_DIRS, 1), (ApiKey.DESCRIBE_LOG_DIRS, 2)}
"""Their response has errors of directories only, and those are not in the request."""
ARRAYS = [each for each in large_arrays() if each[:2] not in NO_ERROR]


def filled(api_key: ApiKey, version: int, attribute: str) -> Any:
    """A request at random, whose array has elements that differ."""
    name = f"{ApiKey.name_of(api_key)}Request"
    field = next(f for f in catalog.request(api_key).root.fields if f.attribute == attribute)
    random = Random(f"{name} {version}")
    request = MessageFiller(random, tame=True).message(name, version)
    if api_key == ApiKey.PRODUCE:
        request.acks = 1
    setattr(request, attribute, [element(name, version, field, random, n) for n in range(ELEMENTS)])
    return request


def element(name: str, version: int, field: Field, random: Random, number: int) -> Any:
    if field.struct is None:
        return f"name-{number}"
    found: Any = None
    while found is None:  # The filler makes two elements at most, or none.
        found = next(
            iter(getattr(MessageFiller(random, tame=True).message(name, version), field.attribute) or ()),
            None,
        )
    for each in field.struct.present(version):
        if not each.is_array and each.type in ("string", "uuid"):
            value = f"name-{number}" if each.type == "string" else number.to_bytes(16, "big")
            setattr(found, each.attribute, value)
    if hasattr(found, "producer_id"):
        found.producer_id = number  # A broker reports each once.
    return found


def without_messages(value: Any) -> Any:
    """A response without its error messages: only those of the first elements name the limit."""
    if isinstance(value, list):
        for each in value:
            without_messages(each)
    elif isinstance(value, Message):
        if hasattr(value, "error_message"):
            assert not value.error_message or "decoded.request.max.elements" in value.error_message
            value.error_message = None
        for name in type(value).__slots__:
            without_messages(getattr(value, name))
    return value


def elements_of(value: Any) -> int:
    """The elements in all arrays of a message."""
    if isinstance(value, list):
        return len(value) + sum(elements_of(each) for each in value)
    slots = getattr(type(value), "__slots__", ())
    return sum(elements_of(getattr(value, name)) for name in slots)


@pytest.mark.spec("A7")
@pytest.mark.parametrize(("api_key", "version", "attribute"), ARRAYS)
def test_a_request_with_too_many_elements_is_rejected_as_a_whole_one_would_be(
    api_key: ApiKey, version: int, attribute: str
) -> None:
    request = filled(api_key, version, attribute)
    talk = Conversation()
    talk.gate.versions = {**talk.gate.versions, api_key: (version, version)}
    limit = elements_of(request) - 1
    talk.gate.limits = Limits(1 << 20, 1 << 20, 1 << 12, decoded_request_max_elements=limit)

    talk.asks(api_key, version, request)

    (event,) = talk.told("request_refused")
    size_bytes = len(talk.request(api_key, version, request)) - 4
    name, key = ApiKey.name_of(api_key), "decoded.request.max.elements"
    text = f"{name} v{version} of {size_bytes} bytes: more elements than {key}, which is {limit}"
    assert (event.message, event.method) == (text, name)
    assert (event.api_version, event.error_code) == (version, ERROR)
    assert talk.closed is None
    whole = dispatch.rejected(api_key, version, request, ERROR, None).message
    if api_key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
        whole.results.sort(key=attrgetter("user"))
    body = codecs.response(api_key, version).encode(without_messages(whole))
    heard = without_messages(talk.heard(api_key, version))
    if api_key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
        heard.results.sort(key=attrgetter("user"))  # A whole rejection has them in the order of their names.
    assert codecs.response(api_key, version).encode(heard) == body
    assert talk.forwarded_bytes() == b""
    assert talk.controller == []


def nested_arrays() -> Iterator[tuple[ApiKey, int, str, str]]:
    """In APIs whose response has an error for the whole request: an array in the elements of an array."""
    for api_key, version, outer in ARRAYS:
        response = catalog.response(api_key).root.present(version)
        field = next(f for f in catalog.request(api_key).root.fields if f.attribute == outer)
        if field.struct is None or all(each.attribute != "error_code" for each in response):
            continue
        for inner in field.struct.present(version):
            if inner.is_array and inner.type not in FIXED_FORMATS:
                yield api_key, version, outer, inner.attribute


@pytest.mark.spec("A7")
@pytest.mark.parametrize(("api_key", "version", "outer", "inner"), list(nested_arrays()))
def test_a_request_one_of_whose_parts_is_too_large_is_rejected_as_a_whole(
    api_key: ApiKey, version: int, outer: str, inner: str
) -> None:
    name, limit = f"{ApiKey.name_of(api_key)}Request", 1_000
    random = Random(f"{name} {version}")
    request = MessageFiller(random, tame=True).message(name, version)
    field = next(f for f in catalog.request(api_key).root.fields if f.attribute == outer)
    part = element(name, version, field, random, 0)
    assert field.struct is not None
    nested = next(each for each in field.struct.fields if each.attribute == inner)
    ones: dict[str, Any] = {"string": "a", "uuid": bytes(16)}
    one = (
        ones.get(nested.type, 0) if nested.struct is None else getattr(getattr(t, name), nested.struct.name)()
    )
    setattr(part, inner, [one] * (limit + 1))
    setattr(request, outer, [part])
    talk = limited(max_elements=limit)
    talk.gate.versions = {**talk.gate.versions, api_key: (version, version)}

    talk.asks(api_key, version, request)

    assert talk.closed is None
    assert talk.heard(api_key, version).error_code == ERROR
    assert len(talk.told("request_refused")) == 1
    assert talk.forwarded_bytes() == b""


def groups(count: int) -> Any:
    return t.DescribeGroupsRequest(groups=[f"group-{number}" for number in range(count)])


def limited(max_elements: int = 1_000, max_bytes: int = 1 << 20, **changes: Any) -> Conversation:
    talk = Conversation(**changes)
    talk.gate.limits = Limits(1 << 20, max_bytes, 1 << 12, decoded_request_max_elements=max_elements)
    return talk


def test_the_connection_serves_the_next_request() -> None:
    talk = limited()

    talk.sends(
        talk.request(DESCRIBE_GROUPS, 5, groups(1_001)) + talk.request(DESCRIBE_GROUPS, 5, groups(1_000))
    )

    (_, refused), (_, denied) = talk.heard_all((DESCRIBE_GROUPS, 5), (DESCRIBE_GROUPS, 5))
    assert [len(response.groups) for response in (refused, denied)] == [1_001, 1_000]
    assert {group.error_code for group in refused.groups} == {ERROR}
    assert {group.error_code for group in denied.groups} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}


def test_a_group_with_too_many_topics_gets_its_error() -> None:
    talk, request = limited(), t.OffsetFetchRequest
    topic = request.OffsetFetchRequestTopics
    topics = [topic(name=f"topic-{n}", partition_indexes=[0, 1]) for n in range(2_000)]

    talk.asks(
        ApiKey.OFFSET_FETCH, 8, request(groups=[request.OffsetFetchRequestGroup(group_id="g", topics=topics)])
    )

    (group,) = talk.heard(ApiKey.OFFSET_FETCH, 8).groups
    assert (group.group_id, group.error_code, group.topics) == ("g", ERROR, [])


def test_the_first_elements_name_the_limit() -> None:
    talk, request = limited(), t.DescribeConfigsRequest
    asked = [request.DescribeConfigsResource(resource_name=f"topic-{n}") for n in range(1_001)]

    talk.asks(ApiKey.DESCRIBE_CONFIGS, 4, request(resources=asked))

    results = talk.heard(ApiKey.DESCRIBE_CONFIGS, 4).results
    messages = [result.error_message for result in results if result.error_message is not None]
    assert "more elements than decoded.request.max.elements, which is 1000" in messages[0]
    assert len(messages) < 20


def test_a_request_one_of_whose_parts_is_too_large_closes_the_connection() -> None:
    talk, request = limited(), t.ListOffsetsRequest
    partitions = [request.ListOffsetsPartition(partition_index=n) for n in range(1_001)]

    talk.asks(
        ApiKey.LIST_OFFSETS,
        7,
        request(topics=[request.ListOffsetsTopic(name="orders", partitions=partitions)]),
    )

    assert talk.heard_bytes() == b""
    assert talk.close_reason == "request_too_large"
    assert "decoded.request.max.elements" in (talk.told("request_refused")[0].message or "")


def test_a_response_larger_than_twice_the_limit_is_not_made() -> None:
    talk = limited(max_bytes=4_000)
    request = t.MetadataRequest(topics=[t.MetadataRequest.MetadataRequestTopic(name="a")] * 1_200)

    talk.asks(METADATA, 9, request)

    assert talk.heard_bytes() == b""
    assert talk.close_reason == "request_too_large"


def test_a_large_request_that_is_malformed_at_its_end_closes_the_connection() -> None:
    talk = limited()
    request = t.MetadataRequest(topics=[t.MetadataRequest.MetadataRequestTopic(name="a")] * 1_001)
    body = codecs.request(METADATA, 12).encode(request)

    talk.sends(encode_request(METADATA, 12, 1, "app", body[:-1] + b"\x01"))

    assert talk.heard_bytes() == b""
    assert talk.close_reason == "malformed_request"


def test_a_produce_with_too_many_partitions_is_charged() -> None:
    talk = limited(quotas=Quotas(producer=1_000.0))
    request = produce("orders", records=bytes(10))
    request.topic_data *= 1_001

    talk.asks(ApiKey.PRODUCE, 9, request)

    response = talk.heard(ApiKey.PRODUCE, 9)
    assert {p.error_code for topic in response.responses for p in topic.partition_responses} == {ERROR}
    assert response.throttle_time_ms > 1_000
    assert talk.mutes == [response.throttle_time_ms]


def test_a_produce_with_too_many_partitions_and_without_acks_closes_the_connection() -> None:
    talk = limited()
    request = produce("orders", acks=0)
    request.topic_data *= 1_001

    talk.asks(ApiKey.PRODUCE, 9, request)

    assert talk.heard_bytes() == b""
    assert talk.close_reason == "produce_denied"


@pytest.mark.parametrize("version", [1, 2])
def test_an_api_without_any_error_closes_the_connection(version: int) -> None:
    talk, request = limited(), t.DescribeLogDirsRequest

    talk.asks(
        ApiKey.DESCRIBE_LOG_DIRS, version, request(topics=[request.DescribableLogDirTopic(topic="a")] * 1_001)
    )

    assert (talk.heard_bytes(), talk.close_reason) == (b"", "request_too_large")


# More bytes than are decoded.


def long_filter(talk: Conversation) -> bytes:
    return talk.request(LIST_GROUPS, 4, t.ListGroupsRequest(states_filter=["x" * 2_000]))


@pytest.mark.spec("A7")
@pytest.mark.parametrize("sizes", [[10_000], [1], [3, 11, 2], [17, 900]])
def test_a_request_with_too_many_bytes_is_dropped_and_answered_after_its_last_one(sizes: list[int]) -> None:
    talk = limited(max_bytes=1_024)
    frame = long_filter(talk)
    both = frame + talk.request(DESCRIBE_GROUPS, 5, groups(1))
    position, size, held = 0, 0, 0

    while position < len(both):
        before = position
        position += sizes[size % len(sizes)]
        size += 1
        if position < len(frame):
            assert talk.heard_bytes() == b""
        talk.sends(both[before:position])
        talk.session.count_held(0)
        held = max(held, len(talk.session.machine.intake._input))

    (_, refused), (_, denied) = talk.heard_all((LIST_GROUPS, 4), (DESCRIBE_GROUPS, 5))
    assert (refused.error_code, len(denied.groups)) == (ERROR, 1)
    (event,) = talk.told("request_refused")
    assert event.message == f"ListGroups v4 of {len(frame) - 4} bytes: more bytes than {BODIES}"
    assert (event.client_id, event.principal, event.error_code) == ("app", "User:alice", ERROR)
    assert held < 100
    assert talk.forwarded_bytes() == b""
    assert talk.closed is None
    counts = talk.listener.counts
    assert counts.request_bytes == len(both)
    assert (counts.requests[LIST_GROUPS], counts.errors[LIST_GROUPS, ERROR]) == (1, 1)


def test_a_dropped_request_is_answered_behind_those_in_flight() -> None:
    talk = limited(max_bytes=1_024)
    talk.asks(LIST_GROUPS, 4, t.ListGroupsRequest())

    talk.sends(long_filter(talk))

    assert talk.heard_bytes() == b""
    talk.answers(LIST_GROUPS, 4, t.ListGroupsResponse(), 1)
    (_, served), (_, refused) = talk.heard_all((LIST_GROUPS, 4), (LIST_GROUPS, 4))
    assert (served.error_code, refused.error_code) == (0, ERROR)


@pytest.mark.parametrize(
    ("api_key", "version", "error_code"),
    [(ApiKey.FETCH, 12, ERROR), (ApiKey.FETCH, 6, None), (METADATA, 12, None), (METADATA, 13, ERROR)],
)
def test_an_api_without_an_error_for_a_whole_request_closes_the_connection(
    api_key: ApiKey, version: int, error_code: int | None
) -> None:
    talk = limited(max_bytes=1_024)
    request: Any = fetch("x" * 200, "y" * 2_000)
    if api_key == METADATA:
        request = t.MetadataRequest(topics=[t.MetadataRequest.MetadataRequestTopic(name="x" * 2_000)])

    talk.asks(api_key, version, request)

    if error_code is None:
        assert (talk.heard_bytes(), talk.close_reason) == (b"", "malformed_request")
        (event,) = talk.told("request_refused")
        assert event.message is not None
        assert event.message.startswith(f"{ApiKey.name_of(api_key)} of ")
        assert event.message.endswith(BODIES)
    else:
        assert (talk.heard(api_key, version).error_code, talk.closed) == (error_code, None)


@pytest.mark.parametrize("head_bytes", [4, 14, 500])
def test_a_request_larger_than_a_broker_takes_closes_the_connection_at_its_head(head_bytes: int) -> None:
    talk = limited()
    talk.gate.limits = replace(
        talk.gate.limits, socket_request_max_bytes=1_500, decoded_request_max_bytes=1_024
    )

    talk.sends(long_filter(talk)[:head_bytes])

    assert talk.close_reason == "malformed_request"
    assert (talk.told("request_refused")[0].message or "").endswith("socket.request.max.bytes, which is 1500")


def test_a_session_that_ends_before_the_last_byte_is_closed_without_a_response() -> None:
    talk = limited(max_bytes=1_024)
    frame = long_filter(talk)
    talk.sends(frame[:1_500])
    talk.session.authentication.expires_at_ms = NOW_MS + 1
    talk.passes(2)

    talk.sends(frame[1_500:])

    assert (talk.heard_bytes(), talk.close_reason) == (b"", "session_expired")


def test_a_draining_session_answers_a_request_that_it_drops() -> None:
    talk = limited(max_bytes=1_024)
    frame = long_filter(talk)
    talk.sends(frame[:1_500])
    talk.carry_out(talk.session.drain())

    assert talk.session.takes_rest
    talk.sends(frame[1_500:])

    assert talk.heard(LIST_GROUPS, 4).error_code == ERROR
    assert talk.close_reason == "drained"
