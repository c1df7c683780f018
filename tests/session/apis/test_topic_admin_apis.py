"""Topics made, widened, deleted and described: the allowed ones go on, the others come back refused."""

from typing import Any

import pytest

from proxy.session.call import ForwardToController, Respond
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT, KNOWN_TOPICS, Asked, Asking
from tests.support.topic_requests import create_topics, delete_topics

pytestmark = pytest.mark.spec("A7", "E2", "E3")

DENIED, INVALID = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST
CREATED = t.CreateTopicsResponse.CreatableTopicResult
NO_ID = bytes(16)


def results(parts: list[Any]) -> list[tuple[str | None, int]]:
    return [(part.name, part.error_code) for part in parts]


def to_controller(asked: Asked) -> Any:
    assert isinstance(asked.verdict, ForwardToController)
    return asked.forwarded


def creation(*names: str) -> Any:
    return create_topics(*names, timeout_ms=1234)


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.CREATE_TOPICS))
def test_topics_that_may_not_be_created_are_put_back_in_the_order_of_the_request(version: int) -> None:
    asked = Asking(ApiKey.CREATE_TOPICS, version, "CREATE TOPIC b", "CREATE TOPIC d").for_(creation(*"abcd"))

    assert [topic.name for topic in to_controller(asked).topics] == ["b", "d"]
    told = asked.told(t.CreateTopicsResponse(topics=[CREATED(name="d"), CREATED(name="b")]))
    assert results(told.topics) == [("a", DENIED), ("b", 0), ("c", DENIED), ("d", 0)]
    assert told.topics[0].error_message == "Authorization failed."
    assert asked.denials == ["CREATE TOPIC a", "CREATE TOPIC c"]


def test_the_controller_has_as_long_as_the_client_waits() -> None:
    asked = Asking(ApiKey.CREATE_TOPICS, 7, "CREATE TOPIC a").for_(creation("a"))

    assert isinstance(asked.verdict, ForwardToController)
    assert asked.verdict.timeout_ms == 1234


@pytest.mark.parametrize("timeout_ms", [1, 0, -1])
def test_a_client_that_does_not_wait_gets_what_the_controller_says(timeout_ms: int) -> None:
    request = create_topics("a", timeout_ms=timeout_ms)

    asked = Asking(ApiKey.CREATE_TOPICS, 7, "CREATE TOPIC a").for_(request)

    assert isinstance(asked.verdict, ForwardToController)
    assert asked.verdict.timeout_ms == 1_000
    assert asked.forwarded.timeout_ms == timeout_ms


def test_create_on_the_cluster_creates_any_topic_and_is_written_down() -> None:
    asked = Asking(ApiKey.CREATE_TOPICS, 7, f"CREATE {CLUSTER_RIGHT}").for_(creation("a", "b"))

    assert [topic.name for topic in to_controller(asked).topics] == ["a", "b"]
    assert [(event.resource_type, event.granted) for event in asked.call.events] == [("CLUSTER", True)]


def test_duplicates_and_the_metadata_topic_are_invalid_before_they_are_denied() -> None:
    asked = Asking(ApiKey.CREATE_TOPICS, 7, f"CREATE {CLUSTER_RIGHT}").for_(
        creation("a", "b", "a", "__cluster_metadata")
    )

    assert [topic.name for topic in to_controller(asked).topics] == ["b"]
    told = asked.told(t.CreateTopicsResponse(topics=[CREATED(name="b")]))
    assert results(told.topics) == [("a", INVALID), ("b", 0), ("__cluster_metadata", INVALID)]
    assert told.topics[0].error_message == "Duplicate topic name."


def test_with_nothing_to_create_the_controller_is_not_asked() -> None:
    answer = Asking(ApiKey.CREATE_TOPICS, 7).for_(creation("b", "a")).answer

    assert results(answer.topics) == [("b", DENIED), ("a", DENIED)]


