"""Queries which topics exist before a verdict that depends on it, and creates missing ones.

Used by APIs for which a broker looks into its list of topics before or after it checks a right; the responses
to these queries are used for the verdict only. Topics are created by `create_at_broker` (by the broker) and
by `create_missing` (by our controller, so that policies and the quota on mutations apply as for CreateTopics;
they have no owner). Topics that an earlier response has named are not queried again. Kafka's internal
topics are left to the broker, which knows how to create them; no policy may prevent that.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TypeAlias

from proxy.admin.objects import bounded, named
from proxy.admin.topics import INTERNAL_TOPICS, is_valid_name
from proxy.audit import events
from proxy.metadata.image import OWNER
from proxy.session.call import Call, NameTopics, QueryBroker, QueryController, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

_FIRST_WITHOUT_CREATION = 4
"""The first version of Metadata in which a request can disable auto-creation."""

TIMEOUT_MS = 5_000
"""The timeout of CreateTopics: the client waits for Metadata meanwhile, and retries if a topic is unknown."""

_FIRST_WITH_DEFAULTS = 4
"""The first version of CreateTopics in which -1 partitions are the broker's default (KIP-464)."""

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_CREATED = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
_REPORTED = (ErrorCode.POLICY_VIOLATION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_BEING_CREATED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)

Then = Callable[[Mapping[str, int]], Verdict]
"""Gets the topics that could not be created: name -> error code."""

Topic: TypeAlias = "types.MetadataResponse.MetadataResponseTopic"

RAW = ("topics.partitions",)
"""What is skipped of a response, and not decoded."""

MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


def find_existing(call: Call, names: Iterable[str], then: Callable[[set[str]], Verdict]) -> Verdict:
    """Query which of the names are topics; `then` gets them, or none if the broker's version is too old."""
    return _find(call, _named(names), lambda found: then({name for name, _ in found}), RAW)


def find_all_names(call: Call, then: Callable[[list[str]], Verdict]) -> Verdict:
    """Query the names of all topics."""
    return _find(call, None, lambda found: then([name for name, _ in found]), RAW)


def find_partitions(
    call: Call, names: Iterable[str], then: Callable[[Mapping[str, Container[int]]], Verdict]
) -> Verdict:
    """Query the partitions of these topics; `then` gets them by the names of those that exist."""
    return _find(call, _named(names), lambda found: then(_partitions(found)))


def find_all_partitions(call: Call, then: Callable[[Mapping[str, Iterable[int]]], Verdict]) -> Verdict:
    """Query the partitions of all topics; `then` gets them by name."""
    return _find(call, None, lambda found: then(_partitions(found)))


def _named(names: Iterable[str]) -> list[types.MetadataRequest.MetadataRequestTopic]:
    return [types.MetadataRequest.MetadataRequestTopic(name=name) for name in names]


def _partitions(found: list[tuple[str, Topic]]) -> dict[str, set[int]]:
    return {name: {partition.partition_index for partition in topic.partitions} for name, topic in found}


def _find(
    call: Call,
    topics: list[types.MetadataRequest.MetadataRequestTopic] | None,
    then: Callable[[list[tuple[str, Topic]]], Verdict],
    raw: tuple[str, ...] = (),
) -> Verdict:
    version = _version(call, _FIRST_WITHOUT_CREATION)
    if version is None:
        return then([])

    def responded(response: types.MetadataResponse) -> Verdict:
        found = [(topic.name, topic) for topic in response.topics if topic.name]
        for name, topic in found:
            call.gate.topic_names.learn(bytes(topic.topic_id), name)
        return then([(name, topic) for name, topic in found if topic.error_code not in MISSING])

    query = types.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    return QueryBroker(int(ApiKey.METADATA), version, query, responded, raw)


def with_names(call: Call, topic_ids: Iterable[bytes], then: Callable[[], Verdict]) -> Verdict:
    """Look up the names of these ids at the broker where they are unknown, then call `then`."""
    unknown = call.gate.unnamed_topics(topic_ids, call.now_ms)
    return NameTopics(unknown, then) if unknown else then()


