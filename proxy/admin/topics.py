"""The topics that CreateTopics, CreatePartitions and DeleteTopics reject (KIP-4, KIP-195, KIP-516, KIP-525).

The rules are the same at the proxy and at the controller, with the errors and messages of Kafka's
ControllerApis. A topic that is named twice is rejected before any right is checked. The functions return
errors by topic; their callers add errors of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Generic, TypeAlias, TypeVar

from proxy.admin.authorization import Authorization
from proxy.admin.rejection import MESSAGES, PartError, TopicShape, in_request_order
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Response
from proxy.wire.work import Elements, paced

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics in which brokers store their own state; clients' transactions may not write to them."""
NO_TOPIC_ID = bytes(16)
NOT_HOSTED = "This server does not host this topic-partition."
ID_NOT_HOSTED = "This server does not host this topic ID."

_MAX_NAME_LENGTH = 249
_LEGAL_NAME = re.compile(rf"[a-zA-Z0-9._-]{{1,{_MAX_NAME_LENGTH}}}")
_UNKNOWN_COUNT = -1
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

Topic: TypeAlias = (
    "types.CreateTopicsRequest.CreatableTopic | types.CreatePartitionsRequest.CreatePartitionsTopic"
)
Shortened = TypeVar("Shortened", "types.CreateTopicsRequest", "types.CreatePartitionsRequest")

TopicKey = tuple[str | None, bytes]
"""A topic in a DeleteTopics request: by name (with the zero id) or by id (without a name)."""

Errors = dict[str, PartError]
DeletionError = tuple[str | None, ErrorCode, str]
"""The name to report, the error, its message."""

CREATE_TOPICS = TopicShape(response="CreateTopicsResponse", topic="CreatableTopicResult", has_message=True)
CREATE_PARTITIONS = TopicShape(
    response="CreatePartitionsResponse",
    topic="CreatePartitionsTopicResult",
    response_topics="results",
    has_message=True,
)


def is_valid_name(name: str) -> bool:
    """Whether a topic may have this name."""
    return name not in (".", "..") and _LEGAL_NAME.fullmatch(name) is not None


def creation_errors(authorization: Authorization, request: types.CreateTopicsRequest) -> Errors:
    """Return the errors of a request that needs CREATE on the cluster or on each topic."""
    times = Counter(topic.name for topic in request.topics)
    errors = _duplicates(times)
    if CLUSTER_METADATA_TOPIC in times:
        message = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        errors.setdefault(CLUSTER_METADATA_TOPIC, (ErrorCode.INVALID_REQUEST, message))
    once = [name for name in times if name not in errors]
    creatable = authorization.allowed_topics(Operation.CREATE, once)
    return errors | {name: (_DENIED, "Authorization failed.") for name in once if name not in creatable}


def partition_errors(authorization: Authorization, request: types.CreatePartitionsRequest) -> Errors:
    """Return the errors of a request that needs ALTER on each topic."""
    times = Counter(topic.name for topic in request.topics)
    errors = _duplicates(times)
    once = [name for name in times if name not in errors]
    alterable = authorization.allowed_names(Operation.ALTER, ResourceType.TOPIC, once)
    return errors | {name: (_DENIED, None) for name in once if name not in alterable}


