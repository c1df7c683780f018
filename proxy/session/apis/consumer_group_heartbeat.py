"""ConsumerGroupHeartbeat (KIP-848): READ on the group and DESCRIBE on every topic subscribed to by name.

One denied topic rejects the whole request with TOPIC_AUTHORIZATION_FAILED. The broker matches a regular
expression with the proxy's rights, so topics that the member may not DESCRIBE are removed from its
assignment. An assignment names topics by id. If an id has no name here yet, the assignment is deferred: the
member gets a short heartbeat interval, and its next heartbeat looks up the names first
(proxy.session.remembered). An id that has no name even then is removed.
"""

from __future__ import annotations

from proxy.admin.rejection import code_only
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.topic_existence import with_names
from proxy.session.call import Api, Call, Forward, Verdict, deny
from proxy.session.remembered import Deferred, DeferredAssignments
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

SOON_MS = 100
"""The heartbeat interval of a member whose assignment is deferred."""


def decide(call: Call, request: types.ConsumerGroupHeartbeatRequest) -> Verdict:
    """Decide a ConsumerGroupHeartbeat request."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    subscribed = set(request.subscribed_topic_names or ())
    if call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, sorted(subscribed)) < subscribed:
        return deny(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assignments = call.remembered.deferred_assignments
    deferred = assignments.take(request.group_id, request.member_id)
    verdict = Forward(None, lambda response: _assign(call, assignments, request.group_id, deferred, response))
    return verdict if deferred is None else with_names(call, deferred.topic_ids, lambda: verdict)


def _assign(
    call: Call,
    assignments: DeferredAssignments,
    group_id: str,
    deferred: Deferred | None,
    response: types.ConsumerGroupHeartbeatResponse,
) -> None:
    if response.error_code != ErrorCode.NONE:
        return
    looked_up = set(deferred.topic_ids) if deferred is not None else set()
    if response.assignment is None and deferred and deferred.member_epoch == response.member_epoch:
        response.assignment = deferred.assignment
    if response.assignment is None:
        return
    assigned = Deferred(response.member_epoch, response.assignment)
    names = {topic_id: call.gate.topic_names.name(topic_id) for topic_id in assigned.topic_ids}
    if any(name is None and topic_id not in looked_up for topic_id, name in names.items()):
        assignments.hold(group_id, response.member_id or "", assigned)
        response.assignment = None
        response.heartbeat_interval_ms = min(response.heartbeat_interval_ms, SOON_MS)
        return
    known = [name for name in names.values() if name is not None]
    shown = call.shows(Operation.DESCRIBE, ResourceType.TOPIC, known)
    response.assignment.topic_partitions = [
        topic for topic in response.assignment.topic_partitions if names[bytes(topic.topic_id)] in shown
    ]


APIS = (
    Api(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        decide,
        code_only("ConsumerGroupHeartbeatResponse"),
        repeatable=True,
    ),
)
