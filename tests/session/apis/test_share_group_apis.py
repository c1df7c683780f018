"""Share groups (KIP-932): members, what they see of their group, and its offsets."""

from typing import Any

import pytest

from proxy.metadata.acl import Operation
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import KNOWN_TOPICS, Asking

pytestmark = pytest.mark.spec("A7")

GROUP_DENIED, TOPIC_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
MEMBER = "5e1d1c4e-3d4b-4a8f-9d6c-0b8f2f1c9a77"
NO_ID = bytes(16)


def heartbeat(*topics: str, member: str = MEMBER) -> Any:
    return t.ShareGroupHeartbeatRequest(
        group_id="team", member_id=member, subscribed_topic_names=list(topics) or None
    )


def test_members_need_read_on_their_group_and_describe_on_each_topic() -> None:
    key, rights = ApiKey.SHARE_GROUP_HEARTBEAT, ("READ GROUP team", "DESCRIBE TOPIC orders")

    assert Asking(key, 1, *rights).for_(heartbeat("orders")).goes_as_it_came
    assert Asking(key, 1, *rights).for_(heartbeat()).goes_as_it_came
    hidden = Asking(key, 1, *rights).for_(heartbeat("orders", "secrets"))
    assert (hidden.answer.error_code, hidden.denials) == (TOPIC_DENIED, ["DESCRIBE TOPIC secrets"])
    stranger = Asking(key, 1, "DESCRIBE GROUP team", "DESCRIBE TOPIC orders").for_(heartbeat("orders"))
    assert (stranger.answer.error_code, stranger.denials) == (GROUP_DENIED, ["READ GROUP team"])


@pytest.mark.parametrize("member", ["", "x" * 37])
@pytest.mark.parametrize(
    "request_of",
    [
        lambda member: (ApiKey.SHARE_GROUP_HEARTBEAT, heartbeat("secrets", member=member)),
        lambda member: (ApiKey.SHARE_FETCH, t.ShareFetchRequest(group_id="team", member_id=member)),
        lambda member: (
            ApiKey.SHARE_ACKNOWLEDGE,
            t.ShareAcknowledgeRequest(group_id="team", member_id=member),
        ),
    ],
    ids=["heartbeat", "fetch", "acknowledge"],
)
def test_a_malformed_member_id_is_refused_before_any_topic(member: str, request_of: Any) -> None:
    key, request = request_of(member)

    refused = Asking(key, 1, "READ GROUP team").for_(request)

    assert (refused.answer.error_code, refused.denials) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize(
    ("key", "request_type"),
    [
        (ApiKey.SHARE_FETCH, t.ShareFetchRequest),
        (ApiKey.SHARE_ACKNOWLEDGE, t.ShareAcknowledgeRequest),
    ],
    ids=["fetch", "acknowledge"],
)
def test_without_a_group_a_request_is_invalid_before_any_right(key: ApiKey, request_type: Any) -> None:
    refused = Asking(key, 1, "READ GROUP *").for_(request_type(group_id=None, member_id="m"))

    assert (refused.answer.error_code, refused.denials) == (ErrorCode.INVALID_REQUEST, [])


def test_a_share_group_on_a_hidden_topic_is_hidden_as_a_whole() -> None:
    response = t.ShareGroupDescribeResponse

    def group(group_id: str, *topics: str) -> Any:
        parts = [response.TopicPartitions(topic_name=name, partitions=[0]) for name in topics]
        member = response.Member(member_id="m", assignment=response.Assignment(topic_partitions=parts))
        return response.DescribedGroup(group_id=group_id, members=[member])

    asked = Asking(
        ApiKey.SHARE_GROUP_DESCRIBE, 1, "DESCRIBE GROUP s*", "READ GROUP seen", "READ TOPIC orders"
    ).for_(
        t.ShareGroupDescribeRequest(group_ids=["other", "seen", "split"], include_authorized_operations=True)
    )

    assert asked.forwarded.group_ids == ["seen", "split"]
    told = asked.told(response(groups=[group("split", "orders", "secrets"), group("seen", "orders")]))
    assert [(part.group_id, part.error_code, len(part.members)) for part in told.groups] == [
        ("other", GROUP_DENIED, 0),
        ("seen", 0, 1),
        ("split", TOPIC_DENIED, 0),
    ]
    assert told.groups[1].authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert told.groups[2].error_message.startswith("The group has described topic(s)")


VERSIONS = codecs.request_versions(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
OFFSETS = t.DescribeShareGroupOffsetsResponse


def group_asked(group_id: str, *topics: str) -> Any:
    request = t.DescribeShareGroupOffsetsRequest
    return request.DescribeShareGroupOffsetsRequestGroup(
        group_id=group_id,
        topics=[
            request.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0, 1])
            for name in topics
        ]
        or None,
    )


def group_told(group_id: str, *topics: str, code: int = 0) -> Any:
    parts = [OFFSETS.DescribeShareGroupOffsetsResponsePartition(partition_index=0, start_offset=5)]
    return OFFSETS.DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id,
        error_code=code,
        topics=[
            OFFSETS.DescribeShareGroupOffsetsResponseTopic(
                topic_name=name, topic_id=KNOWN_TOPICS.get(name, NO_ID), partitions=parts
            )
            for name in topics
        ],
    )