def _duplicates(times: Mapping[str, int]) -> Errors:
    error = (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    return {name: error for name, count in times.items() if count > 1}


class Merge(Generic[Response]):
    """The rejected topics of a CreateTopics or CreatePartitions request, to be merged into its response."""

    def __init__(
        self,
        shape: TopicShape,
        request: types.CreateTopicsRequest | types.CreatePartitionsRequest,
        errors: Mapping[str, PartError],
    ) -> None:
        """`request`: as the client sent it."""
        self._shape = shape
        topics: Sequence[Topic] = request.topics
        self._requested = list(dict.fromkeys(topic.name for topic in topics))
        first = {topic.name: topic for topic in topics[::-1]}
        rejected = [name for name in self._requested if name in errors]
        self._rejected = [shape.reject_topic(first[name], *errors[name]) for name in rejected]

    def into(self, response: Response) -> Response:
        """Merge the rejected topics into the response, in the order of the request."""
        parts: list[Any] = [*getattr(response, self._shape.response_topics), *self._rejected]
        ordered = in_request_order(self._requested, parts, lambda part: part.name)
        setattr(response, self._shape.response_topics, ordered)
        return response

    def alone(self) -> Response:
        """Return the response if all topics are rejected."""
        empty: Response = getattr(types, self._shape.response)()
        return self.into(empty)


def hide_configs(
    topics: Iterable[types.CreateTopicsResponse.CreatableTopicResult], describable: Collection[str]
) -> None:
    """Hide the configs of created topics from clients without DESCRIBE_CONFIGS on them (KIP-525)."""
    for topic in topics:
        if topic.error_code == ErrorCode.NONE and topic.name not in describable:
            topic.topic_config_error_code = _DENIED
            topic.configs = []
            topic.num_partitions = topic.replication_factor = _UNKNOWN_COUNT


def topics_to_delete(request: types.DeleteTopicsRequest) -> list[TopicKey]:
    """Return the topics in the order of the request, with duplicates."""
    named: list[TopicKey] = [(name, NO_TOPIC_ID) for name in request.topic_names]
    return Elements(named + [(topic.name, bytes(topic.topic_id)) for topic in request.topics])


def names_a_topic(key: TopicKey) -> bool:
    """Whether it has a name or an id, and not both."""
    name, topic_id = key
    return (name is None) == any(topic_id)


def deletion_errors(
    authorization: Authorization, names: Mapping[TopicKey, str | None], times: Mapping[TopicKey, int]
) -> tuple[dict[TopicKey, DeletionError], dict[TopicKey, str]]:
    """Return the errors of a request that needs DELETE on the cluster or on each topic.

    `names`: the name of each topic, None for an unknown id. The second result has the rejected topics that
    were named by a client which may describe them; if one of them does not exist its error is `missing_topic`
    instead.
    """
    # Some microseconds for each topic until the first is decided: too long in one go for 50,000.
    errors = {
        key: error
        for key in paced(list(times), 2)
        if (error := _malformed(key, times[key], names[key])) is not None
    }
    valid = {key: name for key, name in paced(list(names.items())) if key not in errors and name is not None}
    deletable = _deletable(authorization, valid)
    undeletable = {key: name for key, name in paced(list(valid.items())) if key not in deletable}
    describable = authorization.shows(Operation.DESCRIBE, ResourceType.TOPIC, undeletable.values())
    for key, name in paced(list(undeletable.items())):
        # The name of an id is reported only to clients that may describe the topic.
        reported = name if key[0] is not None or name in describable else None
        errors[key] = reported, _DENIED, MESSAGES[_DENIED]
    return errors, {key: name for key, name in undeletable.items() if key[0] in describable}


def missing_topic(name: str) -> DeletionError:
    return name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED


def _malformed(key: TopicKey, count: int, known_as: str | None) -> DeletionError | None:
    name, topic_id = key
    if name is None and not any(topic_id):
        return None, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
    if name is not None and any(topic_id):
        return name, ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
    if count > 1:
        return name, ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}."
    if known_as is None:
        return None, ErrorCode.UNKNOWN_TOPIC_ID, ID_NOT_HOSTED
    return None


def _deletable(authorization: Authorization, topics: Mapping[TopicKey, str]) -> set[TopicKey]:
    allowed = authorization.allowed_topics(Operation.DELETE, topics.values())
    deletable = {key for key, name in paced(list(topics.items())) if name in allowed}
    named = [name for key, name in paced(list(topics.items())) if key in deletable and key[0] is not None]
    describable = authorization.shows(Operation.DESCRIBE, ResourceType.TOPIC, named)
    hidden = [name for name in named if name not in describable]
    if not hidden or authorization.shows(Operation.DELETE, ResourceType.CLUSTER, (CLUSTER_NAME,)):
        return deletable
    # DELETE implies DESCRIBE, except against a DENY of DESCRIBE: then Kafka denies a topic that is named.
    authorization.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, hidden)
    return {key for key in deletable if key[0] is None or topics[key] in describable}


class DeletionMerge:
    """The rejected topics of a DeleteTopics request, to be merged into its response."""

    def __init__(self, times: Mapping[TopicKey, int], errors: Mapping[TopicKey, DeletionError]) -> None:
        """`times`: how often each topic is in the request."""
        result = types.DeleteTopicsResponse.DeletableTopicResult
        self._requested = list(times)
        # Kafka responds once to a topic that is there twice, but each time to what names no topic.
        self._rejected = [
            (key, result(name=name, topic_id=key[1], error_code=code, error_message=message))
            for key, (name, code, message) in errors.items()
            for _ in range(1 if names_a_topic(key) else times[key])
        ]
        self.allowed = [key for key in paced(self._requested) if key not in errors]

    def into(self, response: types.DeleteTopicsResponse) -> types.DeleteTopicsResponse:
        """Merge the rejected topics into the response, in the order of the request."""
        by_id = {topic_id for name, topic_id in self.allowed if name is None}
        keyed = [(_key_of_result(topic, by_id), topic) for topic in response.responses]
        ordered = in_request_order(self._requested, [*keyed, *self._rejected], lambda pair: pair[0])
        response.responses = [topic for _, topic in ordered]
        return response

    def alone(self) -> types.DeleteTopicsResponse:
        """Return the response if all topics are rejected."""
        return self.into(types.DeleteTopicsResponse())


def _key_of_result(
    topic: types.DeleteTopicsResponse.DeletableTopicResult, by_id: Collection[bytes]
) -> TopicKey:
    topic_id = bytes(topic.topic_id)
    return (None, topic_id) if topic_id in by_id else (topic.name, NO_TOPIC_ID)


def with_topics(request: Shortened, topics: list[Any]) -> Shortened:
    """Return the same CreateTopics or CreatePartitions request with only these topics."""
    narrowed = copy(request)  # With the tagged fields that are not known here.
    narrowed.topics = topics
    return narrowed


def deletion_of(request: types.DeleteTopicsRequest, topics: list[TopicKey]) -> types.DeleteTopicsRequest:
    """Return the same DeleteTopics request with only these topics, in the fields of its version."""
    narrowed = copy(request)
    if request.topic_names:
        narrowed.topic_names = [name for name, _ in topics if name is not None]
    else:
        narrowed.topics = [
            request.DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics
        ]
    return narrowed
