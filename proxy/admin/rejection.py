"""Responses that report an error: one for all of a request, or one for each of its parts.

Used by the files of single APIs and by the controller. Errors stand where Kafka's clients look for them: some
responses have one error for all, others one for each part, and some differ by version.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Protocol, TypedDict, TypeVar

from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message
from proxy.wire.work import paced, paced_sorted

MESSAGES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""What Kafka's own clients print for a denial."""

Part = TypeVar("Part")
Key = TypeVar("Key", bound=Hashable)

PartError = tuple[ErrorCode, str | None]
"""The error of one part of a request, and its message."""


class Error(TypedDict):
    """What a response, or a part of one, reports."""

    error_code: int
    error_message: str | None


Reject = Callable[[int, Any, Error], Message]
"""Version, decoded request, error -> the response in which all of the request failed."""


def code_only(response: str, **fields: object) -> Reject:
    """One error code for all, without a message."""
    return lambda _version, _request, error: getattr(types, response)(
        error_code=error["error_code"], **fields
    )


def code_and_message(response: str, **fields: object) -> Reject:
    """One error code for all, with a message."""
    return lambda _version, _request, error: getattr(types, response)(**error, **fields)


def each_part(
    response: str,
    parts: str,
    struct: str,
    repeated: Callable[[Any], Iterable[Mapping[str, object]]],
    *,
    has_message: bool = False,
) -> Reject:
    """An error for each part of the request. `repeated`: the attributes that the response repeats of each."""

    def reject(_version: int, request: Message, error: Error) -> Any:
        message = getattr(types, response)
        part = getattr(message, struct)
        fields = error if has_message else {"error_code": error["error_code"]}
        return message(**{parts: [part(**each, **fields) for each in repeated(request)]})

    return reject


def in_request_order(
    asked: Iterable[Hashable], parts: Iterable[Part], key: Callable[[Part], Hashable]
) -> list[Part]:
    """The parts of a response in the order in which the request asked for them; others come last.

    Brokers group and reorder parts as they like; a client whose parts come in the order of its request cannot
    read from their places which of them were rejected before the broker saw them.
    """
    places: dict[Hashable, int] = {}
    for name in paced(list(asked)):
        places.setdefault(name, len(places))
    keyed = [(places.get(key(part), len(places)), part) for part in paced(list(parts))]
    return [part for _, part in paced_sorted(keyed, itemgetter(0))]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """How a request lists topics, and where its response has an error for each of them.

    Names of structs and attributes, as in the schemas; request and response name topics by the same
    attribute.
    """

    response: str
    topic: str
    """Struct of one topic in the response."""
    partition: str | None = None
    """Struct of one partition in it; None: the error stands at the topic itself."""
    request_topics: str = "topics"
    """Attribute of the request."""
    response_topics: str = "topics"
    """Attribute of the response."""
    name: str = "name"
    carried: tuple[str, ...] = ()
    """Other attributes of the topic that the response repeats."""
    request_partitions: str = "partitions"
    request_index: str | None = "partition_index"
    """None: the partitions of the request are plain numbers."""
    response_partitions: str = "partitions"
    response_index: str = "partition_index"
    error_code: str = "error_code"
    has_message: bool = False
    reports_empty_topics: bool = True
    """Whether the response has topics without partitions: a broker that responds by partition has none."""
    placeholders: Mapping[str, object] = field(default_factory=dict)
    """Other attributes of a rejected partition."""

    def reject_topic(self, topic: Message, error_code: int, message: str | None = None) -> Any:
        """The part of a response that rejects this topic of a request."""
        response = getattr(types, self.response)
        repeated = {name: getattr(topic, name) for name in (self.name, *self.carried)}
        error = {self.error_code: error_code} | ({"error_message": message} if self.has_message else {})
        if self.partition is None:
            return getattr(response, self.topic)(**repeated, **error)
        partition = getattr(response, self.partition)
        partitions = [
            partition(**{self.response_index: index}, **error, **self.placeholders)
            for index in self.indexes(topic)
        ]
        return getattr(response, self.topic)(**repeated, **{self.response_partitions: partitions})

    def reject_topics(
        self, topics: Iterable[Message], error_code: int, message: str | None = None
    ) -> list[Any]:
        """The parts of a response that reject these topics of a request."""
        reported = (topic for topic in topics if self.reports_empty_topics or self.indexes(topic))
        return [self.reject_topic(topic, error_code, message) for topic in reported]

    def reject_all(self, request: Message, error_code: int, message: str | None = None) -> Any:
        """The response that rejects every topic of the request."""
        topics = self.reject_topics(self.topics(request), error_code, message)
        return getattr(types, self.response)(**{self.response_topics: topics})

    def reject(self, _version: int, request: Message, error: Error) -> Any:
        """`reject_all`, as a row of the table of APIs wants it."""
        return self.reject_all(request, error["error_code"], error["error_message"])

    def topics(self, request: Message) -> list[Any]:
        """The topics of a request; empty when it means all of them."""
        return getattr(request, self.request_topics) or []

    def indexes(self, topic: Message) -> list[int]:
        """The partitions of a topic of a request."""
        partitions = getattr(topic, self.request_partitions)
        return [p if self.request_index is None else getattr(p, self.request_index) for p in partitions]


def rejected_parts(response: Message | None, parts: str, identity: Callable[[Any], Key]) -> set[Key]:
    """The parts of a response that report an error, by `identity`; none without a response."""
    answered: Sequence[Any] = () if response is None else getattr(response, parts, ())
    return {identity(part) for part in paced(answered) if not succeeded(part)}


class HasErrorCode(Protocol):
    """A response, or a part of one, that reports an error or none."""

    error_code: int


def succeeded(part: HasErrorCode) -> bool:
    """Whether a response, or a part of one, reports no error."""
    return bool(part.error_code == ErrorCode.NONE)
