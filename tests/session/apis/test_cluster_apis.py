"""APIs that need a right on the cluster, and where nodes are said to be."""

from typing import Any

import pytest

from proxy.metadata.acl import Operation
from proxy.security.authorizer import AllowAll
from proxy.session.apis.addresses import rewrite_endpoints
from proxy.session.apis.table import TABLE
from proxy.session.call import Forward, ForwardToController
from proxy.session.gate import ListenerPolicy
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.catalog import request as request_schema
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from tests.session.apis.asking import ADDRESSES, CLUSTER_RIGHT, Asking
from tests.support.acl_filters import acl_filter, describe_acls

pytestmark = pytest.mark.spec("A7")

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

TO_THE_CONTROLLER = {
    ApiKey.CREATE_ACLS: "ALTER",
    ApiKey.DELETE_ACLS: "ALTER",
    ApiKey.ALTER_CLIENT_QUOTAS: "ALTER_CONFIGS",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "ALTER",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "ALTER",
    ApiKey.ELECT_LEADERS: "ALTER",
    ApiKey.UPDATE_FEATURES: "ALTER",
}
TO_THE_BROKER = {
    ApiKey.ALTER_REPLICA_LOG_DIRS: "ALTER",
    ApiKey.UNREGISTER_BROKER: "ALTER",
    ApiKey.UNREGISTER_CONTROLLER: "ALTER",
    ApiKey.ADD_RAFT_VOTER: "ALTER",
    ApiKey.REMOVE_RAFT_VOTER: "ALTER",
    ApiKey.DESCRIBE_LOG_DIRS: "DESCRIBE",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "DESCRIBE",
    ApiKey.LIST_CONFIG_RESOURCES: "DESCRIBE_CONFIGS",
    ApiKey.DESCRIBE_QUORUM: "DESCRIBE",
}
EVERY = [
    pytest.param(key, version, operation, id=f"{key.name}-v{version}")
    for key, operation in (TO_THE_CONTROLLER | TO_THE_BROKER).items()
    for version in codecs.request_versions(key)
]


def request_of(key: ApiKey) -> Any:
    return getattr(t, request_schema(key).name)()


@pytest.mark.parametrize(("key", "version", "operation"), EVERY)
def test_the_right_on_the_cluster_lets_the_request_through(key: ApiKey, version: int, operation: str) -> None:
    asked = Asking(key, version, f"{operation} {CLUSTER_RIGHT}").for_(request_of(key))

    assert isinstance(asked.verdict, ForwardToController if key in TO_THE_CONTROLLER else Forward)
    assert asked.forwarded == request_of(key)


@pytest.mark.parametrize(("key", "version", "operation"), EVERY)
def test_every_other_right_on_the_cluster_does_not(key: ApiKey, version: int, operation: str) -> None:
    others = [
        f"{other.name} {CLUSTER_RIGHT}"
        for other in Operation
        if other > Operation.ALL
        and other.name != operation
        # ALTER implies DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS.
        and not (operation == "DESCRIBE" and other.name in ("ALTER", "DELETE", "READ", "WRITE"))
        and not (operation == "DESCRIBE_CONFIGS" and other is Operation.ALTER_CONFIGS)
    ]

    asked = Asking(key, version, *others).for_(request_of(key))

    assert asked.answer is not None
    assert asked.denials == [f"{operation} {CLUSTER_RIGHT}"]


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.ALTER_REPLICA_LOG_DIRS))
def test_each_partition_of_a_denied_move_between_log_dirs_has_the_error(version: int) -> None:
    request = t.AlterReplicaLogDirsRequest
    topics = [
        request.AlterReplicaLogDirTopic(name=name, partitions=partitions)
        for name, partitions in (("orders", [0, 2]), ("payments", [1]))
    ]
    directory = request.AlterReplicaLogDir(path="/a", topics=topics)

    answer = Asking(ApiKey.ALTER_REPLICA_LOG_DIRS, version).for_(request(dirs=[directory])).answer

    assert answer is not None
    assert [
        (topic.topic_name, [(part.partition_index, part.error_code) for part in topic.partitions])
        for topic in answer.results
    ] == [("orders", [(0, DENIED), (2, DENIED)]), ("payments", [(1, DENIED)])]


