"""Idempotent and transactional producers: which right opens what, what a transaction tells of its topics."""

from typing import Any

import pytest

from proxy.session.apis.table import TABLE
from proxy.session.call import Forward
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT, Asking

pytestmark = pytest.mark.spec("A7")

TXN_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED
WRITE = "WRITE TRANSACTIONAL_ID payer"

INIT_VERSIONS = codecs.request_versions(ApiKey.INIT_PRODUCER_ID)


def init(version: int, *rights: str) -> Asking:
    return Asking(ApiKey.INIT_PRODUCER_ID, version, *rights)


@pytest.mark.parametrize("version", INIT_VERSIONS)
@pytest.mark.parametrize(
    "right", [f"IDEMPOTENT_WRITE {CLUSTER_RIGHT}", "WRITE TOPIC orders", "WRITE TOPIC o*"]
)
def test_an_idempotent_producer_may_write_to_the_cluster_or_to_some_topic(version: int, right: str) -> None:
    asked = init(version, right).for_(t.InitProducerIdRequest(transactional_id=None))

    assert asked.passes_unread
    assert asked.denials == []


@pytest.mark.parametrize("version", INIT_VERSIONS)
def test_an_idempotent_producer_without_any_such_right_gets_no_id(version: int) -> None:
    asked = init(version, "READ TOPIC orders", WRITE).for_(t.InitProducerIdRequest(transactional_id=None))

    answer = asked.answer
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    assert asked.denials == ["WRITE TOPIC None"]


@pytest.mark.parametrize("version", INIT_VERSIONS)
def test_a_transactional_producer_needs_write_on_its_id(version: int) -> None:
    request = t.InitProducerIdRequest(transactional_id="payer")

    assert init(version, WRITE).for_(request).passes_unread
    denied = init(version, "DESCRIBE TRANSACTIONAL_ID payer", "WRITE TOPIC *").for_(request)
    assert denied.answer.error_code == TXN_DENIED


def test_two_phase_commit_is_a_right_of_its_own() -> None:
    request = t.InitProducerIdRequest(transactional_id="payer", enable2_pc=True)

    def ask(*rights: str) -> Any:
        # v6 is not offered yet: the decision is asked for it all the same, as soon as it is.
        asking = init(5, *rights)
        asked = asking.for_(t.InitProducerIdRequest(transactional_id="payer"))
        return TABLE[ApiKey.INIT_PRODUCER_ID].decide(asked.call, request)

    assert ask(WRITE).message.error_code == TXN_DENIED
    assert ask(WRITE, "TWO_PHASE_COMMIT TRANSACTIONAL_ID payer") == Forward()


def add_partitions(*names: str, transactional_id: str = "payer") -> Any:
    request = t.AddPartitionsToTxnRequest
    return request(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_topics=[request.AddPartitionsToTxnTopic(name=name, partitions=[0, 1]) for name in names],
    )


def existing(**topics: int) -> Any:
    """The broker has these topics, with so many partitions, and no others."""
    response = t.MetadataResponse
    return response(
        topics=[
            response.MetadataResponseTopic(
                name=name,
                partitions=[
                    response.MetadataResponsePartition(partition_index=index) for index in range(count)
                ],
            )
            for name, count in topics.items()
        ]
    )


def added(response: Any) -> list[tuple[str, list[int]]]:
    return [
        (topic.name, [part.partition_error_code for part in topic.results_by_partition])
        for topic in response.results_by_topic_v3_and_below
    ]


@pytest.mark.parametrize("version", range(4))
def test_one_denied_topic_keeps_all_partitions_out_of_the_transaction(version: int) -> None:
    asking = Asking(ApiKey.ADD_PARTITIONS_TO_TXN, version, WRITE, "WRITE TOPIC a", "WRITE TOPIC c")
    asking.where_it_can_ask()

    asked = asking.for_(add_partitions("a", "b", "c")).once(existing(a=2, c=2))

    assert added(asked.answer) == [
        ("a", [NOT_ATTEMPTED] * 2),
        ("b", [TOPIC_DENIED] * 2),
        ("c", [NOT_ATTEMPTED] * 2),
    ]
    assert asking.for_(add_partitions("c", "a")).passes_unread


