"""One proxy's connection to the controller, frame by frame: SASL, ApiVersions, Envelope, nothing else.

forwarding.net.server calls `receive` with one frame at a time, so that responses have the order of the
requests. proxy.session.authentication identifies the proxy; `serve` processes Envelopes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from forwarding.envelope import MAX_VERSION, OLDEST_VERSION, Sender
from forwarding.versions import AUDIT_END_TAG, ENVELOPE_ERROR_TAG, SAME_ID_TAG, TRANSACTIONAL_ID_TAG
from proxy.audit import events
from proxy.audit.chain import author_of, witnessed_end
from proxy.audit.record import AuditEvent
from proxy.audit.same_id import SameId
from proxy.net.logins.verification import Client, Verifications
from proxy.net.runtime.clock import monotonic_ms
from proxy.security.principal import Principal, from_plugin
from proxy.security.principal_builder import (
    AuthenticationContext,
    DefaultPrincipalBuilder,
    PrincipalBuilder,
)
from proxy.session.authentication import Authentication, Phase, SaslListener, Step
from proxy.session.gate import VersionRange
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from proxy.wire.header import RequestHeader, decode_request_header, encode_response
from proxy.wire.message import Message

MIN_WITNESS_INTERVAL_MS = 10_000
"""Ends of an audit trail that come sooner are not recorded, so that no peer fills the controller's trail."""
ENVELOPE_VERSIONS = (OLDEST_VERSION, MAX_VERSION)
LISTENER_APIS: Mapping[int, VersionRange] = {
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 5),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.ENVELOPE: ENVELOPE_VERSIONS,
}
"""The APIs of the controller's own endpoint; everything else has to come inside an Envelope (E10)."""


@dataclass(frozen=True, slots=True)
class ListenerContext:
    """What all connections of the listener share."""

    listener: str
    sasl: SaslListener | None
    forwardable_versions: Callable[[], Mapping[int, VersionRange]]
    """Returns the versions accepted inside an Envelope, for the ApiVersions response to proxies (E8)."""
    serve: Callable[[types.EnvelopeRequest, int, Sender], Awaitable[types.EnvelopeResponse]]
    """Takes an EnvelopeRequest, its version and its sender."""
    record: Callable[[AuditEvent], None]
    now_ms: Callable[[], int]
    verifications: Verifications
    security_protocol: str = "PLAINTEXT"
    principal_builder: PrincipalBuilder = field(default_factory=DefaultPrincipalBuilder)
    revoke_immediately: bool = False
    """sessions.revoke.immediately."""
    transactional_id: str = ""
    """The controller's own, which proxies reject from clients."""
    audit_end: Callable[[], str] = str
    """Returns the end of the controller's audit trail."""
    envelope_error: Callable[[Sender], int] | None = None
    """Returns the error that an Envelope of this sender would get now."""
    same_id: SameId = field(default_factory=SameId)
    monotonic_ms: Callable[[], int] = monotonic_ms


class UnknownPrincipal(Exception):
    """The principal builder rejected the peer."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The bytes to send to the proxy, and why the connection is to be closed, if it is."""

    data: bytes = b""
    close: str | None = None


