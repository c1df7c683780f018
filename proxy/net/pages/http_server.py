"""Serves /metrics, /livez, /readyz and JSON pages over HTTP/1.1, for Prometheus, the kubelet and operators.

The process runs it beside its listeners; h11 reads and writes the messages (docs/decisions/0051). GET and
HEAD, and POST by administrators to end connections; one response per connection. /livez and /readyz are
public; the other pages need a credential, if one is configured. The TLS handshake is made here, not by the
loop, so that limits on connections and time count from the first byte.

A proxy, a supervisor of workers and a controller have one `HttpPort` each, with their own pages: the port of
the configuration in effect, and the files of its credentials. A reload opens, moves, protects or closes it.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

import h11
import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from proxy.error_text import text_of
from proxy.net.files.watched_file import FileReloads
from proxy.net.pages.http_access import HttpAccess, HttpFiles
from proxy.net.pages.readiness import Readiness
from proxy.net.runtime.chunked import iterate_in_slices
from proxy.net.runtime.listening import CannotListen, opening
from proxy.net.runtime.replaceable import ReplaceableTask

READ_BYTES = 16 * 1024

Done = TypeVar("Done")

MAX_CONNECTIONS = 64
"""Prometheus and a kubelet have one connection each."""
_MAX_HEAD_BYTES = _MAX_BODY_BYTES = 8_192
_TIMEOUT_S = 5
_PLAIN = "text/plain; charset=utf-8"
_JSON = "application/json"
_OPENMETRICS = b"application/openmetrics-text"
_EOF = b"# EOF\n"
_ALIVE = ("/livez", "/healthz")
_READY = "/readyz"
_METRICS = "/metrics"
_DISCONNECT = b"/disconnect"

MAX_SAMPLES = 250
"""Of one slice; they take about three milliseconds."""

log = structlog.get_logger(__name__)


class PlainStream:
    """An unencrypted connection."""

    has_client_certificate = False

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Return some bytes; none at the end."""
        return await self._reader.read(READ_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def finish(self) -> None:
        """Do nothing: there is no end to write."""


class TlsStream:
    """A TLS connection with the current certificate; begins with `handshake`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    @property
    def has_client_certificate(self) -> bool:
        """Whether the client has a certificate. The handshake has verified it."""
        return bool(self._tls.getpeercert(binary_form=True))

    async def handshake(self, turns: asyncio.Lock) -> None:
        """ssl.SSLError when the handshake fails. `turns`: a lock of the port, shared by its connections.

        A step takes a millisecond or more; with the lock there is one in each turn of the loop.
        """
        await self._driven(self._tls.do_handshake, turns)

    async def read(self) -> bytes:
        """Return some bytes; none at the end."""
        try:
            return await self._driven(lambda: self._tls.read(READ_BYTES))
        except ssl.SSLZeroReturnError:
            return b""

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        for at in range(0, len(view), READ_BYTES):
            chunk = view[at : at + READ_BYTES]
            await self._driven(lambda chunk=chunk: self._tls.write(chunk))  # type: ignore[misc]

    async def finish(self) -> None:
        """Write the close_notify alert."""
        # unwrap() would wait for the client's alert; ours is in the buffer.
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        await self._send()

    async def _driven(self, step: Callable[[], Done], turns: asyncio.Lock | None = None) -> Done:
        while True:
            try:
                async with turns or nullcontext():
                    done = step()
            except ssl.SSLWantReadError:
                await self._send()
                data = await self._reader.read(READ_BYTES)
                if not data:
                    raise ConnectionResetError("the connection was closed within TLS") from None
                self._incoming.write(data)
            except ssl.SSLError:
                await self._send()  # The alert with the reason.
                raise
            else:
                await self._send()
                return done

    async def _send(self) -> None:
        if self._outgoing.pending:
            self._writer.write(self._outgoing.read())
            await self._writer.drain()


class BadRequest(ValueError):
    """A page's parameters are invalid; the message says which, and what is valid."""


class _ErrorResponse(Exception):
    """Ends a request with a response other than 200."""

    def __init__(self, status: HTTPStatus, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.body = f"{text}\n".encode()
        self.headers = headers


class HttpServer:
    """Serves HTTP until closed."""

    def __init__(
        self,
        access: HttpAccess | None,
        registry: CollectorRegistry,
        readiness: Callable[[], Readiness],
        pages: Mapping[str, Callable[[], Awaitable[bytes]]] | None = None,
        before: Callable[[str], Awaitable[None]] | None = None,
        queries: Mapping[str, Callable[[str], Awaitable[bytes]]] | None = None,
        disconnect: Callable[[bytes, str], Awaitable[bytes]] | None = None,
    ) -> None:
        """`access`: address and credentials; None: closed. `pages`: JSON by path.

        `before`: awaited with the path of each request, to collect the state of other processes. `queries`:
        JSON by path, of pages that get the query of the URL; they raise BadRequest. `disconnect`: POST of
        JSON, and the administrator who sends it; raises BadRequest.
        """
        self._access = access
        self._registry = registry
        self._readiness = readiness
        self._pages = pages or {}
        self._queries = queries or {}
        self._disconnect = disconnect
        self._before = before
        self._server: asyncio.Server | None = None
        self._open = 0
        self._handshakes = asyncio.Lock()
        # Connections without a complete request, the oldest first.
        self._idle: dict[asyncio.StreamWriter, None] = {}

    async def start(self) -> int:
        """Listen; return the port, which the system chooses if the configured one is 0. CannotListen."""
        assert self._access is not None
        self._server = await self._bound(self._access)
        await self._server.start_serving()
        return int(self._server.sockets[0].getsockname()[1])

    async def reconfigure(self, access: HttpAccess | None) -> None:
        """Apply another access to new connections; None: close. CannotListen leaves everything unchanged."""
        before, old = self._access, self._server
        if access is not None and before is not None and access.address == before.address:
            self._access = access
            return
        if old is not None and access is not None and before is not None and access.port == before.port:
            # The same port at two addresses, one of which may be the wildcard address.
            old.close()
            old = None
        try:
            new = None if access is None else await self._bound(access)
        except CannotListen:
            if old is None and before is not None:
                await self.start()
            raise
        self._access, self._server = access, new
        if new is not None:
            await new.start_serving()
        if old is not None:
            old.close()

    async def _bound(self, access: HttpAccess) -> asyncio.Server:
        # Accepts no connection yet: the old credentials are still in effect.
        with opening(*access.address):
            return await asyncio.start_server(
                self._serve,
                *access.address,
                limit=_MAX_HEAD_BYTES,
                backlog=MAX_CONNECTIONS,
                start_serving=False,
            )

    @property
    def listening(self) -> list[tuple[str, int]]:
        """Host and port of each socket; none while closed."""
        sockets = () if self._server is None else self._server.sockets
        return [(str(host), int(port)) for host, port in (each.getsockname()[:2] for each in sockets)]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        access = self._access  # A reload does not affect this connection.
        if access is None or (self._open >= MAX_CONNECTIONS and not self._abort_oldest()):
            writer.close()
            return
        self._open += 1
        self._idle[writer] = None
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                stream = await self._stream(reader, writer, access)
                await self._converse(stream, writer, access)
                await stream.finish()
        except (TimeoutError, OSError):
            pass  # The client sent no HTTP, or disconnected. Errors of TLS are OSErrors.
        except Exception:  # the task boundary: a fault ends this connection alone
            log.exception("Failed to handle HTTP request")
        finally:
            self._open -= 1
            self._idle.pop(writer, None)
            writer.close()

    async def _stream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, access: HttpAccess
    ) -> PlainStream | TlsStream:
        if access.tls is None:
            return PlainStream(reader, writer)
        stream = TlsStream(reader, writer, access.tls.context)
        try:
            await stream.handshake(self._handshakes)
        except ssl.SSLError as error:
            host = writer.get_extra_info("peername")[0]
            log.warning(
                "TLS handshake at the HTTP port failed", host=host, error=text_of(error), stranger=True
            )
            raise
        return stream

    async def _converse(
        self, stream: PlainStream | TlsStream, writer: asyncio.StreamWriter, access: HttpAccess
    ) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)
        method = b"GET"
        try:
            request = await _request(http, stream)
            if request is None:
                return
            method = request.method
            self._idle.pop(writer, None)
            if request.method == b"POST" and request.target == _DISCONNECT and self._disconnect is not None:
                by = _administrator(request, access, writer)
                content_type, body = _JSON, await self._disconnect(await _body(http, stream), by)
            else:
                content_type, body = await self._found(request, stream, access)
            headers, status = {"Content-Type": content_type}, HTTPStatus.OK
        except h11.RemoteProtocolError as error:
            status, headers, body = HTTPStatus(error.error_status_hint), {}, b"not HTTP/1.1\n"
        except BadRequest as error:
            status, headers = HTTPStatus.BAD_REQUEST, {"Content-Type": _PLAIN}
            body = f"{error}\n".encode()
        except _ErrorResponse as error:
            status, headers, body = error.status, {"Content-Type": _PLAIN} | error.headers, error.body
        except Exception:  # a fault in a collector or a page is logged, and ends nothing else
            log.exception("Failed to handle HTTP request")
            status, headers, body = HTTPStatus.INTERNAL_SERVER_ERROR, {}, b"see the log\n"
        headers |= {"Content-Length": str(len(body)), "Connection": "close"}
        response = h11.Response(
            status_code=status, reason=status.phrase.encode(), headers=list(headers.items())
        )
        data = http.send(response) or b""
        # The response to HEAD has only the length of the body (RFC 9110).
        await stream.write(data if method == b"HEAD" else data + body)

    async def _found(
        self, request: h11.Request, stream: PlainStream | TlsStream, access: HttpAccess
    ) -> tuple[str, bytes]:
        """Return content type and body; _ErrorResponse for every other status than 200."""
        if request.method not in (b"GET", b"HEAD"):
            raise _ErrorResponse(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", Allow="GET, HEAD")
        path, _, query = request.target.decode("latin-1").partition("?")
        if path in _ALIVE:
            return _PLAIN, b"alive\n"
        authorization = dict(request.headers).get(b"authorization", b"")
        allowed = access.allows(authorization, has_certificate=stream.has_client_certificate)
        if not allowed and path != _READY:
            log.warning("HTTP request without a valid credential rejected", path=path[:100], stranger=True)
            raise _ErrorResponse(
                HTTPStatus.UNAUTHORIZED,
                "send http.bearer.token.file as a bearer token, or a client certificate",
                **{"WWW-Authenticate": "Bearer"},
            )
        if self._before is not None:
            await self._before(path)
        if path == _READY:
            return _PLAIN, self._ready(detailed=allowed)
        if path == _METRICS:
            return await metrics_page(self._registry, dict(request.headers).get(b"accept", b""))
        if path in self._pages:
            return _JSON, await self._pages[path]()
        if path in self._queries:
            return _JSON, await self._queries[path](query)
        paths = (_METRICS, _ALIVE[0], _READY, *self._pages, *self._queries)
        raise _ErrorResponse(HTTPStatus.NOT_FOUND, " ".join(paths))

    def _ready(self, *, detailed: bool) -> bytes:
        readiness = self._readiness()
        text = readiness.text(detailed=detailed)
        if readiness.blocked:
            raise _ErrorResponse(HTTPStatus.SERVICE_UNAVAILABLE, text.rstrip("\n"))
        return text.encode()

    def _abort_oldest(self) -> bool:
        """Abort the oldest connection without a complete request; False if there is none."""
        oldest = next(iter(self._idle), None)
        if oldest is None:
            return False
        del self._idle[oldest]
        oldest.transport.abort()
        return True


def _administrator(request: h11.Request, access: HttpAccess, writer: asyncio.StreamWriter) -> str:
    """Return who sends it, and from where; _ErrorResponse unless it is an administrator.

    No credential that a browser sends by itself counts, such as a certificate, and no type of content that a
    page of another site may post.
    """
    headers = dict(request.headers)
    if access.admins is None:
        text = "no one may end connections: set http.admin.tokens.file"
        raise _ErrorResponse(HTTPStatus.FORBIDDEN, text)
    host = writer.get_extra_info("peername")[0]
    name = access.admins.name_in(headers.get(b"authorization", b""))
    if name is None:
        log.warning("HTTP request to end connections without an administrator's token rejected", host=host)
        text = "send a token of http.admin.tokens.file as a bearer token"
        raise _ErrorResponse(HTTPStatus.UNAUTHORIZED, text, **{"WWW-Authenticate": "Bearer"})
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _JSON.encode():
        raise _ErrorResponse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type has to be {_JSON}")
    return f"{name} from {host}"


async def _body(http: h11.Connection, stream: PlainStream | TlsStream) -> bytes:
    """Return the body of the request; _ErrorResponse if it is too large. RemoteProtocolError."""
    body = b""
    while True:
        event = http.next_event()
        if isinstance(event, h11.Data):
            body += event.data
            if len(body) > _MAX_BODY_BYTES:
                raise _ErrorResponse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {_MAX_BODY_BYTES} bytes")
        elif event is h11.NEED_DATA:
            http.receive_data(await stream.read())
        else:
            return body


async def _request(http: h11.Connection, stream: PlainStream | TlsStream) -> h11.Request | None:
    """Return the head of the request; None if the client disconnected before. RemoteProtocolError."""
    while True:
        event = http.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            return None
        data = await stream.read()
        if not data:
            return None
        http.receive_data(data)


async def collected(registry: Collector) -> AsyncIterator[Metric]:
    """Yield the metrics, large ones in parts; the loop gets a turn between them."""
    async for metric in iterate_in_slices(_parts(registry.collect())):
        yield metric


async def metrics_page(registry: Collector, accept: bytes) -> tuple[str, bytes]:
    """Return content type and text: OpenMetrics, with exemplars, if the Accept header names it."""
    if any(each.split(b";")[0].strip() == _OPENMETRICS for each in accept.split(b",")):
        text = await exposition(registry, _openmetrics)
        return openmetrics.CONTENT_TYPE_LATEST, text + _EOF
    return CONTENT_TYPE_LATEST, await exposition(registry)


def _openmetrics(registry: Collector) -> bytes:
    text: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
    return text[: -len(_EOF)]


async def exposition(registry: Collector, generate: Callable[[Collector], bytes] = generate_latest) -> bytes:
    """Return the text that `generate` would return, built in slices."""
    text: list[bytes] = []
    before = ""
    async for metric in collected(registry):
        lines = generate(_One(metric))
        # HELP and TYPE appear once for each metric.
        text.append(lines if metric.name != before else lines.split(b"\n", 2)[2])
        before = metric.name
    return b"".join(text)


class _One(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


def _parts(metrics: Iterable[Metric]) -> Iterator[Metric]:
    for metric in metrics:
        if len(metric.samples) <= MAX_SAMPLES:
            yield metric
            continue
        for at in range(0, len(metric.samples), MAX_SAMPLES):
            part = Metric(metric.name, metric.documentation, metric.type)
            part.samples = metric.samples[at : at + MAX_SAMPLES]
            yield part


@dataclass(frozen=True, slots=True)
class PreparedAccess:
    """A new access whose files are read, before it takes effect."""

    access: HttpAccess | None
    files: HttpFiles


class HttpPort:
    """The HTTP port; `run` belongs in the process's TaskGroup."""

    def __init__(
        self,
        access: HttpAccess | None,
        server: Callable[[HttpAccess | None], HttpServer],
        reloads: FileReloads,
    ) -> None:
        """`access`: None for no port. TlsError or TokenFileError name a file that cannot be used."""
        self._reloads = reloads
        self._server = server(access)
        self._is_configured = access is not None
        self._files = HttpFiles(access, reloads)
        self._watching = ReplaceableTask(self._files.run)

    @property
    def expiries(self) -> dict[Path, float]:
        """By file of its certificates, in seconds since the epoch."""
        return self._files.expiries

    async def open(self) -> None:
        """Listen, if a port is configured. CannotListen."""
        if self._is_configured:
            await self._server.start()

    @property
    def listening(self) -> list[tuple[str, int]]:
        """Host and port of each socket; none while closed."""
        return self._server.listening

    async def run(self) -> None:
        """Watch the files until cancelled."""
        await self._watching.run()

    def prepare(self, access: HttpAccess | None) -> PreparedAccess:
        """Read the files of a new access; blocks. TlsError or TokenFileError name a bad file."""
        return PreparedAccess(access, HttpFiles(access, self._reloads))

    async def reconfigure(self, prepared: PreparedAccess) -> None:
        """Apply it to new connections. CannotListen leaves everything unchanged."""
        await self._server.reconfigure(prepared.access)
        self._files = prepared.files
        self._watching.replace(prepared.files.run)

    async def close(self) -> None:
        """Stop listening."""
        await self._server.close()
