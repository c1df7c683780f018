"""DescribeTopicPartitions (KIP-966): DESCRIBE on each topic, page by page.

Asked for by name, denied topics are TOPIC_AUTHORIZATION_FAILED whether they exist or not; in a list of all
they are left out, and so they are of the pages' ends (topic_pages). Authorised operations are always told.
"""

from typing import Any

from proxy.admin.rejection import TopicShape
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.authorized_operations import of_topic
from proxy.session.apis.topic_pages import page_of_all
from proxy.session.call import Answer, Api, Call, Forward, Verdict, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

SHAPE = TopicShape(response="DescribeTopicPartitionsResponse", topic="DescribeTopicPartitionsResponseTopic")


RAW = ("topics.partitions",)
_NO_PARTITIONS = b"\x01"


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    begin = "" if request.cursor is None else request.cursor.topic_name
    if not request.topics:
        return page_of_all(call, request, lambda topics: _finish(call, topics))
    asked = dict.fromkeys(topic.name for topic in request.topics)
    if request.cursor is not None and (begin not in asked or request.cursor.partition_index < 0):
        message = (
            f"The cursor is at partition {request.cursor.partition_index} of {begin}, which is not asked for."
        )
        return reject(call, request, ErrorCode.INVALID_REQUEST, message)
    return _by_name(call, request, begin)


def _by_name(call: Call, request: Any, begin: str) -> Verdict:
    # Topics before the cursor were told on an earlier page.
    topics = {topic.name: topic for topic in request.topics if topic.name >= begin}
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, topics)
    denied = [_refused(topic) for name, topic in topics.items() if name not in allowed]
    if denied and not allowed:
        return Answer(types.DescribeTopicPartitionsResponse(topics=denied))

    def on_reply(response: Any) -> None:
        told = [topic for topic in response.topics if topic.name in allowed]
        _finish(call, told)
        # The broker has sorted its topics for the cursor; refused ones follow.
        for part in denied:
            part.partitions = _NO_PARTITIONS
        response.topics = [*told, *denied]

    if not denied:
        return Forward(None, on_reply, RAW)
    request.topics = [topic for topic in request.topics if topic.name in allowed]
    if request.cursor is not None and begin not in allowed:
        # A broker wants the cursor's topic among those asked for; without it the page begins right after.
        request.cursor = None
    return Forward(request, on_reply, RAW)


def _refused(topic: Any) -> Any:
    return SHAPE.reject_topic(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _finish(call: Call, topics: list[Any]) -> None:
    for topic in topics:
        call.gate.topic_names.learn(bytes(topic.topic_id), topic.name)
        topic.topic_authorized_operations = of_topic(call, topic.name)


APIS = (Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, decide, SHAPE.reject, repeatable=True),)
