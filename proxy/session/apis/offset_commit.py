"""OffsetCommit (KIP-848: topic ids from v10): READ on the group and on each topic.

If the group is denied, every partition is GROUP_AUTHORIZATION_FAILED. Partitions of denied topics are
TOPIC_AUTHORIZATION_FAILED, those of an id that the broker does not know UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from proxy.admin.rejection import TopicShape, in_request_order
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.topic_existence import with_names
from proxy.session.apis.topic_filter import TopicErrors, errors_by_id, filter_topics
from proxy.session.call import Api, Call, Forward, Respond, Verdict, deny
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

SHAPE = TopicShape(
    response="OffsetCommitResponse",
    topic="OffsetCommitResponseTopic",
    partition="OffsetCommitResponsePartition",
    carried=("topic_id",),
)

_FIRST_WITH_TOPIC_IDS = 10


def decide(call: Call, request: types.OffsetCommitRequest) -> Verdict:
    """Decide an OffsetCommit request."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if call.version < _FIRST_WITH_TOPIC_IDS:
        return filter_topics(call, request, SHAPE, Operation.READ)
    topic_ids = [bytes(topic.topic_id) for topic in request.topics]
    return with_names(
        call, topic_ids, lambda: _by_id(request, errors_by_id(call, Operation.READ, request.topics))
    )


def _by_id(request: types.OffsetCommitRequest, errors: TopicErrors) -> Verdict:
    if not errors:
        return Forward()
    requested = [bytes(topic.topic_id) for topic in request.topics]
    rejected = [
        SHAPE.reject_topic(topic, errors[topic_id])
        for topic, topic_id in zip(request.topics, requested, strict=True)
        if topic_id in errors
    ]

    def on_response(response: types.OffsetCommitResponse) -> None:
        parts = [*response.topics, *rejected]
        response.topics = in_request_order(requested, parts, lambda topic: bytes(topic.topic_id))

    request.topics = [topic for topic in request.topics if bytes(topic.topic_id) not in errors]
    if not request.topics:
        return Respond(types.OffsetCommitResponse(topics=rejected))
    return Forward(request, on_response)


APIS = (Api(ApiKey.OFFSET_COMMIT, decide, SHAPE.reject),)
