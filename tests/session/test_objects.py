"""What an administrative request is about, as its audit record names it: a row of the table for each API."""

import json
from random import Random
from typing import Any

import pytest

from proxy.admin.objects import BYTES_PER_BYTE, FREE_BYTES, HIDDEN, MAX_BYTES, Known, bounded, named, shown
from proxy.metadata.acl import ResourceType
from proxy.metadata.image import MetadataImage
from proxy.metadata.quota_entity import QuotaEntity
from proxy.security.delegation_tokens import TokenSecret
from proxy.session.apis.table import TABLE
from proxy.wire import catalog, codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.support import every_change
from tests.support.images import image_of
from tests.support.metadata_log import quotas_image
from tests.support.topic_requests import create_partitions, create_topics, delete_topics
from tests.support.two_sides import (
    allow_request,
    limit_request,
    token_request,
    user_request,
    withdraw_request,
)
from tests.support.type_errors import ROOT
from tests.support.wire_messages import MessageFiller

pytestmark = pytest.mark.spec("D12")

PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
TOPIC_ID, TOPIC_ID_TEXT = bytes(range(16)), "AAECAwQFBgcICQoLDA0ODw"
SECRET = TokenSecret(b"key")
DONE = {"error": "NONE"}
DENIED = {"error": "TOPIC_AUTHORIZATION_FAILED"}
TOKEN = t.DelegationTokenRecord(
    owner="User:alice",
    requester="User:admin",
    renewers=[],
    issue_timestamp=1,
    max_timestamp=9,
    expiration_timestamp=5,
    token_id="token-1",
)
ACL = {
    "resource_type": "TOPIC",
    "pattern_type": "LITERAL",
    "principal": "User:alice",
    "host": "*",
    "operation_of_acl": "READ",
    "permission_type": "ALLOW",
}


def objects_of(key: ApiKey, request: Any, response: Any = None, known: Known | None = None) -> list[Any]:
    objects = TABLE[key].objects
    assert objects is not None
    known = known or Known(topic_name=lambda topic_id: "named" if topic_id == TOPIC_ID else None)
    return list(objects(request, response, known))


def topic(operation: str, *, name: str = "orders", **members: Any) -> dict[str, Any]:
    return {"type": "TOPIC", "name": name, "operation": operation, **members}


def group(operation: str, **members: Any) -> dict[str, Any]:
    return {"type": "GROUP", "name": "readers", "operation": operation, **members}


def partitions(part: Any, index: str = "partition_index", **errors: int) -> list[Any]:
    """Results: `_0=3` is error 3 at partition 0."""
    return [part(**{index: int(key[1:]), "error_code": code}) for key, code in errors.items()]


def created() -> Any:
    response = t.CreateTopicsResponse
    result = response.CreatableTopicResult(
        name="orders", topic_id=TOPIC_ID, error_code=0, num_partitions=2, replication_factor=3
    )
    return response(topics=[result])


def deleted() -> Any:
    result = t.DeleteTopicsResponse.DeletableTopicResult
    return t.DeleteTopicsResponse(
        responses=[
            result(name="orders", error_code=0),
            result(name=None, topic_id=TOPIC_ID, error_code=29, error_message="no"),
        ]
    )


def scram() -> Any:
    request = user_request("alice", "password")
    request.deletions = every_change.user_deletion("bob").deletions
    result = t.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    return request, t.AlterUserScramCredentialsResponse(
        results=[result(user="alice", error_code=0), result(user="bob", error_code=91, error_message="none")]
    )


def matched() -> Any:
    acl = t.DeleteAclsResponse.DeleteAclsMatchingAcl(
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
        error_code=0,
    )
    result = t.DeleteAclsResponse.DeleteAclsFilterResult
    return t.DeleteAclsResponse(filter_results=[result(matching_acls=[acl, acl], error_code=0)])


def elections() -> Any:
    request = t.ElectLeadersRequest
    topic_partitions = [request.TopicPartitions(topic="orders", partitions=[0, 1, 2])]
    response = t.ElectLeadersResponse
    part = response.PartitionResult
    result = response.ReplicaElectionResult(
        topic="orders", partition_result=partitions(part, "partition_id", _0=0, _1=0, _2=84)
    )
    return (
        request(election_type=1, topic_partitions=topic_partitions),
        response(error_code=0, replica_election_results=[result]),
    )