class ControllerConnection:
    """The state of one connection."""

    def __init__(
        self,
        connection_id: str,
        host: str,
        context: ListenerContext,
        certificate: bytes | None = None,
        is_connected: Callable[[], bool] = lambda: True,
    ) -> None:
        """`certificate`: the peer's verified certificate in DER; `is_connected`: whether it is still there.

        Raises UnknownPrincipal, which is recorded.
        """
        self._is_connected = is_connected
        self._witnessed_ms = -MIN_WITNESS_INTERVAL_MS
        self._connection_id = connection_id
        self._host = host
        self._context = context
        self._authentication = Authentication(context.sasl, self._principal(certificate), host=host)

    def _principal(self, certificate: bytes | None) -> Principal:
        context = self._context
        peer = AuthenticationContext(
            listener=context.listener,
            security_protocol=context.security_protocol,
            host=self._host,
            certificate=certificate,
        )
        try:
            return from_plugin(lambda: context.principal_builder.build(peer))
        except ValueError as error:
            event = events.authentication_failed(
                connection_id=self._connection_id,
                listener=context.listener,
                host=self._host,
                mechanism="SSL",
                message=f"principal builder: {error}",
            )
            context.record(event)
            raise UnknownPrincipal(event.message) from error

    def _client(self) -> Client:
        authentication = self._authentication
        return Client(
            listener=self._context.listener,
            mechanism=authentication.mechanism or "",
            host=self._host,
            principal=str(authentication.principal) if authentication.known else None,
            is_there=self._is_connected,
        )

    @property
    def authenticated(self) -> bool:
        """Whether the peer is authenticated and not just re-authenticating: it may send large frames."""
        return self._authentication.phase is Phase.COMPLETE

    @property
    def known(self) -> bool:
        """Whether the peer has authenticated, also while it re-authenticates."""
        return self._authentication.known

    async def receive(self, frame: bytes) -> Reply:
        """Serve one request frame, without its length prefix. NotChecked: the connection is to be closed."""
        now_ms = self._context.now_ms()
        if self._authentication.phase is Phase.BARE_TOKENS:
            step = await self._verified(self._authentication.bare_token(frame, now_ms))
            self._record_step(step, None)
            if step.close:
                return Reply(close="authentication failed")
            return Reply(len(step.response).to_bytes(4, "big") + step.response)
        try:
            header = decode_request_header(frame)
            return await self._request(header, frame, now_ms)
        except WireError as error:
            self._record(events.request_refused(message=str(error)), None)
            return Reply(close="malformed request")

    async def _request(self, header: RequestHeader, frame: bytes, now_ms: int) -> Reply:
        authentication = self._authentication
        if authentication.rejects(header.api_key, now_ms):
            self._record(events.session_expired(), header)
            return Reply(close="session expired")
        if self._context.revoke_immediately and authentication.revocation is not None:
            self._record(events.session_revoked(), header)
            return Reply(close="session revoked")
        match header.api_key:
            case ApiKey.SASL_HANDSHAKE | ApiKey.SASL_AUTHENTICATE:
                return await self._sasl(header, frame, now_ms)
            case ApiKey.API_VERSIONS if authentication.phase in (Phase.VERSIONS, Phase.COMPLETE):
                return self._api_versions(header, frame)
        if authentication.under_way:
            self._record(authentication.fail(ApiKey.name_of(header.api_key)), header)
            return Reply(close="not authenticated")
        if header.api_key != ApiKey.ENVELOPE or header.api_version > MAX_VERSION:
            name = ApiKey.name_of(header.api_key)
            message = f"{name} v{header.api_version} is not served on the controller's endpoint"
            self._record(events.request_refused(message=message), header)
            return Reply(close="unexpected request")
        return await self._envelope(header, frame)

    async def _envelope(self, header: RequestHeader, frame: bytes) -> Reply:
        # Version 1 has the layout of version 0.
        message, _ = codecs.of(types.EnvelopeRequest, OLDEST_VERSION).decode(frame, header.body_offset)
        response = await self._context.serve(message, header.api_version, self._sender(header))
        body = codecs.of(types.EnvelopeResponse, OLDEST_VERSION).encode(response)
        return Reply(encode_response(header.api_key, header.api_version, header.correlation_id, body))

    async def _sasl(self, header: RequestHeader, frame: bytes, now_ms: int) -> Reply:
        message, _ = codecs.request(header.api_key, header.api_version).decode(frame, header.body_offset)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            step = self._authentication.handshake(header.api_version, message, now_ms)
        else:
            step = await self._verified(
                self._authentication.authenticate(header.api_version, message, now_ms)
            )
        self._record_step(step, header)
        data = b"" if step.response is None else _frame(header, step.response)
        return Reply(data, "authentication failed" if step.close else None)

    async def _verified(self, step: Step) -> Step:
        while step.check is not None:
            outcome = await self._context.verifications.outcome(step.check, self._client())
            step = self._authentication.verified(outcome, self._context.now_ms())
        return step

    def _api_versions(self, header: RequestHeader, frame: bytes) -> Reply:
        offered = {**LISTENER_APIS, **self._context.forwardable_versions()}
        low, high = offered[ApiKey.API_VERSIONS]
        if not low <= header.api_version <= high:
            # KIP-511: the response has version 0, which every client can read.
            only: dict[int, VersionRange] = {ApiKey.API_VERSIONS: (low, high)}
            header = RequestHeader(header.api_key, 0, header.correlation_id, header.client_id, 0)
            return Reply(_frame(header, _versions_response(only, ErrorCode.UNSUPPORTED_VERSION)))
        response = _versions_response(offered, ErrorCode.NONE)
        if codecs.is_flexible(header.api_key, header.api_version):
            response.unknown_tags = {TRANSACTIONAL_ID_TAG: self._context.transactional_id.encode()}
            if self.authenticated:
                message, _ = codecs.request(header.api_key, header.api_version).decode(
                    frame, header.body_offset
                )
                response.unknown_tags |= self._requested_tags(header, message.unknown_tags or {})
        return Reply(_frame(header, response))

    def _requested_tags(self, header: RequestHeader, requested: Mapping[int, bytes]) -> dict[int, bytes]:
        tags: dict[int, bytes] = {}
        now_ms = self._context.monotonic_ms()
        end = witnessed_end(requested.get(AUDIT_END_TAG, b""))
        if end is not None:
            if now_ms - self._witnessed_ms >= MIN_WITNESS_INTERVAL_MS:
                self._witnessed_ms = now_ms
                self._context.record(
                    events.witnessed(
                        listener=self._context.listener,
                        host=self._host,
                        principal=str(self._authentication.principal),
                        client_id=header.client_id,
                        message=end,
                    )
                )
            tags[AUDIT_END_TAG] = self._context.audit_end().encode()
            other = self._context.same_id.hear(author_of(end), now_ms, self._host)
            if other is not None:
                tags[SAME_ID_TAG] = other.encode()
        if ENVELOPE_ERROR_TAG in requested and self._context.envelope_error is not None:
            error_code = self._context.envelope_error(self._sender(header))
            tags[ENVELOPE_ERROR_TAG] = error_code.to_bytes(2, "big", signed=True)
        return tags

    def _sender(self, header: RequestHeader) -> Sender:
        return Sender(self._authentication.principal, self._host, self._context.listener, header.client_id)

    def _record_step(self, step: Step, header: RequestHeader | None) -> None:
        if step.event is not None:
            self._record(step.event, header)

    def _record(self, event: AuditEvent, header: RequestHeader | None) -> None:
        event.connection_id = self._connection_id
        event.listener = self._context.listener
        event.host = self._host
        if event.principal is None and self.authenticated:
            event.principal = str(self._authentication.principal)
        if header is not None:
            event.client_id = header.client_id
            event.correlation_id = header.correlation_id
            event.method = event.method or ApiKey.name_of(header.api_key)
            event.api_version = header.api_version
        self._context.record(event)


def _frame(header: RequestHeader, response: Message) -> bytes:
    body = codecs.response(header.api_key, header.api_version).encode(response)
    return encode_response(header.api_key, header.api_version, header.correlation_id, body)


def _versions_response(
    offered: Mapping[int, VersionRange], error_code: ErrorCode
) -> types.ApiVersionsResponse:
    response = types.ApiVersionsResponse
    return response(
        error_code=error_code,
        api_keys=[
            response.ApiVersion(api_key=api_key, min_version=low, max_version=high)
            for api_key, (low, high) in sorted(offered.items())
        ],
    )
