"""Envelope messages (KIP-590): a client's request, principal and address, and the errors that clients see.

The proxy wraps requests and reads responses; the controller unwraps requests and wraps responses. STEPS has
the errors that a proxy retries, and at which controller (KIP-801). forwarding.net.forwarder starts an attempt
only before the request's deadline; after it the client gets REQUEST_TIMED_OUT. This module knows nothing of
connections, nor of what the forwarded request does.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from proxy.admin.objects import Known
from proxy.security.authorizer import host_address
from proxy.security.principal import Principal
from proxy.session.apis.table import TABLE
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from proxy.wire.header import RequestHeader, decode_request_header, encode_request, encode_response
from proxy.wire.message import Message
from proxy.wire.primitives import Buffer

AUTHORIZER_NOT_READY = 10_001
"""KIP-801 names this error without a number, and Kafka never assigned one. Penstock sends it in Envelope
version 1 only, and never to a client."""


class NextAttempt(Enum):
    """What follows an attempt."""

    DONE = "done"  # The result is final, success or error.
    FIND_CONTROLLER = "find controller"  # Another controller is active: find it, then retry.
    SAME_CONTROLLER = "same controller"  # This controller is not ready yet: wait, then retry.


CONNECTION_LOST = None
"""Stands for an error code when the connection failed before the response arrived."""

STEPS = {
    CONNECTION_LOST: NextAttempt.FIND_CONTROLLER,
    ErrorCode.NOT_CONTROLLER: NextAttempt.FIND_CONTROLLER,
    AUTHORIZER_NOT_READY: NextAttempt.SAME_CONTROLLER,
}
"""The results that are retried. Retrying after a lost connection is safe: the controller remembers the
forward ids that it has committed, and responds to the second attempt as to the first."""


def next_step(envelope_error: int | None) -> NextAttempt:
    """Return what follows an attempt that ended with this envelope-level error, or with CONNECTION_LOST."""
    return STEPS.get(envelope_error, NextAttempt.DONE)


FORWARD_ID_TAG = 10_000
"""Tagged field of EnvelopeRequest: the proxy's id of this forward, UTF-8. Kafka's controllers ignore it."""
TRACEPARENT_TAG = 10_001
"""Tagged field of EnvelopeRequest: the proxy's trace span in W3C Trace Context format, ASCII. Kafka's
controllers ignore it."""
LAST_OFFSET_TAG = 10_000
"""Tagged field of EnvelopeResponse: the metadata offset of the committed change, int64 big-endian."""

OWN_CODES_FROM = 10_000
"""Error codes from here on are Penstock's own, far outside Kafka's range."""
OLDEST_VERSION, MAX_VERSION = 0, 1
"""Version 1 has the layout of version 0. It states that the sender knows Penstock's error codes (KIP-801's
AUTHORIZER_NOT_READY). Only Penstock's controller offers it."""

LENGTH_PREFIX_BYTES = 4


_NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True)
class Sender:
    """The proxy at the other end of a connection to the controller."""

    principal: Principal
    host: str
    listener: str
    client_id: str | None


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    """The request inside an Envelope, with the client's principal and address."""

    header: RequestHeader
    message: Any
    principal: Principal
    host: str
    """The client's IP address as text."""
    forward_id: str | None
    size_bytes: int = 0
    known: Known = field(default=_NOTHING_KNOWN, compare=False)
    """What the controller knew of its objects when it decided."""


@dataclass(frozen=True, slots=True)
class RejectedEnvelope:
    """Why an Envelope was rejected: the envelope-level error code, and a message for the controller's log."""

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
    """Return the EnvelopeRequest that carries a request. `body` is the request without its header."""
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
) -> ForwardedRequest | RejectedEnvelope:
    """Return the request inside an Envelope, or why it is rejected.

    The checks have the order of Kafka's controller. A request that cannot be decoded is UNSUPPORTED_VERSION,
    so that INVALID_REQUEST always means a fault of the envelope itself.
    """
    principal = _principal(envelope.request_principal, deserialize_principal)
    if isinstance(principal, RejectedEnvelope):
        return principal
    host = _host(bytes(envelope.client_host_address))
    if isinstance(host, RejectedEnvelope):
        return host
    data = envelope.request_data
    try:
        header = decode_request_header(data)
    except WireError as error:
        return RejectedEnvelope(ErrorCode.UNSUPPORTED_VERSION, f"request header in the envelope: {error}")
    name = ApiKey.name_of(header.api_key)
    if header.api_key not in codecs.live_api_keys():
        return RejectedEnvelope(ErrorCode.UNSUPPORTED_VERSION, f"API {name} in the envelope")
    if header.api_key not in forwardable:
        return RejectedEnvelope(ErrorCode.INVALID_REQUEST, f"API {name} is not eligible for forwarding")
    try:
        message, _ = codecs.request(header.api_key, header.api_version).decode(data, header.body_offset)
        # Kafka's controller treats the number 0 in an ACL like a request that cannot be decoded.
        TABLE[header.api_key].check(message)
    except WireError as error:
        return RejectedEnvelope(ErrorCode.UNSUPPORTED_VERSION, f"request in the envelope: {error}")
    return ForwardedRequest(header, message, principal, host, forward_id(envelope), len(data))


