"""The controller's listener: accepts proxies, reads frames, writes responses, drains.

It accepts and drains as a proxy's listeners do (proxy.net.clients: acceptor, admission, drain). `run` belongs
in the process's TaskGroup, and has a task for each connection. forwarding.net.connection interprets the
frames. A connection is served one request at a time, as Kafka does.
"""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import asdict
from itertools import count

import structlog

from forwarding.config import ControllerConfig
from forwarding.net.connection import ControllerConnection, ListenerContext, UnknownPrincipal
from forwarding.net.metrics import ControllerMetrics
from proxy.config import split_host_port
from proxy.net.clients.acceptor import BACKLOG, Acceptor, TlsAcceptor, peer_address
from proxy.net.clients.admission import Admission
from proxy.net.clients.drain import drain
from proxy.net.clients.pending_logins import LOGIN_TIMEOUT
from proxy.net.clients.turns import Turns
from proxy.net.files.tls import ServerTls
from proxy.net.logins.unfinished_logins import IncompleteLogins
from proxy.net.logins.verification import NotChecked
from proxy.net.runtime.descriptors import RESERVED
from proxy.net.runtime.keepalive import SYSTEM
from proxy.net.runtime.listening import listening_socket
from proxy.quota.connections import ConnectionLimits, ConnectionQuotas, Slot
from proxy.security.authorizer import host_address
from proxy.session.gate import Networks
from proxy.wire.protocols import in_place_of_a_request

LENGTH_BYTES = 4

log = structlog.get_logger(__name__)


class _Closed(Exception):
    """The connection is to be closed, for this reason."""


