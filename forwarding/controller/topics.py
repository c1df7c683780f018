"""CreateTopics, DeleteTopics and CreatePartitions: the allowed part goes on to a broker.

Owner and ACLs of a new topic are ours to keep (topic_owner.py), in the log once the broker has made it.

CREATE or DELETE on the cluster covers all topics; otherwise each topic is asked for. Parts refused here
are put back into the broker's response in the order of the request. Topic names behind ids come from
forwarding.net.broker, which asks before the decision.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from types import MappingProxyType
from typing import Any

from forwarding.controller.access import Access
from forwarding.controller.outcome import MAX_RECORDS_PER_REQUEST, AskBroker, Decision, Outcome
from forwarding.controller.policy import NO_POLICIES, Policies
from forwarding.controller.topic_owner import NO_OWNERS, Fault, Keeping, OwnerSettings, at_creation, without
from forwarding.controller.topic_records import Creation, Deletion, shown
from proxy.metadata.acl import Operation
from proxy.metadata.image import MetadataImage
from proxy.session.apis.table import rejection
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

NO_TOPIC_ID = bytes(16)
NOTHING_TRIED: Mapping[str, Any] = MappingProxyType({})
DENIED_MESSAGE = "Authorization failed."
MISSING = "This server does not host this topic-partition."

Key = tuple[str | None, bytes]
"""A topic as a request names it: by name, or by id (name None)."""


def create_topics(
    request: Any,
    access: Access,
    image: MetadataImage = MetadataImage.EMPTY,
    new_id: Callable[[], bytes] = lambda: NO_TOPIC_ID,
    owners: OwnerSettings = NO_OWNERS,
    policies: Policies = NO_POLICIES,
    tried: Mapping[str, Any] = NOTHING_TRIED,
) -> Decision:
    """CREATE on the cluster or on each topic; configs are told with DESCRIBE_CONFIGS on the topic only.

    `tried`: what a broker answered to `Policies.creation_to_try`, by topic.
    """
    result = types.CreateTopicsResponse.CreatableTopicResult
    times = Counter(topic.name for topic in request.topics)
    once = [name for name, count in times.items() if count == 1]
    creatable = _with_cluster_right(access, Operation.CREATE, once)
    describable = access.to_topics(Operation.DESCRIBE_CONFIGS, once, quiet=True)
    refused = {
        (name, NO_TOPIC_ID): result(name=name, **_create_error(count))
        for name, count in times.items()
        if name not in creatable
    }
    topics = [topic for topic in request.topics if topic.name in creatable]
    dry = bool(request.validate_only)
    asked = {
        topic.name: policies.of_creation(topic, access, tried, dry) or at_creation(topic, access, owners)
        for topic in topics
    }
    keeping = {name: kept for name, kept in asked.items() if isinstance(kept, Keeping)}
    faults = {name: fault for name, fault in asked.items() if not isinstance(fault, Keeping)}
    refused |= {(name, NO_TOPIC_ID): result(name=name, **_fault(fault)) for name, fault in faults.items()}
    topics = [topic for topic in topics if topic.name in keeping]
    count = sum(2 + len(kept.acls or ()) for kept in keeping.values() if kept.anything)
    if count > MAX_RECORDS_PER_REQUEST:
        message = f"Unable to keep {count} records of new topics, the limit is {MAX_RECORDS_PER_REQUEST}."
        return Outcome((), rejection(ApiKey.CREATE_TOPICS, 0, request, ErrorCode.POLICY_VIOLATION, message))
    order = [(name, NO_TOPIC_ID) for name in times]

    def merge(answer: Any) -> Any:
        for topic in answer.topics:
            shown(topic, keeping.get(topic.name))
            if topic.name not in describable:
                _hide_configs(topic)
        answer.topics = _merged(order, refused, answer.topics, lambda topic: (topic.name, NO_TOPIC_ID))
        return answer

    if not topics:
        return Outcome((), merge(types.CreateTopicsResponse(topics=[])))
    for topic in topics:
        topic.configs = without(topic.configs)
    known = any(kept.anything or name in image.topics.by_name for name, kept in keeping.items())
    follow_up = Creation(keeping, new_id) if known and not request.validate_only else None
    return AskBroker(with_topics(request, topics), merge, follow_up)


def _fault(fault: Fault) -> dict[str, Any]:
    return {"error_code": fault[0], "error_message": fault[1]}


def delete_topics(
    request: Any,
    access: Access,
    topic_names: Mapping[Key, str],
    image: MetadataImage = MetadataImage.EMPTY,
) -> Decision:
    """DELETE on the cluster or on each topic; without DESCRIBE not even an id's name is told.

    `topic_names`: of those that exist. That one is missing is told to who may describe it.
    """
    asked = topics_to_delete(request)
    times = Counter(asked)
    names = [name for name in (_name(key, topic_names) for key in times) if name is not None]
    deletable, describable = _delete_rights(access, names, {name for name, _ in times})
    refused: dict[Key, Any] = {}
    allowed: list[Key] = []
    for key, count in times.items():
        error = _delete_error(key, count, topic_names, deletable, describable)
        if error is None:
            allowed.append(key)
        else:
            refused[key] = types.DeleteTopicsResponse.DeletableTopicResult(**error)

    def merge(answer: Any) -> Any:
        by_id = {key[1] for key in allowed if key[0] is None}
        answer.responses = _merged(
            list(times), refused, answer.responses, lambda topic: _answered_key(topic, by_id)
        )
        return answer

    if not allowed:
        return Outcome((), merge(types.DeleteTopicsResponse(responses=[])))
    known = {name: topic for name in names if (topic := image.topics.by_name.get(name)) is not None}
    return AskBroker(deletion_of(request, allowed), merge, Deletion(known) if known else None)


def create_partitions(request: Any, access: Access) -> Decision:
    """ALTER on each topic."""
    result = types.CreatePartitionsResponse.CreatePartitionsTopicResult
    times = Counter(topic.name for topic in request.topics)
    once = [name for name, count in times.items() if count == 1]
    alterable = access.to_topics(Operation.ALTER, once)
    refused = {
        (name, NO_TOPIC_ID): result(name=name, **_create_error(count))
        for name, count in times.items()
        if name not in alterable
    }
    topics = [topic for topic in request.topics if topic.name in alterable]
    order = [(name, NO_TOPIC_ID) for name in times]

    def merge(answer: Any) -> Any:
        answer.results = _merged(order, refused, answer.results, lambda topic: (topic.name, NO_TOPIC_ID))
        return answer

    if not topics:
        return Outcome((), merge(types.CreatePartitionsResponse(results=[])))
    return AskBroker(with_topics(request, topics), merge)


def topics_in_question(request: Any) -> list[Key]:
    """The topics of a DeleteTopics request of which has to be known whether they exist, and their names."""
    return [key for key in topics_to_delete(request) if (key[0] is None) == any(key[1])]


def _with_cluster_right(access: Access, operation: Operation, names: Iterable[str]) -> set[str]:
    wanted = list(names)
    if wanted and access.to_cluster(operation, quiet=True):
        return access.to_topics_of_cluster(operation, wanted)
    return access.to_topics(operation, wanted)


def _create_error(count: int) -> dict[str, Any]:
    if count > 1:
        return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": "Duplicate topic name."}
    return {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "error_message": DENIED_MESSAGE}


def _hide_configs(topic: Any) -> None:
    """As KRaft tells a creator without DESCRIBE_CONFIGS (KIP-525)."""
    if topic.error_code == ErrorCode.NONE:
        topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topic.configs = []
        topic.num_partitions = topic.replication_factor = -1


def topics_to_delete(request: Any) -> list[Key]:
    """In the order of the request, as often as it names them."""
    named: list[Key] = [(name, NO_TOPIC_ID) for name in request.topic_names]
    return named + [(topic.name, bytes(topic.topic_id)) for topic in request.topics]


def _name(key: Key, topic_names: Mapping[Key, str]) -> str | None:
    """The empty name is one too: a broker says that there is no such topic."""
    return topic_names.get(key) if key[0] is None else key[0]


def _delete_rights(access: Access, names: list[str], by_name: Set[str | None]) -> tuple[set[str], set[str]]:
    """Which may be deleted, which described."""
    describable = access.to_topics(Operation.DESCRIBE, names, quiet=True)
    if names and access.to_cluster(Operation.DELETE, quiet=True):
        all_of_them = access.to_topics_of_cluster(Operation.DELETE, names)
        return all_of_them, describable | all_of_them
    deletable = access.to_topics(Operation.DELETE, names)
    # DELETE implies DESCRIBE, but not against a DENY of it: asked for, so that the denial is written down.
    access.to_topics(Operation.DESCRIBE, (deletable & by_name) - describable)
    return deletable, describable


def _delete_error(
    key: Key, count: int, topic_names: Mapping[Key, str], deletable: set[str], describable: set[str]
) -> dict[str, Any] | None:
    fault = _malformed(key, count)
    if fault is not None:
        return {"name": key[0], "topic_id": key[1], "error_code": ErrorCode.INVALID_REQUEST} | fault
    name = _name(key, topic_names)
    if name is None:
        return {"name": None, "topic_id": key[1], "error_code": ErrorCode.UNKNOWN_TOPIC_ID}
    # KRaft's controller needs DESCRIBE of a topic that is named, and not of one told by its id.
    if name in deletable and (key[0] is None or name in describable):
        return None
    if key not in topic_names and name in describable:
        return {"name": name, "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "error_message": MISSING}
    return {
        # Asked by id, the name is told only to those who may describe the topic.
        "name": name if key[0] is not None or name in describable else None,
        "topic_id": key[1],
        "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "error_message": DENIED_MESSAGE,
    }


def _malformed(key: Key, count: int) -> dict[str, str] | None:
    name, topic_id = key
    if name is None and not any(topic_id):
        return {"error_message": "Neither topic name nor id were specified."}
    if name is not None and any(topic_id):
        return {"error_message": "You may not specify both topic name and topic id."}
    if count > 1:
        return {"error_message": f"Duplicate topic {'id' if name is None else 'name'}."}
    return None


def deletion_of(request: Any, allowed: list[Key]) -> Any:
    """The same request about the allowed topics, named the way its version names them."""
    if request.topic_names:
        return _copy(request, topic_names=[name for name, _ in allowed], topics=[])
    state = types.DeleteTopicsRequest.DeleteTopicState
    return _copy(request, topics=[state(name=name, topic_id=topic_id) for name, topic_id in allowed])


def _answered_key(topic: Any, by_id: set[bytes]) -> Key:
    topic_id = bytes(topic.topic_id)
    return (None, topic_id) if topic_id in by_id else (topic.name, NO_TOPIC_ID)


def with_topics(request: Any, topics: list[Any]) -> Any:
    """The same request about these topics only: CreateTopics, CreatePartitions."""
    return _copy(request, topics=topics)


def _merged(
    order: list[Any], refused: Mapping[Any, Any], answered: Iterable[Any], key: Callable[[Any], Any]
) -> list[Any]:
    by_key = {key(result): result for result in answered} | dict(refused)
    return [by_key[asked] for asked in order if asked in by_key]


def _copy(request: Any, **changed: Any) -> Any:
    kept = {
        name: getattr(request, name) for name in ("timeout_ms", "validate_only") if hasattr(request, name)
    }
    return type(request)(**(kept | changed))
