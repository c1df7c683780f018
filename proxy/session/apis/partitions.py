"""Requests about partitions of named topics, and the right on each topic that they need.

    ListOffsets (KIP-79)                        DESCRIBE
    DeleteRecords (KIP-107)                     DELETE
    OffsetForLeaderEpoch (KIP-101, KIP-320)     DESCRIBE, or CLUSTER_ACTION for all but Penstock's own
    DescribeProducers (KIP-664)                 READ

Partitions of denied topics are TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from proxy.admin.objects import of_topics
from proxy.admin.rejection import MESSAGES, TopicShape, take_out
from proxy.admin.topics import is_valid_name
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.security.protected import protected_among
from proxy.session.apis.topic_filter import filter_topics
from proxy.session.call import Api, Call, Forward, Respond, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

LIST_OFFSETS = TopicShape(
    response="ListOffsetsResponse", topic="ListOffsetsTopicResponse", partition="ListOffsetsPartitionResponse"
)

DELETE_RECORDS = TopicShape(
    response="DeleteRecordsResponse",
    topic="DeleteRecordsTopicResult",
    partition="DeleteRecordsPartitionResult",
    reports_empty_topics=False,
    merges_topics=True,
    reports_partitions_once=True,
    placeholders={"low_watermark": -1},
)

OFFSET_FOR_LEADER_EPOCH = TopicShape(
    response="OffsetForLeaderEpochResponse",
    topic="OffsetForLeaderTopicResult",
    partition="EpochEndOffset",
    name="topic",
    request_index="partition",
    response_index="partition",
)

DESCRIBE_PRODUCERS = TopicShape(
    response="DescribeProducersResponse",
    topic="TopicResponse",
    partition="PartitionResponse",
    request_partitions="partition_indexes",
    request_index=None,
    has_message=True,
)


def decide_offset_for_leader_epoch(call: Call, request: types.OffsetForLeaderEpochRequest) -> Verdict:
    names = [topic.topic for topic in request.topics]
    own = protected_among(call.basis.authorizer, ResourceType.TOPIC, names)
    if not own and call.shows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, (CLUSTER_NAME,)):
        return Forward()
    return filter_topics(call, request, OFFSET_FOR_LEADER_EPOCH, Operation.DESCRIBE)


def decide_describe_producers(call: Call, request: types.DescribeProducersRequest) -> Verdict:
    """Decide a DescribeProducers request; the broker rejects invalid names, before any right is checked."""
    names = {topic.name for topic in request.topics}
    invalid = {name for name in names if not is_valid_name(name)}
    allowed = call.allowed_names(Operation.READ, ResourceType.TOPIC, sorted(names - invalid))
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    merge = take_out(request, DESCRIBE_PRODUCERS, allowed | invalid, code, MESSAGES[code])
    if merge is None:
        return Forward()
    if request.topics:
        return Forward(request, merge)
    response = types.DescribeProducersResponse()
    merge(response)
    return Respond(response)


APIS = (
    Api(
        ApiKey.LIST_OFFSETS,
        lambda call, request: filter_topics(call, request, LIST_OFFSETS, Operation.DESCRIBE),
        LIST_OFFSETS.reject,
        repeatable=True,
        held=True,
    ),
    Api(
        ApiKey.DELETE_RECORDS,
        lambda call, request: filter_topics(call, request, DELETE_RECORDS, Operation.DELETE),
        DELETE_RECORDS.reject,
        admin="broker",
        objects=of_topics(
            DELETE_RECORDS, "DELETE_RECORDS", lambda part: f"{part.partition_index}:{part.offset}"
        ),
        held=True,
    ),
    Api(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        decide_offset_for_leader_epoch,
        OFFSET_FOR_LEADER_EPOCH.reject,
        repeatable=True,
    ),
    Api(ApiKey.DESCRIBE_PRODUCERS, decide_describe_producers, DESCRIBE_PRODUCERS.reject),
)
