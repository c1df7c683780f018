"""The requests that a session handles itself: ApiVersions, SASL, and everything that comes when it must not.

Until a client is known, these are all that is allowed; past the end of its session only SASL is (KIP-368).
The state of the exchange is in proxy.session.authentication.

ApiVersions (KIP-35, KIP-511, KIP-590) has the versions that proxy, broker and controller all support. The
proxy responds to it also before authentication; afterwards the quota on time applies to it. To an unknown
version it responds in version 0 with UNSUPPORTED_VERSION and the versions of ApiVersions only, so that any
client can continue from there. A client that names another cluster or broker than those behind its listener
gets REBOOTSTRAP_REQUIRED once it is authenticated (KIP-1242).
"""

from __future__ import annotations

import re
from struct import Struct
from typing import Any

from proxy.audit import events
from proxy.audit.classes import AUTHENTICATION
from proxy.security.sasl.exchange import Settled
from proxy.session.authentication import Authentication, Phase, Step
from proxy.session.call import UNRECORDED
from proxy.session.client_state import ClientState, ConnectionUse
from proxy.session.effects import Close, MuteClient, Recorded, Verify
from proxy.session.gate import Gate, ListenerPolicy
from proxy.session.plan import End, LoggedIn, Plan, SendResponse
from proxy.session.requests import dispatch
from proxy.session.throttling import throttle_longer
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import RequestHeader, encode_response

_FIRST_WITH_SOFTWARE = 3
_FIRST_WITH_FEATURES_FROM_ZERO = 4
_NO_NODE = -1
_SHOWN_CHARACTERS = 64
"""Of a name and of a version, which the client chooses, in messages, records and metrics."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

OWN_VERSIONS = codecs.request_versions(ApiKey.API_VERSIONS)

_INT32 = Struct(">i")
_SASL_API_KEYS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
API_KEYS = frozenset((ApiKey.API_VERSIONS, *_SASL_API_KEYS))


def api_versions_response(
    gate: Gate,
    header: RequestHeader,
    frame: memoryview,
    throttle_time_ms: int = 0,
    listener: ListenerPolicy | None = None,
) -> tuple[ErrorCode, bytes, str]:
    """Return the error code, the whole response with its length prefix, and the client's software, "" if the
    request does not say it. `listener`: of a client that is authenticated.

    WireError: a malformed body.
    """
    software = ""
    version, correlation_id = header.api_version, header.correlation_id
    if version not in OWN_VERSIONS:
        response = types.ApiVersionsResponse
        own = response.ApiVersion(
            api_key=ApiKey.API_VERSIONS, min_version=OWN_VERSIONS.start, max_version=OWN_VERSIONS.stop - 1
        )
        unsupported = response(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
        return ErrorCode.UNSUPPORTED_VERSION, _encoded_api_versions(0, correlation_id, unsupported), ""
    if version >= _FIRST_WITH_SOFTWARE:
        request, _ = codecs.request(ApiKey.API_VERSIONS, version).decode(frame, header.body_offset)
        names = (request.client_software_name, request.client_software_version)
        error_code = ErrorCode.NONE
        # As in Kafka, a client says which cluster and which node it means, or neither.
        is_half_meant = (request.cluster_id is None) != (request.node_id == _NO_NODE)
        if is_half_meant or not all(_SOFTWARE.fullmatch(name) for name in names):
            error_code = ErrorCode.INVALID_REQUEST
        else:
            # What is left after the cut has to be valid for the broker, too.
            software = " ".join(name[:_SHOWN_CHARACTERS].rstrip("-.") for name in names)
            if listener is not None and _is_elsewhere(gate, listener, request):
                error_code = ErrorCode.REBOOTSTRAP_REQUIRED
        if error_code != ErrorCode.NONE:
            rejected = types.ApiVersionsResponse(error_code=error_code, throttle_time_ms=throttle_time_ms)
            return error_code, _encoded_api_versions(version, correlation_id, rejected), software
    if throttle_time_ms:
        supported = _supported_versions(gate, version)
        supported.throttle_time_ms = throttle_time_ms
        return ErrorCode.NONE, _encoded_api_versions(version, correlation_id, supported), software
    body = _supported_body(gate, version)
    return ErrorCode.NONE, encode_response(ApiKey.API_VERSIONS, version, correlation_id, body), software


def _is_elsewhere(gate: Gate, listener: ListenerPolicy, request: types.ApiVersionsRequest) -> bool:
    # Before v5 the request has no cluster id.
    if request.cluster_id is None or gate.cluster_id is None:
        return False
    is_other_node = listener.nodes_here is not None and request.node_id not in listener.nodes_here
    return is_other_node or request.cluster_id != gate.cluster_id


def _supported_body(gate: Gate, version: int) -> bytes:
    """Return the encoded body, again only if the gate's versions or features have changed: they seldom do."""
    made_from = (
        gate.versions,
        gate.supported_features,
        gate.finalized_features,
        gate.finalized_features_epoch,
    )
    encoded = gate.api_versions_bodies.get(version)
    # The gate's values are replaced as a whole, so that comparing identities is enough.
    if encoded is not None and all(was is now for was, now in zip(encoded[0], made_from, strict=True)):
        return encoded[1]
    body = codecs.response(ApiKey.API_VERSIONS, version).encode(_supported_versions(gate, version))
    gate.api_versions_bodies[version] = made_from, body
    return body


