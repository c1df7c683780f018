"""Proxy and controller reject the same parts of an administrative request, with the same errors (KIP-590)."""

from typing import Any

import pytest

from forwarding.controller.api import Outcome
from proxy.admin.topics import TopicKey
from proxy.metadata.acl import Operation
from proxy.session.call import Respond
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT, KNOWN_TOPICS, Asking
from tests.support.decisions import METADATA_TOPIC, allowed, decided

pytestmark = pytest.mark.spec("E4")

NO_TOPIC_ID = bytes(16)
UNKNOWN_ID = b"?" * 16


def creations(*names: str) -> Any:
    topic = types.CreateTopicsRequest.CreatableTopic
    topics = [topic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return types.CreateTopicsRequest(topics=topics, timeout_ms=5_000)


def widenings(*names: str) -> Any:
    topic = types.CreatePartitionsRequest.CreatePartitionsTopic
    return types.CreatePartitionsRequest(
        topics=[topic(name=name, count=9) for name in names], timeout_ms=5_000
    )


def deletions(*topics: tuple[str | None, bytes]) -> Any:
    state = types.DeleteTopicsRequest.DeleteTopicState
    states = [state(name=name, topic_id=topic_id) for name, topic_id in topics]
    return types.DeleteTopicsRequest(topics=states, timeout_ms=5_000)


DELETIONS = (
    ("denied", NO_TOPIC_ID),
    ("shown", NO_TOPIC_ID),
    ("twice", NO_TOPIC_ID),
    (METADATA_TOPIC, NO_TOPIC_ID),
    (None, KNOWN_TOPICS["orders"]),
    ("twice", NO_TOPIC_ID),
    (None, UNKNOWN_ID),
    (None, NO_TOPIC_ID),
    ("both", UNKNOWN_ID),
)
CASES = [
    (ApiKey.CREATE_TOPICS, creations("denied", "twice", "__cluster_metadata", "twice"), ()),
    (
        ApiKey.CREATE_TOPICS,
        creations("twice", METADATA_TOPIC, "twice"),
        ((Operation.CREATE, "kafka-cluster"),),
    ),
    (
        ApiKey.CREATE_PARTITIONS,
        widenings("denied", "twice", METADATA_TOPIC, "twice"),
        ((Operation.ALTER, "else"),),
    ),
    (ApiKey.DELETE_TOPICS, deletions(*DELETIONS), ((Operation.DESCRIBE, "shown"),)),
    (ApiKey.DELETE_TOPICS, deletions((METADATA_TOPIC, NO_TOPIC_ID)), ((Operation.DELETE, "kafka-cluster"),)),
]


@pytest.mark.parametrize(("api_key", "request_", "rights"), CASES)
def test_both_gates_give_the_same_response(
    api_key: ApiKey, request_: Any, rights: tuple[tuple[Operation, str], ...]
) -> None:
    """Field by field, messages included: none of the topics is left, so each responds by itself."""
    named = (
        f"{operation.name} {CLUSTER_RIGHT if name == 'kafka-cluster' else f'TOPIC {name}'}"
        for operation, name in rights
    )
    version = 7 if api_key == ApiKey.CREATE_TOPICS else 3 if api_key == ApiKey.CREATE_PARTITIONS else 6
    topic_names: dict[TopicKey, str] = {(None, topic_id): name for name, topic_id in KNOWN_TOPICS.items()}

    at_proxy = Asking(api_key, version, *named).for_(request_).verdict
    at_controller = decided(
        api_key, request_, image=allowed(*rights), topic_names=topic_names, version=version
    ).decision

    assert isinstance(at_proxy, Respond)
    assert isinstance(at_controller, Outcome)
    assert at_controller.response == at_proxy.message


def test_the_messages_are_those_of_kafkas_controller() -> None:
    request = deletions(*DELETIONS)

    decision = decided(
        ApiKey.DELETE_TOPICS,
        request,
        image=allowed((Operation.DESCRIBE, "shown")),
        topic_names={(None, KNOWN_TOPICS["orders"]): "orders", ("shown", NO_TOPIC_ID): "shown"},
    ).decision

    assert isinstance(decision, Outcome)
    assert [(part.name, part.error_code, part.error_message) for part in decision.response.responses] == [
        ("denied", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
        ("shown", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
        ("twice", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        (METADATA_TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
        (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
        (None, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
        (None, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
        ("both", ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
    ]
