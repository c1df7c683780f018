"""A listening socket under TLS: each handshake is a task of its own, and one that fails is reported.

Used by proxy.net.listener. The loop's own TLS server drops what fails in a handshake without a word, and who
is turned away for a certificate is what an operator has to be able to prove. A handshake costs about a
millisecond, so clients take turns, by address, and each starts when its ClientHello is there.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable

from proxy.net.acceptor import Acceptor, Pace
from proxy.net.client_hello import hello_arrived
from proxy.net.slot import Slot
from proxy.net.tls import ServerTls
from proxy.net.turns import Turns

HANDSHAKE_TIMEOUT_S = 30.0


class TlsAcceptor(Acceptor):
    """Connections count from the beginning of their handshake."""

    has_handshakes = True

    def __init__(
        self,
        tls: ServerTls,
        failed: Callable[[str, str], None],
        turns: Turns,
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
        self._turns = turns

    async def begin(self, client: socket.socket, host: str, slot: Slot) -> None:
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + HANDSHAKE_TIMEOUT_S
        try:
            async with asyncio.timeout_at(ends_s):
                await hello_arrived(client)
                await self._turns.next(host)
            await loop.connect_accepted_socket(
                lambda: self._connection(slot),
                client,
                ssl=self._tls.context,
                ssl_handshake_timeout=max(1.0, ends_s - loop.time()),
            )
        except ssl.SSLError as error:
            self._failed(host, _told(error))


def _told(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"client certificate: {error.verify_message}"
    return f"TLS handshake: {error.reason or error}"
