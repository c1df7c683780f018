"""The metadata log and the audit trail as clients see them: hidden, unless an ACL names that very topic."""

from typing import Any

import pytest

from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT, image_with
from tests.session.apis.test_share_fetch_api import fetch as share_fetch
from tests.session.conversation import Conversation, Request, fetch, fetched, produce
from tests.session.test_fetch_conversation import opened

FETCH, LIST_OFFSETS, METADATA, SHARE_FETCH = (
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.SHARE_FETCH,
)
OWN = ("__penstock_metadata", "__penstock_audit")
IDS = {"__penstock_metadata": b"m" * 16, "__penstock_audit": b"a" * 16}
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
WIDE = [
    ("ALL TOPIC *",),
    ("ALL TOPIC __*", "READ TOPIC orders"),
    ("READ TOPIC *", "READ TOPIC __penstock*", "ALL GROUP *"),
]

pytestmark = pytest.mark.spec("A7")


def talking(*rights: str, principal: str = "alice") -> Conversation:
    talk = Conversation(*rights, principal=principal)
    for name, topic_id in IDS.items():
        talk.gate.topic_names.learn(topic_id, name)
    return talk


def fetch_of(version: int, *topics: str, **changes: Any) -> Any:
    known = IDS | {"orders": b"o" * 16}
    return fetch(*(known[topic] if version >= 13 else topic for topic in topics), **changes)


def fetched_names(requests: list[Request]) -> list[str]:
    names = {topic_id: name for name, topic_id in IDS.items()}
    return [
        topic.topic or names.get(bytes(topic.topic_id), "orders")
        for request in requests
        for topic in request.message.topics
    ]


@pytest.mark.parametrize("version", codecs.request_versions(FETCH))
@pytest.mark.parametrize("topic", OWN)
@pytest.mark.parametrize("rights", WIDE, ids=str)
def test_a_right_on_many_topics_reads_neither_log_nor_trail(
    version: int, topic: str, rights: tuple[str, ...]
) -> None:
    talk = talking(*rights)

    talk.asks(FETCH, version, fetch_of(version, topic))
    talk.asks(FETCH, version, fetch_of(version, "orders", topic))

    assert fetched_names(talk.forwarded()) == ["orders"]
    assert [event.rule for event in talk.told("authorization")] == ["protected.topic"] * 2
    talk.answers(FETCH, min(version, 15), fetched(b"o" * 16 if version >= 13 else "orders"))
    _, (_, both) = talk.heard_all((FETCH, version), (FETCH, version))
    assert [part.partitions[0].error_code for part in both.responses] == [0, TOPIC_DENIED]


@pytest.mark.parametrize("topic", OWN)
@pytest.mark.parametrize("version", codecs.request_versions(FETCH))
def test_an_acl_on_that_very_name_reads_it_and_so_does_a_super_user(version: int, topic: str) -> None:
    named = talking(f"READ TOPIC {topic}", "READ TOPIC *")
    named.asks(FETCH, version, fetch_of(version, topic))
    root = talking(principal="root")
    root.asks(FETCH, version, fetch_of(version, topic))

    assert fetched_names(named.forwarded()) == fetched_names(root.forwarded()) == [topic]


@pytest.mark.parametrize("topic", OWN)
def test_what_is_remembered_of_another_topic_does_not_open_it(topic: str) -> None:
    talk = talking("READ TOPIC *")
    opened(talk, "orders")
    talk.forwarded_bytes()

    # Plain again, and added to the session that is open: the short way has orders among its topics only.
    talk.asks(FETCH, 12, fetch(topic))
    talk.asks(FETCH, 12, fetch(topic, session_id=77, session_epoch=1))

    assert talk.forwarded_bytes() == b""


@pytest.mark.parametrize("topic", OWN)
def test_an_open_session_ends_when_the_acl_of_that_name_is_replaced_by_a_wider_one(topic: str) -> None:
    talk = talking(f"READ TOPIC {topic}")
    opened(talk, topic)
    talk.forwarded_bytes()

    talk.gate.image = image_with("READ TOPIC *")
    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=1))
    talk.asks(FETCH, 12, fetch(topic))

    assert talk.forwarded_bytes() == b""
    (_, again), (_, plain) = talk.heard_all((FETCH, 12), (FETCH, 12))
    assert again.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert plain.responses[0].partitions[0].error_code == TOPIC_DENIED


