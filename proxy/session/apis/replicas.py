"""The APIs about replicas: they need a right on the cluster, which does not cover Penstock's own topics.

    AlterPartitionReassignments (KIP-455)       ALTER
    ElectLeaders (KIP-183, KIP-460)             ALTER
    AlterReplicaLogDirs (KIP-113)               ALTER
    DescribeLogDirs (KIP-113)                   DESCRIBE
    ListPartitionReassignments (KIP-455)        DESCRIBE

Without the right the whole request is denied. With it, Penstock's own topics are TOPIC_AUTHORIZATION_FAILED
where a request names them, and hidden in lists from those who may not describe them. An election in all
partitions becomes one in those of all other topics (decision 0108).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from proxy.admin.objects import Known, Object, in_partitions, named, of_topics
from proxy.admin.rejection import Error, TopicShape, code_only, denied_alone, in_request_order, succeeded
from proxy.admin.replicas import ELECTIONS, REASSIGNMENTS, take_own_topics_out
from proxy.metadata.acl import Operation, ResourceType
from proxy.security.protected import protected_among, protected_names
from proxy.session.apis.topic_existence import find_all_partitions
from proxy.session.call import Api, Call, Change, Forward, Respond, Verdict, deny, forward_to_controller
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message


def decide_reassignments(call: Call, request: types.AlterPartitionReassignmentsRequest) -> Verdict:
    if not call.allows_cluster(Operation.ALTER):
        return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return _without_own_topics(call, request, REASSIGNMENTS)


def decide_elections(call: Call, request: types.ElectLeadersRequest) -> Verdict:
    """Decide an ElectLeaders request; without topics it means all partitions."""
    if not call.allows_cluster(Operation.ALTER):
        return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    own = protected_names(call.basis.authorizer, ResourceType.TOPIC)
    if request.topic_partitions is not None or not own:
        return _without_own_topics(call, request, ELECTIONS)

    def found(existing: Mapping[str, Iterable[int]]) -> Verdict:
        topic = types.ElectLeadersRequest.TopicPartitions
        request.topic_partitions = [
            topic(topic=name, partitions=sorted(indexes))
            for name, indexes in existing.items()
            if name not in own
        ]
        return forward_to_controller(request, _report_elections)

    return find_all_partitions(call, found)


def _report_elections(response: types.ElectLeadersResponse) -> None:
    """Report each topic, with the partitions that needed an election, as for a request for all partitions."""
    response.replica_election_results = [
        topic
        for topic in response.replica_election_results
        if all(part.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for part in topic.partition_result)
    ]
    for topic in response.replica_election_results:
        topic.partition_result = [
            part for part in topic.partition_result if part.error_code != ErrorCode.ELECTION_NOT_NEEDED
        ]


def _without_own_topics(call: Call, request: Message, shape: TopicShape) -> Verdict:
    merge = take_own_topics_out(call, request, shape)
    if merge is not None and not shape.topics(request):
        return Respond(denied_alone(shape, merge))
    return forward_to_controller(request, merge)


def decide_moves(call: Call, request: types.AlterReplicaLogDirsRequest) -> Verdict:
    if not call.allows_cluster(Operation.ALTER):
        return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    names = [topic.name for directory in request.dirs for topic in directory.topics]
    covered = call.within_cluster_right(Operation.ALTER, ResourceType.TOPIC, names)
    if covered.issuperset(names):
        return Forward()
    denied = _moves_of(request, set(names) - covered, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    for directory in request.dirs:
        directory.topics = [topic for topic in directory.topics if topic.name in covered]

    def on_response(response: types.AlterReplicaLogDirsResponse) -> None:
        parts = [*response.results, *denied]
        response.results = in_request_order(names, parts, lambda part: part.topic_name)

    if not covered:
        return Respond(types.AlterReplicaLogDirsResponse(results=denied))
    return Forward(request, on_response)


def decide_log_dirs(call: Call, request: types.DescribeLogDirsRequest) -> Verdict:
    if not call.allows_cluster(Operation.DESCRIBE):
        return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def on_response(response: types.DescribeLogDirsResponse) -> None:
        for directory in response.results:
            hidden = _hidden(call, (topic.name for topic in directory.topics))
            directory.topics[:] = [topic for topic in directory.topics if topic.name not in hidden]

    return Forward(None, on_response, ("results.topics.partitions",))


def decide_list_of_reassignments(call: Call, request: types.ListPartitionReassignmentsRequest) -> Verdict:
    if not call.allows_cluster(Operation.DESCRIBE):
        return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def on_response(response: types.ListPartitionReassignmentsResponse) -> None:
        hidden = _hidden(call, (topic.name for topic in response.topics))
        response.topics[:] = [topic for topic in response.topics if topic.name not in hidden]

    return Forward(None, on_response, ("topics.partitions",))


def _hidden(call: Call, names: Iterable[str]) -> Container[str]:
    """Return Penstock's own topics that the client may not describe."""
    own = protected_among(call.basis.authorizer, ResourceType.TOPIC, names)
    return own.keys() - call.shows(Operation.DESCRIBE, ResourceType.TOPIC, own)


