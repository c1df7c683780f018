"""One proxy's connection to the controller, frame by frame: SASL, ApiVersions, Envelope, nothing else.

Fed by forwarding.net.server, one frame at a time, so that answers leave in the order of the requests. Who
the proxy is comes from proxy.session.authentication; what an Envelope asks for goes to `serve`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from forwarding.envelope import MAX_VERSION, OLDEST_VERSION, Sender
from forwarding.versions import TRANSACTIONAL_ID_TAG
from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.net.logins.verification import Client, Verifications
from proxy.security.principal import Principal
from proxy.security.principal_builder import (
    AuthenticationContext,
    DefaultPrincipalBuilder,
    PrincipalBuilder,
)
from proxy.session.authentication import Authentication, Phase, SaslListener, Step
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from proxy.wire.header import RequestHeader, decode_request_header, encode_response
from proxy.wire.message import Message

VersionRange = tuple[int, int]

ENVELOPE_VERSIONS = (OLDEST_VERSION, MAX_VERSION)
LISTENER_APIS: Mapping[int, VersionRange] = {
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.ENVELOPE: ENVELOPE_VERSIONS,
}
"""What is served on the controller's own endpoint; everything else comes inside an Envelope (E10)."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all connections of the listener share."""

    listener: str
    sasl: SaslListener | None
    forwardable_versions: Callable[[], Mapping[int, VersionRange]]
    """What may come inside an Envelope, for the proxies' ApiVersions (E8)."""
    serve: Callable[[types.EnvelopeRequest, int, Sender], Awaitable[types.EnvelopeResponse]]
    """An EnvelopeRequest, its version and its sender -> the EnvelopeResponse."""
    record: Callable[[AuditEvent], None]
    now_ms: Callable[[], int]
    verifications: Verifications
    security_protocol: str = "PLAINTEXT"
    principal_builder: PrincipalBuilder = field(default_factory=DefaultPrincipalBuilder)
    revoke_immediately: bool = False
    """sessions.revoke.immediately."""
    transactional_id: str = ""
    """The controller's own, which proxies keep their clients from."""


class UnknownPrincipal(Exception):
    """What a peer has shown makes it nobody; it is not let in."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back to the proxy, and why the connection ends, if it does."""

    data: bytes = b""
    close: str | None = None


