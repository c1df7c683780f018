"""Fetch (KIP-227, KIP-516): READ on each topic, CLUSTER_ACTION for a follower.

A request with denied topics never opens a fetch session (proxy.session.remembered): it is sent on without
one, and the client names all its partitions each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any, TypeAlias

from proxy.admin.rejection import merged_topics
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.call import Call, Forward, Respond
from proxy.session.client_state import ClientState
from proxy.session.in_flight import Fetched, Rewritten
from proxy.session.remembered import FetchSession
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import encode_response
from proxy.wire.work import paced

Denied: TypeAlias = "types.FetchResponse.FetchableTopicResponse"

FIRST_WITH_TOPIC_ID = 13
FIRST_WITH_SESSION = 7
LAST_WITHOUT_ENDPOINTS = 15
"""Requests of 16 to 18 are sent to the broker in this version: they have the same fields, and the responses
have no address of the leader (KIP-951), which would be at the end of a body that is not held."""

_FIRST_WITHOUT_REPLICA_ID = 15
_FIRST_WITH_MAX_BYTES = 3
FULL_EPOCHS = (0, -1)
"""Epochs of requests that name all their partitions, with a session or without."""
_READ_TOPIC = Operation.READ, ResourceType.TOPIC
_VERSION = Struct(">h")
_SIZES = Struct(">ii")
_INT32 = Struct(">i")
_EPOCH = 13  # From min_bytes to the session's epoch.


def is_incremental(message: Any, version: int) -> bool:
    """Whether the request names only what changed since the last request of its session."""
    return version >= FIRST_WITH_SESSION and message.session_epoch not in FULL_EPOCHS


def is_follower(message: Any) -> bool:
    """Whether a replica sends the request, not a consumer."""
    return bool(message.replica_id >= 0 or message.replica_state.replica_id >= 0)


def session_not_found() -> Any:
    """The response that makes a client open a new session."""
    return types.FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def throttled_response(version: int, correlation_id: int, throttle_time_ms: int, session_id: int) -> bytes:
    """The whole response without records, with the time to wait before the next request (KIP-219)."""
    response = types.FetchResponse(throttle_time_ms=throttle_time_ms, session_id=session_id)
    body = codecs.response(ApiKey.FETCH, version).encode(response)
    return encode_response(ApiKey.FETCH, version, correlation_id, body)


def reject_all(message: Any, error_code: ErrorCode) -> Respond:
    """The response with this error at the top and for each partition."""
    rejected = [_denied(topic, error_code) for topic in message.topics]
    return Respond(types.FetchResponse(error_code=error_code, responses=rejected))


def topic_names(call: Call, message: Any) -> list[str | None]:
    """The names of the requested topics, in order; None for an id that has no name here."""
    if call.version < FIRST_WITH_TOPIC_ID:
        return [topic.topic for topic in paced(message.topics)]
    return [call.gate.topic_names.name(bytes(topic.topic_id)) for topic in paced(message.topics)]


def without_denied(call: Call, message: Any, names: list[str | None]) -> Forward | Respond:
    """The verdict on a full request in which a topic is denied or unknown."""
    if is_follower(message) and not call.allows_cluster(Operation.CLUSTER_ACTION):
        # Unknown ids too, as at a broker: without the right to follow, no topic is disclosed.
        denied = _once(_denied(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in message.topics)
        return Respond(types.FetchResponse(responses=denied))
    known = [name for name in names if name is not None]
    may_read = call.within_cluster_right if is_follower(message) else call.allowed_names
    allowed = may_read(*_READ_TOPIC, known)
    denied = _once(
        _denied(topic, _error_of(name))
        for topic, name in zip(message.topics, names, strict=True)
        if name not in allowed
    )
    order = [_key(topic) for topic in paced(message.topics)]
    message.topics = [topic for topic, name in zip(message.topics, names, strict=True) if name in allowed]
    if not message.topics:
        return Respond(types.FetchResponse(responses=denied))
    message.session_id, message.session_epoch = 0, -1
    # The response is held until it is whole, so it must not be as large as a client may request.
    message.max_bytes = min(message.max_bytes, call.max_held_bytes)

    def put_back(response: Any) -> None:
        # A broker returns a topic in two parts if one of its partitions is invalid and others are not.
        parts = merged_topics([*response.responses, *denied], _key, "partitions")
        by_key = {_key(topic): topic for topic in parts}
        response.responses = [by_key[key] for key in dict.fromkeys(order) if key in by_key]

    return Forward(message, put_back)


def _once(denied: Iterable[Denied]) -> list[Denied]:
    return merged_topics(denied, _key, "partitions", "partition_index")


def _key(topic: Any) -> tuple[str, bytes]:
    return topic.topic, bytes(topic.topic_id)


def _error_of(name: str | None) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _denied(topic: types.FetchRequest.FetchTopic, error_code: ErrorCode) -> Denied:
    response = types.FetchResponse
    return response.FetchableTopicResponse(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=[
            response.PartitionData(
                partition_index=partition.partition,
                error_code=error_code,
                high_watermark=-1,
                records=b"",
            )
            for partition in topic.partitions
        ],
    )


def reserve(client: ClientState, entry: Fetched | Rewritten) -> int:
    """Return how many bytes a request may ask the broker for, and take room for its response; 0: none."""
    expected_bytes = client.expected_fetch_bytes
    room_bytes = client.consumer.reserve(expected_bytes, entry.since_ms)
    if room_bytes:
        entry.reserved_bytes = expected_bytes or room_bytes
    return room_bytes


def limit(request: types.FetchRequest, most_bytes: int) -> None:
    """Request no more than there is room for in the quota, as `limit_in_place` does."""
    request.max_bytes = min(request.max_bytes, most_bytes)
    request.min_bytes = min(request.min_bytes, request.max_bytes)


def limit_in_place(frame: memoryview, version: int, body_offset: int, most_bytes: int) -> None:
    """Limit min_bytes and max_bytes in a request, as Kafka does, so that no single response makes the client
    wait for longer than one window."""
    if version >= _FIRST_WITH_MAX_BYTES:
        offset = _sizes_offset(version, body_offset)
        min_bytes, max_bytes = _SIZES.unpack_from(frame, offset)
        if max_bytes > most_bytes:
            _SIZES.pack_into(frame, offset, min(min_bytes, most_bytes), most_bytes)


def _sizes_offset(version: int, body_offset: int) -> int:
    return body_offset + (4 if version >= _FIRST_WITHOUT_REPLICA_ID else 8)


def adjust_in_place(frame: memoryview, version: int, body_offset: int, session: FetchSession | None) -> int:
    """Patch version and epoch of a request that is sent on as it came; returns the version that the broker
    gets."""
    if session is not None and session.behind:
        offset = _sizes_offset(version, body_offset) + _EPOCH
        _INT32.pack_into(frame, offset, session.broker_epoch(_INT32.unpack_from(frame, offset)[0]))
    if version <= LAST_WITHOUT_ENDPOINTS:
        return version
    _VERSION.pack_into(frame, 6, LAST_WITHOUT_ENDPOINTS)
    return LAST_WITHOUT_ENDPOINTS


def count(
    client: ClientState, entry: Fetched, names: Sequence[str | None], size_bytes: int, *, opens: bool
) -> None:
    """Count a request that is sent on, whose topics are all in `client.reads`, or in its fetch session.

    `opens`: it is not part of a fetch session yet, and its response may open one.
    """
    if names and names[0] is not None:
        entry.opens_at = names[0] if opens else None
        entry.summary = client.reads[names[0]]
    if entry.summary is not None:
        entry.summary.count += 1
        entry.summary.request_bytes += size_bytes
        if len(names) > 1:
            _count_others(client, names)


def _count_others(client: ClientState, names: Sequence[str | None]) -> None:
    # The first topic has the bytes; each of the others is counted once for a request that names it.
    for name in paced(list(dict.fromkeys(names))):
        if name is not None and name != names[0]:
            client.reads[name].count += 1
