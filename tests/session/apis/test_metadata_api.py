"""Metadata: who sees which topics, when a missing one is made, where brokers are said to be."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.metadata.acl import Operation
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT, Asked, Asking

pytestmark = pytest.mark.spec("A7")

VERSIONS = codecs.request_versions(ApiKey.METADATA)
BY_NAME = [1, 4, 9, 12, 13]
UNKNOWN, DENIED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_ID = bytes(16)
TOPIC = t.MetadataResponse.MetadataResponseTopic
PARTITION = t.MetadataResponse.MetadataResponsePartition


def asking(version: int, *rights: str) -> Asking:
    return Asking(ApiKey.METADATA, version, *rights)


def request(*names: str, create: bool = False, **fields: Any) -> Any:
    topics = [t.MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return t.MetadataRequest(topics=topics, allow_auto_topic_creation=create, **fields)


def topic(name: str | None, code: int = 0, version: int = 13, topic_id: bytes = b"o" * 16) -> Any:
    partitions = [PARTITION(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1])]
    return TOPIC(
        name=name,
        error_code=code,
        topic_id=topic_id if version >= 10 and not code else NO_ID,
        partitions=[] if code else partitions,
    )


def answer(*topics: Any, controller: int = 2) -> Any:
    brokers = [
        t.MetadataResponse.MetadataResponseBroker(node_id=node, host=f"broker-{node}", port=9092)
        for node in (1, 2, 3)
    ]
    return t.MetadataResponse(brokers=brokers, topics=list(topics), controller_id=controller)


def errors(response: Any) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in response.topics]


def names(asked: Asked) -> list[str]:
    return [topic.name for topic in asked.forwarded.topics]


@pytest.mark.parametrize("version", BY_NAME)
def test_denied_topics_are_not_asked_for_and_come_back_in_the_order_of_the_request(version: int) -> None:
    switch = {"create": True} if version < 4 else {}
    asked = asking(version, "DESCRIBE TOPIC b*", "CREATE CLUSTER kafka-cluster").for_(
        request("a", "bb", "c", "b", **switch)
    )

    assert names(asked) == ["bb", "b"]
    told = asked.told(answer(topic("b", version=version), topic("bb", version=version)))
    assert errors(told) == [("a", DENIED), ("bb", 0), ("c", DENIED), ("b", 0)]
    assert [len(topic.partitions) for topic in told.topics] == [0, 1, 0, 1]
    assert asked.denials == ["DESCRIBE TOPIC a", "DESCRIBE TOPIC c"]


def test_a_denied_topic_tells_neither_whether_it_exists_nor_its_id() -> None:
    told = asking(12).for_(request("secrets", "no-such")).told(answer())

    assert [(part.error_code, part.topic_id, part.is_internal) for part in told.topics] == 2 * [
        (DENIED, NO_ID, False)
    ]


def test_an_allowed_request_goes_as_it_came() -> None:
    assert asking(12, "DESCRIBE TOPIC a").for_(request("a")).goes_as_it_came


@pytest.mark.parametrize("version", VERSIONS)
def test_a_list_of_all_topics_shows_those_that_may_be_described(version: int) -> None:
    asked = asking(version, "READ TOPIC a", "WRITE TOPIC c").for_(
        t.MetadataRequest(topics=[] if version == 0 else None)
    )

    told = asked.told(answer(*(topic(name, version=version) for name in "abc")))

    assert errors(told) == [("a", 0), ("c", 0)]
    assert asked.denials == []
    assert asked.goes_as_it_came


def test_a_request_for_no_topics_is_no_request_for_all() -> None:
    asked = asking(1).for_(request(create=True))

    assert asked.goes_as_it_came
    assert asked.told(answer()).topics == []


@pytest.mark.parametrize("version", [4, 12])
def test_a_missing_topic_is_made_only_with_create_on_all_that_are_asked_for(version: int) -> None:
    rights = ("DESCRIBE TOPIC *", "CREATE TOPIC a")

    asked = asking(version, *rights).for_(request("a", "b", create=True))

    assert not asked.forwarded.allow_auto_topic_creation
    assert errors(asked.told(answer(topic("a", UNKNOWN), topic("b", UNKNOWN)))) == [
        ("a", UNKNOWN),
        ("b", UNKNOWN),
    ]
    assert asking(version, *rights).for_(request("a", create=True)).forwarded.allow_auto_topic_creation


@pytest.mark.parametrize("version", [0, 3, 4, 13])
def test_where_the_broker_makes_topics_a_missing_one_that_may_not_be_made_is_denied(version: int) -> None:
    alice = asking(version, "DESCRIBE TOPIC *")
    alice.gate.auto_creates_topics = True

    asked = alice.for_(request("here", "gone", create=True))

    parts = [topic("here", version=version)] + ([topic("gone", UNKNOWN)] if version >= 4 else [])
    assert errors(asked.told(answer(*parts))) == [("here", 0), ("gone", DENIED)]
    assert asked.denials == ["CREATE TOPIC gone"]
    assert not (version >= 4 and asked.forwarded.allow_auto_topic_creation)


@pytest.mark.parametrize("version", [4, 12])
def test_of_several_missing_topics_those_that_may_be_made_are_made(version: int) -> None:
    alice = asking(version, "DESCRIBE TOPIC *", "CREATE TOPIC mine*").where_it_can_ask()
    alice.gate.auto_creates_topics = True

    first = alice.for_(request("mine", "hers", "mine!", "here", create=True))

    assert [topic.name for topic in first.asked_first.topics] == ["mine", "mine!"]
    assert first.asked_first.allow_auto_topic_creation
    asked = first.once(answer(topic("mine", UNKNOWN), topic("mine!", ErrorCode.INVALID_TOPIC_EXCEPTION)))
    assert names(asked) == ["mine", "hers", "mine!", "here"]
    assert not asked.forwarded.allow_auto_topic_creation
    told = asked.told(answer(topic("mine"), topic("hers", UNKNOWN), topic("mine!", UNKNOWN), topic("here")))
    assert errors(told) == [
        ("mine", 0),
        ("hers", DENIED),
        ("mine!", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("here", 0),
    ]


def test_an_existing_topic_needs_no_create() -> None:
    asked = asking(12, "READ TOPIC a").for_(request("a", create=True))

    assert errors(asked.told(answer(topic("a")))) == [("a", 0)]
    assert asked.denials == []


def test_create_on_the_cluster_is_enough_to_make_a_topic() -> None:
    asked = asking(12, "DESCRIBE TOPIC a", f"CREATE {CLUSTER_RIGHT}").for_(request("a", create=True))

    assert asked.goes_as_it_came
    assert errors(asked.told(answer(topic("a", UNKNOWN)))) == [("a", UNKNOWN)]


@pytest.mark.parametrize("version", [0, 3])
def test_versions_that_cannot_forbid_creation_ask_for_a_list_of_all_instead(version: int) -> None:
    asked = asking(version, "DESCRIBE TOPIC *").for_(request("b", "a", "no topic", create=True))

    assert asked.forwarded.topics == ([] if version == 0 else None)
    told = asked.told(answer(topic("a", version=version), topic("c", version=version)))
    assert errors(told) == [("b", UNKNOWN), ("a", 0), ("no topic", ErrorCode.INVALID_TOPIC_EXCEPTION)]


@pytest.mark.parametrize("version", [0, 3])
def test_with_every_topic_denied_nothing_is_told_of_others(version: int) -> None:
    asked = asking(version).for_(request("a", create=True))

    assert errors(asked.told(answer(topic("c", version=version)))) == [("a", DENIED)]


@pytest.mark.spec("E9")
def test_a_policy_that_refuses_creation_is_an_authorization_error_below_v10() -> None:
    violation = ErrorCode.POLICY_VIOLATION
    rights = ("DESCRIBE TOPIC a", f"CREATE {CLUSTER_RIGHT}")

    old = asking(9, *rights).for_(request("a", create=True)).told(answer(topic("a", violation)))
    new = asking(10, *rights).for_(request("a", create=True)).told(answer(topic("a", violation)))

    assert errors(old) == [("a", DENIED)]
    assert errors(new) == [("a", violation)]


@pytest.mark.parametrize("version", [12, 13])
def test_topics_asked_for_by_id_lose_their_name_when_denied(version: int) -> None:
    ids = [b"o" * 16, b"s" * 16, b"?" * 16]
    wanted = [t.MetadataRequest.MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    asked = asking(version, "DESCRIBE TOPIC orders").for_(t.MetadataRequest(topics=wanted))

    unknown = TOPIC(name=None, topic_id=ids[2], error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    told = asked.told(answer(topic("orders"), topic("secrets", topic_id=ids[1]), unknown))

    assert asked.goes_as_it_came
    assert [(part.name, part.topic_id, part.error_code) for part in told.topics] == [
        ("orders", ids[0], 0),
        (None, ids[1], DENIED),
        (None, ids[2], ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize(
    ("version", "topic_id"),
    [(10, b"o" * 16), (11, b"o" * 16), (12, bytes(16)), (13, bytes(16))],
    ids=["by id in version 10", "by id in version 11", "neither in version 12", "neither in version 13"],
)
def test_a_topic_without_what_names_it_is_invalid(version: int, topic_id: bytes) -> None:
    wanted = [t.MetadataRequest.MetadataRequestTopic(name=None, topic_id=topic_id)]

    response = asking(version, "DESCRIBE TOPIC *").for_(t.MetadataRequest(topics=wanted)).answer

    assert errors(response) == [("", ErrorCode.INVALID_REQUEST)]


def test_topic_ids_are_learned_from_answers() -> None:
    asked = asking(12, "DESCRIBE TOPIC new").for_(request("new"))

    asked.told(answer(topic("new", topic_id=b"n" * 16)))

    assert asked.call.gate.topic_names.name(b"n" * 16) == "new"


@pytest.mark.spec("O1")
@pytest.mark.parametrize("version", VERSIONS)
def test_brokers_are_told_by_the_addresses_of_their_proxies_only(version: int) -> None:
    told = asking(version, "DESCRIBE TOPIC a").for_(request("a", create=version < 4)).told(answer())

    assert [(node.node_id, node.host, node.port) for node in told.brokers] == [
        (1, "proxy-one", 19092),
        (2, "proxy-two", 29092),
    ]


@pytest.mark.spec("O1")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("all_topics", [False, True])
def test_a_leader_that_clients_cannot_reach_is_an_error_of_its_partition(
    version: int, all_topics: bool
) -> None:
    alice = asking(version, "DESCRIBE TOPIC a")
    alice.unreachable = (3,)
    led = topic("a", version=version)
    led.partitions.append(
        PARTITION(
            partition_index=1, leader_id=3, leader_epoch=7, replica_nodes=[3, 2, 4], offline_replicas=[4]
        )
    )
    wanted = request("a", "b", create=version < 4)
    if all_topics:
        wanted.topics = None if version else []

    (one, *denied) = alice.for_(wanted).told(answer(led, topic("b", version=version))).topics

    code = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    assert [(part.leader_id, part.error_code) for part in one.partitions] == [(1, 0), (-1, code)]
    assert [part.replica_nodes for part in one.partitions] == [[1, 2], [3, 2, 4]]
    if version >= 5:
        assert [part.offline_replicas for part in one.partitions] == [[], [3, 4]]
    assert [(topic.name, topic.partitions) for topic in denied] == ([] if all_topics else [("b", [])])


@pytest.mark.spec("O1")
@pytest.mark.parametrize("by_name", [False, True])
def test_described_partitions_have_no_leader_that_clients_cannot_reach(by_name: bool) -> None:
    response = t.DescribeTopicPartitionsResponse
    part = response.DescribeTopicPartitionsResponsePartition
    led = response.DescribeTopicPartitionsResponseTopic(
        name="a",
        topic_id=b"a" * 16,
        partitions=[
            part(partition_index=0, leader_id=1, replica_nodes=[1, 3]),
            part(partition_index=1, leader_id=3, replica_nodes=[3, 2]),
        ],
    )
    alice = Asking(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, "DESCRIBE TOPIC a")
    alice.unreachable = (3,)
    wanted = [t.DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in ("a", "b") if by_name]
    asked = alice.for_(t.DescribeTopicPartitionsRequest(topics=wanted))

    told = asked.told(response(topics=[led])) if by_name else asked.once(response(topics=[led])).answer

    assert [(each.name, len(each.partitions)) for each in told.topics] == [("a", 2), ("b", 0)][: 1 + by_name]
    parts = told.topics[0].partitions
    assert [(each.leader_id, each.error_code) for each in parts] == [(1, 0), (-1, 0)]
    assert [each.offline_replicas for each in parts] == [[3], [3]]


@pytest.mark.spec("E9")
@pytest.mark.parametrize(("told_by_broker", "expected"), [(2, 2), (3, 1), (-1, 1)])
def test_the_controller_is_some_broker_that_can_be_reached(told_by_broker: int, expected: int) -> None:
    told = asking(9).for_(t.MetadataRequest(topics=None)).told(answer(controller=told_by_broker))

    assert told.controller_id == expected


@pytest.mark.parametrize("version", [8, 10, 13])
def test_authorized_operations_are_those_of_the_client(version: int) -> None:
    cluster = {"include_cluster_authorized_operations": True} if version <= 10 else {}
    asked = asking(version, "READ TOPIC a", f"DESCRIBE {CLUSTER_RIGHT}", f"CREATE {CLUSTER_RIGHT}").for_(
        request("a", "b", include_topic_authorized_operations=True, **cluster)
    )
    brokers_view = topic("a", version=version)
    brokers_view.topic_authorized_operations = 0x7FFF

    told = asked.told(answer(brokers_view))

    assert told.topics[0].topic_authorized_operations == bits(Operation.READ, Operation.DESCRIBE)
    assert told.topics[1].topic_authorized_operations == -(2**31)
    if version <= 10:
        assert told.cluster_authorized_operations == bits(Operation.CREATE, Operation.DESCRIBE)


def test_a_name_that_no_topic_can_have_has_the_operations_that_all_topics_have() -> None:
    asked = asking(13, "READ TOPIC *").for_(request("", include_topic_authorized_operations=True))

    told = asked.told(answer(topic("", ErrorCode.INVALID_TOPIC_EXCEPTION)))

    assert told.topics[0].topic_authorized_operations == bits(Operation.READ, Operation.DESCRIBE)


def test_operations_on_the_cluster_are_none_without_describe_on_it() -> None:
    asked = asking(8, f"CREATE {CLUSTER_RIGHT}").for_(
        t.MetadataRequest(topics=None, include_cluster_authorized_operations=True)
    )

    assert asked.told(answer()).cluster_authorized_operations == 0


def test_operations_nobody_asked_for_are_not_told() -> None:
    brokers_view = topic("orders")
    brokers_view.topic_authorized_operations = 8

    told = asking(9, "READ TOPIC orders").for_(request("orders")).told(answer(brokers_view))

    assert told.topics[0].topic_authorized_operations == -(2**31)
    assert told.cluster_authorized_operations == -(2**31)


def bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


IN_PLACE = [version for version in VERSIONS if codecs.is_flexible(ApiKey.METADATA, version)]


@pytest.mark.parametrize("version", IN_PLACE)
def test_topics_without_an_error_are_passed_on_in_the_order_of_the_request(version: int) -> None:
    asked = asking(version, "DESCRIBE TOPIC *").for_(request("a", "bb", "c" * 126))
    found = [topic(name, version=version, topic_id=name[:1].encode() * 16) for name in ("c" * 126, "a", "bb")]
    sent = codecs.response(ApiKey.METADATA, version).encode(answer(*found))

    assert asked.in_place(sent) is not None
    assert [name for name, _ in errors(asked.told(answer(*found)))] == ["a", "bb", "c" * 126]
    assert asked.call.gate.topic_names.topic_id("bb") == (b"b" * 16 if version >= 10 else None)
    for end in range(len(sent)):
        assert asked.in_place(sent[:end]) is None
    assert asked.in_place(sent + b"\0") is None
    for others in (("a", "bb"), ("a", "bb", "d"), ("a", "bb", "c" * 126, "d")):
        assert asking(version, "DESCRIBE TOPIC *").for_(request(*others)).in_place(sent) is None


RESPONSE = t.MetadataResponse
few_nodes = st.lists(st.integers(1, 3), max_size=9)
partitions = st.lists(
    st.builds(
        PARTITION,
        error_code=st.sampled_from([0, 0, 0, 5]),
        partition_index=st.integers(0, 1 << 30),
        leader_id=st.integers(-1, 3),
        replica_nodes=few_nodes,
        isr_nodes=few_nodes,
        unknown_tags=st.sampled_from([None, None, {7: b"x"}]),
    ),
    max_size=3,
).map(lambda found: found * 30 if len(found) == 3 else found)
topics = st.builds(
    TOPIC,
    name=st.sampled_from(["a", "bb", "\u00fc", "b" * 127]),
    error_code=st.sampled_from([0, 0, 0, int(UNKNOWN)]),
    is_internal=st.booleans(),
    partitions=partitions,
    topic_authorized_operations=st.sampled_from([-(1 << 31), -(1 << 31), 4]),
    unknown_tags=st.sampled_from([None, None, {7: b"x"}]),
)
brokers = st.builds(
    RESPONSE.MetadataResponseBroker,
    node_id=st.integers(1, 3),
    host=st.sampled_from(["b", "h" * 130]),
    port=st.integers(0, 65_535),
    rack=st.sampled_from([None, "", "r"]),
    unknown_tags=st.sampled_from([None, None, None, {7: b"x"}]),
)
responses = st.builds(
    RESPONSE,
    brokers=st.lists(brokers, max_size=3),
    cluster_id=st.sampled_from([None, "c"]),
    controller_id=st.integers(-1, 3),
    topics=st.lists(topics, max_size=4),
    unknown_tags=st.sampled_from([None, None, {7: b"x"}]),
)


@pytest.mark.spec("E1")
@settings(max_examples=25, deadline=None)
@given(st.sampled_from(IN_PLACE), st.permutations(["a", "bb", "\u00fc"]), responses)
def test_what_is_changed_in_place_is_what_decoding_it_gives(
    version: int, order: list[str], response: Any
) -> None:
    for part in response.topics:
        part.topic_id = b"i" * 16 if version >= 10 else NO_ID

    # `told` compares both ways; the first of them is mostly taken for the second response.
    asking(version, "DESCRIBE TOPIC *").for_(request(*order)).told(response)
    response.topics = [part for part in response.topics if not part.error_code][:1]
    asking(version, "DESCRIBE TOPIC *").for_(request(*(part.name for part in response.topics))).told(response)
