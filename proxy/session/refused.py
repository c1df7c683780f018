"""Requests that cannot be served: a record of each, and the end of the connection.

Part of proxy.session.session. A client learns nothing but that it is closed, as a broker has it.
"""

from typing import TYPE_CHECKING

from proxy.audit.record import AuditEvent
from proxy.session.effects import Close, Effect, Recorded
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import RequestHeader

if TYPE_CHECKING:
    from proxy.session.session import Session


def not_served(session: "Session", header: RequestHeader, effects: list[Effect]) -> None:
    """An API, or a version of it, that was never offered."""
    name = ApiKey.name_of(header.api_key)
    message = f"{name} v{header.api_version} (api key {header.api_key}) is not served here"
    event = AuditEvent(
        event="request_refused",
        method=name,
        api_version=header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        granted=False,
        message=message,
    )
    effects.append(Recorded(session.complete(event)))
    session.listener.counts.error(header.api_key, ErrorCode.UNSUPPORTED_VERSION)
    session.close(Close("unsupported_request", message), effects)


def malformed(session: "Session", message: str, effects: list[Effect]) -> None:
    """Bytes that are no request; `message` says what is wrong with them."""
    event = AuditEvent(event="request_refused", granted=False, message=message)
    effects.append(Recorded(session.complete(event)))
    session.close(Close("malformed_request", message), effects)
