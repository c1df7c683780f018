"""ConsumerGroupHeartbeat (KIP-848) and the APIs of Streams group members (KIP-1071): READ on the group.

A consumer group member needs DESCRIBE on every topic that it subscribes to by name. One denied topic rejects
the whole request with TOPIC_AUTHORIZATION_FAILED. The broker matches a regular expression with the proxy's
rights, so topics that the member may not DESCRIBE are removed from its assignment, and recorded as denied:
the broker gives their partitions to no other member. An assignment names topics by id. If an id has no name
here yet, the assignment is deferred: the member gets a short heartbeat interval, and its next heartbeat looks
up the names first (proxy.session.remembered), again and again if lookups fail: no broker sends an assignment
twice. An id that the broker has not had since then is removed.

A Streams group member needs DESCRIBE on every topic of its topology. A topology with one of Kafka's internal
topics, or with an invalid topic name, is STREAMS_INVALID_TOPOLOGY before any right on a topic is checked;
with one topic denied the request is TOPIC_AUTHORIZATION_FAILED. The broker creates internal topics of the
application that are missing, and would do so with the proxy's rights. So it is first queried which exist:
with one missing that the client may not CREATE, the request is TOPIC_AUTHORIZATION_FAILED. (A broker itself
would admit the member and report with each heartbeat what is missing.) If the broker then reports that topics
are missing, it creates them, and they are recorded. Its status names three of them at most.

With StreamsGroupTopologyDescriptionUpdate (KIP-1331) a member describes its topology for tools that show it.
The names in it may lack the application's prefix, so no right on topics is checked, as in Kafka.

`learn_host` learns the host of a member of any group from the response that accepts its request.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import TypeAlias

from proxy.admin.rejection import code_and_message, code_only
from proxy.admin.topics import INTERNAL_TOPICS, is_valid_name
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.security.protected import protected_among
from proxy.session.apis.topic_existence import find_partitions, record_created, with_names
from proxy.session.call import Api, Call, Forward, Verdict, deny, reject
from proxy.session.remembered import DeferredAssignment, DeferredAssignments
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

SOON_MS = 100
"""The heartbeat interval of a member whose assignment is deferred."""

_MISSING_INTERNAL_TOPICS = 3
"""Status of a Streams group for which the broker creates topics (KIP-1071)."""

Subtopology: TypeAlias = (
    "types.StreamsGroupHeartbeatRequest.Subtopology | types.StreamsGroupDescribeResponse.Subtopology"
)


def decide_consumer(call: Call, request: types.ConsumerGroupHeartbeatRequest) -> Verdict:
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    subscribed = set(request.subscribed_topic_names or ())
    if call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, sorted(subscribed)) < subscribed:
        return deny(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assignments = call.remembered.deferred_assignments
    deferred = assignments.find(request.group_id, request.member_id)

    def on_response(response: types.ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code == ErrorCode.NONE:
            member_id = response.member_id or request.member_id
            call.gate.member_hosts.learn(request.group_id, member_id, call.peer.address, call.now_ms)
            if deferred is not None:
                assignments.drop(request.group_id, request.member_id)
            _assign(call, assignments, request.group_id, deferred, response)

    verdict = Forward(None, on_response)
    return verdict if deferred is None else with_names(call, deferred.topic_ids, lambda: verdict)


def _assign(
    call: Call,
    assignments: DeferredAssignments,
    group_id: str,
    deferred: DeferredAssignment | None,
    response: types.ConsumerGroupHeartbeatResponse,
) -> None:
    if response.assignment is None and deferred and deferred.member_epoch == response.member_epoch:
        response.assignment = deferred.assignment
    if response.assignment is None:
        return
    assigned = DeferredAssignment(response.member_epoch, response.assignment, call.now_ms)
    topic_names = call.gate.topic_names
    names = {topic_id: topic_names.name(topic_id) for topic_id in assigned.topic_ids}
    missing = () if deferred is None else topic_names.missing_since(deferred.topic_ids, deferred.since_ms)
    if any(name is None and topic_id not in missing for topic_id, name in names.items()):
        assignments.hold(group_id, response.member_id or "", assigned)
        response.assignment = None
        response.heartbeat_interval_ms = min(response.heartbeat_interval_ms, SOON_MS)
        return
    known = [name for name in names.values() if name is not None]
    shown = call.shows(Operation.DESCRIBE, ResourceType.TOPIC, known)
    # Decided for the record: while this member is there, no other one gets these partitions.
    call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, sorted(set(known) - shown))
    response.assignment.topic_partitions = [
        topic for topic in response.assignment.topic_partitions if names[bytes(topic.topic_id)] in shown
    ]


def decide_by_group(
    call: Call,
    request: types.JoinGroupRequest
    | types.LeaveGroupRequest
    | types.StreamsGroupTopologyDescriptionUpdateRequest,
) -> Verdict:
    """Decide a request that needs READ on the group, and no other right."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return Forward()


