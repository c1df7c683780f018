"""The controller's listener: accepts proxies, reads frames, writes responses, drains.

`run` belongs in the process's TaskGroup, and has a task for each connection. forwarding.net.connection
interprets the frames. A connection is served one request at a time, as Kafka does.
"""

import asyncio
import ssl
from dataclasses import dataclass
from itertools import count

import structlog

from forwarding.net.connection import ControllerConnection, ListenerContext, UnknownPrincipal
from forwarding.net.metrics import ControllerMetrics
from proxy.net.clients.acceptor import HANDSHAKE_TIMEOUT_S
from proxy.net.clients.pending_logins import LOGIN_TIMEOUT
from proxy.net.files.tls import HANDSHAKE_FAILED, reason_of_failure
from proxy.net.logins.unfinished_logins import IncompleteLogins
from proxy.net.logins.verification import NotChecked
from proxy.net.runtime.keepalive import set_keepalive_of
from proxy.net.runtime.listening import opening
from proxy.security.authorizer import host_address
from proxy.wire.protocols import in_place_of_a_request

LENGTH_BYTES = 4
DRAIN_POLL_S = 0.05
"""How often a drain checks whether it is to end at once."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits on each peer and on all of them."""

    max_frame_bytes: int = 100 * 1024 * 1024
    max_unauthenticated_frame_bytes: int = 512 * 1024
    max_connections: int = 1_000
    idle_ms: int = 600_000
    login_timeout_ms: int = 30_000
    failed_authentication_delay_ms: int = 100
    drain_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class _Rejected:
    """A frame that is not read, for its length; `reason` to close the connection."""

    reason: str


