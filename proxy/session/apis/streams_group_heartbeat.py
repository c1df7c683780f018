"""StreamsGroupHeartbeat (KIP-1071): READ on the group and DESCRIBE on every topic of the topology.

A topology with one of Kafka's internal topics, or with an invalid topic name, is STREAMS_INVALID_TOPOLOGY
before any right on a topic is checked; with one topic denied the request is TOPIC_AUTHORIZATION_FAILED.

The broker creates internal topics of the application that are missing, and would do so with the proxy's
rights. So it is first queried which exist: with one missing that the client may not CREATE, the request is
TOPIC_AUTHORIZATION_FAILED. (A broker itself would admit the member and report with each heartbeat what is
missing.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from proxy.admin.rejection import code_and_message
from proxy.admin.topics import INTERNAL_TOPICS, is_valid_name
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.session.apis.topic_existence import find_existing
from proxy.session.call import Api, Call, Forward, Respond, Verdict, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

Subtopology: TypeAlias = (
    "types.StreamsGroupHeartbeatRequest.Subtopology | types.StreamsGroupDescribeResponse.Subtopology"
)


def decide(call: Call, request: types.StreamsGroupHeartbeatRequest) -> Verdict:
    """Decide a StreamsGroupHeartbeat request."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return reject(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if request.topology is None:
        return Forward()
    parts = request.topology.subtopologies
    topics = list(dict.fromkeys(name for part in parts for name in topics_of_subtopology(part)))
    message = _topology_error(topics)
    if message is not None:
        return reject(call, request, ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    if len(call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, topics)) < len(topics):
        return reject(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    internal = dict.fromkeys(name for part in parts for name in internal_topics_of(part))
    uncreatable = _uncreatable(call, list(internal))
    if not uncreatable:
        return Forward()
    return find_existing(
        call, uncreatable, lambda existing: _unless_missing(call, request, uncreatable, existing)
    )


def _topology_error(topics: list[str]) -> str | None:
    internal = [name for name in topics if name in INTERNAL_TOPICS]
    if internal:
        return f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
    invalid = [name for name in topics if not is_valid_name(name)]
    return f"Topic names {','.join(invalid)} are not valid topic names." if invalid else None


def _uncreatable(call: Call, names: list[str]) -> list[str]:
    if call.shows(Operation.CREATE, ResourceType.CLUSTER, (CLUSTER_NAME,)):
        return []
    shown = call.shows(Operation.CREATE, ResourceType.TOPIC, names)
    return [name for name in names if name not in shown]


def _unless_missing(
    call: Call, request: types.StreamsGroupHeartbeatRequest, uncreatable: list[str], existing: set[str]
) -> Verdict:
    missing = [name for name in uncreatable if name not in existing]
    if not missing:
        return Forward()
    # Decided for the record: these topics are missing and denied.
    call.allowed_names(Operation.CREATE, ResourceType.TOPIC, missing)
    return _unauthorized_to_create(call, request, missing)


def _unauthorized_to_create(
    call: Call, request: types.StreamsGroupHeartbeatRequest, missing: list[str]
) -> Respond:
    message = f"Unauthorized to CREATE on topics {', '.join(missing)}."
    return reject(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED, message)


def topics_of_subtopology(subtopology: Subtopology) -> Iterator[str]:
    """Return all topics that a subtopology names, with duplicates."""
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    yield from internal_topics_of(subtopology)


def internal_topics_of(subtopology: Subtopology) -> Iterator[str]:
    """Return the topics that the broker creates for the application if they are missing."""
    for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
        yield topic.name


APIS = (Api(ApiKey.STREAMS_GROUP_HEARTBEAT, decide, code_and_message("StreamsGroupHeartbeatResponse")),)
