"""OffsetCommit and OffsetFetch: READ on the group and on each topic to commit, DESCRIBE on both to fetch.

Both name topics by id from v10 on (KIP-848), OffsetFetch several groups from v8 on (KIP-709). If the group of
an OffsetCommit is denied, every partition is GROUP_AUTHORIZATION_FAILED. A denied group of an OffsetFetch is
GROUP_AUTHORIZATION_FAILED (in v1 at each partition). Partitions of denied topics are
TOPIC_AUTHORIZATION_FAILED, those of an id that the broker does not know UNKNOWN_TOPIC_ID. If a client
requests all offsets of a group (topics null), the response omits topics that it may not DESCRIBE.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from proxy.admin.objects import of_topics
from proxy.admin.rejection import Error, TopicShape, in_request_order, take_out
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.topic_existence import with_names
from proxy.session.apis.topic_filter import errors_by_id, filter_topic_ids, filter_topics, unless_failed
from proxy.session.call import Api, Call, Forward, QueryBroker, Respond, ResponseHandler, Verdict, deny
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

COMMIT_SHAPE = TopicShape(
    response="OffsetCommitResponse",
    topic="OffsetCommitResponseTopic",
    partition="OffsetCommitResponsePartition",
    carried=("topic_id",),
    merges_topics=True,
)

_FIRST_WITH_TOPIC_IDS = 10

FETCH_SHAPE = TopicShape(
    response="OffsetFetchResponse",
    topic="OffsetFetchResponseTopic",
    partition="OffsetFetchResponsePartition",
    request_partitions="partition_indexes",
    request_index=None,
    placeholders={"committed_offset": -1, "metadata": ""},
)

_FIRST_WITH_GROUPS = 8

Key = TypeVar("Key", bound=Hashable)


def decide_commit(call: Call, request: types.OffsetCommitRequest) -> Verdict:
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if call.version < _FIRST_WITH_TOPIC_IDS:
        return filter_topics(call, request, COMMIT_SHAPE, Operation.READ)
    return filter_topic_ids(call, request, COMMIT_SHAPE, Operation.READ)


def _is_of_no_member(request: types.OffsetCommitRequest) -> bool:
    """Whether no member of the group commits: a tool resets offsets, or a consumer assigns its partitions."""
    return request.generation_id_or_member_epoch < 0 and not request.member_id


class HasName(Protocol):
    """A topic of a request or a response."""

    @property
    def name(self) -> str: ...


class NamedOrIdentified(HasName, Protocol):
    """A topic that may be named by its id."""

    @property
    def topic_id(self) -> bytes: ...


def decide_fetch(call: Call, request: types.OffsetFetchRequest) -> Verdict:
    if call.version >= _FIRST_WITH_GROUPS:
        return _groups(call, request)
    if not call.allows(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if request.topics is None:
        return Forward(None, lambda response: _show_allowed(call, response))
    allowed = _allowed_topics(call, request.topics)
    on_response = unless_failed(take_out(request, FETCH_SHAPE, allowed))
    return Forward() if on_response is None else Forward(request, on_response)


def _groups(call: Call, request: types.OffsetFetchRequest) -> Verdict:
    requested = [group.group_id for group in request.groups]
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.GROUP, requested)
    topics = [topic for group in request.groups if group.group_id in allowed for topic in group.topics or ()]
    topic_ids = (bytes(topic.topic_id) for topic in topics)
    return with_names(call, topic_ids, lambda: _of_groups(call, request, requested, allowed))


def _of_groups(
    call: Call, request: types.OffsetFetchRequest, requested: list[str], allowed: set[str]
) -> Verdict:
    handlers: defaultdict[str, dict[int, ResponseHandler]] = defaultdict(dict)
    changed = False
    request_groups = [group for group in request.groups if group.group_id in allowed]
    for place, group in enumerate(request_groups):
        handler = _of_group(call, group)
        if handler is not None:
            handlers[group.group_id][place] = handler
            changed |= group.topics is not None
    rejected = [
        types.OffsetFetchResponse.OffsetFetchResponseGroup(
            group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
        for group_id in requested
        if group_id not in allowed
    ]
    request.groups = request_groups
    if rejected and not request.groups:
        return Respond(types.OffsetFetchResponse(groups=rejected))

    def on_response(response: types.OffsetFetchResponse) -> None:
        # A group may be named twice. If the results are in another order, it gets the handlers of both, which
        # shows too little rather than too much.
        in_order = len(response.groups) == len(request_groups) and all(
            map(_is_of, response.groups, request_groups)
        )
        for place, group in enumerate(response.groups):
            of_name = handlers.get(group.group_id, {})
            for handler in filter(None, [of_name.get(place)]) if in_order else of_name.values():
                handler(group)
        response.groups = in_request_order(
            requested, [*response.groups, *rejected], lambda group: group.group_id
        )

    if call.version >= _FIRST_WITH_TOPIC_IDS and any(group.topics is None for group in request.groups):
        return _with_names_in_response(call, request, on_response)
    if not handlers and not rejected:
        return Forward()
    return Forward(request if changed or rejected else None, on_response)


def _is_of(
    response: types.OffsetFetchResponse.OffsetFetchResponseGroup,
    request: types.OffsetFetchRequest.OffsetFetchRequestGroup,
) -> bool:
    """Whether these may be the offsets for which a broker was asked."""
    if response.group_id != request.group_id or request.topics is None:
        return response.group_id == request.group_id
    asked = {(topic.name, bytes(topic.topic_id)) for topic in request.topics}
    return asked.issuperset((topic.name, bytes(topic.topic_id)) for topic in response.topics)


def _with_names_in_response(
    call: Call, request: types.OffsetFetchRequest, on_response: ResponseHandler
) -> Verdict:
    """Look up the ids in the response: with all offsets of a group, the request has none.

    A group fails if a lookup does: the client repeats the request.
    """

    def responded(response: types.OffsetFetchResponse) -> Verdict:
        topic_ids = [bytes(topic.topic_id) for group in response.groups for topic in group.topics]
        names = call.gate.topic_names

        def finish() -> Verdict:
            unnamed = names.without_name(topic_ids)
            unknown = unnamed - names.missing_since(unnamed, call.now_ms)
            for group in response.groups:
                if not unknown.isdisjoint(bytes(topic.topic_id) for topic in group.topics):
                    # Without these topics a client would take them to have no offsets.
                    group.error_code, group.topics = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []
            on_response(response)
            return Respond(response)

        return with_names(call, topic_ids, finish)

    return QueryBroker(int(ApiKey.OFFSET_FETCH), call.version, request, responded)


def _of_group(call: Call, group: types.OffsetFetchRequest.OffsetFetchRequestGroup) -> ResponseHandler | None:
    """Remove denied topics from the group's request; the returned handler adds them to its response."""
    if group.topics is None:
        return unless_failed(lambda response: _show_allowed(call, response))
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
    key: Callable[[NamedOrIdentified], Key],
) -> ResponseHandler | None:
    if not errors:
        return None
    topics = group.topics or []
    requested = [key(topic) for topic in topics]
    rejected = [_rejected_topic(topic, errors[key(topic)]) for topic in topics if key(topic) in errors]
    group.topics = [topic for topic in topics if key(topic) not in errors]

    def merge(response: types.OffsetFetchResponse.OffsetFetchResponseGroup) -> None:
        response.topics = in_request_order(requested, [*response.topics, *rejected], key)

    return unless_failed(merge)


