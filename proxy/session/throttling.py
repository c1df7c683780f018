"""Throttle times of clients (KIP-13, KIP-124), and where they are in responses.

Bytes are charged to a bucket when a request or its response passes; the event loop's time on a client is
measured by proxy.net if `Session.is_timed` says so, and charged once it is spent, so it counts from the
next response on, as the time of a broker's network threads does. A response without a field for the throttle
time mutes its client all the same (docs/decisions/0013).
"""

from functools import cache
from struct import Struct
from typing import Any

from proxy.quota.throttle import Bucket
from proxy.session.call import Call
from proxy.session.client_state import ClientState
from proxy.session.effects import MuteClient
from proxy.session.in_flight import Fetched, InFlight, Produced, Rewritten
from proxy.session.plan import Plan, Throttle
from proxy.wire import catalog
from proxy.wire.header import response_body_offset
from proxy.wire.schema import FIXED_SIZES

_INT32 = Struct(">i")


def exempt(client: ClientState, entry: InFlight) -> None:
    """Charge neither the bytes nor the time of this request of another broker."""
    entry.client = None
    if isinstance(entry, Fetched | Produced | Rewritten):
        entry.bucket = None
    client.last_was_exempt = True


def charge_unanswered(client: ClientState, request_bytes: int, now_ms: int) -> tuple[Plan, int]:
    """Charge a Produce request to which the broker does not respond; the plan, and the throttle time in ms.

    With acks=0 no response can carry the throttle time; the client is muted all the same. Its time is exempt.
    """
    client.last_was_exempt = True
    bucket = client.producer
    throttle_time_ms = bucket.record(request_bytes, now_ms) if bucket.limited else 0
    if not throttle_time_ms:
        return [], 0
    throttled = Throttle(bucket, throttle_time_ms)
    if not bucket.enforced:
        return [throttled], 0
    return [throttled, MuteClient(throttle_time_ms)], throttle_time_ms


def throttle_own(call: Call, response: Any) -> Plan:
    """Write the throttle time of the client's request quota into the proxy's own decoded response."""
    if not call.client.request.limited:
        return []
    call.client.last_was_exempt = False
    plan, throttle_time_ms = throttle_longer(call.client, response, call.now_ms)
    return [*plan, MuteClient(throttle_time_ms)] if throttle_time_ms else plan


def throttle_longer(client: ClientState, response: Any, now_ms: int) -> tuple[Plan, int]:
    """Return the throttle time in ms of the client's request quota, and write it into the decoded response,
    if it is there; 0: there is none, or less than the response already has.

    Of two throttle times the longer one is recorded, as at Kafka.
    """
    bucket = client.request
    owed_ms = bucket.record(0, now_ms)
    has_field = hasattr(response, "throttle_time_ms")
    if not owed_ms or (has_field and response.throttle_time_ms >= owed_ms):
        return [], 0
    throttled = Throttle(bucket, owed_ms)
    if not bucket.enforced:
        return [throttled], 0
    if has_field:
        response.throttle_time_ms = owed_ms
    return [throttled], owed_ms


def refuse(client: ClientState, now_ms: int) -> tuple[Plan, int]:
    """Return the plan of a request that is not sent, because the quota has no room for its response, and the
    throttle time in ms of the response without records (KIP-219)."""
    bucket = client.consumer
    for_bytes_ms = bucket.refuse(client.expected_fetch_bytes, now_ms)
    plan, throttle_time_ms = throttle(client, bucket, for_bytes_ms, now_ms)
    return [*plan, MuteClient(throttle_time_ms)], throttle_time_ms


def throttle(
    client: ClientState | None, bucket: Bucket | None, for_bytes_ms: int, now_ms: int
) -> tuple[Plan, int]:
    """Return the plan that records a throttled response, and its throttle time in ms.

    The throttle time is the longer one of those for its bytes and for its time; 0 if the quota is only
    observed.
    """
    throttle_time_ms = for_bytes_ms
    if client is not None and client.request.limited:
        owed_ms = client.request.record(0, now_ms)
        if owed_ms and owed_ms >= throttle_time_ms:
            bucket, throttle_time_ms = client.request, owed_ms
    if not throttle_time_ms or bucket is None:
        return [], 0
    return [Throttle(bucket, throttle_time_ms)], throttle_time_ms if bucket.enforced else 0


def head_bytes(entry: InFlight) -> int:
    """Return how many bytes of a response are needed to write its throttle time."""
    offset = throttle_offset(entry.api_key, entry.version)
    return 8 if offset is None else offset + _INT32.size


def write_throttle_time(data: memoryview, position: int, entry: InFlight, throttle_time_ms: int) -> None:
    """Write the throttle time into the response at `position`, if its version has the field."""
    offset = throttle_offset(entry.api_key, entry.version)
    if offset is not None:
        raise_to(data, position + offset, throttle_time_ms)


def raise_to(data: memoryview, offset: int, throttle_time_ms: int) -> None:
    """Raise the throttle time at `offset`; a longer one stays."""
    _INT32.pack_into(data, offset, max(_INT32.unpack_from(data, offset)[0], throttle_time_ms))


@cache
def throttle_offset(api_key: int, version: int) -> int | None:
    """Return the offset of throttle_time_ms in a whole response; None: there is no fixed one."""
    offset = 4 + response_body_offset(api_key, version)
    for field in catalog.response(api_key).root.present(version):
        if field.attribute == "throttle_time_ms":
            return offset
        if field.is_array or field.type not in FIXED_SIZES:
            return None
        offset += FIXED_SIZES[field.type]
    return None