def reassignments() -> Any:
    request = t.AlterPartitionReassignmentsRequest
    part = request.ReassignablePartition
    moved = [part(partition_index=0, replicas=[1, 2]), part(partition_index=1, replicas=None)]
    topics = [request.ReassignableTopic(name="orders", partitions=moved)]
    return request(topics=topics), t.AlterPartitionReassignmentsResponse(error_code=31, error_message="no")


def features() -> Any:
    request = t.UpdateFeaturesRequest
    update = request.FeatureUpdateKey(feature="metadata.version", max_version_level=30, upgrade_type=1)
    return request(feature_updates=[update], validate_only=True), t.UpdateFeaturesResponse(error_code=0)


def voter() -> Any:
    request = t.AddRaftVoterRequest
    listener = request.Listener(name="CONTROLLER", host="c3", port=9093)
    return request(voter_id=3, voter_directory_id=TOPIC_ID, listeners=[listener])


def records_deleted() -> Any:
    request, response = t.DeleteRecordsRequest, t.DeleteRecordsResponse
    part = request.DeleteRecordsPartition
    ends = [part(partition_index=0, offset=7), part(partition_index=1, offset=-1)]
    results = partitions(response.DeleteRecordsPartitionResult, _0=0, _1=29)
    return (
        request(topics=[request.DeleteRecordsTopic(name="orders", partitions=ends)]),
        response(topics=[response.DeleteRecordsTopicResult(name="orders", partitions=results)]),
    )


def offsets_deleted() -> Any:
    request, response = t.OffsetDeleteRequest, t.OffsetDeleteResponse
    part = request.OffsetDeleteRequestPartition(partition_index=4)
    topics = [request.OffsetDeleteRequestTopic(name="orders", partitions=[part])]
    return request(group_id="readers", topics=topics), response(error_code=69)


def moves() -> Any:
    request, response = t.AlterReplicaLogDirsRequest, t.AlterReplicaLogDirsResponse
    moved = request.AlterReplicaLogDirTopic(name="orders", partitions=[0])
    results = partitions(response.AlterReplicaLogDirPartitionResult, _0=57)
    return (
        request(dirs=[request.AlterReplicaLogDir(path="/data2", topics=[moved])]),
        response(results=[response.AlterReplicaLogDirTopicResult(topic_name="orders", partitions=results)]),
    )


def share_offsets() -> Any:
    request, response = t.AlterShareGroupOffsetsRequest, t.AlterShareGroupOffsetsResponse
    part = request.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=12)
    topics = [request.AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[part])]
    results = partitions(response.AlterShareGroupOffsetsResponsePartition, _0=0)
    return (
        request(group_id="readers", topics=topics),
        response(
            error_code=0,
            responses=[response.AlterShareGroupOffsetsResponseTopic(topic_name="orders", partitions=results)],
        ),
    )


def share_offsets_deleted() -> Any:
    request = t.DeleteShareGroupOffsetsRequest
    topics = [request.DeleteShareGroupOffsetsRequestTopic(topic_name="orders")]
    return request(group_id="readers", topics=topics), t.DeleteShareGroupOffsetsResponse(error_code=69)


def markers() -> Any:
    request, response = t.WriteTxnMarkersRequest, t.WriteTxnMarkersResponse
    at = request.WritableTxnMarkerTopic(name="orders", partition_indexes=[0, 1])
    marker = request.WritableTxnMarker(
        producer_id=7, producer_epoch=2, transaction_result=False, topics=[at], coordinator_epoch=-1
    )
    part = response.WritableTxnMarkerPartitionResult
    result = response.WritableTxnMarkerTopicResult(name="orders", partitions=partitions(part, _0=0, _1=0))
    marked = response.WritableTxnMarkerResult(producer_id=7, topics=[result])
    return request(markers=[marker]), response(markers=[marked])


