"""One page of a list of all topics (KIP-966), made of the broker's pages without the topics that are hidden.

The broker is asked as often as it takes: neither a page nor the cursor to the next one may show where a
hidden topic stands. Used by DescribeTopicPartitions.
"""

from collections.abc import Callable
from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.call import Answer, Ask, Call, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey

MAX_PARTITIONS = 2_000
"""Of one page: what `max.request.partition.size.limit` of a broker is by default."""

Finish = Callable[[list[Any]], None]
"""Gets the topics that are told, before they are."""


def page_of_all(call: Call, request: Any, finish: Finish) -> Verdict:
    """The page that begins at the request's cursor."""
    limit = max(min(request.response_partition_limit, MAX_PARTITIONS), 1)
    return _ask(call, request.cursor, [], limit, finish)


def _ask(call: Call, cursor: Any, told: list[Any], limit: int, finish: Finish) -> Verdict:
    question = types.DescribeTopicPartitionsRequest(response_partition_limit=MAX_PARTITIONS, cursor=cursor)

    def answered(reply: Any) -> Verdict:
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
        return Answer(response)

    return Ask(int(ApiKey.DESCRIBE_TOPIC_PARTITIONS), call.version, question, answered)


def _gather(told: list[Any], topics: list[Any]) -> None:
    """A topic that the end of a page has cut goes on at the begin of the next."""
    for topic in topics:
        if told and told[-1].name == topic.name:
            told[-1].partitions += topic.partitions
        else:
            told.append(topic)


def _count(topics: list[Any]) -> int:
    return sum(len(topic.partitions) for topic in topics)


def _place(cursor: Any) -> tuple[str, int]:
    return ("", -1) if cursor is None else (cursor.topic_name, cursor.partition_index)


def _cut(topics: list[Any], limit: int) -> Any:
    """The answer with as many partitions as fit, and where the next page begins."""
    response = types.DescribeTopicPartitionsResponse
    page: list[Any] = []
    for topic in topics:
        if limit == 0 or len(topic.partitions) > limit:
            index = next((part.partition_index for part in topic.partitions[limit:]), 0)
            topic.partitions = topic.partitions[:limit]
            page += [topic] if limit else []
            cursor = response.Cursor(topic_name=topic.name, partition_index=index)
            return response(topics=page, next_cursor=cursor)
        page.append(topic)
        limit -= len(topic.partitions)
    return response(topics=page)
