"""Metadata (KIP-4, KIP-430, KIP-516): DESCRIBE on each topic, CREATE to create a missing one.

A list of all topics omits topics without DESCRIBE. Requested by name they are TOPIC_AUTHORIZATION_FAILED
whether they exist or not; requested by id likewise, and without their name. A request has one switch for the
auto-creation of all its topics. If some of them may be created (CREATE on the cluster or on the topic) and
some not, the broker first gets a request for the former with the switch, and then one for all without it.
Missing topics that may not be created are TOPIC_AUTHORIZATION_FAILED at a broker with
auto.create.topics.enable, which would create them, and UNKNOWN_TOPIC_OR_PARTITION at any other. With our own
controller the topics are created there, and the broker never gets the switch (create_missing). Brokers have
the addresses of their proxies; the proxy's authorizer decides the authorized operations. Partitions are
skipped, not decoded, unless there are brokers that clients of the listener cannot reach: then partitions with
such a leader are LISTENER_NOT_FOUND. If the broker has all of the requested topics, they are passed on as its
bytes, and only brokers are decoded (`_in_place`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from proxy.admin.rejection import Error, in_request_order
from proxy.admin.topics import is_valid_name
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.security.protected import protected_names
from proxy.session.apis.addresses import NO_NODE, controller_id, offline_replicas, rewrite_endpoints
from proxy.session.apis.authorized_operations import NOT_REQUESTED, of_cluster, of_topic
from proxy.session.apis.topic_existence import RAW, create_at_broker, create_missing, record_creations
from proxy.session.call import Api, Call, Forward, Verdict, reject
from proxy.wire import codecs, skim, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

Topic: TypeAlias = "types.MetadataResponse.MetadataResponseTopic"

_NO_TOPIC_ID = bytes(16)
_NO_TOPICS = b"\x01"  # An empty compact array.
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_WITHOUT_OPERATIONS = frozenset({_DENIED, ErrorCode.UNKNOWN_TOPIC_ID})
_MISSING = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION})
_FIRST_FLEXIBLE = 9
_FIRST_WITH_TOPIC_ID_IN_RESPONSE = 10
_FIRST_WITH_TOPIC_IDS = 12
_FIRST_WITH_CREATION_SWITCH = 4
_FIRST_WITH_LISTENER_NOT_FOUND = 6


def decide(call: Call, request: types.MetadataRequest) -> Verdict:
    if request.topics is None or (call.version == 0 and not request.topics):
        return _forward(call, request, None, lambda response: _shown(call, response))
    names = [topic.name for topic in request.topics]
    has_ids = not {_NO_TOPIC_ID}.issuperset([topic.topic_id for topic in request.topics])
    if call.version < _FIRST_WITH_TOPIC_IDS:
        if has_ids or None in names:
            message = f"Version {call.version} supports topic names only."
            return reject(call, request, ErrorCode.INVALID_REQUEST, message)
    elif has_ids:
        # If one topic has an id, a broker ignores names.
        return _forward(call, request, None, lambda response: _by_id(call, response))
    elif None in names:
        return reject(call, request, ErrorCode.INVALID_REQUEST, "A topic has neither name nor id.")
    return _by_name(call, request, [name for name in dict.fromkeys(names) if name is not None])


def _forward(
    call: Call,
    request: types.MetadataRequest,
    message: types.MetadataRequest | None,
    shown: Callable[[types.MetadataResponse], list[Topic]],
    names: list[str] | None = None,
) -> Forward:
    """Forward `message`, None for the request as it came; `shown` returns the topics for the client.

    `names`: those that the client has requested.
    """
    hidden = frozenset(call.listener.unreachable)

    def on_response(response: types.MetadataResponse) -> None:
        _finish(call, request, response, shown(response), hidden)

    if (
        names is None
        or hidden
        or call.version < _FIRST_FLEXIBLE
        or request.include_topic_authorized_operations
    ):
        return Forward(message, on_response, () if hidden else RAW)
    return Forward(message, on_response, RAW, partial(_in_place, call, request, names))


def _in_place(call: Call, request: types.MetadataRequest, names: list[str], body: bytes) -> bytes | None:
    """Return the body for the client, whose topics are the broker's bytes; None unless these are the
    requested topics, without any error."""
    found = skim.metadata_topics(body, call.version)
    if found is None:
        return None
    begin, end, by_name = found
    encoded = list(map(str.encode, names))
    topics = [by_name.get(name, b"") for name in encoded]
    if len(by_name) != len(topics) or b"" in topics:
        return None
    codec = codecs.response(ApiKey.METADATA, call.version)
    response = codec.decode_exactly(body[:begin] + _NO_TOPICS + body[end:])
    if call.version >= _FIRST_WITH_TOPIC_ID_IN_RESPONSE:
        for name, id_at, topic in zip(names, map(len, encoded), topics, strict=True):
            call.gate.topic_names.learn(topic[id_at + 3 : id_at + 19], name)
    _finish(call, request, response, [], frozenset())
    rewritten, rest_bytes = codec.encode(response), len(body) - end
    return b"".join(
        (rewritten[: -rest_bytes - 1], bytes((len(topics) + 1,)), *topics, rewritten[-rest_bytes:])
    )


def _shown(call: Call, response: types.MetadataResponse) -> list[Topic]:
    names = (topic.name for topic in response.topics if topic.name)
    shown = call.shows(Operation.DESCRIBE, ResourceType.TOPIC, names)
    response.topics[:] = [topic for topic in response.topics if topic.name in shown]
    return response.topics


def _by_id(call: Call, response: types.MetadataResponse) -> list[Topic]:
    names = [topic.name for topic in response.topics if topic.name]
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, names)
    return [
        topic if not topic.name or topic.name in allowed else _denied(None, topic.topic_id)
        for topic in response.topics
    ]


def _by_name(call: Call, request: types.MetadataRequest, requested: list[str]) -> Verdict:
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, requested)
    uncreatable = _uncreatable(call, allowed) if request.allow_auto_topic_creation else set()
    by_controller = request.allow_auto_topic_creation and _controller_creates(call)
    creates = request.allow_auto_topic_creation and call.gate.auto_creates_topics
    may_create = allowed - uncreatable if creates else set()
    creatable = [name for name in requested if name in may_create] if may_create else []
    by_broker = creates and not (by_controller or uncreatable)
    created = frozenset(creatable if by_broker else ())

    def then(failed: Mapping[str, int]) -> Verdict:
        found = _ByName(requested, allowed, uncreatable, failed, by_controller, created)
        return _forwarded(call, request, found)

    if not creatable:
        return then({})
    if by_controller:
        return create_missing(call, creatable, then)
    return create_at_broker(call, creatable, then) if uncreatable else then({})


def _controller_creates(call: Call) -> bool:
    """Whether the broker must not create topics.

    `auto_creates_topics` may be wrong if the broker does not report its setting, so versions with a switch
    always disable it.
    """
    gate = call.gate
    has_switch = call.version >= _FIRST_WITH_CREATION_SWITCH
    return gate.creates_topics_at_controller and (gate.auto_creates_topics or has_switch)


@dataclass(frozen=True, slots=True)
class _ByName:
    """The topics requested by name, and which of them may be created."""

    names: list[str]
    allowed: set[str]
    uncreatable: set[str]
    not_created: Mapping[str, int]
    """Missing topics whose creation failed: name -> error code."""
    created_by_controller: bool
    created_by_broker: frozenset[str]

    @property
    def switched_off(self) -> bool:
        """Whether the broker gets the request without the switch for auto-creation."""
        return self.created_by_controller or bool(self.uncreatable)


def _forwarded(call: Call, request: types.MetadataRequest, requested: _ByName) -> Verdict:
    changed = len(requested.allowed) < len(requested.names) or requested.switched_off
    denied_topics = [_denied(name) for name in requested.names if name not in requested.allowed]

    def shown(response: types.MetadataResponse) -> list[Topic]:
        found = [
            topic
            for topic in response.topics
            if topic.name in requested.allowed and topic.error_code not in _MISSING
        ]
        record_creations(call, response, requested.created_by_broker)
        known = {topic.name for topic in found}
        missing = [name for name in requested.names if name in requested.allowed and name not in known]
        for name in missing:
            call.gate.topic_names.forget(name)
        parts = [*found, *denied_topics, *_missing(call, missing, requested, response)]
        return in_request_order(requested.names, parts, lambda topic: topic.name)

    message = _narrowed(call, request, requested.allowed, requested.switched_off) if changed else None
    return _forward(call, request, message, shown, requested.names)


def _missing(
    call: Call, names: list[str], requested: _ByName, response: types.MetadataResponse
) -> list[Topic]:
    """Return topics that the broker does not have; a list of all topics lacks them."""
    if not names:
        return []
    reported = {topic.name: topic for topic in response.topics}
    denied = requested.uncreatable if call.gate.auto_creates_topics else set()
    # Decided for the record: now it is known that these topics would have been created.
    call.allowed_names(Operation.CREATE, ResourceType.TOPIC, [name for name in names if name in denied])
    errors = {**requested.not_created, **dict.fromkeys(denied, _DENIED)}
    return [
        reported[name]
        if name in reported and name not in errors
        else _topic(name, _NO_TOPIC_ID, errors.get(name, _code(name)))
        for name in names
    ]


def _code(name: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION


def _uncreatable(call: Call, names: set[str]) -> set[str]:
    """Return the topics that may not be created; this is no denial as long as they exist."""
    if names and call.shows(Operation.CREATE, ResourceType.CLUSTER, (CLUSTER_NAME,)):
        names = names & protected_names(call.basis.authorizer, ResourceType.TOPIC)
    return names - call.shows(Operation.CREATE, ResourceType.TOPIC, names) if names else set()


def _narrowed(
    call: Call, request: types.MetadataRequest, allowed: set[str], switched_off: bool
) -> types.MetadataRequest:
    request.topics = [topic for topic in (request.topics or []) if topic.name in allowed]
    if not switched_off:
        return request
    if call.version < _FIRST_WITH_CREATION_SWITCH:
        # These versions cannot disable auto-creation; a request for all topics creates none.
        request.topics = [] if call.version == 0 else None
    else:
        request.allow_auto_topic_creation = False
    return request


def _denied(name: str | None, topic_id: bytes = _NO_TOPIC_ID) -> Topic:
    return _topic(name, topic_id, _DENIED)


def _topic(name: str | None, topic_id: bytes, error_code: int) -> Topic:
    return types.MetadataResponse.MetadataResponseTopic(name=name, topic_id=topic_id, error_code=error_code)


def _finish(
    call: Call,
    request: types.MetadataRequest,
    response: types.MetadataResponse,
    topics: list[Topic],
    hidden: frozenset[int],
) -> None:
    """Complete the response. `hidden`: brokers that clients do not see; without any, partitions are raw."""
    no_partitions = b"\x01" if codecs.is_flexible(ApiKey.METADATA, call.version) else bytes(4)
    for topic in topics:
        if topic.name:
            call.gate.topic_names.learn(bytes(topic.topic_id), topic.name)
        if topic.error_code == ErrorCode.POLICY_VIOLATION and call.version < 10:
            # Clients of these versions do not expect this error (KIP-590).
            topic.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if hidden:
            _hide_leaders(call, topic, hidden)
        elif not topic.partitions:
            topic.partitions = no_partitions  # type: ignore[assignment] # of RAW: as encoded
    response.topics = topics
    response.brokers = rewrite_endpoints(call.listener, response.brokers)
    response.controller_id = controller_id(response.controller_id, [b.node_id for b in response.brokers])
    _set_authorized_operations(call, request, response)


def _hide_leaders(call: Call, topic: Topic, hidden: frozenset[int]) -> None:
    """Report partitions whose leader is hidden as a broker without the listener does; clients retry."""
    has_code = call.version >= _FIRST_WITH_LISTENER_NOT_FOUND
    for partition in topic.partitions:
        if partition.leader_id in hidden:
            partition.leader_id = NO_NODE
            partition.error_code = (
                ErrorCode.LISTENER_NOT_FOUND if has_code else ErrorCode.LEADER_NOT_AVAILABLE
            )
        partition.offline_replicas = offline_replicas(partition, hidden)


def _set_authorized_operations(
    call: Call, request: types.MetadataRequest, response: types.MetadataResponse
) -> None:
    """Set the client's authorized operations (KIP-430) in place of the proxy's.

    v8 to v10 have those of the cluster, v8 and later those of topics.
    """
    requested = request.include_cluster_authorized_operations
    response.cluster_authorized_operations = of_cluster(call) if requested else NOT_REQUESTED
    for topic in response.topics:
        topic.topic_authorized_operations = NOT_REQUESTED
        if (
            request.include_topic_authorized_operations
            and topic.name is not None
            and topic.error_code not in _WITHOUT_OPERATIONS
        ):
            topic.topic_authorized_operations = of_topic(call, topic.name)


def _reject(_version: int, request: types.MetadataRequest, error: Error) -> types.MetadataResponse:
    response, code = types.MetadataResponse, error["error_code"]
    topics = [
        response.MetadataResponseTopic(name=topic.name or "", topic_id=topic.topic_id, error_code=code)
        for topic in request.topics or ()
    ]
    return response(topics=topics, error_code=code)


APIS = (Api(ApiKey.METADATA, decide, _reject, repeatable=True),)