@pytest.mark.parametrize("version", [4, 12, 13, 15])
def test_a_follower_does_not_read_them_by_a_right_on_the_cluster(version: int) -> None:
    talk = talking(f"ALL {CLUSTER_RIGHT}", "ALL TOPIC *")
    replica: dict[str, Any] = {"replica_id": 1}
    if version >= 15:
        replica = {"replica_id": -1, "replica_state": t.FetchRequest.ReplicaState(replica_id=1)}

    talk.asks(FETCH, version, fetch_of(version, "orders", *OWN, **replica))

    assert fetched_names(talk.forwarded()) == ["orders"]
    assert [event.rule for event in talk.told("authorization")] == ["protected.topic"] * 2


def test_a_share_group_does_not_read_them() -> None:
    talk = talking("ALL TOPIC *", "ALL GROUP *")

    talk.asks(SHARE_FETCH, 1, share_fetch(0, *((topic_id, [0]) for topic_id in IDS.values())))

    assert [part for request in talk.forwarded() for part in request.message.topics] == []
    assert {event.rule for event in talk.told("authorization")} == {"protected.topic"}


@pytest.mark.parametrize("topic", OWN)
def test_their_ends_and_their_shape_are_not_told(topic: str) -> None:
    talk = talking("ALL TOPIC *", f"ALL {CLUSTER_RIGHT}")
    offsets = t.ListOffsetsRequest
    asked = offsets.ListOffsetsTopic(
        name=topic, partitions=[offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
    )
    talk.asks(LIST_OFFSETS, 7, offsets(replica_id=-1, topics=[asked]))
    epoch = t.OffsetForLeaderEpochRequest
    leader = epoch.OffsetForLeaderTopic(
        topic=topic, partitions=[epoch.OffsetForLeaderPartition(partition=0, leader_epoch=1)]
    )
    talk.asks(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, epoch(replica_id=1, topics=[leader]))
    metadata = t.MetadataRequest
    talk.asks(METADATA, 12, metadata(topics=[metadata.MetadataRequestTopic(name=topic)]))

    told = [
        part
        for request in talk.forwarded()
        for part in (request.message.topics if request.header.api_key != METADATA else [])
    ]
    assert told == []
    assert {event.rule for event in talk.told("authorization")} == {"protected.topic"}


def test_a_list_of_all_topics_leaves_them_out() -> None:
    talk = talking("ALL TOPIC *")
    topic = t.MetadataResponse.MetadataResponseTopic

    talk.asks(METADATA, 12, t.MetadataRequest(topics=None))
    talk.forwarded_bytes()
    names = ("orders", *OWN)
    talk.answers(
        METADATA,
        12,
        t.MetadataResponse(topics=[topic(name=name, topic_id=b"x" * 16) for name in names]),
    )

    assert [part.name for part in talk.heard(METADATA, 12).topics] == ["orders"]
    assert talk.told("authorization") == []


@pytest.mark.spec("E12")
@pytest.mark.parametrize("principal", ["alice", "root"])
@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_the_client_id_of_kafkas_tools_does_not_write_the_state_of_groups_and_transactions(
    topic: str, principal: str
) -> None:
    talk = talking("ALL TOPIC *", principal=principal)

    talk.asks(ApiKey.PRODUCE, 9, produce(topic), client_id="__admin_client")

    assert talk.forwarded_bytes() == b""
    assert [event.rule for event in talk.told("authorization")] == ["protected.topic"]


@pytest.mark.spec("E12")
@pytest.mark.parametrize("principal", ["alice", "root"])
@pytest.mark.parametrize("topic", OWN)
def test_no_marker_ends_a_transaction_of_the_controller(topic: str, principal: str) -> None:
    talk = talking(f"ALL {CLUSTER_RIGHT}", principal=principal)
    request = t.WriteTxnMarkersRequest

    def marker(*names: str) -> Any:
        topics = [request.WritableTxnMarkerTopic(name=name, partition_indexes=[0]) for name in names]
        return request.WritableTxnMarker(producer_id=1, producer_epoch=0, topics=topics)

    talk.asks(ApiKey.WRITE_TXN_MARKERS, 1, request(markers=[marker("orders"), marker("orders", topic)]))

    assert talk.forwarded_bytes() == b""
    answer = talk.heard(ApiKey.WRITE_TXN_MARKERS, 1)
    codes = {part.error_code for each in answer.markers for topic in each.topics for part in topic.partitions}
    assert codes == {TOPIC_DENIED}
    assert [event.rule for event in talk.told("authorization") if not event.granted] == ["protected.topic"]


@pytest.mark.spec("E12")
@pytest.mark.parametrize("version", [4, 5])
def test_no_broker_adds_partitions_to_a_transaction_of_the_controller(version: int) -> None:
    talk = talking(f"ALL {CLUSTER_RIGHT}", "ALL TRANSACTIONAL_ID *", "ALL TOPIC *")
    request = t.AddPartitionsToTxnRequest

    def adding(transactional_id: str, topic: str) -> Any:
        return request(
            transactions=[
                request.AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id,
                    producer_id=1,
                    producer_epoch=0,
                    verify_only=False,
                    topics=[request.AddPartitionsToTxnTopic(name=topic, partitions=[0])],
                )
            ]
        )

    talk.asks(ApiKey.ADD_PARTITIONS_TO_TXN, version, adding("penstock-controller", "orders"))
    talk.asks(ApiKey.ADD_PARTITIONS_TO_TXN, version, adding("mine", "__penstock_metadata"))

    assert talk.forwarded_bytes() == b""
    answers = talk.heard_all(*[(ApiKey.ADD_PARTITIONS_TO_TXN, version)] * 2)
    assert [answer.error_code for _, answer in answers] == [
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        TOPIC_DENIED,
    ]
    talk.asks(ApiKey.ADD_PARTITIONS_TO_TXN, version, adding("mine", "orders"))
    assert len(talk.forwarded()) == 1