def commit(**fields: Any) -> Any:
    request, response = t.OffsetCommitRequest, t.OffsetCommitResponse
    part = request.OffsetCommitRequestPartition(partition_index=3, committed_offset=15)
    topics = [request.OffsetCommitRequestTopic(topic_id=TOPIC_ID, partitions=[part])]
    results = partitions(response.OffsetCommitResponsePartition, _3=25)
    return (
        request(group_id="readers", topics=topics, **fields),
        response(topics=[response.OffsetCommitResponseTopic(topic_id=TOPIC_ID, partitions=results)]),
    )


def txn_commit(**of_member: Any) -> t.TxnOffsetCommitRequest:
    request = t.TxnOffsetCommitRequest
    part = request.TxnOffsetCommitRequestPartition(partition_index=3, committed_offset=15)
    topic_ = request.TxnOffsetCommitRequestTopic(name="orders", partitions=[part])
    return request(transactional_id="payer", group_id="readers", topics=[topic_], **of_member)


def leaving(*members: tuple[str, str | None]) -> Any:
    identity = t.LeaveGroupRequest.MemberIdentity
    named = [identity(member_id=member, group_instance_id=instance) for member, instance in members]
    return t.LeaveGroupRequest(group_id="readers", members=named)


LIMITS = MetadataImage(quotas=quotas_image({QuotaEntity(user="alice"): {"producer_byte_rate": 512.0}}))
TOKENS = Known(image_of(TOKEN), token_secret=SECRET)
HMAC = SECRET.hmac("token-1")
ABOUT_THE_TOKEN = {
    "type": "TOKEN",
    "name": "token-1",
    "key": "expiry_timestamp_ms",
    "old_value": "5",
    "new_value": "8",
    "details": {"owner": "User:alice"},
    **DONE,
}

