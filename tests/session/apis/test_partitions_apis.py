"""APIs that list topics with partitions, each with an error of its own: what goes on, what comes back."""

import re
from dataclasses import dataclass
from typing import Any

import pytest

from proxy.admin.rejection import TopicShape
from proxy.session.apis import groups, offsets, partitions, transactions
from proxy.session.call import Respond
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.catalog import request as request_schema
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT, KNOWN_TOPICS, Asking

pytestmark = pytest.mark.spec("A7")

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@dataclass(frozen=True)
class Case:
    key: ApiKey
    shape: TopicShape
    operation: str
    topic: str
    """Struct of a topic in the request."""
    partition: str | None
    also: tuple[str, ...] = ()
    """Rights that the request needs beside those on topics."""
    fields: tuple[tuple[str, str], ...] = ()
    """Other fields of the request."""
    versions: tuple[int, ...] = ()

    def request(self, *names: str) -> Any:
        shape = self.shape
        message = getattr(types, request_schema(self.key).name)
        partitions: list[Any] = [0, 1]
        if self.partition is not None and shape.request_index is not None:
            struct = getattr(message, self.partition)
            partitions = [struct(**{shape.request_index: index}) for index in partitions]
        topics = [
            getattr(message, self.topic)(**{shape.name: name, shape.request_partitions: partitions})
            for name in names
        ]
        return message(**{shape.request_topics: topics}, **dict(self.fields))

    def answer(self, *names: str) -> Any:
        """The broker's, without an error, in an order of its own."""
        return self.shape.reject_all(self.request(*reversed(names)), ErrorCode.NONE)

    def errors(self, response: Any) -> list[tuple[str, list[tuple[int, int]]]]:
        shape = self.shape
        return [
            (
                getattr(topic, shape.name),
                [
                    (getattr(part, shape.response_index), getattr(part, shape.error_code))
                    for part in getattr(topic, shape.response_partitions)
                ],
            )
            for topic in getattr(response, shape.response_topics)
        ]


CASES = [
    Case(
        ApiKey.LIST_OFFSETS, partitions.LIST_OFFSETS, "DESCRIBE", "ListOffsetsTopic", "ListOffsetsPartition"
    ),
    Case(
        ApiKey.DELETE_RECORDS,
        partitions.DELETE_RECORDS,
        "DELETE",
        "DeleteRecordsTopic",
        "DeleteRecordsPartition",
    ),
    Case(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        partitions.OFFSET_FOR_LEADER_EPOCH,
        "DESCRIBE",
        "OffsetForLeaderTopic",
        "OffsetForLeaderPartition",
    ),
    Case(ApiKey.DESCRIBE_PRODUCERS, partitions.DESCRIBE_PRODUCERS, "READ", "TopicRequest", None),
    Case(
        ApiKey.OFFSET_COMMIT,
        offsets.COMMIT_SHAPE,
        "READ",
        "OffsetCommitRequestTopic",
        "OffsetCommitRequestPartition",
        also=("READ GROUP team",),
        fields=(("group_id", "team"),),
        versions=tuple(range(2, 10)),
    ),
    Case(
        ApiKey.TXN_OFFSET_COMMIT,
        transactions.TXN_OFFSET_COMMIT,
        "READ",
        "TxnOffsetCommitRequestTopic",
        "TxnOffsetCommitRequestPartition",
        also=("READ GROUP team", "WRITE TRANSACTIONAL_ID payer"),
        fields=(("group_id", "team"), ("transactional_id", "payer")),
        versions=tuple(range(6)),
    ),
    Case(
        ApiKey.OFFSET_DELETE,
        groups.OFFSET_DELETE,
        "READ",
        "OffsetDeleteRequestTopic",
        "OffsetDeleteRequestPartition",
        also=("DELETE GROUP team",),
        fields=(("group_id", "team"),),
    ),
]

EVERY = [
    pytest.param(case, version, id=f"{case.key.name}-v{version}")
    for case in CASES
    for version in case.versions or codecs.request_versions(case.key)
]


@pytest.mark.parametrize(("case", "version"), EVERY)
def test_allowed_topics_pass_unread(case: Case, version: int) -> None:
    asking = Asking(case.key, version, *case.also, f"{case.operation} TOPIC a", f"{case.operation} TOPIC b")

    assert asking.for_(case.request("a", "b")).passes_unread


@pytest.mark.parametrize(("case", "version"), EVERY)
def test_denied_topics_are_taken_out_and_put_back_in_the_order_of_the_request(
    case: Case, version: int
) -> None:
    asking = Asking(case.key, version, *case.also, f"{case.operation} TOPIC b", f"{case.operation} TOPIC d")

    asked = asking.for_(case.request("a", "b", "c", "d"))

    shape = case.shape
    assert [getattr(topic, shape.name) for topic in shape.topics(asked.forwarded)] == ["b", "d"]
    assert case.errors(asked.told(case.answer("b", "d"))) == [
        ("a", [(0, DENIED), (1, DENIED)]),
        ("b", [(0, 0), (1, 0)]),
        ("c", [(0, DENIED), (1, DENIED)]),
        ("d", [(0, 0), (1, 0)]),
    ]
    assert asked.denials == [f"{case.operation} TOPIC a", f"{case.operation} TOPIC c"]


