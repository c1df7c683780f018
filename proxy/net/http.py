"""/metrics, /healthz, /readyz and pages of JSON over HTTP/1.1, for Prometheus, the kubelet and operators.

Run by the process beside its listeners. What is measured and when the process is ready is handed in.
Only GET, only small requests, one answer per connection: nobody else is meant to talk to it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from proxy.net.exposition import exposition
from proxy.net.listening import opening

MAX_CONNECTIONS = 64
"""At a time; Prometheus and a kubelet have one each."""
_MAX_HEAD_BYTES = 8_192
_TIMEOUT_S = 5
_PLAIN = "text/plain; charset=utf-8"
_JSON = "application/json"

log = structlog.get_logger(__name__)


class HttpServer:
    """Serves until closed."""

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        not_ready: Callable[[], str | None],
        pages: Mapping[str, Callable[[], Awaitable[bytes]]] | None = None,
        before: Callable[[str], Awaitable[None]] | None = None,
        ready: Callable[[], str] = lambda: "ready",
    ) -> None:
        """`not_ready`: why traffic should not come yet, None when it may; `pages`: JSON by its path.

        `before`: awaited with the path of each request, for who has to ask others first. `ready`: what
        /readyz says when there is nothing against traffic.
        """
        self._ready = ready
        self._before = before
        self._pages = pages or {}
        self._host = host
        self._port = port
        self._registry = registry
        self._not_ready = not_ready
        self._server: asyncio.Server | None = None
        self._open = 0
        # Those whose request is not there yet, the oldest first.
        self._idle: dict[asyncio.StreamWriter, None] = {}

    async def start(self) -> int:
        """Listen; gives back the port, which differs from the one asked for when that was 0.

        CannotListen.
        """
        with opening(self._host, self._port):
            self._server = await asyncio.start_server(
                self._serve, self._host, self._port, limit=_MAX_HEAD_BYTES, backlog=MAX_CONNECTIONS
            )
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= MAX_CONNECTIONS and not self._give_way():
            writer.close()
            return
        self._open += 1
        self._idle[writer] = None
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                self._idle.pop(writer, None)
                method, path, *_ = head.split(b" ", 2)
                wanted = path.decode("latin-1").partition("?")[0]
                if self._before is not None:
                    await self._before(wanted)
                writer.write(await self._answer(method.decode("latin-1"), wanted))
                await writer.drain()
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # Whoever it was did not speak HTTP, or left.
        except Exception:  # the task boundary: a fault in a collector is told, and ends nothing else
            log.exception("fault while answering over HTTP")
            writer.write(_response("500 Internal Server Error", _PLAIN, b"see the log\n"))
        finally:
            self._open -= 1
            self._idle.pop(writer, None)
            writer.close()

    def _give_way(self) -> bool:
        """Close the oldest connection whose request has not come; False: there is none."""
        oldest = next(iter(self._idle), None)
        if oldest is None:
            return False
        del self._idle[oldest]
        oldest.transport.abort()
        return True

    async def _answer(self, method: str, path: str) -> bytes:
        if method != "GET":
            return _response("405 Method Not Allowed", _PLAIN, b"only GET\n")
        if path == "/metrics":
            return _response("200 OK", CONTENT_TYPE_LATEST, await exposition(self._registry))
        if path == "/healthz":
            return _response("200 OK", _PLAIN, b"ok\n")
        if path == "/readyz":
            reason = self._not_ready()
            if reason is None:
                return _response("200 OK", _PLAIN, f"{self._ready()}\n".encode())
            return _response("503 Service Unavailable", _PLAIN, f"{reason}\n".encode())
        if path in self._pages:
            return _response("200 OK", _JSON, await self._pages[path]())
        known = " ".join(("/metrics", "/healthz", "/readyz", *self._pages))
        return _response("404 Not Found", _PLAIN, f"{known}\n".encode())


def _response(status: str, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + body
