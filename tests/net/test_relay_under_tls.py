"""A side of a relayed connection under TLS, on uvloop: where full and drained have to come in pairs."""

import asyncio
import ssl

import pytest
import trustme

from proxy.net.clients.relay_protocol import ReceiveBuffers, RelayProtocol
from tests.support.edges import on_uvloop


class Echo(RelayProtocol):
    """Writes back what it reads, and notes before each write whether it is full with those before."""

    def __init__(self) -> None:
        super().__init__(ReceiveBuffers())
        self.was_full: list[bool] = []

    def buffer_updated(self, nbytes: int) -> None:
        self.was_full.append(self.full)
        self.write(bytes(self._buffers.current[:nbytes]))


@pytest.mark.spec("O3", "O6")
@on_uvloop
async def test_a_side_under_tls_is_not_full_when_its_peer_has_taken_everything() -> None:
    authority = trustme.CA()
    server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server_tls)
    client_tls = ssl.create_default_context()
    authority.configure_trust(client_tls)
    side = Echo()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: side, "127.0.0.1", 0, ssl=server_tls)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=client_tls, server_hostname="127.0.0.1"
    )
    for _ in range(3):
        writer.write(b"record")
        assert await reader.readexactly(6) == b"record"
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()

    assert side.was_full == [False, False, False]
