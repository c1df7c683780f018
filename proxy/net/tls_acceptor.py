"""A listening socket under TLS: each handshake is a task of its own, and one that fails is told.

Used by proxy.net.listener. The loop's own TLS server drops what fails in a handshake without a word, and who
is turned away for a certificate is what an operator has to be able to prove.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable

import structlog

from proxy.net.admission import Slot
from proxy.net.tls import ServerTls

HANDSHAKE_TIMEOUT_S = 30.0
ACCEPT_PAUSE_S = 0.1
"""After an accept that failed: with no descriptor left, another try at once would fail as well."""

log = structlog.get_logger(__name__)


class TlsAcceptor:
    """Connections count from the beginning of their handshake."""

    def __init__(
        self,
        tls: ServerTls,
        connection: Callable[[Slot], asyncio.BaseProtocol],
        failed: Callable[[str, str], None],
        enter: Callable[[str, Callable[[], None]], Slot | None],
        tasks: asyncio.TaskGroup,
    ) -> None:
        """`failed` gets a client's address and what was wrong, for a handshake that was refused.

        `enter` gets the address and what closes the connection, which it calls where it gives no place.
        """
        self._tls = tls
        self._connection = connection
        self._failed = failed
        self._enter = enter
        self._tasks = tasks
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
        """Accept no more; handshakes that have begun go on."""
        if self._accepting is not None and self._socket is not None:
            self._accepting.cancel()
            self._socket.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, address = await loop.sock_accept(listening)
            except OSError as error:
                log.error("connection not accepted", error=str(error))
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            slot = self._enter(address[0], client.close)
            if slot is not None:
                self._tasks.create_task(self._shake_hands(client, address[0], slot))

    async def _shake_hands(self, client: socket.socket, host: str, slot: Slot) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._connection(slot),
                client,
                ssl=self._tls.context,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            )
        except ssl.SSLError as error:
            self._failed(host, _told(error))
        except OSError as error:
            # Gone before it was done, or silent: whoever checks that a port is open does no more than that.
            log.debug("handshake not finished", host=host, error=str(error))
        finally:
            if not slot.kept:
                slot.leave()


def _told(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"client certificate: {error.verify_message}"
    return f"TLS handshake: {error.reason or error}"
