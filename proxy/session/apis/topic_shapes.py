"""How requests list topics and where their answers carry an error for each: one line for each API.

Read by refusal (everything denied) and topic_filter (some of it denied): both make, out of a topic of the
request, the part of the answer that refuses it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.wire import types
from proxy.wire.api_keys import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """Names of structs and attributes, as in the schemas; request and answer share the names of topics."""

    response: str
    topic: str
    """Struct of one topic in the answer."""
    partition: str | None = None
    """Struct of one partition in it; None: the error stands at the topic itself."""
    asked_topics: str = "topics"
    """Attribute of the request."""
    answered_topics: str = "topics"
    """Attribute of the answer."""
    name: str = "name"
    carried: tuple[str, ...] = ()
    """What else of the topic is repeated in the answer."""
    asked_partitions: str = "partitions"
    asked_index: str | None = "partition_index"
    """None: the partitions of the request are plain numbers."""
    answered_partitions: str = "partitions"
    answered_index: str = "partition_index"
    error_code: str = "error_code"
    has_message: bool = False
    tells_empty_topics: bool = True
    """Whether a topic without a partition is in the answer: a broker that answers by partition has none."""
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """What a refused partition says beside its error."""

    def refuse_topic(self, topic: Any, error_code: int, message: str | None = None) -> Any:
        """The part of an answer that refuses this topic of a request."""
        response = getattr(types, self.response)
        repeated = {name: getattr(topic, name) for name in (self.name, *self.carried)}
        error = {self.error_code: error_code} | ({"error_message": message} if self.has_message else {})
        if self.partition is None:
            return getattr(response, self.topic)(**repeated, **error)
        partition = getattr(response, self.partition)
        partitions = [
            partition(**{self.answered_index: index}, **error, **self.unknown)
            for index in self.indexes(topic)
        ]
        return getattr(response, self.topic)(**repeated, **{self.answered_partitions: partitions})

    def refuse_topics(self, topics: Iterable[Any], error_code: int, message: str | None = None) -> list[Any]:
        """The parts of an answer that refuse these topics of a request."""
        told = (topic for topic in topics if self.tells_empty_topics or self.indexes(topic))
        return [self.refuse_topic(topic, error_code, message) for topic in told]

    def refuse_all(self, request: Any, error_code: int, message: str | None = None) -> Any:
        """The answer that refuses every topic of the request."""
        topics = self.refuse_topics(self.asked(request), error_code, message)
        return getattr(types, self.response)(**{self.answered_topics: topics})

    def asked(self, request: Any) -> list[Any]:
        """The topics of a request; empty when it means all of them."""
        return getattr(request, self.asked_topics) or []

    def indexes(self, topic: Any) -> list[int]:
        """The partitions of a topic of a request."""
        partitions = getattr(topic, self.asked_partitions)
        return [p if self.asked_index is None else getattr(p, self.asked_index) for p in partitions]


TOPIC_SHAPES: Mapping[ApiKey, TopicShape] = {
    ApiKey.LIST_OFFSETS: TopicShape(
        response="ListOffsetsResponse",
        topic="ListOffsetsTopicResponse",
        partition="ListOffsetsPartitionResponse",
    ),
    ApiKey.OFFSET_COMMIT: TopicShape(
        response="OffsetCommitResponse",
        topic="OffsetCommitResponseTopic",
        partition="OffsetCommitResponsePartition",
        carried=("topic_id",),
    ),
    ApiKey.OFFSET_FETCH: TopicShape(
        response="OffsetFetchResponse",
        topic="OffsetFetchResponseTopic",
        partition="OffsetFetchResponsePartition",
        asked_partitions="partition_indexes",
        asked_index=None,
        unknown={"committed_offset": -1, "metadata": ""},
    ),
    ApiKey.CREATE_TOPICS: TopicShape(
        response="CreateTopicsResponse", topic="CreatableTopicResult", has_message=True
    ),
    ApiKey.DELETE_RECORDS: TopicShape(
        response="DeleteRecordsResponse",
        topic="DeleteRecordsTopicResult",
        partition="DeleteRecordsPartitionResult",
        tells_empty_topics=False,
        unknown={"low_watermark": -1},
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: TopicShape(
        response="OffsetForLeaderEpochResponse",
        topic="OffsetForLeaderTopicResult",
        partition="EpochEndOffset",
        name="topic",
        asked_index="partition",
        answered_index="partition",
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: TopicShape(
        response="AddPartitionsToTxnResponse",
        topic="AddPartitionsToTxnTopicResult",
        partition="AddPartitionsToTxnPartitionResult",
        asked_topics="v3_and_below_topics",
        answered_topics="results_by_topic_v3_and_below",
        asked_index=None,
        answered_partitions="results_by_partition",
        error_code="partition_error_code",
    ),
    ApiKey.TXN_OFFSET_COMMIT: TopicShape(
        response="TxnOffsetCommitResponse",
        topic="TxnOffsetCommitResponseTopic",
        partition="TxnOffsetCommitResponsePartition",
    ),
    ApiKey.CREATE_PARTITIONS: TopicShape(
        response="CreatePartitionsResponse",
        topic="CreatePartitionsTopicResult",
        answered_topics="results",
        has_message=True,
    ),
    ApiKey.ELECT_LEADERS: TopicShape(
        response="ElectLeadersResponse",
        topic="ReplicaElectionResult",
        partition="PartitionResult",
        asked_topics="topic_partitions",
        answered_topics="replica_election_results",
        name="topic",
        asked_index=None,
        answered_partitions="partition_result",
        answered_index="partition_id",
        has_message=True,
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: TopicShape(
        response="AlterPartitionReassignmentsResponse",
        topic="ReassignableTopicResponse",
        partition="ReassignablePartitionResponse",
        answered_topics="responses",
        has_message=True,
    ),
    ApiKey.OFFSET_DELETE: TopicShape(
        response="OffsetDeleteResponse",
        topic="OffsetDeleteResponseTopic",
        partition="OffsetDeleteResponsePartition",
    ),
    ApiKey.DESCRIBE_PRODUCERS: TopicShape(
        response="DescribeProducersResponse",
        topic="TopicResponse",
        partition="PartitionResponse",
        asked_partitions="partition_indexes",
        asked_index=None,
        has_message=True,
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: TopicShape(
        response="AlterShareGroupOffsetsResponse",
        topic="AlterShareGroupOffsetsResponseTopic",
        partition="AlterShareGroupOffsetsResponsePartition",
        answered_topics="responses",
        name="topic_name",
        has_message=True,
        tells_empty_topics=False,
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: TopicShape(
        response="DeleteShareGroupOffsetsResponse",
        topic="DeleteShareGroupOffsetsResponseTopic",
        answered_topics="responses",
        name="topic_name",
        has_message=True,
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: TopicShape(
        response="DescribeTopicPartitionsResponse", topic="DescribeTopicPartitionsResponseTopic"
    ),
}