def wrap_response(
    header: RequestHeader, response: Message, last_offset: int | None
) -> types.EnvelopeResponse:
    """Return the EnvelopeResponse around the response to the request inside."""
    body = codecs.response(header.api_key, header.api_version).encode(response)
    frame = encode_response(header.api_key, header.api_version, header.correlation_id, body)
    tags = None if last_offset is None else {LAST_OFFSET_TAG: last_offset.to_bytes(8, "big", signed=True)}
    return types.EnvelopeResponse(response_data=frame[LENGTH_PREFIX_BYTES:], unknown_tags=tags)


def as_known(response: types.EnvelopeResponse, envelope_version: int) -> types.EnvelopeResponse:
    """Return the response with an error that a sender of this version knows (KIP-801)."""
    if response.error_code >= OWN_CODES_FROM and envelope_version < 1:
        return types.EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    return response


def forward_id(envelope: types.EnvelopeRequest) -> str | None:
    """Return the proxy's id of this forward; None from senders without ids, such as Kafka's brokers."""
    raw = (envelope.unknown_tags or {}).get(FORWARD_ID_TAG)
    # The id is untrusted: it is truncated, and bytes that are not UTF-8 are replaced.
    return None if raw is None else bytes(raw[:256]).decode("utf-8", "replace")


def traceparent(envelope: types.EnvelopeRequest) -> str | None:
    """Return the sender's trace span. The text is untrusted and may have any format."""
    raw = (envelope.unknown_tags or {}).get(TRACEPARENT_TAG)
    return None if raw is None else bytes(raw[:64]).decode("ascii", "replace")


def last_offset(response: types.EnvelopeResponse) -> int | None:
    """Return the metadata offset of the committed change; None from Kafka's own controller."""
    raw = (response.unknown_tags or {}).get(LAST_OFFSET_TAG)
    if raw is None or len(raw) != 8:
        return None
    return int.from_bytes(raw, "big", signed=True)


@dataclass(frozen=True, slots=True)
class ClientError:
    """The error that a client gets for an envelope-level error, and whether its connection is closed (E6)."""

    error_code: int
    close: bool


def client_error(envelope_error: int) -> ClientError:
    """Map an envelope-level error to the client's, as Kafka does: faults of forwarding itself stay hidden."""
    if envelope_error == ErrorCode.UNSUPPORTED_VERSION:
        # The controller was replaced by another version. A client that reconnects requests ApiVersions again.
        return ClientError(ErrorCode.UNSUPPORTED_VERSION, close=True)
    if envelope_error == ErrorCode.REQUEST_TIMED_OUT:
        return ClientError(ErrorCode.REQUEST_TIMED_OUT, close=False)
    return ClientError(ErrorCode.UNKNOWN_SERVER_ERROR, close=False)


def _principal(
    data: Buffer | None, deserialize: Callable[[bytes], Principal]
) -> Principal | RejectedEnvelope:
    if data is None:
        return RejectedEnvelope(
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, "the envelope names no principal"
        )
    try:
        return deserialize(bytes(data))
    except (WireError, ValueError) as error:
        return RejectedEnvelope(
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, f"principal in the envelope: {error}"
        )


def _host(address: bytes) -> str | RejectedEnvelope:
    try:
        return host_address(address)
    except ValueError:
        return RejectedEnvelope(
            ErrorCode.INVALID_REQUEST, f"client address of {len(address)} bytes in the envelope, not 4 or 16"
        )