def test_transactions_of_the_controller_are_listed_to_super_users_only() -> None:
    state = t.ListTransactionsResponse.TransactionState
    states = [state(transactional_id=name) for name in ("mine", "penstock-controller")]

    def listed(principal: str) -> list[str]:
        talk = talking("ALL TRANSACTIONAL_ID *", f"ALL {CLUSTER_RIGHT}", principal=principal)
        talk.asks(ApiKey.LIST_TRANSACTIONS, 1, t.ListTransactionsRequest())
        talk.forwarded_bytes()
        answer = t.ListTransactionsResponse(transaction_states=list(states))
        talk.answers(ApiKey.LIST_TRANSACTIONS, 1, answer)
        told = talk.heard(ApiKey.LIST_TRANSACTIONS, 1)
        return [part.transactional_id for part in told.transaction_states]

    assert listed("alice") == ["mine"]
    assert listed("root") == ["mine", "penstock-controller"]


@pytest.mark.parametrize("topic", OWN)
def test_nobody_has_a_missing_one_made_by_asking_for_it(topic: str) -> None:
    """The broker would make it with its own settings, such as a retention of a week for the trail."""
    talk = talking(principal="root")
    talk.gate.auto_creates_topics = True
    wanted = [t.MetadataRequest.MetadataRequestTopic(name=name) for name in (topic, "orders")]
    talk.asks(ApiKey.METADATA, 12, t.MetadataRequest(topics=wanted, allow_auto_topic_creation=True))

    (making,) = talk.forwarded()
    assert [each.name for each in making.message.topics] == ["orders"]
    (_, high) = talk.gate.versions[ApiKey.METADATA]
    talk.answers(ApiKey.METADATA, high, t.MetadataResponse(), making.header.correlation_id)
    (asking,) = talk.forwarded()
    assert not asking.message.allow_auto_topic_creation


@pytest.mark.parametrize("topic", OWN)
def test_nor_by_a_streams_group(topic: str) -> None:
    request = t.StreamsGroupHeartbeatRequest
    internal = request.Subtopology(
        subtopology_id="0", repartition_source_topics=[request.TopicInfo(name=topic)]
    )
    talk = talking(principal="root")
    topology = request.Topology(subtopologies=[internal])
    talk.asks(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request(group_id="g", member_id="m", topology=topology))
    (asking,) = talk.forwarded()
    talk.answers(
        ApiKey.METADATA, asking.header.api_version, t.MetadataResponse(), asking.header.correlation_id
    )

    assert talk.forwarded() == []
    told = talk.heard(ApiKey.STREAMS_GROUP_HEARTBEAT, 0).error_code
    assert told == ErrorCode.TOPIC_AUTHORIZATION_FAILED
