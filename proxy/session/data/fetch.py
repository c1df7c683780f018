"""What all Fetch requests have in common, decoded or not: quotas, epochs, the version for the broker."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from proxy.session.client_state import ClientState
from proxy.session.in_flight import Fetched, Rewritten
from proxy.session.remembered import FetchSession
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import encode_response

FIRST_WITH_TOPIC_ID = 13
FIRST_WITH_SESSION = 7
LAST_WITHOUT_ENDPOINTS = 15
"""Requests of 16 to 18 are sent to the broker in this version: they have the same fields, and the responses
have no address of the leader (KIP-951), which would be at the end of a body that is not held."""

_FIRST_WITHOUT_REPLICA_ID = 15
_FIRST_WITH_MAX_BYTES = 3
FULL_EPOCHS = (0, -1)
"""Epochs of requests that name all their partitions, with a session or without."""
_VERSION = Struct(">h")
_SIZES = Struct(">ii")
_INT32 = Struct(">i")
_EPOCH = 13  # From min_bytes to the session's epoch.


def throttled_response(version: int, correlation_id: int, throttle_time_ms: int, session_id: int) -> bytes:
    """The whole response without records, with the time to wait before the next request (KIP-219)."""
    response = types.FetchResponse(throttle_time_ms=throttle_time_ms, session_id=session_id)
    body = codecs.response(ApiKey.FETCH, version).encode(response)
    return encode_response(ApiKey.FETCH, version, correlation_id, body)


def reserve(client: ClientState, entry: Fetched | Rewritten) -> int:
    """Return how many bytes a request may ask the broker for, and take room for its response; 0: none."""
    room_bytes, entry.reserved_bytes = client.reserve(entry.since_ms)
    return room_bytes


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
            # The first topic has the bytes; each of the others is counted once for a request that names it.
            for name in dict.fromkeys(names):
                if name is not None and name != names[0]:
                    client.reads[name].count += 1
