"""Groups, classic and new: who may join, who sees which, whose offsets are told."""

from typing import Any

import pytest

from proxy.metadata.acl import Operation
from proxy.security.principal import Principal
from proxy.session.apis.heartbeats import SOON_MS
from proxy.session.remembered import MAX_MEMBERS
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT, KNOWN_TOPICS, Asking

pytestmark = pytest.mark.spec("A7")

GROUP_DENIED, TOPIC_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED

MEMBERSHIP: dict[ApiKey, Any] = {
    ApiKey.JOIN_GROUP: lambda: t.JoinGroupRequest(group_id="team"),
    ApiKey.SYNC_GROUP: lambda: t.SyncGroupRequest(
        group_id="team", protocol_type="consumer", protocol_name="range"
    ),
    ApiKey.HEARTBEAT: lambda: t.HeartbeatRequest(group_id="team"),
    ApiKey.LEAVE_GROUP: lambda: t.LeaveGroupRequest(group_id="team"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda: t.ConsumerGroupHeartbeatRequest(group_id="team"),
}
MEMBERS = [
    pytest.param(key, version, id=f"{key.name}-v{version}")
    for key in MEMBERSHIP
    for version in codecs.request_versions(key)
]


@pytest.mark.parametrize(("key", "version"), MEMBERS)
def test_members_need_read_on_their_group(key: ApiKey, version: int) -> None:
    request = MEMBERSHIP[key]()

    denied = Asking(key, version, "DESCRIBE GROUP team", "READ GROUP other").for_(request)

    assert denied.answer.error_code == GROUP_DENIED
    assert denied.denials == ["READ GROUP team"]
    assert Asking(key, version, "READ GROUP team").for_(request).goes_as_it_came


@pytest.mark.parametrize(("version", "protocol"), [(6, ""), (7, None)])
def test_a_refused_join_names_no_protocol(version: int, protocol: str | None) -> None:
    response = Asking(ApiKey.JOIN_GROUP, version).for_(MEMBERSHIP[ApiKey.JOIN_GROUP]()).answer

    assert (response.protocol_name, response.generation_id, response.members) == (protocol, -1, [])


def test_a_sync_that_does_not_name_its_protocol_is_inconsistent_before_it_is_denied() -> None:
    response = Asking(ApiKey.SYNC_GROUP, 5).for_(t.SyncGroupRequest(group_id="team")).answer

    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_one_denied_subscription_refuses_the_heartbeat() -> None:
    request = t.ConsumerGroupHeartbeatRequest(group_id="team", subscribed_topic_names=["orders", "secrets"])
    rights = ("READ GROUP team", "DESCRIBE TOPIC orders")

    denied = Asking(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, *rights).for_(request)

    assert denied.answer.error_code == TOPIC_DENIED
    assert denied.denials == ["DESCRIBE TOPIC secrets"]
    allowed = Asking(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, *rights, "READ TOPIC secrets")
    assert allowed.for_(request).goes_as_it_came


def heartbeat(**fields: Any) -> Any:
    return t.ConsumerGroupHeartbeatRequest(group_id="team", member_id="m", **fields)


def assigned(*topic_ids: bytes, epoch: int = 5) -> Any:
    response = t.ConsumerGroupHeartbeatResponse
    parts = [response.TopicPartitions(topic_id=topic_id, partitions=[0, 1]) for topic_id in topic_ids]
    return response(
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=5_000,
        assignment=response.Assignment(topic_partitions=parts) if topic_ids else None,
    )


def told_ids(response: Any) -> list[bytes] | None:
    if response.assignment is None:
        return None
    return [part.topic_id for part in response.assignment.topic_partitions]


STRANGE = b"?" * 16
REGEX = ("READ GROUP team", "DESCRIBE TOPIC orders", "DESCRIBE TOPIC new")


def test_what_a_regular_expression_found_is_told_of_topics_that_may_be_described() -> None:
    asked = Asking(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, *REGEX).for_(heartbeat(subscribed_topic_regex=".*"))

    assert asked.goes_as_it_came
    told = asked.told(assigned(KNOWN_TOPICS["secrets"], KNOWN_TOPICS["orders"]))
    assert told_ids(told) == [KNOWN_TOPICS["orders"]]
    assert told.heartbeat_interval_ms == 5_000
    assert asked.denials == ["DESCRIBE TOPIC secrets"], "why nothing of it is read"


@pytest.mark.parametrize(("name", "may_be_told"), [("new", True), ("hidden", False), (None, False)])
def test_an_assignment_with_an_id_nobody_told_waits_until_the_broker_was_asked_for_its_name(
    name: str | None, may_be_told: bool
) -> None:
    orders = KNOWN_TOPICS["orders"]
    alice = Asking(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, *REGEX).where_it_can_ask()

    first = alice.for_(heartbeat(subscribed_topic_regex=".*")).told(assigned(orders, STRANGE))
    second = alice.for_(heartbeat())

    assert (told_ids(first), first.heartbeat_interval_ms) == (None, SOON_MS)
    assert second.looked_up == [STRANGE]
    told = second.once_named(**({} if name is None else {name: STRANGE})).told(assigned())
    assert told_ids(told) == ([orders, STRANGE] if may_be_told else [orders])
    assert told_ids(alice.for_(heartbeat()).told(assigned())) is None


def test_an_assignment_waits_for_a_lookup_that_succeeds() -> None:
    alice = Asking(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, *REGEX).where_it_can_ask()
    alice.for_(heartbeat()).told(assigned(STRANGE))

    failed = alice.for_(heartbeat()).once_not_named().told(assigned())
    named = alice.for_(heartbeat()).once_named(new=STRANGE).told(assigned())

    assert (told_ids(failed), failed.heartbeat_interval_ms) == (None, SOON_MS)
    assert told_ids(named) == [STRANGE]


def test_an_assignment_waits_past_what_earlier_lookups_found() -> None:
    alice = Asking(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, *REGEX).where_it_can_ask()
    alice.gate.topic_names.note_missing(STRANGE, -100)
    alice.for_(heartbeat()).told(assigned(STRANGE))

    # The topic was created since then, but its id is not looked up again for half a second.
    unknown = alice.for_(heartbeat()).told(assigned())
    alice.gate.topic_names.learn(STRANGE, "new")

    assert (told_ids(unknown), unknown.heartbeat_interval_ms) == (None, SOON_MS)
    assert told_ids(alice.for_(heartbeat()).told(assigned())) == [STRANGE]


def test_a_failed_heartbeat_does_not_lose_an_assignment() -> None:
    alice = Asking(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, *REGEX).where_it_can_ask()
    alice.for_(heartbeat()).told(assigned(STRANGE))
    loading = t.ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    alice.for_(heartbeat()).once_named(new=STRANGE).told(loading)

    assert told_ids(alice.for_(heartbeat()).told(assigned())) == [STRANGE]


def test_an_assignment_that_has_been_replaced_meanwhile_is_forgotten() -> None:
    alice = Asking(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, *REGEX)
    alice.for_(heartbeat()).told(assigned(STRANGE))

    assert told_ids(alice.for_(heartbeat()).told(assigned(epoch=6))) is None
    alice.for_(heartbeat()).told(assigned(STRANGE))
    assert told_ids(alice.for_(heartbeat()).told(assigned(KNOWN_TOPICS["orders"]))) == [
        KNOWN_TOPICS["orders"]
    ]


@pytest.mark.spec("O6")
def test_one_connection_has_assignments_kept_for_so_many_members_only() -> None:
    alice = Asking(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, *REGEX)
    for number in range(MAX_MEMBERS + 1):
        answer = assigned(STRANGE)
        answer.member_id = f"m{number}"
        alice.for_(heartbeat()).told(answer)

    assert alice.remembered.deferred_assignments.find("team", "m0") is None
    assert alice.remembered.deferred_assignments.find("team", "m1") is not None


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.DESCRIBE_GROUPS))
def test_denied_groups_are_described_by_their_error_in_the_order_of_the_request(version: int) -> None:
    group = t.DescribeGroupsResponse.DescribedGroup
    asked = Asking(ApiKey.DESCRIBE_GROUPS, version, "READ GROUP b", "DESCRIBE GROUP d").for_(
        t.DescribeGroupsRequest(groups=["a", "b", "c", "d"])
    )

    assert asked.forwarded.groups == ["b", "d"]
    told = asked.told(t.DescribeGroupsResponse(groups=[group(group_id="d"), group(group_id="b")]))
    assert [(part.group_id, part.error_code) for part in told.groups] == [
        ("a", GROUP_DENIED),
        ("b", 0),
        ("c", GROUP_DENIED),
        ("d", 0),
    ]