ROWS: dict[ApiKey, tuple[Any, Any, Known | None, list[dict[str, Any]]]] = {
    ApiKey.CREATE_TOPICS: (
        every_change.topic_request("orders"),
        created(),
        None,
        [
            topic(
                "CREATE",
                details={"partitions": "2", "replication_factor": "3", "topic_id": TOPIC_ID_TEXT},
                **DONE,
            ),
            topic("SET_CONFIG", key="retention.ms", new_value="86400000", **DONE),
        ],
    ),
    ApiKey.DELETE_TOPICS: (
        delete_topics("orders", TOPIC_ID),
        deleted(),
        None,
        [
            topic("DELETE", **DONE),
            topic("DELETE", name="named", error_message="no", details={"topic_id": TOPIC_ID_TEXT}, **DENIED),
        ],
    ),
    ApiKey.CREATE_PARTITIONS: (
        create_partitions(6, "orders"),
        None,
        None,
        [topic("CREATE_PARTITIONS", details={"partitions": "6"})],
    ),
    ApiKey.ALTER_CONFIGS: (
        every_change.whole_config("orders", "segment.ms", "600000"),
        None,
        None,
        [topic("REPLACE_CONFIGS"), topic("SET_CONFIG", key="segment.ms", new_value="600000")],
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        every_change.config_request(
            "orders", ("retention.ms", 0, "1"), ("segment.ms", 1, None), ("cleanup.policy", 2, "compact")
        ),
        None,
        None,
        [
            topic("SET_CONFIG", key="retention.ms", new_value="1"),
            topic("DELETE_CONFIG", key="segment.ms"),
            topic("APPEND_CONFIG", key="cleanup.policy", new_value="compact"),
        ],
    ),
    ApiKey.CREATE_ACLS: (
        allow_request("orders", "alice"),
        t.CreateAclsResponse(results=[t.CreateAclsResponse.AclCreationResult(error_code=41)]),
        None,
        [
            {
                "type": "ACL",
                "name": "orders",
                "operation": "CREATE",
                "error": "NOT_CONTROLLER",
                "details": ACL,
            }
        ],
    ),
    ApiKey.DELETE_ACLS: (
        withdraw_request("orders", "alice"),
        matched(),
        None,
        [{"type": "ACL", "name": "orders", "operation": "DELETE", "details": ACL, **DONE}],
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: (
        limit_request("alice", 1024),
        None,
        Known(LIMITS),
        [
            {
                "type": "QUOTA",
                "name": "user=alice",
                "operation": "SET",
                "key": "producer_byte_rate",
                "old_value": "512.0",
                "new_value": "1024.0",
            }
        ],
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
        *scram(),
        None,
        [
            {
                "type": "USER",
                "name": "bob",
                "operation": "DELETE",
                "key": "iterations",
                "error": "RESOURCE_NOT_FOUND",
                "error_message": "none",
                "details": {"mechanism": "SCRAM-SHA-256"},
            },
            {
                "type": "USER",
                "name": "alice",
                "operation": "UPSERT",
                "key": "iterations",
                "new_value": "4096",
                "details": {"mechanism": "SCRAM-SHA-256"},
                **DONE,
            },
        ],
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: (
        token_request(),
        t.CreateDelegationTokenResponse(
            error_code=0,
            principal_type="User",
            principal_name="alice",
            token_id="token-1",
            expiry_timestamp_ms=5,
            hmac=HMAC,
        ),
        None,
        [
            {
                "type": "TOKEN",
                "name": "token-1",
                "operation": "CREATE",
                "key": "expiry_timestamp_ms",
                "new_value": "5",
                "details": {
                    "owner": "User:alice",
                    "max_lifetime_ms": str(token_request().max_lifetime_ms),
                },
                **DONE,
            }
        ],
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: (
        t.RenewDelegationTokenRequest(hmac=HMAC, renew_period_ms=3),
        t.RenewDelegationTokenResponse(error_code=0, expiry_timestamp_ms=8),
        TOKENS,
        [ABOUT_THE_TOKEN | {"operation": "RENEW"}],
    ),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (
        t.ExpireDelegationTokenRequest(hmac=HMAC, expiry_time_period_ms=-1),
        t.ExpireDelegationTokenResponse(error_code=0, expiry_timestamp_ms=8),
        TOKENS,
        [ABOUT_THE_TOKEN | {"operation": "EXPIRE"}],
    ),
    ApiKey.ELECT_LEADERS: (
        *elections(),
        None,
        [
            topic("ELECT_LEADERS", details={"election": "UNCLEAN", "partitions": "0,1"}, **DONE),
            topic(
                "ELECT_LEADERS",
                error="ELECTION_NOT_NEEDED",
                details={"election": "UNCLEAN", "partitions": "2"},
            ),
        ],
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        *reassignments(),
        None,
        [
            topic(
                "REASSIGN_PARTITIONS",
                error="CLUSTER_AUTHORIZATION_FAILED",
                error_message="no",
                details={"partitions": "0:1/2,1:cancelled"},
            )
        ],
    ),
    ApiKey.UPDATE_FEATURES: (
        *features(),
        None,
        [
            {
                "type": "FEATURE",
                "name": "metadata.version",
                "operation": "UPDATE",
                "new_value": "30",
                "details": {"upgrade": "1"},
                **DONE,
            }
        ],
    ),
    ApiKey.UNREGISTER_BROKER: (
        t.UnregisterBrokerRequest(broker_id=4),
        t.UnregisterBrokerResponse(error_code=102),
        None,
        [{"type": "BROKER", "name": "4", "operation": "UNREGISTER", "error": "BROKER_ID_NOT_REGISTERED"}],
    ),
    ApiKey.UNREGISTER_CONTROLLER: (
        t.UnregisterControllerRequest(controller_id=4),
        t.UnregisterControllerResponse(error_code=136),
        None,
        [
            {
                "type": "CONTROLLER",
                "name": "4",
                "operation": "UNREGISTER",
                "error": "CONTROLLER_ID_NOT_REGISTERED",
            }
        ],
    ),
    ApiKey.ADD_RAFT_VOTER: (
        voter(),
        None,
        None,
        [
            {
                "type": "CONTROLLER",
                "name": "3",
                "operation": "ADD_VOTER",
                "details": {"directory_id": TOPIC_ID_TEXT, "listeners": "CONTROLLER://c3:9093"},
            }
        ],
    ),
    ApiKey.REMOVE_RAFT_VOTER: (
        t.RemoveRaftVoterRequest(voter_id=3, voter_directory_id=TOPIC_ID),
        t.RemoveRaftVoterResponse(error_code=0),
        None,
        [
            {
                "type": "CONTROLLER",
                "name": "3",
                "operation": "REMOVE_VOTER",
                "details": {"directory_id": TOPIC_ID_TEXT},
                **DONE,
            }
        ],
    ),
    ApiKey.DELETE_RECORDS: (
        *records_deleted(),
        None,
        [
            topic("DELETE_RECORDS", details={"partitions": "0:7"}, **DONE),
            topic("DELETE_RECORDS", details={"partitions": "1:-1"}, **DENIED),
        ],
    ),
    ApiKey.DELETE_GROUPS: (
        t.DeleteGroupsRequest(groups_names=["readers"]),
        t.DeleteGroupsResponse(
            results=[t.DeleteGroupsResponse.DeletableGroupResult(group_id="readers", error_code=68)]
        ),
        None,
        [group("DELETE", error="NON_EMPTY_GROUP")],
    ),
    ApiKey.OFFSET_DELETE: (
        *offsets_deleted(),
        None,
        [group("DELETE_OFFSETS", error="GROUP_ID_NOT_FOUND", details={"topic": "orders", "partitions": "4"})],
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (
        *moves(),
        None,
        [topic("MOVE_REPLICAS", error="LOG_DIR_NOT_FOUND", details={"path": "/data2", "partitions": "0"})],
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (
        *share_offsets(),
        None,
        [group("ALTER_OFFSETS", details={"topic": "orders", "partitions": "0:12"}, **DONE)],
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (
        *share_offsets_deleted(),
        None,
        [group("DELETE_OFFSETS", error="GROUP_ID_NOT_FOUND", details={"topic": "orders"})],
    ),
    ApiKey.WRITE_TXN_MARKERS: (
        *markers(),
        None,
        [
            topic(
                "ABORT_TRANSACTION",
                details={"producer_id": "7", "producer_epoch": "2", "partitions": "0,1"},
                **DONE,
            )
        ],
    ),
    ApiKey.OFFSET_COMMIT: (
        *commit(),
        None,
        [group("ALTER_OFFSETS", error="UNKNOWN_MEMBER_ID", details={"topic": "named", "partitions": "3:15"})],
    ),
    ApiKey.TXN_OFFSET_COMMIT: (
        txn_commit(),
        None,
        None,
        [
            group(
                "ALTER_OFFSETS",
                details={"topic": "orders", "transactional_id": "payer", "partitions": "3:15"},
            )
        ],
    ),
    ApiKey.LEAVE_GROUP: (
        leaving(("", "worker-1")),
        t.LeaveGroupResponse(error_code=0),
        None,
        [group("REMOVE_MEMBER", details={"group_instance_id": "worker-1"}, **DONE)],
    ),
}


@pytest.mark.parametrize("key", ROWS, ids=lambda key: key.name)
def test_a_request_is_recorded_with_what_it_is_about_and_each_outcome(key: ApiKey) -> None:
    request, response, known, expected = ROWS[key]

    assert objects_of(key, request, response, known) == expected


READ_ONLY = {
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    *(ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR),
    *(ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_CONFIGS),
    *(ApiKey.DESCRIBE_LOG_DIRS, ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.DESCRIBE_CLUSTER),
    *(ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_QUORUM, ApiKey.DESCRIBE_TRANSACTIONS),
    *(ApiKey.LIST_TRANSACTIONS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_DESCRIBE),
    *(ApiKey.STREAMS_GROUP_DESCRIBE, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.LIST_CONFIG_RESOURCES),
    *(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY),
}
DATA_TRAFFIC = {
    *(ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT),
    *(ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH),
    *(ApiKey.SHARE_ACKNOWLEDGE, ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN),
    *(ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
}
"""What a client does for itself, whose records name the group, the transactional id and the topics."""


def test_every_kind_of_object_is_on_the_page() -> None:
    section = PAGE.partition("\n## Objects\n")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    kinds = {(each["type"], each["operation"]) for *_, expected in ROWS.values() for each in expected}

    missing = {kind for kind in kinds if not any(all(f"`{word}`" in row for word in kind) for row in rows)}
    assert missing == set()


def test_each_api_names_its_objects_or_changes_nothing_that_others_depend_on() -> None:
    with_objects = {ApiKey(key) for key, api in TABLE.items() if api.objects is not None}

    assert set(map(ApiKey, TABLE)) - READ_ONLY - DATA_TRAFFIC == with_objects == set(ROWS)
    assert with_objects.isdisjoint(READ_ONLY | DATA_TRAFFIC)


def test_no_secret_of_a_request_or_a_response_is_in_a_record() -> None:
    for key, (request, response, known, _expected) in ROWS.items():
        text = json.dumps(objects_of(key, request, response, known))
        for message in (request, response, *getattr(request, "upsertions", ())):
            for name in ("hmac", "salt", "salted_password"):
                value = bytes(getattr(message, name, b""))
                assert not value or (value.hex() not in text and repr(value)[2:-1] not in text)


@pytest.mark.parametrize(
    "key",
    [
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "sasl.jaas.config",
        "listener.name.internal.scram-sha-256.sasl.jaas.config",
        "listener.name.internal.ssl.keystore.password",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "delegation.token.secret.key",
        "metric.reporters",
        "my.plug.in.option",
        "RETENTION.MS",
        "",
    ],
)
@pytest.mark.parametrize("kind", [2, 4, 8, 16, 32, 64])
def test_the_value_of_a_config_that_may_be_a_secret_is_not_shown(kind: int, key: str) -> None:
    assert shown(kind, key, "hunter2") == HIDDEN


def test_the_value_of_a_known_config_and_the_level_of_a_logger_are_shown() -> None:
    assert shown(2, "retention.ms", "1") == "1"
    assert shown(4, "log.retention.ms", "1") == "1"
    assert shown(8, "kafka.server.KafkaApis", "debug") == "debug"
    assert shown(8, "kafka.server.KafkaApis", "a word") == HIDDEN
    assert shown(4, "retention.ms", "1") == HIDDEN, "no config of brokers is called like that"


@pytest.mark.parametrize("by", ["configs of a broker", "a new topic"])
def test_an_error_message_that_may_repeat_a_secret_is_left_out(by: str) -> None:
    if by == "a new topic":
        request = create_topics("orders", configs={"the.password": "hunter2", "retention.ms": "1"})
        result = t.CreateTopicsResponse.CreatableTopicResult(
            name="orders", error_code=40, error_message="Invalid value hunter2"
        )
        found = objects_of(ApiKey.CREATE_TOPICS, request, t.CreateTopicsResponse(topics=[result]))
    else:
        request = every_change.config_of_a_broker(1, "the.password", "hunter2")
        part = t.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
            resource_type=4, resource_name="1", error_code=40, error_message="Invalid value hunter2"
        )
        response = t.IncrementalAlterConfigsResponse(responses=[part])
        found = objects_of(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, response)

    assert "hunter2" not in json.dumps(found)
    assert {each["error"] for each in found} == {"INVALID_CONFIG"}
    assert HIDDEN in {each.get("new_value") for each in found}


def test_a_filter_that_has_matched_nothing_is_named_itself() -> None:
    response = t.DeleteAclsResponse
    none = response(filter_results=[response.DeleteAclsFilterResult(error_code=0)])

    (found,) = objects_of(ApiKey.DELETE_ACLS, withdraw_request("orders", "alice"), none)

    assert (found["operation"], found["name"], found["error"]) == ("DELETE_MATCHING", "orders", "NONE")
    (open_filter,) = objects_of(ApiKey.DELETE_ACLS, withdraw_request(None))
    assert "name" not in open_filter
    assert "error" not in open_filter, "its outcome is not known"


def test_an_election_in_all_partitions_names_those_of_the_response() -> None:
    _, response = elections()
    request = t.ElectLeadersRequest(election_type=0, topic_partitions=None)

    found = objects_of(ApiKey.ELECT_LEADERS, request, response)

    assert [each["details"]["partitions"] for each in found] == ["0,1", "2"]
    assert objects_of(ApiKey.ELECT_LEADERS, request) == [
        {"type": "TOPIC", "operation": "ELECT_LEADERS", "details": {"election": "PREFERRED"}}
    ]


@pytest.mark.parametrize(
    ("key", "request_", "expected"),
    [
        (ApiKey.OFFSET_COMMIT, commit(generation_id_or_member_epoch=-1, member_id="")[0], True),
        (ApiKey.OFFSET_COMMIT, commit(generation_id_or_member_epoch=3, member_id="m")[0], False),
        (ApiKey.TXN_OFFSET_COMMIT, txn_commit(), True),
        (ApiKey.TXN_OFFSET_COMMIT, txn_commit(generation_id_or_member_epoch=3, member_id="m"), False),
        (ApiKey.LEAVE_GROUP, leaving(("m", None)), False),
        (ApiKey.LEAVE_GROUP, leaving(("m", None), ("n", None)), True),
        (ApiKey.LEAVE_GROUP, leaving(("", "worker-1")), True),
        (ApiKey.LEAVE_GROUP, t.LeaveGroupRequest(group_id="g", member_id="m"), False),
    ],
)
def test_a_tools_request_is_told_from_that_of_a_member(key: ApiKey, request_: Any, expected: bool) -> None:
    administers = TABLE[key].administers
    assert administers is not None

    assert administers(request_) is expected


def test_a_record_has_a_small_multiple_of_the_bytes_of_its_request_and_says_how_many_it_left_out() -> None:
    many = [named("TOPIC", f"t{number}", "CREATE") for number in range(50_000)]
    few = bounded(iter(many), 0)
    more = bounded(iter(many), 10_000)
    most = bounded(iter(many), 10**9)

    for found, limit in (
        (few, FREE_BYTES),
        (more, FREE_BYTES + BYTES_PER_BYTE * 10_000),
        (most, MAX_BYTES),
    ):
        *named_ones, cut = found
        assert named_ones == many[: len(named_ones)]
        assert cut == {"type": "TOPIC", "operation": "CREATE", "count": len(many) - len(named_ones)}
        assert limit / 2 < len(json.dumps(found)) < limit + 200
    assert len(few) < len(more) < len(most)


def test_no_name_makes_a_record_longer_than_it_is_charged() -> None:
    worst = [named("USER", "\u0001" * 5_000, "DELETE", reason="\U0001f511" * 5_000) for _ in range(100)]

    assert len(json.dumps(bounded(worst, 10**9))) < MAX_BYTES
    (one, _cut) = bounded([named("USER", "x" * 5_000, "DELETE"), *worst], 0)[:2]
    assert str(one["name"]).endswith("… (5000 characters)")
    assert len(str(one["name"])) < 1_100


def test_very_many_partitions_of_a_topic_are_counted() -> None:
    topic_partitions = [t.ElectLeadersRequest.TopicPartitions(topic="orders", partitions=[*range(100_000)])]

    (found,) = objects_of(ApiKey.ELECT_LEADERS, t.ElectLeadersRequest(topic_partitions=topic_partitions))

    listed, _, rest = found["details"]["partitions"].rpartition(",… (")
    assert int(rest.removesuffix(" more)")) == 100_000 - len(listed.split(","))


def test_details_may_be_added_to_each_object() -> None:
    assert bounded([named("TOPIC", "t", "CREATE", topic_id="x")], 0, requested_by="Metadata") == [
        topic("CREATE", name="t", details={"topic_id": "x", "requested_by": "Metadata"})
    ]


def test_an_acl_may_be_on_any_type_of_resource() -> None:
    request = allow_request("orders", "alice")
    request.creations[0].resource_type = int(ResourceType.GROUP)

    (found,) = objects_of(ApiKey.CREATE_ACLS, request)

    assert found["details"]["resource_type"] == "GROUP"
    assert MetadataImage.EMPTY is Known().image


def without_texts(value: Any) -> Any:
    """The same with each text empty: a client may name a topic like that."""
    if isinstance(value, list):
        return [without_texts(each) for each in value]
    if isinstance(value, str):
        return ""
    for name in getattr(value, "__slots__", ()):
        setattr(value, name, without_texts(getattr(value, name)))
    return value


@pytest.mark.parametrize("key", [key for key, api in TABLE.items() if api.objects is not None])
def test_whatever_a_request_and_its_response_have_is_described(key: ApiKey) -> None:
    for version in catalog.request(key).versions.range:
        request, response = codecs.request(key, version), codecs.response(key, version)
        for seed in range(10):
            filler = MessageFiller(Random(f"{version}/{seed}"))
            asked = request.decode_exactly(request.encode(filler.message(request.name, version)))
            heard = response.decode_exactly(response.encode(filler.message(response.name, version)))

            for one, other in ((asked, None), (asked, heard), (without_texts(asked), without_texts(heard))):
                json.dumps(objects_of(key, one, other))