def create_at_broker(
    call: Call, names: Iterable[str], then: Callable[[Mapping[str, int]], Verdict]
) -> Verdict:
    """Have the broker create missing topics; `then` gets the error codes of those that it did not create."""
    version = _version(call, _FIRST_WITHOUT_CREATION)
    if version is None:
        return then({})

    requested = list(names)

    def responded(response: types.MetadataResponse) -> Verdict:
        record_creations(call, response, set(requested))
        failed = {topic.name: topic.error_code for topic in response.topics if topic.error_code}
        return then({name: error_code for name, error_code in failed.items() if name is not None})

    topic = types.MetadataRequest.MetadataRequestTopic
    query = types.MetadataRequest(
        topics=[topic(name=name) for name in requested], allow_auto_topic_creation=True
    )
    return QueryBroker(int(ApiKey.METADATA), version, query, responded)


def record_creations(call: Call, response: types.MetadataResponse, requested: Container[str]) -> None:
    """Record the topics that the broker creates for this request: it reports them as missing meanwhile."""
    reported = (topic.name or "" for topic in response.topics if topic.error_code in _BEING_CREATED)
    record_created(call, [name for name in reported if name in requested and is_valid_name(name)])


def record_created(call: Call, names: Iterable[str]) -> None:
    """Record that the broker creates these topics for this request."""
    api = ApiKey.name_of(call.api_key)
    created = [named("TOPIC", name, "CREATE", requested_by=api) for name in names]
    if created:
        event = events.broker_responded(
            method=api,
            api_version=call.version,
            correlation_id=call.correlation_id,
            error_code=None,
            objects=bounded(created, call.size_bytes),
        )
        call.events.append(event)


def _version(call: Call, least: int) -> int | None:
    low, high = call.gate.versions.get(ApiKey.METADATA, (0, -1))
    return high if high >= max(low, least) else None


def create_missing(call: Call, names: Iterable[str], then: Then) -> Verdict:
    """Create the missing ones of these topics, then call `then`."""
    known = call.gate.topic_names.topic_id
    unknown = [name for name in names if is_valid_name(name) and known(name) is None]
    internal = [name for name in unknown if name in INTERNAL_TOPICS]
    others = [name for name in unknown if name not in INTERNAL_TOPICS]
    if not internal:
        return _create_others(call, others, {}, then)
    return create_at_broker(call, internal, lambda failed: _create_others(call, others, failed, then))


def _create_others(call: Call, names: list[str], failed: Mapping[str, int], then: Then) -> Verdict:
    if not names:
        return then(failed)

    def found(existing: set[str]) -> Verdict:
        missing = [name for name in names if name not in existing]
        return _create_at_controller(call, missing, failed, then) if missing else then(failed)

    return find_existing(call, names, found)


def _create_at_controller(call: Call, missing: list[str], failed: Mapping[str, int], then: Then) -> Verdict:
    none_created = {**failed, **dict.fromkeys(missing, _UNKNOWN)}
    _, version = call.gate.versions.get(ApiKey.CREATE_TOPICS, (0, -1))
    if version < _FIRST_WITH_DEFAULTS:
        return then(none_created)

    def responded(response: types.CreateTopicsResponse | None, _error_code: int) -> Verdict:
        return then(none_created if response is None else {**failed, **_not_created(response)})

    request = types.CreateTopicsRequest
    # The client has only looked: a monitor that asks for a topic too early would own it (decision 0116).
    nobodys = request.CreatableTopicConfig(name=OWNER, value="")
    topics = [
        request.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, configs=[nobodys])
        for name in missing
    ]
    query = request(topics=topics, timeout_ms=TIMEOUT_MS)
    return QueryController(int(ApiKey.CREATE_TOPICS), version, query, responded, TIMEOUT_MS)


def _not_created(response: types.CreateTopicsResponse) -> dict[str, int]:
    """Return name -> error code of the topics that were not created.

    An exceeded quota and other transient errors are reported as unknown topics, as KRaft's brokers do: the
    client retries.
    """
    return {
        topic.name: topic.error_code if topic.error_code in _REPORTED else _UNKNOWN
        for topic in response.topics
        if topic.error_code not in _CREATED
    }
