"""CreateTopics, DeleteTopics and CreatePartitions: the allowed part goes on to a broker.

Which topics are rejected, and how they are merged back into the broker's response, is in proxy.admin.topics:
the proxy decides the same. Owner and ACLs of a new topic are ours to keep (topic_owner.py), in the log once
the broker has created it. Topic names behind ids come from forwarding.net.broker, which asks before the
decision.
"""

from __future__ import annotations

from collections import Counter

from forwarding.controller.mutations import CREATION, DELETION, NEW_PARTITIONS
from forwarding.controller.outcome import MAX_RECORDS_PER_REQUEST, AskBroker, Decision, Outcome, over_limit
from forwarding.controller.policy import Policies
from forwarding.controller.served import Asked, Served
from forwarding.controller.topic_owner import Keeping, at_creation, without
from forwarding.controller.topic_records import Creation, Deletion, shown
from proxy.admin.topics import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DeletionMerge,
    Merge,
    TopicKey,
    creation_errors,
    deletion_errors,
    deletion_of,
    hide_configs,
    missing_topic,
    partition_errors,
    topics_to_delete,
    with_topics,
)
from proxy.metadata.acl import Operation, ResourceType
from proxy.wire import types
from proxy.wire.api_keys import ApiKey


def create_topics(asked: Asked[types.CreateTopicsRequest]) -> Decision:
    """The configs of a created topic are shown to those with DESCRIBE_CONFIGS on it."""
    request, access = asked.request, asked.access
    errors = creation_errors(access, request)
    creatable = [topic for topic in request.topics if topic.name not in errors]
    names = [topic.name for topic in creatable]
    describable = access.shows(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, names)
    dry = bool(request.validate_only)
    keeping: dict[str, Keeping] = {}
    for topic in creatable:
        kept = asked.policies.of_creation(topic, access, asked.tried, dry) or at_creation(
            topic, access, asked.owners
        )
        if isinstance(kept, Keeping):
            keeping[topic.name] = kept
        else:
            errors[topic.name] = kept
    count = sum(2 + len(kept.acls or ()) for kept in keeping.values() if kept.anything)
    if count > MAX_RECORDS_PER_REQUEST:
        return over_limit(ApiKey.CREATE_TOPICS, request, f"Unable to keep {count} records of new topics")
    merge: Merge[types.CreateTopicsResponse] = Merge(CREATE_TOPICS, request, errors)

    def finish(response: types.CreateTopicsResponse) -> types.CreateTopicsResponse:
        for topic in response.topics:
            shown(topic, keeping.get(topic.name))
        hide_configs(response.topics, describable)
        return merge.into(response)

    topics = [topic for topic in creatable if topic.name in keeping]
    if not topics:
        return Outcome((), merge.alone())
    for topic in topics:
        topic.configs = without(topic.configs)
    known = any(kept.anything or name in asked.image.topics.by_name for name, kept in keeping.items())
    follow_up = Creation(keeping, asked.new_id) if known and not dry else None
    return AskBroker(with_topics(request, topics), finish, follow_up)


def create_partitions(asked: Asked[types.CreatePartitionsRequest]) -> Decision:
    request = asked.request
    errors = partition_errors(asked.access, request)
    merge: Merge[types.CreatePartitionsResponse] = Merge(CREATE_PARTITIONS, request, errors)
    topics = [topic for topic in request.topics if topic.name not in errors]
    return AskBroker(with_topics(request, topics), merge.into) if topics else Outcome((), merge.alone())


def delete_topics(asked: Asked[types.DeleteTopicsRequest]) -> Decision:
    """A missing topic is reported as missing to clients that may describe it, and denied to others."""
    request, topic_names = asked.request, asked.topic_names
    times = Counter(topics_to_delete(request))
    # The empty name is one too: a broker reports that there is no such topic.
    names = {key: topic_names.get(key) if key[0] is None else key[0] for key in times}
    errors, perhaps_missing = deletion_errors(asked.access, names, times)
    errors |= {key: missing_topic(name) for key, name in perhaps_missing.items() if key not in topic_names}
    merge = DeletionMerge(list(times), errors)
    if not merge.allowed:
        return Outcome((), merge.alone())
    by_name = asked.image.topics.by_name
    known = {name: topic for name in names.values() if name is not None and (topic := by_name.get(name))}
    return AskBroker(deletion_of(request, merge.allowed), merge.into, Deletion(known) if known else None)


def _topics_in_question(request: types.DeleteTopicsRequest) -> list[TopicKey]:
    return [key for key in topics_to_delete(request) if (key[0] is None) == any(key[1])]


SERVED = (
    Served(
        key=ApiKey.CREATE_TOPICS,
        decide=create_topics,
        to_broker=True,
        try_first=Policies.creation_to_try,
        charge=CREATION,
    ),
    Served(
        key=ApiKey.DELETE_TOPICS,
        decide=delete_topics,
        to_broker=True,
        topics=_topics_in_question,
        charge=DELETION,
    ),
    Served(
        key=ApiKey.CREATE_PARTITIONS,
        decide=create_partitions,
        to_broker=True,
        charge=NEW_PARTITIONS,
    ),
)
