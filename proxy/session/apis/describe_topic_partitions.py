"""DescribeTopicPartitions (KIP-966): DESCRIBE on each topic, page by page.

Requested by name, denied topics are TOPIC_AUTHORIZATION_FAILED whether they exist or not. A list of all
topics omits them, and so do the ends of its pages: neither a page nor the cursor to the next one may show
where a hidden topic is. If one page of the broker does not have enough for the client, the names of all
topics are requested, and then those that the client may describe: three requests, whatever its rights are.
Authorized operations are always included. A leader that clients cannot reach is -1.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TypeAlias

from proxy.admin.rejection import TopicShape
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.addresses import NO_NODE, offline_replicas
from proxy.session.apis.authorized_operations import NOT_REQUESTED, of_topic
from proxy.session.apis.topic_existence import MISSING, RAW, find_all_names
from proxy.session.call import Api, Call, Forward, QueryBroker, Respond, Verdict, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

SHAPE = TopicShape(response="DescribeTopicPartitionsResponse", topic="DescribeTopicPartitionsResponseTopic")

_NO_PARTITIONS = b"\x01"

MAX_PARTITIONS = 2_000
"""The limit of one page: a broker's default of `max.request.partition.size.limit`."""

Topic: TypeAlias = "types.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic"


def decide(call: Call, request: types.DescribeTopicPartitionsRequest) -> Verdict:
    begin = "" if request.cursor is None else request.cursor.topic_name
    if not request.topics:
        limit = max(min(request.response_partition_limit, MAX_PARTITIONS), 1)
        return _query(call, request.cursor, limit)
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


def _query(call: Call, cursor: types.DescribeTopicPartitionsRequest.Cursor | None, limit: int) -> Verdict:
    """Request one page of all topics. It is enough for a client that may describe most of them."""
    query = types.DescribeTopicPartitionsRequest(response_partition_limit=MAX_PARTITIONS, cursor=cursor)

    def responded(response: types.DescribeTopicPartitionsResponse) -> Verdict:
        following = response.next_cursor
        ends_at = None if following is None else following.topic_name
        names = [topic.name for topic in response.topics if topic.name]
        shown = call.shows(Operation.DESCRIBE, ResourceType.TOPIC, [*names, ends_at] if ends_at else names)
        topics = [topic for topic in response.topics if topic.name in shown]
        count = sum(len(topic.partitions) for topic in topics)
        if following is not None and (count < limit or (count == limit and ends_at not in shown)):
            return find_all_names(call, partial(_query_shown, call, cursor, limit))
        page = _cut(topics, limit)
        page.next_cursor = page.next_cursor or following
        _finish(call, page.topics)
        return Respond(page)

    return QueryBroker(int(ApiKey.DESCRIBE_TOPIC_PARTITIONS), call.version, query, responded)


def _query_shown(
    call: Call,
    cursor: types.DescribeTopicPartitionsRequest.Cursor | None,
    limit: int,
    all_names: Iterable[str],
) -> Verdict:
    """Request a page of those of all topics that the client may describe, by their names."""
    begin = "" if cursor is None else cursor.topic_name
    names = [name for name in all_names if name >= begin]
    found = call.shown_in_order(Operation.DESCRIBE, ResourceType.TOPIC, names)
    if not found:
        return Respond(types.DescribeTopicPartitionsResponse())
    # A topic has a partition at least, so one more than the limit shows where the next page begins.
    requested, later = found[: limit + 1], found[limit + 1 :]
    query = types.DescribeTopicPartitionsRequest(
        topics=[types.DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in requested],
        response_partition_limit=limit,
        cursor=cursor if found[0] == begin else None,
    )

    def responded(page: types.DescribeTopicPartitionsResponse) -> Verdict:
        # Some may have been deleted meanwhile.
        page.topics = [topic for topic in page.topics if topic.error_code not in MISSING]
        if page.next_cursor is None and later:
            page.next_cursor = page.Cursor(topic_name=later[0], partition_index=0)
        _finish(call, page.topics)
        page.throttle_time_ms = 0
        return Respond(page)

    return QueryBroker(int(ApiKey.DESCRIBE_TOPIC_PARTITIONS), call.version, query, responded)


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