@pytest.mark.parametrize(("case", "version"), EVERY)
def test_with_all_topics_denied_each_of_them_is_told_so(case: Case, version: int) -> None:
    asked = Asking(case.key, version, *case.also).for_(case.request("b", "a"))

    told = asked.answer if isinstance(asked.verdict, Respond) else asked.told(case.answer())

    assert case.errors(told) == [(name, [(0, DENIED), (1, DENIED)]) for name in "ba"]


@pytest.mark.parametrize(("case", "version"), EVERY)
def test_a_request_for_no_topics_passes_unread(case: Case, version: int) -> None:
    assert Asking(case.key, version, *case.also).for_(case.request()).passes_unread


def test_a_refused_list_offsets_partition_has_no_offset_and_no_timestamp() -> None:
    (case, *_) = CASES

    (topic,) = Asking(case.key, 7).for_(case.request("a")).answer.topics

    assert [(part.offset, part.timestamp, part.leader_epoch) for part in topic.partitions] == 2 * [
        (-1, -1, -1)
    ]


def test_cluster_action_opens_the_epochs_of_all_topics() -> None:
    case = CASES[2]

    asked = Asking(case.key, 4, f"CLUSTER_ACTION {CLUSTER_RIGHT}").for_(case.request("a"))

    assert asked.passes_unread
    assert asked.denials == []


def test_a_name_that_no_topic_can_have_is_left_to_the_broker() -> None:
    case = CASES[3]

    asked = Asking(case.key, 0).for_(case.request("no topic", "a"))

    assert [topic.name for topic in asked.forwarded.topics] == ["no topic"]
    told = asked.told(case.answer("no topic"))
    assert case.errors(told)[1] == ("a", [(0, DENIED), (1, DENIED)])
    assert told.topics[1].partitions[0].error_message == "Topic authorization failed."


def test_a_group_that_fails_at_the_broker_answers_without_topics() -> None:
    case = CASES[-1]
    asked = Asking(case.key, 0, *case.also).for_(case.request("a"))

    failed = types.OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)

    assert asked.forwarded.topics == []
    assert asked.told(failed) == failed


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (ApiKey.OFFSET_COMMIT, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_without_the_group_or_the_transaction_every_partition_is_refused(
    key: ApiKey, code: ErrorCode
) -> None:
    case = next(case for case in CASES if case.key == key)

    response = Asking(key, 5, "READ TOPIC a").for_(case.request("a")).answer

    assert case.errors(response) == [("a", [(0, code), (1, code)])]


def test_offsets_are_not_deleted_without_the_group() -> None:
    response = Asking(ApiKey.OFFSET_DELETE, 0, "READ TOPIC a").for_(CASES[-1].request("a")).answer

    assert (response.error_code, response.topics) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])


@pytest.mark.parametrize("version", [9, 10])
def test_a_denied_topic_that_a_commit_names_twice_is_reported_once_with_all_its_partitions(
    version: int,
) -> None:
    struct = types.OffsetCommitRequest.OffsetCommitRequestTopic
    partition = types.OffsetCommitRequest.OffsetCommitRequestPartition
    by_id = {"topic_id": KNOWN_TOPICS["secrets"]} if version == 10 else {"name": "secrets"}
    topics = [
        struct(**by_id, partitions=[partition(partition_index=i) for i in each]) for each in ([0, 7], [0])
    ]

    asked = Asking(ApiKey.OFFSET_COMMIT, version, "READ GROUP team").for_(
        types.OffsetCommitRequest(group_id="team", topics=topics)
    )

    (topic,) = asked.answer.topics
    assert [(part.partition_index, part.error_code) for part in topic.partitions] == [
        (0, DENIED),
        (7, DENIED),
        (0, DENIED),
    ]


@pytest.mark.parametrize("version", [9, 10])
def test_beside_a_denied_topic_an_allowed_one_that_a_commit_names_twice_is_reported_once_too(
    version: int,
) -> None:
    request, response = types.OffsetCommitRequest, types.OffsetCommitResponse

    def named(name: str) -> dict[str, Any]:
        return {"topic_id": KNOWN_TOPICS[name]} if version == 10 else {"name": name}

    topics = [
        request.OffsetCommitRequestTopic(
            **named(name), partitions=[request.OffsetCommitRequestPartition(partition_index=index)]
        )
        for index, name in enumerate(("orders", "secrets", "orders"))
    ]
    of_broker = [
        response.OffsetCommitResponseTopic(
            **named("orders"), partitions=[response.OffsetCommitResponsePartition(partition_index=index)]
        )
        for index in (0, 2)
    ]

    asked = Asking(ApiKey.OFFSET_COMMIT, version, "READ GROUP team", "READ TOPIC orders").for_(
        request(group_id="team", topics=topics)
    )
    told = asked.told(response(topics=of_broker))

    reported = [
        (topic.name or topic.topic_id, [(part.partition_index, part.error_code) for part in topic.partitions])
        for topic in told.topics
    ]
    assert reported == [
        (*named("orders").values(), [(0, 0), (2, 0)]),
        (*named("secrets").values(), [(1, DENIED)]),
    ]


