"""Listening sockets, plain or under TLS. Connections are accepted here, not by the event loop's server.

The loop's own server closes connections silently when no descriptors are left, accepts any number at a time,
and cannot delay one (max.connection.creation.rate). Its TLS server drops failed handshakes silently, but an
operator must see which client failed with which certificate: here each handshake is a task, and failures are
reported. A handshake costs about a millisecond, so addresses take turns, and a handshake starts when the
ClientHello is complete. Until then a slow client costs a socket, but no SSL object and no wake-up for each
byte: the kernel reports the socket when the record is there (SO_RCVLOWAT). Used by
proxy.net.clients.listener.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Protocol

import structlog

from proxy.error_text import text_of
from proxy.net.clients.proxy_protocol import ProxyProtocolError, header_in_time, is_in, readable
from proxy.net.clients.turns import Turns
from proxy.net.files.tls import HANDSHAKE_FAILED, ServerTls, reason_of_failure
from proxy.net.runtime import garbage_collector
from proxy.net.runtime.keepalive import SYSTEM, Keepalive, set_keepalive
from proxy.quota.connections import Slot
from proxy.session.gate import Networks
from proxy.wire.protocols import in_place_of_tls

BACKLOG = 4_096
"""Connections that wait to be accepted."""
ACCEPT_PAUSE_S = 0.1
"""Pause after a failed accept: without a descriptor, the next one would fail too."""
ACCEPTED_IN_A_TURN = 32
"""More at a time would hold the loop."""
NO_RESOURCES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
"""Errors of this process. Other errors belong to the incoming connection, which is lost."""

Pace = Callable[[], Awaitable[None]]
"""Waits until the accepted connection may be handled."""

_MECHANISM = "PROXY"
"""Of records about headers, as SSL is of handshakes."""
_HEAD_BYTES = 5
_HANDSHAKE = 22
_MAX_RECORD_BYTES = (1 << 14) + 256
HANDSHAKE_TIMEOUT_S = 30.0
HELLO_S = 0.1
"""Time for a client that has sent nothing yet when its listener closes."""
LAST_HANDSHAKES_S = 1.0
"""Time for handshakes that have begun then."""
MAX_WITHOUT_HEADER = 1_000
"""Connections of load balancers that have not sent their headers yet. Balancers send them at once."""
ALERT_S = 1.0
"""Time for a client whose handshake has failed to read the alert and to close the connection."""

log = structlog.get_logger(__name__)


def peer_address(address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    """Return the address of a socket's other end, a link-local one with its zone as Java writes it.

    Java and Kafka name the number of the interface and not its name: `fe80::1%2`. Python keeps it apart.
    """
    return f"{address[0]}%{address[3]}" if len(address) == 4 and address[3] else address[0]


_Tasks = dict[asyncio.Task[None], None]
"""A set in order: the oldest first."""


class AcceptorHost(Protocol):
    """The listener, for which connections are accepted."""

    tasks: asyncio.TaskGroup
    turns: Turns
    balancers: Networks
    """Of load balancers: each connection comes from one and begins with a PROXY protocol header. Empty: none
    does."""

    keepalive: Keepalive
    """When the kernel probes clients that are idle."""

    def enter(self, host: str, close: Callable[[], None]) -> Slot | None:
        """Return a slot for a connection from this address; None: it is rejected, and `close` is called."""

    def new_connection(self, slot: Slot) -> asyncio.BaseProtocol:
        """Return the protocol of an accepted connection."""

    def accept_failed(self, error: str) -> None:
        """Report the name of an error of this process."""

    def handshake_failed(self, host: str, reason: str, mechanism: str = "SSL") -> None:
        """Report a rejected handshake, or PROXY protocol header."""


class Acceptor:
    """Accepts connections at their pace, and begins each of them in a task."""

    def __init__(self, host: AcceptorHost, pace: Pace | None = None) -> None:
        self._host = host
        self.pace = pace
        """Of the next connections."""
        self._socket: socket.socket | None = None
        self._pause: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self._beginning: _Tasks = {}
        self._without_header: _Tasks = {}

    @property
    def listening(self) -> socket.socket | None:
        """The socket at which connections are accepted; None after its end."""
        return self._socket

    def listen(self, listening: socket.socket) -> int:
        """Accept connections at this socket; return its port."""
        self._socket = listening
        set_keepalive(listening)  # Accepted sockets inherit it.
        self._resume()
        return int(listening.getsockname()[1])

    def hand_over(self) -> socket.socket | None:
        """Stop accepting and return the socket, still open, for another acceptor; None if there is none."""
        listening, self._socket = self._socket, None
        if listening is not None:
            asyncio.get_running_loop().remove_reader(listening)
        return listening

    @property
    def is_beginning(self) -> bool:
        """Whether an accepted connection has not been made yet."""
        return bool(self._beginning or self._without_header)

    def close(self) -> None:
        """Stop accepting. Accepted connections are still made."""
        listening, self._socket = self._socket, None
        if listening is not None:
            if self.pace is None:
                self._accept(listening)  # The kernel resets the connections that are left in its queue.
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        if self._pause is not None:
            self._pause.cancel()
        asyncio.get_running_loop().call_later(HELLO_S, _cancel, self._without_header)

    def cancel(self) -> None:
        """Drop accepted connections that have not been made yet.

        Not one that is made without a handshake: uvloop would close it and never call connection_lost.
        """
        _cancel(self._without_header)

    async def begin(self, client: socket.socket, host: str, slot: Slot) -> None:
        """Make a connection on the socket; an exception ends that connection."""
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: self._host.new_connection(slot), client
        )

    def _resume(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._accept, self._socket)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_IN_A_TURN):
            try:
                client, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in NO_RESOURCES:
                    self._wait(listening, errno.errorcode[error.errno])
                    return
                continue
            if self.pace is not None:
                asyncio.get_running_loop().remove_reader(listening)
                self._pause = self._host.tasks.create_task(
                    self._paced(client, peer_address(address), self.pace)
                )
                return
            self._handle(client, peer_address(address))

    def _wait(self, listening: socket.socket, error: str) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        self._host.accept_failed(error)
        self._pause = loop.call_later(ACCEPT_PAUSE_S, self._resume)

    async def _paced(self, client: socket.socket, host: str, pace: Pace) -> None:
        try:
            await pace()
        except asyncio.CancelledError:
            client.close()
            raise
        self._handle(client, host)
        self._resume()

    def _handle(self, client: socket.socket, host: str) -> None:
        client.setblocking(False)
        balancers = self._host.balancers
        if not balancers:
            self._enter(client, host, None)
        elif not is_in(host, balancers):
            client.close()
            self._host.handshake_failed(host, "the address is not in proxy.protocol.networks", _MECHANISM)
        else:
            if len(self._without_header) >= MAX_WITHOUT_HEADER:
                # The oldest has been silent for longest. The newest may have sent its header already.
                oldest = next(iter(self._without_header))
                del self._without_header[oldest]
                oldest.cancel(f"no PROXY protocol header before {MAX_WITHOUT_HEADER} more connections came")
            self._track(self._without_header, self._read_header(client, host))

    async def _read_header(self, client: socket.socket, balancer: str) -> None:
        header = None
        try:
            header = await header_in_time(client)
        except ProxyProtocolError as error:
            self._host.handshake_failed(balancer, str(error), _MECHANISM)
        except asyncio.CancelledError as cancelled:
            if cancelled.args:
                self._host.handshake_failed(balancer, cancelled.args[0], _MECHANISM)
            raise
        except OSError:
            pass  # The connection was reset.
        finally:
            if header is None:
                client.close()
        if header is not None:
            self._enter(client, header.host or balancer, None if header.host is None else balancer)

    def _enter(self, client: socket.socket, host: str, balancer: str | None) -> None:
        slot = self._host.enter(host, client.close)
        if slot is not None:
            garbage_collector.count_accepted()
            slot.balancer = balancer
            if self._host.keepalive != SYSTEM:
                set_keepalive(client, self._host.keepalive)
            self._track(self._beginning, self._begin(client, host, slot))

    def _track(self, tasks: _Tasks, work: Coroutine[None, None, None]) -> None:
        task = self._host.tasks.create_task(work)
        tasks[task] = None
        task.add_done_callback(lambda done: tasks.pop(done, None))

    async def _begin(self, client: socket.socket, host: str, slot: Slot) -> None:
        try:
            await self.begin(client, host, slot)
        except OSError as error:
            # The client has disconnected, or is silent, like a check that the port is open.
            log.debug("Connection closed before it was established", host=host, error=text_of(error))
        finally:
            if not slot.has_session:
                slot.leave()
                client.close()


async def hello_arrived(client: socket.socket) -> bytes:
    """Wait until the record is complete, or cannot be complete any more; return its head. OSError."""
    await readable(client, _HEAD_BYTES)
    head = client.recv(_HEAD_BYTES, socket.MSG_PEEK)
    if len(head) == _HEAD_BYTES and head[0] == _HANDSHAKE:
        size_bytes = int.from_bytes(head[3:], "big")
        await readable(client, _HEAD_BYTES + min(size_bytes, _MAX_RECORD_BYTES))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    return head


class TlsAcceptor(Acceptor):
    """Accepts connections under TLS. They count from the beginning of their handshake."""

    def __init__(self, host: AcceptorHost, pace: Pace | None, tls: ServerTls) -> None:
        super().__init__(host, pace)
        self._tls = tls
        self._silent: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Stop accepting. Handshakes that have begun get a moment to end, so that their clients learn nothing
        worse than the end of a connection. A silent client must not delay the end of the process."""
        super().close()
        loop = asyncio.get_running_loop()
        loop.call_later(HELLO_S, _cancel, self._silent)
        loop.call_later(LAST_HANDSHAKES_S, _cancel, self._beginning)

    def cancel(self) -> None:
        super().cancel()
        _cancel(self._beginning)

    async def begin(self, client: socket.socket, host: str, slot: Slot) -> None:
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + HANDSHAKE_TIMEOUT_S
        async with asyncio.timeout_at(ends_s):
            head = await self._hello_arrived(client)
            await self._host.turns.next(host)
        async with asyncio.timeout(None) as alert:

            def failed(error: ssl.SSLError) -> None:
                self._host.handshake_failed(host, in_place_of_tls(head) or reason_of_failure(error))
                alert.reschedule(loop.time() + ALERT_S)

            in_context = HANDSHAKE_FAILED.set(failed)
            try:
                await loop.connect_accepted_socket(
                    lambda: self._host.new_connection(slot),
                    client,
                    ssl=self._tls.context,
                    ssl_handshake_timeout=max(1.0, ends_s - loop.time()),
                )
            finally:
                # Or the task has a cycle: its context, this function, `alert`, the task.
                HANDSHAKE_FAILED.reset(in_context)

    async def _hello_arrived(self, client: socket.socket) -> bytes:
        task = asyncio.current_task()
        assert task is not None
        self._silent.add(task)
        try:
            return await hello_arrived(client)
        finally:
            self._silent.discard(task)


def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