def _reject_elections(
    version: int, request: types.ElectLeadersRequest, error: Error
) -> types.ElectLeadersResponse:
    response: types.ElectLeadersResponse = ELECTIONS.reject_all(
        request, error["error_code"], error["error_message"]
    )
    if version >= 1:
        response.error_code = error["error_code"]
    return response


def _reject_reassignments(
    _version: int, request: types.AlterPartitionReassignmentsRequest, error: Error
) -> types.AlterPartitionReassignmentsResponse:
    response: types.AlterPartitionReassignmentsResponse = REASSIGNMENTS.reject_all(
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


def _reject_moves(
    _version: int, request: types.AlterReplicaLogDirsRequest, error: Error
) -> types.AlterReplicaLogDirsResponse:
    names = {topic.name for directory in request.dirs for topic in directory.topics}
    return types.AlterReplicaLogDirsResponse(results=_moves_of(request, names, error["error_code"]))


def _moves_of(
    request: types.AlterReplicaLogDirsRequest, names: Container[str], error_code: int
) -> list[types.AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult]:
    """Return the results of the moves of these topics that failed."""
    response = types.AlterReplicaLogDirsResponse
    return [
        response.AlterReplicaLogDirTopicResult(
            topic_name=topic.name,
            partitions=[
                response.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error_code)
                for index in topic.partitions
            ],
        )
        for directory in request.dirs
        for topic in directory.topics
        if topic.name in names
    ]


def _reassigned(
    request: types.AlterPartitionReassignmentsRequest,
    response: types.AlterPartitionReassignmentsResponse | None,
) -> Iterator[Change]:
    if response is not None and not succeeded(response):
        return
    for topic in request.topics:
        for partition in topic.partitions:
            yield "PartitionChangeRecord", topic.name, str(partition.partition_index)


def _reassignment(part: types.AlterPartitionReassignmentsRequest.ReassignablePartition) -> str:
    replicas = "cancelled" if part.replicas is None else "/".join(map(str, part.replicas))
    return f"{part.partition_index}:{replicas}"


def _elections(
    request: types.ElectLeadersRequest, response: types.ElectLeadersResponse | None, known: Known
) -> Iterator[Object]:
    election = {0: "PREFERRED", 1: "UNCLEAN"}.get(request.election_type, str(request.election_type))
    if request.topic_partitions is None:
        results = [] if response is None else response.replica_election_results
        if not results:
            yield named("TOPIC", None, "ELECT_LEADERS", response, election=election)
        topic = types.ElectLeadersRequest.TopicPartitions
        elected = [
            topic(topic=each.topic, partitions=[part.partition_id for part in each.partition_result])
            for each in results
        ]
        request = types.ElectLeadersRequest(topic_partitions=elected)
    yield from in_partitions(ELECTIONS, request, response, known, "ELECT_LEADERS", election=election)


def _moves(
    request: types.AlterReplicaLogDirsRequest,
    response: types.AlterReplicaLogDirsResponse | None,
    _known: Known,
) -> Iterator[Object]:
    parts = {
        (topic.topic_name, part.partition_index): part
        for topic in ([] if response is None else response.results)
        for part in topic.partitions
    }
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                place = {"path": directory.path, "partitions": index}
                yield named("TOPIC", topic.name, "MOVE_REPLICAS", parts.get((topic.name, index)), **place)


APIS = (
    Api(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        decide_reassignments,
        _reject_reassignments,
        admin="controller",
        cluster_right=Operation.ALTER,
        changes=_reassigned,
        objects=of_topics(REASSIGNMENTS, "REASSIGN_PARTITIONS", _reassignment),
    ),
    # No changes: leaders also change without a request, and Kafka's log does not state the cause.
    Api(
        ApiKey.ELECT_LEADERS,
        decide_elections,
        _reject_elections,
        admin="controller",
        cluster_right=Operation.ALTER,
        objects=_elections,
    ),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, decide_moves, _reject_moves, admin="broker", objects=_moves),
    Api(ApiKey.DESCRIBE_LOG_DIRS, decide_log_dirs, code_only("DescribeLogDirsResponse")),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, decide_list_of_reassignments, _reject_list_of_reassignments),
)
