"""Streams groups (KIP-1071): whose topology is taken, what it may bring, who sees a group."""

from typing import Any

import pytest

from proxy.metadata.acl import Operation
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT, Asking

pytestmark = pytest.mark.spec("A7")

HEARTBEAT = ApiKey.STREAMS_GROUP_HEARTBEAT
GROUP_DENIED, TOPIC_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
SOURCES = ("READ GROUP app", "READ TOPIC in", "WRITE TOPIC out")
INTERNAL = ("READ TOPIC app-*",)


def heartbeat(**topics: list[str]) -> Any:
    request = t.StreamsGroupHeartbeatRequest
    part = request.Subtopology(
        subtopology_id="0",
        source_topics=topics.get("source", ["in"]),
        repartition_sink_topics=topics.get("sink", ["out"]),
        repartition_source_topics=[
            request.TopicInfo(name=name) for name in topics.get("repartition", ["app-repartition"])
        ],
        state_changelog_topics=[
            request.TopicInfo(name=name) for name in topics.get("changelog", ["app-changelog"])
        ],
    )
    return request(group_id="app", member_id="m", topology=request.Topology(subtopologies=[part]))


def existing(*names: str) -> Any:
    """The broker's answer when asked for both internal topics."""
    response = t.MetadataResponse
    topics = [
        response.MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if name not in names
        else response.MetadataResponseTopic(name=name, partitions=[response.MetadataResponsePartition()])
        for name in ("app-repartition", "app-changelog")
    ]
    return response(topics=topics)


def test_members_need_read_on_their_group() -> None:
    denied = Asking(HEARTBEAT, 0, "DESCRIBE GROUP app").for_(heartbeat())
    plain = t.StreamsGroupHeartbeatRequest(group_id="app", member_id="m")

    assert (denied.answer.error_code, denied.denials) == (GROUP_DENIED, ["READ GROUP app"])
    assert Asking(HEARTBEAT, 0, "READ GROUP app").for_(plain).goes_as_it_came


def test_a_member_needs_read_on_its_group_to_describe_its_topology_and_no_right_on_topics() -> None:
    key, request = (
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        t.StreamsGroupTopologyDescriptionUpdateRequest,
    )
    node = request.TopologyDescriptionNode(name="KSTREAM-SOURCE-0", node_type=1, source_topics=["secrets"])
    part = request.TopologyDescriptionSubtopology(subtopology_id="0", nodes=[node])
    described = request(
        group_id="app",
        member_id="m",
        topology_description=request.TopologyDescription(subtopologies=[part]),
    )

    denied = Asking(key, 0, "DESCRIBE GROUP app").for_(described)

    assert (denied.answer.error_code, denied.answer.error_message) == (
        GROUP_DENIED,
        "Group authorization failed.",
    )
    assert denied.denials == ["READ GROUP app"]
    assert Asking(key, 0, "READ GROUP app").for_(described).goes_as_it_came


@pytest.mark.parametrize("hidden", ["in", "out", "app-repartition", "app-changelog"])
def test_one_topic_that_may_not_be_described_refuses_the_topology(hidden: str) -> None:
    rights = (*SOURCES, *INTERNAL, f"CREATE {CLUSTER_RIGHT}", f"DENY DESCRIBE TOPIC {hidden}")

    denied = Asking(HEARTBEAT, 0, *rights).for_(heartbeat())

    assert (denied.answer.error_code, denied.denials) == (TOPIC_DENIED, [f"DESCRIBE TOPIC {hidden}"])


@pytest.mark.parametrize("right", [CLUSTER_RIGHT, "TOPIC app-*"])
def test_a_topology_goes_as_it_came_to_the_broker_with_create_on_its_internal_topics(right: str) -> None:
    asked = Asking(HEARTBEAT, 0, *SOURCES, *INTERNAL, f"CREATE {right}").for_(heartbeat())

    assert asked.goes_as_it_came
    assert asked.denials == []


def test_the_broker_is_asked_first_which_internal_topics_are_there() -> None:
    rights = (*SOURCES, *INTERNAL, "CREATE TOPIC app-repartition")

    asked = Asking(HEARTBEAT, 0, *rights).where_it_can_ask().for_(heartbeat())

    assert [topic.name for topic in asked.asked_first.topics] == ["app-repartition", "app-changelog"]
    assert not asked.asked_first.allow_auto_topic_creation
    assert asked.once(existing("app-changelog")).goes_as_it_came


def test_an_internal_topic_that_is_missing_and_may_not_be_made_refuses_the_topology() -> None:
    asked = Asking(HEARTBEAT, 0, *SOURCES, *INTERNAL).where_it_can_ask().for_(heartbeat())

    denied = asked.once(existing("app-repartition"))

    assert (denied.answer.error_code, denied.answer.error_message) == (
        TOPIC_DENIED,
        "Unauthorized to CREATE on topics app-changelog.",
    )
    assert denied.denials == ["CREATE TOPIC app-changelog"]