class Server:
    """One listening socket and its connections."""

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        context: ListenerContext,
        limits: ServerLimits,
        metrics: ControllerMetrics,
    ) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._context = context
        self.limits = limits
        self._metrics = metrics
        self._numbers = count()
        self._draining = asyncio.Event()
        self._at_once = asyncio.Event()
        self._idle: set[asyncio.StreamWriter] = set()
        self._incomplete = IncompleteLogins(context.listener, context.record, context.now_ms)
        self._tasks: set[asyncio.Task[None]] = set()
        self.listening = asyncio.Event()
        self.port = port
        """The port in use, once listening; it differs from the requested one if that was 0."""

    async def run(self) -> None:
        """Serve until `drain`, then finish the requests in progress. CannotListen, in an exception group."""
        async with asyncio.TaskGroup() as connections:
            # In the context of this task, which is also that of the handshakes.
            HANDSHAKE_FAILED.set(_handshake_failed)
            with opening(self._host, self._port):
                server = await asyncio.start_server(
                    lambda reader, writer: self._accept(connections, reader, writer),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_TIMEOUT_S,
                )
            self.port = server.sockets[0].getsockname()[1]
            log.info("controller is listening", host=self._host, port=self.port)
            self.listening.set()
            await self._draining.wait()
            server.close()
            await self._drain()
        self._incomplete.flush()

    def drain(self) -> None:
        """Accept no more connections, close idle ones, let the others finish their request."""
        self._draining.set()

    def end_at_once(self) -> None:
        """Drain without waiting for requests in progress."""
        self._at_once.set()
        self._draining.set()

    async def _drain(self) -> None:
        began_ms, connections = self._context.now_ms(), len(self._tasks)
        log.info("draining", connections=connections)
        # An idle proxy has no request in progress; closing makes it connect to another controller.
        for writer in self._idle:
            writer.close()
        ends_ms = began_ms + self.limits.drain_ms
        while self._tasks and not self._at_once.is_set() and self._context.now_ms() < ends_ms:
            await asyncio.wait(self._tasks, timeout=DRAIN_POLL_S)
        late = list(self._tasks)
        for task in late:
            task.cancel()
        duration_ms = self._context.now_ms() - began_ms
        log.info("drained", connections=connections - len(late), cut=len(late), duration_ms=duration_ms)

    def _accept(
        self,
        connections: asyncio.TaskGroup,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        if len(self._tasks) >= self.limits.max_connections or self._draining.is_set():
            self._metrics.connections_closed.labels("too many connections").inc()
            writer.close()
            return
        set_keepalive_of(writer.transport)
        task = connections.create_task(self._guarded(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The boundary of a connection's task: an error ends this connection only."""
        self._metrics.connections.inc()
        reason = "error"
        try:
            reason = await self._serve(reader, writer)
        except TimeoutError:
            reason = "idle"
        except (OSError, asyncio.IncompleteReadError):
            reason = "closed by peer"
        except Exception:
            log.exception("connection ended by an error")
        finally:
            self._metrics.connections.dec()
            self._metrics.connections_closed.labels(reason).inc()
            self._idle.discard(writer)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        address = writer.get_extra_info("peername")
        number = next(self._numbers)
        tls = writer.get_extra_info("ssl_object")
        certificate = None if tls is None else tls.getpeercert(binary_form=True)
        connection_id = f"{self._context.listener}-{number}"
        try:
            host = host_address(address[0])
            connection = ControllerConnection(
                connection_id, host, self._context, certificate, lambda: not _has_left(reader, writer)
            )
        except UnknownPrincipal as error:
            log.warning("connection refused", host=address[0], error=str(error), stranger=True)
            return "authentication failed"
        try:
            return await self._conversation(reader, writer, connection)
        except NotChecked as error:
            self._incomplete.add(host, error.reason)
            return error.reason
        except TimeoutError:
            if connection.known:
                raise
            self._incomplete.add(host, LOGIN_TIMEOUT)
            return LOGIN_TIMEOUT

    async def _conversation(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: ControllerConnection
    ) -> str:
        """Serve requests one by one; return the reason to close the connection."""
        loop = asyncio.get_running_loop()
        login_ends_s = loop.time() + self.limits.login_timeout_ms / 1000
        while not self._draining.is_set():
            frame = await self._read(reader, writer, connection, login_ends_s)
            if isinstance(frame, _Rejected):
                return frame.reason
            received_s = loop.time()
            reply = await connection.receive(frame)
            login_ends_s += loop.time() - received_s  # The controller's own time does not count.
            if reply.close == "authentication failed":
                # The delay is deliberate, as in Kafka: it slows down guessing passwords.
                await asyncio.sleep(self.limits.failed_authentication_delay_ms / 1000)
            await _send(writer, reply.data)
            if reply.close is not None:
                host = host_address(writer.get_extra_info("peername")[0])
                log.info("connection closed", host=host, reason=reply.close, stranger=not connection.known)
                return reply.close
        return "drained"

    async def _read(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        connection: ControllerConnection,
        login_ends_s: float,
    ) -> bytes | _Rejected:
        limits = self.limits
        ends_s = asyncio.get_running_loop().time() + limits.idle_ms / 1000
        if not connection.known and limits.login_timeout_ms:
            ends_s = login_ends_s
        self._idle.add(writer)
        async with asyncio.timeout_at(ends_s):
            length = await reader.readexactly(LENGTH_BYTES)
            size = int.from_bytes(length, "big", signed=True)
            known = connection.authenticated
            limit = limits.max_frame_bytes if known else limits.max_unauthenticated_frame_bytes
            # Checked before the body arrives: an unauthenticated peer may fill one small buffer only.
            if not 0 <= size <= limit:
                other = in_place_of_a_request(length)
                host = host_address(writer.get_extra_info("peername")[0])
                fault = {"size_bytes": size, "limit_bytes": limit} if other is None else {"error": other}
                log.warning("frame rejected", host=host, **fault, stranger=not known)
                return _Rejected("frame too large" if other is None else "wrong protocol")
            frame = await reader.readexactly(size)
        self._idle.discard(writer)
        return frame


def _handshake_failed(error: ssl.SSLError) -> None:
    # The event loop does not pass on the address.
    log.warning("TLS handshake failed", error=reason_of_failure(error), stranger=True)


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write a response; ConnectionError if the peer disconnected meanwhile."""
    if writer.transport.is_closing():
        # uvloop's transports raise RuntimeError when they are written to after closing.
        raise ConnectionResetError("closed by peer")
    writer.write(data)
    await writer.drain()


def _has_left(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    return writer.is_closing() or reader.at_eof()
