"""Trace spans of a forward: the proxy's, while it waits for the controller, and the controller's own.

The Envelope holds the proxy's span, so the controller's is its child in another process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import TypeAlias

from structlog.contextvars import bound_contextvars

from forwarding import envelope
from forwarding.envelope import Sender
from proxy.metadata.quota_entity import short_name
from proxy.net.telemetry.spans import OpenSpan, Spans, trace_ids
from proxy.session.accounting.request_counts import name_of_api, name_of_error
from proxy.session.accounting.response_errors import error_of
from proxy.session.effects import ControllerResponse, ToController
from proxy.wire import codecs, types
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from proxy.wire.header import RequestHeader, decode_request_header, decode_response_header

FAULT = "fault"
"""Stands for an error code when there is no response."""
CANCELLED = "cancelled"
MAX_READ_BYTES = 4_096
"""A larger response is not decoded again for its error code."""

Serve: TypeAlias = "Callable[[types.EnvelopeRequest, int, Sender], Awaitable[types.EnvelopeResponse]]"


class ForwardSpan:
    """The span of one forward at the proxy, over all its attempts."""

    def __init__(self, spans: Spans, request: ToController, forward_id: str) -> None:
        name = name_of_api(request.api_key)
        self._span: OpenSpan = spans.begin(f"Envelope {name}", "client")
        self._attributes: dict[str, str | int | bool] = {
            "messaging.system": "kafka",
            "messaging.operation.name": "Envelope",
            "network.peer.address": str(ip_address(request.client_address)),
            "kafka.api.key": request.api_key,
            "kafka.api.name": name,
            "kafka.api.version": request.api_version,
            "kafka.correlation_id": request.correlation_id,
            "penstock.forward.id": forward_id,
        }
        if request.client_id is not None:
            self._attributes["messaging.client.id"] = short_name(request.client_id)
        self.traceparent = self._span.traceparent

    def sent(self, host: str, port: int) -> None:
        """Note the controller of this attempt."""
        self._attributes |= {"server.address": host, "server.port": port}

    def retried(self, reason: str) -> None:
        """Note a retry and its reason."""
        self._span.event("retry", {"reason": reason})

    def ended(self, reply: ControllerResponse | None) -> None:
        """End the span. None: the process has cancelled the forward."""
        if reply is None:
            self._span.end(self._attributes, CANCELLED)
            return
        self._attributes |= {
            "penstock.forward.attempts": reply.attempts,
            "kafka.error_code": int(reply.error_code),
        }
        if reply.last_offset is not None:
            self._attributes["penstock.metadata.offset"] = reply.last_offset
        error = None if reply.error_code == ErrorCode.NONE else name_of_error(int(reply.error_code))
        self._span.end(self._attributes, error)


def traced(spans: Spans, serve: Serve) -> Serve:
    """Return `serve` with a span for each Envelope."""

    async def serve_traced(
        message: types.EnvelopeRequest, version: int, sender: Sender
    ) -> types.EnvelopeResponse:
        header = _header(message)
        name = "Envelope" if header is None else f"Envelope {name_of_api(header.api_key)}"
        span = spans.begin(name, "server", envelope.traceparent(message))
        response = None
        try:
            with bound_contextvars(**trace_ids(span.traceparent)):
                response = await serve(message, version, sender)
        finally:
            error_code = None if response is None else _error_code(header, response)
            attributes = _attributes(message, header, sender, response)
            if error_code is not None:
                attributes["kafka.error_code"] = error_code
            error = name_of_error(error_code) if error_code else None
            span.end(attributes, FAULT if response is None else error)
        return response

    return serve_traced


def _attributes(
    message: types.EnvelopeRequest,
    header: RequestHeader | None,
    sender: Sender,
    response: types.EnvelopeResponse | None,
) -> dict[str, str | int | bool]:
    found: dict[str, str | int | bool] = {
        "messaging.system": "kafka",
        "messaging.operation.name": "Envelope",
        "network.peer.address": sender.host,
        "penstock.listener": sender.listener,
        "penstock.sender": str(sender.principal),
        "kafka.request.bytes": len(message.request_data),
    }
    if header is not None:
        found |= {
            "kafka.api.key": header.api_key,
            "kafka.api.name": name_of_api(header.api_key),
            "kafka.api.version": header.api_version,
            "kafka.correlation_id": header.correlation_id,
        }
        if header.client_id is not None:
            found["messaging.client.id"] = short_name(header.client_id)
    forward_id = envelope.forward_id(message)
    if forward_id is not None:
        found["penstock.forward.id"] = forward_id
    if response is not None and response.error_code == ErrorCode.NONE:
        found["kafka.response.bytes"] = len(response.response_data or b"")
        offset = envelope.last_offset(response)
        if offset is not None:
            found["penstock.metadata.offset"] = offset
    return found


def _header(message: types.EnvelopeRequest) -> RequestHeader | None:
    """Return the header of the request inside; None if it cannot be decoded."""
    try:
        return decode_request_header(message.request_data)
    except WireError:
        return None


def _error_code(header: RequestHeader | None, response: types.EnvelopeResponse) -> int | None:
    """Return the Envelope's error, else the error of the response inside; None if it is too large."""
    data = response.response_data
    if response.error_code != ErrorCode.NONE:
        return int(response.error_code)
    if header is None or data is None or len(data) > MAX_READ_BYTES:
        return None
    try:
        _, offset = decode_response_header(header.api_key, header.api_version, data)
        inner, _ = codecs.response(header.api_key, header.api_version).decode(memoryview(data), offset)
    except WireError:
        return None
    return error_of(inner)
