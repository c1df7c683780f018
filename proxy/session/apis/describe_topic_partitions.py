"""DescribeTopicPartitions (KIP-966): DESCRIBE on each topic, page by page.

Requested by name, denied topics are TOPIC_AUTHORIZATION_FAILED whether they exist or not. A list of all
topics omits them, and so do the ends of its pages: neither a page nor the cursor to the next one may show
where a hidden topic is. So a page of all topics is made of as many of the broker's pages as needed.
Authorized operations are always included. A leader that clients cannot reach is -1.
"""

from __future__ import annotations

from typing import TypeAlias

from proxy.admin.rejection import TopicShape
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.addresses import NO_NODE, offline_replicas
from proxy.session.apis.authorized_operations import NOT_REQUESTED, of_topic
from proxy.session.call import Api, Call, Forward, QueryBroker, Respond, Verdict, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

SHAPE = TopicShape(response="DescribeTopicPartitionsResponse", topic="DescribeTopicPartitionsResponseTopic")

RAW = ("topics.partitions",)
_NO_PARTITIONS = b"\x01"

MAX_PARTITIONS = 2_000
"""The limit of one page: a broker's default of `max.request.partition.size.limit`."""

Topic: TypeAlias = "types.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic"


def decide(call: Call, request: types.DescribeTopicPartitionsRequest) -> Verdict:
    begin = "" if request.cursor is None else request.cursor.topic_name
    if not request.topics:
        limit = max(min(request.response_partition_limit, MAX_PARTITIONS), 1)
        return _query(call, request.cursor, [], limit)
    requested = dict.fromkeys(topic.name for topic in request.topics)
    if request.cursor is not None and (begin not in requested or request.cursor.partition_index < 0):
        message = (
            f"The cursor is at partition {request.cursor.partition_index} of {begin}, which is not requested."
        )
        return reject(call, request, ErrorCode.INVALID_REQUEST, message)
    return _by_name(call, request, begin)


def _by_name(call: Call, request: types.DescribeTopicPartitionsRequest, begin: str) -> Verdict:
    # Topics before the cursor were on an earlier page.
    topics = {topic.name: topic for topic in request.topics if topic.name >= begin}
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, topics)
    denied: list[Topic] = [
        SHAPE.reject_topic(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for name, topic in topics.items()
        if name not in allowed
    ]
    if denied and not allowed:
        return Respond(types.DescribeTopicPartitionsResponse(topics=denied))

    raw = () if call.listener.unreachable else RAW

    def on_response(response: types.DescribeTopicPartitionsResponse) -> None:
        found = [topic for topic in response.topics if topic.name in allowed]
        _finish(call, found, are_raw=bool(raw))
        # The broker has sorted its topics for the cursor; rejected ones follow.
        for part in denied if raw else ():
            part.partitions = _NO_PARTITIONS  # type: ignore[assignment] # of RAW: as encoded
        response.topics = [*found, *denied]

    if not denied:
        return Forward(None, on_response, raw)
    request.topics = [topic for topic in request.topics if topic.name in allowed]
    if request.cursor is not None and begin not in allowed:
        # A broker requires the cursor's topic in the request; without a cursor the page begins after it.
        request.cursor = None
    return Forward(request, on_response, raw)


def _finish(call: Call, topics: list[Topic], are_raw: bool = False) -> None:
    hidden = () if are_raw else call.listener.unreachable
    for topic in topics:
        for partition in topic.partitions if hidden else ():
            if partition.leader_id in hidden:
                partition.leader_id = NO_NODE
            partition.offline_replicas = offline_replicas(partition, hidden)
        call.gate.topic_names.learn(bytes(topic.topic_id), topic.name or "")
        topic.topic_authorized_operations = of_topic(call, topic.name) if topic.name else NOT_REQUESTED


def _query(
    call: Call, cursor: types.DescribeTopicPartitionsRequest.Cursor | None, gathered: list[Topic], limit: int
) -> Verdict:
    query = types.DescribeTopicPartitionsRequest(response_partition_limit=MAX_PARTITIONS, cursor=cursor)

    def responded(response: types.DescribeTopicPartitionsResponse) -> Verdict:
        names = [topic.name for topic in response.topics if topic.name]
        shown = call.shows(Operation.DESCRIBE, ResourceType.TOPIC, names)
        _gather(gathered, [topic for topic in response.topics if topic.name in shown])
        following = response.next_cursor
        # One partition beyond the limit shows where the next page begins.
        if (
            following is not None
            and sum(len(topic.partitions) for topic in gathered) <= limit
            and _place(following) > _place(cursor)
        ):
            where = types.DescribeTopicPartitionsRequest.Cursor(
                topic_name=following.topic_name, partition_index=following.partition_index
            )
            return _query(call, where, gathered, limit)
        page = _cut(gathered, limit)
        _finish(call, page.topics)
        return Respond(page)

    return QueryBroker(int(ApiKey.DESCRIBE_TOPIC_PARTITIONS), call.version, query, responded)


def _gather(gathered: list[Topic], topics: list[Topic]) -> None:
    """Add topics; one that the end of a page has cut continues at the beginning of the next page."""
    for topic in topics:
        if gathered and gathered[-1].name == topic.name:
            gathered[-1].partitions += topic.partitions
        else:
            gathered.append(topic)


def _place(
    cursor: types.DescribeTopicPartitionsRequest.Cursor | types.DescribeTopicPartitionsResponse.Cursor | None,
) -> tuple[str, int]:
    return ("", -1) if cursor is None else (cursor.topic_name, cursor.partition_index)


def _cut(topics: list[Topic], limit: int) -> types.DescribeTopicPartitionsResponse:
    """Return a response with at most `limit` partitions, and the cursor to the next page."""
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