def _allowed_topics(call: Call, topics: Sequence[HasName]) -> set[str]:
    return call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, [topic.name for topic in topics])


def _show_allowed(
    call: Call, response: types.OffsetFetchResponse | types.OffsetFetchResponse.OffsetFetchResponseGroup
) -> None:
    """Remove topics that the client may not DESCRIBE, and ids that have no name at the broker either."""
    names = {id(topic): _name_of(call, topic) for topic in response.topics}
    known = (name for topic in response.topics if (name := names[id(topic)]) is not None)
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, known)
    topics: list[Any] = response.topics
    topics[:] = [topic for topic in topics if names[id(topic)] in allowed]


def _name_of(call: Call, topic: Any) -> str | None:
    if call.version < _FIRST_WITH_TOPIC_IDS:
        name: str = topic.name
        return name
    return call.gate.topic_names.name(bytes(topic.topic_id))


def _rejected_topic(
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
    rejected: types.OffsetFetchResponse = FETCH_SHAPE.reject_all(request, code)
    return rejected


APIS = (
    Api(
        ApiKey.OFFSET_COMMIT,
        decide_commit,
        COMMIT_SHAPE.reject,
        objects=of_topics(
            COMMIT_SHAPE, "ALTER_OFFSETS", lambda part: f"{part.partition_index}:{part.committed_offset}"
        ),
        administers=_is_of_no_member,
    ),
    Api(ApiKey.OFFSET_FETCH, decide_fetch, _reject, repeatable=True),
)
