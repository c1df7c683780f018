"""A listening socket whose connections are accepted here, one after the other, and not by the loop.

Used by proxy.net.listener where a connection has to wait before it is treated (max.connection.creation.rate),
or is shaken hands with in a task of ours (proxy.net.tls_acceptor).
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import structlog

ACCEPT_PAUSE_S = 0.1
"""After an accept that failed: with no descriptor left, another try at once would fail as well."""

Pace = Callable[[], Awaitable[None]]
"""Waits until the connection that has just come may be treated."""

log = structlog.get_logger(__name__)


class Acceptor:
    """Accepts, waits its time, and hands over."""

    def __init__(self, tasks: asyncio.TaskGroup, pace: Pace | None) -> None:
        self._tasks = tasks
        self._pace = pace
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    def listen(self, host: str, port: int, backlog: int, *, reuse_port: bool = False) -> int:
        """Begin; gives back the port. OSError when the address cannot be had.

        `reuse_port`: other processes of ours accept there too.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server(
            (host, port), family=family, backlog=backlog, reuse_port=reuse_port
        )
        self._socket.setblocking(False)
        self._accepting = self._tasks.create_task(self._accept(self._socket))
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Accept no more; what was handed over goes on."""
        if self._accepting is not None and self._socket is not None:
            self._accepting.cancel()
            self._socket.close()

    def hand_over(self, client: socket.socket, host: str) -> None:
        """Treat a connection from this address."""
        raise NotImplementedError

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, address = await loop.sock_accept(listening)
            except OSError as error:
                log.error("connection not accepted", error=str(error))
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            if self._pace is not None:
                await self._waited(client, self._pace)
            self.hand_over(client, address[0])

    async def _waited(self, client: socket.socket, pace: Pace) -> None:
        try:
            await pace()
        except asyncio.CancelledError:
            client.close()
            raise


class PlainAcceptor(Acceptor):
    """Without TLS."""

    def __init__(
        self, connection: Callable[[], asyncio.BaseProtocol], tasks: asyncio.TaskGroup, pace: Pace | None
    ) -> None:
        super().__init__(tasks, pace)
        self._connection = connection

    def hand_over(self, client: socket.socket, host: str) -> None:
        self._tasks.create_task(self._begin(client, host))

    async def _begin(self, client: socket.socket, host: str) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._connection, client)
        except OSError as error:
            log.debug("connection not begun", host=host, error=str(error))
            client.close()