@pytest.mark.spec("E2")
def test_what_the_text_forwards_is_forwarded() -> None:
    forwarded = {ApiKey(key) for key, api in TABLE.items() if api.admin == "controller"}

    assert forwarded == {
        *TO_THE_CONTROLLER,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
    }


@pytest.mark.spec("E10")
def test_requests_of_brokers_and_controllers_are_not_served() -> None:
    own_business = {
        ApiKey.ENVELOPE,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
    }

    assert own_business.isdisjoint(TABLE)


def creation(**fields: Any) -> Any:
    known = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    return t.CreateAclsRequest.AclCreation(**{**known, **fields})


@pytest.mark.parametrize("rights", [(), (f"ALTER {CLUSTER_RIGHT}",)], ids=["denied", "allowed"])
def test_a_binding_of_the_number_unknown_cannot_be_read_whoever_asks(rights: tuple[str, ...]) -> None:
    creations = t.CreateAclsRequest(creations=[creation(), creation(operation=0)])
    filters = t.DeleteAclsRequest(filters=[acl_filter(), acl_filter(pattern_type_filter=0)])

    with pytest.raises(WireError, match="operation is UNKNOWN"):
        Asking(ApiKey.CREATE_ACLS, 3, *rights).for_(creations)
    with pytest.raises(WireError, match="pattern_type_filter is UNKNOWN"):
        Asking(ApiKey.DELETE_ACLS, 3, *rights).for_(filters)


@pytest.mark.parametrize("number", [99, -1])
def test_a_number_that_no_release_has_is_left_to_the_controller(number: int) -> None:
    creations = t.CreateAclsRequest(creations=[creation(operation=number, host="*")])
    filters = t.DeleteAclsRequest(filters=[acl_filter(pattern_type_filter=number)])

    assert Asking(ApiKey.CREATE_ACLS, 3).for_(creations).answer.results[0].error_code == DENIED
    for key, message in ((ApiKey.CREATE_ACLS, creations), (ApiKey.DELETE_ACLS, filters)):
        asked = Asking(key, 3, f"ALTER {CLUSTER_RIGHT}").for_(message)
        assert isinstance(asked.verdict, ForwardToController)
        assert asked.request == message


def test_each_binding_of_a_denied_request_has_its_error() -> None:
    creations = [creation(resource_name=name) for name in "ab"]

    answer = Asking(ApiKey.CREATE_ACLS, 3).for_(t.CreateAclsRequest(creations=creations)).answer

    assert [result.error_code for result in answer.results] == [DENIED, DENIED]


@pytest.mark.spec("S13")
@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.CREATE_ACLS))
def test_a_binding_for_what_is_no_address_is_rejected_here_and_the_others_go_to_the_controller(
    version: int,
) -> None:
    hosts = ("10.0.0.0-10.9.9.9", "*", "::1", "10.0.0.1", "")
    creations = [creation(host=host, resource_name=f"t-{i}") for i, host in enumerate(hosts)]

    asked = Asking(ApiKey.CREATE_ACLS, version, f"ALTER {CLUSTER_RIGHT}").for_(
        t.CreateAclsRequest(creations=creations)
    )

    assert [each.host for each in asked.forwarded.creations] == ["*", "10.0.0.1"]
    result = t.CreateAclsResponse.AclCreationResult
    told = asked.told(t.CreateAclsResponse(results=[result(), result(error_code=7, error_message="x")]))
    invalid = ErrorCode.INVALID_REQUEST
    assert [each.error_code for each in told.results] == [invalid, 0, invalid, 7, invalid]
    assert [each.error_message for each in told.results if each.error_code == invalid] == [
        "Host '10.0.0.0-10.9.9.9' is neither an address nor a network nor *. Names are not supported.",
        "Host '::1' has to be written as 0:0:0:0:0:0:0:1.",
        "Host '' is neither an address nor a network nor *. Names are not supported.",
    ]
    with pytest.raises(WireError, match="1 results of 2 creations"):
        asked.told(t.CreateAclsResponse(results=[result()]))