@pytest.mark.parametrize("names", ["aab", "aa"])
@pytest.mark.parametrize("api", ["OffsetCommit", "OffsetDelete", "TxnOffsetCommit"])
def test_a_topic_that_is_named_twice_has_one_result_beside_a_denied_one(api: str, names: str) -> None:
    """A broker merges the results of the coordinator only if it has rejected topics itself."""
    key = ApiKey[re.sub("(?<!^)(?=[A-Z])", "_", api).upper()]
    request, response = getattr(types, f"{api}Request"), getattr(types, f"{api}Response")
    topic, partition = getattr(request, f"{api}RequestTopic"), getattr(request, f"{api}RequestPartition")
    topics = [topic(name=name, partitions=[partition()]) for name in names]
    rights = ["READ TOPIC a", "ALL GROUP team", "WRITE TRANSACTIONAL_ID payer"]
    fields = {"transactional_id": "payer"} if api == "TxnOffsetCommit" else {}
    results = [
        getattr(response, f"{api}ResponseTopic")(
            name="a", partitions=[getattr(response, f"{api}ResponsePartition")()]
        )
        for _ in range(2)
    ]

    asked = Asking(key, 0 if api == "OffsetDelete" else 5, *rights).for_(
        request(group_id="team", topics=topics, **fields)
    )
    told = asked.told(response(topics=results))

    found = [(each.name, [part.error_code for part in each.partitions]) for each in told.topics]
    assert found == ([("a", [0, 0]), ("b", [DENIED])] if "b" in names else [("a", [0])] * 2)


@pytest.mark.parametrize(
    ("key", "version", "shape", "fields"),
    [
        (ApiKey.OFFSET_COMMIT, 10, offsets.COMMIT_SHAPE, {}),
        (ApiKey.TXN_OFFSET_COMMIT, 6, transactions.TXN_OFFSET_COMMIT, {"transactional_id": "payer"}),
    ],
    ids=["OffsetCommit", "TxnOffsetCommit"],
)
def test_commits_by_topic_id_are_refused_by_id(
    key: ApiKey, version: int, shape: TopicShape, fields: dict[str, str]
) -> None:
    message = getattr(types, request_schema(key).name)
    struct = getattr(message, f"{message.__name__}Topic")
    partition = getattr(message, f"{message.__name__}Partition")
    ids = [b"s" * 16, b"o" * 16, b"?" * 16]
    topics = [struct(topic_id=topic_id, partitions=[partition(partition_index=3)]) for topic_id in ids]
    request = message(group_id="team", topics=topics, **fields)
    rights = ["READ GROUP team", "WRITE TRANSACTIONAL_ID payer"]

    asked = Asking(key, version, *rights, "READ TOPIC orders").for_(request)

    assert [topic.topic_id for topic in asked.forwarded.topics] == [ids[1]]
    told = asked.told(shape.reject_all(asked.forwarded, ErrorCode.NONE))
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in told.topics] == [
        (ids[0], DENIED),
        (ids[1], ErrorCode.NONE),
        (ids[2], ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    none = Asking(key, version, *rights).for_(message(group_id="team", topics=topics, **fields))
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in none.answer.topics] == [
        (ids[0], DENIED),
        (ids[1], DENIED),
        (ids[2], ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_a_denied_partition_that_is_named_twice_is_reported_once_by_delete_records() -> None:
    request = types.DeleteRecordsRequest
    partitions = [request.DeleteRecordsPartition(partition_index=index) for index in (0, 7, 0)]
    topics = [request.DeleteRecordsTopic(name=name, partitions=partitions) for name in "aba"]

    answer = Asking(ApiKey.DELETE_RECORDS, 2).for_(request(topics=topics)).answer

    found = [(topic.name, [part.partition_index for part in topic.partitions]) for topic in answer.topics]
    assert found == [("a", [0, 7]), ("b", [0, 7])]


@pytest.mark.parametrize("rights", [(), ("DELETE TOPIC b",)], ids=["none allowed", "one allowed"])
def test_a_denied_topic_without_partitions_has_no_part_where_a_broker_answers_by_partition(
    rights: tuple[str, ...],
) -> None:
    request = types.DeleteRecordsRequest
    topic, partition = request.DeleteRecordsTopic, request.DeleteRecordsPartition
    asked_for = [topic(name="a"), topic(name="b", partitions=[partition()]), topic(name="c")]

    asked = Asking(ApiKey.DELETE_RECORDS, 2, *rights).for_(request(topics=asked_for))
    if rights:
        result = types.DeleteRecordsResponse.DeleteRecordsTopicResult
        told = asked.told(types.DeleteRecordsResponse(topics=[result(name="b")]))
    else:
        told = asked.answer

    assert [part.name for part in told.topics] == ["b"]
