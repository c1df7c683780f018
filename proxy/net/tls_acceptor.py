"""A listening socket under TLS: each handshake is a task of its own, and one that fails is told.

Used by proxy.net.listener. The loop's own TLS server drops what fails in a handshake without a word, and who
is turned away for a certificate is what an operator has to be able to prove.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable

import structlog

from proxy.net.acceptor import Acceptor, Pace
from proxy.net.admission import Slot
from proxy.net.tls import ServerTls

HANDSHAKE_TIMEOUT_S = 30.0

log = structlog.get_logger(__name__)


class TlsAcceptor(Acceptor):
    """Connections count from the beginning of their handshake."""

    def __init__(
        self,
        tls: ServerTls,
        connection: Callable[[Slot], asyncio.BaseProtocol],
        failed: Callable[[str, str], None],
        enter: Callable[[str, Callable[[], None]], Slot | None],
        tasks: asyncio.TaskGroup,
        pace: Pace | None = None,
    ) -> None:
        """`failed` gets a client's address and what was wrong, for a handshake that was refused.

        `enter` gets the address and what closes the connection, which it calls where it gives no place.
        """
        super().__init__(tasks, pace)
        self._tls = tls
        self._connection = connection
        self._failed = failed
        self._enter = enter

    def hand_over(self, client: socket.socket, host: str) -> None:
        slot = self._enter(host, client.close)
        if slot is not None:
            self._tasks.create_task(self._shake_hands(client, host, slot))

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