@pytest.mark.spec("S13")
def test_bindings_that_are_all_for_no_address_do_not_reach_the_controller() -> None:
    creations = t.CreateAclsRequest(creations=[creation(host="nonsense"), creation(host="10.0.0.1 ")])

    answer = Asking(ApiKey.CREATE_ACLS, 3, f"ALTER {CLUSTER_RIGHT}").for_(creations).answer

    assert [result.error_code for result in answer.results] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(("version", "top_level"), [(0, ErrorCode.NONE), (1, DENIED), (2, DENIED)])
def test_a_denied_election_is_told_at_each_partition(version: int, top_level: int) -> None:
    topics = [t.ElectLeadersRequest.TopicPartitions(topic="a", partitions=[0, 1])]

    answer = Asking(ApiKey.ELECT_LEADERS, version).for_(t.ElectLeadersRequest(topic_partitions=topics)).answer

    assert answer.error_code == top_level
    (result,) = answer.replica_election_results
    assert [(part.partition_id, part.error_code) for part in result.partition_result] == [
        (0, DENIED),
        (1, DENIED),
    ]


def test_denied_scram_alterations_are_told_by_user() -> None:
    request = t.AlterUserScramCredentialsRequest
    message = request(
        deletions=[request.ScramCredentialDeletion(name="bob", mechanism=1)],
        upsertions=[request.ScramCredentialUpsertion(name=name, mechanism=1) for name in ("zoe", "bob")],
    )

    answer = Asking(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0).for_(message).answer

    assert [(result.user, result.error_code) for result in answer.results] == [
        ("bob", DENIED),
        ("zoe", DENIED),
    ]


@pytest.mark.parametrize("key", [ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.DESCRIBE_ACLS])
def test_without_an_authorizer_there_are_no_acls(key: ApiKey) -> None:
    asking = Asking(key, 3)
    asking.gate.authorizer = AllowAll()
    request = {
        ApiKey.CREATE_ACLS: t.CreateAclsRequest(creations=[creation()]),
        ApiKey.DELETE_ACLS: t.DeleteAclsRequest(filters=[acl_filter()]),
        ApiKey.DESCRIBE_ACLS: describe_acls(),
    }[key]

    assert str(int(ErrorCode.SECURITY_DISABLED)) in repr(asking.for_(request).answer)


@pytest.mark.spec("O1")
def test_who_may_describe_the_cluster_sees_the_addresses_of_controllers_as_at_a_broker() -> None:
    asking = Asking(ApiKey.DESCRIBE_QUORUM, 2, f"DESCRIBE {CLUSTER_RIGHT}")

    forward = asking.for_(t.DescribeQuorumRequest()).verdict

    assert forward == Forward()
    assert Asking(ApiKey.DESCRIBE_QUORUM, 2).for_(t.DescribeQuorumRequest()).answer.error_code == DENIED


def cluster_answer(error_code: int = 0) -> Any:
    broker = t.DescribeClusterResponse.DescribeClusterBroker
    brokers = [broker(broker_id=node, host=f"broker-{node}", port=9092) for node in (1, 2, 3)]
    return t.DescribeClusterResponse(
        cluster_id="c", controller_id=3, brokers=[] if error_code else brokers, error_code=error_code
    )


