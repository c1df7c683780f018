"""A whole response of the broker -> what the client gets: decoded, changed by a handler, encoded again.

What changes in a response is for the API's file to say. `charge` comes first, at the moment at which the
response arrived; the rest may take several slices.
"""

from dataclasses import dataclass
from struct import error as struct_error
from typing import Any

from proxy.session.accounting import response_errors
from proxy.session.data import produce
from proxy.session.effects import Data, MuteClient, ToClient
from proxy.session.gate import ListenerPolicy
from proxy.session.in_flight import BrokerQuery, InFlight, Produced, Rewritten
from proxy.session.plan import Plan, RecordDecisions
from proxy.session.throttling import throttle
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError
from proxy.wire.header import encode_response, response_body_offset

FAULTS = (WireError, IndexError, struct_error)
"""Raised for a response that is malformed."""
_FETCH = int(ApiKey.FETCH)


@dataclass(slots=True)
class Charged:
    """The outcome of charging a response to its client."""

    plan: Plan
    admitted: bool = True
    """False: the quota has no room for its records."""
    throttle_time_ms: int = 0


def charge(entry: InFlight, size_bytes: int, now_ms: int) -> Charged:
    """Charge a whole response of this size, its length prefix included, or its request (KIP-13)."""
    if not isinstance(entry, Produced | Rewritten):
        return Charged([])
    bucket, admitted, for_bytes_ms = entry.bucket, True, 0
    if bucket is not None:
        # A Produce is charged by the size of the request, a Fetch by that of the response.
        charged_bytes = entry.request_bytes or size_bytes - 4
        if entry.api_key == _FETCH:
            admitted, for_bytes_ms = bucket.admit(charged_bytes, now_ms)
        else:
            for_bytes_ms = bucket.record(charged_bytes, now_ms)
    plan, throttle_time_ms = throttle(entry, bucket, for_bytes_ms, now_ms)
    return Charged(plan, admitted, throttle_time_ms)


def rewritten(entry: InFlight, frame: memoryview, charged: Charged, listener: ListenerPolicy) -> Plan:
    """The plan of a response that is not a query's. Raises one of FAULTS if it is malformed."""
    throttle_time_ms = charged.throttle_time_ms
    plan = charged.plan
    data: Data
    if isinstance(entry, Rewritten):
        if entry.summary is not None:
            entry.summary.response_bytes += len(frame)
        data = _changed(entry, frame, charged, listener)
        if entry.call is not None:
            plan.append(RecordDecisions(entry.call, by_handler=True))
    else:
        data = produce.finished_response(frame, entry.version, throttle_time_ms, listener)
    plan.append(ToClient(data))
    if throttle_time_ms:
        plan.append(MuteClient(throttle_time_ms))
    return plan


def _changed(entry: Rewritten, frame: memoryview, charged: Charged, listener: ListenerPolicy) -> bytes:
    codec = codecs.response(entry.api_key, entry.version, entry.raw)
    response, _ = codec.decode(frame, 4 + response_body_offset(entry.api_key, entry.version))
    if entry.handler is not None:
        entry.handler(response)
        if entry.call is not None and entry.call.events:
            response_errors.set_error_codes(entry.call.events, response)
    listener.counts.errors_of(entry.api_key, response)
    if not charged.admitted:
        response.responses = []
    if charged.throttle_time_ms:
        response.throttle_time_ms = max(response.throttle_time_ms, charged.throttle_time_ms)
    return encode_response(entry.api_key, entry.version, entry.correlation_id, codec.encode(response))


def response_to(query: BrokerQuery, frame: memoryview) -> Any:
    """The decoded response to a request of the proxy's own. Raises one of FAULTS if it is malformed."""
    codec = codecs.response(query.api_key, query.version)
    # Copied: parts of it may be retained, and the receive buffer, which holds the frame, is written over.
    response, _ = codec.decode(
        memoryview(bytes(frame)), 4 + response_body_offset(query.api_key, query.version)
    )
    return response