@pytest.mark.parametrize(
    ("right", "told_partitions"), [("DESCRIBE_CONFIGS TOPIC a", 3), ("READ TOPIC a", -1)]
)
def test_the_configs_of_a_new_topic_are_told_to_who_may_describe_them(
    right: str, told_partitions: int
) -> None:
    asked = Asking(ApiKey.CREATE_TOPICS, 7, "CREATE TOPIC a", right).for_(creation("a"))
    config = t.CreateTopicsResponse.CreatableTopicConfigs(name="retention.ms", value="1")

    told = asked.told(
        t.CreateTopicsResponse(
            topics=[CREATED(name="a", num_partitions=3, replication_factor=1, configs=[config])]
        )
    )

    (topic,) = told.topics
    assert topic.num_partitions == told_partitions
    assert topic.configs == ([config] if told_partitions == 3 else [])
    assert topic.topic_config_error_code == (0 if told_partitions == 3 else DENIED)


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.CREATE_PARTITIONS))
def test_more_partitions_need_alter_on_the_topic(version: int) -> None:
    topic = t.CreatePartitionsRequest.CreatePartitionsTopic
    result = t.CreatePartitionsResponse.CreatePartitionsTopicResult
    names = ["a", "b", "c", "c"]
    asked = Asking(ApiKey.CREATE_PARTITIONS, version, "ALTER TOPIC b", f"ALTER {CLUSTER_RIGHT}").for_(
        t.CreatePartitionsRequest(topics=[topic(name=name, count=4) for name in names])
    )

    assert [topic.name for topic in to_controller(asked).topics] == ["b"]
    told = asked.told(t.CreatePartitionsResponse(results=[result(name="b")]))
    assert results(told.results) == [("a", DENIED), ("b", 0), ("c", INVALID)]


def deletion(version: int, *names: str) -> Any:
    return t.DeleteTopicsRequest(topic_names=list(names)) if version < 6 else delete_topics(*names)


DELETED = t.DeleteTopicsResponse.DeletableTopicResult


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.DELETE_TOPICS))
def test_topics_that_may_not_be_deleted_are_put_back_in_the_order_of_the_request(version: int) -> None:
    asked = Asking(ApiKey.DELETE_TOPICS, version, "DELETE TOPIC b", "DELETE TOPIC d").for_(
        deletion(version, *"abcd")
    )

    left = to_controller(asked)
    assert (left.topic_names or [topic.name for topic in left.topics]) == ["b", "d"]
    # KRaft tells the id of what it has deleted by name, too.
    ids = [bytes([number]) * 16 if version >= 6 else NO_ID for number in (1, 2)]
    told = asked.told(
        t.DeleteTopicsResponse(
            responses=[DELETED(name="d", topic_id=ids[0]), DELETED(name="b", topic_id=ids[1])]
        )
    )
    assert results(told.responses) == [("a", DENIED), ("b", 0), ("c", DENIED), ("d", 0)]
    assert asked.denials == ["DELETE TOPIC a", "DELETE TOPIC c"]


def test_topics_by_id_are_deleted_by_id_and_denied_ones_named_to_who_may_describe_them() -> None:
    rights = ("DELETE TOPIC orders", "DESCRIBE TOPIC payments")
    ids = [KNOWN_TOPICS["secrets"], KNOWN_TOPICS["payments"], KNOWN_TOPICS["orders"], b"?" * 16]

    asked = Asking(ApiKey.DELETE_TOPICS, 6, *rights).for_(delete_topics(*ids))

    assert [(topic.name, topic.topic_id) for topic in to_controller(asked).topics] == [(None, ids[2])]
    told = asked.told(t.DeleteTopicsResponse(responses=[DELETED(name="orders", topic_id=ids[2])]))
    assert [(part.name, part.topic_id, part.error_code) for part in told.responses] == [
        (None, ids[0], DENIED),
        ("payments", ids[1], DENIED),
        ("orders", ids[2], 0),
        (None, ids[3], ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.DELETE_TOPICS))