@pytest.mark.parametrize("version", range(4))
def test_beside_a_denied_topic_partitions_that_do_not_exist_are_unknown_as_at_a_broker(version: int) -> None:
    asking = Asking(ApiKey.ADD_PARTITIONS_TO_TXN, version, WRITE, "WRITE TOPIC a", "WRITE TOPIC c")
    asking.where_it_can_ask()

    asked = asking.for_(add_partitions("a", "b", "c"))

    assert [topic.name for topic in asked.asked_first.topics] == ["a", "c"]
    assert added(asked.once(existing(a=1)).answer) == [
        ("a", [NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ("b", [TOPIC_DENIED] * 2),
        ("c", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2),
    ]


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_not_added_to_a_denied_transaction(version: int) -> None:
    answer = Asking(ApiKey.ADD_PARTITIONS_TO_TXN, version, "WRITE TOPIC a").for_(add_partitions("a")).answer

    assert added(answer) == [("a", [TXN_DENIED] * 2)]


def test_internal_topics_are_in_nobodys_transaction() -> None:
    asking = Asking(ApiKey.ADD_PARTITIONS_TO_TXN, 3, WRITE, "WRITE TOPIC *").where_it_can_ask()

    answer = asking.for_(add_partitions("orders", "__consumer_offsets")).once(existing(orders=2)).answer

    assert added(answer) == [
        ("orders", [NOT_ATTEMPTED] * 2),
        ("__consumer_offsets", [TOPIC_DENIED] * 2),
    ]


@pytest.mark.parametrize("version", [4, 5])
def test_adding_partitions_for_several_transactions_is_for_brokers(version: int) -> None:
    key, request = ApiKey.ADD_PARTITIONS_TO_TXN, t.AddPartitionsToTxnRequest(transactions=[])

    denied = Asking(key, version, WRITE).for_(request).answer

    assert denied.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert Asking(key, version, f"CLUSTER_ACTION {CLUSTER_RIGHT}").for_(request).passes_unread


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.ADD_OFFSETS_TO_TXN))
def test_offsets_of_a_group_need_the_transaction_and_the_group(version: int) -> None:
    request = t.AddOffsetsToTxnRequest(transactional_id="payer", group_id="team")

    def code(*rights: str) -> int:
        code: int = Asking(ApiKey.ADD_OFFSETS_TO_TXN, version, *rights).for_(request).answer.error_code
        return code

    assert code("READ GROUP team") == TXN_DENIED
    assert code(WRITE) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    both = Asking(ApiKey.ADD_OFFSETS_TO_TXN, version, WRITE, "READ GROUP team")
    assert both.for_(request).passes_unread


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.END_TXN))
def test_a_transaction_ends_by_who_may_write_to_it(version: int) -> None:
    request = t.EndTxnRequest(transactional_id="payer", committed=True)

    assert Asking(ApiKey.END_TXN, version).for_(request).answer.error_code == TXN_DENIED
    assert Asking(ApiKey.END_TXN, version, WRITE).for_(request).passes_unread


def state(transactional_id: str, *topics: str, error_code: int = 0) -> Any:
    response = t.DescribeTransactionsResponse
    return response.TransactionState(
        transactional_id=transactional_id,
        error_code=error_code,
        topics=[response.TopicData(topic=name, partitions=[0]) for name in topics],
    )


def test_transactions_are_described_without_hidden_topics_in_the_order_of_the_request() -> None:
    rights = ("DESCRIBE TRANSACTIONAL_ID b", "DESCRIBE TRANSACTIONAL_ID d", "READ TOPIC orders")
    asked = Asking(ApiKey.DESCRIBE_TRANSACTIONS, 0, *rights).for_(
        t.DescribeTransactionsRequest(transactional_ids=list("abcd"))
    )

    assert asked.forwarded.transactional_ids == ["b", "d"]
    told = asked.told(
        t.DescribeTransactionsResponse(
            transaction_states=[state("d", "secrets"), state("b", "orders", "secrets")]
        )
    )
    assert told.transaction_states == [
        state("a", error_code=TXN_DENIED),
        state("b", "orders"),
        state("c", error_code=TXN_DENIED),
        state("d"),
    ]


