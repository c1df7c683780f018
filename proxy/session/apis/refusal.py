"""The answer in which everything that was asked fails with one error, for every API we can treat.

For requests denied as a whole, and for what the session refuses before anybody has decided. Errors stand
where Kafka's clients look for them: some answers have one error for all, others one for each part, and some
differ by version.
"""

from collections.abc import Callable
from typing import Any

from proxy.security.principal import ANONYMOUS
from proxy.session.apis.addresses import NO_HOST, NO_NODE, NO_PORT
from proxy.session.apis.topic_shapes import TOPIC_SHAPES
from proxy.session.call import Answer, Call
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

MESSAGES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""What Kafka's own clients print for a denial."""


def denied(call: Call, request: Any, error_code: ErrorCode) -> Answer:
    """Refuse the whole request in the words clients know for the error."""
    return refused(call, request, error_code, MESSAGES.get(error_code))


def refused(call: Call, request: Any, error_code: ErrorCode, message: str | None = None) -> Answer:
    """Refuse the whole request."""
    return Answer(refusal(call.api_key, call.version, request, error_code, message))


ANY_VERSION = 0
"""For the APIs whose refusal has the same shape in all versions."""


def refusal(
    api_key: int, version: int, request: Any, error_code: ErrorCode, message: str | None = None
) -> Any:
    """The response of that version to a decoded request; KeyError for an API that has no line below."""
    refuse = _REFUSALS[ApiKey(api_key)]
    return refuse(version, request, {"error_code": error_code, "error_message": message})


Error = dict[str, Any]
Refuse = Callable[[int, Any, Error], Any]


def _code(name: str, **fields: Any) -> Refuse:
    """One error code for all, and no words."""
    return lambda _version, _request, error: getattr(types, name)(error_code=error["error_code"], **fields)


def _code_and_message(name: str, **fields: Any) -> Refuse:
    """One error for all, in words too."""
    return lambda _version, _request, error: getattr(types, name)(**error, **fields)


def _find_coordinator(version: int, request: Any, error: Error) -> Any:
    nowhere = {"node_id": NO_NODE, "host": NO_HOST, "port": NO_PORT}
    response = types.FindCoordinatorResponse
    if version < 4:
        return response(**error, **nowhere)
    return response(
        coordinators=[response.Coordinator(key=key, **error, **nowhere) for key in request.coordinator_keys]
    )


def _offset_fetch(version: int, request: Any, error: Error) -> Any:
    response, code = types.OffsetFetchResponse, error["error_code"]
    if version >= 8:
        groups = [
            response.OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
            for group in request.groups
        ]
        return response(groups=groups)
    if version >= 2:
        return response(error_code=code)
    return TOPIC_SHAPES[ApiKey.OFFSET_FETCH].refuse_all(request, code)


def _join_group(version: int, _request: Any, error: Error) -> Any:
    return types.JoinGroupResponse(
        error_code=error["error_code"], protocol_name=None if version >= 7 else "", leader="", member_id=""
    )


def _describe_groups(_version: int, request: Any, error: Error) -> Any:
    response = types.DescribeGroupsResponse
    return response(
        groups=[
            response.DescribedGroup(group_id=group_id, error_code=error["error_code"])
            for group_id in request.groups
        ]
    )


def _described_groups(name: str) -> Refuse:
    """An error for each group of one of the newer kinds."""

    def refuse(_version: int, request: Any, error: Error) -> Any:
        response = getattr(types, name)
        return response(
            groups=[
                response.DescribedGroup(group_id=group_id, error_code=error["error_code"])
                for group_id in request.group_ids
            ]
        )

    return refuse


def _describe_share_group_offsets(_version: int, request: Any, error: Error) -> Any:
    response = types.DescribeShareGroupOffsetsResponse
    group = response.DescribeShareGroupOffsetsResponseGroup
    return response(groups=[group(group_id=asked.group_id, **error) for asked in request.groups])


def _write_txn_markers(_version: int, request: Any, error: Error) -> Any:
    response, code = types.WriteTxnMarkersResponse, error["error_code"]
    return response(
        markers=[
            response.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    response.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            response.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                    if topic.partition_indexes
                ],
            )
            # A broker gathers them by producer: of two of one producer the last is told.
            for marker in {marker.producer_id: marker for marker in request.markers}.values()
        ]
    )


