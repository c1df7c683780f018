"""/metrics, /livez, /readyz and pages of JSON over HTTP/1.1, for Prometheus, the kubelet and operators.

Run by the process beside its listeners; h11 reads and writes the messages (docs/decisions/0051). What is
measured and whether the process is ready is handed in. Only GET and HEAD, one response per connection. /livez
and /readyz are for everybody, the rest for who has a credential, where one is configured.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from http import HTTPStatus

import h11
import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.net.pages.http_access import HttpAccess
from proxy.net.pages.http_stream import PlainStream, TlsStream
from proxy.net.pages.readiness import Readiness
from proxy.net.runtime.chunked import in_pieces
from proxy.net.runtime.listening import CannotListen, opening

MAX_CONNECTIONS = 64
"""At a time; Prometheus and a kubelet have one each."""
_MAX_HEAD_BYTES = 8_192
_TIMEOUT_S = 5
_PLAIN = "text/plain; charset=utf-8"
_JSON = "application/json"
_ALIVE = ("/livez", "/healthz")
_READY = "/readyz"
_METRICS = "/metrics"

MAX_SAMPLES = 250
"""Of one piece; about three milliseconds' work."""

log = structlog.get_logger(__name__)


class _Answer(Exception):
    """Ends the work on a request with a response other than 200."""

    def __init__(self, status: HTTPStatus, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.body = f"{text}\n".encode()
        self.headers = headers


class HttpServer:
    """Serves until closed."""

    def __init__(
        self,
        access: HttpAccess | None,
        registry: CollectorRegistry,
        readiness: Callable[[], Readiness],
        pages: Mapping[str, Callable[[], Awaitable[bytes]]] | None = None,
        before: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`access`: where, and for whom; None: nowhere yet. `pages`: JSON by its path.

        `before`: awaited with the path of each request, for who asks others.
        """
        self._access = access
        self._registry = registry
        self._readiness = readiness
        self._pages = pages or {}
        self._before = before
        self._server: asyncio.Server | None = None
        self._open = 0
        self._handshakes = asyncio.Lock()
        # Those whose request is not there yet, the oldest first.
        self._idle: dict[asyncio.StreamWriter, None] = {}

    async def start(self) -> int:
        """Listen; gives back the port, which differs from the one asked for when that was 0.

        CannotListen.
        """
        assert self._access is not None
        self._server = await self._bound(self._access)
        await self._server.start_serving()
        return int(self._server.sockets[0].getsockname()[1])

    async def follow(self, access: HttpAccess | None) -> None:
        """The same from the next connection on; None: nowhere. CannotListen leaves all as it was."""
        before, old = self._access, self._server
        if access is not None and before is not None and access.address == before.address:
            self._access = access
            return
        if old is not None and access is not None and before is not None and access.port == before.port:
            # One port at two addresses, of which one may be all of them.
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
        """Nobody is accepted yet: the credentials may still be those of before."""
        with opening(*access.address):
            return await asyncio.start_server(
                self._serve,
                *access.address,
                limit=_MAX_HEAD_BYTES,
                backlog=MAX_CONNECTIONS,
                start_serving=False,
            )

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        access = self._access  # Of this connection to its end, whatever is in effect then.
        if access is None or (self._open >= MAX_CONNECTIONS and not self._give_way()):
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
            pass  # Whoever it was did not speak HTTP, or left. Errors of TLS are OSErrors.
        except Exception:  # the task boundary: a fault ends this connection alone
            log.exception("fault while answering over HTTP")
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
            log.warning("TLS handshake at the HTTP port failed", host=host, error=str(error), stranger=True)
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
            content_type, body = await self._found(request, stream, access)
            headers, status = {"Content-Type": content_type}, HTTPStatus.OK
        except h11.RemoteProtocolError as error:
            status, headers, body = HTTPStatus(error.error_status_hint), {}, b"not HTTP/1.1\n"
        except _Answer as answer:
            status, headers, body = answer.status, {"Content-Type": _PLAIN} | answer.headers, answer.body
        except Exception:  # a fault in a collector or a page is logged, and ends nothing else
            log.exception("fault while answering over HTTP")
            status, headers, body = HTTPStatus.INTERNAL_SERVER_ERROR, {}, b"see the log\n"
        headers |= {"Content-Length": str(len(body)), "Connection": "close"}
        response = h11.Response(
            status_code=status, reason=status.phrase.encode(), headers=list(headers.items())
        )
        data = http.send(response) or b""
        # To HEAD only the length of the body is sent (RFC 9110).
        await stream.write(data if method == b"HEAD" else data + body)

    async def _found(
        self, request: h11.Request, stream: PlainStream | TlsStream, access: HttpAccess
    ) -> tuple[str, bytes]:
        """Content type and body; _Answer for everything that is not a 200."""
        if request.method not in (b"GET", b"HEAD"):
            raise _Answer(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", Allow="GET, HEAD")
        path = request.target.decode("latin-1").partition("?")[0]
        if path in _ALIVE:
            return _PLAIN, b"alive\n"
        authorization = dict(request.headers).get(b"authorization", b"")
        allowed = access.allows(authorization, has_certificate=stream.has_client_certificate)
        if not allowed and path != _READY:
            log.warning("HTTP request without a valid credential rejected", path=path[:100], stranger=True)
            raise _Answer(
                HTTPStatus.UNAUTHORIZED,
                "send http.bearer.token.file as a bearer token, or a client certificate",
                **{"WWW-Authenticate": "Bearer"},
            )
        if self._before is not None:
            await self._before(path)
        if path == _READY:
            return _PLAIN, self._ready(detailed=allowed)
        if path == _METRICS:
            return CONTENT_TYPE_LATEST, await exposition(self._registry)
        if path in self._pages:
            return _JSON, await self._pages[path]()
        raise _Answer(HTTPStatus.NOT_FOUND, " ".join((_METRICS, _ALIVE[0], _READY, *self._pages)))

    def _ready(self, *, detailed: bool) -> bytes:
        readiness = self._readiness()
        text = readiness.text(detailed=detailed)
        if readiness.blocked:
            raise _Answer(HTTPStatus.SERVICE_UNAVAILABLE, text.rstrip("\n"))
        return text.encode()

    def _give_way(self) -> bool:
        """Close the oldest connection whose request has not come; False: there is none."""
        oldest = next(iter(self._idle), None)
        if oldest is None:
            return False
        del self._idle[oldest]
        oldest.transport.abort()
        return True


async def _request(http: h11.Connection, stream: PlainStream | TlsStream) -> h11.Request | None:
    """The head of the request; None when the client has left before. RemoteProtocolError."""
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


async def exposition(registry: Collector) -> bytes:
    """What `generate_latest` would give, in whose format it is."""
    text: list[bytes] = []
    before = ""
    async for metric in in_pieces(_parts(registry.collect())):
        lines = generate_latest(_One(metric))
        # HELP and TYPE stand once.
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