@pytest.mark.parametrize("key", [ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE])
def test_with_every_group_denied_the_broker_is_not_asked(key: ApiKey) -> None:
    request = (
        t.DescribeGroupsRequest(groups=["a", "b"])
        if key == ApiKey.DESCRIBE_GROUPS
        else t.ConsumerGroupDescribeRequest(group_ids=["a", "b"])
    )

    response = Asking(key, 0).for_(request).answer

    assert [(part.group_id, part.error_code) for part in response.groups] == [
        ("a", GROUP_DENIED),
        ("b", GROUP_DENIED),
    ]


def test_operations_on_a_group_are_those_of_the_client() -> None:
    group = t.DescribeGroupsResponse.DescribedGroup
    asked = Asking(ApiKey.DESCRIBE_GROUPS, 5, "READ GROUP a", "READ GROUP b").for_(
        t.DescribeGroupsRequest(groups=["a", "b"], include_authorized_operations=True)
    )

    told = asked.told(
        t.DescribeGroupsResponse(
            groups=[
                group(group_id="a", authorized_operations=0x7FF),
                group(group_id="b", error_code=ErrorCode.NOT_COORDINATOR),
            ]
        )
    )

    assert [part.authorized_operations for part in told.groups] == [
        1 << Operation.READ | 1 << Operation.DESCRIBE,
        -(2**31),
    ]


