"""ConsumerGroupHeartbeat (KIP-848): READ on the group and DESCRIBE on every topic subscribed to by name.

One denied topic refuses the whole request with TOPIC_AUTHORIZATION_FAILED. A regular expression is matched
by the broker, with our rights: so what a member may not DESCRIBE is taken out of the assignment it is told.
An assignment names topics by id. One with an id that nobody told is withheld, the client is made to come
again at once, and the broker is asked for the names first (proxy.session.withheld); an id that has no name
even then is taken out.
"""

from __future__ import annotations

from proxy.admin.rejection import code_only
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.existing_topics import with_names
from proxy.session.call import Api, Call, Forward, Verdict, deny
from proxy.session.withheld import Withheld, WithheldAssignments
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

SOON_MS = 100
"""The heartbeat interval told to a member whose assignment is withheld."""


def decide(call: Call, request: types.ConsumerGroupHeartbeatRequest) -> Verdict:
    """See the module."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    subscribed = set(request.subscribed_topic_names or ())
    if call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, sorted(subscribed)) < subscribed:
        return deny(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    withheld = call.withheld
    assert withheld is not None
    kept = withheld.take(request.group_id, request.member_id)
    verdict = Forward(None, lambda response: _tell(call, withheld, request.group_id, kept, response))
    return verdict if kept is None else with_names(call, kept.topic_ids, lambda: verdict)


def _tell(
    call: Call,
    withheld: WithheldAssignments,
    group_id: str,
    kept: Withheld | None,
    response: types.ConsumerGroupHeartbeatResponse,
) -> None:
    if response.error_code != ErrorCode.NONE:
        return
    looked_up = set(kept.topic_ids) if kept is not None else set()
    if response.assignment is None and kept is not None and kept.member_epoch == response.member_epoch:
        response.assignment = kept.assignment
    if response.assignment is None:
        return
    told = Withheld(response.member_epoch, response.assignment)
    names = {topic_id: call.gate.topic_names.name(topic_id) for topic_id in told.topic_ids}
    if any(name is None and topic_id not in looked_up for topic_id, name in names.items()):
        withheld.keep(group_id, response.member_id or "", told)
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