@pytest.mark.spec("O1")
@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.DESCRIBE_CLUSTER))
def test_the_cluster_is_described_by_its_proxies(version: int) -> None:
    told = Asking(ApiKey.DESCRIBE_CLUSTER, version).for_(t.DescribeClusterRequest()).told(cluster_answer())

    assert [(node.broker_id, node.host, node.port) for node in told.brokers] == [
        (1, "proxy-one", 19092),
        (2, "proxy-two", 29092),
    ]
    assert told.controller_id == 1
    assert told.cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        ((), 0),
        ((f"CREATE {CLUSTER_RIGHT}",), 0),
        ((f"DESCRIBE {CLUSTER_RIGHT}",), 1 << Operation.DESCRIBE),
        (
            (f"ALTER {CLUSTER_RIGHT}", f"IDEMPOTENT_WRITE {CLUSTER_RIGHT}"),
            1 << Operation.DESCRIBE | 1 << Operation.ALTER | 1 << Operation.IDEMPOTENT_WRITE,
        ),
    ],
)
def test_operations_on_the_cluster_need_describe_on_it(rights: tuple[str, ...], expected: int) -> None:
    asked = Asking(ApiKey.DESCRIBE_CLUSTER, 1, *rights).for_(
        t.DescribeClusterRequest(include_cluster_authorized_operations=True)
    )

    assert asked.told(cluster_answer()).cluster_authorized_operations == expected


def test_that_a_broker_is_no_controller_is_the_brokers_answer() -> None:
    answer = cluster_answer(ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    answer.controller_id = -1

    asked = Asking(ApiKey.DESCRIBE_CLUSTER, 1).for_(t.DescribeClusterRequest(endpoint_type=2))

    assert asked.told(answer) == answer


@pytest.mark.spec("O1")
def test_endpoints_in_other_answers_are_rewritten_or_dropped() -> None:
    endpoint = t.ProduceResponse.NodeEndpoint
    listener = ListenerPolicy("SASL", None, addresses=ADDRESSES)

    kept = rewrite_endpoints(
        listener, [endpoint(node_id=node, host="b", port=1, rack="r") for node in (3, 2)]
    )

    assert kept == [endpoint(node_id=2, host="proxy-two", port=29092, rack="r")]


@pytest.mark.parametrize("key", [ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY])
def test_telemetry_needs_no_right(key: ApiKey) -> None:
    assert Asking(key, 0).for_(request_of(key)).passes_unread


def test_a_denied_marker_has_each_partition_once() -> None:
    marker = t.WriteTxnMarkersRequest.WritableTxnMarker
    topic = t.WriteTxnMarkersRequest.WritableTxnMarkerTopic
    repeated = [topic(name=name, partition_indexes=indexes) for name, indexes in (("a", [1, 1]), ("b", []))]
    repeated += [topic(name="a", partition_indexes=[0, 1])]
    request = t.WriteTxnMarkersRequest(markers=[marker(producer_id=7, topics=repeated)])

    denied = Asking(ApiKey.WRITE_TXN_MARKERS, 1).for_(request)

    [answer] = denied.answer.markers
    found = [(topic.name, [part.partition_index for part in topic.partitions]) for topic in answer.topics]
    assert found == [("a", [1, 0])]


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.WRITE_TXN_MARKERS))
def test_a_hanging_transaction_is_ended_with_alter_or_cluster_action(version: int) -> None:
    marker = t.WriteTxnMarkersRequest.WritableTxnMarker
    topic = t.WriteTxnMarkersRequest.WritableTxnMarkerTopic
    request = t.WriteTxnMarkersRequest(
        markers=[
            marker(producer_id=7, topics=[topic(name="a", partition_indexes=[0, 3])]),
            marker(producer_id=8, topics=[topic(name="b", partition_indexes=[1])]),
        ]
    )

    denied = Asking(ApiKey.WRITE_TXN_MARKERS, version, "WRITE TOPIC *").for_(request)

    assert [
        (marker.producer_id, topic.name, part.partition_index, part.error_code)
        for marker in denied.answer.markers
        for topic in marker.topics
        for part in topic.partitions
    ] == [(7, "a", 0, DENIED), (7, "a", 3, DENIED), (8, "b", 1, DENIED)]
    assert denied.denials == [f"CLUSTER_ACTION {CLUSTER_RIGHT}"]
    for right in ("ALTER", "CLUSTER_ACTION"):
        allowed = Asking(ApiKey.WRITE_TXN_MARKERS, version, f"{right} {CLUSTER_RIGHT}").for_(request)
        assert allowed.passes_unread
        assert [event.operation for event in allowed.call.events] == [right]
