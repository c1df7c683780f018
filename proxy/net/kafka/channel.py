"""A client connection to a Kafka endpoint: TLS, ApiVersions, SASL login, pipelined requests (KIP-368).

The proxy has one to the controller and one for the metadata topic, the controller one to a broker. A channel
has no task: the first request after the time of the re-authentication begins it, and other requests wait for
its end. `ResponseProtocol` pairs response frames with requests by correlation id: the event loop calls
`data_received`, and the sender of a request awaits a future.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from ssl import SSLContext, SSLObject
from struct import Struct
from typing import Self, TypeVar, cast

from proxy.error_text import text_of
from proxy.metadata.scram import ScramMechanism
from proxy.net.files.tls import ClientTls
from proxy.net.logins.bearer_token import TokenError, TokenSource
from proxy.net.runtime import reachability
from proxy.net.runtime.chunked import call_in_slices
from proxy.net.runtime.clock import set_within
from proxy.net.runtime.keepalive import set_keepalive_of
from proxy.security.sasl.client import OAuthBearerClient, PlainClient, SaslClient, ScramClient
from proxy.security.sasl.exchange import AuthenticationError as ServerNotTrusted
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import OtherProtocol, WireError
from proxy.wire.header import FrameDecoder, decode_response_header, encode_request
from proxy.wire.message import Request, Response

MAX_IN_FLIGHT = 200
"""Requests without a response, including those whose callers gave up. Their ids are remembered: the table
must not grow while the peer is slow and callers have short timeouts."""

_CORRELATION_ID = Struct(">i")

Protocol = TypeVar("Protocol", bound=asyncio.BaseProtocol)
Part = TypeVar("Part")

_NO_TLS_THERE = "the port is one without TLS, or another server's: see security.protocol and the address"

API_VERSIONS_VERSION = 3
MAX_API_VERSIONS_BYTES = 64 * 1024
"""Of the response, which is decoded without slices, before a login; a broker's has about 1 kB."""
OWN_SOFTWARE = "penstock", "0.1"
SASL_AUTHENTICATE_VERSION = 2
MIN_REAUTHENTICATION_INTERVAL_S = 1.05
"""A Kafka server rejects a second login within a second of the first (KIP-368)."""


