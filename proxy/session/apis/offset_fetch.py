"""OffsetFetch (KIP-709: several groups from v8, KIP-848: topic ids from v10): DESCRIBE on group and topics.

A denied group is GROUP_AUTHORIZATION_FAILED (in v1 at each partition), partitions of denied topics are
TOPIC_AUTHORIZATION_FAILED. Where a client asks for all offsets of a group (topics null), topics it may not
DESCRIBE are left out of the answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from proxy.admin.rejection import Error, TopicShape, in_request_order
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.existing_topics import with_names
from proxy.session.apis.topic_filter import errors_by_id, take_out
from proxy.session.call import Api, Call, Forward, QueryBroker, Respond, ResponseHandler, Verdict, deny
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced

SHAPE = TopicShape(
    response="OffsetFetchResponse",
    topic="OffsetFetchResponseTopic",
    partition="OffsetFetchResponsePartition",
    request_partitions="partition_indexes",
    request_index=None,
    placeholders={"committed_offset": -1, "metadata": ""},
)

_FIRST_WITH_GROUPS = 8
_FIRST_WITH_TOPIC_IDS = 10


class HasName(Protocol):
    """A topic of a request or a response."""

    @property
    def name(self) -> str: ...


class Named(HasName, Protocol):
    """The same, where it may be named by its id."""

    @property
    def topic_id(self) -> bytes: ...


Key = TypeVar("Key", bound=Hashable)


def decide(call: Call, request: types.OffsetFetchRequest) -> Verdict:
    """See the module."""
    if call.version >= _FIRST_WITH_GROUPS:
        return _groups(call, request)
    if not call.allows(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if request.topics is None:
        return Forward(None, lambda response: _show_allowed(call, response))
    allowed = _allowed_topics(call, request.topics)
    return _forwarded(request, _unless_failed(take_out(request, SHAPE, allowed)))


def _groups(call: Call, request: types.OffsetFetchRequest) -> Verdict:
    asked = [group.group_id for group in request.groups]
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.GROUP, asked)
    topics = [topic for group in request.groups if group.group_id in allowed for topic in group.topics or ()]
    topic_ids = (bytes(topic.topic_id) for topic in topics)
    return with_names(call, topic_ids, lambda: _of_groups(call, request, asked, allowed))


def _of_groups(call: Call, request: types.OffsetFetchRequest, asked: list[str], allowed: set[str]) -> Verdict:
    handlers: defaultdict[str, list[ResponseHandler]] = defaultdict(list)
    changed = False
    for group in request.groups:
        handler = _of_group(call, group) if group.group_id in allowed else None
        if handler is not None:
            handlers[group.group_id].append(handler)
            changed |= group.topics is not None
    refused = [_refused_group(group_id) for group_id in asked if group_id not in allowed]
    request.groups = [group for group in request.groups if group.group_id in allowed]
    if refused and not request.groups:
        return Respond(types.OffsetFetchResponse(groups=refused))

    def on_response(response: types.OffsetFetchResponse) -> None:
        # A group named twice gets the handlers of both: rather too little is shown than too much.
        for group in response.groups:
            for handler in paced(handlers.get(group.group_id, ())):
                handler(group)
        response.groups = in_request_order(asked, [*response.groups, *refused], lambda group: group.group_id)

    if call.version >= _FIRST_WITH_TOPIC_IDS and any(group.topics is None for group in request.groups):
        return _with_names_in_the_answer(call, request, on_response)
    if not handlers and not refused:
        return Forward()
    return Forward(request if changed or refused else None, on_response)


def _with_names_in_the_answer(
    call: Call, request: types.OffsetFetchRequest, on_response: ResponseHandler
) -> Verdict:
    """All offsets of a group: only in the answer there are ids, of topics that may have no name yet."""

    def answered(reply: types.OffsetFetchResponse) -> Verdict:
        def shown() -> Verdict:
            on_response(reply)
            return Respond(reply)

        topics = [topic for group in reply.groups for topic in group.topics]
        return with_names(call, (bytes(topic.topic_id) for topic in topics), shown)

    return QueryBroker(int(ApiKey.OFFSET_FETCH), call.version, request, answered)


def _of_group(call: Call, group: types.OffsetFetchRequest.OffsetFetchRequestGroup) -> ResponseHandler | None:
    """Takes denied topics out of the group's request; what it returns, puts them into its answer."""
    if group.topics is None:
        return _unless_failed(lambda answer: _show_allowed(call, answer))
    if call.version < _FIRST_WITH_TOPIC_IDS:
        allowed = _allowed_topics(call, group.topics)
        errors = dict.fromkeys(
            (topic.name for topic in group.topics if topic.name not in allowed),
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
        return _take_out(group, errors, lambda topic: topic.name)
    by_id = errors_by_id(call, Operation.DESCRIBE, group.topics)
    return _take_out(group, dict(by_id), lambda topic: bytes(topic.topic_id))


def _take_out(
    group: types.OffsetFetchRequest.OffsetFetchRequestGroup,
    errors: Mapping[Key, ErrorCode],
    key: Callable[[Named], Key],
) -> ResponseHandler | None:
    if not errors:
        return None
    topics = group.topics or []
    asked = [key(topic) for topic in topics]
    refused = [_refused_topic(topic, errors[key(topic)]) for topic in topics if key(topic) in errors]
    group.topics = [topic for topic in topics if key(topic) not in errors]

    def merge(answer: types.OffsetFetchResponse.OffsetFetchResponseGroup) -> None:
        answer.topics = in_request_order(asked, [*answer.topics, *refused], key)

    return _unless_failed(merge)


def _unless_failed(handler: ResponseHandler | None) -> ResponseHandler | None:
    """An answer that failed as a whole carries no topics, refused ones neither."""
    if handler is None:
        return None

    def on_response(
        answer: types.OffsetFetchResponse | types.OffsetFetchResponse.OffsetFetchResponseGroup,
    ) -> None:
        if answer.error_code == ErrorCode.NONE:
            handler(answer)

    return on_response


def _forwarded(request: types.OffsetFetchRequest, on_response: ResponseHandler | None) -> Verdict:
    # Also with no topic left: the group's own errors come from the broker.
    return Forward() if on_response is None else Forward(request, on_response)


def _allowed_topics(call: Call, topics: Sequence[HasName]) -> set[str]:
    return call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, [topic.name for topic in topics])