class Connection:
    """The state of one connection."""

    def __init__(
        self,
        connection_id: str,
        host: str,
        surroundings: Surroundings,
        certificate: bytes | None = None,
        is_there: Callable[[], bool] = lambda: True,
    ) -> None:
        """`certificate`: the peer's own in DER, verified; `is_there`: the peer has not left.

        UnknownPrincipal, and it is recorded.
        """
        self._is_there = is_there
        self._connection_id = connection_id
        self._host = host
        self._around = surroundings
        self._authentication = Authentication(surroundings.sasl, self._principal(certificate), host=host)

    def _principal(self, certificate: bytes | None) -> Principal:
        around = self._around
        context = AuthenticationContext(
            listener=around.listener,
            security_protocol=around.security_protocol,
            host=self._host,
            certificate=certificate,
        )
        try:
            return around.principal_builder.build(context)
        except Exception as error:
            event = events.authentication_failed(
                connection_id=self._connection_id,
                listener=around.listener,
                host=self._host,
                mechanism="SSL",
                message=f"principal builder: {error or repr(error)}",
            )
            around.record(event)
            raise UnknownPrincipal(event.message) from error

    def _client(self) -> Client:
        authentication = self._authentication
        return Client(
            listener=self._around.listener,
            mechanism=authentication.mechanism or "",
            host=self._host,
            principal=str(authentication.principal) if authentication.known else None,
            is_there=self._is_there,
        )

    @property
    def authenticated(self) -> bool:
        """The peer is known, and may send larger frames."""
        return self._authentication.phase is Phase.COMPLETE

    @property
    def known(self) -> bool:
        """The same, also while the peer logs in again."""
        return self._authentication.known

    async def receive(self, frame: bytes) -> Reply:
        """Serve one request frame, without its length prefix. NotChecked: the peer is to be cut off."""
        now_ms = self._around.now_ms()
        if self._authentication.phase is Phase.BARE_TOKENS:
            return await self._bare_token(frame, now_ms)
        try:
            header = decode_request_header(frame)
            return await self._request(header, frame, now_ms)
        except WireError as error:
            self._record(events.request_refused(message=str(error)), None)
            return Reply(close="malformed request")

    async def _request(self, header: RequestHeader, frame: bytes, now_ms: int) -> Reply:
        authentication = self._authentication
        if authentication.refuses(header.api_key, now_ms):
            self._record(events.session_expired(), header)
            return Reply(close="session expired")
        if self._around.revoke_immediately and authentication.revoked:
            self._record(events.session_revoked(), header)
            return Reply(close="session revoked")
        match header.api_key:
            case ApiKey.SASL_HANDSHAKE | ApiKey.SASL_AUTHENTICATE:
                return await self._sasl(header, frame, now_ms)
            case ApiKey.API_VERSIONS if authentication.phase in (Phase.VERSIONS, Phase.COMPLETE):
                return self._api_versions(header)
        if authentication.under_way:
            self._record(authentication.refuse(ApiKey.name_of(header.api_key)), header)
            return Reply(close="not authenticated")
        if header.api_key != ApiKey.ENVELOPE or header.api_version > MAX_VERSION:
            return self._unexpected(header)
        return await self._envelope(header, frame)

    async def _envelope(self, header: RequestHeader, frame: bytes) -> Reply:
        # Version 1 has the same layout: only what may be answered differs.
        message, _ = codecs.of(types.EnvelopeRequest, OLDEST_VERSION).decode(frame, header.body_offset)
        sender = Sender(self._authentication.principal, self._host, self._around.listener, header.client_id)
        response = await self._around.serve(message, header.api_version, sender)
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
        self._tell(step, header)
        data = b"" if step.response is None else _frame(header, step.response)
        return Reply(data, "authentication failed" if step.close else None)

    async def _verified(self, step: Step) -> Step:
        while step.check is not None:
            outcome = await self._around.verifications.outcome(step.check, self._client())
            step = self._authentication.verified(outcome, self._around.now_ms())
        return step

    async def _bare_token(self, token: bytes, now_ms: int) -> Reply:
        step = await self._verified(self._authentication.bare_token(token, now_ms))
        self._tell(step, None)
        if step.close:
            return Reply(close="authentication failed")
        return Reply(len(step.response).to_bytes(4, "big") + step.response)

    def _api_versions(self, header: RequestHeader) -> Reply:
        offered = {**LISTENER_APIS, **self._around.forwardable_versions()}
        low, high = offered[ApiKey.API_VERSIONS]
        if not low <= header.api_version <= high:
            # KIP-511: told in version 0, which every client reads.
            only: dict[int, VersionRange] = {ApiKey.API_VERSIONS: (low, high)}
            header = RequestHeader(header.api_key, 0, header.correlation_id, header.client_id, 0)
            return Reply(_frame(header, _versions_response(only, ErrorCode.UNSUPPORTED_VERSION)))
        response = _versions_response(offered, ErrorCode.NONE)
        if codecs.is_flexible(header.api_key, header.api_version):
            response.unknown_tags = {TRANSACTIONAL_ID_TAG: self._around.transactional_id.encode()}
        return Reply(_frame(header, response))

    def _unexpected(self, header: RequestHeader) -> Reply:
        name = ApiKey.name_of(header.api_key)
        message = f"{name} v{header.api_version} is not served on the controller's endpoint"
        self._record(events.request_refused(message=message), header)
        return Reply(close="unexpected request")

    def _tell(self, step: Step, header: RequestHeader | None) -> None:
        if step.event is not None:
            self._record(step.event, header)

    def _record(self, event: AuditEvent, header: RequestHeader | None) -> None:
        event.connection_id = self._connection_id
        event.listener = self._around.listener
        event.host = self._host
        if event.principal is None and self.authenticated:
            event.principal = str(self._authentication.principal)
        if header is not None:
            event.client_id = header.client_id
            event.correlation_id = header.correlation_id
            event.method = event.method or ApiKey.name_of(header.api_key)
            event.api_version = header.api_version
        self._around.record(event)


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
