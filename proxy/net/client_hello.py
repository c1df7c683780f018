"""A client's first TLS record, waited for before anything is spent on its handshake.

Used by proxy.net.tls_acceptor. A client that is silent, or that sends its ClientHello byte by byte, costs a
socket until then, and neither an SSL object nor a wake-up for each byte: the kernel reports the socket when
the whole record is there (SO_RCVLOWAT).
"""

import asyncio
import socket

_HEAD_BYTES = 5
_HANDSHAKE = 22
_MAX_RECORD_BYTES = (1 << 14) + 256


async def hello_arrived(client: socket.socket) -> None:
    """Return once the record is there, or it is clear that there will be none. OSError."""
    await _readable(client, _HEAD_BYTES)
    head = client.recv(_HEAD_BYTES, socket.MSG_PEEK)
    if len(head) == _HEAD_BYTES and head[0] == _HANDSHAKE:
        size_bytes = int.from_bytes(head[3:], "big")
        await _readable(client, _HEAD_BYTES + min(size_bytes, _MAX_RECORD_BYTES))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)


async def _readable(client: socket.socket, size_bytes: int) -> None:
    """Return when so many bytes can be read, or the client has closed the connection."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size_bytes)
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(client, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(client)
