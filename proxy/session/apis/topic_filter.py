"""Requests that list topics by name: the denied ones are taken out, and put back into the answer refused.

Serves every API of that shape; what the shape is, says topic_shapes, which operation on the topics is asked
for, the API's own file.
"""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.order import in_request_order
from proxy.session.apis.topic_shapes import TopicShape
from proxy.session.call import Answer, Call, Forward, ReplyHandler, Verdict
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced


def filter_topics(call: Call, request: Any, shape: TopicShape, operation: Operation) -> Verdict:
    """Forward the topics they may do `operation` to; answer here when that is none of those asked for."""
    names = [getattr(topic, shape.name) for topic in paced(shape.asked(request))]
    allowed = call.allowed_names(operation, ResourceType.TOPIC, names)
    merge = take_out(request, shape, allowed)
    if merge is None:
        return Forward()
    if not shape.asked(request):
        answer = getattr(types, shape.response)()
        merge(answer)
        return Answer(answer)
    return Forward(request, merge)


def take_out(
    request: Any,
    shape: TopicShape,
    allowed: set[str],
    error_code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    message: str | None = None,
) -> ReplyHandler | None:
    """Leave only the allowed topics in the request; the result puts the others into the answer, refused.

    None: all are allowed, nothing was changed.
    """
    asked = shape.asked(request)
    names = [getattr(topic, shape.name) for topic in paced(asked)]
    if allowed.issuperset(names):
        return None
    denied = [topic for topic, name in zip(asked, paced(names), strict=True) if name not in allowed]
    refused = shape.refuse_topics(denied, error_code, message)
    setattr(request, shape.asked_topics, [topic for topic in asked if getattr(topic, shape.name) in allowed])

    def merge(response: Any) -> None:
        parts = [*getattr(response, shape.answered_topics), *refused]
        ordered = in_request_order(names, parts, lambda part: getattr(part, shape.name))
        setattr(response, shape.answered_topics, ordered)

    return merge