def _show_allowed(
    call: Call, answer: types.OffsetFetchResponse | types.OffsetFetchResponse.OffsetFetchResponseGroup
) -> None:
    """A topic whose id has no name at the broker either is not shown."""
    names = {id(topic): _name_of(call, topic) for topic in answer.topics}
    known = [name for name in names.values() if name is not None]
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, known)
    topics: list[Any] = [topic for topic in answer.topics if names[id(topic)] in allowed]
    answer.topics = topics


def _name_of(call: Call, topic: Any) -> str | None:
    if call.version < _FIRST_WITH_TOPIC_IDS:
        name: str = topic.name
        return name
    return call.gate.topic_names.name(bytes(topic.topic_id))


def _refused_group(group_id: str) -> types.OffsetFetchResponse.OffsetFetchResponseGroup:
    return types.OffsetFetchResponse.OffsetFetchResponseGroup(
        group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
    )


def _refused_topic(
    topic: types.OffsetFetchRequest.OffsetFetchRequestTopics, error_code: ErrorCode
) -> types.OffsetFetchResponse.OffsetFetchResponseTopics:
    response = types.OffsetFetchResponse
    return response.OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            response.OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, metadata="", error_code=error_code
            )
            for index in topic.partition_indexes
        ],
    )


def _reject(version: int, request: types.OffsetFetchRequest, error: Error) -> types.OffsetFetchResponse:
    response, code = types.OffsetFetchResponse, error["error_code"]
    if version >= 8:
        groups = [
            response.OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
            for group in request.groups
        ]
        return response(groups=groups)
    if version >= 2:
        return response(error_code=code)
    rejected: types.OffsetFetchResponse = SHAPE.reject_all(request, code)
    return rejected


APIS = (Api(ApiKey.OFFSET_FETCH, decide, _reject, repeatable=True),)