def _supported_versions(gate: Gate, version: int) -> Any:
    response = types.ApiVersionsResponse
    first = 0 if version >= _FIRST_WITH_FEATURES_FROM_ZERO else 1
    return response(
        api_keys=[
            response.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(gate.versions.items())
        ],
        supported_features=[
            response.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in gate.supported_features.items()
            if low >= first
        ],
        finalized_features_epoch=gate.finalized_features_epoch,
        finalized_features=[
            response.FinalizedFeatureKey(name=name, min_version_level=low, max_version_level=high)
            for name, (low, high) in gate.finalized_features.items()
        ],
    )


def _encoded_api_versions(version: int, correlation_id: int, message: Any) -> bytes:
    body = codecs.response(ApiKey.API_VERSIONS, version).encode(message)
    return encode_response(ApiKey.API_VERSIONS, version, correlation_id, body)


class Handshake:
    """One connection's own requests. Returns plans; changes only the authentication and what it remembers
    here."""

    __slots__ = ("_authentication", "_gate", "_listener", "_use", "_verifying")

    def __init__(
        self, gate: Gate, listener: ListenerPolicy, authentication: Authentication, use: ConnectionUse
    ) -> None:
        self._gate = gate
        self._listener = listener
        self._authentication = authentication
        self._use = use
        # The request whose token is being verified, and when it was taken; the header is None for a bare
        # token.
        self._verifying: tuple[RequestHeader | None, int] | None = None

    @property
    def takes_bare_tokens(self) -> bool:
        """After a SaslHandshake v0 frames are nothing but a token."""
        return self._authentication.phase is Phase.BARE_TOKENS

    def bare_token(self, frame: memoryview, now_ms: int) -> Plan:
        """Take a frame that is a token, its length prefix included."""
        if AUTHENTICATION in self._gate.unrecorded:
            return [End(Close("audit_unavailable"))]
        return self._plan(None, self._authentication.bare_token(bytes(frame[4:]), now_ms), now_ms, now_ms)

    def request(
        self, header: RequestHeader, frame: memoryview, client: ClientState, now_ms: int
    ) -> Plan | None:
        """The plan of one of these requests; None: it is another request. WireError if it is malformed.

        `client`: that of the header if the client is authenticated and this is one of API_KEYS.
        """
        authentication, api_key = self._authentication, header.api_key
        if authentication.rejects(api_key, now_ms):
            return self._expired(header)
        if api_key == ApiKey.API_VERSIONS and authentication.phase in (Phase.VERSIONS, Phase.COMPLETE):
            return self._api_versions(header, frame, client, now_ms)
        if api_key in _SASL_API_KEYS and header.api_version in codecs.request_versions(api_key):
            return self._sasl(header, frame, client, now_ms)
        if authentication.under_way:
            return self._out_of_place(header, frame)
        return None

    def verified(self, outcome: Settled, now_ms: int) -> Plan:
        """The plan once a `Verify` has its outcome: the response that the client waits for."""
        assert self._verifying is not None
        (header, since_ms), self._verifying = self._verifying, None
        return self._plan(header, self._authentication.verified(outcome, now_ms), now_ms, since_ms)

    def _api_versions(
        self, header: RequestHeader, frame: memoryview, client: ClientState, now_ms: int
    ) -> Plan:
        plan, throttle_time_ms = self._throttled(client, now_ms)
        listener = None if self._authentication.phase is Phase.VERSIONS else self._listener
        error_code, response, software = api_versions_response(
            self._gate, header, frame, throttle_time_ms, listener
        )
        if software:
            self._authentication.client_software = software
            self._use.count()
        if error_code == ErrorCode.NONE and self._authentication.phase is Phase.VERSIONS:
            self._authentication.phase = Phase.HANDSHAKE
        self._listener.counts.error(ApiKey.API_VERSIONS, error_code)
        plan.append(SendResponse(response, ApiKey.API_VERSIONS, now_ms))
        return [*plan, MuteClient(throttle_time_ms)] if throttle_time_ms else plan

    def _throttled(self, client: ClientState, now_ms: int) -> tuple[Plan, int]:
        """Return what the quota on time does to an authenticated client, and the throttle time in ms."""
        if self._authentication.phase is not Phase.COMPLETE or not client.request.limited:
            return [], 0
        client.last_was_exempt = False
        return throttle_longer(client, None, now_ms)

    def _sasl(self, header: RequestHeader, frame: memoryview, client: ClientState, now_ms: int) -> Plan:
        api_key, version = header.api_key, header.api_version
        request, _ = codecs.request(api_key, version).decode(frame, header.body_offset)
        authentication = self._authentication
        if AUTHENTICATION in self._gate.unrecorded and api_key == ApiKey.SASL_AUTHENTICATE:
            # There is no room for the record of this login, so there is no login.
            response = types.SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=UNRECORDED
            )
            self._listener.counts.error(header.api_key, response.error_code)
            return [self._end_late("audit_unavailable", _encoded(header, Step(response)))]
        handle = authentication.handshake if api_key == ApiKey.SASL_HANDSHAKE else authentication.authenticate
        step, plan, throttle_time_ms = handle(version, request, now_ms), Plan(), 0
        if step.event is None:  # No login: a client could send such requests without a pause.
            plan, throttle_time_ms = self._throttled(client, now_ms)
        plan += self._plan(header, step, now_ms, now_ms)
        return [*plan, MuteClient(throttle_time_ms)] if throttle_time_ms else plan

    def _out_of_place(self, header: RequestHeader, frame: memoryview) -> Plan:
        # Where a token is due Kafka responds with its error, and closes without a response otherwise.
        response = b""
        if self._authentication.phase is Phase.AUTHENTICATE:
            response = _rejected(header, frame)
            self._listener.counts.error(header.api_key, ErrorCode.ILLEGAL_SASL_STATE)
        event = self._authentication.fail(ApiKey.name_of(header.api_key))
        event.client_id = header.client_id
        return [Recorded(event), self._end_late("illegal_sasl_state", response, event.message or "")]

    def _plan(self, header: RequestHeader | None, step: Step, now_ms: int, since_ms: int) -> Plan:
        """`header`: of the request that led to `step`, taken at `since_ms`; None for a bare token."""
        if step.check is not None:
            self._verifying = header, now_ms
            return [Verify(step.check, self._authentication.mechanism or "")]
        response = _encoded(header, step)
        api_key = ApiKey.SASL_AUTHENTICATE if header is None else header.api_key
        self._listener.counts.error(api_key, getattr(step.response, "error_code", ErrorCode.NONE))
        plan: Plan = []
        if step.event is not None:
            step.event.client_id = None if header is None else header.client_id
            failed = step.close or step.event.error_code
            plan.append(Recorded(step.event) if failed else LoggedIn(step.event))
        if step.close:
            plan.append(self._end_late("authentication_failed", response))
        else:
            plan.append(SendResponse(response, api_key, since_ms))
        return plan

    def _expired(self, header: RequestHeader) -> Plan:
        event = events.session_expired(
            method=ApiKey.name_of(header.api_key),
            api_version=header.api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            mechanism=self._authentication.mechanism,
            error_code=ErrorCode.NONE,
            message="used past the end of its session without re-authentication",
        )
        return [Recorded(event), End(Close("session_expired"))]

    def _end_late(self, reason: str, response: bytes, message: str = "") -> End:
        """A client that guesses has to wait for each response, and its connection is closed then
        (KIP-306)."""
        delay_ms = self._listener.failed_authentication_delay_ms
        return End(Close(reason, message, delay_ms=delay_ms, last_words=response))


def _rejected(header: RequestHeader, frame: memoryview) -> bytes:
    """The response in which all of it failed; b"" where there is none. WireError for a malformed request."""
    api_key, version = header.api_key, header.api_version
    if version not in codecs.request_versions(api_key):
        return b""
    request, _ = codecs.request(api_key, version).decode(frame, header.body_offset)
    message = f"Unexpected Kafka request of type {ApiKey(api_key).name} during SASL authentication."
    try:
        response = (
            types.ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            if api_key == ApiKey.API_VERSIONS
            else dispatch.rejected(api_key, version, request, ErrorCode.ILLEGAL_SASL_STATE, message).message
        )
    except KeyError:
        return b""
    if response is None:
        return b""  # A producer that wants no response.
    body = codecs.response(api_key, version).encode(response)
    return encode_response(api_key, version, header.correlation_id, body)


def _encoded(header: RequestHeader | None, step: Step) -> bytes:
    if step.response is None:
        return b""
    if header is None:
        return b"" if step.close else _INT32.pack(len(step.response)) + step.response
    body = codecs.response(header.api_key, header.api_version).encode(step.response)
    return encode_response(header.api_key, header.api_version, header.correlation_id, body)