def test_allowed_transactions_are_asked_for_as_they_came_but_still_hide_topics() -> None:
    asked = Asking(ApiKey.DESCRIBE_TRANSACTIONS, 0, "DESCRIBE TRANSACTIONAL_ID a").for_(
        t.DescribeTransactionsRequest(transactional_ids=["a"])
    )

    assert asked.goes_as_it_came
    told = asked.told(t.DescribeTransactionsResponse(transaction_states=[state("a", "secrets")]))
    assert told.transaction_states == [state("a")]


def test_denied_transactions_alone_are_answered_here() -> None:
    asked = Asking(ApiKey.DESCRIBE_TRANSACTIONS, 0).for_(
        t.DescribeTransactionsRequest(transactional_ids=["a"])
    )

    assert asked.answer.transaction_states == [state("a", error_code=TXN_DENIED)]


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.LIST_TRANSACTIONS))
def test_only_transactions_that_may_be_described_are_listed(version: int) -> None:
    struct = t.ListTransactionsResponse.TransactionState
    answer = t.ListTransactionsResponse(transaction_states=[struct(transactional_id=name) for name in "abc"])

    asked = Asking(ApiKey.LIST_TRANSACTIONS, version, "WRITE TRANSACTIONAL_ID b").for_(
        t.ListTransactionsRequest()
    )

    assert [part.transactional_id for part in asked.told(answer).transaction_states] == ["b"]


def test_partitions_are_refused_by_partition_and_markers_by_producer() -> None:
    added = t.AddPartitionsToTxnRequest
    topics = [
        added.AddPartitionsToTxnTopic(name="a"),
        added.AddPartitionsToTxnTopic(name="b", partitions=[1]),
    ]
    adding = added(v3_and_below_transactional_id="payer", v3_and_below_topics=topics)
    topic = t.WriteTxnMarkersRequest.WritableTxnMarkerTopic
    named = [
        [topic(name="a", partition_indexes=[0])],
        [topic(name="b", partition_indexes=[1]), topic(name="c")],
    ]
    marker = t.WriteTxnMarkersRequest.WritableTxnMarker
    marking = t.WriteTxnMarkersRequest(markers=[marker(producer_id=7, topics=part) for part in named])

    refused = Asking(ApiKey.ADD_PARTITIONS_TO_TXN, 3, WRITE).for_(adding).answer
    unmarked = Asking(ApiKey.WRITE_TXN_MARKERS, 1).for_(marking).answer

    assert [part.name for part in refused.results_by_topic_v3_and_below] == ["b"]
    assert [(m.producer_id, [part.name for part in m.topics]) for m in unmarked.markers] == [(7, ["b"])]


def test_a_denied_topic_without_partitions_holds_no_addition_up() -> None:
    added = t.AddPartitionsToTxnRequest
    adding = added(
        v3_and_below_transactional_id="payer",
        v3_and_below_topics=[added.AddPartitionsToTxnTopic(name="secrets")],
    )

    assert Asking(ApiKey.ADD_PARTITIONS_TO_TXN, 3, WRITE).for_(adding).goes_as_it_came


def test_beside_a_denied_topic_a_partition_that_is_added_twice_has_one_result() -> None:
    added_topic = t.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    topics = [
        added_topic(name="a", partitions=[0, 1, 0]),
        added_topic(name="b", partitions=[1]),
        added_topic(name="a", partitions=[1, 2]),
    ]
    adding = t.AddPartitionsToTxnRequest(v3_and_below_transactional_id="payer", v3_and_below_topics=topics)

    denied = Asking(ApiKey.ADD_PARTITIONS_TO_TXN, 3).for_(adding).answer
    asking = Asking(ApiKey.ADD_PARTITIONS_TO_TXN, 3, WRITE, "WRITE TOPIC b").where_it_can_ask()
    partly = asking.for_(adding).once(existing(b=2)).answer

    # A broker repeats the whole request if the transaction is denied.
    assert added(denied) == [("a", [TXN_DENIED] * 3), ("b", [TXN_DENIED]), ("a", [TXN_DENIED] * 2)]
    assert added(partly) == [("a", [TOPIC_DENIED] * 3), ("b", [NOT_ATTEMPTED])]
