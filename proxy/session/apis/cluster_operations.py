"""APIs that need one operation on the cluster and no other right; a denial rejects the whole request.

The rows below name the operation, and whether the controller carries it out (KIP-590). DescribeQuorum has the
addresses of controllers, which clients only print: no proxy stands in front of a controller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from proxy.admin.rejection import Error, TopicShape, code_and_message, code_only, rejected_parts, succeeded
from proxy.metadata.acl import Operation
from proxy.session.call import (
    Api,
    Call,
    Change,
    Forward,
    Verdict,
    deny,
    forward_with_cluster_right,
)
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message
from proxy.wire.work import paced

_ELECT_LEADERS = TopicShape(
    response="ElectLeadersResponse",
    topic="ReplicaElectionResult",
    partition="PartitionResult",
    request_topics="topic_partitions",
    response_topics="replica_election_results",
    name="topic",
    request_index=None,
    response_partitions="partition_result",
    response_index="partition_id",
    has_message=True,
)
_REASSIGNMENTS = TopicShape(
    response="AlterPartitionReassignmentsResponse",
    topic="ReassignableTopicResponse",
    partition="ReassignablePartitionResponse",
    response_topics="responses",
    has_message=True,
)


def _forward_with(operation: Operation) -> Callable[[Call, Message], Verdict]:
    def decide(call: Call, request: Message) -> Verdict:
        if not call.allows_cluster(operation):
            return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return Forward()

    return decide


def _reject_elections(
    version: int, request: types.ElectLeadersRequest, error: Error
) -> types.ElectLeadersResponse:
    response: types.ElectLeadersResponse = _ELECT_LEADERS.reject_all(
        request, error["error_code"], error["error_message"]
    )
    if version >= 1:
        response.error_code = error["error_code"]
    return response


def _reject_reassignments(
    _version: int, request: types.AlterPartitionReassignmentsRequest, error: Error
) -> types.AlterPartitionReassignmentsResponse:
    response: types.AlterPartitionReassignmentsResponse = _REASSIGNMENTS.reject_all(
        request, error["error_code"], error["error_message"]
    )
    response.error_code, response.error_message = error["error_code"], error["error_message"]
    return response


def _reject_list_of_reassignments(
    _version: int, request: types.ListPartitionReassignmentsRequest, error: Error
) -> types.ListPartitionReassignmentsResponse:
    """Repeat the requested topics, without replicas."""
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


def _reject_log_dirs(
    _version: int, request: types.AlterReplicaLogDirsRequest, error: Error
) -> types.AlterReplicaLogDirsResponse:
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


def _updated_features(
    request: types.UpdateFeaturesRequest, response: types.UpdateFeaturesResponse | None
) -> Iterator[Change]:
    if response is not None and not succeeded(response):
        return
    rejected = rejected_parts(response, "results", lambda result: result.feature)
    for update in paced(request.feature_updates):
        if update.feature not in rejected:
            yield "FeatureLevelRecord", update.feature, str(update.max_version_level)


def _reassigned(
    request: types.AlterPartitionReassignmentsRequest,
    response: types.AlterPartitionReassignmentsResponse | None,
) -> Iterator[Change]:
    if response is not None and not succeeded(response):
        return
    for topic in paced(request.topics):
        for partition in paced(topic.partitions):
            yield "PartitionChangeRecord", topic.name, str(partition.partition_index)


APIS = (
    Api(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        forward_with_cluster_right,
        _reject_reassignments,
        admin=True,
        forwarded=True,
        cluster_right=Operation.ALTER,
        changes=_reassigned,
    ),
    # No changes: leaders also change without a request, and Kafka's log does not state the cause.
    Api(
        ApiKey.ELECT_LEADERS,
        forward_with_cluster_right,
        _reject_elections,
        admin=True,
        forwarded=True,
        cluster_right=Operation.ALTER,
    ),
    Api(
        ApiKey.UPDATE_FEATURES,
        forward_with_cluster_right,
        code_and_message("UpdateFeaturesResponse"),
        admin=True,
        forwarded=True,
        cluster_right=Operation.ALTER,
        changes=_updated_features,
    ),
    *(
        Api(key, _forward_with(Operation.ALTER), rejection, admin=True, changes_at_broker=True)
        for key, rejection in (
            (ApiKey.ALTER_REPLICA_LOG_DIRS, _reject_log_dirs),
            (ApiKey.UNREGISTER_BROKER, code_and_message("UnregisterBrokerResponse")),
            (ApiKey.ADD_RAFT_VOTER, code_and_message("AddRaftVoterResponse")),
            (ApiKey.REMOVE_RAFT_VOTER, code_and_message("RemoveRaftVoterResponse")),
        )
    ),
    Api(ApiKey.DESCRIBE_LOG_DIRS, _forward_with(Operation.DESCRIBE), code_only("DescribeLogDirsResponse")),
    Api(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        _forward_with(Operation.DESCRIBE),
        _reject_list_of_reassignments,
    ),
    Api(
        ApiKey.LIST_CONFIG_RESOURCES,
        _forward_with(Operation.DESCRIBE_CONFIGS),
        code_only("ListConfigResourcesResponse"),
    ),
    Api(
        ApiKey.DESCRIBE_QUORUM, _forward_with(Operation.DESCRIBE), code_and_message("DescribeQuorumResponse")
    ),
)
