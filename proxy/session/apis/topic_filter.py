"""Removes denied topics from a request, and adds them to the response with their error.

Used by every API that lists topics by name or by id. The API's own `TopicShape` describes request and
response; the API's own file names the operation that is needed. The names of ids come from earlier Metadata
responses.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from proxy.admin.rejection import TopicShape, denied_alone, in_request_order, take_out
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.topic_existence import with_names
from proxy.session.call import Call, Forward, Respond, ResponseHandler, Verdict
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message


def filter_topics(call: Call, request: Message, shape: TopicShape, operation: Operation) -> Verdict:
    """Forward the topics on which `operation` is allowed; respond here if none is."""
    names = [getattr(topic, shape.name) for topic in shape.topics(request)]
    allowed = call.allowed_names(operation, ResourceType.TOPIC, names)
    merge = take_out(request, shape, allowed)
    if merge is None:
        return Forward()
    if not shape.topics(request):
        return Respond(denied_alone(shape, merge))
    return Forward(request, merge)


def filter_topic_ids(call: Call, request: Message, shape: TopicShape, operation: Operation) -> Verdict:
    """Do the same for a request that names topics by id; an id without a name is UNKNOWN_TOPIC_ID."""
    topics = shape.topics(request)
    requested = [bytes(topic.topic_id) for topic in topics]

    def named() -> Verdict:
        errors = errors_by_id(call, operation, topics)
        if not errors:
            return Forward()
        rejected = [
            shape.reject_topic(topic, errors[topic_id])
            for topic, topic_id in zip(topics, requested, strict=True)
            if topic_id in errors
        ]

        def merge(response: Message) -> None:
            parts = shape.as_reported([*getattr(response, shape.response_topics), *rejected])
            ordered = in_request_order(requested, parts, lambda topic: bytes(topic.topic_id))
            setattr(response, shape.response_topics, ordered)

        left = [topic for topic in topics if bytes(topic.topic_id) not in errors]
        if not left:
            return Respond(denied_alone(shape, merge))
        setattr(request, shape.request_topics, left)
        return Forward(request, merge)

    return with_names(call, requested, named)


def unless_failed(merge: ResponseHandler | None) -> ResponseHandler | None:
    """Merge only into a response without an error: one of the group is reported alone, without topics."""
    if merge is None:
        return None

    def on_response(response: Any) -> None:
        if response.error_code == ErrorCode.NONE:
            merge(response)

    return on_response


class HasTopicId(Protocol):
    """A topic that a request names by its id."""

    topic_id: bytes


TopicErrors = Mapping[bytes, ErrorCode]


def errors_by_id(call: Call, operation: Operation, topics: Iterable[HasTopicId]) -> TopicErrors:
    """Return id -> error of every topic whose name is unknown or on which `operation` is denied."""
    return id_errors(call, operation, (bytes(topic.topic_id) for topic in topics))


def id_errors(call: Call, operation: Operation, topic_ids: Iterable[bytes]) -> TopicErrors:
    """Do the same for bare ids."""
    name_of = call.gate.topic_names.name
    names = {topic_id: name_of(topic_id) for topic_id in topic_ids}
    known = [name for name in names.values() if name is not None]
    allowed = call.allowed_names(operation, ResourceType.TOPIC, known)
    return {
        topic_id: ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for topic_id, name in names.items()
        if name not in allowed
    }
