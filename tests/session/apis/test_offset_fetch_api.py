"""OffsetFetch in its four shapes: v1, v2 to v7, several groups from v8, topic ids from v10."""

from typing import Any

import pytest

from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import Asking

pytestmark = pytest.mark.spec("A7")

GROUP_DENIED, TOPIC_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP = "DESCRIBE GROUP team"
ANSWER = t.OffsetFetchResponse


def asking(version: int, *rights: str) -> Asking:
    return Asking(ApiKey.OFFSET_FETCH, version, *rights)


def one_group(*names: str, everything: bool = False) -> Any:
    topic = t.OffsetFetchRequest.OffsetFetchRequestTopic
    topics = None if everything else [topic(name=name, partition_indexes=[0]) for name in names]
    return t.OffsetFetchRequest(group_id="team", topics=topics)


def groups(**topics: str | None) -> Any:
    """Group id -> topics by their first letters, None being all of them."""
    return t.OffsetFetchRequest(groups=[group(group_id, names) for group_id, names in topics.items()])


def group(group_id: str, names: str | None) -> Any:
    request = t.OffsetFetchRequest
    topics = None if names is None else [by_letter(name) for name in names]
    return request.OffsetFetchRequestGroup(group_id=group_id, topics=topics)


def by_letter(name: str) -> Any:
    return t.OffsetFetchRequest.OffsetFetchRequestTopics(
        name=name, topic_id=name.encode() * 16, partition_indexes=[0]
    )


def answered(name: str) -> Any:
    partition = ANSWER.OffsetFetchResponsePartitions(partition_index=0, committed_offset=5)
    return ANSWER.OffsetFetchResponseTopics(name=name, topic_id=name.encode() * 16, partitions=[partition])


def group_answer(group_id: str, names: str) -> Any:
    return ANSWER.OffsetFetchResponseGroup(group_id=group_id, topics=[answered(name) for name in names])


def old_answer(*names: str) -> Any:
    partition = ANSWER.OffsetFetchResponsePartition(partition_index=0, committed_offset=5)
    return ANSWER(
        topics=[ANSWER.OffsetFetchResponseTopic(name=name, partitions=[partition]) for name in names]
    )


def told_topics(part: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.name, topic.partitions[0].error_code, topic.partitions[0].committed_offset)
        for topic in part.topics
    ]


@pytest.mark.parametrize("version", range(1, 8))
def test_denied_topics_of_one_group_come_back_in_the_order_of_the_request(version: int) -> None:
    asked = asking(version, GROUP, "READ TOPIC b").for_(one_group("a", "b", "c"))

    assert [topic.name for topic in asked.forwarded.topics] == ["b"]
    assert told_topics(asked.told(old_answer("b"))) == [
        ("a", TOPIC_DENIED, -1),
        ("b", 0, 5),
        ("c", TOPIC_DENIED, -1),
    ]


@pytest.mark.parametrize("version", range(1, 8))
def test_allowed_topics_of_one_group_pass_unread(version: int) -> None:
    assert asking(version, GROUP, "READ TOPIC a").for_(one_group("a")).passes_unread


def test_a_denied_group_is_told_at_each_partition_in_v1() -> None:
    response = asking(1, "READ TOPIC a").for_(one_group("a")).answer

    assert told_topics(response) == [("a", GROUP_DENIED, -1)]


@pytest.mark.parametrize("version", range(2, 8))
def test_a_denied_group_is_told_once_from_v2(version: int) -> None:
    response = asking(version, "READ TOPIC a").for_(one_group("a")).answer

    assert (response.error_code, response.topics) == (GROUP_DENIED, [])


@pytest.mark.parametrize("version", range(2, 8))
def test_of_all_offsets_those_of_hidden_topics_are_left_out(version: int) -> None:
    asked = asking(version, GROUP, "READ TOPIC b").for_(one_group(everything=True))

    assert asked.goes_as_it_came
    assert told_topics(asked.told(old_answer("a", "b"))) == [("b", 0, 5)]


def test_a_group_that_fails_at_the_broker_answers_without_refused_topics() -> None:
    failed = ANSWER(error_code=ErrorCode.NOT_COORDINATOR)

    assert asking(7, GROUP).for_(one_group("a")).told(failed) == failed