def test_a_topic_that_may_be_described_is_said_to_be_missing_rather_than_denied(version: int) -> None:
    rights = ("DESCRIBE TOPIC here", "DESCRIBE TOPIC missing", "DELETE TOPIC mine")
    names = ("here", "missing", "mine", "hidden")

    asked = Asking(ApiKey.DELETE_TOPICS, version, *rights).where_it_can_ask().for_(deletion(version, *names))

    assert [topic.name for topic in asked.asked_first.topics] == ["here", "missing"]
    assert not asked.asked_first.allow_auto_topic_creation
    left = asked.once(metadata(("here", 0), ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
    assert (left.forwarded.topic_names or [topic.name for topic in left.forwarded.topics]) == ["mine"]
    told = left.told(t.DeleteTopicsResponse(responses=[DELETED(name="mine")]))
    assert results(told.responses) == [
        ("here", DENIED),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("mine", 0),
        ("hidden", DENIED),
    ]


def test_an_id_nobody_told_is_asked_for_before_it_is_decided_on() -> None:
    strange, gone = b"1" * 16, b"2" * 16
    asked = (
        Asking(ApiKey.DELETE_TOPICS, 6, "DELETE TOPIC new")
        .where_it_can_ask()
        .for_(delete_topics(strange, gone, KNOWN_TOPICS["orders"]))
    )

    assert asked.looked_up == [strange, gone]
    left = asked.once_named(new=strange)
    assert [topic.topic_id for topic in left.forwarded.topics] == [strange]
    told = left.told(t.DeleteTopicsResponse(responses=[DELETED(name="new", topic_id=strange)]))
    assert [part.error_code for part in told.responses] == [0, ErrorCode.UNKNOWN_TOPIC_ID, DENIED]


def test_the_id_of_a_created_topic_is_known() -> None:
    new = b"1" * 16
    creator = Asking(ApiKey.CREATE_TOPICS, 7, "CREATE TOPIC new")
    result = t.CreateTopicsResponse.CreatableTopicResult(name="new", topic_id=new)
    creator.for_(creation("new")).told(t.CreateTopicsResponse(topics=[result]))

    deleter = Asking(ApiKey.DELETE_TOPICS, 6, "DELETE TOPIC new").where_it_can_ask()
    deleter.gate.topic_names = creator.gate.topic_names

    assert [topic.topic_id for topic in deleter.for_(delete_topics(new)).forwarded.topics] == [new]


def test_the_id_of_a_dry_run_is_not_learnt() -> None:
    creator = Asking(ApiKey.CREATE_TOPICS, 7, "CREATE TOPIC new")
    result = t.CreateTopicsResponse.CreatableTopicResult(name="new", topic_id=b"1" * 16)
    tried = creation("new")
    tried.validate_only = True
    creator.for_(tried).told(t.CreateTopicsResponse(topics=[result]))

    assert creator.gate.topic_names.topic_id("new") is None


def metadata(*topics: tuple[str | None, int]) -> Any:
    topic = t.MetadataResponse.MetadataResponseTopic
    return t.MetadataResponse(topics=[topic(name=name, error_code=code) for name, code in topics])


def test_delete_on_the_cluster_deletes_any_topic() -> None:
    asked = Asking(ApiKey.DELETE_TOPICS, 6, f"DELETE {CLUSTER_RIGHT}").for_(deletion(6, "a", "b"))

    assert [topic.name for topic in to_controller(asked).topics] == ["a", "b"]


def test_a_topic_whose_description_is_denied_is_not_deleted_but_by_right_on_the_cluster() -> None:
    denied = "DENY DESCRIBE TOPIC a"

    asked = Asking(ApiKey.DELETE_TOPICS, 6, "DELETE TOPIC *", denied).for_(deletion(6, "a", "b"))
    by_cluster = Asking(ApiKey.DELETE_TOPICS, 6, f"DELETE {CLUSTER_RIGHT}", denied).for_(
        deletion(6, "a", "b")
    )

    assert [topic.name for topic in to_controller(asked).topics] == ["b"]
    assert asked.denials == ["DESCRIBE TOPIC a"]
    assert [topic.name for topic in to_controller(by_cluster).topics] == ["a", "b"]


def test_a_topic_told_by_its_id_is_deleted_without_the_right_to_describe_it() -> None:
    orders = KNOWN_TOPICS["orders"]

    asked = Asking(ApiKey.DELETE_TOPICS, 6, "DELETE TOPIC *", "DENY DESCRIBE TOPIC orders").for_(
        delete_topics(orders)
    )

    assert [topic.topic_id for topic in to_controller(asked).topics] == [orders]
    assert asked.denials == []


def test_what_names_a_topic_twice_or_not_at_all_is_invalid() -> None:
    state = t.DeleteTopicsRequest.DeleteTopicState
    orders = KNOWN_TOPICS["orders"]
    request = t.DeleteTopicsRequest(
        topics=[
            state(name="a"),
            state(name="a"),
            state(name="b", topic_id=orders),
            state(name="b", topic_id=orders),
            state(name=None),
            state(name=None),
            state(name=None, topic_id=orders),
            state(name=None, topic_id=orders),
        ]
    )

    answer = Asking(ApiKey.DELETE_TOPICS, 6, f"DELETE {CLUSTER_RIGHT}").for_(request).answer

    assert [(part.name, part.topic_id, part.error_code) for part in answer.responses] == [
        ("a", NO_ID, INVALID),
        ("b", orders, INVALID),
        ("b", orders, INVALID),
        (None, NO_ID, INVALID),
        (None, NO_ID, INVALID),
        (None, orders, INVALID),
    ]


PAGE = t.DescribeTopicPartitionsResponse
PAGE_TOPIC = PAGE.DescribeTopicPartitionsResponseTopic


def page_of(*names: str, cursor: tuple[str, int] | None = None) -> Any:
    request = t.DescribeTopicPartitionsRequest
    where = None if cursor is None else request.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    return request(topics=[request.TopicRequest(name=name) for name in names], cursor=where)


def page(*names: str, next_topic: str | None = None) -> Any:
    partition = PAGE.DescribeTopicPartitionsResponsePartition(partition_index=0, leader_id=1)
    cursor = None if next_topic is None else PAGE.Cursor(topic_name=next_topic, partition_index=0)
    topics = [
        PAGE_TOPIC(name=name, topic_id=name.encode()[:1].ljust(1, b"\0") * 16, partitions=[partition])
        for name in names
    ]
    return PAGE(topics=topics, next_cursor=cursor)


def describing(*rights: str) -> Asking:
    return Asking(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, *rights).where_it_can_ask()


def named(*names: str) -> Any:
    """The broker's list of all topics."""
    topic = t.MetadataResponse.MetadataResponseTopic
    partition = t.MetadataResponse.MetadataResponsePartition
    return t.MetadataResponse(
        topics=[topic(name=n, topic_id=n.encode()[:1] * 16, partitions=[partition()]) for n in names]
    )


def test_denied_topics_of_a_page_follow_the_others() -> None:
    asked = describing("READ TOPIC b").for_(page_of("a", "b", "c"))

    assert [topic.name for topic in asked.forwarded.topics] == ["b"]
    told = asked.told(page("b"))
    assert results(told.topics) == [("b", 0), ("a", DENIED), ("c", DENIED)]
    assert [len(topic.partitions) for topic in told.topics] == [1, 0, 0]
    assert [topic.topic_authorized_operations for topic in told.topics] == [
        1 << 3 | 1 << 8,
        -(2**31),
        -(2**31),
    ]


def test_a_topic_without_a_name_has_no_authorized_operations() -> None:
    """As at a broker, which has them in Metadata."""
    told = describing("READ TOPIC *").for_(page_of("", "b")).told(page("", "b"))

    assert [topic.topic_authorized_operations for topic in told.topics] == [-(2**31), 1 << 3 | 1 << 8]


def test_a_page_of_denied_topics_is_answered_here() -> None:
    assert results(describing().for_(page_of("a")).answer.topics) == [("a", DENIED)]


def test_a_page_begins_at_its_cursor_also_when_that_topic_is_denied() -> None:
    asked = describing("READ TOPIC a", "READ TOPIC c").for_(page_of("a", "b", "c", cursor=("b", 1)))

    assert [topic.name for topic in asked.forwarded.topics] == ["c"]
    assert asked.forwarded.cursor is None
    assert results(asked.told(page("c")).topics) == [("c", 0), ("b", DENIED)]


@pytest.mark.parametrize("cursor", [("x", 0), ("a", -1)])
def test_a_cursor_that_points_nowhere_is_invalid(cursor: tuple[str, int]) -> None:
    asked = describing("READ TOPIC *").for_(page_of("a", "b", cursor=cursor))

    assert isinstance(asked.verdict, Respond)
    assert results(asked.answer.topics) == [("a", INVALID), ("b", INVALID)]


def all_topics(limit: int = 2_000, cursor: tuple[str, int] | None = None) -> Any:
    request = page_of(cursor=cursor)
    request.response_partition_limit = limit
    return request


def topic_with(name: str, *partitions: int) -> Any:
    partition = PAGE.DescribeTopicPartitionsResponsePartition
    return PAGE_TOPIC(name=name, partitions=[partition(partition_index=index) for index in partitions])


def pages_told(answer: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    cursor = answer.next_cursor
    topics = [(topic.name, [part.partition_index for part in topic.partitions]) for topic in answer.topics]
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_a_list_of_all_topics_shows_those_that_may_be_described() -> None:
    asked = describing("READ TOPIC b", "READ TOPIC d").for_(all_topics())

    asked = asked.once(page("a", "b", "c", next_topic="d")).once(named("e", "d", "c", "b", "a"))
    assert asked.queried.message.topics == page_of("b", "d").topics
    told = asked.once(page("b", "d")).answer

    assert results(told.topics) == [("b", 0), ("d", 0)]
    assert told.next_cursor is None
    assert told.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8
    assert asked.denials == []


def test_a_client_without_rights_makes_the_broker_list_its_topics_once() -> None:
    asked = describing().for_(all_topics()).once(page("a", "b", next_topic="c"))

    assert asked.queried.api_key == ApiKey.METADATA
    assert asked.queried.raw == ("topics.partitions",)
    assert pages_told(asked.once(named("a", "b", "c", "d")).answer) == ([], None)


def test_a_page_of_a_client_with_all_rights_is_one_page_of_the_broker() -> None:
    full = PAGE(topics=[topic_with("a", *range(1_500)), topic_with("b", *range(500))])
    full.next_cursor = PAGE.Cursor(topic_name="b", partition_index=500)

    topics, cursor = pages_told(describing("READ TOPIC *").for_(all_topics()).once(full).answer)

    assert [(name, len(partitions)) for name, partitions in topics] == [("a", 1_500), ("b", 500)]
    assert cursor == ("b", 500)


def test_a_page_of_shown_topics_is_requested_by_as_many_names_as_it_may_have_and_one() -> None:
    names = [f"b-{number}" for number in range(5)]
    rights = [f"READ TOPIC {name}" for name in names]
    request = all_topics(limit=2, cursor=("b-1", 3))
    asked = describing(*rights).for_(request).once(page("b-1", next_topic="c")).once(named("a", "b", *names))

    assert asked.queried.message == t.DescribeTopicPartitionsRequest(
        topics=page_of("b-1", "b-2", "b-3").topics,
        response_partition_limit=2,
        cursor=t.DescribeTopicPartitionsRequest.Cursor(topic_name="b-1", partition_index=3),
    )
    # One of them is gone, and one was deleted meanwhile: the next page begins behind them.
    gone = PAGE_TOPIC(name="b-1", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    answer = PAGE(topics=[gone, *page("b-2", "b-3").topics])
    assert pages_told(asked.once(answer).answer) == ([("b-2", [0]), ("b-3", [0])], ("b-4", 0))


def test_a_page_that_begins_at_a_hidden_topic_begins_behind_it() -> None:
    request = all_topics(cursor=("b", 3))
    asked = (
        describing("READ TOPIC c").for_(request).once(page("b", next_topic="c")).once(named("a", "b", "c"))
    )

    assert asked.queried.message.cursor is None
    assert pages_told(asked.once(page("c")).answer) == ([("c", [0])], None)


def test_the_end_of_a_page_is_found_among_the_topics_that_are_shown() -> None:
    answer = PAGE(
        topics=[topic_with("a", 0), topic_with("b", 0, 1, 2), topic_with("c", 0), topic_with("d", 0)]
    )

    def listed(limit: int) -> Any:
        rights = ("READ TOPIC b", "READ TOPIC d")
        return pages_told(describing(*rights).for_(all_topics(limit)).once(answer).answer)

    assert listed(0) == listed(1) == ([("b", [0])], ("b", 1))
    assert listed(3) == ([("b", [0, 1, 2])], ("d", 0))
    assert listed(4) == listed(5_000) == ([("b", [0, 1, 2]), ("d", [0])], None)


def test_hidden_topics_leave_no_trace_in_a_page() -> None:
    asked = describing("READ TOPIC b").for_(all_topics(limit=1))

    asked = asked.once(page("a", "b", next_topic="secrets")).once(named("secrets", "b", "z", "a"))

    assert asked.queried.message.topics == page_of("b").topics
    assert pages_told(asked.once(page("b")).answer) == ([("b", [0])], None)
