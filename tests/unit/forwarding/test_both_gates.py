"""Proxy and controller decide alike about the parts of an administrative request (KIP-590).

tests/session/apis has the exact responses of the proxy. What is compared here holds for the controller too.
"""

from typing import Any

import pytest

from forwarding.controller.api import ControllerOutcome, SendToBroker
from proxy.admin.topics import TopicKey
from proxy.session.call import Respond
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT, KNOWN_TOPICS, Asking, image_with
from tests.support.decisions import METADATA_TOPIC, decided
from tests.support.topic_requests import create_partitions, create_topics

pytestmark = pytest.mark.spec("E3", "E4")

NO_ID, UNKNOWN_ID = bytes(16), b"?" * 16
ORDERS, PAYMENTS = KNOWN_TOPICS["orders"], KNOWN_TOPICS["payments"]
NAMES: dict[TopicKey, str] = {(None, topic_id): name for name, topic_id in KNOWN_TOPICS.items()}


def creations(*names: str) -> Any:
    return create_topics(*names, validate_only=True)


def created(*names: str) -> Any:
    topic = t.CreateTopicsResponse.CreatableTopicResult
    config = t.CreateTopicsResponse.CreatableTopicConfigs(name="retention.ms", value="1")
    return t.CreateTopicsResponse(
        topics=[topic(name=name, num_partitions=3, replication_factor=2, configs=[config]) for name in names]
    )


def widenings(*names: str) -> Any:
    return create_partitions(9, *names)


def widened(*names: str) -> Any:
    topic = t.CreatePartitionsResponse.CreatePartitionsTopicResult
    return t.CreatePartitionsResponse(results=[topic(name=name, error_code=37) for name in names])


def deletions(*topics: str | bytes | tuple[str | None, bytes]) -> Any:
    """Topics by name, by id, or with both fields as given."""
    state = t.DeleteTopicsRequest.DeleteTopicState
    keys = [
        (topic, NO_ID) if isinstance(topic, str) else (None, topic) if isinstance(topic, bytes) else topic
        for topic in topics
    ]
    states = [state(name=name, topic_id=topic_id) for name, topic_id in keys]
    return t.DeleteTopicsRequest(topics=states, timeout_ms=5_000)


def deletions_by_name(*names: str) -> Any:
    return t.DeleteTopicsRequest(topic_names=list(names), timeout_ms=5_000)


def deleted(*topics: tuple[str, bytes]) -> Any:
    topic = t.DeleteTopicsResponse.DeletableTopicResult
    return t.DeleteTopicsResponse(responses=[topic(name=name, topic_id=key) for name, key in topics])


def both(
    api_key: ApiKey, version: int, request: Any, rights: tuple[str, ...]
) -> tuple[Any, ControllerOutcome | SendToBroker[Any]]:
    """What the proxy makes of the request, and what the controller decides."""
    at_controller = decided(
        api_key, request, image=image_with(*rights), topic_names=NAMES, version=version
    ).decision
    assert isinstance(at_controller, ControllerOutcome | SendToBroker)
    return Asking(api_key, version, *rights).for_(request), at_controller


CREATE, WIDEN, DELETE = ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS
MOVE, ELECT = ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.ELECT_LEADERS
ALTER = f"ALTER {CLUSTER_RIGHT}"


def moves(*names: str) -> Any:
    request = t.AlterPartitionReassignmentsRequest
    partition = request.ReassignablePartition(partition_index=0, replicas=[3])
    return request(topics=[request.ReassignableTopic(name=name, partitions=[partition]) for name in names])


def moved(*names: str) -> Any:
    response = t.AlterPartitionReassignmentsResponse
    part = response.ReassignablePartitionResponse(partition_index=0)
    return response(
        responses=[response.ReassignableTopicResponse(name=name, partitions=[part]) for name in names]
    )


def elections(*names: str) -> Any:
    request = t.ElectLeadersRequest
    return request(
        election_type=1,
        topic_partitions=[request.TopicPartitions(topic=name, partitions=[0, 1]) for name in names],
    )


def elected(*names: str) -> Any:
    response = t.ElectLeadersResponse
    parts = [response.PartitionResult(partition_id=partition) for partition in (0, 1)]
    return response(
        replica_election_results=[
            response.ReplicaElectionResult(topic=name, partition_result=parts) for name in names
        ]
    )


INVALID_DELETIONS = (
    "denied",
    "shown",
    "twice",
    METADATA_TOPIC,
    ORDERS,
    "twice",
    UNKNOWN_ID,
    (None, NO_ID),
    ("both", UNKNOWN_ID),
    PAYMENTS,
    PAYMENTS,
    (None, NO_ID),
    ("both", UNKNOWN_ID),
)
REJECTED = [
    (CREATE, 7, creations("denied", "twice", "__cluster_metadata", "twice"), ()),
    (CREATE, 7, creations("twice", METADATA_TOPIC, "twice"), (f"CREATE {CLUSTER_RIGHT}",)),
    (WIDEN, 3, widenings("denied", "twice", METADATA_TOPIC, "twice"), ("ALTER TOPIC else",)),
    (DELETE, 6, deletions(*INVALID_DELETIONS), ("DESCRIBE TOPIC shown",)),
    (DELETE, 6, deletions(METADATA_TOPIC), (f"DELETE {CLUSTER_RIGHT}",)),
    (MOVE, 1, moves("orders"), ("ALTER TOPIC orders",)),
    (MOVE, 1, moves(METADATA_TOPIC), (ALTER, f"ALTER TOPIC {METADATA_TOPIC}")),
    (ELECT, 2, elections("orders"), ("ALTER TOPIC orders",)),
    (ELECT, 2, elections(METADATA_TOPIC), (ALTER, f"ALTER TOPIC {METADATA_TOPIC}")),
]