def test_topics_reported_with_an_error_may_be_missing() -> None:
    asked = Asking(HEARTBEAT, 0, *SOURCES, *INTERNAL).where_it_can_ask().for_(heartbeat())
    failed = existing("app-repartition")
    failed.topics[1].error_code = ErrorCode.UNKNOWN_SERVER_ERROR

    assert asked.once(failed).denials == ["CREATE TOPIC app-changelog"]


def status(*codes: int) -> Any:
    response = t.StreamsGroupHeartbeatResponse
    statuses = [response.Status(status_code=code, status_detail="more than three names") for code in codes]
    return response(member_id="m", status=statuses or None)


@pytest.mark.spec("D12")
@pytest.mark.parametrize(
    ("there", "codes", "recorded"),
    [
        ([], [3], ["app-repartition", "app-changelog"]),
        (["app-repartition"], [0, 3], ["app-changelog"]),
        # The source topics are missing: nothing can be created yet.
        ([], [1], []),
        # Another member's heartbeat has created them meanwhile.
        ([], [], []),
        (["app-repartition", "app-changelog"], [3], []),
    ],
)
def test_the_topics_that_the_broker_creates_for_a_topology_are_recorded(
    there: list[str], codes: list[int], recorded: list[str]
) -> None:
    asking = Asking(HEARTBEAT, 0, *SOURCES, *INTERNAL, f"CREATE {CLUSTER_RIGHT}").where_it_can_ask()
    asked = asking.for_(heartbeat()).once(existing(*there))

    assert asked.told(status(*codes)) == status(*codes)

    made = [event for event in asked.call.events if event.event == "broker_responded"]
    assert [(event.method, event.error_code) for event in made] == [("StreamsGroupHeartbeat", None)] * bool(
        recorded
    )
    objects = [each for event in made for each in event.objects or ()]
    assert [(each["type"], each["name"], each["operation"]) for each in objects] == [
        ("TOPIC", name, "CREATE") for name in recorded
    ]
    assert all(each["details"] == {"requested_by": "StreamsGroupHeartbeat"} for each in objects)
    assert asked.call.gate.member_hosts.knows("app", "m", asked.call.peer.address, asked.call.now_ms)


def test_a_broker_that_cannot_be_asked_is_taken_to_have_none_of_them() -> None:
    assert Asking(HEARTBEAT, 0, *SOURCES, *INTERNAL).for_(heartbeat()).answer.error_code == TOPIC_DENIED


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        (
            {"sink": ["__consumer_offsets"]},
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        ({"changelog": ["a b", "ok"], "source": [".."]}, "Topic names ..,a b are not valid topic names."),
    ],
)
def test_a_topology_of_impossible_topics_is_invalid_before_it_is_denied(
    topics: dict[str, list[str]], message: str
) -> None:
    refused = Asking(HEARTBEAT, 0, "READ GROUP app").for_(heartbeat(**topics))

    assert (refused.answer.error_code, refused.answer.error_message) == (
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
        message,
    )
    assert refused.denials == []


def test_a_streams_group_with_a_hidden_topic_in_its_topology_is_hidden_as_a_whole() -> None:
    response = t.StreamsGroupDescribeResponse

    def group(group_id: str, *changelogs: str) -> Any:
        part = response.Subtopology(
            source_topics=["in"],
            repartition_sink_topics=[],
            repartition_source_topics=[],
            state_changelog_topics=[response.TopicInfo(name=name) for name in changelogs],
        )
        return response.DescribedGroup(
            group_id=group_id,
            topology=response.Topology(subtopologies=[part]),
            members=[response.Member(member_id="m")],
        )

    asked = Asking(ApiKey.STREAMS_GROUP_DESCRIBE, 0, "DESCRIBE GROUP a*", "READ TOPIC in").for_(
        t.StreamsGroupDescribeRequest(group_ids=["a", "b", "ab", "abc"], include_authorized_operations=True)
    )

    assert asked.forwarded.group_ids == ["a", "ab", "abc"]
    told = asked.told(
        response(groups=[group("a"), group("ab", "hidden"), response.DescribedGroup(group_id="abc")])
    )
    assert [
        (part.group_id, part.error_code, len(part.members), part.topology is None) for part in told.groups
    ] == [
        ("a", 0, 1, False),
        ("b", GROUP_DENIED, 0, True),
        ("ab", TOPIC_DENIED, 0, True),
        ("abc", 0, 0, True),
    ]
    assert told.groups[0].authorized_operations == 1 << Operation.DESCRIBE
