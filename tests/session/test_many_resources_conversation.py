"""Requests that name very many resources which their client may use: what they make the trail write."""

from collections.abc import Callable
from typing import Any

import pytest

from proxy.audit.record import AuditEvent, Author, Encoder
from proxy.session.accounting.summaries import MAX_SUMMARIES
from proxy.session.client_state import MAX_TOPICS
from proxy.session.memory import Limits
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, fetch, gate_with, produce

pytestmark = pytest.mark.spec("D1", "D3", "O6")

MANY = 3_000
RIGHTS = ("READ TOPIC *", "WRITE TOPIC *", "DESCRIBE TOPIC *", "DESCRIBE_CONFIGS TOPIC *", "DESCRIBE GROUP *")


def metadata(names: list[str]) -> t.MetadataRequest:
    topic = t.MetadataRequest.MetadataRequestTopic
    return t.MetadataRequest(topics=[topic(name=name) for name in names], allow_auto_topic_creation=False)


def list_offsets(names: list[str]) -> t.ListOffsetsRequest:
    topic = t.ListOffsetsRequest.ListOffsetsTopic
    return t.ListOffsetsRequest(topics=[topic(name=name) for name in names])


def describe_configs(names: list[str]) -> t.DescribeConfigsRequest:
    resource = t.DescribeConfigsRequest.DescribeConfigsResource
    return t.DescribeConfigsRequest(
        resources=[resource(resource_type=2, resource_name=name) for name in names]
    )


def describe_groups(names: list[str]) -> t.DescribeGroupsRequest:
    return t.DescribeGroupsRequest(groups=names)


def a_talk() -> Conversation:
    """With room for large requests."""
    gate = gate_with(image_with(*RIGHTS))
    gate.limits = Limits(1 << 20, 1 << 20, 1 << 12)
    return Conversation(gate=gate)


def swept(talk: Conversation) -> list[AuditEvent]:
    """What the trail gets at the end of an interval."""
    before = len(talk.events)
    talk.carry_out(talk.session.sweep(talk.now_ms))
    return talk.events[before:]


def told(talk: Conversation) -> list[AuditEvent]:
    """What it gets before that."""
    return [event for event in talk.events if event.event == "authorization_summary"]


@pytest.mark.parametrize(
    ("api_key", "version", "request_of", "operation", "kind"),
    [
        (ApiKey.METADATA, 12, metadata, "DESCRIBE", "TOPIC"),
        (ApiKey.LIST_OFFSETS, 7, list_offsets, "DESCRIBE", "TOPIC"),
        (ApiKey.DESCRIBE_CONFIGS, 4, describe_configs, "DESCRIBE_CONFIGS", "TOPIC"),
        (ApiKey.DESCRIBE_GROUPS, 5, describe_groups, "DESCRIBE", "GROUP"),
        (ApiKey.FETCH, 12, lambda names: fetch(*names), "READ", "TOPIC"),
        (ApiKey.PRODUCE, 9, lambda names: produce(*names), "WRITE", "TOPIC"),
    ],
)
def test_beyond_a_limit_resources_are_added_up_in_one_record(
    api_key: ApiKey, version: int, request_of: Callable[[list[str]], Any], operation: str, kind: str
) -> None:
    talk = a_talk()
    names = [f"name-{number}" for number in range(MANY)]
    frame = talk.request(api_key, version, request_of(names))
    talk.sends(frame)

    events = swept(talk)

    assert len(events) == MAX_SUMMARIES + 1
    single = [event for event in events if event.resource_count is None]
    [others] = [event for event in events if event.resource_count is not None]
    assert {event.resource_name for event in single} < {*names}
    assert (others.method, others.operation, others.resource_type) == (
        ApiKey.name_of(api_key),
        operation,
        kind,
    )
    assert (others.event, others.granted, others.resource_name, others.pattern_type, others.acl_id) == (
        "authorization_summary",
        True,
        None,
        None,
        None,
    )
    assert (others.resource_count, others.count) == (MANY - MAX_SUMMARIES, MANY - MAX_SUMMARIES)
    assert sum(event.request_bytes or 0 for event in events) == len(frame)
    assert swept(talk) == []


def test_the_resources_with_most_traffic_have_their_own_summaries() -> None:
    talk = a_talk()
    talk.sends(talk.request(ApiKey.METADATA, 12, metadata([f"name-{number}" for number in range(MANY)])))
    talk.answers(ApiKey.METADATA, 12, t.MetadataResponse())
    for _ in range(2):
        talk.sends(talk.request(ApiKey.PRODUCE, 9, produce("orders", records=bytes(100))))

    names = {event.resource_name: event.count for event in swept(talk)}

    assert names["orders"] == 2


def test_the_limit_is_that_of_a_whole_interval_whatever_makes_a_client_record_earlier() -> None:
    talk = a_talk()
    for part in range(8):
        names = [f"{part}-{number}" for number in range(MAX_TOPICS // 2)]
        talk.sends(talk.request(ApiKey.METADATA, 12, metadata(names), client_id=f"id-{part}"))
        talk.answers(ApiKey.METADATA, 12, t.MetadataResponse())
        talk.sends(talk.request(ApiKey.LIST_OFFSETS, 7, list_offsets(names), client_id=f"id-{part}"))
        talk.answers(ApiKey.LIST_OFFSETS, 7, t.ListOffsetsResponse())
    before = told(talk)
    everything = [*before, *talk.summaries()]

    assert len(before) > 1
    assert sum(event.resource_count is None for event in everything) == MAX_SUMMARIES
    assert sum(event.count or 0 for event in everything) == 8 * MAX_TOPICS
    assert len(everything) < MAX_SUMMARIES + 50


def test_in_the_next_interval_there_is_room_again() -> None:
    talk = a_talk()
    for _ in range(3):
        talk.sends(talk.request(ApiKey.METADATA, 12, metadata([f"name-{number}" for number in range(MANY)])))
        talk.answers(ApiKey.METADATA, 12, t.MetadataResponse())

        assert sum(event.resource_count is None for event in swept(talk)) == MAX_SUMMARIES


def test_20_000_permitted_names_make_the_trail_write_no_more_than_a_few_times_the_request() -> None:
    talk = a_talk()
    names = [f"a-name-that-does-not-exist-{number}" for number in range(20_000)]
    frame = talk.request(ApiKey.METADATA, 12, metadata(names))
    before = len(talk.events)
    talk.sends(frame)

    encoder = Encoder(Author(role="proxy", proxy_id="proxy-1", boot_id="cafe"))
    written = sum(len(encoder.body(event, 1, talk.now_ms)) for event in [*talk.events[before:], *swept(talk)])

    assert written < 2 * len(frame)