class ResponseProtocol(asyncio.Protocol):
    """Pairs responses with requests. All pending requests fail when the connection is lost."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._decoder = FrameDecoder(max_frame_bytes)
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._waiting_since_s = 0.0
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.lost = asyncio.Event()
        """Set when the connection is lost, for any reason."""
        self.fault: Exception | None = None
        """Why the connection was lost, if anything says why."""
        self.received = 0
        """Number of response frames."""

    @property
    def open(self) -> bool:
        """Whether requests may still be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def tls(self) -> SSLObject | None:
        """The TLS session of the connection; None without TLS."""
        return None if self._transport is None else self._transport.get_extra_info("ssl_object")

    @property
    def silent_ms(self) -> int:
        """Milliseconds since anything was received, while requests are in flight; else 0."""
        if not self._pending:
            return 0
        return int((asyncio.get_running_loop().time() - self._waiting_since_s) * 1000)

    async def exchange(self, correlation_id: int, frame: bytes) -> bytes:
        """Send a request frame (with its length prefix) and return the response frame (without).

        ConnectionError when the connection is or gets lost. If the caller gives up, its id is remembered, and
        the response is dropped.
        """
        await self._slots.acquire()
        try:
            await self._writable.wait()
            if self._transport is None or not self.open:
                raise ConnectionError(self._reason())
        except BaseException:
            self._slots.release()
            raise
        loop = asyncio.get_running_loop()
        response: asyncio.Future[bytes] = loop.create_future()
        if not self._pending:
            self._waiting_since_s = loop.time()
        self._pending[correlation_id] = response
        self._transport.write(frame)
        try:
            return await response
        finally:
            # An exception has the traceback, which has this frame: with the future it would be a cycle.
            del response

    async def close(self, timeout_ms: int = 1_000) -> None:
        """Close the connection and wait for its end; abort it after the timeout."""
        transport = self._transport
        if transport is None:
            return
        transport.close()
        if not await set_within(self.lost, timeout_ms):
            transport.abort()

    def abort(self, fault: Exception) -> None:
        """Abort the connection; pending requests fail with `fault`."""
        self.fault = self.fault or fault
        if self._transport is not None:
            self._transport.abort()

    def detach(self) -> asyncio.Transport:
        """Return the transport, for another protocol."""
        assert self._transport is not None
        transport, self._transport = self._transport, None
        return transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not an assertion: uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._waiting_since_s = asyncio.get_running_loop().time()
        try:
            for frame in self._decoder.feed(data):
                self.received += 1
                if len(frame) < _CORRELATION_ID.size:
                    raise WireError(f"response of {len(frame)} bytes has no correlation id")
                (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
                response = self._pending.pop(correlation_id, None)
                if response is None:
                    raise WireError(f"response to correlation id {correlation_id}, which was not requested")
                self._slots.release()
                if not response.done():
                    response.set_result(frame)
        except WireError as error:
            # The bytes after a malformed frame cannot be trusted either.
            self.abort(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.fault = self.fault or exc
        self.lost.set()
        self._writable.set()
        pending, self._pending = self._pending, {}
        for response in pending.values():
            self._slots.release()
            if not response.done():
                response.set_exception(ConnectionError(self._reason()))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _reason(self) -> str:
        return f"connection lost: {text_of(self.fault)}" if self.fault else "connection closed"


class ChannelError(Exception):
    """The connection failed. Requests in flight may or may not have been carried out."""

    reason = reachability.CLOSED
    """A short text without addresses or names."""

    def __init__(self, text: str, reason: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason or self.reason


class ChannelTimeout(ChannelError):
    """No response came in time."""

    reason = reachability.TIMED_OUT


class LoginRejected(ChannelError):
    """The endpoint rejected the login."""

    reason = reachability.LOGIN


class UnsupportedVersionError(ChannelError):
    """The endpoint does not support the API in any of the needed versions."""

    reason = reachability.VERSION


def first_of(parts: Sequence[Part]) -> Part:
    """Return the first part of a response. ChannelError without any: it lacks what was requested."""
    if not parts:
        raise ChannelError("the response lacks what was requested")
    return parts[0]


_BY_IMPORTANCE = (LoginRejected, UnsupportedVersionError, ChannelTimeout, ChannelError)
"""If several addresses fail, the first of these classes that one of the errors has is raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslLogin:
    """Penstock's credentials at an endpoint."""

    mechanism: str
    """PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."""
    username: str
    password: Callable[[], str] = field(repr=False)
    """Read for each login, so that a changed secret takes effect."""
    token_auth: bool = False
    """Whether user name and password are a delegation token's id and HMAC (KIP-48)."""
    tokens: TokenSource | None = None
    """Source of the tokens of OAUTHBEARER; the user name is then only shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """The address of an endpoint, and how to connect to it."""

    host: str
    port: int
    others: tuple[tuple[str, int], ...] = ()
    """Further addresses of the same cluster, tried in order when the first one fails."""
    ssl: SSLContext | None = None
    tls: ClientTls | None = None
    """The owner of `ssl`, if its files are watched."""
    sasl: SaslLogin | None = None
    client_id: str = "penstock"
    request_timeout_ms: int = 30_000
    max_response_bytes: int = 100 * 1024 * 1024

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(f"{host}:{port}" for host, port in ((self.host, self.port), *self.others))

    @property
    def address(self) -> str:
        """All addresses, as in bootstrap.servers."""
        return ",".join(self.addresses)

    def at(self, host: str, port: int) -> "EndpointSettings":
        """Return the same settings for another node."""
        return replace(self, host=host, port=port, others=())


class Channel:
    """An open connection; use it with `async with await Channel.open(endpoint) as channel`."""

    def __init__(self, endpoint: EndpointSettings, protocol: ResponseProtocol) -> None:
        self.endpoint = endpoint
        self.api_versions: Mapping[int, tuple[int, int]] = {}
        """API key -> lowest and highest version that the endpoint supports."""
        self.api_versions_tags: Mapping[int, bytes] = {}
        """Tagged fields of its ApiVersions response that Kafka does not have."""
        self._protocol = protocol
        self._correlation_id = 0
        self._login_lock = asyncio.Lock()
        self._reauthenticate_at_s: float | None = None
        self.session_lifetime_ms = 0
        """As reported at the last login; 0: the session does not expire."""

    @classmethod
    async def open(cls, endpoint: EndpointSettings, software: tuple[str, str] = OWN_SOFTWARE) -> Self:
        """Connect, negotiate versions and log in. ChannelError (or AuthenticationError) when a step fails.

        `software`: name and version of what sends the requests of this connection (KIP-511). Several
        addresses are tried in order, all within the request timeout.
        """
        if not endpoint.others:
            return await cls._open_one(endpoint, endpoint.request_timeout_ms, software)
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + endpoint.request_timeout_ms / 1000
        addresses = [(endpoint.host, endpoint.port), *endpoint.others]
        errors: list[ChannelError] = []
        for index, (host, port) in enumerate(addresses):
            # A silent address must not use up the time of those after it.
            share_ms = (ends_s - loop.time()) * 1000 / (len(addresses) - index)
            try:
                return await cls._open_one(endpoint.at(host, port), int(share_ms), software)
            except ChannelError as error:
                errors.append(error)
        raise _combined(errors) from errors[-1]

    @classmethod
    async def _open_one(cls, endpoint: EndpointSettings, limit_ms: int, software: tuple[str, str]) -> Self:
        try:
            async with asyncio.timeout(limit_ms / 1000):
                protocol = await connect_to(endpoint, lambda: ResponseProtocol(endpoint.max_response_bytes))
                channel = cls(endpoint, protocol)
                try:
                    await channel._negotiate(software)
                    await channel._log_in()
                except WireError as error:
                    await channel.close()
                    raise ChannelError(f"{endpoint.address}: {error}") from error
                except BaseException:
                    await channel.close()
                    raise
                return channel
        except TimeoutError:
            raise not_in_time(endpoint, limit_ms) from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def closed(self) -> bool:
        """Whether no further request can be sent."""
        return not self._protocol.open

    @property
    def tls(self) -> SSLObject | None:
        """The TLS session of the connection; None without TLS."""
        return self._protocol.tls

    @property
    def silent_ms(self) -> int:
        """Milliseconds since the endpoint last sent anything, while requests are in flight."""
        return self._protocol.silent_ms

    async def close(self) -> None:
        """Close the connection; pending requests fail with ChannelError."""
        await self._protocol.close()

    def detach(self) -> asyncio.Transport:
        """Return the transport, logged in, for another protocol. No request may be in flight."""
        return self._protocol.detach()

    async def wait_closed(self) -> None:
        """Wait until the connection is closed, from either side."""
        await self._protocol.lost.wait()

    def version(self, api_key: int, supported: tuple[int, int]) -> int:
        """Return the highest version of `supported` (lowest, highest) that the endpoint supports too."""
        low, high = self.api_versions.get(api_key, (0, -1))
        best = min(high, supported[1])
        if best < max(low, supported[0]):
            raise UnsupportedVersionError(
                f"{self.endpoint.address}: supports {ApiKey.name_of(api_key)} v{low}-v{high}, "
                f"needed v{supported[0]}-v{supported[1]}"
            )
        return best

    async def request(
        self, api_key: int, version: int, message: Request[Response], *, timeout_ms: int | None = None
    ) -> Response:
        """Send a request of Penstock and return the decoded response."""
        await self._renew_login()
        return await self._request(api_key, version, message, timeout_ms)

    async def send(
        self, message: Request[Response], versions: tuple[int, int], *, timeout_ms: int | None = None
    ) -> Response:
        """Send a request in the highest of these versions that the endpoint supports (`version`)."""
        api_key = message.api_key
        return await self.request(api_key, self.version(api_key, versions), message, timeout_ms=timeout_ms)

    async def send_body(
        self,
        api_key: int,
        version: int,
        client_id: str | None,
        body: bytes,
        *,
        timeout_ms: int | None = None,
    ) -> memoryview:
        """Send an encoded request body and return the response body, undecoded."""
        await self._renew_login()
        return await self._exchange(api_key, version, client_id, body, timeout_ms)

    async def _request(
        self, api_key: int, version: int, message: Request[Response], timeout_ms: int | None
    ) -> Response:
        body = await call_in_slices(partial(codecs.request(api_key, version).encode, message))
        frame = await self._exchange(api_key, version, self.endpoint.client_id, body, timeout_ms)
        try:
            codec: codecs.Codec[Response] = codecs.response(api_key, version)
            response, _ = await call_in_slices(partial(codec.decode, frame))
        except WireError as error:
            self._protocol.abort(error)
            raise ChannelError(
                f"{self.endpoint.address}: {ApiKey.name_of(api_key)} v{version} response: {error}"
            ) from error
        return response

    async def _exchange(
        self, api_key: int, version: int, client_id: str | None, body: bytes, timeout_ms: int | None
    ) -> memoryview:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request(api_key, version, self._correlation_id, client_id, body)
        limit_ms = self.endpoint.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                response = await self._protocol.exchange(self._correlation_id, frame)
            _, body_offset = decode_response_header(api_key, version, response)
        except (TimeoutError, ConnectionError, WireError) as error:
            raise self._failed(api_key, error, limit_ms, abort=timeout_ms is None) from error
        return memoryview(response)[body_offset:]

    def _failed(self, api_key: int, error: Exception, limit_ms: int, *, abort: bool) -> ChannelError:
        name = ApiKey.name_of(api_key)
        if isinstance(self._protocol.fault, OtherProtocol):
            text = f"{self.endpoint.address}: {text_of(self._protocol.fault)}"
            return ChannelError(text, reachability.WRONG_PROTOCOL)
        if not isinstance(error, TimeoutError):
            return ChannelError(f"{self.endpoint.address}: {name}: {text_of(error)}{self._advice(error)}")
        failure = ChannelTimeout(f"{self.endpoint.address}: no response to {name} within {limit_ms} ms")
        if abort:
            # An endpoint that is silent for the whole request timeout is considered dead, but not one that
            # was silent for a shorter timeout of the caller.
            self._protocol.abort(failure)
        return failure

    def _advice(self, error: Exception) -> str:
        """Return what the settings may lack, if the server closes a new connection without a word."""
        received, endpoint = self._protocol.received, self.endpoint
        if not isinstance(error, ConnectionError) or received > 1 or (received and endpoint.sasl):
            return ""
        if received:
            lacks = "a login (security.protocol SASL_SSL or SASL_PLAINTEXT)"
        elif endpoint.ssl is None:
            lacks = "TLS (security.protocol SSL or SASL_SSL)"
        else:
            lacks = "a client certificate (ssl.certificate)"
        return f": perhaps the server requires {lacks}"

    async def _negotiate(self, software: tuple[str, str]) -> None:
        name, software_version = software
        request = types.ApiVersionsRequest(
            client_software_name=name, client_software_version=software_version
        )
        version = API_VERSIONS_VERSION
        encoded = codecs.of(types.ApiVersionsRequest, version).encode(request)
        body = await self._exchange(ApiKey.API_VERSIONS, version, self.endpoint.client_id, encoded, None)
        if int.from_bytes(body[:2], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION:
            # KIP-511: a server that does not know this version responds in version 0.
            version = 0
            body = await self._exchange(ApiKey.API_VERSIONS, version, self.endpoint.client_id, b"", None)
        error_code, self.api_versions, self.api_versions_tags = _offered(version, bytes(body))
        if error_code != ErrorCode.NONE:
            raise ChannelError(f"{self.endpoint.address}: ApiVersions: {ErrorCode.name_of(error_code)}")

    async def _renew_login(self) -> None:
        if not self._is_due():
            return
        async with self._login_lock:
            if self._is_due():
                await self._log_in()

    def _is_due(self) -> bool:
        at_s = self._reauthenticate_at_s
        return at_s is not None and asyncio.get_running_loop().time() >= at_s

    async def _log_in(self) -> None:
        """Log in, or renew the login of the open connection. Requests in flight still get their responses."""
        login = self.endpoint.sasl
        if login is None:
            return
        try:
            lifetime_ms = await self._authenticate(login)
        except LoginRejected as error:
            self._protocol.abort(error)
            raise
        self._reauthenticate_at_s = None
        self.session_lifetime_ms = lifetime_ms
        if lifetime_ms > 0:
            wait_s = reauthentication_wait_s(lifetime_ms)
            self._reauthenticate_at_s = asyncio.get_running_loop().time() + wait_s

    async def _authenticate(self, login: SaslLogin) -> int:
        """Exchange the SASL tokens of a login; return session_lifetime_ms, 0 for no expiry."""
        handshake = types.SaslHandshakeRequest(mechanism=login.mechanism)
        offered = await self._request(ApiKey.SASL_HANDSHAKE, 1, handshake, None)
        if offered.error_code != ErrorCode.NONE:
            if offered.error_code == ErrorCode.ILLEGAL_SASL_STATE:
                detail = "the port is one without logins: see security.protocol"
            else:
                detail = f"offered: {offered.mechanisms}"
            raise self._rejected(login, ErrorCode.name_of(offered.error_code), detail)
        version = self.version(ApiKey.SASL_AUTHENTICATE, (0, SASL_AUTHENTICATE_VERSION))
        client = await sasl_client(login)
        token: bytes | None = client.first()
        lifetime_ms = 0
        while token is not None:
            message = types.SaslAuthenticateRequest(auth_bytes=token)
            response = await self._request(ApiKey.SASL_AUTHENTICATE, version, message, None)
            if response.error_code != ErrorCode.NONE:
                raise self._rejected(login, ErrorCode.name_of(response.error_code), response.error_message)
            lifetime_ms = response.session_lifetime_ms
            challenge = bytes(response.auth_bytes)
            try:
                if client.takes_long(challenge):
                    token = await asyncio.to_thread(client.respond, challenge)
                else:
                    token = client.respond(challenge)
            except ServerNotTrusted as error:
                raise self._rejected(login, "server not trusted", str(error)) from error
        if not client.done:
            raise self._rejected(login, "login did not complete", None)
        return lifetime_ms

    def _rejected(self, login: SaslLogin, what: str, detail: str | None) -> LoginRejected:
        who = f"{login.mechanism} login as {login.username}"
        return LoginRejected(f"{self.endpoint.address}: {who}: {what}" + (f": {detail}" if detail else ""))


@lru_cache(maxsize=64)
def _offered(version: int, body: bytes) -> tuple[int, Mapping[int, tuple[int, int]], Mapping[int, bytes]]:
    """Return an ApiVersions response's error code, versions by API key, and tagged fields that Kafka does not
    have. Remembered: a broker responds with the same bytes on each connection. WireError if malformed."""
    if len(body) > MAX_API_VERSIONS_BYTES:
        raise WireError(f"an ApiVersions response of {len(body)} bytes")
    response, _ = codecs.of(types.ApiVersionsResponse, version).decode(body)
    versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    return response.error_code, versions, response.unknown_tags or {}


def not_in_time(endpoint: EndpointSettings, limit_ms: int) -> ChannelTimeout:
    """Return the error of a connection that took longer than this to be made."""
    return ChannelTimeout(f"{endpoint.address}: no connection within {limit_ms} ms")


async def connect_to(endpoint: EndpointSettings, protocol: Callable[[], Protocol]) -> Protocol:
    """Open a connection, without a login. ChannelError says what to do about another protocol."""
    try:
        transport, made = await asyncio.get_running_loop().create_connection(
            protocol,
            endpoint.host,
            endpoint.port,
            ssl=endpoint.ssl,
            server_hostname=endpoint.host if endpoint.ssl else None,
        )
    except OSError as error:
        raise _not_connected(endpoint, error) from error
    except (ValueError, OverflowError) as error:
        # A response of a server may name any host and port. UnicodeError, of host names, is a ValueError.
        text = f"{endpoint.address}: cannot connect: {text_of(error)}"
        raise ChannelError(text, reachability.NOT_CONNECTED) from error
    set_keepalive_of(transport)
    return made


def _not_connected(endpoint: EndpointSettings, error: OSError) -> ChannelError:
    reason, text = reachability.reason_of_connecting(error), text_of(error)
    if reason == reachability.WRONG_PROTOCOL:
        text += f": {_NO_TLS_THERE}"
    elif endpoint.ssl and isinstance(error, ConnectionError) and reason != reachability.REFUSED:
        # A Kafka listener without TLS closes the connection when it reads a handshake.
        reason = reachability.TLS
        text += f" during the TLS handshake: perhaps {_NO_TLS_THERE}"
    return ChannelError(f"{endpoint.address}: cannot connect: {text}", reason)


def _combined(errors: list[ChannelError]) -> ChannelError:
    """Return one error for all, of the class that matters most to an operator."""
    kind = next(kind for kind in _BY_IMPORTANCE if any(isinstance(error, kind) for error in errors))
    reasons = ", ".join(dict.fromkeys(error.reason for error in errors))
    return kind("; ".join(map(str, errors)), reasons)


def reauthentication_wait_s(session_lifetime_ms: int) -> float:
    """Return the seconds to wait before renewing a login whose session lasts so long."""
    # Kafka's clients wait for 85 to 95 % of the lifetime (KIP-368). A late renewal of Penstock would
    # disconnect its clients, so it comes earlier; the random part spreads the renewals.
    share = 0.6 + secrets.randbelow(1000) / 10_000
    return max(session_lifetime_ms / 1000 * share, MIN_REAUTHENTICATION_INTERVAL_S)


async def sasl_client(login: SaslLogin) -> SaslClient:
    """Return the client side of a SASL exchange. LoginRejected without a token or a password for it."""
    if login.tokens is not None:
        try:
            return OAuthBearerClient(await login.tokens.token())
        except (TokenError, ValueError) as error:
            raise LoginRejected(f"no token to log in with: {error}") from error
    try:
        password = login.password()
    except (OSError, ValueError) as error:  # The file may be rotated at this moment.
        raise LoginRejected(f"no password to log in with: {text_of(error)}") from error
    if login.mechanism == "PLAIN":
        return PlainClient(login.username, password)
    mechanism = ScramMechanism.named(login.mechanism)
    return ScramClient(
        mechanism,
        login.username,
        password,
        secrets.token_urlsafe(24),
        token_auth=login.token_auth,
    )
