"""One request that names very many resources in vain: what it makes us write down."""

from collections.abc import Callable
from typing import Any

import pytest

from proxy.admin.authorization import MAX_SINGLE, MAX_SINGLE_CHANGES, MESSAGE
from proxy.metadata.acl import Operation, ResourceType
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.apis.asking import Asked, Asking
from tests.session.conversation import Conversation

DESCRIBE_TOPIC = Operation.DESCRIBE, ResourceType.TOPIC

pytestmark = pytest.mark.spec("D1", "O6")


def request_for(*names: str) -> t.ListOffsetsRequest:
    topic = t.ListOffsetsRequest.ListOffsetsTopic
    return t.ListOffsetsRequest(topics=[topic(name=name) for name in names])


def list_offsets(*names: str) -> Asked:
    return Asking(ApiKey.LIST_OFFSETS, 7, "READ TOPIC orders").for_(request_for(*names))


def test_up_to_a_limit_each_denial_has_a_record_of_its_own() -> None:
    names = [f"t{number}" for number in range(MAX_SINGLE)]

    asked = list_offsets("orders", *names)

    assert asked.denials == [f"DESCRIBE TOPIC {name}" for name in names]
    assert {event.event for event in asked.call.events} == {"authorization"}


def test_beyond_it_one_record_tells_who_was_denied_what_and_how_often() -> None:
    talk = Conversation("READ TOPIC orders")

    talk.asks(ApiKey.LIST_OFFSETS, 7, request_for(*(f"t{number}" for number in range(MAX_SINGLE + 5_000))))

    events = talk.told("authorization") + talk.told("authorization_collapsed")
    assert len(events) == MAX_SINGLE + 1
    last = events[-1]
    assert (last.event, last.granted, last.count, last.message) == (
        "authorization_collapsed",
        False,
        5_000,
        MESSAGE.format(MAX_SINGLE),
    )
    assert (last.principal, last.host, last.method, last.operation, last.resource_type) == (
        "User:alice",
        "10.0.0.1",
        "ListOffsets",
        "DESCRIBE",
        "TOPIC",
    )
    assert (last.resource_name, last.pattern_type, last.rule, last.acl_id) == (None, None, None, None)


def test_each_operation_has_its_own_limit() -> None:
    request = t.DescribeConfigsRequest
    resources = [
        request.DescribeConfigsResource(resource_type=kind, resource_name=f"r{number}")
        for kind in (2, 32)
        for number in range(MAX_SINGLE + 1)
    ]

    events = Asking(ApiKey.DESCRIBE_CONFIGS, 4).for_(request(resources=resources)).call.events

    collapsed = [event for event in events if event.event == "authorization_collapsed"]
    assert [(event.resource_type, event.count) for event in collapsed] == [("TOPIC", 1), ("GROUP", 1)]
    assert len(events) == 2 * MAX_SINGLE + 2


def test_what_was_recorded_is_not_counted_on() -> None:
    call = list_offsets(*(f"t{number}" for number in range(MAX_SINGLE + 3))).call
    recorded = call.events[-1]
    call.recorded()

    call.allowed_names(*DESCRIBE_TOPIC, ("x", "y"))

    assert recorded.count == 3
    assert [(event.event, event.count) for event in call.events] == [("authorization_collapsed", 2)]


def delete_groups(names: list[str]) -> Any:
    return t.DeleteGroupsRequest(groups_names=names)


def delete_topics(names: list[str]) -> Any:
    return t.DeleteTopicsRequest(topics=[t.DeleteTopicsRequest.DeleteTopicState(name=name) for name in names])


@pytest.mark.parametrize(
    ("right", "key", "version", "request_of"),
    [
        ("DELETE GROUP *", ApiKey.DELETE_GROUPS, 2, delete_groups),
        ("DELETE TOPIC *", ApiKey.DELETE_TOPICS, 6, delete_topics),
    ],
)
def test_what_is_allowed_has_a_limit_too_even_if_it_may_change_something(
    right: str, key: ApiKey, version: int, request_of: Callable[[list[str]], Any]
) -> None:
    names = [f"{number}" for number in range(MAX_SINGLE_CHANGES + 2_000)]
    talk = Conversation(right, "DESCRIBE TOPIC *")

    talk.asks(key, version, request_of(names))

    single = talk.told("authorization")
    assert [event.resource_name for event in single] == names[:MAX_SINGLE_CHANGES]
    assert {event.granted for event in single} == {True}
    (others,) = talk.told("authorization_collapsed")
    assert (others.granted, others.operation, others.count) == (True, "DELETE", 2_000)
    assert (others.principal, others.message) == ("User:alice", MESSAGE.format(MAX_SINGLE_CHANGES))
