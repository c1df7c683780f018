"""No API changes, moves or reads Penstock's own topics for a client, whatever its rights are.

Walks the table of APIs and the schemas of their requests, so that a new API that names topics is tested too.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from proxy.admin.configs import CLIENT_METRICS
from proxy.admin.configs import GROUP as GROUP_CONFIGS
from proxy.admin.configs import TOPIC as TOPIC_CONFIGS
from proxy.metadata.acl import ResourceType
from proxy.security.principal import Principal
from proxy.session.apis.table import TABLE
from proxy.session.call import Forward, ForwardToController
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.catalog import request as request_schema
from proxy.wire.catalog import response as response_schema
from proxy.wire.error_codes import ErrorCode
from proxy.wire.schema import Struct
from tests.session.apis.asking import CLUSTER_RIGHT, OWN, Asked, Asking
from tests.support.wire_messages import MessageFiller

pytestmark = pytest.mark.spec("A7")

TRAIL, TRAIL_ID = "__penstock_audit", b"a" * 16
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
EVERYTHING = [f"ALL {kind.name} *" for kind in ResourceType if kind > ResourceType.CLUSTER]
EVERYTHING += ["ALL TOPIC *", "ALL GROUP *", f"ALL {CLUSTER_RIGHT}"]
ATTEMPTS = 40

NAMES = {"topic", "topic_name", "topic_names", "subscribed_topic_names", "source_topics"}
"""Text fields that name a topic, in every request."""
LISTS = {"topics", "v3_and_below_topics", "state_changelog_topics", "repartition_source_topics"}
"""Parts whose `name` is a topic."""
OWNED = {"topic_partitions", "forgotten_topics_data"}
"""Topics of which a member or a session says what it has."""
CONFIGS = {ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}

READS = {
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
}
"""APIs that change nothing of a topic: they describe it, or are about a group that reads it."""
DESCRIBES_ITSELF = {ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE}
"""What a client says of its own topology: the names in it are text, and give no right to a topic (0132)."""
HIDDEN_IN_RESPONSES = {
    ApiKey.METADATA,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_QUORUM,
}


def topic_fields(key: int, struct: Struct, within: str = "") -> Iterator[tuple[Struct, str]]:
    for field in struct.fields:
        if field.struct is not None:
            yield from topic_fields(key, field.struct, field.attribute)
        elif within != "copartition_groups" and (
            field.attribute in NAMES
            or (field.attribute == "name" and within in LISTS)
            or (field.attribute == "resource_name" and key in CONFIGS)
            or (field.attribute == "topic_id" and within not in OWNED)
        ):
            yield struct, field.attribute


CASES = [
    pytest.param(key, version, id=f"{ApiKey.name_of(key)}-v{version}")
    for key in sorted(TABLE.keys() - DESCRIBES_ITSELF)
    if any(topic_fields(key, request_schema(key).root))
    for version in codecs.request_versions(key)
]


def name_trail(key: int, version: int, message: Any, struct: Struct, within: str = "") -> bool:
    """Put the audit topic wherever the request names a topic; whether it names any."""
    wanted = {attribute for of, attribute in topic_fields(key, struct, within) if of is struct}
    named = False
    for field in struct.fields:
        value = getattr(message, field.attribute)
        if version not in field.versions or not value:
            continue
        if field.struct is not None:
            parts = value if isinstance(value, list) else [value]
            for part in parts:
                named |= name_trail(key, version, part, field.struct, field.attribute)
        elif field.attribute in wanted:
            own: Any = TRAIL_ID if field.attribute == "topic_id" else TRAIL
            setattr(message, field.attribute, [own] if field.is_array else own)
            if key in CONFIGS:
                message.resource_type = TOPIC_CONFIGS
            named = True
    return named


def mentions(message: Any) -> bool:
    """Whether a message names the topic, with a partition of it if it is about partitions."""
    if getattr(message, "partitions", None) == []:
        return False
    for attribute in type(message).__slots__:
        value = getattr(message, attribute)
        for part in value if isinstance(value, list) else [value]:
            if part == TRAIL or (isinstance(part, bytes | memoryview) and bytes(part) == TRAIL_ID):
                return True
            if hasattr(type(part), "__slots__") and not isinstance(part, bytes | str) and mentions(part):
                return True
    return False


def asked_for(key: int, version: int, principal: str) -> Iterator[Asked]:
    """Requests filled at random that name the audit topic, as they were decided."""
    filler = MessageFiller(Random(f"{key}/{version}"), tame=True)
    asking = Asking(key, version, *EVERYTHING).where_it_can_ask()
    asking.principal = Principal("User", principal)
    asking.gate.topic_names.learn(TRAIL_ID, TRAIL)
    for _ in range(ATTEMPTS):
        message = filler.message(request_schema(key).name, version)
        codec = codecs.request(key, version)
        message = codec.decode_exactly(codec.encode(message))
        if name_trail(key, version, message, request_schema(key).root):
            asked = asking.for_(message)
            yield asked.settled(lambda key, version: filler.message(response_schema(key).name, version))


@pytest.mark.parametrize(("key", "version"), CASES)
def test_whoever_has_every_right_does_not_get_through_to_them(key: int, version: int) -> None:
    rules = set()
    for asked in asked_for(key, version, "alice"):
        if isinstance(asked.verdict, Forward | ForwardToController) and key not in HIDDEN_IN_RESPONSES:
            assert not mentions(asked.forwarded)
        rules |= {event.rule for event in asked.call.events if event.granted is False}

    assert "protected.topic" in rules or key in HIDDEN_IN_RESPONSES | {ApiKey.SHARE_FETCH}


@pytest.mark.parametrize(("key", "version"), CASES)
def test_a_super_user_changes_them_no_more_than_others(key: int, version: int) -> None:
    got_through = [
        isinstance(asked.verdict, Forward | ForwardToController) and mentions(asked.forwarded)
        for asked in asked_for(key, version, "root")
    ]

    assert got_through, "no request was made"
    assert key in READS or not any(got_through)


def electing(*topics: str) -> t.ElectLeadersRequest:
    request = t.ElectLeadersRequest
    return request(
        topic_partitions=[request.TopicPartitions(topic=name, partitions=[0]) for name in topics],
    )


def cluster_of(*topics: str) -> t.MetadataResponse:
    response = t.MetadataResponse
    partition = response.MetadataResponsePartition
    return response(
        topics=[
            response.MetadataResponseTopic(
                name=name, topic_id=name.encode()[:16].ljust(16), partitions=[partition(partition_index=0)]
            )
            for name in topics
        ]
    )


@pytest.mark.parametrize("principal", ["alice", "root"])
@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.ELECT_LEADERS))
def test_an_election_in_all_partitions_names_all_topics_but_our_own(version: int, principal: str) -> None:
    asking = Asking(ApiKey.ELECT_LEADERS, version, *EVERYTHING).where_it_can_ask()
    asking.principal = Principal("User", principal)
    request = electing()
    request.topic_partitions = None

    asked = asking.for_(request)
    everything = asked.asked_first
    asked = asked.once(cluster_of("orders", *sorted(OWN.topics), "gone", "payments"))

    assert everything.topics is None
    assert [topic.topic for topic in asked.forwarded.topic_partitions] == ["orders", "gone", "payments"]
    result = t.ElectLeadersResponse.ReplicaElectionResult
    part = t.ElectLeadersResponse.PartitionResult
    results = [
        result(topic=name, partition_result=[part(partition_id=0, error_code=code)])
        for name, code in (
            ("orders", ErrorCode.NONE),
            ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("payments", ErrorCode.ELECTION_NOT_NEEDED),
        )
    ]
    told = asked.told(t.ElectLeadersResponse(replica_election_results=results))
    assert [(each.topic, len(each.partition_result)) for each in told.replica_election_results] == [
        ("orders", 1),
        ("payments", 0),
    ]


def test_an_election_leaves_our_own_topics_out_and_reports_them_in_their_place() -> None:
    asking = Asking(ApiKey.ELECT_LEADERS, 2, *EVERYTHING)

    asked = asking.for_(electing("orders", TRAIL, "payments"))

    assert [topic.topic for topic in asked.forwarded.topic_partitions] == ["orders", "payments"]
    told = asked.told(ELECTED)
    assert [(each.topic, each.partition_result[0].error_code) for each in told.replica_election_results] == [
        ("orders", ErrorCode.NONE),
        (TRAIL, DENIED),
        ("payments", ErrorCode.NONE),
    ]
    assert asked.denials == [f"ALTER TOPIC {TRAIL}"]


ELECTED = t.ElectLeadersResponse(
    replica_election_results=[
        t.ElectLeadersResponse.ReplicaElectionResult(
            topic=name, partition_result=[t.ElectLeadersResponse.PartitionResult(partition_id=0)]
        )
        for name in ("payments", "orders")
    ]
)


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.ALTER_REPLICA_LOG_DIRS))
def test_a_move_between_log_dirs_leaves_our_own_topics_where_they_are(version: int) -> None:
    request = t.AlterReplicaLogDirsRequest
    topics = [request.AlterReplicaLogDirTopic(name=name, partitions=[0, 1]) for name in (TRAIL, "orders")]
    directory = request.AlterReplicaLogDir(path="/a", topics=topics)

    asked = Asking(ApiKey.ALTER_REPLICA_LOG_DIRS, version, *EVERYTHING).for_(request(dirs=[directory]))

    assert [[topic.name for topic in each.topics] for each in asked.forwarded.dirs] == [["orders"]]
    response = t.AlterReplicaLogDirsResponse
    moved = response.AlterReplicaLogDirTopicResult(
        topic_name="orders", partitions=[response.AlterReplicaLogDirPartitionResult(partition_index=0)]
    )
    told = asked.told(response(results=[moved]))
    assert [(each.topic_name, [part.error_code for part in each.partitions]) for each in told.results] == [
        (TRAIL, [DENIED, DENIED]),
        ("orders", [ErrorCode.NONE]),
    ]


@pytest.mark.parametrize(("principal", "shown"), [("alice", ["orders"]), ("root", ["orders", TRAIL])])
def test_lists_of_replicas_show_our_own_topics_to_super_users_only(principal: str, shown: list[str]) -> None:
    def asked(key: ApiKey, version: int, request: Any) -> Asked:
        asking = Asking(key, version, *EVERYTHING)
        asking.principal = Principal("User", principal)
        return asking.for_(request)

    dirs, list_ = t.DescribeLogDirsResponse, t.ListPartitionReassignmentsResponse
    held = [dirs.DescribeLogDirsTopic(name=name) for name in ("orders", TRAIL)]
    moving = [list_.OngoingTopicReassignment(name=name) for name in ("orders", TRAIL)]

    of_dirs = asked(ApiKey.DESCRIBE_LOG_DIRS, 4, t.DescribeLogDirsRequest(topics=None)).told(
        dirs(results=[dirs.DescribeLogDirsResult(log_dir="/a", topics=held)])
    )
    of_moves = asked(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, t.ListPartitionReassignmentsRequest(topics=None)
    ).told(list_(topics=moving))

    assert [topic.name for topic in of_dirs.results[0].topics] == shown
    assert [topic.name for topic in of_moves.topics] == shown


@pytest.mark.parametrize("principal", ["alice", "root"])
def test_lists_of_configured_resources_show_our_own_ones_to_super_users_only(principal: str) -> None:
    response = t.ListConfigResourcesResponse
    resources = [
        response.ConfigResource(resource_type=number, resource_name=name)
        for number, name in (
            (TOPIC_CONFIGS, "orders"),
            (TOPIC_CONFIGS, TRAIL),
            (GROUP_CONFIGS, TRAIL),
            (GROUP_CONFIGS, "penstock-controller-election"),
            (CLIENT_METRICS, TRAIL),
        )
    ]
    asking = Asking(ApiKey.LIST_CONFIG_RESOURCES, 1, *EVERYTHING)
    asking.principal = Principal("User", principal)

    told = asking.for_(t.ListConfigResourcesRequest()).told(response(config_resources=list(resources)))

    shown = resources if principal == "root" else [resources[0], resources[2], resources[4]]
    assert told.config_resources == shown
