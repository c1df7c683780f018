"""CreateTopics and CreatePartitions (KIP-4, KIP-195, KIP-525): the allowed topics go to the controller.

CREATE on the cluster or on each topic; ALTER on each topic for more partitions. Denied topics are
TOPIC_AUTHORIZATION_FAILED, one named twice is INVALID_REQUEST. The configs of a created topic are told to
those with DESCRIBE_CONFIGS on it.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.cluster_operations import to_the_controller
from proxy.session.apis.kept_configs import NOT_KEPT, names_kept_configs
from proxy.session.apis.order import in_request_order
from proxy.session.apis.topic_shapes import TOPIC_SHAPES, TopicShape
from proxy.session.call import CLUSTER_NAME, Answer, Call, ReplyHandler, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
_UNKNOWN_COUNT = -1

Errors = Mapping[str, tuple[ErrorCode, str | None]]


def decide_create_topics(call: Call, request: Any) -> Verdict:
    """See the module."""
    times = Counter(topic.name for topic in paced(request.topics))
    errors = _duplicates(times)
    if CLUSTER_METADATA_TOPIC in times:
        message = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        errors.setdefault(CLUSTER_METADATA_TOPIC, (ErrorCode.INVALID_REQUEST, message))
    creatable = with_cluster_right(
        call, Operation.CREATE, [name for name in paced(list(times)) if name not in errors]
    )
    for name in paced(list(times)):
        if name not in creatable:
            errors.setdefault(name, (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))
    if not call.gate.keeps_topic_configs:
        for topic in paced(request.topics):
            if names_kept_configs(topic.configs):
                errors.setdefault(topic.name, (ErrorCode.INVALID_CONFIG, NOT_KEPT))
    told = call.shows(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, creatable)

    def hide(response: Any) -> None:
        for topic in paced(response.topics):
            if topic.error_code == ErrorCode.NONE and topic.name not in told:
                _hide_configs(topic)

    return _forwarded(
        request, TOPIC_SHAPES[ApiKey.CREATE_TOPICS], errors, None if told >= creatable else hide
    )


def decide_create_partitions(call: Call, request: Any) -> Verdict:
    """See the module."""
    times = Counter(topic.name for topic in paced(request.topics))
    errors = _duplicates(times)
    once = [name for name in times if name not in errors]
    alterable = call.allowed_names(Operation.ALTER, ResourceType.TOPIC, once)
    errors |= {
        name: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None) for name in paced(once) if name not in alterable
    }
    return _forwarded(request, TOPIC_SHAPES[ApiKey.CREATE_PARTITIONS], errors)


def with_cluster_right(call: Call, operation: Operation, names: list[str]) -> set[str]:
    """Those of the topics they may do this to; having it on the cluster is enough for all."""
    if names and call.shows(operation, ResourceType.CLUSTER, (CLUSTER_NAME,)):
        # Asked for once more, so that it is recorded which right it was.
        covered = call.allows_cluster(operation)
        return call.within_cluster_right(operation, ResourceType.TOPIC, names) if covered else set()
    return call.allowed_names(operation, ResourceType.TOPIC, names)


def _duplicates(times: Mapping[str, int]) -> dict[str, tuple[ErrorCode, str | None]]:
    error = (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    return {name: error for name, count in paced(list(times.items())) if count > 1}


def _forwarded(
    request: Any, shape: TopicShape, errors: Errors, finish: ReplyHandler | None = None
) -> Verdict:
    if not errors:
        return to_the_controller(request, finish)
    asked = list(dict.fromkeys(topic.name for topic in paced(request.topics)))
    first = {topic.name: topic for topic in paced(request.topics[::-1])}
    refused = [shape.refuse_topic(first[name], *errors[name]) for name in asked if name in errors]
    request.topics = [topic for topic in paced(request.topics) if topic.name not in errors]

    def on_reply(response: Any) -> None:
        if finish is not None:
            finish(response)
        parts = [*getattr(response, shape.answered_topics), *refused]
        setattr(response, shape.answered_topics, in_request_order(asked, parts, lambda part: part.name))

    if request.topics:
        return to_the_controller(request, on_reply)
    return Answer(getattr(types, shape.response)(**{shape.answered_topics: refused}))


def _hide_configs(topic: Any) -> None:
    topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic.configs = []
    topic.num_partitions = topic.replication_factor = _UNKNOWN_COUNT


APIS = (
    Api(ApiKey.CREATE_TOPICS, decide_create_topics, admin=True, forwarded=True),
    Api(ApiKey.CREATE_PARTITIONS, decide_create_partitions, admin=True, forwarded=True),
)
