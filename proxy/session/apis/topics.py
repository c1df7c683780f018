"""CreateTopics, CreatePartitions and DeleteTopics: the allowed topics go to the controller.

Which topics are rejected, and how, is in proxy.admin.topics: the controller applies the same rules. The
configs of a created topic are shown to clients with DESCRIBE_CONFIGS on it. A topic that does not exist is
reported as missing to clients that may DESCRIBE it, and denied to others: if that matters, the broker is
queried first.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.admin.configs import TOPIC
from proxy.admin.objects import HIDDEN, Known, Object, named, shown, without_value
from proxy.admin.rejection import Error, PartError, TopicShape, rejected_parts, succeeded
from proxy.admin.topics import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DeletionError,
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
)
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.configs import unsupported_topics
from proxy.session.apis.topic_existence import find_existing, with_names
from proxy.session.call import Api, Call, Change, Respond, ResponseHandler, Verdict, forward_to_controller
from proxy.wire import types
from proxy.wire.api_keys import ApiKey


def decide_create_topics(call: Call, request: types.CreateTopicsRequest) -> Verdict:
    errors = creation_errors(call, request)
    creatable = dict.fromkeys(topic.name for topic in request.topics if topic.name not in errors)
    for name, error in unsupported_topics(call, request.topics).items():
        errors.setdefault(name, error)
    shown = call.shows(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, creatable)

    def finish(response: types.CreateTopicsResponse) -> None:
        for topic in () if request.validate_only else response.topics:
            # The broker knows it later. In a dry run Kafka's controller returns the id of no topic.
            call.gate.topic_names.learn(bytes(topic.topic_id), topic.name)
        hide_configs(response.topics, shown)

    return _without(errors, CREATE_TOPICS, request, finish)


def _without(
    errors: Mapping[str, PartError], shape: TopicShape, request: Any, finish: ResponseHandler | None = None
) -> Verdict:
    if not errors:
        return forward_to_controller(request, finish)
    merge: Merge[Any] = Merge(shape, request, errors)
    request.topics = [topic for topic in request.topics if topic.name not in errors]

    def on_response(response: Any) -> None:
        if finish is not None:
            finish(response)
        merge.into(response)

    return forward_to_controller(request, on_response) if request.topics else Respond(merge.alone())


def decide_delete_topics(call: Call, request: types.DeleteTopicsRequest) -> Verdict:
    requested = topics_to_delete(request)
    topic_ids = (topic_id for name, topic_id in requested if name is None)
    return with_names(call, topic_ids, lambda: _delete(call, request, requested))


def _delete(call: Call, request: types.DeleteTopicsRequest, requested: list[TopicKey]) -> Verdict:
    counts = Counter(requested)
    names = {key: call.gate.topic_names.name(key[1]) if key[0] is None else key[0] for key in requested}
    errors, perhaps_missing = deletion_errors(call, names, counts)
    if not perhaps_missing:
        return _delete_without(errors, request, counts)

    def known(existing: set[str]) -> Verdict:
        for key, name in perhaps_missing.items():
            if name not in existing:
                errors[key] = missing_topic(name)
        return _delete_without(errors, request, counts)

    return find_existing(call, perhaps_missing.values(), known)


def _delete_without(
    errors: Mapping[TopicKey, DeletionError], request: types.DeleteTopicsRequest, times: Counter[TopicKey]
) -> Verdict:
    if not errors:
        return forward_to_controller(request)
    merge = DeletionMerge(times, errors)
    if not merge.allowed:
        return Respond(merge.alone())

    def on_response(response: types.DeleteTopicsResponse) -> None:
        merge.into(response)

    return forward_to_controller(deletion_of(request, merge.allowed), on_response)


def _reject_deletion(
    _version: int, request: types.DeleteTopicsRequest, error: Error
) -> types.DeleteTopicsResponse:
    response = types.DeleteTopicsResponse
    named = [response.DeletableTopicResult(name=name, **error) for name in request.topic_names]
    return response(
        responses=named
        + [
            response.DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, **error)
            for topic in request.topics
        ]
    )


def _created(
    request: types.CreateTopicsRequest, response: types.CreateTopicsResponse | None
) -> Iterator[Change]:
    rejected = rejected_parts(response, "topics", lambda topic: topic.name)
    ids = {} if response is None else {topic.name: _uuid(topic.topic_id) for topic in response.topics}
    for topic in request.topics:
        if topic.name not in rejected:
            yield "TopicRecord", topic.name, *ids.get(topic.name, ())
            for config in topic.configs:
                value = shown(TOPIC, config.name, config.value)
                yield "ConfigRecord", "TOPIC", topic.name, config.name, *(() if value == HIDDEN else (value,))
            yield "PartitionRecord", topic.name


def _deleted(
    request: types.DeleteTopicsRequest, response: types.DeleteTopicsResponse | None
) -> Iterator[Change]:
    if response is None:
        yield from (("RemoveTopicRecord", name) for name in request.topic_names)
        yield from (("RemoveTopicRecord", topic.name)[: 1 + bool(topic.name)] for topic in request.topics)
        return
    for topic in response.responses:
        if succeeded(topic):
            yield ("RemoveTopicRecord", topic.name)[: 1 + bool(topic.name)]


def _widened(
    request: types.CreatePartitionsRequest, response: types.CreatePartitionsResponse | None
) -> Iterator[Change]:
    rejected = rejected_parts(response, "results", lambda result: result.name)
    yield from (("PartitionRecord", topic.name) for topic in request.topics if topic.name not in rejected)


def _creations(
    request: types.CreateTopicsRequest, response: types.CreateTopicsResponse | None, _known: Known
) -> Iterator[Object]:
    results = {} if response is None else {topic.name: topic for topic in response.topics}
    for topic in request.topics:
        part = results.get(topic.name)
        partitions, replicas = topic.num_partitions, topic.replication_factor
        if part is not None and part.num_partitions > 0:
            partitions, replicas = part.num_partitions, part.replication_factor
        elif topic.assignments:
            partitions, replicas = len(topic.assignments), len(topic.assignments[0].broker_ids)
        place = {
            "partitions": partitions,
            "replication_factor": replicas,
            "topic_id": None if part is None else "".join(_uuid(part.topic_id)) or None,
        }
        outcome = without_value(part, TOPIC, topic.configs)
        yield named("TOPIC", topic.name, "CREATE", outcome, **place)
        for config in topic.configs:
            value = shown(TOPIC, config.name, config.value)
            yield named("TOPIC", topic.name, "SET_CONFIG", outcome, key=config.name, new_value=value)


def _deletions(
    request: types.DeleteTopicsRequest, response: types.DeleteTopicsResponse | None, known: Known
) -> Iterator[Object]:
    def deletion(
        topic: types.DeleteTopicsRequest.DeleteTopicState | types.DeleteTopicsResponse.DeletableTopicResult,
    ) -> Object:
        topic_id = bytes(topic.topic_id or b"")
        name = topic.name or (known.topic_name(topic_id) if any(topic_id) else None)
        part = topic if isinstance(topic, types.DeleteTopicsResponse.DeletableTopicResult) else None
        return named("TOPIC", name, "DELETE", part, topic_id="".join(_uuid(topic_id)) or None)

    if response is not None:
        yield from map(deletion, response.responses)
        return
    yield from (named("TOPIC", name, "DELETE") for name in request.topic_names)
    yield from map(deletion, request.topics)


def _new_partitions(
    request: types.CreatePartitionsRequest, response: types.CreatePartitionsResponse | None, _known: Known
) -> Iterator[Object]:
    results = {} if response is None else {topic.name: topic for topic in response.results}
    for topic in request.topics:
        yield named("TOPIC", topic.name, "CREATE_PARTITIONS", results.get(topic.name), partitions=topic.count)


def _uuid(topic_id: bytes | None) -> Sequence[str]:
    raw = bytes(topic_id or b"")
    return (base64.urlsafe_b64encode(raw).decode().rstrip("="),) if any(raw) else ()


APIS = (
    Api(
        ApiKey.CREATE_TOPICS,
        decide_create_topics,
        CREATE_TOPICS.reject,
        admin="controller",
        changes=_created,
        objects=_creations,
    ),
    Api(
        ApiKey.CREATE_PARTITIONS,
        lambda call, request: _without(partition_errors(call, request), CREATE_PARTITIONS, request),
        CREATE_PARTITIONS.reject,
        admin="controller",
        changes=_widened,
        objects=_new_partitions,
    ),
    Api(
        ApiKey.DELETE_TOPICS,
        decide_delete_topics,
        _reject_deletion,
        admin="controller",
        changes=_deleted,
        objects=_deletions,
    ),
)
