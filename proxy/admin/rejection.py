"""Responses that report an error: one for the whole request, or one for each of its parts.

The errors are where Kafka's clients look for them: some responses have one error, others one for each part,
and some differ by version.
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
    ErrorCode.ILLEGAL_SASL_STATE: "Request is not valid given the current SASL state.",
}
"""The texts of error codes, as Kafka's own clients print them."""

Part = TypeVar("Part")
Key = TypeVar("Key", bound=Hashable)

PartError = tuple[ErrorCode, str | None]
"""The error of one part of a request, and its message."""


class Error(TypedDict):
    """The error fields of a response or of a part of one."""

    error_code: int
    error_message: str | None


Reject = Callable[[int, Any, Error], Message]
"""Version, decoded request, error -> the response in which the whole request failed."""


def code_only(response: str, **fields: object) -> Reject:
    """Return a function that makes a response with one error code and no message."""
    return lambda _version, _request, error: getattr(types, response)(
        error_code=error["error_code"], **fields
    )


def code_and_message(response: str, **fields: object) -> Reject:
    """Return a function that makes a response with one error code and a message."""
    return lambda _version, _request, error: getattr(types, response)(**error, **fields)


def each_part(
    response: str,
    parts: str,
    struct: str,
    repeated: Callable[[Any], Iterable[Mapping[str, object]]],
    *,
    has_message: bool = False,
) -> Reject:
    """Return a function that makes a response with an error for each part of the request.

    `repeated` returns the attributes of each part that the response repeats.
    """

    def reject(_version: int, request: Message, error: Error) -> Any:
        message = getattr(types, response)
        part = getattr(message, struct)
        fields = error if has_message else {"error_code": error["error_code"]}
        return message(**{parts: [part(**each, **fields) for each in repeated(request)]})

    return reject


def in_request_order(
    requested: Iterable[Hashable], parts: Iterable[Part], key: Callable[[Part], Hashable]
) -> list[Part]:
    """Return the parts of a response in the order of the request; others come last.

    Brokers group and reorder parts. In the order of the request, their places do not show a client which of
    them were rejected before the broker saw them.
    """
    wanted, found = list(requested), list(parts)
    keys = [key(part) for part in paced(found)]
    if keys == wanted:
        return found
    places: dict[Hashable, int] = {}
    for name in paced(wanted):
        places.setdefault(name, len(places))
    keyed = [(places.get(name, len(places)), part) for name, part in zip(keys, paced(found), strict=True)]
    return [part for _, part in paced_sorted(keyed, itemgetter(0))]