@pytest.mark.parametrize("version", [8, 9])
def test_each_group_is_answered_for_itself(version: int) -> None:
    rights = ("DESCRIBE GROUP x", "DESCRIBE GROUP z", "READ TOPIC a")
    asked = asking(version, *rights).for_(groups(x="ab", y="a", z=None))

    assert [part.group_id for part in asked.forwarded.groups] == ["x", "z"]
    assert [topic.name for topic in asked.forwarded.groups[0].topics] == ["a"]
    told = asked.told(ANSWER(groups=[group_answer("z", "abc"), group_answer("x", "a")]))
    assert [(part.group_id, part.error_code, told_topics(part)) for part in told.groups] == [
        ("x", 0, [("a", 0, 5), ("b", TOPIC_DENIED, -1)]),
        ("y", GROUP_DENIED, []),
        ("z", 0, [("a", 0, 5)]),
    ]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_groups_that_are_all_denied_are_not_asked_for(version: int) -> None:
    response = asking(version).for_(groups(x="a", y=None)).answer

    assert [(part.group_id, part.error_code) for part in response.groups] == [
        ("x", GROUP_DENIED),
        ("y", GROUP_DENIED),
    ]


@pytest.mark.parametrize("version", [8, 9])
def test_allowed_groups_and_topics_pass_unread(version: int) -> None:
    assert asking(version, "READ GROUP x", "READ TOPIC a").for_(groups(x="a")).passes_unread


@pytest.mark.parametrize("order", [["everything", "named"], ["named", "everything"]])
def test_a_group_named_twice_does_not_show_what_is_hidden(order: list[str]) -> None:
    parts = {"everything": group("x", None), "named": group("x", "s")}
    asked = asking(9, "READ GROUP x", "READ TOPIC a").for_(
        t.OffsetFetchRequest(groups=[parts[name] for name in order])
    )

    told = asked.told(ANSWER(groups=[group_answer("x", "as"), group_answer("x", "")]))

    assert all(error for part in told.groups for name, error, _ in told_topics(part) if name == "s")


def test_a_group_named_twice_has_the_errors_of_each_request() -> None:
    asked = asking(9, "READ GROUP x", "READ TOPIC a").for_(
        t.OffsetFetchRequest(groups=[group("x", "sa"), group("x", None), group("x", "s")])
    )

    told = asked.told(ANSWER(groups=[group_answer("x", "a"), group_answer("x", "as"), group_answer("x", "")]))

    assert [told_topics(part) for part in told.groups] == [
        [("s", TOPIC_DENIED, -1), ("a", 0, 5)],
        [("a", 0, 5)],
        [("s", TOPIC_DENIED, -1)],
    ]


def test_topics_by_id_are_refused_by_id() -> None:
    asked = asking(10, "READ GROUP x", "READ TOPIC orders").for_(groups(x="so?"))

    assert [topic.topic_id for topic in asked.forwarded.groups[0].topics] == [b"o" * 16]
    (told,) = asked.told(ANSWER(groups=[group_answer("x", "o")])).groups
    assert [(topic.topic_id[:1], topic.partitions[0].error_code) for topic in told.topics] == [
        (b"s", TOPIC_DENIED),
        (b"o", 0),
        (b"?", ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_of_all_offsets_by_id_topics_are_looked_up_and_those_without_a_name_are_left_out() -> None:
    rights = "READ GROUP x", "READ TOPIC orders", "READ TOPIC new"
    asked = asking(10, *rights).where_it_can_ask().for_(groups(x=None, hidden=None))

    assert [group.group_id for group in asked.asked_first.groups] == ["x"]
    answered = asked.once(ANSWER(groups=[group_answer("x", "son?")]))
    assert [topic_id[:1] for topic_id in answered.looked_up] == [b"n", b"?"]
    told, hidden = answered.once_named(new=answered.looked_up[0]).answer.groups
    assert [topic.topic_id[:1] for topic in told.topics] == [b"o", b"n"]
    assert hidden.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_all_offsets_by_id_fail_with_a_failed_lookup() -> None:
    rights = "READ GROUP x", "READ GROUP y", "READ TOPIC *"
    asked = asking(10, *rights).where_it_can_ask().for_(groups(x=None, y=None))

    answered = asked.once(ANSWER(groups=[group_answer("x", "on"), group_answer("y", "o")]))

    failed, found = answered.once_not_named().answer.groups
    assert (failed.error_code, failed.topics) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    assert [topic.topic_id[:1] for topic in found.topics] == [b"o"]
