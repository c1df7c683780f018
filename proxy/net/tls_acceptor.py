"""A listening socket under TLS: each handshake is a task of its own, and one that fails is reported.

Used by proxy.net.listener. The loop's own TLS server drops what fails in a handshake without a word, and who
is turned away for a certificate is what an operator has to be able to prove.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable

from proxy.net.acceptor import Acceptor, Pace
from proxy.net.slot import Slot
from proxy.net.tls import ServerTls

HANDSHAKE_TIMEOUT_S = 30.0


class TlsAcceptor(Acceptor):
    """Connections count from the beginning of their handshake."""

    def __init__(
        self,
        tls: ServerTls,
        failed: Callable[[str, str], None],
        connection: Callable[[Slot], asyncio.BaseProtocol],
        enter: Callable[[str, Callable[[], None]], Slot | None],
        accept_failed: Callable[[str], None],
        tasks: asyncio.TaskGroup,
        pace: Pace | None = None,
    ) -> None:
        """`failed` gets a client's address and what was wrong, for a handshake that was rejected."""
        super().__init__(connection, enter, accept_failed, tasks, pace)
        self._tls = tls
        self._failed = failed

    async def begin(self, client: socket.socket, host: str, slot: Slot) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._connection(slot),
                client,
                ssl=self._tls.context,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            )
        except ssl.SSLError as error:
            self._failed(host, _told(error))


def _told(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"client certificate: {error.verify_message}"
    return f"TLS handshake: {error.reason or error}"
