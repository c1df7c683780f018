"""A client's request, principal and address <-> an Envelope message (KIP-590); which errors clients see.

The proxy wraps and reads the answer, the controller unwraps and answers. Knows nothing of connections
or of what the request inside asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from proxy.security.host import host_address
from proxy.security.principal import Principal
from proxy.session.apis.table import TABLE
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from proxy.wire.header import RequestHeader, decode_request_header, encode_request, encode_response
from proxy.wire.message import Message
from proxy.wire.primitives import Buffer

FORWARD_ID_TAG = 10_000
"""Tagged field of EnvelopeRequest: the proxy's id for this forward, UTF-8. Kafka's controllers skip it."""
TRACEPARENT_TAG = 10_001
"""Tagged field of EnvelopeRequest: the proxy's trace span, as W3C Trace Context writes it, ASCII.

Kafka's controllers skip it."""
LAST_OFFSET_TAG = 10_000
"""Tagged field of EnvelopeResponse: the metadata offset the change was committed at, int64 big-endian."""

OWN_CODES_FROM = 10_000
"""Error codes from here on are Penstock's own, far outside Kafka's range."""
OLDEST_VERSION, MAX_VERSION = 0, 1
"""Version 1 is version 0 byte for byte; it says that the sender knows our own error codes (KIP-801's
AUTHORIZER_NOT_READY). Only our controller offers it."""

LENGTH_PREFIX_BYTES = 4


class HasThrottleTime(Protocol):
    """A response of an API that can be throttled."""

    throttle_time_ms: int


Throttled = TypeVar("Throttled", bound=HasThrottleTime)


@dataclass(frozen=True, slots=True)
class Sender:
    """The proxy at the other end of a connection to the controller."""

    principal: Principal
    host: str
    listener: str
    client_id: str | None


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What an Envelope held: a client's request as if the client had sent it here."""

    header: RequestHeader
    message: Any
    principal: Principal
    host: str
    """The client's address as text."""
    forward_id: str | None


@dataclass(frozen=True, slots=True)
class Refused:
    """Why an Envelope could not be opened: the envelope-level error and a message for our own log."""

    error_code: int
    message: str


def wrap(
    api_key: int,
    api_version: int,
    correlation_id: int,
    client_id: str | None,
    body: bytes,
    *,
    principal: bytes,
    client_address: bytes,
    forward_id: str,
    traceparent: str | None = None,
) -> types.EnvelopeRequest:
    """The EnvelopeRequest that carries a request. `body` is the request without header."""
    tags = {FORWARD_ID_TAG: forward_id.encode()}
    if traceparent is not None:
        tags[TRACEPARENT_TAG] = traceparent.encode("ascii")
    frame = encode_request(api_key, api_version, correlation_id, client_id, body)
    return types.EnvelopeRequest(
        request_data=frame[LENGTH_PREFIX_BYTES:],
        request_principal=principal,
        client_host_address=client_address,
        unknown_tags=tags,
    )


def unwrap(
    envelope: types.EnvelopeRequest,
    deserialize_principal: Callable[[bytes], Principal],
    forwardable: Container[int],
) -> Forwarded | Refused:
    """The request inside; the checks come in the order in which Kafka's controller makes them.

    A request that cannot be read is UNSUPPORTED_VERSION, so that INVALID_REQUEST is left for what is
    wrong with the envelope itself.
    """
    principal = _principal(envelope.request_principal, deserialize_principal)
    if isinstance(principal, Refused):
        return principal
    host = _host(bytes(envelope.client_host_address))
    if isinstance(host, Refused):
        return host
    data = envelope.request_data
    try:
        header = decode_request_header(data)
    except WireError as error:
        return Refused(ErrorCode.UNSUPPORTED_VERSION, f"request header in the envelope: {error}")
    name = ApiKey.name_of(header.api_key)
    if header.api_key not in codecs.live_api_keys():
        return Refused(ErrorCode.UNSUPPORTED_VERSION, f"API {name} in the envelope")
    if header.api_key not in forwardable:
        return Refused(ErrorCode.INVALID_REQUEST, f"API {name} is not eligible for forwarding")
    try:
        message, _ = codecs.request(header.api_key, header.api_version).decode(data, header.body_offset)
        # For Kafka's controller a request is as good as unreadable with a number of an ACL that nobody knows.
        TABLE[header.api_key].check(message)
    except WireError as error:
        return Refused(ErrorCode.UNSUPPORTED_VERSION, f"request in the envelope: {error}")
    return Forwarded(header, message, principal, host, forward_id(envelope))