def test_a_consumer_group_on_a_hidden_topic_is_hidden_as_a_whole() -> None:
    response = t.ConsumerGroupDescribeResponse

    def group(group_id: str, topic: str, target: str) -> Any:
        def assignment(name: str) -> Any:
            return response.Assignment(topic_partitions=[response.TopicPartitions(topic_name=name)])

        member = response.Member(
            member_id="m", assignment=assignment(topic), target_assignment=assignment(target)
        )
        return response.DescribedGroup(group_id=group_id, members=[member])

    rights = ("DESCRIBE GROUP *", "DESCRIBE TOPIC orders")
    asked = Asking(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, *rights).for_(
        t.ConsumerGroupDescribeRequest(group_ids=["x", "y", "z"])
    )

    told = asked.told(
        response(
            groups=[
                group("x", "orders", "orders"),
                group("y", "secrets", "orders"),
                group("z", "orders", "secrets"),
            ]
        )
    )

    assert [(part.group_id, part.error_code, len(part.members)) for part in told.groups] == [
        ("x", 0, 1),
        ("y", TOPIC_DENIED, 0),
        ("z", TOPIC_DENIED, 0),
    ]


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.LIST_GROUPS))
def test_only_groups_that_may_be_described_are_listed(version: int) -> None:
    answer = t.ListGroupsResponse(
        groups=[t.ListGroupsResponse.ListedGroup(group_id=group_id) for group_id in "abc"]
    )
    own = t.ListGroupsResponse.ListedGroup(group_id="penstock-controller-election")

    asked = Asking(ApiKey.LIST_GROUPS, version, "READ GROUP a", "DELETE GROUP c").for_(t.ListGroupsRequest())

    assert [group.group_id for group in asked.told(answer).groups] == ["a", "c"]
    assert asked.denials == []
    everything = Asking(ApiKey.LIST_GROUPS, version, f"DESCRIBE {CLUSTER_RIGHT}", "ALL GROUP *")
    answer.groups.append(own)
    told = everything.for_(t.ListGroupsRequest()).told(answer)
    assert [group.group_id for group in told.groups] == ["a", "b", "c"]
    super_user = Asking(ApiKey.LIST_GROUPS, version)
    super_user.principal = Principal("User", "root")
    assert super_user.for_(t.ListGroupsRequest()).passes_unread


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.DELETE_GROUPS))
def test_groups_that_may_not_be_deleted_are_put_back(version: int) -> None:
    result = t.DeleteGroupsResponse.DeletableGroupResult
    asked = Asking(ApiKey.DELETE_GROUPS, version, "DELETE GROUP b").for_(
        t.DeleteGroupsRequest(groups_names=["a", "b", "a"])
    )

    assert asked.forwarded.groups_names == ["b"]
    told = asked.told(t.DeleteGroupsResponse(results=[result(group_id="b")]))
    assert [(part.group_id, part.error_code) for part in told.results] == [("a", GROUP_DENIED), ("b", 0)]
    nothing = Asking(ApiKey.DELETE_GROUPS, version).for_(t.DeleteGroupsRequest(groups_names=["a"]))
    assert [part.error_code for part in nothing.answer.results] == [GROUP_DENIED]


def test_deleting_a_group_is_written_down_when_allowed_too() -> None:
    asked = Asking(ApiKey.DELETE_GROUPS, 2, "DELETE GROUP a").for_(t.DeleteGroupsRequest(groups_names=["a"]))

    assert [(event.operation, event.granted) for event in asked.call.events] == [("DELETE", True)]