def _delete_groups(_version: int, request: Any, error: Error) -> Any:
    response = types.DeleteGroupsResponse
    return response(
        results=[
            response.DeletableGroupResult(group_id=group_id, error_code=error["error_code"])
            for group_id in dict.fromkeys(request.groups_names)
        ]
    )


def _describe_transactions(_version: int, request: Any, error: Error) -> Any:
    response = types.DescribeTransactionsResponse
    return response(
        transaction_states=[
            response.TransactionState(transactional_id=transactional_id, error_code=error["error_code"])
            for transactional_id in request.transactional_ids
        ]
    )


def _create_acls(_version: int, request: Any, error: Error) -> Any:
    response = types.CreateAclsResponse
    return response(results=[response.AclCreationResult(**error) for _ in request.creations])


def _delete_acls(_version: int, request: Any, error: Error) -> Any:
    response = types.DeleteAclsResponse
    return response(filter_results=[response.DeleteAclsFilterResult(**error) for _ in request.filters])


def _alter_client_quotas(_version: int, request: Any, error: Error) -> Any:
    response = types.AlterClientQuotasResponse
    return response(
        entries=[
            response.EntryData(
                entity=[
                    response.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
                **error,
            )
            for entry in request.entries
        ]
    )


def _describe_user_scram_credentials(_version: int, request: Any, error: Error) -> Any:
    # A result for each user, but without the name, is what Kafka answers.
    response = types.DescribeUserScramCredentialsResponse
    results = [response.DescribeUserScramCredentialsResult(**error) for _ in request.users or ()]
    return response(results=results, **error)


def _alter_user_scram_credentials(_version: int, request: Any, error: Error) -> Any:
    response = types.AlterUserScramCredentialsResponse
    users = sorted({alteration.name for alteration in [*request.deletions, *request.upsertions]})
    return response(results=[response.AlterUserScramCredentialsResult(user=user, **error) for user in users])


def _create_delegation_token(version: int, _request: Any, error: Error) -> Any:
    """Of nobody's token, as Kafka's brokers say it."""
    no_time_ms, nobody = -1, {"principal_type": ANONYMOUS.principal_type, "principal_name": ANONYMOUS.name}
    requester = {f"token_requester_{key}": value for key, value in nobody.items()} if version >= 3 else {}
    return types.CreateDelegationTokenResponse(
        error_code=error["error_code"],
        issue_timestamp_ms=no_time_ms,
        expiry_timestamp_ms=no_time_ms,
        max_timestamp_ms=no_time_ms,
        **nobody,
        **requester,
    )


def _list_partition_reassignments(_version: int, request: Any, error: Error) -> Any:
    """The topics asked for are repeated, with nothing said of them."""
    response = types.ListPartitionReassignmentsResponse
    topics = [
        response.OngoingTopicReassignment(
            name=topic.name,
            partitions=[
                response.OngoingPartitionReassignment(partition_index=index)
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    return response(topics=topics, **error)


def _configs(name: str, results: str, result: str) -> Refuse:
    """An error for each config resource."""

    def refuse(_version: int, request: Any, error: Error) -> Any:
        response = getattr(types, name)
        parts = [
            getattr(response, result)(
                resource_type=resource.resource_type, resource_name=resource.resource_name, **error
            )
            for resource in request.resources
        ]
        return response(**{results: parts})

    return refuse


def _topics(api_key: ApiKey) -> Refuse:
    """An error for each topic or partition."""
    shape = TOPIC_SHAPES[api_key]
    return lambda _version, request, error: shape.refuse_all(
        request, error["error_code"], error["error_message"]
    )


def _elect_leaders(version: int, request: Any, error: Error) -> Any:
    response = TOPIC_SHAPES[ApiKey.ELECT_LEADERS].refuse_all(
        request, error["error_code"], error["error_message"]
    )
    if version >= 1:
        response.error_code = error["error_code"]
    return response


def _alter_partition_reassignments(_version: int, request: Any, error: Error) -> Any:
    response = TOPIC_SHAPES[ApiKey.ALTER_PARTITION_REASSIGNMENTS].refuse_all(
        request, error["error_code"], error["error_message"]
    )
    response.error_code, response.error_message = error["error_code"], error["error_message"]
    return response


def _metadata(_version: int, request: Any, error: Error) -> Any:
    response, code = types.MetadataResponse, error["error_code"]
    topics = [
        response.MetadataResponseTopic(name=topic.name or "", topic_id=topic.topic_id, error_code=code)
        for topic in request.topics or ()
    ]
    return response(topics=topics, error_code=code)


def _delete_topics(_version: int, request: Any, error: Error) -> Any:
    response = types.DeleteTopicsResponse
    named = [response.DeletableTopicResult(name=name, **error) for name in request.topic_names]
    return response(
        responses=named
        + [
            response.DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, **error)
            for topic in request.topics
        ]
    )


def _add_partitions_to_txn(version: int, request: Any, error: Error) -> Any:
    if version >= 4:
        return types.AddPartitionsToTxnResponse(error_code=error["error_code"])
    return TOPIC_SHAPES[ApiKey.ADD_PARTITIONS_TO_TXN].refuse_all(request, error["error_code"])


def _alter_replica_log_dirs(_version: int, request: Any, error: Error) -> Any:
    response = types.AlterReplicaLogDirsResponse
    return response(
        results=[
            response.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    response.AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=error["error_code"]
                    )
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


_REFUSALS: dict[ApiKey, Refuse] = {
    ApiKey.CREATE_DELEGATION_TOKEN: _create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _code("RenewDelegationTokenResponse"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _code("ExpireDelegationTokenResponse"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _code("DescribeDelegationTokenResponse"),
    ApiKey.METADATA: _metadata,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.SYNC_GROUP: _code("SyncGroupResponse"),
    ApiKey.HEARTBEAT: _code("HeartbeatResponse"),
    ApiKey.LEAVE_GROUP: _code("LeaveGroupResponse"),
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.LIST_GROUPS: _code("ListGroupsResponse"),
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.OFFSET_DELETE: _code("OffsetDeleteResponse"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _code("ConsumerGroupHeartbeatResponse"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _described_groups("ConsumerGroupDescribeResponse"),
    ApiKey.SHARE_GROUP_HEARTBEAT: _code("ShareGroupHeartbeatResponse"),
    ApiKey.SHARE_GROUP_DESCRIBE: _described_groups("ShareGroupDescribeResponse"),
    ApiKey.SHARE_FETCH: _code("ShareFetchResponse"),
    ApiKey.SHARE_ACKNOWLEDGE: _code("ShareAcknowledgeResponse"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _describe_share_group_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _code_and_message("AlterShareGroupOffsetsResponse"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _code_and_message("DeleteShareGroupOffsetsResponse"),
    ApiKey.STREAMS_GROUP_HEARTBEAT: _code_and_message("StreamsGroupHeartbeatResponse"),
    ApiKey.STREAMS_GROUP_DESCRIBE: _described_groups("StreamsGroupDescribeResponse"),
    ApiKey.ADD_RAFT_VOTER: _code_and_message("AddRaftVoterResponse"),
    ApiKey.REMOVE_RAFT_VOTER: _code_and_message("RemoveRaftVoterResponse"),
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.INIT_PRODUCER_ID: _code("InitProducerIdResponse", producer_epoch=-1),
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: _code("AddOffsetsToTxnResponse"),
    ApiKey.END_TXN: _code("EndTxnResponse"),
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.LIST_TRANSACTIONS: _code("ListTransactionsResponse"),
    ApiKey.DESCRIBE_CLUSTER: _code_and_message("DescribeClusterResponse"),
    ApiKey.DESCRIBE_CONFIGS: _configs("DescribeConfigsResponse", "results", "DescribeConfigsResult"),
    ApiKey.ALTER_CONFIGS: _configs("AlterConfigsResponse", "responses", "AlterConfigsResourceResponse"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs(
        "IncrementalAlterConfigsResponse", "responses", "AlterConfigsResourceResponse"
    ),
    ApiKey.LIST_CONFIG_RESOURCES: _code("ListConfigResourcesResponse"),
    ApiKey.DESCRIBE_ACLS: _code_and_message("DescribeAclsResponse"),
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _code_and_message("DescribeClientQuotasResponse", entries=None),
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.DESCRIBE_LOG_DIRS: _code("DescribeLogDirsResponse"),
    ApiKey.DESCRIBE_QUORUM: _code_and_message("DescribeQuorumResponse"),
    ApiKey.UPDATE_FEATURES: _code_and_message("UpdateFeaturesResponse"),
    ApiKey.UNREGISTER_BROKER: _code_and_message("UnregisterBrokerResponse"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_partition_reassignments,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _code("GetTelemetrySubscriptionsResponse"),
    ApiKey.PUSH_TELEMETRY: _code("PushTelemetryResponse"),
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
}
_REFUSALS |= {api_key: _topics(api_key) for api_key in TOPIC_SHAPES if api_key not in _REFUSALS}