def answer(header: RequestHeader, response: Message, last_offset: int | None) -> types.EnvelopeResponse:
    """The EnvelopeResponse around the response to the request inside."""
    body = codecs.response(header.api_key, header.api_version).encode(response)
    frame = encode_response(header.api_key, header.api_version, header.correlation_id, body)
    tags = None if last_offset is None else {LAST_OFFSET_TAG: last_offset.to_bytes(8, "big", signed=True)}
    return types.EnvelopeResponse(response_data=frame[LENGTH_PREFIX_BYTES:], unknown_tags=tags)


def refusal(error_code: int, envelope_version: int) -> types.EnvelopeResponse:
    """The EnvelopeResponse that says only what is wrong with the forwarding itself."""
    if error_code >= OWN_CODES_FROM and envelope_version < 1:
        # KIP-801: an older sender gets the error it knows.
        error_code = ErrorCode.UNKNOWN_SERVER_ERROR
    return types.EnvelopeResponse(error_code=error_code)


def forward_id(envelope: types.EnvelopeRequest) -> str | None:
    """The proxy's id for this forward; None from a sender that gives none."""
    raw = (envelope.unknown_tags or {}).get(FORWARD_ID_TAG)
    # Only for the audit trail, and never trusted: cut, and anything unreadable replaced.
    return None if raw is None else bytes(raw[:256]).decode("utf-8", "replace")


def traceparent(envelope: types.EnvelopeRequest) -> str | None:
    """What names the sender's trace span; it may be anything."""
    raw = (envelope.unknown_tags or {}).get(TRACEPARENT_TAG)
    return None if raw is None else bytes(raw[:64]).decode("ascii", "replace")


def last_offset(response: types.EnvelopeResponse) -> int | None:
    """The metadata offset an answer was committed at; None from Kafka's own controller."""
    raw = (response.unknown_tags or {}).get(LAST_OFFSET_TAG)
    if raw is None or len(raw) != 8:
        return None
    return int.from_bytes(raw, "big", signed=True)


@dataclass(frozen=True, slots=True)
class ClientSees:
    """What becomes of an envelope-level error at the client (E6)."""

    error_code: int
    close: bool


def client_sees(envelope_error: int) -> ClientSees:
    """The table of KIP-590 as Kafka has it: a set-up fault of ours is none of the client's business."""
    if envelope_error == ErrorCode.UNSUPPORTED_VERSION:
        # The controller changed under the connection: a closed client asks for ApiVersions again.
        return ClientSees(ErrorCode.UNSUPPORTED_VERSION, close=True)
    if envelope_error == ErrorCode.REQUEST_TIMED_OUT:
        return ClientSees(ErrorCode.REQUEST_TIMED_OUT, close=False)
    return ClientSees(ErrorCode.UNKNOWN_SERVER_ERROR, close=False)


def throttled(response: Throttled, local_ms: int) -> Throttled:
    """The response with the larger of the controller's and the local throttle_time_ms."""
    response.throttle_time_ms = max(response.throttle_time_ms, local_ms)
    return response


def _principal(data: Buffer | None, deserialize: Callable[[bytes], Principal]) -> Principal | Refused:
    if data is None:
        return Refused(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, "the envelope names no principal")
    try:
        return deserialize(bytes(data))
    except (WireError, ValueError) as error:
        return Refused(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, f"principal in the envelope: {error}")


def _host(address: bytes) -> str | Refused:
    try:
        return host_address(address)
    except ValueError:
        return Refused(
            ErrorCode.INVALID_REQUEST, f"client address of {len(address)} bytes in the envelope, not 4 or 16"
        )