def learn_host(call: Call, group_id: str, member_id: str, raw: tuple[str, ...] = ()) -> Forward:
    """Forward a member's request, and learn its host if the broker accepts it and the host is not known yet.

    `raw` names the large fields of the response, which are not decoded.
    """
    hosts = call.gate.member_hosts
    if hosts.knows(group_id, member_id, call.peer.address, call.now_ms):
        return Forward()

    def on_response(response: types.SyncGroupResponse | types.HeartbeatResponse) -> None:
        if response.error_code == ErrorCode.NONE:
            hosts.learn(group_id, member_id, call.peer.address, call.now_ms)

    return Forward(None, on_response, raw)


def decide_streams(call: Call, request: types.StreamsGroupHeartbeatRequest) -> Verdict:
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return reject(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    forward = learn_host(call, request.group_id, request.member_id)
    if request.topology is None:
        return forward
    parts = request.topology.subtopologies
    topics = list(dict.fromkeys(name for part in parts for name in topics_of_subtopology(part)))
    message = _topology_error(topics)
    if message is not None:
        return reject(call, request, ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    if len(call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, topics)) < len(topics):
        return reject(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    internal = list(dict.fromkeys(name for part in parts for name in internal_topics_of(part)))
    if not internal:
        return forward

    def found(existing: Mapping[str, Container[int]]) -> Verdict:
        # One that the broker reports with an error has no partitions, and may be missing.
        return _with_missing(call, request, [name for name in internal if not existing.get(name)], forward)

    return find_partitions(call, internal, found)


def _topology_error(topics: list[str]) -> str | None:
    internal = [name for name in topics if name in INTERNAL_TOPICS]
    if internal:
        return f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
    invalid = [name for name in topics if not is_valid_name(name)]
    return f"Topic names {','.join(invalid)} are not valid topic names." if invalid else None


def _uncreatable(call: Call, names: list[str]) -> list[str]:
    if names and call.shows(Operation.CREATE, ResourceType.CLUSTER, (CLUSTER_NAME,)):
        names = list(protected_among(call.basis.authorizer, ResourceType.TOPIC, names))
    shown = call.shows(Operation.CREATE, ResourceType.TOPIC, names)
    return [name for name in names if name not in shown]


def _with_missing(
    call: Call, request: types.StreamsGroupHeartbeatRequest, missing: list[str], forward: Forward
) -> Verdict:
    uncreatable = _uncreatable(call, missing)
    if uncreatable:
        # Decided for the record: these topics are missing and denied.
        call.allowed_names(Operation.CREATE, ResourceType.TOPIC, uncreatable)
        message = f"Unauthorized to CREATE on topics {', '.join(uncreatable)}."
        return reject(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED, message)

    def on_response(response: types.StreamsGroupHeartbeatResponse) -> None:
        if forward.on_response is not None:
            forward.on_response(response)
        if any(status.status_code == _MISSING_INTERNAL_TOPICS for status in response.status or ()):
            record_created(call, missing)

    return Forward(None, on_response) if missing else forward


def topics_of_subtopology(subtopology: Subtopology) -> Iterator[str]:
    """Return all topics that a subtopology names, with duplicates."""
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    yield from internal_topics_of(subtopology)


def internal_topics_of(subtopology: Subtopology) -> Iterator[str]:
    """Return the topics that the broker creates for the application if they are missing."""
    for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
        yield topic.name


APIS = (
    Api(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        decide_consumer,
        code_only("ConsumerGroupHeartbeatResponse"),
        repeatable=True,
    ),
    Api(ApiKey.STREAMS_GROUP_HEARTBEAT, decide_streams, code_and_message("StreamsGroupHeartbeatResponse")),
    Api(
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        decide_by_group,
        code_and_message("StreamsGroupTopologyDescriptionUpdateResponse"),
    ),
)
