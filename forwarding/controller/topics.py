"""CreateTopics, DeleteTopics and CreatePartitions: the allowed topics are sent to a broker.

proxy.admin.topics decides which topics are rejected, and merges them into the broker's response; the proxy
uses the same code. The metadata log stores owner and ACLs of a new topic (topic_owner.py) once the broker has
created it. forwarding.net.broker looks up the names of topic ids before the decision.
"""

from __future__ import annotations

from collections import Counter
from copy import copy

from forwarding.controller.api import (
    MAX_RECORDS_PER_REQUEST,
    ControllerApi,
    ControllerOutcome,
    Decision,
    DecisionInputs,
    SendToBroker,
    over_limit,
)
from forwarding.controller.mutations import CREATION, DELETION, NEW_PARTITIONS
from forwarding.controller.policy import Policies
from forwarding.controller.topic_owner import OwnerAndAcls, broker_configs, creation_change
from forwarding.controller.topic_records import OF_TOPICS, Creation, Deletion, add_configs
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
    names_a_topic,
    partition_errors,
    topics_to_delete,
    with_topics,
)
from proxy.metadata.acl import Operation, ResourceType
from proxy.wire import types
from proxy.wire.api_keys import ApiKey


def create_topics(inputs: DecisionInputs[types.CreateTopicsRequest]) -> Decision:
    """Decide CreateTopics. Configs of a created topic are shown to principals with DESCRIBE_CONFIGS on it."""
    request, authorization = inputs.request, inputs.authorization
    errors = creation_errors(authorization, request)
    creatable = [topic for topic in request.topics if topic.name not in errors]
    names = [topic.name for topic in creatable]
    describable = authorization.shows(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, names)
    dry = bool(request.validate_only)
    changes: dict[str, OwnerAndAcls] = {}
    for topic in creatable:
        change = inputs.policies.creation_fault(
            topic, authorization, inputs.dry_run_results, dry
        ) or creation_change(topic, authorization, inputs.creators_own)
        if isinstance(change, OwnerAndAcls):
            changes[topic.name] = change
        else:
            errors[topic.name] = change
    count = sum(2 + len(change.acls or ()) for change in changes.values() if change.is_any)
    if count > MAX_RECORDS_PER_REQUEST:
        return over_limit(ApiKey.CREATE_TOPICS, request, f"Unable to store {count} records of new topics")
    merge: Merge[types.CreateTopicsResponse] = Merge(CREATE_TOPICS, request, errors)
    named = {topic.name: {config.name for config in topic.configs} for topic in creatable}

    def finish(response: types.CreateTopicsResponse) -> types.CreateTopicsResponse:
        for topic in response.topics:
            add_configs(topic, changes.get(topic.name), named.get(topic.name, ()))
        hide_configs(response.topics, describable)
        return merge.into(response)

    # Copies: the record of the request names all that was requested.
    topics = [copy(topic) for topic in creatable if topic.name in changes]
    if not topics:
        return ControllerOutcome((), merge.alone())
    for topic in topics:
        topic.configs = broker_configs(topic.configs)
    known = any(change.is_any or name in inputs.image.topics.by_name for name, change in changes.items())
    follow_up = Creation(changes, inputs.new_id) if known and not dry else None
    return SendToBroker(with_topics(request, topics), finish, follow_up)


def create_partitions(inputs: DecisionInputs[types.CreatePartitionsRequest]) -> Decision:
    request = inputs.request
    errors = partition_errors(inputs.authorization, request)
    merge: Merge[types.CreatePartitionsResponse] = Merge(CREATE_PARTITIONS, request, errors)
    topics = [topic for topic in request.topics if topic.name not in errors]
    return (
        SendToBroker(with_topics(request, topics), merge.into)
        if topics
        else ControllerOutcome((), merge.alone())
    )


def delete_topics(inputs: DecisionInputs[types.DeleteTopicsRequest]) -> Decision:
    """Decide DeleteTopics. A missing topic is reported as missing only to clients that may describe it."""
    request, topic_names = inputs.request, inputs.topic_names
    times = Counter(topics_to_delete(request))
    # An empty name counts as a name: a broker reports that there is no such topic.
    names = {key: topic_names.get(key) if key[0] is None else key[0] for key in times}
    errors, perhaps_missing = deletion_errors(inputs.authorization, names, times)
    errors |= {key: missing_topic(name) for key, name in perhaps_missing.items() if key not in topic_names}
    merge = DeletionMerge(times, errors)
    if not merge.allowed:
        return ControllerOutcome((), merge.alone())
    by_name = inputs.image.topics.by_name
    known = {name: topic for name in names.values() if name is not None and (topic := by_name.get(name))}
    return SendToBroker(deletion_of(request, merge.allowed), merge.into, Deletion(known) if known else None)


def _topics_to_look_up(request: types.DeleteTopicsRequest) -> list[TopicKey]:
    return [key for key in topics_to_delete(request) if names_a_topic(key)]


CONTROLLER_APIS = (
    ControllerApi(
        key=ApiKey.CREATE_TOPICS,
        decide=create_topics,
        writes=("AccessControlEntryRecord", *OF_TOPICS),
        to_broker=True,
        dry_run=Policies.dry_run_request,
        charge=CREATION,
    ),
    ControllerApi(
        key=ApiKey.DELETE_TOPICS,
        decide=delete_topics,
        writes=("RemoveAccessControlEntryRecord", *OF_TOPICS),
        to_broker=True,
        topics=_topics_to_look_up,
        charge=DELETION,
    ),
    ControllerApi(
        key=ApiKey.CREATE_PARTITIONS,
        decide=create_partitions,
        to_broker=True,
        charge=NEW_PARTITIONS,
    ),
)