class _Peer:
    """The connection of one proxy, as a drain sees it."""

    awaits = "responses"
    task: asyncio.Task[None]

    def __init__(self, slot: Slot, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.slot = slot
        self.reader = reader
        self.writer = writer
        self.host = host_address(peer_address(writer.get_extra_info("peername")))
        self.idle = self.draining = False

    def drain(self) -> bool:
        """Close it if it has no request in progress; the proxy connects to another controller."""
        begins, self.draining = not self.draining, True
        if self.idle:
            self.writer.close()
        return begins

    def end_if_unanswered(self, _late: bool) -> bool:
        """False: a request in progress is always finished."""
        return False

    def abort(self, _reason: str) -> None:
        self.task.cancel()


class Server:
    """One listening socket and its connections."""

    tasks: asyncio.TaskGroup
    balancers: Networks = ()
    keepalive = SYSTEM
    """proxy.protocol.networks is for a proxy's listeners."""

    def __init__(
        self,
        config: ControllerConfig,
        files: int,
        tls: ServerTls | None,
        context: ListenerContext,
        metrics: ControllerMetrics,
    ) -> None:
        """`files`: the limit on open file descriptors."""
        self._host, port = split_host_port(config.listener.bind)
        self._context = context
        self._config = config
        self._metrics = metrics
        self._numbers = count()
        self._draining = asyncio.Event()
        self._at_once = asyncio.Event()
        self._incomplete = IncompleteLogins(context.listener, context.record, context.now_ms)
        self._admission = Admission(ConnectionQuotas(_limits(config, files)), lambda: None, metrics)
        self._acceptor = Acceptor(self) if tls is None else TlsAcceptor(self, None, tls)
        self.turns = Turns()
        self.connections: set[_Peer] = set()
        self.listening = asyncio.Event()
        self.port = port
        """The port in use, once listening; it differs from the requested one if that was 0."""

    async def run(self) -> None:
        """Serve until `drain`, then finish the requests in progress. CannotListen, in an exception group."""
        async with asyncio.TaskGroup() as self.tasks:
            self.port = self._acceptor.listen(listening_socket(self._host, self.port, BACKLOG))
            log.info("controller is listening", host=self._host, port=self.port)
            self.listening.set()
            await self._draining.wait()
            log.info("draining", connections=len(self.connections))
            self.stop_accepting()  # At once: proxies know the other controllers.
            log.info(
                "drained", **asdict(await drain([self], self._config.limits.drain_timeout_ms, self._at_once))
            )

    def reconfigure(self, config: ControllerConfig, files: int) -> None:
        """Set other limits."""
        self._config = config
        self._admission.limit(_limits(config, files), None)

    def drain(self) -> None:
        """Accept no more connections, close idle ones, let the others finish their request."""
        self._draining.set()

    def end_at_once(self) -> None:
        """Drain without waiting for requests in progress."""
        self._at_once.set()
        self._draining.set()

    @property
    def is_beginning(self) -> bool:
        return self._acceptor.is_beginning

    def stop_accepting(self) -> None:
        self._acceptor.close()

    def drained(self) -> None:
        self._acceptor.cancel()
        self._incomplete.flush()

    def enter(self, host: str, close: Callable[[], None]) -> Slot | None:
        return self._admission.enter(self._context.listener, host, close)

    def accept_failed(self, error: str) -> None:
        self._admission.accept_failed(self._context.listener, error)

    def handshake_failed(self, host: str, reason: str, mechanism: str = "SSL") -> None:
        log.warning("TLS handshake failed", host=host_address(host), error=reason, stranger=True)

    def new_connection(self, slot: Slot) -> asyncio.BaseProtocol:
        reader = asyncio.StreamReader()
        return asyncio.StreamReaderProtocol(
            reader, lambda _, writer: self._begin(_Peer(slot, reader, writer))
        )

    def _begin(self, peer: _Peer) -> None:
        peer.slot.has_session = True
        self.connections.add(peer)
        peer.task = self.tasks.create_task(self._guarded(peer))

    async def _guarded(self, peer: _Peer) -> None:
        """The boundary of a connection's task: an error ends this connection only."""
        self._metrics.connections.inc()
        reason = "error"
        try:
            reason = await self._serve(peer)
        except TimeoutError:
            reason = "idle"
        except (OSError, asyncio.IncompleteReadError):
            reason = "closed by peer"
        except Exception:
            log.exception("connection ended by an error")
        finally:
            self._metrics.connections.dec()
            self._metrics.connections_closed.labels(reason).inc()
            self.connections.discard(peer)
            peer.slot.leave()
            peer.writer.close()

    async def _serve(self, peer: _Peer) -> str:
        tls = peer.writer.get_extra_info("ssl_object")
        certificate = None if tls is None else tls.getpeercert(binary_form=True)
        connection_id = f"{self._context.listener}-{next(self._numbers)}"
        try:
            connection = ControllerConnection(
                connection_id,
                peer.host,
                self._context,
                certificate,
                lambda: not (peer.writer.is_closing() or peer.reader.at_eof()),
            )
        except UnknownPrincipal as error:
            log.warning("connection refused", host=peer.host, error=str(error), stranger=True)
            return "authentication failed"
        try:
            return await self._conversation(peer, connection)
        except _Closed as closed:
            return str(closed)
        except NotChecked as error:
            self._incomplete.add(peer.host, error.reason)
            return error.reason
        except TimeoutError:
            if connection.known:
                raise
            self._incomplete.add(peer.host, LOGIN_TIMEOUT)
            return LOGIN_TIMEOUT

    async def _conversation(self, peer: _Peer, connection: ControllerConnection) -> str:
        """Serve requests one by one; return the reason to close the connection."""
        loop, writer = asyncio.get_running_loop(), peer.writer
        login_ends_s = loop.time() + self._config.limits.login_timeout_ms / 1000
        while not peer.draining:
            frame = await self._read(peer, connection, login_ends_s)
            received_s = loop.time()
            reply = await connection.receive(frame)
            login_ends_s += loop.time() - received_s  # The controller's own time does not count.
            if reply.close == "authentication failed":
                # The delay is deliberate, as in Kafka: it slows down guessing passwords.
                await asyncio.sleep(self._config.listener.connection_failed_authentication_delay_ms / 1000)
            if writer.transport.is_closing():
                # uvloop's transports raise RuntimeError when they are written to after closing.
                raise ConnectionResetError("closed by peer")
            writer.write(reply.data)
            await writer.drain()
            if reply.close is not None:
                log.info(
                    "connection closed", host=peer.host, reason=reply.close, stranger=not connection.known
                )
                return reply.close
        return "drained"

    async def _read(self, peer: _Peer, connection: ControllerConnection, login_ends_s: float) -> bytes:
        """Return the next frame; _Closed if it is too long."""
        limits = self._config.limits
        ends_s = asyncio.get_running_loop().time() + limits.connections_max_idle_ms / 1000
        if not connection.known and limits.login_timeout_ms:
            ends_s = login_ends_s
        peer.idle = True
        async with asyncio.timeout_at(ends_s):
            length = await peer.reader.readexactly(LENGTH_BYTES)
            size = int.from_bytes(length, "big", signed=True)
            known = connection.authenticated
            limit = limits.decoded_request_max_bytes if known else limits.sasl_server_max_receive_size
            # Checked before the body arrives: an unauthenticated peer may fill one small buffer only.
            if not 0 <= size <= limit:
                other = in_place_of_a_request(length)
                fault = {"size_bytes": size, "limit_bytes": limit} if other is None else {"error": other}
                log.warning("frame rejected", host=peer.host, **fault, stranger=not known)
                raise _Closed("frame too large" if other is None else "wrong protocol")
            frame = await peer.reader.readexactly(size)
        peer.idle = False
        return frame


def _limits(config: ControllerConfig, files: int) -> ConnectionLimits:
    most = config.limits.max_connections, config.listener.max_connections or sys.maxsize
    return ConnectionLimits(min(*most, max(1, files - RESERVED)))