@pytest.mark.parametrize(("api_key", "version", "request_", "rights"), REJECTED)
def test_both_gates_give_the_same_response(
    api_key: ApiKey, version: int, request_: Any, rights: tuple[str, ...]
) -> None:
    """Field by field, messages included: nothing is left of the request, so each responds by itself."""
    at_proxy, at_controller = both(api_key, version, request_, rights)

    assert isinstance(at_proxy.verdict, Respond)
    assert isinstance(at_controller, ControllerOutcome)
    assert at_controller.response == at_proxy.verdict.message


DENY = "DENY DESCRIBE TOPIC orders"
LEFT = {
    "denied creations": (
        (CREATE, 7, creations(*"abcd"), ("CREATE TOPIC b", "CREATE TOPIC d")),
        (creations("b", "d"), created("d", "b")),
    ),
    "creations by the cluster's right, configs of one": (
        (
            CREATE,
            7,
            creations("a", METADATA_TOPIC, "b"),
            (f"CREATE {CLUSTER_RIGHT}", "DESCRIBE_CONFIGS TOPIC a"),
        ),
        (creations("a", "b"), created("a", "b")),
    ),
    "denied widenings": (
        (WIDEN, 3, widenings("a", "b"), ("ALTER TOPIC b",)),
        (widenings("b"), widened("b")),
    ),
    "deletions by id": (
        (
            DELETE,
            6,
            deletions(ORDERS, PAYMENTS, KNOWN_TOPICS["secrets"], UNKNOWN_ID),
            ("DELETE TOPIC orders", "DESCRIBE TOPIC payments"),
        ),
        (deletions(ORDERS), deleted(("orders", ORDERS))),
    ),
    "an id of a topic whose description is denied": (
        (DELETE, 6, deletions(ORDERS), ("DELETE TOPIC orders", DENY)),
        (deletions(ORDERS), deleted(("orders", ORDERS))),
    ),
    "a name of a topic whose description is denied": (
        (DELETE, 6, deletions("orders", "b"), ("DELETE TOPIC *", DENY)),
        (deletions("b"), deleted(("b", NO_ID))),
    ),
    "the same by the cluster's right": (
        (DELETE, 6, deletions("orders", "b"), (f"DELETE {CLUSTER_RIGHT}", DENY)),
        (deletions("orders", "b"), deleted(("orders", NO_ID), ("b", NO_ID))),
    ),
    "names of an old version": (
        (DELETE, 5, deletions_by_name("a", "b"), ("DELETE TOPIC b",)),
        (deletions_by_name("b"), deleted(("b", NO_ID))),
    ),
    "reassignments of Penstock's own topics": (
        (MOVE, 1, moves("orders", METADATA_TOPIC, "payments"), (ALTER,)),
        (moves("orders", "payments"), moved("payments", "orders")),
    ),
    "elections in Penstock's own topics": (
        (ELECT, 2, elections("orders", METADATA_TOPIC, "payments"), (ALTER,)),
        (elections("orders", "payments"), elected("payments", "orders")),
    ),
    "the empty name": (
        (DELETE, 6, deletions(""), (f"DELETE {CLUSTER_RIGHT}",)),
        (deletions(""), deleted(("", NO_ID))),
    ),
    "the empty name in an old version": (
        (DELETE, 1, deletions_by_name(""), (f"DELETE {CLUSTER_RIGHT}",)),
        (deletions_by_name(""), deleted(("", NO_ID))),
    ),
}


@pytest.mark.parametrize(("asked", "answered"), LEFT.values(), ids=LEFT)
def test_both_gates_leave_the_same_request_and_complete_the_same_response(
    asked: tuple[ApiKey, int, Any, tuple[str, ...]], answered: tuple[Any, Any]
) -> None:
    at_proxy, at_controller = both(*asked)
    left, response = answered

    assert isinstance(at_controller, SendToBroker)
    assert at_controller.request == at_proxy.forwarded == left
    # The proxy works on a copy, and the controller changes the response itself.
    to_client = at_proxy.told(response)
    assert at_controller.merge(response) == to_client


def test_the_messages_are_those_of_kafkas_controller() -> None:
    decision = decided(
        DELETE,
        deletions(*INVALID_DELETIONS),
        image=image_with("DESCRIBE TOPIC shown"),
        topic_names=NAMES | {("shown", NO_ID): "shown"},
    ).decision

    assert isinstance(decision, ControllerOutcome)
    assert [(part.name, part.error_code, part.error_message) for part in decision.response.responses] == [
        ("denied", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
        ("shown", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
        ("twice", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        (METADATA_TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
        (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
        (None, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
        (None, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
        (None, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
        ("both", ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
        ("both", ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
        (None, ErrorCode.INVALID_REQUEST, "Duplicate topic id."),
    ]


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", [0, 2])
def test_the_controller_starts_no_election_in_all_partitions(version: int) -> None:
    """A proxy names the topics. Only an Envelope of something else comes without."""
    request = t.ElectLeadersRequest(topic_partitions=None)

    decision = decided(ELECT, request, image=image_with(ALTER), version=version).decision

    assert isinstance(decision, ControllerOutcome)
    assert decision.response.error_code == (0 if version == 0 else ErrorCode.INVALID_REQUEST)