def offsets(response: Any) -> list[tuple[str, int, list[tuple[str, int, list[int]]]]]:
    return [
        (
            group.group_id,
            group.error_code,
            [
                (part.topic_name, len(part.partitions), [p.error_code for p in part.partitions])
                for part in group.topics
            ],
        )
        for group in response.groups
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_are_told_of_groups_and_topics_that_may_be_described(version: int) -> None:
    asked = Asking(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, version, "DESCRIBE GROUP t*", "READ TOPIC orders"
    ).for_(
        t.DescribeShareGroupOffsetsRequest(
            groups=[group_asked("other"), group_asked("team", "secrets", "orders"), group_asked("tall")]
        )
    )

    assert [group.group_id for group in asked.forwarded.groups] == ["team", "tall"]
    assert [topic.topic_name for topic in asked.forwarded.groups[0].topics] == ["orders"]
    told = asked.told(OFFSETS(groups=[group_told("team", "orders"), group_told("tall", "orders", "secrets")]))
    assert offsets(told) == [
        ("other", GROUP_DENIED, []),
        ("team", 0, [("orders", 1, [0]), ("secrets", 2, [TOPIC_DENIED, TOPIC_DENIED])]),
        ("tall", 0, [("orders", 1, [0])]),
    ]
    assert told.groups[1].topics[1].topic_id == NO_ID
    assert [part.start_offset for part in told.groups[1].topics[1].partitions] == [-1, -1]


def test_a_group_that_is_named_twice_has_the_denied_topics_of_each() -> None:
    asked = Asking(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, "DESCRIBE GROUP team", "READ TOPIC orders").for_(
        t.DescribeShareGroupOffsetsRequest(
            groups=[group_asked("team", "secrets"), group_asked("team", "orders", "hidden")]
        )
    )

    told = asked.told(OFFSETS(groups=[group_told("team"), group_told("team", "orders")]))

    assert [(group, [name for name, *_ in topics]) for group, _, topics in offsets(told)] == [
        ("team", ["secrets"]),
        ("team", ["orders", "hidden"]),
    ]


def test_what_is_wrong_with_a_share_group_is_told_of_it_alone() -> None:
    missing = ErrorCode.GROUP_ID_NOT_FOUND
    asked = Asking(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, "DESCRIBE GROUP team").for_(
        t.DescribeShareGroupOffsetsRequest(groups=[group_asked("team", "secrets")])
    )

    assert offsets(asked.told(OFFSETS(groups=[group_told("team", code=missing)]))) == [("team", missing, [])]


def test_with_every_share_group_denied_the_broker_is_not_asked() -> None:
    asked = Asking(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1).for_(
        t.DescribeShareGroupOffsetsRequest(groups=[group_asked("team", "orders"), group_asked("tall")])
    )

    assert offsets(asked.answer) == [("team", GROUP_DENIED, []), ("tall", GROUP_DENIED, [])]


def alter(*topics: str) -> Any:
    request = t.AlterShareGroupOffsetsRequest
    partition = request.AlterShareGroupOffsetsRequestPartition(partition_index=2, start_offset=9)
    return request(
        group_id="team",
        topics=[
            request.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[partition])
            for name in topics
        ],
    )


def delete(*topics: str) -> Any:
    request = t.DeleteShareGroupOffsetsRequest
    return request(
        group_id="team",
        topics=[request.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics],
    )


CHANGES = [
    pytest.param(ApiKey.ALTER_SHARE_GROUP_OFFSETS, alter, "READ GROUP team", id="alter"),
    pytest.param(ApiKey.DELETE_SHARE_GROUP_OFFSETS, delete, "DELETE GROUP team", id="delete"),
]


@pytest.mark.parametrize(("key", "request_of", "right"), CHANGES)
def test_offsets_are_changed_with_a_right_on_the_group_and_read_on_each_topic(
    key: ApiKey, request_of: Any, right: str
) -> None:
    response = getattr(t, f"{ApiKey.name_of(key)}Response")
    topic = getattr(response, f"{ApiKey.name_of(key)}ResponseTopic")
    asked = Asking(key, 0, right, "READ TOPIC orders").for_(request_of("secrets", "orders"))

    assert [part.topic_name for part in asked.forwarded.topics] == ["orders"]
    told = asked.told(response(responses=[topic(topic_name="orders")]))
    assert [part.topic_name for part in told.responses] == ["secrets", "orders"]
    refused = (
        told.responses[0] if key == ApiKey.DELETE_SHARE_GROUP_OFFSETS else told.responses[0].partitions[0]
    )
    assert (refused.error_code, refused.error_message) == (TOPIC_DENIED, "Topic authorization failed.")
    assert asked.denials == ["READ TOPIC secrets"]
    assert Asking(key, 0, right, "READ TOPIC *").for_(request_of("secrets", "orders")).passes_unread


@pytest.mark.parametrize(("key", "request_of", "right"), CHANGES)
def test_a_group_that_is_denied_or_in_use_has_one_error_for_all(
    key: ApiKey, request_of: Any, right: str
) -> None:
    response = getattr(t, f"{ApiKey.name_of(key)}Response")

    denied = Asking(key, 0, "DESCRIBE GROUP team", "READ TOPIC *").for_(request_of("orders")).answer
    in_use = (
        Asking(key, 0, right).for_(request_of("orders")).told(response(error_code=ErrorCode.NON_EMPTY_GROUP))
    )

    assert (denied.error_code, denied.responses) == (GROUP_DENIED, [])
    assert (in_use.error_code, in_use.responses) == (ErrorCode.NON_EMPTY_GROUP, [])


def test_a_denied_topic_without_partitions_has_no_part_in_what_was_altered() -> None:
    request = alter("secrets", "orders")
    request.topics[0].partitions = []
    response = t.AlterShareGroupOffsetsResponse
    answered = response(responses=[response.AlterShareGroupOffsetsResponseTopic(topic_name="orders")])

    asked = Asking(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, "READ GROUP team", "READ TOPIC orders").for_(request)

    assert [part.topic_name for part in asked.told(answered).responses] == ["orders"]
