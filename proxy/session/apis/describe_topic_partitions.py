"""DescribeTopicPartitions (KIP-966): DESCRIBE on each topic, page by page.

Asked for by name, denied topics are TOPIC_AUTHORIZATION_FAILED whether they exist or not; in a list of all
they are left out, and so they are of the pages' ends: a page of all topics is made of as many of the broker's
pages as it takes, since neither a page nor the cursor to the next one may show where a hidden topic stands.
Authorised operations are always told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from proxy.admin.rejection import TopicShape
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.authorized_operations import of_topic
from proxy.session.call import Api, Call, Forward, QueryBroker, Respond, Verdict, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

SHAPE = TopicShape(response="DescribeTopicPartitionsResponse", topic="DescribeTopicPartitionsResponseTopic")

RAW = ("topics.partitions",)
_NO_PARTITIONS = b"\x01"

MAX_PARTITIONS = 2_000
"""Of one page: what `max.request.partition.size.limit` of a broker is by default."""

Topic: TypeAlias = "types.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic"
Finish = Callable[[list[Topic]], None]
"""Gets the topics that are told, before they are."""


def decide(call: Call, request: types.DescribeTopicPartitionsRequest) -> Verdict:
    """See the module."""
    begin = "" if request.cursor is None else request.cursor.topic_name
    if not request.topics:
        return _page_of_all(call, request, lambda topics: _finish(call, topics))
    asked = dict.fromkeys(topic.name for topic in request.topics)
    if request.cursor is not None and (begin not in asked or request.cursor.partition_index < 0):
        message = (
            f"The cursor is at partition {request.cursor.partition_index} of {begin}, which is not asked for."
        )
        return reject(call, request, ErrorCode.INVALID_REQUEST, message)
    return _by_name(call, request, begin)


def _by_name(call: Call, request: types.DescribeTopicPartitionsRequest, begin: str) -> Verdict:
    # Topics before the cursor were told on an earlier page.
    topics = {topic.name: topic for topic in request.topics if topic.name >= begin}
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, topics)
    denied = [_refused(topic) for name, topic in topics.items() if name not in allowed]
    if denied and not allowed:
        return Respond(types.DescribeTopicPartitionsResponse(topics=denied))

    def on_response(response: types.DescribeTopicPartitionsResponse) -> None:
        told = [topic for topic in response.topics if topic.name in allowed]
        _finish(call, told)
        # The broker has sorted its topics for the cursor; refused ones follow.
        for part in denied:
            part.partitions = _NO_PARTITIONS  # type: ignore[assignment] # of RAW: as encoded
        response.topics = [*told, *denied]

    if not denied:
        return Forward(None, on_response, RAW)
    request.topics = [topic for topic in request.topics if topic.name in allowed]
    if request.cursor is not None and begin not in allowed:
        # A broker wants the cursor's topic among those asked for; without it the page begins right after.
        request.cursor = None
    return Forward(request, on_response, RAW)


def _refused(topic: types.DescribeTopicPartitionsRequest.TopicRequest) -> Topic:
    refused: Topic = SHAPE.reject_topic(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return refused


def _finish(call: Call, topics: list[Topic]) -> None:
    for topic in topics:
        call.gate.topic_names.learn(bytes(topic.topic_id), topic.name or "")
        topic.topic_authorized_operations = of_topic(call, topic.name or "")


def _page_of_all(call: Call, request: types.DescribeTopicPartitionsRequest, finish: Finish) -> Verdict:
    """The page that begins at the request's cursor."""
    limit = max(min(request.response_partition_limit, MAX_PARTITIONS), 1)
    return _ask(call, request.cursor, [], limit, finish)


def _ask(
    call: Call,
    cursor: types.DescribeTopicPartitionsRequest.Cursor | None,
    told: list[Topic],
    limit: int,
    finish: Finish,
) -> Verdict:
    question = types.DescribeTopicPartitionsRequest(response_partition_limit=MAX_PARTITIONS, cursor=cursor)

    def answered(reply: types.DescribeTopicPartitionsResponse) -> Verdict:
        names = [topic.name for topic in reply.topics if topic.name]
        shown = call.shows(Operation.DESCRIBE, ResourceType.TOPIC, names)
        _gather(told, [topic for topic in reply.topics if topic.name in shown])
        following = reply.next_cursor
        # One partition more than fits says where the next page begins.
        if following is not None and _count(told) <= limit and _place(following) > _place(cursor):
            where = types.DescribeTopicPartitionsRequest.Cursor(
                topic_name=following.topic_name, partition_index=following.partition_index
            )
            return _ask(call, where, told, limit, finish)
        response = _cut(told, limit)
        finish(response.topics)
        return Respond(response)

    return QueryBroker(int(ApiKey.DESCRIBE_TOPIC_PARTITIONS), call.version, question, answered)


def _gather(told: list[Topic], topics: list[Topic]) -> None:
    """A topic that the end of a page has cut goes on at the begin of the next."""
    for topic in topics:
        if told and told[-1].name == topic.name:
            told[-1].partitions += topic.partitions
        else:
            told.append(topic)


def _count(topics: list[Topic]) -> int:
    return sum(len(topic.partitions) for topic in topics)


def _place(
    cursor: types.DescribeTopicPartitionsRequest.Cursor | types.DescribeTopicPartitionsResponse.Cursor | None,
) -> tuple[str, int]:
    return ("", -1) if cursor is None else (cursor.topic_name, cursor.partition_index)


def _cut(topics: list[Topic], limit: int) -> types.DescribeTopicPartitionsResponse:
    """The answer with as many partitions as fit, and where the next page begins."""
    response = types.DescribeTopicPartitionsResponse
    page: list[Topic] = []
    for topic in topics:
        if limit == 0 or len(topic.partitions) > limit:
            index = next((part.partition_index for part in topic.partitions[limit:]), 0)
            topic.partitions = topic.partitions[:limit]
            page += [topic] if limit else []
            cursor = response.Cursor(topic_name=topic.name or "", partition_index=index)
            return response(topics=page, next_cursor=cursor)
        page.append(topic)
        limit -= len(topic.partitions)
    return response(topics=page)


APIS = (Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, decide, SHAPE.reject, repeatable=True),)