def merged_topics(
    topics: Iterable[Part], key: Callable[[Part], Hashable], partitions: str, index: str | None = None
) -> list[Part]:
    """Return the topics of a response, each once with all of its partitions; with `index` these once too.

    Brokers collect the results of denied topics by topic, or by partition.
    """
    by_key: dict[Hashable, list[Part]] = {}
    for topic in paced(list(topics)):
        by_key.setdefault(key(topic), []).append(topic)
    merged = []
    for first, *others in paced(list(by_key.values())):
        # In one pass, because a request may name one topic thousands of times.
        results = [result for topic in (first, *others) for result in getattr(topic, partitions)]
        if index is not None:
            results = list({getattr(result, index): result for result in results}.values())
        setattr(first, partitions, results)
        merged.append(first)
    return merged


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """How a request lists topics, and where its response has an error for each of them.

    The fields are names of structs and attributes, as in the schemas. Request and response name topics by the
    same attribute.
    """

    response: str
    topic: str
    """The struct of one topic in the response."""
    partition: str | None = None
    """The struct of one partition in it; None: the error is in the topic itself."""
    request_topics: str = "topics"
    """The attribute of the request."""
    response_topics: str = "topics"
    """The attribute of the response."""
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
    """Whether the response has topics without partitions; a broker that responds by partition omits them."""
    merges_topics: bool = False
    """Whether a topic that is named twice is reported once, if a topic of the request is denied."""
    reports_partitions_once: bool = False
    """Whether, then, a partition that is named twice is reported once too."""
    placeholders: Mapping[str, object] = field(default_factory=dict)
    """Other attributes of a rejected partition."""

    def reject_topic(self, topic: Message, error_code: int, message: str | None = None) -> Any:
        """Return the part of a response that rejects this topic of a request."""
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
        """Return the parts of a response that reject these topics of a request."""
        reported = (topic for topic in topics if self.reports_empty_topics or self.indexes(topic))
        return [self.reject_topic(topic, error_code, message) for topic in reported]

    def as_reported(self, topics: list[Part]) -> list[Part]:
        """Return the topics of a response, of which some are rejected, as a broker reports them if the
        request names one twice."""
        if not self.merges_topics:
            return topics
        index = self.response_index if self.reports_partitions_once else None
        return merged_topics(topics, self.key, self.response_partitions, index)

    def key(self, topic: object) -> tuple[Hashable, ...]:
        """Return what identifies a topic, in the request as in the response."""
        named = (getattr(topic, name) for name in (self.name, *self.carried))
        return tuple(bytes(value) if isinstance(value, memoryview) else value for value in named)

    def reject_all(self, request: Message, error_code: int, message: str | None = None) -> Any:
        """Return the response that rejects every topic of the request."""
        topics = self.reject_topics(self.topics(request), error_code, message)
        return getattr(types, self.response)(**{self.response_topics: topics})

    def reject(self, _version: int, request: Message, error: Error) -> Any:
        """Call `reject_all`; this signature is that of the table of APIs."""
        return self.reject_all(request, error["error_code"], error["error_message"])

    def topics(self, request: Message) -> list[Any]:
        """Return the topics of a request; empty if it means all of them."""
        return getattr(request, self.request_topics) or []

    def indexes(self, topic: Message) -> list[int]:
        """Return the partitions of a topic of a request."""
        partitions = getattr(topic, self.request_partitions)
        return [p if self.request_index is None else getattr(p, self.request_index) for p in partitions]


def take_out(
    request: Message,
    shape: TopicShape,
    allowed: set[str],
    error_code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    message: str | None = None,
) -> Callable[[Any], None] | None:
    """Remove denied topics from the request; the returned handler adds them to the response, with the error.

    None: all are allowed, and nothing was changed.
    """
    requested = shape.topics(request)
    names = [getattr(topic, shape.name) for topic in paced(requested)]
    if allowed.issuperset(names):
        return None
    denied = [topic for topic, name in zip(requested, paced(names), strict=True) if name not in allowed]
    rejected = shape.reject_topics(denied, error_code, message)
    setattr(
        request, shape.request_topics, [topic for topic in requested if getattr(topic, shape.name) in allowed]
    )

    def merge(response: Message) -> None:
        parts = shape.as_reported([*getattr(response, shape.response_topics), *rejected])
        ordered = in_request_order(names, parts, lambda part: getattr(part, shape.name))
        setattr(response, shape.response_topics, ordered)

    return merge


def denied_alone(shape: TopicShape, merge: Callable[[Any], None]) -> Any:
    """Return the response to a request of which nothing is left."""
    response = getattr(types, shape.response)()
    merge(response)
    return response


def rejected_parts(response: Message | None, parts: str, identity: Callable[[Any], Key]) -> set[Key]:
    """Return the parts of a response that report an error, by `identity`; none without a response."""
    reported: Sequence[Any] = () if response is None else getattr(response, parts, ())
    return {identity(part) for part in paced(reported) if not succeeded(part)}


class HasErrorCode(Protocol):
    """A response, or a part of one, with an error code."""

    error_code: int


def succeeded(part: HasErrorCode) -> bool:
    """Whether a response, or a part of one, reports no error."""
    return bool(part.error_code == ErrorCode.NONE)
