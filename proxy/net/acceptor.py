"""A listening socket whose connections are accepted here, one after the other, and not by the loop.

Used by proxy.net.listener. The loop's own server closes connections without a word when there are no
descriptors left, takes any number at once, and cannot let one wait (max.connection.creation.rate).
"""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable

import structlog

from proxy.net.listening import opening
from proxy.net.slot import Slot

ACCEPT_PAUSE_S = 0.1
"""After an accept that failed: with no descriptor left, another try at once would fail as well."""
ACCEPTED_IN_A_TURN = 32
"""More at once would hold the loop."""
NO_RESOURCES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
"""Errors of ours. Others are those of the connection that would have been accepted: that is over."""

Pace = Callable[[], Awaitable[None]]
"""Waits until the connection that has just come may be treated."""

log = structlog.get_logger(__name__)


def listening_socket(host: str, port: int, backlog: int, *, reuse_port: bool = False) -> socket.socket:
    """CannotListen when the address cannot be had. `reuse_port`: other processes of ours accept there too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with opening(host, port):
        listening = socket.create_server((host, port), family=family, backlog=backlog, reuse_port=reuse_port)
    listening.setblocking(False)
    return listening


class Acceptor:
    """Accepts, waits its time, and begins each connection in a task."""

    has_handshakes = False
    """Whether `begin` may take long. If not, it must not be cancelled: uvloop would close a connection that
    has just been made, and never say that it is lost."""

    def __init__(
        self,
        connection: Callable[[Slot], asyncio.BaseProtocol],
        enter: Callable[[str, Callable[[], None]], Slot | None],
        accept_failed: Callable[[str], None],
        tasks: asyncio.TaskGroup,
        pace: Pace | None = None,
    ) -> None:
        """`enter` gets the address and what closes the connection, which it calls where it gives no place.

        `accept_failed` gets the name of the error.
        """
        self._connection = connection
        self._enter = enter
        self._accept_failed = accept_failed
        self._tasks = tasks
        self._pace = pace
        self._socket: socket.socket | None = None
        self._pause: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self._beginning: set[asyncio.Task[None]] = set()

    def listen(self, listening: socket.socket) -> int:
        """Accept at this socket; returns its port."""
        self._socket = listening
        self._resume()
        return int(listening.getsockname()[1])

    def hand_over(self) -> socket.socket | None:
        """Accept no more, but leave the socket open for another acceptor; None when there is none."""
        listening, self._socket = self._socket, None
        if listening is not None:
            asyncio.get_running_loop().remove_reader(listening)
        return listening

    def wait_with(self, pace: Pace | None) -> None:
        """Another pace, from the next connection on."""
        self._pace = pace

    def close(self) -> None:
        """Accept no more. Connections that have begun go on; handshakes that are unfinished end.

        They would keep the process from its end for as long as a client is silent.
        """
        listening, self._socket = self._socket, None
        if listening is not None:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        if self._pause is not None:
            self._pause.cancel()
        if self.has_handshakes:
            for task in self._beginning:
                task.cancel()

    async def begin(self, client: socket.socket, host: str, slot: Slot) -> None:
        """Make a connection of the socket; what it raises ends that connection."""
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self._connection(slot), client)

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
            if self._pace is not None:
                asyncio.get_running_loop().remove_reader(listening)
                self._pause = self._tasks.create_task(self._paced(client, address[0], self._pace))
                return
            self._treat(client, address[0])

    def _wait(self, listening: socket.socket, error: str) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        self._accept_failed(error)
        self._pause = loop.call_later(ACCEPT_PAUSE_S, self._resume)

    async def _paced(self, client: socket.socket, host: str, pace: Pace) -> None:
        try:
            await pace()
        except asyncio.CancelledError:
            client.close()
            raise
        self._treat(client, host)
        self._resume()

    def _treat(self, client: socket.socket, host: str) -> None:
        slot = self._enter(host, client.close)
        if slot is not None:
            client.setblocking(False)
            task = self._tasks.create_task(self._begin(client, host, slot))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, client: socket.socket, host: str, slot: Slot) -> None:
        try:
            await self.begin(client, host, slot)
        except OSError as error:
            # Gone before it was done, or silent: whoever checks that a port is open does no more than that.
            log.debug("connection not begun", host=host, error=str(error))
        finally:
            if not slot.kept:
                slot.leave()
                client.close()
