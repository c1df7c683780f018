"""StreamsGroupHeartbeat (KIP-1071): READ on the group and DESCRIBE on every topic of the topology.

A topology that names a topic of Kafka's own, or one that no topic can be called, is STREAMS_INVALID_TOPOLOGY
before any right on a topic is asked for; with one topic denied the request is TOPIC_AUTHORIZATION_FAILED.

The broker makes the internal topics that are missing, and would make them under our name. So it is asked
first which are there: with one missing that the client may not CREATE, the request is
TOPIC_AUTHORIZATION_FAILED. (A broker of its own would let the member in and tell it with each heartbeat
what is missing.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from proxy.admin.rejection import code_and_message
from proxy.admin.topics import INTERNAL_TOPICS, is_valid_name
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.session.apis.existing_topics import ask_which_exist
from proxy.session.call import Api, Call, Forward, Respond, Verdict, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

Subtopology: TypeAlias = (
    "types.StreamsGroupHeartbeatRequest.Subtopology | types.StreamsGroupDescribeResponse.Subtopology"
)


def decide(call: Call, request: types.StreamsGroupHeartbeatRequest) -> Verdict:
    """See the module."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return reject(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if request.topology is None:
        return Forward()
    parts = request.topology.subtopologies
    topics = list(dict.fromkeys(name for part in parts for name in topics_of_subtopology(part)))
    message = _fault(topics)
    if message is not None:
        return reject(call, request, ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    if len(call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, topics)) < len(topics):
        return reject(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    internal = dict.fromkeys(name for part in parts for name in internal_topics_of(part))
    uncreatable = _uncreatable(call, list(internal))
    if not uncreatable:
        return Forward()
    return ask_which_exist(
        call, uncreatable, lambda existing: _unless_missing(call, request, uncreatable, existing)
    )


def _fault(topics: list[str]) -> str | None:
    kafkas_own = [name for name in topics if name in INTERNAL_TOPICS]
    if kafkas_own:
        return (
            f"Use of Kafka internal topics {','.join(kafkas_own)} in a Kafka Streams topology is prohibited."
        )
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
    # Asked for, so that it is written down what was missing and denied.
    call.allowed_names(Operation.CREATE, ResourceType.TOPIC, missing)
    return _unauthorized_to_create(call, request, missing)


def _unauthorized_to_create(
    call: Call, request: types.StreamsGroupHeartbeatRequest, missing: list[str]
) -> Respond:
    message = f"Unauthorized to CREATE on topics {', '.join(missing)}."
    return reject(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED, message)


def topics_of_subtopology(subtopology: Subtopology) -> Iterator[str]:
    """All topics that a subtopology names, some perhaps twice."""
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    yield from internal_topics_of(subtopology)


def internal_topics_of(subtopology: Subtopology) -> Iterator[str]:
    """Those that the broker makes for the application where they are missing."""
    for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
        yield topic.name


APIS = (Api(ApiKey.STREAMS_GROUP_HEARTBEAT, decide, code_and_message("StreamsGroupHeartbeatResponse")),)
